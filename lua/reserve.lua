--[[
  Decides over all keys at once whether one more may go; if so, counts it under every one of them.
  A refusal writes nothing.

  KEYS[i]   one key per entry: a log, a count, a lock or a distinct log (layouts: README.md)
  ARGV[1]   the entries as one flat JSON array of numbers, in the order of KEYS:
              log       1, rule, observed, ttl (ms), keep, n, then n times: max, window
              count     2, rule, observed, max, and four boundaries: of the period before, this, the next, its end
              lock      3, rule, observed, ttl (ms)
              distinct  4, rule, observed, ttl (ms), value, n, then n times: max, window
  ARGV[2]   the token of the locks, 24 characters

  Returns { now, admitted (0, 1) }, then for each entry: state (0 refuses, 1 passes, 2 blocked),
  receipt (what a refund names; 0 where nothing was counted), then for each of its limits:
  used (before this one), ticks until a slot returns (0 when none is used, but for a count).
  Returns { now, -1 } when the boundaries do not hold this server's clock: ask again with that clock.

  Times are ticks of 10 µs since 2020, spans are ticks, unless said otherwise.
]]
local LOG, COUNT, LOCK = 1, 2, 3
local REFUSES, PASSES, BLOCKED = 0, 1, 2
-- What a distinct log holds at most; the values in it have equal shares.
local PAIRS = 500

local time = redis.call('TIME')
local now = (time[1] - 1577836800) * 100000 + math.floor(time[2] / 10)
local values = redis.call('MGET', unpack(KEYS))
local specs = cjson.decode(ARGV[1])

local function field(value, i)
  return (struct.unpack('>I6', value, i * 6 - 5))
end

-- how many stamps of the log, newest first, are later than `since`
local function newer(log, since)
  local low, high = 0, #log / 6
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if field(log, middle) > since then low = middle else high = middle - 1 end
  end
  return low
end

-- when each value was last counted after `since`: `own`, 0 for never, and the others, newest first;
-- and how many pairs are later than that
local function newest(pairs, since, own)
  local seen, others, mine, live = {}, {}, 0, #pairs / 12
  for i = 1, live do
    local stamp, to = struct.unpack('>I6I6', pairs, i * 12 - 11)
    if stamp <= since then live = i - 1 break end
    if not seen[to] then
      seen[to] = true
      if to == own then mine = stamp else others[#others + 1] = stamp end
    end
  end
  return mine, others, live
end

-- how many of the stamps, newest first, are later than `since`
local function later(stamps, since)
  for i, stamp in ipairs(stamps) do
    if stamp <= since then return i - 1 end
  end
  return #stamps
end

-- the pairs that stay beside a new one of `own`, each value's newest
local function shared(pairs, live, own, share)
  local times, kept = { [own] = 1 }, {}
  for i = 1, live do
    local to = field(pairs, i * 2)
    times[to] = (times[to] or 0) + 1
    if times[to] <= share then kept[#kept + 1] = pairs:sub(i * 12 - 11, i * 12) end
  end
  return table.concat(kept)
end

local reply, n = { now, 1 }, 2
local function put(a, b)
  reply[n + 1], reply[n + 2], n = a, b, n + 2
end

local writes, skipped, at = {}, {}, 1
for i = 1, #KEYS do
  local kind, rule, observed = specs[at], specs[at + 1], specs[at + 2]
  local value, state, head = values[i] or '', PASSES, n + 1
  put(PASSES, 0)

  local blocked = #value % 6 == 1
  if blocked then
    if field(value, (#value - 1) / 6) > now then state = BLOCKED end
    value = value:sub(1, -8)
  end

  if kind == LOG then
    local ttl, keep, limits = specs[at + 3], specs[at + 4], specs[at + 5]
    at = at + 6
    for _ = 1, limits do
      local max, window = specs[at], specs[at + 1]
      local used, reset = newer(value, now - window), 0
      if used >= max and state == PASSES then state = REFUSES end
      local oldest = math.min(used, max)
      if oldest > 0 then reset = field(value, oldest) + window - now end
      put(used, reset)
      at = at + 2
    end
    local stamp = now
    if value ~= '' then stamp = math.max(now, field(value, 1) + 1) end
    writes[i] = { head, rule, stamp, struct.pack('>I6', stamp) .. value:sub(1, (keep - 1) * 6), ttl }
  elseif kind == COUNT then
    local max, ends = specs[at + 3], 0
    for b = at + 4, at + 6 do
      if specs[b] <= now and now < specs[b + 1] then ends = specs[b + 1] end
    end
    if ends == 0 then return { now, -1 } end
    at = at + 8
    -- receipts begin at the clock: those of a count that was cleared are never issued again
    local used, issued, refunded = 0, now, ''
    -- a period that has begun ends when it ends, should the rule's time zone change meanwhile
    if value ~= '' and field(value, 1) > now then
      ends, used, issued, refunded = field(value, 1), field(value, 2), field(value, 3), value:sub(19)
    end
    if used >= max and state == PASSES then state = REFUSES end
    put(used, ends - now)
    writes[i] = { head, rule, issued + 1, struct.pack('>I6I6I6', ends, used + 1, issued + 1) .. refunded,
      math.ceil((ends - now) / 100) }
  elseif kind == LOCK then
    local ttl, held = specs[at + 3], 0
    at = at + 4
    if value ~= '' then held = math.max(field(value, 1) - now, 0) end
    if held > 0 and state == PASSES then state = REFUSES end
    put(held > 0 and 1 or 0, held)
    writes[i] = { head, rule, 1, struct.pack('>I6', now + ttl * 100) .. ARGV[2], ttl }
  else
    local ttl, own, limits = specs[at + 3], specs[at + 4], specs[at + 5]
    at = at + 6
    local mine, others, live = newest(value, now - ttl * 100, own)
    -- of them, those counted after the own value: all, where it is not counted
    local ahead = later(others, mine)
    for _ = 1, limits do
      local max, window = specs[at], specs[at + 1]
      local used, reset = later(others, now - window), 0
      if ahead < max then used = math.min(used, max - 1) end
      if used >= max and state == PASSES then state = REFUSES end
      local oldest = math.min(used, max)
      if oldest > 0 then reset = others[oldest] + window - now end
      put(used, reset)
      at = at + 2
    end
    local stamp = now
    if value ~= '' then stamp = math.max(now, field(value, 1) + 1) end
    writes[i] = { head, rule, stamp, struct.pack('>I6I6', stamp, own)
      .. shared(value, live, own, math.floor(PAIRS / (#others + 1))), ttl }
  end

  if state ~= PASSES then
    reply[head] = state
    if observed == 1 then skipped[rule] = true else reply[2] = 0 end
  end
end

if reply[2] == 0 then return reply end
-- MGET is silent about a key of another type, and what is not ours is not overwritten
local found = 0
for i = 1, #KEYS do if values[i] then found = found + 1 end end
if found < #KEYS and redis.call('EXISTS', unpack(KEYS)) > found then
  return redis.error_reply('WRONGTYPE a key of these limits holds something else')
end
for i = 1, #KEYS do
  local head, rule, receipt, value, ttl = unpack(writes[i])
  if not skipped[rule] then
    redis.call('SET', KEYS[i], value, 'PX', ttl)
    reply[head + 1] = receipt
  end
end
return reply
