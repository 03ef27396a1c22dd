-- The algorithms: the same steps as package algo, which argues them. A quota q
-- holds kind, n, period, cost (-1: can never fit) and, for buckets, cap and the
-- spans of cost and capacity as whole microseconds and a phase in 1/n; for
-- calendar windows the edges of a few periods around now.
--
-- judge fills the view v: at (the time used), and what package algo's View calls
-- full phase forget, start prev cur, used newest free; stepped, fits, blocked.

local TOKEN, FIXED, LOG, SLIDING, LEAKY = 0, 1, 2, 3, 4
local MAX_SKEW = 10000000

local function adopt(v, s, q, full, charged)
  if q.n == 0 then
    v.full, v.phase = v.forget, 0
    return
  end
  local d2, d1, d0 = multiply(s.n, full - charged)
  d2, d1, d0 = plus(d2, d1, d0, s.phase)
  if q.kind == TOKEN then
    if q.cap >= s.cap then
      d2, d1, d0 = sum(d2, d1, d0, multiply(q.cap - s.cap, q.period))
    else
      d2, d1, d0 = difference(d2, d1, d0, multiply(s.cap - q.cap, q.period))
    end
  end
  local us, phase = divide(d2, d1, d0, q.n)
  if charged + us < v.at then return end
  v.full, v.phase = charged + us, phase
end

local function judge_bucket(v, s, q, wait)
  v.full, v.phase, v.forget = now, 0, 0
  if s.full then
    local full, charged = s.full, s.charged
    local ahead = charged - now
    if ahead > MAX_SKEW then
      full, charged, v.stepped = full - ahead, now, true
    elseif ahead > 0 then
      v.at, v.full = charged, charged
    end
    if v.at > full or v.at == full and s.phase == 0 then
      v.stepped = false
    elseif s.n == q.n and s.cap == q.cap then
      v.full, v.phase = full, s.phase
    else
      v.forget = s.phase > 0 and full + 1 or full
      adopt(v, s, q, full, charged)
    end
  end
  if q.n == 0 or q.cost < 0 then return false end
  local us = v.full - v.at + q.cost_us - q.cap_us - wait
  local phase = v.phase + q.cost_phase - q.cap_phase
  return us < -1 or us == -1 and phase <= q.n or us == 0 and phase <= 0
end

-- Where a charge reads anew what is owed, the receipts from before it become void:
-- under a limit that is changed back nobody would know what was paid meanwhile.
local function charge_bucket(i, v, s, q)
  if v.forget > 0 and (q.kind == TOKEN or s.n ~= q.n) then
    s.void = math.max(s.void or 0, s.charged, v.at - 1)
    s.void_until = math.max(s.void_until or 0, v.forget)
  end
  v.full = v.full + q.cost_us
  v.phase = v.phase + q.cost_phase
  if v.phase >= q.n then v.full, v.phase = v.full + 1, v.phase - q.n end
  v.forget = 0
  s.full, s.phase, s.charged, s.n, s.cap = v.full, v.phase, v.at, q.n, q.cap
  change(i, s, v.full + 1)
end

local function period_around(q, t)
  local edges = q.edges
  if not edges then
    local start = t - t % q.period
    return start, start + q.period
  end
  for e = 1, #edges - 1 do
    if edges[e] <= t and t < edges[e + 1] then return edges[e], edges[e + 1] end
  end
end

local function judge_window(v, s, q)
  v.prev, v.cur = 0, 0
  if s.start and s.start > now then
    if s.start - now <= MAX_SKEW then v.at = s.start else v.stepped = true end
  end
  v.start, v.stop = period_around(q, v.at)
  if not v.start then
    v.lost = true -- the time is outside the edges: the caller has to ask again
    return false
  end
  if s.start then
    if v.stepped or s.start == v.start then
      v.prev, v.cur = s.prev, s.cur
    elseif q.kind == SLIDING and s.start + q.period == v.start then
      v.prev = s.cur
    end
  end
  local room = q.n - v.cur - q.cost
  if q.n == 0 or q.cost < 0 or room < 0 then return false end
  if v.prev == 0 then return true end
  local have, taken = room * q.period, v.prev * (v.stop - v.at)
  if have < EXACT and taken < EXACT then return taken <= have end
  local h2, h1, h0 = multiply(room, q.period)
  return not less(h2, h1, h0, multiply(v.prev, v.stop - v.at))
