-- The lone check: a flight of one balance, which is what a server that is not busy
-- is mostly asked. What it shares out among few checks counts there, so nothing is
-- made that one check can do without: no array of arguments, of states, of writes
-- or of answers. It decides as the usual flight does, by the same statements, and
-- what is not usual goes the general way.
--
-- ARGV[2] is then how many bills ask, and ARGV[1] holds the same integers as for
-- any flight (1_take_usual.lua), one after the other and not in an array.

local keys = KEYS
local unpack_, pack, byte, format, floor = struct.unpack, struct.pack, string.byte, string.format, math.floor
local lone = tonumber(ARGV[2])

local function usual_check(asking)
  local not_after, verb, wait, kind, n, period, cost, x1, x2, x3, x4, x5 = cmsgpack.unpack(ARGV[1])
  if not_after > 0 and now > not_after then return cmsgpack.pack({now, 'STALE'}) end
  if n == 0 or cost < 0 then return false end
  local key, take = keys[1], verb == 1 and cost > 0
  local flags, debited = 0, 0
  local text, place, ttl
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

  local failed = false
  if debited > 0 then
    local wrote
    if ttl then
      wrote = redis.pcall('SET', key, text, 'PX', ttl)
    else
      wrote = redis.pcall('SETRANGE', key, place or '0', text)
    end
    failed = type(wrote) == 'table' and wrote.err or false
  end

  -- The answer is MessagePack as it would be made of an array, written by hand:
  -- 0x90 and how many follow, 0xcf an integer of 8 bytes, 0xce of 4, 0xc2 false.
  if asking == 1 and not failed then
    if full then return pack('>BBI8BBBI8BI4', 0x95, 0xcf, now, 0xc2, flags, 0xcf, full, 0xce, phase) end
    if start then
      return pack('>BBI8BBBi8BI8BI4BI4', 0x97, 0xcf, now, 0xc2, flags, 0xd3, start, 0xcf, stop, 0xce, prev, 0xce, cur)
    end
    return pack('>BBI8BBBI4BI8BI8', 0x96, 0xcf, now, 0xc2, flags, 0xce, used, 0xcf, newest, 0xcf, free)
  end
  local reply = {now, failed}
  if asking > 1 then reply[3] = debited end
  local r = #reply
  if full then
    reply[r + 1], reply[r + 2], reply[r + 3] = flags, full, phase
  elseif start then
    reply[r + 1], reply[r + 2], reply[r + 3], reply[r + 4], reply[r + 5] = flags, start, stop, prev, cur
  else
    reply[r + 1], reply[r + 2], reply[r + 3], reply[r + 4] = flags, used, newest, free
  end
  return cmsgpack.pack(reply)
end

if lone then
  local reply = usual_check(lone)
  if reply then return reply end
end
