-- Keeps what came first under a name on a prefix (the fingerprint of the key
-- secret, the secret that signs receipts), and answers with it. It holds no
-- caller's data and does not expire.
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])
