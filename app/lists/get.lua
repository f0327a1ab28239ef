-- Reads one.
-- KEYS: 1 entries, 2 ends, 3 blocked, 4 allowed
-- ARGV: 1 id
-- Returns: what is kept, '' for nobody or one that has ended; now, in milliseconds since the epoch
local ms = now()
sweep(KEYS, ms)
return { read(KEYS[1], ARGV[1], ms), ms }
