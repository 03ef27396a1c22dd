-- repay: what an instance admitted by itself while this server was away is
-- debited, by id, once: the id stands in the ledger for an hour as a refund that
-- gave nothing back. Never more than the balance holds: whoever was admitted more
-- than a limit by several instances is not punished beyond an empty balance.
-- ARGV: id, quota with the cost.

local KNOWN = 3600000000

if verb == 'repay' then
  local id, q = ARGV[2], quota(3)
  for i = 1, #ledger.refunds, LEDGER_ENTRY do
    if sub(ledger.refunds, i, i + 7) == id then return cmsgpack.pack({now, false}) end
  end
  local v, cost = {}, q.cost
  q.cost = 0
  judge(v, s, q, 0)
  if v.lost then return cmsgpack.pack({now, 'AGAIN'}) end
  local room = q.n > 0 and cost > 0
  if q.cap then
    local us, phase = v.at + q.cap_us - v.full, q.cap_phase - v.phase
    if phase < 0 then us, phase = us - 1, phase + q.n end
    if us < q.cost_us or us == q.cost_us and phase < q.cost_phase then q.cost_us, q.cost_phase = us, phase end
    room = room and (us > 0 or us == 0 and phase > 0)
  else
    q.cost = math.min(cost, q.n - (v.cur or v.used))
    room = room and q.cost > 0
  end
  if room then
    settle(1, v, s, q, true)
    local failed = flush()
    if failed then return cmsgpack.pack({now, failed}) end
  end
  ledger.refunds = ledger.refunds .. id .. pack('>I7I7I7I7I7', now, 0, now, 0, now + KNOWN)
  keep(now + KNOWN)
  return cmsgpack.pack({now, false})
end
