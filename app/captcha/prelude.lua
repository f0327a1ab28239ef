-- Stands before the other scripts.

-- A record: now, sealed, generation, made, left, ends, ended, sender; nothing when it is not there.
local function read(key)
  local held = redis.call('HMGET', key, 'sealed', 'generation', 'made', 'left', 'ends', 'ended', 'sender')
  if held[1] then return { now(), unpack(held) } end
end

-- A Redis that is full takes a value only of a script that has written before: this changes nothing.
local function begin_writing(key)
  redis.call('HDEL', key, '')
end
