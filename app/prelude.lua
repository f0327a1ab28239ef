-- Prepended to each script of the app.

-- Now, in milliseconds since the epoch.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A full Redis refuses commands that add data, unless the script has written before. This write changes nothing.
local function begin_writing(hash)
  redis.call('HDEL', hash, '')
end
