--[[
  Clears what is counted; a block stays.

  KEYS[i]   logs, counts, locks or distinct logs
]]
for _, key in ipairs(KEYS) do
  local value = redis.call('GET', key) or ''
  if #value % 6 == 1 then
    redis.call('SET', key, value:sub(-7), 'KEEPTTL')
  else
    redis.call('DEL', key)
  end
end
