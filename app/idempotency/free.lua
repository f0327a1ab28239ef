--[[
  Forgets a slot, if it is this holder's.

  KEYS[1]   the slots of one scope (layout: begin.lua)
  KEYS[2]   when the slots end
  ARGV[1]   key
  ARGV[2]   token
]]
if not running(KEYS[1], ARGV[1], ARGV[2]) then return end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
