--[[
  Gives the valid code out again.

  KEYS[1]   the hash (layout: put.lua)
  Returns the record as it was before, as get.lua does; nil when the code has ended.
]]
local before = read(KEYS[1])
if not before or before[7] ~= '' or tonumber(before[6]) <= before[1] then return end
begin_writing(KEYS[1])
redis.call('HINCRBY', KEYS[1], 'made', 1)
return before
