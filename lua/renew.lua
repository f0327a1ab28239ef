--[[
  Renews a lock that is still held under this token: from now on it lasts its time to live.

  KEYS[1]   the lock
  ARGV[1]   the token, 24 characters
  ARGV[2]   its time to live, in milliseconds

  Returns 1, or 0 when the lock is lost.
]]
local time = redis.call('TIME')
local now = (time[1] - 1577836800) * 100000 + math.floor(time[2] / 10)
local key, token, ttl = KEYS[1], ARGV[1], ARGV[2]

local value = redis.call('GET', key)
if not value or value:sub(7) ~= token or struct.unpack('>I6', value) <= now then return 0 end
-- A Redis that is full takes the value only from a script that has written before.
redis.call('PEXPIREAT', key, string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ttl + 1))
redis.call('SET', key, struct.pack('>I6', now + ttl * 100) .. token, 'PX', ttl + 1)
return 1
