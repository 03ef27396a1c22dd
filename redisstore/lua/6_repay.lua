-- repay: what an instance admitted by itself while this server was away is
-- debited, by id, once. Never more than the balance holds: whoever was admitted
-- more than a limit by several instances is not punished beyond an empty balance.
-- ARGV: id, quota with the cost.
--
-- KEYS[4] holds the latest ids, 8 bytes each, the newest last, for an hour after
-- it. It is a key of its own because a reset and a step of the clock void receipts
-- and not ids: a debt whose outcome is unknown is sent again after either. It has
-- room for every id of a thousand instances that are cut off four times; beyond,
-- the oldest goes, and it alone could be debited twice.

local KNOWN_MS, MAX_IDS = 3600000, 4096

-- has returns whether id is one of ids.
local function has(ids, id)
  local at = 0
  repeat at = string.find(ids, id, at + 1, true) until not at or at % 8 == 1
  return at
end

-- faded returns how many units a sliding window's previous period still counts for,
-- rounded up.
local function faded(v, period)
  local units = floor(v.prev * (v.stop - v.at) / period) -- of doubles: may be one too few
  local u2, u1, u0 = multiply(units, period)
  if less(u2, u1, u0, multiply(v.prev, v.stop - v.at)) then units = units + 1 end
  return units
end

if verb == 'repay' then
  if wrong[4] then return cmsgpack.pack({now, 'wrong_type'}) end
  local id, q, ids = ARGV[2], quota(3), values[4] or ''
  if #ids % 8 ~= 0 then return cmsgpack.pack({now, 'bad_state'}) end
  if has(ids, id) then return cmsgpack.pack({now, false}) end
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
    local used = v.used or v.prev > 0 and v.cur + faded(v, q.period) or v.cur
    q.cost = math.min(cost, q.n - used)
    room = room and q.cost > 0
  end
  if room then
    settle(1, v, s, q, true)
    local failed = flush()
    if failed then return cmsgpack.pack({now, failed}) end
  end
  redis.call('SET', KEYS[4], sub(ids .. id, -8 * MAX_IDS), 'PX', KNOWN_MS)
  return cmsgpack.pack({now, false})
end
