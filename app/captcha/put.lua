--[[
  Stores a code: the first generation of a new record, or the next one of an existing record.

  KEYS[1]   a hash: sealed, generation (the valid one), made (the last one made, plus one for each reuse), left (tries),
            ends (ms since the epoch), ended ('' or how), by (token of the try that verified the code), sender (which
            took its message, or ''), perhaps (which last may have taken a message, if any), resends (JSON: the last
            nine, each [token, generation, state before it]), receipts (of the last nine messages, with blanks between)
  ARGV[1]   the sealed text of a new record; '' to make the next generation of the existing one
  ARGV[2]   lifetime of the code, in milliseconds
  ARGV[3]   tries
  ARGV[4]   how long the record is kept, in milliseconds
  ARGV[5]   token of this resend alone

  Returns the generation; nil when there is no record to make the next one of, or its code was verified or cancelled.
]]
local sealed, generation = ARGV[1], 1
if sealed == '' then
  local held = redis.call('HMGET', KEYS[1], 'sealed', 'generation', 'made', 'left', 'ends', 'ended', 'sender', 'resends')
  if not held[1] or held[6] == 'verified' or held[6] == 'cancelled' then return end
  sealed, generation = held[1], held[3] + 1
  local resends = cjson.decode(held[8] or '[]')
  resends[#resends + 1] = { ARGV[5], generation, { held[2], held[4], held[5], held[6], held[7] } }
  -- rules such as `in-flight` let fewer be under way at once, so none that may be taken back is dropped
  if #resends > 9 then table.remove(resends, 1) end
  redis.call('HSET', KEYS[1], 'resends', cjson.encode(resends))
end
redis.call('HSET', KEYS[1], 'sealed', sealed, 'generation', generation, 'made', generation, 'left', ARGV[3],
  'ends', string.format('%.0f', now() + ARGV[2]), 'ended', '', 'sender', '')
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return generation
