-- Takes one off its list.
-- KEYS: 1 entries, 2 ends, 3 blocked, 4 allowed
-- ARGV: 1 id
-- Returns: 1 when it was on one, else 0
sweep(KEYS, now())
return take(KEYS, ARGV[1])
