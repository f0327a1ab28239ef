--[[
  Puts one on a list.

  KEYS[1]   entries, a hash: id to what is kept
  KEYS[2]   ends, a sorted set: ids by when they end
  KEYS[3]   blocked, a sorted set: ids by placing
  KEYS[4]   allowed, likewise
  KEYS[5]   the counter of placings
  ARGV[1]   id
  ARGV[2]   standing: 'blocked' or 'allowed'
  ARGV[3]   until it ends (ms); 0: never
  ARGV[4]   how many entries at most
  ARGV[5]   what else is kept, as text

  Returns since when, in milliseconds since the epoch; -1 when the lists are full.
]]
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
