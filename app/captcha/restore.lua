--[[
  Makes a former generation valid again in place of the next one, unless something has ended that one or there is
  another.

  KEYS[1]   the hash (layout: put.lua)
  ARGV[1]   the next generation
  ARGV[2]   the former generation, then its left, ends, ended, unknown
]]
local held = redis.call('HMGET', KEYS[1], 'generation', 'ended')
if not held[1] or held[1] ~= ARGV[1] or held[2] ~= '' then return end
redis.call('HSET', KEYS[1], 'generation', ARGV[2], 'left', ARGV[3], 'ends', ARGV[4], 'ended', ARGV[5],
  'unknown', ARGV[6])
