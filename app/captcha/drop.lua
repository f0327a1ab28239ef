--[[
  Deletes the record of a first code, unless a resend has made another code or given the same one out again.

  KEYS[1]   the hash (layout: put.lua)
]]
if redis.call('HGET', KEYS[1], 'made') == '1' then redis.call('DEL', KEYS[1]) end
