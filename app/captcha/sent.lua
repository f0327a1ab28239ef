--[[
  Notes what became of the message of a code: its receipt; which sender may have taken it; and which took it, if that
  code is the valid one, or may be again when a resend is taken back (restore.lua).

  KEYS[1]   the hash (layout: put.lua)
  ARGV[1]   generation of the code
  ARGV[2]   name of the sender; '' when no sender is known to have taken the message
  ARGV[3]   receipt of the message, without blanks; '' for none
  ARGV[4]   name of the sender that may have taken the message, and did not say so; '' for none

  Returns 1 if the code was verified before, so that check.lua did not return this receipt; else 0.
]]
local held = redis.call('HMGET', KEYS[1], 'generation', 'ended', 'resends', 'receipts')
if not held[1] then return 0 end
begin_writing(KEYS[1])
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'perhaps', ARGV[4]) end
if ARGV[3] ~= '' then
  local receipts = held[4] and held[4] .. ' ' .. ARGV[3] or ARGV[3]
  -- the last nine
  if select(2, receipts:gsub(' ', '')) == 9 then receipts = receipts:match(' (.*)') end
  redis.call('HSET', KEYS[1], 'receipts', receipts)
end
if held[1] == ARGV[1] then
  redis.call('HSET', KEYS[1], 'sender', ARGV[2])
else
  local resends = cjson.decode(held[3] or '[]')
  for _, resend in ipairs(resends) do
    local former = resend[3]
    if former[1] == ARGV[1] then former[5] = ARGV[2] end
  end
  if #resends > 0 then redis.call('HSET', KEYS[1], 'resends', cjson.encode(resends)) end
end
return held[2] == 'verified' and 1 or 0
