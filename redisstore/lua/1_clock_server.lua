-- The clock is the server's own, read once: inside a script TIME moves on some
-- versions and stands still on others.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
