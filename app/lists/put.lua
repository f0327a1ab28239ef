-- Puts one on a list.
-- KEYS: 1 entries (hash: id to what is kept), 2 ends (sorted by when they end), 3 blocked, 4 allowed (sorted by
--   placing), 5 counter of placings
-- ARGV: 1 id, 2 standing ('blocked' or 'allowed'), 3 milliseconds until it ends, 0: never, 4 how many entries at most,
--   5 what else is kept, as text
-- Returns: since, in milliseconds since the epoch; -1 when the lists are full
local ms = now()
sweep(KEYS, ms)
local id, standing = ARGV[1], ARGV[2]
local held = redis.call('HLEN', KEYS[1]) - redis.call('ZCOUNT', KEYS[2], '-inf', ms)
if held >= tonumber(ARGV[4]) and read(KEYS[1], id, ms) == '' then return -1 end
take(KEYS, id)
local until_ = 0
if ARGV[3] ~= '0' then
  until_ = ms + tonumber(ARGV[3])
  redis.call('ZADD', KEYS[2], string.format('%.0f', until_), id)
end
redis.call('HSET', KEYS[1], id, string.format('%.0f %.0f %s %s', ms, until_, standing, ARGV[5]))
local order = redis.call('INCR', KEYS[5])
redis.call('ZADD', standing == 'blocked' and KEYS[3] or KEYS[4], order, id)
return ms