end

local function keep_window(i, v, s, q)
  s.start, s.prev, s.cur = v.start, v.prev, v.cur
  local need = v.stop
  if q.kind == SLIDING and v.cur > 0 then need = need + q.period end
  change(i, s, need)
end

local function judge_log(v, s, q)
  v.used, v.newest, v.free = 0, 0, 0
  if not s.log then
    return q.n > 0 and q.cost >= 0 and q.cost <= q.n
  end
  v.newest = s.newest
  local shift = 0
  local ahead = s.newest - now
  if ahead > MAX_SKEW then
    shift, v.newest, v.stepped = ahead, now, true
  elseif ahead > 0 then
    v.at = s.newest
  end
  local first = first_after(s, v.at + shift - q.period)
  local gone = before(s, first)
  v.used = s.total - gone
  if v.used == 0 then v.stepped = false end
  if q.n == 0 or q.cost < 0 then return false end
  local excess = v.used + q.cost - q.n
  if excess <= 0 then return true end
  v.free = entry(s, first_total(s, first, gone + excess)) - shift + q.period
  return false
end

-- step_log moves every entry so that the newest stands at now.
local function step_log(s)
  local ahead = s.newest - now
  local moved = {}
  for i = 1, s.entries do
    local t, total = entry(s, i)
    moved[i] = pack('>I7I7', t > ahead and t - ahead or 0, total)
  end
  s.log = 'l' .. table.concat(moved)
  s.newest, s.rewrite = now, true
end

local function charge_log(i, v, s, q)
  if not s.log then
    s.log, s.entries, s.dead, s.base, s.total = 'l', 0, 0, 0, 0
    s.rewrite = true
  elseif v.stepped then
    step_log(s)
  end
  local first = first_after(s, v.at - q.period)
  s.dead, s.base = first - 1, before(s, first)
  s.total = s.total + q.cost
  if s.entries > 0 and s.newest == v.at then -- the last entry grows
    s.entries = s.entries - 1
    s.log = sub(s.log, 1, offset(s.entries + 1) - 1)
    if s.kept and s.kept > s.entries then s.kept = s.entries end
  end
  if s.dead > 0 and 2 * s.dead >= s.entries then s.rewrite = true end
  s.log = s.log .. pack('>I7I7', v.at, s.total)
  s.entries = s.entries + 1
  s.newest, v.newest = v.at, v.at
  v.used = v.used + q.cost
  change(i, s, v.at + q.period)
end

-- judge says in v how key i stands and whether q fits.
local function judge(v, s, q, wait)
  v.at, v.stepped, v.lost = now, false, false
  local kind = q.kind
  if kind == TOKEN or kind == LEAKY then
    v.fits = judge_bucket(v, s, q, wait)
  elseif kind == LOG then
    v.fits = judge_log(v, s, q)
  else
    v.fits = judge_window(v, s, q)
  end
  v.debited, v.blocked = false, s.blocked
  if s.blocked then v.fits = false end
end

-- charge debits what judge found to fit.
local function charge(i, v, s, q)
  local kind = q.kind
  if kind == TOKEN or kind == LEAKY then
    charge_bucket(i, v, s, q)
  elseif kind == LOG then
    charge_log(i, v, s, q)
  else
    v.cur = v.cur + q.cost
    keep_window(i, v, s, q)
  end
  v.debited = true
end

-- step keeps the new stored time of a denied state that was too far ahead.
local function step(i, v, s, q)
  local kind = q.kind
  if kind == TOKEN or kind == LEAKY then
    s.full, s.charged = s.full - (s.charged - now), now
    change(i, s, s.full + 1)
  elseif kind == LOG then
    step_log(s)
    change(i, s, now + q.period)
  else
    keep_window(i, v, s, q)
  end
end

-- settle leaves in the state what a taken bill, admitted or not, makes of it.
-- After a step of the clock the state's receipts tell of a time in which what
-- they owe no longer stands, so they become void with it.
local function settle(i, v, s, q, admitted)
  if v.stepped then
    s.void = s.charged or s.newest or s.start + 2 * q.period
    s.void_until = s.full and s.full + 1 or s.newest and s.newest + q.period or s.void
  end
  if admitted then
    charge(i, v, s, q)
  elseif v.stepped then
    step(i, v, s, q)
  end
end
