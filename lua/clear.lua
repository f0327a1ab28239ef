--[[
  Forgets what is counted; a block stays.

  KEYS[i]   logs, counts or locks
  Returns how many keys held anything.
]]
local cleared = 0
for _, key in ipairs(KEYS) do
  local value = redis.call('GET', key) or ''
  local counted = #value - (#value % 6 == 1 and 7 or 0)
  if counted > 0 then
    cleared = cleared + 1
    if #value == counted then
      redis.call('DEL', key)
    else
      redis.call('SET', key, value:sub(-7), 'KEEPTTL')
    end
  end
end
return cleared
