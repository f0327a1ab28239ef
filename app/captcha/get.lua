--[[
  Reads a record.

  KEYS[1]   the hash (layout: put.lua)
  Returns now (ms since the epoch), sealed, generation, made, left, ends, ended, unknown; nothing when it is not there.
]]
local time = redis.call('TIME')
local held = redis.call('HMGET', KEYS[1], 'sealed', 'generation', 'made', 'left', 'ends', 'ended', 'unknown')
if not held[1] then return end
return { time[1] * 1000 + math.floor(time[2] / 1000), unpack(held) }
