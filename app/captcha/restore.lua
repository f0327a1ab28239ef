--[[
  Takes a resend back: the state before it is restored, unless the code that the resend made has ended or was given out
  again (reuse.lua). If a later resend has replaced that code, the state before this resend becomes the state before the
  later one.

  KEYS[1]   the hash (layout: put.lua)
  ARGV[1]   token of the resend, as given to put.lua
]]
local held = redis.call('HMGET', KEYS[1], 'generation', 'ended', 'resends')
local resends = cjson.decode(held[3] or '[]')
for i, resend in ipairs(resends) do
  local token, generation, former = unpack(resend)
  if token == ARGV[1] then
    table.remove(resends, i)
    begin_writing(KEYS[1])
    if tonumber(held[1]) ~= generation then
      if resends[i] then resends[i][3] = former end
    elseif held[2] == '' then
      redis.call('HSET', KEYS[1], 'generation', former[1], 'left', former[2], 'ends', former[3], 'ended', former[4],
        'sender', former[5])
    end
    redis.call('HSET', KEYS[1], 'resends', cjson.encode(resends))
    return
  end
end
