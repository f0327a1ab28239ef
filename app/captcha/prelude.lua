-- Prepended to each script of this folder, after app/prelude.lua.

-- Reads a record: now, sealed, generation, made, left, ends, ended, sender, perhaps; nil when there is none.
local function read(key)
  local held = redis.call('HMGET', key, 'sealed', 'generation', 'made', 'left', 'ends', 'ended', 'sender', 'perhaps')
  if held[1] then return { now(), unpack(held) } end
end
