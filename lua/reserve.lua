--[[
  Makes one decision after another, each over all its keys at once: whether one more may go. If so, it is counted under
  every one of them. A refusal writes nothing. Each decision finds what those before it have counted. All of that is
  written at the end, so an error writes nothing either, unless the user lacks a right to write (docs/redis.md).

  KEYS[i]    for each decision one key per entry: a log, a count, a lock or a distinct log (layouts: README.md)
  ARGV       for each decision, if `past`: how many ticks ago it was made elsewhere, and for a count the end of its
             period there, else 0. Then one argument for each entry that needs one, in the order of its keys:
               count     starts of the period before, of this one, of the next, and its end: '1 2 3 4'; then, if it
                         has a cost, that
               lock      the token, 24 characters
               distinct  the value
  `entries`, `specs` and `past` are locals of the first line, which the caller writes:
  `entries`  how many keys a decision has
  `past`     whether all decisions were made elsewhere before
  `specs`    what each key keeps, a flat table in the order of the keys:
               log       1, rule, ttl, next, keep, and of each limit: max, window
               count     2, rule, ttl, next, max, and 1 if it has a cost
               lock      3, rule, ttl, next
               distinct  4, rule, ttl, next, and of each limit: max, window
             `rule` is false for a rule in force, its number for one that is only observed; `ttl` is in milliseconds,
             as text; `next` is where the next entry begins.

  Returns one list, packed by cmsgpack: the values of KEYS, each as its decision found it; for each decision whether it
  admits (0, 1); and the clock. A decision whose boundaries do not contain this server's clock is false, as are all
  behind it, to keep their order: ask again by that clock.
  What is used, what is left and the receipts follow from these, so the caller computes them.

  Returns an error if the clock of this server is before 2020 or after 2109.

  A log whose newest stamp lies ahead by more than its time to live and an hour was written by a clock that was wrong,
  and begins anew; a lock whose end lies ahead by more than 25 hours is free.

  Times are ticks of 10 µs since 2020, spans are ticks, unless said otherwise.
]]
local LOG, COUNT, LOCK = 1, 2, 3
-- How many pairs the values of a distinct log keep at least, in equal shares; at most, half as many again are there.
local SHARED, SPARE = 500, 1.5
-- Divides the newest pairs from the earlier ones.
local DIVIDER = '\0\0\0\0\0\0\0\0\0\0\0\0'
-- Between the same moment of the day in the first and the last time zone: 27 h.
local ZONES = 9720000000
-- By how much more than its time to live the newest stamp of a log may lie ahead.
local HOUR = 360000000
-- No lock lasts longer than a day. As with logs, an hour more is allowed.
local LONGEST_LOCK = 8640000000 + HOUR

local keys, given, call, read, pack, sub = KEYS, ARGV, redis.call, struct.unpack, struct.pack, string.sub
local time = call('TIME')
local clock = (time[1] - 1577836800) * 100000 + math.floor(time[2] / 10)
local now = clock
-- A time that no stamp can hold would pass for long ago. In the first half day of 2020 `now` would be packed shorter
-- than the caller reads it.
if now < 2 ^ 32 or now >= 2 ^ 48 then return redis.error_reply('CLOCK this server is before 2020 or after 2109') end
local values = call('MGET', unpack(keys))
local total, stamp = #keys, pack('>I6', now)
local decisions = total / entries

-- What this decision would write, and for how long.
local made, lives = {}, {}
-- What all decisions write: the place of each key, its value, its time to live; and the number of each key in these.
local places, news, ttls, number, writes = {}, {}, {}, {}, 0

