-- Loans: units debited here and spent by an instance for a short while. The sum
-- of those out is what admissions may at most run ahead in a window, so it is
-- bounded here, where all instances meet:
--
--   o  then per loan: id(8) units(4) until(7)
--
-- A loan of an instance that died is spent as far as the balance knows, and
-- leaves the sum when its time is up. It stays on the list a little longer, since
-- its rest comes back then; and as it leaves the list when it does, each loan
-- comes back once.

local LOAN, LATE = 19, 5000000

-- loans returns the list but for the loan of id, whether that was on it, and the
-- sum of what is out.
local function loans(id)
  local v, kept, listed, out = values[3], {}, false, 0
  if v and byte(v) == 111 and (#v - 1) % LOAN == 0 then
    for i = 2, #v, LOAN do
      local units, till = unpack_('>I4I7', v, i + 8)
      if sub(v, i, i + 7) == id then
        listed = true
      elseif till + LATE > now then
        kept[#kept + 1] = sub(v, i, i + LOAN - 1)
        if till > now then out = out + units end
      end
    end
  end
  return kept, listed, out
end

local function keep_loans(kept)
  if #kept == 0 then return redis.call('DEL', KEYS[3]) end
  local last = now
  for i = 1, #kept do last = math.max(last, (unpack_('>I7', kept[i], 13))) end
  redis.call('SET', KEYS[3], 'o' .. table.concat(kept), 'PX', floor((last + LATE - now) / 1000) + 10000)
end

-- lend: id, the units asked for, the most that may be out, how long in µs, quota.
if verb == 'lend' then
  local id, most, life = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
  local q = quota(6)
  local kept, _, out = loans(id)
  local units = math.min(tonumber(ARGV[3]), most - out)
  local v = {}
  while units >= 2 do
    q.cost = units
    if q.cap then
      local d2, d1, d0 = multiply(units, q.period)
      q.cost_us, q.cost_phase = divide(d2, d1, d0, q.n)
    end
    judge(v, s, q, 0)
    if v.lost then return cmsgpack.pack({now, 'AGAIN'}) end
    if v.fits or v.stepped or v.blocked then break end
    units = floor(units / 2)
  end
  if units < 2 or not v.fits or v.stepped then return cmsgpack.pack({now, false, 0}) end
  if v.stop then life = math.min(life, v.stop - now) end -- no loan outlives its period
  charge(1, v, s, q)
  local failed = flush()
  if failed then return cmsgpack.pack({now, failed}) end
  kept[#kept + 1] = id .. pack('>I4I7', units, now + life)
  keep_loans(kept)
  if q.cap then return cmsgpack.pack({now, false, units, life, v.at, v.full, v.phase}) end
  return cmsgpack.pack({now, false, units, life, v.at, v.start, v.stop, v.prev, v.cur})
end
