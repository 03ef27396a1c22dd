-- What a region's instances took from balances is added up here, beside each
-- balance, for the other regions to hear of. KEYS are the counters:
--
--   c  run(8) born(7) out(7) back(7)
--
-- out and back only grow while the counter lives. Where it begins anew (it had
-- expired, the server was flushed, restarted or is another one after a failover)
-- it is a new incarnation, which run and born name together: whoever had heard of
-- the old one must not take the difference.
--
-- ARGV[1] holds out, back and a life in milliseconds for each key; with nothing
-- to add a counter is only read. Reply: now, error, then per key its incarnation,
-- out and back.

local args = cmsgpack.unpack(ARGV[1])
local COUNTER = 30

local run = '00000000'
local info = redis.pcall('INFO', 'server')
if type(info) == 'string' then run = sub(string.match(info, 'run_id:(%x+)') or run, 1, 8) end

read()
local reply, r = {now, false}, 2
for i = 1, #KEYS do
  local out, back, life = args[3 * i - 2], args[3 * i - 1], args[3 * i]
  local v = values[i]
  local incarnation, had_out, had_back = run .. pack('>I7', now), 0, 0
  if v and byte(v) == 99 and #v == COUNTER and sub(v, 2, 9) == run then
    incarnation = sub(v, 2, 16)
    had_out, had_back = unpack_('>I7I7', v, 17)
  end
  out, back = out + had_out, back + had_back
  if not wrong[i] and (out > had_out or back > had_back) then
    local failed = redis.pcall('SET', KEYS[i], 'c' .. incarnation .. pack('>I7I7', out, back), 'PX', life)
    if failed.err then return cmsgpack.pack({now, failed.err}) end
  end
  reply[r + 1], reply[r + 2], reply[r + 3] = incarnation, out, back
  r = r + 3
end
return cmsgpack.pack(reply)
