--[[
  Gives back what reservations took: of each its stamps in logs, its ones in counts, its locks, its pairs in distinct
  logs. What was given back before, is gone, or is somebody else's lock is left alone.

  KEYS       for each reservation the keys of what it took; behind the key of a count comes the key of its refunds
  ARGV       for each reservation a flat JSON array: the token of its locks, then for each thing that it took the kind
             (1 log, 2 count, 3 lock, 4 distinct log), the receipt, for a count the end of its period, else 0, and how
             much it took
]]
local LOG, COUNT, DISTINCT = 1, 2, 4
-- Where the fields of a pair begin.
local STAMP, VALUE = 0, 6
-- 2020-01-01T00:00:00Z, in milliseconds since the epoch.
local EPOCH = 1577836800000

local time = redis.call('TIME')
local now = math.floor(time[1] * 1000 + time[2] / 1000)
local ticks = (time[1] - 1577836800) * 100000 + math.floor(time[2] / 10)

local function field(value, i)
  return (struct.unpack('>I6', value, i * 6 - 5))
end

-- the log without `stamp`, or nothing when it is not in it
local function without(log, stamp)
  local low, high = 1, math.floor(#log / 6)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if field(log, middle) > stamp then low = middle + 1 else high = middle end
  end
  if low == high and field(log, low) == stamp then return log:sub(1, low * 6 - 6) .. log:sub(low * 6 + 1) end
end

-- Where the first pair stands, at or behind `from`, whose field at `offset` has these bytes.
local function find(log, from, offset, bytes)
  local at = log:find(bytes, from, true)
  while at and (at - 1) % 12 ~= offset do at = log:find(bytes, at + 1, true) end
  return at and at - offset
end

-- A distinct log without the pair of `stamp`. If that was the newest of its value, the pair before it takes its place.
local function unpaired(log, stamp)
  local taken = find(log, 1, STAMP, struct.pack('>I6', stamp))
  if not taken then return end
  local divider = find(log, 1, STAMP, struct.pack('>I6', 0)) or #log + 1
  local front, gone = log:sub(1, divider - 1), taken
  if taken < divider then
    gone = find(log, divider + 12, VALUE, log:sub(taken + VALUE, taken + 11))
    local older, before = taken + 12, ''
    if gone then
      before = log:sub(gone, gone + 11)
      local at = field(before, 1)
      while older < divider and struct.unpack('>I6', log, older) > at do older = older + 12 end
    end
    front = log:sub(1, taken - 1) .. log:sub(taken + 12, older - 1) .. before .. log:sub(older, divider - 1)
  end
  if front == '' then return '' end
  local behind = gone and log:sub(divider, gone - 1) .. log:sub(gone + 12) or log:sub(divider)
  return #behind > 12 and front .. behind or front
end

-- A Redis that is full takes a value only from a script that has written before. So this writes `key` first, with the
-- value and the expiry that it has.
local function write(key, value, ...)
  local done = redis.pcall(...)
  if type(done) ~= 'table' or not done.err then return done end
  if done.err:find('OOM') then
    local left = redis.call('PTTL', key)
    if left == -1 then
      redis.call('DEL', key)
      redis.call('SET', key, value)
    else
      redis.call('PEXPIREAT', key, string.format('%.0f', now + math.max(left, 1)))
    end
  end
  return redis.call(...)
end

-- Notes, under the key of a count's refunds, that a receipt was given back: six bytes name a receipt, and from that one
-- on there is a bit for each. Refunds of an earlier count begin before the first receipt of this one, or, by a clock
-- that was ahead, behind its next one. If refunds are lost, all receipts issued so far pass for refunded.
local function noted(key, whole, refunds, receipt, count)
  local header = redis.call('GETRANGE', refunds, 0, 5)
  local since = #header == 6 and field(header, 1) or 0
  if since < count.first or since > count.issued + 1 then
    since = count.refunded == 0 and count.first or count.issued + 1
    write(key, whole, 'SET', refunds, struct.pack('>I6', since))
    redis.call('PEXPIREAT', refunds, string.format('%.0f', count.over))
  end
  return receipt >= since and write(key, whole, 'SETBIT', refunds, 48 + receipt - since, 1) == 0
end

-- What is left of a value without what was taken; nothing when that is not in it.
local function left_of(key, whole, value, kind, receipt, ends, cost, refunds, token)
  if kind == LOG then return without(value, receipt) end
  if kind == DISTINCT then return unpaired(value, receipt) end
  if kind == COUNT then
    if value == '' or field(value, 1) ~= ends or receipt > field(value, 3) then return end
    local used, issued = field(value, 2), field(value, 3)
    local refunded = #value > 18 and field(value, 4) or 0
    local first = #value > 24 and field(value, 5) or issued - used - refunded + 1
    local over = EPOCH + ends / 100
    -- issued before the count was cleared
    if receipt < first or over <= now then return end
    local count = { first = first, issued = issued, refunded = refunded, over = over }
    if not noted(key, whole, refunds, receipt, count) then return end
    -- A count with nothing counted is deleted: requests that are refunded must not fill Redis. A new count issues later
    -- receipts, unless those of this one were ahead of the clock.
    if used == cost and issued < ticks then
      redis.call('DEL', refunds)
      return ''
    end
    return struct.pack('>I6I6I6I6', ends, used - cost, issued, refunded + 1) .. value:sub(25)
  end
  if value:sub(7) == token then return '' end
end

-- For each thing that was taken: its key, the key of its refunds, its reservation, and its place in that.
local keys, refunds, reservations, places, n, at = {}, {}, {}, {}, 0, 0
for _, told in ipairs(ARGV) do
  local taken = cjson.decode(told)
  for i = 2, #taken, 4 do
    n, at = n + 1, at + 1
    keys[n], reservations[n], places[n] = KEYS[at], taken, i
    if taken[i] == COUNT then
      at = at + 1
      refunds[n] = KEYS[at]
    end
  end
end

local values, written = redis.call('MGET', unpack(keys)), {}
for i = 1, n do
  local key, taken, place = keys[i], reservations[i], places[i]
  local whole, trailer = written[key] or values[i] or '', ''
  local value = whole
  if #whole % 6 == 1 then value, trailer = whole:sub(1, -8), whole:sub(-7) end
  local kind, receipt, ends, cost = unpack(taken, place, place + 3)
  local left = left_of(key, whole, value, kind, receipt, ends, cost, refunds[i], taken[1])
  if left then
    left = left .. trailer
    if left == '' then
      redis.call('DEL', key)
    else
      write(key, whole, 'SET', key, left, 'KEEPTTL')
    end
    written[key] = left
  end
end
