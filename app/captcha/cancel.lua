--[[
  Ends a code, if it still is the one of its slot.

  KEYS[1]   the slot (layout: check.lua)
  ARGV[1]   nonce

  Returns 1 when it was ended, else 0.
]]
local held = redis.call('GET', KEYS[1])
if not held or string.sub(held, 2, 23) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
