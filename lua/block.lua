--[[
  Blocks identities, beside whatever is counted for them.

  KEYS[i]    logs, counts or distinct logs
  ARGV[1]    for how many milliseconds; 0 for ever (a key without expiry)
  ARGV[i+1]  time to live of what is counted under key i, in milliseconds

  Returns an error, for a block that ends, if the clock of this server is before 2020 or after 2109.
]]
local time = redis.call('TIME')
local now = (time[1] - 1577836800) * 100000 + math.floor(time[2] / 10)
local span = tonumber(ARGV[1])
-- The end of the block could not be stored, and Redis would expire the key once its clock is put right.
if span > 0 and (now < 2 ^ 32 or now >= 2 ^ 48) then
  return redis.error_reply('CLOCK this server is before 2020 or after 2109')
end
local ends = span == 0 and 2 ^ 48 - 1 or now + span * 100

for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key) or ''
  if #value % 6 == 1 then value = value:sub(1, -8) end
  local blocked = value .. struct.pack('>I6', ends) .. 'B'
  if span == 0 then
    redis.call('SET', key, blocked)
  else
    redis.call('SET', key, blocked, 'PX', math.max(span + 1, ARGV[i + 1]))
  end
end
