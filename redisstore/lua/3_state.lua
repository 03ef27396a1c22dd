-- States: what a key holds. One byte says which, then big-endian integers.
--
--   b  full(7) phase(4) charged(7) n(4) cap(4) stamp(7)      token, leaky bucket
--   w  start(7) prev(4) cur(4) stamp(7)                      fixed, sliding window
--   l  time(7) total(7) per entry, then                      sliding log
--      entries(4) dead(4) base(7) from(7) stamp(7) l
--   B  until(7) then one of the above, or nothing            blocked
--
-- The fields are those of package algo. stamp is when Redis will have dropped the
-- key, so a state read at or after it is none, and a write that needs no longer
-- than it may keep the key's time to live: KEEPTTL costs two thirds of PX.
--
-- What is known of a log as a whole stands at its end, so that its last 44 bytes,
-- the newest entry with them, answer most checks, and one write in place of them
-- adds an entry: dead is how many entries at the front had left when it was
-- written, base the total up to there, from the time of the first after them. The
-- letter at the very end is B in place of l under a block, so that who reads the
-- end alone knows.
--
-- A state that does not parse or has the wrong type is an error of its own bills
-- alone. It is never overwritten.

local unpack_, pack, byte, sub = struct.unpack, struct.pack, string.byte, string.sub
local LOG_ENTRY, LOG_TAIL = 14, 30

local values = {} -- key index → value as read, or false
local states = {} -- key index → state, parsed when first used
local dirty = {}  -- list of key indexes to write
local wrong = {}  -- key index → true where the key is no string

