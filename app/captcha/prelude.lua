-- Stands before the other scripts.

-- A record: now, sealed, generation, made, left, ends, ended, delivery; nothing when it is not there.
local function read(key)
  local held = redis.call('HMGET', key, 'sealed', 'generation', 'made', 'left', 'ends', 'ended', 'delivery')
  if held[1] then return { now(), unpack(held) } end
end
