--[[
  Makes the generation before the present one valid again, unless something has ended the present one.

  KEYS[1]   the hash (layout: put.lua)
  ARGV[1]   the former generation, then its left, ends, ended, unknown
]]
local held = redis.call('HMGET', KEYS[1], 'generation', 'ended')
if not held[1] or tonumber(held[1]) ~= ARGV[1] + 1 or held[2] ~= '' then return end
redis.call('HSET', KEYS[1], 'generation', ARGV[1], 'left', ARGV[2], 'ends', ARGV[3], 'ended', ARGV[4],
  'unknown', ARGV[5])
