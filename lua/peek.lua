--[[
  Reads without changing anything.

  KEYS[i]   the keys
  Returns { seconds, microseconds, values }
]]
local time = redis.call('TIME')
return { time[1], time[2], redis.call('MGET', unpack(KEYS)) }
