-- What scripts have cost this server since it started: how many were called by
-- their hash, and the microseconds they ran. KEYS[1] names the node alone.
local stats = redis.call('INFO', 'commandstats')
local calls, us = string.match(stats, 'cmdstat_evalsha:calls=(%d+),usec=(%d+)')
return cmsgpack.pack({tonumber(calls) or 0, tonumber(us) or 0})
