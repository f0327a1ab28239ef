--[[
  Ends blocks; what was counted stays counted.

  KEYS[i]   logs, counts or distinct logs
  ARGV[i]   time to live of what is counted under key i, in milliseconds
]]
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key) or ''
  if #value % 6 == 1 then
    if #value == 7 then
      redis.call('DEL', key)
    else
      redis.call('SET', key, value:sub(1, -8), 'PX', ARGV[i])
    end
  end
end
