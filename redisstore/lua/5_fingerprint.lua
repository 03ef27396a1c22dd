-- Keeps the fingerprint of the key secret that came first on a prefix, and
-- answers with it. It holds no caller's data and does not expire.
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])
