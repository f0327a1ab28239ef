--[[
  Ends a code that may still be used.

  KEYS[1]   the hash (layout: put.lua)
  Returns 1 when it was ended, else 0.
]]
local held = redis.call('HMGET', KEYS[1], 'ends', 'ended')
if not held[1] or held[2] ~= '' or tonumber(held[1]) <= now() then return 0 end
redis.call('HSET', KEYS[1], 'ended', 'cancelled')
return 1
