--[[
  Prepended to each script of this folder, after app/prelude.lua.

  KEYS[1]   entries, a hash: the text of each entry by id (format: put.lua)
  KEYS[2]   ends, a sorted set: ids by when their entries end, if they do
  KEYS[3]   blocked, a sorted set: ids by placing
  KEYS[4]   allowed, likewise
  KEYS[5]   the fingerprint of the secret under which the ids are hashed
  ARGV[1]   the fingerprint of the caller's secret

  Under another secret no id would be found, so such lists are left alone: the script fails. Lists without entries and
  fingerprint take that of the first caller.
]]
local fingerprint = redis.call('GET', KEYS[5])
if not fingerprint and redis.call('HLEN', KEYS[1]) == 0 then
  fingerprint = ARGV[1]
  -- put.lua may add an entry to a full Redis, so this must add the fingerprint, too. If Redis takes no writes at all, it
  -- is still read, and a later caller claims the lists.
  pcall(begin_writing, KEYS[1])
  redis.pcall('SET', KEYS[5], fingerprint)
end
if fingerprint ~= ARGV[1] then return redis.error_reply('OTHERSECRET the lists are kept under another secret') end

-- Reads the text of an entry; '' when there is none or it has ended.
local function read(id, ms)
  local kept = redis.call('HGET', KEYS[1], id)
  if not kept then return '' end
  local ends = tonumber(string.match(kept, '^%d+ (%d+)'))
  return (ends == 0 or ends > ms) and kept or ''
end

-- Deletes an entry.
local function take(id)
  for i = 2, 4 do redis.call('ZREM', KEYS[i], id) end
  redis.call('HDEL', KEYS[1], id)
end

-- Deletes ended entries, no more at once than a script has time for, so some may stay. All stay while Redis takes no
-- writes: it can still be read.
local function sweep(ms)
  local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ms, 'LIMIT', 0, 1000)
  for _, id in ipairs(ended) do
    if not pcall(take, id) then return end
  end
end
