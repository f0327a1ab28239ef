--[[
  Forgets a slot, if it is this holder's.

  KEYS[1]   the slots of one scope (layout: begin.lua)
  KEYS[2]   when they end
  ARGV[1]   key
  ARGV[2]   token

  Returns 1 when it was forgotten, else 0.
]]
local value = redis.call('HGET', KEYS[1], ARGV[1])
if not value or string.sub(value, 1, 1) ~= 'R' or string.sub(value, 24) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
