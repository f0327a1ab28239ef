--[[
  Takes one off its list.

  KEYS      as put.lua says, but for the counter
  ARGV[1]   id

  Returns 1 when it was on one, else 0.
]]
local kept = read(KEYS[1], ARGV[1], now())
take(KEYS, ARGV[1])
return kept == '' and 0 or 1
