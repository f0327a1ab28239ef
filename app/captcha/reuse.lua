--[[
  Gives the valid code out once more.

  KEYS[1]   the hash (layout: put.lua)
  Returns what get.lua does; nothing when the code has ended.
]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held = redis.call('HMGET', KEYS[1], 'sealed', 'generation', 'made', 'left', 'ends', 'ended', 'unknown')
if not held[1] or held[6] ~= '' or tonumber(held[5]) <= now then return end
redis.call('HINCRBY', KEYS[1], 'made', 1)
return { now, unpack(held) }
