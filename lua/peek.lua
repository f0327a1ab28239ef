--[[
  Reads without changing anything.

  KEYS[i]   the keys
  Returns { now, values }; now in ticks of 10 µs since 2020

  Returns an error if the clock of this server is before 2020 or after 2109.
]]
local time = redis.call('TIME')
local now = (time[1] - 1577836800) * 100000 + math.floor(time[2] / 10)
if now < 2 ^ 32 or now >= 2 ^ 48 then return redis.error_reply('CLOCK this server is before 2020 or after 2109') end
return { now, redis.call('MGET', unpack(KEYS)) }
