--[[
  Puts a recipient on a list, in place of any former entry.

  KEYS[6]   the counter of placings
  ARGV[2]   id
  ARGV[3]   standing: 'blocked' or 'allowed'
  ARGV[4]   how long until the entry ends (ms); 0: never
  ARGV[5]   the most entries that the lists take
  ARGV[6]   what else is kept, as text

  The text of an entry: since when, until when (0: never), both in ms since the epoch, standing and ARGV[6].

  Returns since when, in milliseconds since the epoch; -1 when the lists are full.
]]
local ms = now()
sweep(ms)
local id, standing = ARGV[2], ARGV[3]
local held = redis.call('HLEN', KEYS[1]) - redis.call('ZCOUNT', KEYS[2], '-inf', ms)
if held >= tonumber(ARGV[5]) and read(id, ms) == '' then return -1 end
take(id)
local until_ = 0
if ARGV[4] ~= '0' then
  until_ = ms + tonumber(ARGV[4])
  redis.call('ZADD', KEYS[2], string.format('%.0f', until_), id)
end
redis.call('HSET', KEYS[1], id, string.format('%.0f %.0f %s %s', ms, until_, standing, ARGV[6]))
local order = redis.call('INCR', KEYS[6])
redis.call('ZADD', standing == 'blocked' and KEYS[3] or KEYS[4], order, id)
return ms
