--[[
  Ends a code that may still be used.

  KEYS[1]   the hash (layout: put.lua)
  Returns 1 when it was ended, else 0.
]]
local held = redis.call('HMGET', KEYS[1], 'ends', 'ended')
-- told that it has ended, the caller must be right: the try that used it up is not taken back any more
if held[2] == 'verified' then redis.call('HDEL', KEYS[1], 'by') end
if not held[1] or held[2] ~= '' or tonumber(held[1]) <= now() then return 0 end
begin_writing(KEYS[1])
redis.call('HSET', KEYS[1], 'ended', 'cancelled')
return 1