-- read fetches every key at once.
local function read()
  if #KEYS == 0 then return end
  values = redis.call('MGET', unpack(KEYS))
  local missing, at = {}, {}
  for i = 1, #KEYS do
    if not values[i] then
      missing[#missing + 1] = KEYS[i]
      at[#at + 1] = i
    end
  end
  -- MGET says nil of a key that is no string. One EXISTS tells whether any of
  -- the missing is such a key; only then are they asked one by one.
  if #missing > 0 and redis.call('EXISTS', unpack(missing)) > 0 then
    for j = 1, #missing do
      if redis.call('EXISTS', missing[j]) > 0 then wrong[at[j]] = true end
    end
  end
end

local function parse(s, v)
  local kind = byte(v)
  if kind == 98 and #v == 34 then
    local full, phase, charged, n, cap, stamp = unpack_('>I7I4I7I4I4I7', v, 2)
    if stamp > now then
      s.full, s.phase, s.charged, s.n, s.cap, s.stamp = full, phase, charged, n, cap, stamp
    end
  elseif kind == 119 and #v == 23 then
    local start, prev, cur, stamp = unpack_('>I7I4I4I7', v, 2)
    if stamp > now and prev + cur > 0 then
      s.start, s.prev, s.cur, s.stamp = start, prev, cur, stamp
    end
  elseif kind == 108 and #v > LOG_TAIL + LOG_ENTRY then
    local entries, dead, base, _, stamp = unpack_('>I4I4I7I7I7', v, #v - LOG_TAIL + 1)
    if #v ~= 1 + entries * LOG_ENTRY + LOG_TAIL or dead >= entries then
      s.bad = 'bad_state'
    elseif stamp > now then
      s.log, s.entries, s.dead, s.base, s.stamp = sub(v, 1, #v - LOG_TAIL), entries, dead, base, stamp
      s.newest, s.total = unpack_('>I7I7', v, #v - LOG_TAIL - LOG_ENTRY + 1)
      s.kept = entries
    end
  elseif kind then
    s.bad = 'bad_state'
  end
end

-- state returns the state of key i.
local function state(i)
  local s = states[i]
  if s then return s end
  -- With room for all fields of a log at once: to grow field by field costs more
  -- than to read the log.
  s = {
    stamp = 0, need = false, dirty = false, base = false, log = false, entries = false,
    newest = false, total = false, kept = false, dead = false,
  }
  states[i] = s
  local v = values[i]
  if v then
    if byte(v) == 66 and #v >= 8 then
      local till = unpack_('>I7', v, 2)
      if till > now then s.blocked = till end
      s.rewrite = true -- offsets into the value count from after the block
      v = sub(v, 9)
    end
    parse(s, v)
  elseif wrong[i] then
    s.bad = 'wrong_type'
  end
  return s
end

-- change notes that the state of key i is to be written and must be readable
-- until need.
local function change(i, s, need)
  s.need = need
  if not s.dirty then
    s.dirty = true
    dirty[#dirty + 1] = i
  end
end

-- lifetime returns a stamp and the milliseconds that reach it: a quarter and ten
-- seconds more than needed, so that steady use seldom has to set it again.
local function lifetime(need)
  local left = math.max(need - now, 0)
  left = left + floor(left / 4) + 10000000
  return now + left, floor((left + 999) / 1000)
end

local function encode(s, kind)
  local v
  if kind == 'b' then
    v = pack('>c1I7I4I7I4I4I7', 'b', s.full, s.phase, s.charged, s.n, s.cap, s.stamp)
  else
    v = pack('>c1I7I4I4I7', 'w', s.start, s.prev, s.cur, s.stamp)
  end
  if s.blocked then v = pack('>c1I7', 'B', s.blocked) .. v end
  return v
end

-- offset returns where entry i of a log (from 1) begins.
local function offset(i) return (i - 1) * LOG_ENTRY + 2 end

local function entry(s, i)
  return unpack_('>I7I7', s.log, offset(i))
end

-- before returns the running total before entry i, which is none of the dead.
local function before(s, i)
  if i == s.dead + 1 then return s.base end
  local _, total = entry(s, i - 1)
  return total
end

-- first_after returns the first entry with a time above t, entries+1 if none.
-- Those that are known to be dead are dead for good, whatever the clock does.
local function first_after(s, t)
  local low, high = s.dead + 1, s.entries + 1
  while low < high do
    local mid = floor((low + high) / 2)
    if (entry(s, mid)) > t then high = mid else low = mid + 1 end
  end
  return low
end

-- first_total returns the first entry from low on whose total reaches goal.
local function first_total(s, low, goal)
  local high = s.entries
  while low < high do
    local mid = floor((low + high) / 2)
    local _, total = entry(s, mid)
    if total >= goal then high = mid else low = mid + 1 end
  end
  return low
end

-- write_log writes a log whose entries were added to or moved. Entries are only
-- appended or the last one replaced, so that what comes before them need not
-- travel; a log is rewritten, without its dead, when half of it is dead or its
-- time to live must grow.
local function write_log(i, s)
  local ttl
  local whole = s.rewrite or s.stamp < s.need or s.blocked
  if whole then
    if s.dead > 0 then
      s.log = 'l' .. sub(s.log, offset(s.dead + 1))
      s.entries, s.dead = s.entries - s.dead, 0
    end
    s.stamp, ttl = lifetime(s.need)
  end
  local from = entry(s, s.dead + 1)
  local tail = pack('>I4I4I7I7I7c1', s.entries, s.dead, s.base, from, s.stamp, s.blocked and 'B' or 'l')
  if not whole then
    redis.call('SETRANGE', KEYS[i], offset(s.kept + 1) - 1, sub(s.log, offset(s.kept + 1)) .. tail)
    return
  end
  local v = s.log .. tail
  if s.blocked then v = pack('>c1I7', 'B', s.blocked) .. v end
  redis.call('SET', KEYS[i], v, 'PX', ttl)
end

-- void_receipts writes down in a balance's ledger (see 5_command.lua) that its
-- receipts up to s.void refund nothing. A step of the clock is rare, so the
-- ledger is found out here instead of being read with every take.
local function void_receipts(i, s)
  local ledger = string.gsub(KEYS[i], '}:', '}:g', 1)
  local till, reset = s.void_until, s.void
  local old = redis.pcall('GET', ledger)
  if type(old) == 'string' and #old >= 15 then
    local old_till, old_reset = unpack_('>I7I7', old, 2)
    till, reset = math.max(till, old_till), math.max(reset, old_reset)
  end
  -- While a slot of a cluster moves, a node may refuse a key that was not named. The
  -- charge stands all the same: it was decided, and others are written beside it.
  redis.pcall('SET', ledger, pack('>c1I7I7', 'g', till, reset), 'PX', floor((till - now + 999) / 1000) + 10000)
end

-- write_block writes a key that holds a block and nothing else.
local function write_block(i, s)
  local _, ttl = lifetime(s.blocked)
  redis.call('SET', KEYS[i], pack('>c1I7', 'B', s.blocked), 'PX', ttl)
end

-- write writes key i.
local function write(i)
  local s = states[i]
  if s.void then void_receipts(i, s) end
  if s.blocked and s.blocked > s.need then s.need = s.blocked end
  if s.log then return write_log(i, s) end
  local kind = s.full and 'b' or 'w'
  if s.stamp >= s.need then
    redis.call('SET', KEYS[i], encode(s, kind), 'KEEPTTL')
  else
    local ttl
    s.stamp, ttl = lifetime(s.need)
    redis.call('SET', KEYS[i], encode(s, kind), 'PX', ttl)
  end
end

-- flush writes every changed key once. Redis refuses writes before the first or
-- not at all (OOM, READONLY, NOREPLICAS, NOPERM): then nothing was written, and
-- the error is what flush returns.
local function flush()
  local first = true
  local function try(how, what)
    if not first then return how(what) end
    first = false
    local ok, err = pcall(how, what)
    if not ok then return type(err) == 'table' and err.err or tostring(err) end
  end
  for j = 1, #dirty do
    local failed = try(write, dirty[j])
    if failed then return failed end
  end
end
