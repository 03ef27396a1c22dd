-- Refund, reset, block, lend and return, for one balance. KEYS[1] is the balance,
-- KEYS[3] what is lent out of it (see below), KEYS[2] its ledger: what was refunded on it, so that each receipt is good once, later
-- refunds know how far earlier ones pulled a bucket forward, and receipts from
-- before a reset are void (package weir argues it where the memory store does
-- the same). A ledger outlives its balance:
--
--   g  until(7) reset(7), then per refund:
--      id(8) at(7) due(7) when(7) pull(7) passed(7)
--
-- passed is when the last of what was charged before the refund was due: from
-- then on no receipt is left that the refund has a say in, and it is dropped.
--
-- ARGV[1] is the verb; the rest is named below. All replies begin with now.

local LEDGER_HEAD, LEDGER_ENTRY, MAX_REFUNDS = 15, 43, 1024
local verb = ARGV[1]

read()
local s = state(1)
if s.bad then return cmsgpack.pack({now, s.bad}) end
if wrong[2] or wrong[3] then return cmsgpack.pack({now, 'wrong_type'}) end

local ledger = {until_ = 0, reset = 0, refunds = ''}
do
  local v = values[2]
  if v then
    if byte(v) ~= 103 or #v < LEDGER_HEAD or (#v - LEDGER_HEAD) % LEDGER_ENTRY ~= 0 then
      return cmsgpack.pack({now, 'bad_state'})
    end
    local till, reset = unpack_('>I7I7', v, 2)
    if till > now then
      ledger.until_, ledger.reset = till, reset
      local kept = {}
      for i = LEDGER_HEAD + 1, #v, LEDGER_ENTRY do
        local passed = unpack_('>I7', v, i + 36)
        if passed >= now - MAX_SKEW then kept[#kept + 1] = sub(v, i, i + LEDGER_ENTRY - 1) end
      end
      ledger.refunds = table.concat(kept)
    end
  end
end

local function keep(till)
  if till > ledger.until_ then ledger.until_ = till end
  local v = pack('>c1I7I7', 'g', ledger.until_, ledger.reset) .. ledger.refunds
  redis.call('SET', KEYS[2], v, 'PX', floor((ledger.until_ - now + 999) / 1000) + 10000)
end

-- idle_at returns when the balance will be as if never used, at the latest.
local function idle_at(period)
  if s.full then return s.full + 1 end
  if s.start then return s.start + 2 * period end
  if s.log then return s.newest + period end
  return 0
end

if verb == 'reset' then
  local till = idle_at(tonumber(ARGV[2]))
  redis.call('DEL', KEYS[1])
  if till > now then
    ledger.reset, ledger.refunds = math.max(now, ledger.reset), ''
    keep(till)
  end
  return cmsgpack.pack({now, false})
end

if verb == 'block' then
  local length = tonumber(ARGV[2])
  s.blocked = length > 0 and now + length or nil
  local need = math.max(idle_at(tonumber(ARGV[3])), s.blocked or 0)
  if s.full or s.start then
    s.stamp, s.need = 0, need
    write(1)
  elseif s.log then
    s.rewrite, s.need = true, need
    write_log(1, s)
  elseif s.blocked then
    write_block(1, s)
  else
    redis.call('DEL', KEYS[1])
  end
  return cmsgpack.pack({now, false})
end

-- quota reads what ARGV[i] asks, as 5_take.lua lays it out.
local function quota(i)
  local args = cmsgpack.unpack(ARGV[i])
  local q = {kind = args[1] - 1, n = args[2], period = args[3], cost = args[4]}
  if q.kind == TOKEN or q.kind == LEAKY then
    q.cap, q.cost_us, q.cost_phase, q.cap_us, q.cap_phase = args[5], args[6], args[7], args[8], args[9]
  elseif q.kind == FIXED and args[5] > 0 then
    q.edges = {}
    for e = 1, args[5] do q.edges[e] = args[5 + e] end
  end
  return q
end

-- Loans: units debited here and spent by an instance for a short while. The sum
-- of those out is what admissions may at most run ahead in a window, so it is
-- bounded here, where all instances meet:
--
--   o  then per loan: id(8) units(4) until(7)
--
-- A loan of an instance that died is spent as far as the balance knows, and
-- leaves the sum when its time is up.

local LOAN = 19

-- loans returns those still out but for the one of id, and their sum.
local function loans(id)
  local v, kept, out = values[3], {}, 0
  if v and byte(v) == 111 and (#v - 1) % LOAN == 0 then
    for i = 2, #v, LOAN do
      local units, till = unpack_('>I4I7', v, i + 8)
      if till > now and sub(v, i, i + 7) ~= id then
        kept[#kept + 1] = sub(v, i, i + LOAN - 1)
        out = out + units
      end
    end
  end
  return kept, out
end

local function keep_loans(kept, life)
  if #kept == 0 then return redis.call('DEL', KEYS[3]) end
  redis.call('SET', KEYS[3], 'o' .. table.concat(kept), 'PX', floor(life / 1000) + 10000)
end

-- lend: id, the units asked for, the most that may be out, how long in µs, quota.
if verb == 'lend' then
  local id, most, life = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
  local q = quota(6)
  local kept, out = loans(id)
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
  keep_loans(kept, life)
  if q.cap then return cmsgpack.pack({now, false, units, life, v.at, v.full, v.phase}) end
  return cmsgpack.pack({now, false, units, life, v.at, v.start, v.stop, v.prev, v.cur})
end

-- refund and return: the receipt is id at due phase; units may come back.
local id = ARGV[2]
local at, due, phase, units = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local q = quota(7) -- the spans are those of the units
q.cost = 0
if verb == 'return' and values[3] then keep_loans((loans(id)), 1000000) end

local nothing = cmsgpack.pack({now, false, 0, 0})
if ledger.reset > 0 and at <= ledger.reset or #ledger.refunds >= MAX_REFUNDS * LEDGER_ENTRY then
  return nothing
end
local pulled = 0
for i = 1, #ledger.refunds, LEDGER_ENTRY do
  if sub(ledger.refunds, i, i + 7) == id then return nothing end
  local f_at, f_due, f_when, f_pull = unpack_('>I7I7I7I7', ledger.refunds, i + 8)
  if f_when >= at and (f_at < at or f_at == at and f_due <= due) then
    pulled = pulled + f_pull
  end
end

local v = {}
judge(v, s, q, 0)
if v.lost then return cmsgpack.pack({now, 'AGAIN'}) end
if v.stepped then return nothing end

local when, pull, settled = now, 0, false
local given_us, given_phase = 0, 0
local till = math.max(idle_at(q.period), due)

local function refund_bucket()
  if not s.full or v.at > s.full or v.at == s.full and s.phase == 0 then return end
  if s.n ~= q.n or s.cap ~= q.cap then return end
  local us, ph = due - pulled - v.at, phase
  if us < 0 or us == 0 and ph == 0 then return end
  local ahead = s.full - v.at
  if ahead < us or ahead == us and s.phase < ph then us, ph = ahead, s.phase end
  if q.cost_us < us or q.cost_us == us and q.cost_phase < ph then us, ph = q.cost_us, q.cost_phase end
  local full_before, phase_before = s.full, s.phase
  s.full, s.phase = s.full - us, s.phase - ph
  if s.phase < 0 then s.full, s.phase = s.full - 1, s.phase + q.n end
  pull = full_before - s.full + (phase_before > s.phase and 1 or 0)
  given_us, given_phase = us, ph
  when = v.at
  settled = s.full <= when and s.phase == 0
  change(1, s, s.full + 1)
end

local function refund_window()
  if not s.start or s.start ~= due or v.start ~= due then return end
  local back = math.min(units, s.cur)
  v.cur = s.cur - back
  given_us = back
  if back > 0 then keep_window(1, v, s, q) end
end

local function refund_log()
  if not s.log or at <= v.at - q.period then return end
  local i = first_after(s, at - 1)
  if i > s.entries then return end
  local t, total = entry(s, i)
  if t ~= at then return end
  local held = total - before(s, i)
  local back = math.min(units, held)
  local parts = {sub(s.log, 1, offset(i) - 1)}
  for j = (back == held) and i + 1 or i, s.entries do
    local tj, totalj = entry(s, j)
    parts[#parts + 1] = pack('>I7I7', tj, totalj - back)
  end
  s.log = table.concat(parts)
  if back == held then s.entries = s.entries - 1 end
  given_us = back
  if s.entries == 0 then
    if s.blocked then write_block(1, s) else redis.call('DEL', KEYS[1]) end
    return
  end
  s.newest, s.total = entry(s, s.entries)
  s.rewrite = true
  change(1, s, s.newest + q.period)
end

if q.kind == TOKEN or q.kind == LEAKY then
  refund_bucket()
elseif q.kind == LOG then
  refund_log()
else
  refund_window()
end
if given_us == 0 and given_phase == 0 then return nothing end

if settled then -- nothing is owed any more, so nothing can be pulled
  pull = 0
  local kept = {}
  for i = 1, #ledger.refunds, LEDGER_ENTRY do
    kept[#kept + 1] = sub(ledger.refunds, i, i + 28) .. pack('>I7', 0) .. sub(ledger.refunds, i + 36, i + 42)
  end
  ledger.refunds = table.concat(kept)
end
ledger.refunds = ledger.refunds .. id .. pack('>I7I7I7I7I7', at, due, when, pull, till)
local failed = flush()
if failed then return cmsgpack.pack({now, failed}) end
keep(till)
return cmsgpack.pack({now, false, given_us, given_phase})
