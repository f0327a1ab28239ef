-- Stands before the other scripts.

-- What is kept of one; '' for nobody or one that has ended.
local function read(entries, id, ms)
  local kept = redis.call('HGET', entries, id)
  if not kept then return '' end
  local ends = tonumber(string.match(kept, '^%d+ (%d+)'))
  return (ends == 0 or ends > ms) and kept or ''
end

-- Takes one off all lists. keys: entries, ends, blocked, allowed.
local function take(keys, id)
  redis.call('ZREM', keys[2], id)
  redis.call('ZREM', keys[3], id)
  redis.call('ZREM', keys[4], id)
  redis.call('HDEL', keys[1], id)
end

-- Takes off what has ended, no more at once than a script may take time for: more may stay.
local function sweep(keys, ms)
  local ended = redis.call('ZRANGEBYSCORE', keys[2], '-inf', ms, 'LIMIT', 0, 1000)
  for _, id in ipairs(ended) do take(keys, id) end
end
