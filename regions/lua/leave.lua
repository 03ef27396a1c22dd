-- An instance leaves the group that reads its region's stream, and those that have
-- been silent for long are taken out of it: they died. Who took letters and has not
-- finished them stays until another instance has.
--
-- KEYS[1] is the stream; ARGV the group, the instance that leaves (or '') and a
-- silence in milliseconds. Reply: how many are left.

local left = 0
for _, c in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local is = {}
  for i = 1, #c, 2 do is[c[i]] = c[i + 1] end
  if is.pending == 0 and (is.name == ARGV[2] or is.idle > tonumber(ARGV[3])) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], is.name)
  else
    left = left + 1
  end
end
return left
