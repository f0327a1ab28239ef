--[[
  Makes a code usable again that this try has used up. Has no effect a second time, should a client ask twice.

  KEYS[1]   the hash (layout: put.lua)
  ARGV[1]   token of the try, as given to check.lua
]]
if redis.call('HGET', KEYS[1], 'by') == ARGV[1] then
  begin_writing(KEYS[1])
  redis.call('HSET', KEYS[1], 'ended', '', 'by', '')
end
