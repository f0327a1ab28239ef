--[[
  Ends a code for good, one that has expired or failed, too: no other may follow it.

  KEYS[1]   the hash (layout: put.lua)
  Returns 1 when it was ended, 0 when it was verified or cancelled before.
]]
local held = redis.call('HMGET', KEYS[1], 'sealed', 'ended')
-- told that it has ended, the caller must be right: the try that used it up is not taken back any more
if held[2] == 'verified' then redis.call('HDEL', KEYS[1], 'by') end
if not held[1] or held[2] == 'verified' or held[2] == 'cancelled' then return 0 end
begin_writing(KEYS[1])
redis.call('HSET', KEYS[1], 'ended', 'cancelled')
return 1
