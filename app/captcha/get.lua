--[[
  Reads a record.

  KEYS[1]   the hash (layout: put.lua)
  Returns now (ms since the epoch), sealed, generation, made, left, ends, ended, sender, perhaps; nil when there is no
  record.
]]
return read(KEYS[1])
