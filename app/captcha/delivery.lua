--[[
  Notes whether it is unknown that the message of a code went out, while that code is the valid one.

  KEYS[1]   the hash (layout: put.lua)
  ARGV[1]   generation of the code
  ARGV[2]   '1': it is; else ''
]]
if redis.call('HGET', KEYS[1], 'generation') == ARGV[1] then redis.call('HSET', KEYS[1], 'unknown', ARGV[2]) end
