-- Take and peek, a batch at a time, in three phases: read every key; decide bill
-- after bill over the table of states; write each changed key once. Nothing is
-- written before everything is decided, since Redis does not roll back.
--
-- ARGV[1] is a MessagePack array of integers:
--
--   not_after, then for each run of bills that ask the same of one balance each:
--     verb wait quota keys more, and if more is 1 per key how many bills ask;
--     0 at the end; then for each other bill:
--     verb wait charges, and per charge: trial quota; 0 at the end
--   quota: kind+1 n period cost, then for buckets: cap cost_us cost_phase cap_us
--     cap_phase; for fixed windows: the number of edges, and the edges
--
-- verb is 1 for take, 2 for peek. KEYS are the balances in the order of use;
-- ARGV[2], if not empty, is an array that says which key each one is, for
-- batches in which a key is used by several runs or bills.
--
-- The reply is an array: now, an error of the first write or false, then per key
-- of a run: how many of its bills were debited (if more), the flags and the view
-- after them, or a word if the state is bad; then per other bill a status (0
-- decided, or a word) and per balance the flags and the view.

local args = cmsgpack.unpack(ARGV[1])
local which = ARGV[2] ~= '' and cmsgpack.unpack(ARGV[2])
local p, balance = 2, 0 -- next argument, last balance
local reply, r = {now, false}, 2

local not_after = args[1]
if not_after > 0 and now > not_after then
  return cmsgpack.pack({now, 'STALE'})
end

read()

local function next_key()
  balance = balance + 1
  return which and which[balance] or balance
end

local function quota()
  local q = {kind = args[p] - 1, n = args[p + 1], period = args[p + 2], cost = args[p + 3]}
  p = p + 4
  if q.kind == TOKEN or q.kind == LEAKY then
    q.cap, q.cost_us, q.cost_phase, q.cap_us, q.cap_phase = args[p], args[p + 1], args[p + 2], args[p + 3], args[p + 4]
    p = p + 5
  elseif q.kind == FIXED then
    local count = args[p]
    if count > 0 then
      q.edges = {}
      for e = 1, count do q.edges[e] = args[p + e] end
    end
    p = p + 1 + count
  end
  return q
end

-- answer appends a view. Flags: 1 fits, 2 debited, 4 the time used follows,
-- 8 the forget instant follows, 16 stepped, 32 the block's end follows.
local function answer(v, q)
  local flags = (v.fits and 1 or 0) + (v.debited and 2 or 0) + (v.at ~= now and 4 or 0) + (v.stepped and 16 or 0)
  local kind = q.kind
  local bucket = kind == TOKEN or kind == LEAKY
  if bucket and v.forget > 0 then flags = flags + 8 end
  if v.blocked then flags = flags + 32 end
  r = r + 1
  reply[r] = flags
  if v.at ~= now then r = r + 1; reply[r] = v.at end
  if bucket then
    reply[r + 1], reply[r + 2] = v.full, v.phase
    r = r + 2
    if v.forget > 0 then r = r + 1; reply[r] = v.forget end
  elseif kind == LOG then
    reply[r + 1], reply[r + 2], reply[r + 3] = v.used, v.newest, v.free
    r = r + 3
  else
    reply[r + 1], reply[r + 2], reply[r + 3], reply[r + 4] = v.start, v.stop, v.prev, v.cur
    r = r + 4
  end
  if v.blocked then r = r + 1; reply[r] = v.blocked end
end

local function refuse(word)
  r = r + 1
  reply[r] = word
end

