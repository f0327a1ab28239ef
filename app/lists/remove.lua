--[[
  Takes one off its list.

  ARGV[2]   id
]]
take(KEYS, ARGV[2])
