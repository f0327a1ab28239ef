--[[
  Keeps the answer of a slot, if its holder still has it.

  KEYS[1]   the slots of one scope (layout: begin.lua)
  KEYS[2]   when the slots end
  ARGV[1]   key
  ARGV[2]   token
  ARGV[3]   answer
  ARGV[4]   how long the answer is kept (ms), longer than any lease

  Returns 1, or 0 when the slot is not or no longer this holder's.
]]
local ms = now()
local value = running(KEYS[1], ARGV[1], ARGV[2])
if not value then return 0 end
if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0) <= ms then return 0 end
begin_writing(KEYS[1])
redis.call('HSET', KEYS[1], ARGV[1], 'F' .. string.sub(value, 2, 23) .. ARGV[3])
redis.call('ZADD', KEYS[2], ms + ARGV[4], ARGV[1])
for _, name in ipairs(KEYS) do redis.call('PEXPIRE', name, ARGV[4]) end
return 1
