-- What another region took from balances is debited here. KEYS are pairs: a
-- balance, and what was heard of it from that region:
--
--   s  incarnation(15) out(7) back(7) before(15) guessed(7)
--
-- Counters are cumulative, so what is new is the difference to what was heard
-- before; a message that comes twice or late says nothing new. A counter that
-- begins anew has another incarnation and is heard from 0; one incarnation before
-- it is remembered, so that a late message of it is known as one.
--
-- Where the other region is cut off, what it takes is guessed: as much as this
-- one. What was guessed is set off once against what is heard when it is back.
--
-- A debit may overdraw a balance, as far as debt goes: what regions admitted
-- before they knew of each other is paid back out of the rate. Of a counter that
-- is older than the balance remembers, with nothing heard before, nobody knows how
-- much is long paid off: it empties the balance and no more.
--
-- The period of a window is named by its start. One that has not begun here, by
-- this server's clock, is put off; one that is over counts where it still counts.
--
-- ARGV[1] holds FIELDS values a pair. Reply: now, error, then per pair 0 for
-- nothing new, 1 for debited, 2 for put off, 3 for a state that cannot be read.

local args = cmsgpack.unpack(ARGV[1])
local FIELDS, HEARD, NOBODY = 13, 52, ('\0'):rep(15)
local MOST_UNITS = 2 ^ 30
local GUESS, RECENT = 1, 2

read()
local reply = {now, false}
local heard = {}

-- A letter may tell of two periods of a sliding window, which are one balance. Of a key
-- that is named again only the first place counts, where what was done before is found.
local place = {}
do
  local first = {}
  for i = 1, #KEYS do
    first[KEYS[i]] = first[KEYS[i]] or i
    place[i] = first[KEYS[i]]
  end
end

-- span returns units as microseconds and a phase.
local function span(units, q)
  local d2, d1, d0 = multiply(math.min(units, MOST_UNITS), q.period)
  return divide(d2, d1, d0, q.n)
end

-- debit_bucket moves a bucket by units, which may be less than none.
local function debit_bucket(i, v, s, q, units, debt)
  local us, phase = span(math.abs(units), q)
  if units > 0 then
    local room = v.at + q.cap_us + debt - v.full
    if us >= room then us, phase = math.max(room, 0), 0 end
  else
    local owed = v.full - v.at
    if us >= owed then us, phase = owed, v.phase end
    us, phase = -us, -phase
    if v.phase + phase < 0 then us, phase = us - 1, phase + q.n end
  end
  if us == 0 and phase == 0 then return end
  q.cost_us, q.cost_phase = us, phase
  settle(i, v, s, q, true)
end

-- debit_window adds units to the period that starts at start, and reports whether
-- that period has not begun.
local function debit_window(i, v, s, q, units, debt, start)
  if v.lost then return now < start end
  if start > v.start then return true end
  local which
  if start == v.start then
    which = 'cur'
  elseif q.kind == SLIDING and start == v.start - q.period then
    which = 'prev'
  else
    return false
  end
  local after = math.max(0, math.min(v[which] + units, math.max(v[which], math.min(q.n + debt, 4294967295))))
  if after == v[which] then return false end
  q.cost = 0
  v[which] = after
  settle(i, v, s, q, true)
  return false
end

local function debit_log(i, v, s, q, units, debt)
  q.cost = math.min(units, q.n + debt - v.used)
  if q.cost > 0 then settle(i, v, s, q, true) end
end

-- known reads what was heard of pair k before.
local function known(k)
  local v = values[place[2 * k]]
  if v and byte(v) == 115 and #v == HEARD then
    local out, back = unpack_('>I7I7', v, 17)
    return sub(v, 2, 16), out, back, sub(v, 31, 45), (unpack_('>I7', v, 46))
  end
  return NOBODY, 0, 0, NOBODY, 0
end

local function hear(k)
  local a, i, noted = (k - 1) * FIELDS, place[2 * k - 1], place[2 * k]
  local how, incarnation, out, back = args[a + 1], args[a + 2], args[a + 3], args[a + 4]
  local q = {kind = args[a + 5] - 1, n = args[a + 6], period = args[a + 7], cost = 0}
  local most, start, stop = args[a + 8], args[a + 9], args[a + 10]
  local debt_us, debt, life = args[a + 11], args[a + 12], args[a + 13]
  local s = state(i)
  if s.bad or wrong[noted] then return 3 end
  local was, had_out, had_back, before, guessed = known(k)
  local more, given = out, 0
  if how % 2 ~= GUESS then
    if incarnation == before and before ~= NOBODY then return 0 end
    if incarnation ~= was then
      if was ~= NOBODY then
        before = was
      elseif floor(how / RECENT) % 2 == 0 then
        debt_us, debt = 0, 0
      end
      was, had_out, had_back = incarnation, 0, 0
    end
    more, given = math.max(0, out - had_out), math.max(0, back - had_back)
    if more == 0 and given == 0 then return 0 end
    more = more - math.min(guessed, more)
    guessed = 0
    had_out, had_back = math.max(out, had_out), math.max(back, had_back)
  else
    guessed = guessed + more
  end
  local v, units = {}, more - given
  if q.kind == TOKEN or q.kind == LEAKY then
    q.cap = most
    q.cap_us, q.cap_phase = span(most, q)
    q.cost_us, q.cost_phase = 0, 0
    judge(v, s, q, 0)
    if units ~= 0 then debit_bucket(i, v, s, q, units, debt_us) end
  elseif q.kind == LOG then
    judge(v, s, q, 0)
    if units > 0 then debit_log(i, v, s, q, units, debt) end
  else
    if stop > 0 then q.edges = {start, stop} end
    judge(v, s, q, 0)
    if debit_window(i, v, s, q, units, debt, start) then return 2 end
  end
  values[noted] = 's' .. was .. pack('>I7I7', had_out, had_back) .. before .. pack('>I7', guessed)
  heard[#heard + 1] = {noted, values[noted], life}
  return 1
end

for k = 1, #KEYS / 2 do reply[k + 2] = hear(k) end
local failed = flush()
if failed then return cmsgpack.pack({now, failed}) end
for j = 1, #heard do
  local h = heard[j]
  local answer = redis.pcall('SET', KEYS[h[1]], h[2], 'PX', h[3])
  if answer.err then return cmsgpack.pack({now, answer.err}) end
end
return cmsgpack.pack(reply)
