-- Reads one.
-- KEYS: 1 entries
-- ARGV: 1 id
-- Returns: what is kept, '' for nobody or one that has ended
local kept = redis.call('HGET', KEYS[1], ARGV[1])
if not kept then return '' end
local ends = tonumber(string.match(kept, '^%d+ (%d+)'))
return (ends == 0 or ends > now()) and kept or ''
