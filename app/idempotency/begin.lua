--[[
  Takes a slot, or tells how the request stands that has taken it.

  KEYS[1]   the slots of one scope, a hash: key -> state (R, F), body (22 characters), and the token of
            the holder (R: running) or the answer (F: finished)
  KEYS[2]   when the slots end, a sorted set: keys by milliseconds since 1970; in the same cluster slot
  ARGV[1]   key
  ARGV[2]   body
  ARGV[3]   token
  ARGV[4]   lease (ms)
  ARGV[5]   the most slots that a scope may have
  ARGV[6]   how long an answer is kept (ms), longer than any lease

  Returns { state }: begun, running, other-body or full; or { finished, answer }.
]]
local slots, ends = KEYS[1], KEYS[2]
local ms = now()

-- Read before anything is written, so that a Redis that takes no writes still answers repetitions.
local value = redis.call('HGET', slots, ARGV[1])
-- A slot without an end, since Redis has evicted KEYS[2], counts as ended: it would never go otherwise.
if value and tonumber(redis.call('ZSCORE', ends, ARGV[1]) or 0) > ms then
  if string.sub(value, 2, 23) ~= ARGV[2] then return { 'other-body' } end
  if string.sub(value, 1, 1) == 'R' then return { 'running' } end
  return { 'finished', string.sub(value, 24) }
end

local function drop(key)
  redis.call('HDEL', slots, key)
  redis.call('ZREM', ends, key)
end

-- Drops the oldest finished slot. Running slots come first in `ends`, since they end soonest. Beyond a hundred slots it
-- skips all that end within a lease: with a thousand running ones, each call would take as long as forty others.
local function drop_oldest()
  local from, keys = 0, nil
  repeat
    keys = redis.call('ZRANGE', ends, from, from + 99)
    for _, key in ipairs(keys) do
      local value = redis.call('HGET', slots, key)
      if not value or string.sub(value, 1, 1) == 'F' then
        drop(key)
        return true
      end
    end
    from = math.max(from + 100, redis.call('ZCOUNT', ends, '-inf', ms + ARGV[4]))
  until #keys < 100
  return false
end

for _, key in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', ms)) do drop(key) end
-- Slots kept while the clock was ahead would pass for newer than those of now, and stay too long: end them in time.
local latest = ms + ARGV[6]
local ahead = redis.call('ZRANGEBYSCORE', ends, '(' .. latest, '+inf')
for i, key in ipairs(ahead) do redis.call('ZADD', ends, latest - #ahead + i, key) end

if redis.call('ZCARD', ends) >= tonumber(ARGV[5]) and not drop_oldest() then return { 'full' } end
redis.call('HSET', slots, ARGV[1], 'R' .. ARGV[2] .. ARGV[3])
redis.call('ZADD', ends, ms + ARGV[4], ARGV[1])
-- Set each time, so that keys that have lost their expiry, as copies may, still expire with their last slot.
local last = string.format('%.0f', redis.call('ZRANGE', ends, -1, -1, 'WITHSCORES')[2])
for _, name in ipairs(KEYS) do redis.call('PEXPIREAT', name, last) end
return { 'begun' }
