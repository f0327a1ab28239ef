--[[
  Checks a code and in the same step ends it when it is right, or when that was the last try.

  KEYS[1]   the slot: tries left (1 digit), nonce (22 characters), digest (43 characters)
  ARGV[1]   nonce
  ARGV[2]   digest

  Returns -1 when the code is right, else how many tries are left; 0 also for what is not there.
]]
local held = redis.call('GET', KEYS[1])
if not held or string.sub(held, 2, 23) ~= ARGV[1] then return 0 end
if string.sub(held, 24) == ARGV[2] then
  redis.call('DEL', KEYS[1])
  return -1
end
local left = tonumber(string.sub(held, 1, 1)) - 1
if left == 0 then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], left .. string.sub(held, 2), 'KEEPTTL')
end
return left
