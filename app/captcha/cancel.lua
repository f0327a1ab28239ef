--[[
  Cancels a code for good, also one that has expired or failed: no resend may follow.

  KEYS[1]   the hash (layout: put.lua)
  Returns 1 when the code was cancelled, 0 when there is none or it was verified or cancelled before.
]]
local held = redis.call('HMGET', KEYS[1], 'sealed', 'ended')
-- The caller is told that the code was verified. That must stay true: without `by`, uncheck.lua cannot undo it.
if held[2] == 'verified' then redis.call('HDEL', KEYS[1], 'by') end
if not held[1] or held[2] == 'verified' or held[2] == 'cancelled' then return 0 end
begin_writing(KEYS[1])
redis.call('HSET', KEYS[1], 'ended', 'cancelled')
return 1
