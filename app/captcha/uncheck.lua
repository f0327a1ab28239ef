--[[
  Lets a code be used again that a try has used up, if it was this one; once, should a client ask twice.

  KEYS[1]   the hash (layout: put.lua)
  ARGV[1]   the try, as check.lua was told it
]]
if redis.call('HGET', KEYS[1], 'by') == ARGV[1] then
  begin_writing(KEYS[1])
  redis.call('HSET', KEYS[1], 'ended', '', 'by', '')
end
