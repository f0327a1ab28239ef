-- Stands before the other scripts.

-- Now, in milliseconds since the epoch.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A record: now, sealed, generation, made, left, ends, ended, delivery; nothing when it is not there.
local function read(key)
  local held = redis.call('HMGET', key, 'sealed', 'generation', 'made', 'left', 'ends', 'ended', 'delivery')
  if held[1] then return { now(), unpack(held) } end
end
