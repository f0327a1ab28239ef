--[[
  Decides over all keys at once whether one more may go; if so, counts it under every one of them.
  A refusal writes nothing.

  KEYS[i]    one key per entry: a log, a count, a lock or a distinct log (layouts: README.md)
  ARGV       what this request or the calendar adds, for those entries that need it, in the order of KEYS:
               count     starts of the period before, of this one, of the next, and its end: '1 2 3 4'
               lock      the token, 24 characters
               distinct  the value
  `policy`   a local of the first line, which the caller writes: a flat table of the entries in the order of KEYS,
               log       1, rule, ttl, next, keep, and of each limit: max, window
               count     2, rule, ttl, next, max
               lock      3, rule, ttl, next
               distinct  4, rule, ttl, next, and of each limit: max, window
             `rule` is false when in force, the number of the rule when it is only observed; ttl: ms, as text;
             `next` is where the next entry begins. In place of the first field comes what is to be written.

  Returns { the values of KEYS as they were, now, admitted (0, 1) }, packed by cmsgpack. What is used, what is left and
  the receipts follow from those, so the caller reckons them.
  Returns `now` alone when the boundaries do not hold this server's clock: ask again with that clock.

  Times are ticks of 10 µs since 2020, spans are ticks, unless said otherwise.
]]
local LOG, COUNT, LOCK = 1, 2, 3
-- What a distinct log holds at most; the values in it have equal shares.
local PAIRS = 500

local keys, given, call, read, pack, sub = KEYS, ARGV, redis.call, struct.unpack, struct.pack, string.sub
local time = call('TIME')
local now = (time[1] - 1577836800) * 100000 + math.floor(time[2] / 10)
local values = call('MGET', unpack(keys))

local admitted, at, more, stamp = 1, 1, 0, pack('>I6', now)
local observed, skipped
for i = 1, #keys do
  local kind, rule, next = policy[at], policy[at + 1], policy[at + 3]
  local value, passes, new = values[i] or '', true
  if #value % 6 == 1 then
    passes = read('>I6', value, #value - 6) <= now
    value = sub(value, 1, -8)
  end

  if kind == LOG then
    local newest = value ~= '' and read('>I6', value)
    for j = at + 5, next - 1, 2 do
      -- used up, when the `max`-th stamp from the newest is in the window
      local max = policy[j]
      if #value >= max * 6 then
        local last = max == 1 and newest or max == 0 and now or read('>I6', value, max * 6 - 5)
        if last > now - policy[j + 1] then passes = false end
      end
    end
    new = stamp
    if newest then
      if newest >= now then new = pack('>I6', newest + 1) end
      local older = policy[at + 4] * 6 - 6
      if older >= #value then
        new = new .. value
      elseif older > 0 then
        new = new .. sub(value, 1, older)
      end
    end
  elseif kind == COUNT then
    local ends, used, issued = 0
    more = more + 1
    if value ~= '' then ends, used, issued = read('>I6I6I6', value) end
    -- a period that has begun ends when it ends, should the rule's time zone change meanwhile
    if ends <= now then
      local before, this, following, last = given[more]:match('(%d+) (%d+) (%d+) (%d+)')
      -- receipts begin at the clock: those of a count that was cleared are never issued again
      ends, used, issued, value = following + 0, 0, now - 1, ''
      if now < this + 0 then ends = this + 0 elseif now >= ends then ends = last + 0 end
      if now < before + 0 or now >= ends then return now end
    end
    if used >= policy[at + 4] then passes = false end
    new = pack('>I6I6I6', ends, used + 1, issued + 1)
    if #value > 18 then new = new .. sub(value, 19) end
    policy[at + 2] = math.ceil((ends - now) / 100)
  elseif kind == LOCK then
    more = more + 1
    if value ~= '' and read('>I6', value) > now then passes = false end
    new = pack('>I6', now + policy[at + 2] * 100) .. given[more]
  else
    more = more + 1
    local own = given[more] + 0
    -- of each value its newest pair in the time to live: `mine`, 0 for none, and the others', newest first
    local since, seen, others, mine, live = now - policy[at + 2] * 100, {}, {}, 0, #value / 12
    for j = 1, live do
      local paired, to = read('>I6I6', value, j * 12 - 11)
      if paired <= since then live = j - 1 break end
      if not seen[to] then
        seen[to] = true
        if to == own then mine = paired else others[#others + 1] = paired end
      end
    end
    for j = at + 4, next - 1, 2 do
      local max, window = policy[j], policy[j + 1]
      -- One of the `max` newest values may come again.
      local again = max > #others or (max > 0 and others[max] <= mine)
      if not again and (max == 0 or others[max] > now - window) then passes = false end
    end
    if passes then
      local newest, share = now, math.floor(PAIRS / (#others + 1))
      if value ~= '' then newest = math.max(now, read('>I6', value) + 1) end
      local times, kept = { [own] = 1 }, { pack('>I6I6', newest, own) }
      for j = 1, live do
        local to = read('>I6', value, j * 12 - 5)
        times[to] = (times[to] or 0) + 1
        if times[to] <= share then kept[#kept + 1] = sub(value, j * 12 - 11, j * 12) end
      end
      new = table.concat(kept)
    end
  end

  if rule then
    observed, skipped = observed or {}, skipped or {}
    observed[i] = rule
    if not passes then skipped[rule] = true end
  elseif not passes then
    admitted = 0
    break
  end
  policy[at], at = new, next
end

if admitted == 1 then
  -- Something of another type, of which MGET tells nothing, is not overwritten: then MSETNX writes none of them.
  local missing, n = {}, 0
  at = 1
  for i = 1, #keys do
    if not values[i] and not (skipped and skipped[observed[i]]) then
      missing[n + 1], missing[n + 2], n = keys[i], policy[at], n + 2
    end
    at = policy[at + 3]
  end
  if n > 0 and call('MSETNX', unpack(missing)) == 0 then
    return redis.error_reply('WRONGTYPE a key of these limits holds something else')
  end
  at = 1
  for i = 1, #keys do
    if not (skipped and skipped[observed[i]]) then
      if values[i] then
        call('PSETEX', keys[i], policy[at + 2], policy[at])
      else
        call('PEXPIRE', keys[i], policy[at + 2])
      end
    end
    at = policy[at + 3]
  end
end
local n = #keys
values[n + 1], values[n + 2] = now, admitted
return cmsgpack.pack(values)
