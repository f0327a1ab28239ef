--[[
  Gives back what a reservation took: its stamp of a log, its one of a count, its lock, its pair of a distinct log.
  Told again, or told of what is gone or is somebody else's, it changes nothing.

  KEYS       the n keys of what was taken, then for each count among them the key of its refunds
  ARGV[1]    a flat JSON array of numbers, for each of the n: kind (1 log, 2 count, 3 lock, 4 distinct log), receipt,
             and the end of the period it was counted in (0 but for a count)
  ARGV[2]    the token of the locks
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

-- Where the first pair stands, from a place on, of which the field that begins at `offset` is these bytes.
local function find(log, from, offset, bytes)
  local at = log:find(bytes, from, true)
  while at and (at - 1) % 12 ~= offset do at = log:find(bytes, at + 1, true) end
  return at and at - offset
end

-- The same of a distinct log. Where it was the newest of its value, the one before it stands in its place.
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

-- A Redis that is full takes a value only of a script that has written before. Here that is an expiry of `key`, which
-- is there: its own, or, if it has none, one that goes when its value is set.
local function write(key, ...)
  local done = redis.pcall(...)
  if type(done) ~= 'table' or not done.err then return done end
  if done.err:find('OOM') then
    local left = redis.call('PTTL', key)
    redis.call('PEXPIREAT', key, string.format('%.0f', now + (left == -1 and 60000 or math.max(left, 1))))
  end
  return redis.call(...)
end

-- Notes under `refunds` that a count gives this receipt back: six bytes say from which receipt on, then a bit for each.
-- Those of an earlier count begin before its first one, or, by a clock that was ahead, behind its next one. Where they
-- are lost, what was issued so far passes for refunded.
local function noted(key, refunds, receipt, count)
  local header = redis.call('GETRANGE', refunds, 0, 5)
  local since = #header == 6 and field(header, 1) or 0
  if since < count.first or since > count.issued + 1 then
    since = count.refunded == 0 and count.first or count.issued + 1
    write(key, 'SET', refunds, struct.pack('>I6', since))
    redis.call('PEXPIREAT', refunds, string.format('%.0f', count.over))
  end
  return receipt >= since and write(key, 'SETBIT', refunds, 48 + receipt - since, 1) == 0
end

local function refund(key, kind, value, receipt, ends, refunds)
  if kind == LOG then return without(value, receipt) end
  if kind == DISTINCT then return unpaired(value, receipt) end
  if kind == COUNT then
    if value == '' or field(value, 1) ~= ends or receipt > field(value, 3) then return end
    local used, issued = field(value, 2), field(value, 3)
    local refunded = #value > 18 and field(value, 4) or 0
    local first, over = issued - used - refunded + 1, EPOCH + ends / 100
    -- issued before the count was cleared
    if receipt < first or over <= now then return end
    local count = { first = first, issued = issued, refunded = refunded, over = over }
    if not noted(key, refunds, receipt, count) then return end
    -- Requests that count nothing must not fill Redis. A count that begins anew issues later receipts, unless these were
    -- ahead of the clock.
    if used == 1 and issued < ticks then
      redis.call('DEL', refunds)
      return ''
    end
    return struct.pack('>I6I6I6I6', ends, used - 1, issued, refunded + 1)
  end
  if value:sub(7) == ARGV[2] then return '' end
end

local specs = cjson.decode(ARGV[1])
local total, counts = #specs / 3, 0
local values = redis.call('MGET', unpack(KEYS, 1, total))
for i = 1, total do
  local key, value, trailer = KEYS[i], values[i] or '', ''
  local kind, receipt, ends = specs[i * 3 - 2], specs[i * 3 - 1], specs[i * 3]
  if kind == COUNT then counts = counts + 1 end
  if #value % 6 == 1 then value, trailer = value:sub(1, -8), value:sub(-7) end
  local endless = value ~= '' and redis.call('PTTL', key) == -1
  -- One without expiry is set in any case: it may have been given one.
  local left = refund(key, kind, value, receipt, ends, KEYS[total + counts]) or endless and value
  if left then
    if left .. trailer == '' then
      redis.call('DEL', key)
    elseif endless then
      write(key, 'SET', key, left .. trailer)
    else
      write(key, 'SET', key, left .. trailer, 'KEEPTTL')
    end
  end
end
