--[[
  Notes that the message of a code may not have gone out.

  KEYS[1]   the hash (layout: put.lua)
]]
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'unknown', '1') end
