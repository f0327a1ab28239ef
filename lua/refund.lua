--[[
  Gives back what a reservation took: its stamp of a log, its one of a count, its lock, its pair of a distinct log.
  Told again, or told of what is gone or is somebody else's, it changes nothing.

  KEYS[i]   the keys
  ARGV[1]   a flat JSON array of numbers, for each key: kind (1 log, 2 count, 3 lock, 4 distinct log), receipt,
            and the end of the period it was counted in (0 but for a count)
  ARGV[2]   the token of the locks
]]
local LOG, COUNT, DISTINCT = 1, 2, 4
-- A count remembers this many refunds; when full, receipts up to its lowest pass for refunded.
local REMEMBERED = 1000

local function field(value, i)
  return (struct.unpack('>I6', value, i * 6 - 5))
end

-- the log without `stamp` and what else is in the `width` fields from there on, or nothing when it is not in it
local function without(log, stamp, width)
  for i = 1, #log / 6, width do
    if field(log, i) == stamp then return log:sub(1, i * 6 - 6) .. log:sub((i + width) * 6 - 5) end
  end
end

-- the refunded receipts, ascending, with `receipt` among them, or nothing when it was there
local function with(refunded, receipt)
  local count, place = #refunded / 6, 0
  for i = count, 1, -1 do
    local found = field(refunded, i)
    if found == receipt then return end
    if found < receipt then place = i break end
  end
  if count == REMEMBERED then
    if place == 0 then return end
    return refunded:sub(7, place * 6) .. struct.pack('>I6', receipt) .. refunded:sub(place * 6 + 1)
  end
  return refunded:sub(1, place * 6) .. struct.pack('>I6', receipt) .. refunded:sub(place * 6 + 1)
end

local function refund(kind, value, receipt, ends)
  if kind == LOG then return without(value, receipt, 1) end
  if kind == DISTINCT then return without(value, receipt, 2) end
  if kind == COUNT then
    if value == '' or field(value, 1) ~= ends or receipt > field(value, 3) then return end
    -- issued before the count was cleared
    if receipt <= field(value, 3) - field(value, 2) - (#value - 18) / 6 then return end
    local refunded = with(value:sub(19), receipt)
    return refunded and struct.pack('>I6I6', ends, field(value, 2) - 1) .. value:sub(13, 18) .. refunded
  end
  if value:sub(7) == ARGV[2] then return '' end
end

-- A Redis that is full takes a value only of a script that has written before. Here that is an expiry: the key's own, or,
-- of a key that has none, one that the value takes away again.
local function put(key, value)
  if not redis.pcall('SET', key, value, 'KEEPTTL').err then return end
  local left, time = redis.call('PTTL', key), redis.call('TIME')
  local endless = left == -1
  local ends = time[1] * 1000 + math.floor(time[2] / 1000) + (endless and 60000 or math.max(left, 1))
  redis.call('PEXPIREAT', key, string.format('%.0f', ends))
  if endless then redis.call('SET', key, value) else redis.call('SET', key, value, 'KEEPTTL') end
end

local values, specs = redis.call('MGET', unpack(KEYS)), cjson.decode(ARGV[1])
for i = 1, #KEYS do
  local value, trailer = values[i] or '', ''
  if #value % 6 == 1 then value, trailer = value:sub(1, -8), value:sub(-7) end
  local left = refund(specs[i * 3 - 2], value, specs[i * 3 - 1], specs[i * 3])
  if left then
    if left .. trailer == '' then
      redis.call('DEL', KEYS[i])
    else
      put(KEYS[i], left .. trailer)
    end
  end
end
