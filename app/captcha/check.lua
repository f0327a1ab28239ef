--[[
  Counts a try. In the same step, ends the code if the try was right, or was the last one.

  KEYS[1]   the hash (layout: put.lua)
  ARGV[1]   generation whose code was given; 0 if no generation has it
  ARGV[2]   token of this try alone

  Returns { verified (0, 1), tries left, tried (0 when there was no code to try, else 1), receipts (when verified) }.
]]
local held = redis.call('HMGET', KEYS[1], 'generation', 'left', 'ends', 'ended', 'receipts')
if not held[1] or held[4] ~= '' or tonumber(held[3]) <= now() then return { 0, 0, 0, '' } end
begin_writing(KEYS[1])
if held[1] == ARGV[1] then
  redis.call('HSET', KEYS[1], 'ended', 'verified', 'by', ARGV[2])
  return { 1, tonumber(held[2]), 1, held[5] or '' }
end
local left = redis.call('HINCRBY', KEYS[1], 'left', -1)
if left == 0 then redis.call('HSET', KEYS[1], 'ended', 'failed') end
return { 0, left, 1, '' }
