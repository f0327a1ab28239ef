--[[
  Prolongs the locks that are still this holder's.

  KEYS[i]   the locks
  ARGV[1]   the token, 24 characters
  ARGV[i+1] time to live of lock i, in milliseconds

  Returns how many were prolonged; fewer than KEYS: the others are lost.
]]
local time = redis.call('TIME')
local now = (time[1] - 1577836800) * 100000 + math.floor(time[2] / 10)

local renewed = 0
for i, key in ipairs(KEYS) do
  local value, ttl = redis.call('GET', key), ARGV[i + 1]
  if value and value:sub(7) == ARGV[1] and struct.unpack('>I6', value) > now then
    -- A Redis that is full takes the value only of a script that has written before.
    redis.call('PEXPIREAT', key, string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ttl + 1))
    redis.call('SET', key, struct.pack('>I6', now + ttl * 100) .. ARGV[1], 'PX', ttl + 1)
    renewed = renewed + 1
  end
end
return renewed
