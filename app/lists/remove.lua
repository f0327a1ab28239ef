--[[
  Takes one off its list.

  ARGV[2]   id

  Returns 1 when it was on one, else 0.
]]
local kept = read(KEYS[1], ARGV[2], now())
take(KEYS, ARGV[2])
return kept == '' and 0 or 1
