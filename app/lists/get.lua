-- Reads one.
-- KEYS: 1 entries
-- ARGV: 1 id
-- Returns: what is kept, '' for nobody or one that has ended; now, in milliseconds since the epoch
local ms = now()
return { read(KEYS[1], ARGV[1], ms), ms }