for d = 0, decisions - 1 do
  local first, more = d * entries, d * #given / decisions
  local admitted, at = 1, 1
  local observed, skipped, over
  if past then
    now, over, more = clock - given[more + 1], given[more + 2] + 0, more + 2
    stamp = pack('>I6', now)
  end
  for i = first + 1, first + entries do
    local written = number[keys[i]]
    if written then values[i] = news[written] end
  end
  for i = 1, entries do
    local kind, rule, life, next = specs[at], specs[at + 1], specs[at + 2], specs[at + 3]
    local value, passes, new = values[first + i], true
    if not value then
      value = ''
    elseif #value % 6 == 1 then
      passes = read('>I6', value, #value - 6) <= clock
      value = sub(value, 1, -8)
    end

    if kind == LOG then
      local newest = value ~= '' and read('>I6', value)
      if newest and newest - now > life * 100 + HOUR then value, newest = '', false end
      for j = at + 5, next - 1, 2 do
        -- used up, when the `max`-th stamp from the newest is in the window
        local max = specs[j]
        if #value >= max * 6 then
          local last = max == 1 and newest or max == 0 and now or read('>I6', value, max * 6 - 5)
          if last > now - specs[j + 1] then passes = false end
        end
      end
      new = stamp
      if newest and passes then
        if newest >= now then new = pack('>I6', newest + 1) end
        local older = specs[at + 4] * 6 - 6
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
      -- a period that has begun keeps its end, even if the rule's time zone changes meanwhile; one that would last
      -- longer than in any zone was begun by a clock that was ahead
      if ends <= now or ends - now > life * 100 + ZONES then
        local before, this, following, last = given[more]:match('(%S+) (%S+) (%S+) (%S+)')
        -- receipts begin at the clock: so those of a count that was cleared are past, unless they were ahead of it
        ends, used, issued, value = following + 0, 0, now - 1, ''
        if now < this + 0 then ends = this + 0 elseif now >= ends then ends = last + 0 end
        if now < before + 0 or now >= ends then
          admitted = false
          break
        end
      end
      local cost = next > at + 5 and tonumber(given[more]:match('%S+$'))
      if used + (cost or 1) > specs[at + 4] then passes = false end
      if over and (over ~= ends or over <= clock) then passes = false end
      new = pack('>I6I6I6', ends, used + (cost or 1), issued + 1)
      if cost and #value < 30 then
        local refunded = #value > 18 and read('>I6', value, 19) or 0
        new = new .. pack('>I6I6', refunded, issued - used - refunded + 1)
      elseif #value > 18 then
        new = new .. sub(value, 19)
      end
      life = math.ceil((ends - clock) / 100)
    elseif kind == LOCK then
      more = more + 1
      local left = value ~= '' and read('>I6', value) - now or 0
      if left > 0 and left <= LONGEST_LOCK then passes = false end
      new = pack('>I6', now + life * 100) .. given[more]
      life = life + 1
    else
      more = more + 1
      local own = given[more] + 0
      if value ~= '' and read('>I6', value) - now > life * 100 + HOUR then value = '' end
      -- how many newest pairs there are (`newest`), how many of them in the time to live (`live`); the stamp of the own
      -- value (`mine`), 0 for none, and those of the others
      local newest, live, since, others, mine, place = #value / 12, 0, now - life * 100, {}, 0
      -- a request that began under a former rule may look further back than the present one keeps
      for j = at + 5, next - 1, 2 do since = math.min(since, now - specs[j]) end
      for j = 1, newest do
        local paired, to = read('>I6I6', value, j * 12 - 11)
        if paired == 0 then newest = j - 1 break end
        if paired > since then
          live = j
          if to == own then mine, place = paired, j else others[#others + 1] = paired end
        end
      end
      local most = #others + 1
      for j = at + 4, next - 1, 2 do
        local max, window = specs[j], specs[j + 1]
        most = math.max(most, max)
        -- One of the `max` newest values may come again.
        local again = max > #others or (max > 0 and others[max] <= mine)
        if not again and (max == 0 or others[max] > now - window) then passes = false end
      end
      local behind = math.max(#value - newest * 12 - 12, 0)
      -- the caller does not need the earlier pairs
      if behind > 0 and #values[first + i] % 6 == 0 then values[first + i] = sub(value, 1, newest * 12) end
      if passes then
        local stamped, before = value ~= '' and math.max(now, read('>I6', value) + 1) or now, ''
        new = pack('>I6I6', stamped, own)
        if mine > 0 then
          before = sub(value, place * 12 - 11, place * 12)
          new = new .. sub(value, 1, place * 12 - 12) .. sub(value, place * 12 + 1, live * 12)
        else
          new = new .. sub(value, 1, live * 12)
        end
        local share = math.floor(SHARED / most)
        if #new + #before + behind > (#others + 1) * share * SPARE * 12 then
          local earlier, times, kept = before .. sub(value, #value - behind + 1), {}, {}
          for j = 1, #earlier, 12 do
            local paired, to = read('>I6I6', earlier, j)
            times[to] = (times[to] or 0) + 1
            if times[to] <= share and paired > since then kept[#kept + 1] = sub(earlier, j, j + 11) end
          end
          before, behind = table.concat(kept), 0
        end
        if #before + behind > 0 then new = new .. DIVIDER .. before .. sub(value, #value - behind + 1) end
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
    made[i], lives[i], at = new, life, next
  end

  if admitted == 1 then
    for i = 1, entries do
      if not (skipped and skipped[observed[i]]) then
        local key = keys[first + i]
        local n = number[key]
        if not n then
          n = writes + 1
          number[key], places[n], writes = n, first + i, n
        end
        news[n], ttls[n] = made[i], lives[i]
      end
    end
  end
  values[total + d + 1] = admitted
  if admitted == false then
    for behind = d + 2, decisions do values[total + behind] = false end
    break
  end
end

-- A key of another type, of which MGET tells nothing, is not overwritten: if there is one, MSETNX writes none of them.
local missing, n = {}, 0
for i = 1, writes do
  local place = places[i]
  if not values[place] then missing[n + 1], missing[n + 2], n = keys[place], news[i], n + 2 end
end
if n > 0 and call('MSETNX', unpack(missing)) == 0 then
  return redis.error_reply('WRONGTYPE a key of these limits holds something else')
end
-- New keys expire at instants, since Redis would compute those from spans; each instant is formatted once.
local ms, instants = math.floor(time[1] * 1000 + time[2] / 1000), {}
for i = 1, writes do
  local place, ttl = places[i], ttls[i]
  if values[place] then
    call('PSETEX', keys[place], ttl, news[i])
  else
    if not instants[ttl] then instants[ttl] = string.format('%.0f', ms + ttl) end
    call('PEXPIREAT', keys[place], instants[ttl])
  end
end
values[total + decisions + 1] = clock
return cmsgpack.pack(values)
