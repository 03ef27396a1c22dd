-- A letter is put into another region's stream, unless as many wait there as may:
-- then nobody reads them, and the sender keeps its own until somebody does. To cut
-- the stream instead would lose what the oldest say. A letter is bounded in bytes,
-- so this bounds the stream.
--
-- KEYS[1] is the stream; ARGV the most letters, then fields and values.

if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[1]) then
  return redis.error_reply('FULL nobody there reads the messages that wait')
end
return redis.call('XADD', KEYS[1], '*', unpack(ARGV, 2))
