--[[
  Forgets a code, unless one was made or given out again.

  KEYS[1]   the hash (layout: put.lua)
]]
if redis.call('HGET', KEYS[1], 'made') == '1' then redis.call('DEL', KEYS[1]) end
