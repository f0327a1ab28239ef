--[[
  Gives the valid code out again. From now on it has gone out by more than the resend that made it, so no resend is
  remembered that could be taken back.

  KEYS[1]   the hash (layout: put.lua)
  Returns the record as it was before, as get.lua does; nil when the code has ended.
]]
local before = read(KEYS[1])
if not before or before[7] ~= '' or tonumber(before[6]) <= before[1] then return end
-- also begins writing, for a Redis that is full
redis.call('HDEL', KEYS[1], 'resends')
redis.call('HINCRBY', KEYS[1], 'made', 1)
return before
