-- Prepended to each script of this folder, after app/prelude.lua.

-- The value of a slot (layout: begin.lua) that is running for the holder of this token; else nil.
local function running(slots, key, token)
  local value = redis.call('HGET', slots, key)
  if value and string.sub(value, 1, 1) == 'R' and string.sub(value, 24) == token then return value end
end
