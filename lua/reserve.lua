--[[
  Decides over all keys at once whether one more may go; if so, counts it under every one of them.
  A refusal writes nothing.

  KEYS[i]   one key per entry: a log, a count, a lock or a distinct log (layouts: README.md)
  ARGV[1]   the entries in the order of KEYS: decimal numbers, each ended by a zero byte,
              log       1, rule, ttl (ms), keep, n, then n times: max, window
              count     2, rule, ttl (ms), max, 4, and four boundaries: of the period before, this, the next, its end
              lock      3, rule, ttl (ms), 0, 0
              distinct  4, rule, ttl (ms), value, n, then n times: max, window
            `rule` is -1 when in force, the number of the rule when it is only observed. The numbers are texts here;
            Lua makes numbers of those it reckons with.
  ARGV[2]   the token of the locks, 24 characters; only where there are any

  Returns { the values of KEYS as they were, now, admitted (0, 1) }. What is used, what is left and the receipts
  follow from those, so the caller reckons them.
  Returns { now, -1 } when the boundaries do not hold this server's clock: ask again with that clock.

  Times are ticks of 10 µs since 2020, spans are ticks, unless said otherwise.
]]
local LOG, COUNT, LOCK = '1', '2', '3'
-- What a distinct log holds at most; the values in it have equal shares.
local PAIRS = 500

local call, read, pack = redis.call, struct.unpack, struct.pack
local time = call('TIME')
local now = (time[1] - 1577836800) * 100000 + math.floor(time[2] / 10)
local values = call('MGET', unpack(KEYS))
local policy, at = ARGV[1], 1

-- whether `own` may follow the pairs, and what is written then
local function distinct(pairs, own, limits, ttl)
  -- of each value its newest pair in the time to live: `mine`, 0 for none, and the others', newest first
  local since, seen, others, mine, live = now - ttl * 100, {}, {}, 0, #pairs / 12
  for i = 1, live do
    local stamp, to = read('>I6I6', pairs, i * 12 - 11)
    if stamp <= since then live = i - 1 break end
    if not seen[to] then
      seen[to] = true
      if to == own then mine = stamp else others[#others + 1] = stamp end
    end
  end
  local passes = true
  for _ = 1, limits do
    local max, window
    max, window, at = read('ss', policy, at)
    max = max + 0
    -- One of the `max` newest values may come again.
    local again = max > #others or (max > 0 and others[max] <= mine)
    if not again and (max == 0 or others[max] > now - window) then passes = false end
  end
  if not passes then return false end

  local stamp, share = now, math.floor(PAIRS / (#others + 1))
  if pairs ~= '' then stamp = math.max(now, read('>I6', pairs) + 1) end
  local times, kept = { [own] = 1 }, { pack('>I6I6', stamp, own) }
  for i = 1, live do
    local to = read('>I6', pairs, i * 12 - 5)
    times[to] = (times[to] or 0) + 1
    if times[to] <= share then kept[#kept + 1] = pairs:sub(i * 12 - 11, i * 12) end
  end
  return true, table.concat(kept)
end

-- What is to be written under each key, and for how long. A table that need not grow costs less.
local written, ttls = { 0, 0, 0, 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0, 0, 0 }
local admitted, missing, stamp = 1, 0, pack('>I6', now)
local observed, skipped
for i = 1, #KEYS do
  -- `keep` is a count's max and a distinct log's value
  local kind, rule, ttl, keep, limits
  kind, rule, ttl, keep, limits, at = read('sssss', policy, at)
  local value, passes, new = values[i], true
  if not value then
    value, missing = '', missing + 1
  elseif #value % 6 == 1 then
    passes = read('>I6', value, #value - 6) <= now
    value = value:sub(1, -8)
  end

  if kind == LOG then
    for _ = 1, limits do
      local max, window
      max, window, at = read('ss', policy, at)
      -- used up, when the `max`-th stamp from the newest is in the window
      local bytes = max * 6
      if #value >= bytes and (bytes == 0 or read('>I6', value, bytes - 5) > now - window) then passes = false end
    end
    if passes then
      new = stamp
      if value ~= '' then
        local newest = read('>I6', value)
        if newest >= now then new = pack('>I6', newest + 1) end
        new = new .. value:sub(1, keep * 6 - 6)
      end
    end
  elseif kind == COUNT then
    local before, this, following, last
    before, this, following, last, at = read('ssss', policy, at)
    -- a period that has begun ends when it ends, should the rule's time zone change meanwhile
    local ends, used, issued = 0
    if value ~= '' then ends, used, issued = read('>I6I6I6', value) end
    if ends <= now then
      -- receipts begin at the clock: those of a count that was cleared are never issued again
      ends, used, issued, value = following + 0, 0, now - 1, ''
      if now < this + 0 then ends = this + 0 elseif now >= ends then ends = last + 0 end
      if now < before + 0 or now >= ends then return { now, -1 } end
    end
    if used >= keep + 0 then
      passes = false
    elseif passes then
      new = pack('>I6I6I6', ends, used + 1, issued + 1) .. value:sub(19)
      ttl = math.ceil((ends - now) / 100)
    end
  elseif kind == LOCK then
    if value ~= '' and read('>I6', value) > now then passes = false end
    new = pack('>I6', now + ttl * 100) .. ARGV[2]
  else
    local free
    free, new = distinct(value, keep + 0, limits, ttl)
    passes = passes and free
  end

  if rule ~= '-1' then
    observed, skipped = observed or {}, skipped or {}
    observed[i] = rule
    if not passes then skipped[rule] = true end
  elseif not passes then
    admitted = 0
  end
  if admitted == 1 then written[i], ttls[i] = new, ttl end
end

if admitted == 1 then
  -- MGET is silent about a key of another type, and what is not ours is not overwritten
  if missing > 0 and call('EXISTS', unpack(KEYS)) > #KEYS - missing then
    return redis.error_reply('WRONGTYPE a key of these limits holds something else')
  end
  for i = 1, #KEYS do
    if not (skipped and skipped[observed[i]]) then call('SET', KEYS[i], written[i], 'PX', ttls[i]) end
  end
end
local n = #KEYS
values[n + 1], values[n + 2] = now, admitted
return values
