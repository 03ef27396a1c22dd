-- The lone check: a flight of one balance, which is what a server that is not busy
-- is mostly asked. What it shares out among few checks counts there, so nothing is
-- made that one check can do without: no array of arguments, of states, of writes
-- or of answers. It decides as the usual flight does, by the same statements, and
-- what is not usual goes the general way.
--
-- ARGV[2] is then how many bills ask, and ARGV[1] holds the same integers as for
-- any flight (1_take_usual.lua), one after the other and not in an array.

local keys = KEYS
local unpack_, pack, byte, sub, format, floor = struct.unpack, struct.pack, string.byte, string.sub, string.format, math.floor
local lone = tonumber(ARGV[2])

local function usual_check(asking)
  local not_after, verb, wait, kind, n, period, cost, x1, x2, x3, x4, x5 = cmsgpack.unpack(ARGV[1])
  if not_after > 0 and now > not_after then return cmsgpack.pack({now, 'STALE'}) end
  if n == 0 or cost < 0 then return false end
  local key, take = keys[1], verb == 1 and cost > 0
  local flags, debited = 0, 0
  local text, told, place, ttl
  local full, phase              -- buckets
  local start, stop, prev, cur   -- windows
  local used, newest, free       -- logs
  if kind == 1 or kind == 5 then
    local cap, cost_us, cost_phase, room_us, room_phase = x1, x2, x3, x4 - x2 + wait, x5 - x3
    local value, stamp = redis.pcall('GET', key), nil
    --< usual_bucket_open
    --< usual_bucket_debit
    if debited > 0 then
      --< usual_bucket_seal
    else
      told = pack('>BI7I4', flags, full, phase)
    end
  elseif kind == 3 then
    local first_live, holds
    --< usual_log_search
    --< usual_log
  else
    if n * period >= 2 ^ 53 then return false end
    local sliding = kind == 4
    if sliding or x1 == 0 then
      start = now - now % period
      stop = start + period
    elseif x3 <= now and now < x4 then -- the calendar period that was expected
      start, stop = x3, x4
    else
      return false
    end
    local value = redis.pcall('GET', key)
    --< usual_window
  end

  if asking > 1 then told = pack('>I4', debited) .. told end
  if start then told = pack('>i8I8', start, stop) .. told end
  if debited > 0 then
    local wrote
    if ttl then
      wrote = redis.pcall('SET', key, text, 'PX', ttl)
    else
      wrote = redis.pcall('SETRANGE', key, place or '0', text)
    end
    if type(wrote) == 'table' and wrote.err then told = told .. wrote.err end
  end
  return pack('>c1I7', 'u', now) .. told
end

if lone then
  local reply = usual_check(lone)
  if reply then return reply end
end
