--[[
  Takes a recipient off the lists, if on one.

  ARGV[2]   id
]]
take(ARGV[2])
