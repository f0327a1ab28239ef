--[[
  Lets a code be used again that a try has used up, if it was this one.

  KEYS[1]   the hash (layout: put.lua)
  ARGV[1]   the try, as check.lua was told it
]]
local held = redis.call('HMGET', KEYS[1], 'ended', 'by')
if held[1] == 'verified' and held[2] == ARGV[1] then redis.call('HSET', KEYS[1], 'ended', '') end
