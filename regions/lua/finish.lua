-- Letters that were heard leave the stream and the group at once: one that only the
-- group is done with would be read by nobody again, and take up the stream's room.
--
-- KEYS[1] is the stream; ARGV the group, then the letters.

redis.call('XDEL', KEYS[1], unpack(ARGV, 2))
return redis.call('XACK', KEYS[1], unpack(ARGV))
