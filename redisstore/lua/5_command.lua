-- What is done to one balance and is rare: reset and block here, debts in
-- 6_repay.lua, lending in 6_loans.lua, refund and return in 7_refund.lua. KEYS[1]
-- is the balance, KEYS[3] what is lent out of it, KEYS[4], for repay alone, the ids
-- of debts, KEYS[2] its ledger: what was refunded on it, so that each
-- receipt is good once, later refunds know how far earlier ones pulled a bucket
-- forward, and receipts from before a reset are void (package weir argues it
-- where the memory store does the same). A ledger outlives its balance:
--
--   g  until(7) reset(7), then per refund:
--      id(8) at(7) due(7) when(7) pull(7) passed(7)
--
-- reset is the time up to which receipts are void: that of the last reset, or from
-- when on a refund left nothing that is owed.
--
-- passed is when the last of what was charged before the refund was due: from
-- then on no receipt is left that the refund has a say in, and it is dropped.
-- What loans gave back to a bucket stands there too, with an id of zeros.
--
-- ARGV[1] is the verb; the rest is named where it is read. All replies begin with
-- now.

local LEDGER_HEAD, LEDGER_ENTRY = 15, 43
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
    if till > now - MAX_SKEW then -- a clock may go back by as much
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
    -- Receipts are of the time used, which may be ahead of the clock.
    ledger.reset, ledger.refunds = math.max(now, s.charged or s.newest or s.start, ledger.reset), ''
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
