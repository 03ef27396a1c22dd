-- Who is alive: KEYS[1] is a sorted set of instances by the time up to which each
-- is believed. ARGV[1] is the caller and ARGV[2] for how many microseconds it
-- lives from now; 0 takes it out. Answers with the clock and the count.
local life = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
if life > 0 then
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + life), ARGV[1])
  redis.call('PEXPIRE', KEYS[1], 60000)
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
return cmsgpack.pack({now, redis.call('ZCARD', KEYS[1])})
