--[[
  Notes whether it is unknown that the message of a code went out.

  KEYS[1]   the hash (layout: put.lua)
  ARGV[1]   '1': it is; else ''
]]
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'unknown', ARGV[1]) end
