-- Take and peek, a batch at a time, in three phases: read every key; decide bill
-- after bill over the table of states; write each changed key once. Nothing is
-- written before everything is decided, since Redis does not roll back.
--
-- 1_take_usual.lua has read the keys, and says how arguments and reply are laid
-- out.

local p, balance = 2, 0 -- next argument, last balance
local reply, r = {now, false}, 2

read()

local function next_key()
  balance = balance + 1
  return which and math.abs(which[balance]) or balance
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

-- Runs.
local v = {}

-- charge_rest charges a log for those after the first of asking bills. They came at
-- one time, so they stand in one entry; a log is copied whenever it is charged, and
-- for many in turn the server would stand still.
local function charge_rest(i, v, s, q, asking)
  local cost = q.cost
  local more = math.min(asking - 1, floor((q.n - v.used) / cost))
  if more > 0 then
    q.cost = more * cost
    charge(i, v, s, q)
    q.cost = cost
  end
  return 1 + more
end

-- decide decides asking bills that ask the same of key i.
local function decide(i, take, wait, q, asking)
  local s = state(i)
  if s.bad then return refuse(s.bad) end
  judge(v, s, q, wait)
  if v.lost then return refuse('AGAIN') end
  local debited = 0
  if take and q.cost ~= 0 then
    settle(i, v, s, q, v.fits)
    if v.debited and q.kind == LOG then
      debited = charge_rest(i, v, s, q, asking)
      if debited < asking then judge(v, s, q, wait) end
    end
    while v.debited and debited < asking do
      debited = debited + 1
      if debited < asking then
        judge(v, s, q, wait)
        if v.fits then charge(i, v, s, q) end
      end
    end
  end
  if asking > 1 then
    r = r + 1
    reply[r] = debited
  end
  answer(v, q)
end

while args[p] > 0 do
  local take, wait = args[p] == 1, args[p + 1]
  p = p + 2
  local q = quota()
  local count, merged = args[p], args[p + 1]
  p = p + 2
  for k = 1, count do
    local asking = 1
    if merged > 0 and args[p] == k then
      asking, merged, p = args[p + 1], merged - 1, p + 2
    end
    decide(next_key(), take, wait, q, asking)
  end
end
p = p + 1

-- Bills of several balances, or with trials.
local function bill(take, wait, quotas, trials)
  local keys, views = {}, {}
  local refused, culprit, bad = 0, 0, nil
  for c = 1, #quotas do
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
  for c = 1, #quotas do
    local q, view = quotas[c], views[c]
    if take and trials[c] == 0 and q.cost ~= 0 then
      settle(keys[c], view, state(keys[c]), q, refused == 0)
    end
  end
  for c = 1, #quotas do -- trials, after the verdict
    if trials[c] ~= 0 then
      local q, view, s = quotas[c], views[c], state(keys[c])
      judge(view, s, q, wait)
      local others = refused == 0 or refused == 1 and trials[c] == culprit
      if take and q.cost ~= 0 then settle(keys[c], view, s, q, others and view.fits) end
    end
  end
  refuse(0)
  for c = 1, #quotas do answer(views[c], quotas[c]) end
end

while args[p] > 0 do
  local take, wait, charges = args[p] == 1, args[p + 1], args[p + 2]
  p = p + 3
  local quotas, trials = {}, {}
  for c = 1, charges do
    trials[c] = args[p]
    p = p + 1
    quotas[c] = quota()
  end
  local count = args[p]
  p = p + 1
  for _ = 1, count do bill(take, wait, quotas, trials) end
end

local failed = flush()
if failed then reply[2] = failed end
return cmsgpack.pack(reply)
