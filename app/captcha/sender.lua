--[[
  Notes which sender took the message of a code, if that code is the valid one.

  KEYS[1]   the hash (layout: put.lua)
  ARGV[1]   generation of the code
  ARGV[2]   name of the sender; '' when no sender is known to have taken the message
]]
if redis.call('HGET', KEYS[1], 'generation') == ARGV[1] then
  begin_writing(KEYS[1])
  redis.call('HSET', KEYS[1], 'sender', ARGV[2])
end
