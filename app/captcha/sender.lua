--[[
  Notes which sender took the message of a code, if that code is the valid one, or may be again when a resend is taken
  back (restore.lua).

  KEYS[1]   the hash (layout: put.lua)
  ARGV[1]   generation of the code
  ARGV[2]   name of the sender; '' when no sender is known to have taken the message
]]
local held = redis.call('HMGET', KEYS[1], 'generation', 'resends')
if held[1] == ARGV[1] then
  begin_writing(KEYS[1])
  redis.call('HSET', KEYS[1], 'sender', ARGV[2])
  return
end
local resends = cjson.decode(held[2] or '[]')
for _, resend in ipairs(resends) do
  local former = resend[3]
  if former[1] == ARGV[1] then
    former[5] = ARGV[2]
    begin_writing(KEYS[1])
    redis.call('HSET', KEYS[1], 'resends', cjson.encode(resends))
    return
  end
end
