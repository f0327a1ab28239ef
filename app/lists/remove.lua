-- Takes one off its list.
-- KEYS: 1 entries, 2 ends, 3 blocked, 4 allowed
-- ARGV: 1 id
-- Returns: 1 when it was on one, else 0
local ms = now()
sweep(KEYS, ms)
local kept = read(KEYS[1], ARGV[1], ms)
take(KEYS, ARGV[1])
return kept == '' and 0 or 1
