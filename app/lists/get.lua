--[[
  Reads one.

  ARGV[2]   id

  Returns what is kept, '' for nobody or one that has ended; and now, in milliseconds since the epoch.
]]
local ms = now()
sweep(KEYS, ms)
return { read(KEYS[1], ARGV[2], ms), ms }
