--[[
  Reads a page, the newest placing first.

  ARGV[2]   the most entries to read
  ARGV[3]   where to begin: '(' and the last placing of the page before; '+inf' for the newest
  ARGV[4]   which list: 'blocked', 'allowed' or 'both'

  Returns the last placing that was read, or '' when no more follow; then for each entry its id and its text.
]]
local limit, ms = tonumber(ARGV[2]), now()
sweep(ms)
local found = {}
for i, standing in ipairs({ 'blocked', 'allowed' }) do
  if ARGV[4] == standing or ARGV[4] == 'both' then
    local ids = redis.call('ZREVRANGEBYSCORE', KEYS[2 + i], ARGV[3], '-inf', 'WITHSCORES', 'LIMIT', 0, limit + 1)
    for j = 1, #ids, 2 do found[#found + 1] = { id = ids[j], order = tonumber(ids[j + 1]) } end
  end
end
table.sort(found, function(a, b) return a.order > b.order end)
local result = { '' }
for i = 1, math.min(limit, #found) do
  local kept = read(found[i].id, ms)
  if kept ~= '' then result[#result + 1] = { found[i].id, kept } end
end
if #found > limit then result[1] = string.format('%.0f', found[limit].order) end
return result
