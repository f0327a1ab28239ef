--[[
  Stands before the other scripts.

  KEYS[1]   entries, a hash: id to what is kept
  KEYS[2]   ends, a sorted set: ids by when they end
  KEYS[3]   blocked, a sorted set: ids by placing
  KEYS[4]   allowed, likewise
  KEYS[5]   the fingerprint of the secret by which ids are made
  ARGV[1]   that of who asks

  Under another secret nobody is found: such lists are left alone. Those that hold nobody and name no secret are of who
  asks first.
]]
local fingerprint = redis.call('GET', KEYS[5])
if not fingerprint and redis.call('HLEN', KEYS[1]) == 0 then
  fingerprint = ARGV[1]
  redis.call('SET', KEYS[5], fingerprint)
end
if fingerprint ~= ARGV[1] then return redis.error_reply('OTHERSECRET the lists are kept under another secret') end

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

-- Takes off what has ended, no more at once than a script may take time for: more may stay, and all of it where Redis
-- takes no writes, which may be read.
local function sweep(keys, ms)
  local ended = redis.call('ZRANGEBYSCORE', keys[2], '-inf', ms, 'LIMIT', 0, 1000)
  for _, id in ipairs(ended) do
    if not pcall(take, keys, id) then return end
  end
end
