-- Refund, and the return of a loan: units of a receipt come back, which is id at
-- due phase.
--
-- The ledger notes each refund by its id. A return needs no such note, being good
-- once by the list of loans; what a later refund must know of it, for a bucket, is
-- how far it pulled. A hot key has several returns a second for as long as it is
-- hot, so of those only the latest are kept apart; older ones are summed up, as if
-- all had come back at the end of them what was charged at their beginning: less
-- may then come back than a receipt is owed, never more.

local MAX_REFUNDS, MAX_RETURNS, RETURNED = 1024, 64, ('\0'):rep(8)

local id = ARGV[2]
local at, due, phase, units = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local q = quota(7) -- the spans are those of the units
q.cost = 0
local nothing = cmsgpack.pack({now, false, 0, 0})

local v = {}
judge(v, s, q, 0)
if v.lost then return cmsgpack.pack({now, 'AGAIN'}) end
if verb == 'return' then
  local kept, listed = loans(id)
  if not listed then return nothing end
  keep_loans(kept)
end
if v.stepped or ledger.reset > 0 and at <= ledger.reset then return nothing end
-- From before the clock went back by more than is believed, and the balance is another by now.
if at > v.at + MAX_SKEW then return nothing end

local pulled, refunds, returns = 0, 0, 0
for i = 1, #ledger.refunds, LEDGER_ENTRY do
  local noted = sub(ledger.refunds, i, i + 7)
  if noted == RETURNED then
    returns = returns + 1
  else
    refunds = refunds + 1
    if noted == id then return nothing end
  end
  local f_at, f_due, f_when, f_pull = unpack_('>I7I7I7I7', ledger.refunds, i + 8)
  if f_when >= at and (f_at < at or f_at == at and f_due <= due) then
    pulled = pulled + f_pull
  end
end

if verb == 'refund' and refunds >= MAX_REFUNDS then return nothing end

local when, pull, settled = now, 0, false
local given_us, given_phase = 0, 0
local till = math.max(idle_at(q.period), due)

local function refund_bucket()
  if not s.full or v.at > s.full or v.at == s.full and s.phase == 0 then return end
  if s.n ~= q.n or q.kind == TOKEN and s.cap ~= q.cap then return end
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
  if s.entries == s.dead then
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

local function note(id, at, due, when, pull, till)
  return id .. pack('>I7I7I7I7I7', at, due, when, pull, till)
end

-- sum_up makes one note of the two oldest returns.
local function sum_up(notes)
  local first, rest = nil, {}
  for i = 1, #notes, LEDGER_ENTRY do
    local one = sub(notes, i, i + LEDGER_ENTRY - 1)
    if first ~= false and sub(one, 1, 8) == RETURNED then
      if first then
        local at1, due1, when1, pull1, till1 = unpack_('>I7I7I7I7I7', first, 9)
        local at2, due2, when2, pull2, till2 = unpack_('>I7I7I7I7I7', one, 9)
        if at2 < at1 or at2 == at1 and due2 < due1 then at1, due1 = at2, due2 end
        one = note(RETURNED, at1, due1, math.max(when1, when2), pull1 + pull2, math.max(till1, till2))
        first = false
        rest[#rest + 1] = one
      else
        first = one
      end
    else
      rest[#rest + 1] = one
    end
  end
  return table.concat(rest)
end

if settled then
  -- Nothing is owed any more, so what was charged before this instant is paid and its
  -- receipts are void. They must not be reckoned anew: how far earlier refunds brought
  -- them forward would be forgotten, and they would seem to be due as first charged.
  -- Of those of this very instant the ids stay, and nothing of them can be pulled.
  pull = 0
  ledger.reset = math.max(ledger.reset, when - 1)
  local kept = {}
  for i = 1, #ledger.refunds, LEDGER_ENTRY do
    if sub(ledger.refunds, i, i + 7) ~= RETURNED and unpack_('>I7', ledger.refunds, i + 8) >= when then
      kept[#kept + 1] = sub(ledger.refunds, i, i + 28) .. pack('>I7', 0) .. sub(ledger.refunds, i + 36, i + 42)
    end
  end
  ledger.refunds = table.concat(kept)
end
if verb == 'refund' then
  ledger.refunds = ledger.refunds .. note(id, at, due, when, pull, till)
elseif pull > 0 then
  if returns >= MAX_RETURNS then ledger.refunds = sum_up(ledger.refunds) end
  ledger.refunds = ledger.refunds .. note(RETURNED, at, due, when, pull, till)
end
local failed = flush()
if failed then return cmsgpack.pack({now, failed}) end
if verb == 'refund' or pull > 0 then keep(till) end
return cmsgpack.pack({now, false, given_us, given_phase})