-- usual decides one take on a bucket that was last charged under the same quota,
-- on a clock that did not go back, without a table: it is what nearly every
-- check is. It returns false, having done nothing, if this is not such a case.
local function usual(i, q, room_us, room_phase)
  local value, full, phase, stamp = values[i], now, 0, 0
  if value then
    if byte(value) ~= 98 or #value ~= 34 then return false end
    local charged, n, cap
    full, phase, charged, n, cap, stamp = unpack_('>I7I4I7I4I4I7', value, 2)
    if stamp <= now or n ~= q.n or cap ~= q.cap or charged > now then return false end
    if full < now or full == now and phase == 0 then full, phase = now, 0 end
  elseif wrong[i] then
    return false
  end
  local us, left = full - now - room_us, phase - room_phase
  if us < -1 or us == -1 and left <= q.n or us == 0 and left <= 0 then
    full, phase = full + q.cost_us, phase + q.cost_phase
    if phase >= q.n then full, phase = full + 1, phase - q.n end
    write_later(i, full, phase, q.n, q.cap, stamp)
    reply[r + 1] = 3
  else
    reply[r + 1] = 0
  end
  reply[r + 2], reply[r + 3] = full, phase
  r = r + 3
  return true
end

-- Runs.
local v = {}

-- decide decides count bills that ask the same of key i.
local function decide(i, take, wait, q, count, more)
  local s = state(i)
  if s.bad then return refuse(s.bad) end
  judge(v, s, q, wait)
  if v.lost then return refuse('AGAIN') end
  local debited = 0
  if take and q.cost ~= 0 then
    settle(i, v, s, q, v.fits)
    while v.debited and debited < count do
      debited = debited + 1
      if debited < count then
        judge(v, s, q, wait)
        if v.fits then charge(i, v, s, q) end
      end
    end
  end
  if more then
    r = r + 1
    reply[r] = debited
  end
  answer(v, q)
end

while args[p] > 0 do
  local take, wait = args[p] == 1, args[p + 1]
  p = p + 2
  local q = quota()
  local count, more = args[p], args[p + 1] == 1
  p = p + 2
  local bucket = q.kind == TOKEN or q.kind == LEAKY
  if bucket and take and not which and not more and q.n > 0 and q.cost > 0 then
    local room_us, room_phase = q.cap_us - q.cost_us + wait, q.cap_phase - q.cost_phase
    for _ = 1, count do
      balance = balance + 1
      if not usual(balance, q, room_us, room_phase) then
        decide(balance, take, wait, q, 1, false)
      end
    end
  else
    for k = 1, count do
      decide(next_key(), take, wait, q, more and args[p + k - 1] or 1, more)
    end
    if more then p = p + count end
  end
end
p = p + 1

-- Bills of several balances, or with trials.
local function bill()
  local take, wait, count = args[p] == 1, args[p + 1], args[p + 2]
  p = p + 3
  local keys, quotas, views, trials = {}, {}, {}, {}
  local refused, culprit, bad = 0, 0, nil
  for c = 1, count do
    trials[c] = args[p]
    p = p + 1
    quotas[c] = quota()
    keys[c] = next_key()
    views[c] = {}
    local s = state(keys[c])
    bad = bad or s.bad
    if not s.bad and trials[c] == 0 then
      local q = quotas[c]
      judge(views[c], s, q, wait)
      if views[c].lost then bad = bad or 'AGAIN' end
      if not views[c].fits and q.cost ~= 0 then
        refused, culprit = refused + 1, c
      end
    end
  end
  if bad then return refuse(bad) end
  for c = 1, count do
    local q, view = quotas[c], views[c]
    if take and trials[c] == 0 and q.cost ~= 0 then
      settle(keys[c], view, state(keys[c]), q, refused == 0)
    end
  end
  for c = 1, count do -- trials, after the verdict
    if trials[c] ~= 0 then
      local q, view, s = quotas[c], views[c], state(keys[c])
      judge(view, s, q, wait)
      local others = refused == 0 or refused == 1 and trials[c] == culprit
      if take and q.cost ~= 0 then settle(keys[c], view, s, q, others and view.fits) end
    end
  end
  refuse(0)
  for c = 1, count do answer(views[c], quotas[c]) end
end

while args[p] > 0 do bill() end

local failed = flush()
if failed then reply[2] = failed end
return cmsgpack.pack(reply)
