--[[
  Reads the entry of a recipient.

  ARGV[2]   id

  Returns the entry as text, '' when there is none or it has ended; and now, in milliseconds since the epoch.
]]
local ms = now()
sweep(ms)
return { read(ARGV[2], ms), ms }
