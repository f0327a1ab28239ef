--[[
  Keeps a code, its first generation or the next.

  KEYS[1]   a hash: sealed, generation (the valid one), made (the last one, and one more for each reuse),
            left (tries), ends (ms since the epoch), ended ('' or how), by (the try that verified it), sender
            (that took its message, or ''), and resends: what was before each of the last ones, in JSON
  ARGV[1]   what is sealed; '' to make the next generation of what is there
  ARGV[2]   lifetime of the code, in milliseconds
  ARGV[3]   tries
  ARGV[4]   how long the record is kept, in milliseconds
  ARGV[5]   names a resend among all others

  Returns the record as it was before: now, sealed, generation, made, left, ends, ended, sender; nothing when there is no
  record to go on from, or it was verified or cancelled.
]]
local ms = now()
local sealed, generation, before = ARGV[1], 1, { ms }
if sealed == '' then
  local held = redis.call('HMGET', KEYS[1], 'sealed', 'generation', 'made', 'left', 'ends', 'ended', 'sender', 'resends')
  if not held[1] or held[6] == 'verified' or held[6] == 'cancelled' then return end
  for i = 1, 7 do before[i + 1] = held[i] end
  sealed, generation = held[1], held[3] + 1
  local resends = cjson.decode(held[8] or '[]')
  resends[#resends + 1] = { ARGV[5], generation, { held[2], held[4], held[5], held[6], held[7] } }
  -- more are not under way at once
  if #resends > 9 then table.remove(resends, 1) end
  redis.call('HSET', KEYS[1], 'resends', cjson.encode(resends))
end
redis.call('HSET', KEYS[1], 'sealed', sealed, 'generation', generation, 'made', generation, 'left', ARGV[3],
  'ends', string.format('%.0f', ms + ARGV[2]), 'ended', '', 'sender', '')
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return before
