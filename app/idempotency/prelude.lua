-- Stands before the other scripts.

-- What a slot holds (layout: begin.lua) while it runs for the holder of this token; nil for anybody else.
local function running(slots, key, token)
  local value = redis.call('HGET', slots, key)
  if value and string.sub(value, 1, 1) == 'R' and string.sub(value, 24) == token then return value end
end
