-- The usual flight. Nearly every check is a take or a peek of a token or leaky
-- bucket that was last charged under the same quota, on a clock that did not go
-- back. A flight of nothing else is decided here, with its states in arrays of
-- numbers and not in tables, and ends here. The first balance that is anything
-- else (blocked, bad, of another algorithm, under a changed limit) leaves the
-- whole flight to the general way below; nothing was written by then. Both ways
-- decide alike, which TestTheUsualWayIsTheGeneralWay holds them to.
--
-- It stands first because a script makes each of its functions anew at every
-- call: those of the general way are two thirds of what a lone check costs.
--
-- ARGV[1] is a MessagePack array of integers:
--
--   not_after, then for each run of bills that ask the same of one balance each:
--     verb wait quota keys merged, and for each merged key which of them it is
--     and how many bills ask; 0 at the end; then for each other bill:
--     verb wait charges, and per charge: trial quota; 0 at the end
--   quota: kind+1 n period cost, then for buckets: cap cost_us cost_phase cap_us
--     cap_phase; for fixed windows: the number of edges, and the edges
--
-- verb is 1 for take, 2 for peek. KEYS are the balances in the order of use;
-- ARGV[2], if not empty, is an array that says which key each one is, for
-- batches in which a key is used by several runs or bills.
--
-- The reply is an array: now, an error of the first write or false, then per key
-- of a run: how many of its bills were debited (if merged), the flags and the view
-- after them, or a word if the state is bad; then per other bill a status (0
-- decided, or a word) and per balance the flags and the view.

local args = cmsgpack.unpack(ARGV[1])
local which = ARGV[2] ~= '' and cmsgpack.unpack(ARGV[2])
if args[1] > 0 and now > args[1] then return cmsgpack.pack({now, 'STALE'}) end

local unpack_, pack, byte, floor = struct.unpack, struct.pack, string.byte, math.floor
local BUCKET = '>c1I7I4I7I4I4I7' -- 3_state.lua says what stands in it

local found = #KEYS > 0 and redis.call('MGET', unpack(KEYS)) or {}
local missing = {}
for i = 1, #KEYS do
  if not found[i] then missing[#missing + 1] = KEYS[i] end
end
-- MGET says nil of a key that is no string, too: then the general way asks which.
local strange = #missing > 0 and redis.call('EXISTS', unpack(missing)) > 0

local function usual_flight()
  local call = redis.call
  local reply, r = {now, false}, 2
  local p, balance = 2, 0 -- next argument, last balance
  -- By key: the state once it was opened, the quota it is charged under, and
  -- whether it is to be written.
  local fulls, phases, stamps, ns, caps, charged = {}, {}, {}, {}, {}, {}

  -- open makes the state of key i one under n and cap. It returns false if that
  -- is not its quota, or if it is not a usual state.
  local function open(i, n, cap)
    local full, phase, stamp = now, 0, 0
    local value = found[i]
    if value then
      if #value ~= 34 or byte(value) ~= 98 then return false end
      local at, n_, cap_
      full, phase, at, n_, cap_, stamp = unpack_('>I7I4I7I4I4I7', value, 2)
      if n_ ~= n or cap_ ~= cap or at > now or stamp <= now then return false end
      if full < now or full == now and phase == 0 then full, phase = now, 0 end
    end
    fulls[i], phases[i], stamps[i], ns[i], caps[i] = full, phase, stamp, n, cap
    return true
  end

  while args[p] > 0 do -- runs
    local take, wait, kind, n, cost = args[p] == 1, args[p + 1], args[p + 2], args[p + 3], args[p + 5]
    if (kind ~= 1 and kind ~= 5) or n == 0 or cost < 0 then return false end
    local cap, cost_us, cost_phase = args[p + 6], args[p + 7], args[p + 8]
    local room_us, room_phase = args[p + 9] - cost_us + wait, args[p + 10] - cost_phase
    local count, merged = args[p + 11], args[p + 12]
    p = p + 13
    local next_merged = merged > 0 and args[p]
    if cost == 0 then take = false end
    for k = 1, count do
      balance = balance + 1
      local i = which and which[balance] or balance
      local full = fulls[i]
      if full then
        if ns[i] ~= n or caps[i] ~= cap then return false end
      else
        if not open(i, n, cap) then return false end
        full = fulls[i]
      end
      local phase = phases[i]
      local us, left = full - now - room_us, phase - room_phase
      local fits = us < -1 or us == -1 and left <= n or us == 0 and left <= 0
      local flags = fits and 1 or 0
      if fits and take then
        flags = 3
        full, phase = full + cost_us, phase + cost_phase
        if phase >= n then full, phase = full + 1, phase - n end
        charged[i] = true
      end
      if k == next_merged then
        local debited = flags == 3 and 1 or 0
        if debited == 1 then
          for _ = 2, args[p + 1] do
            us, left = full - now - room_us, phase - room_phase
            if not (us < -1 or us == -1 and left <= n or us == 0 and left <= 0) then break end
            debited, full, phase = debited + 1, full + cost_us, phase + cost_phase
            if phase >= n then full, phase = full + 1, phase - n end
          end
        end
        p, merged = p + 2, merged - 1
        next_merged = merged > 0 and args[p]
        r = r + 1
        reply[r] = debited
      end
      fulls[i], phases[i] = full, phase
      reply[r + 1], reply[r + 2], reply[r + 3] = flags, full, phase
      r = r + 3
    end
  end
  p = p + 1

  while args[p] > 0 do -- other bills
    local take, wait, count = args[p] == 1, args[p + 1], args[p + 2]
    p = p + 3
    local first, from, admitted = balance, p, true
    reply[r + 1] = 0
    for c = 1, count do
      local kind, n, cost, cap = args[p + 1], args[p + 2], args[p + 4], args[p + 5]
      if args[p] ~= 0 or (kind ~= 1 and kind ~= 5) or n == 0 or cost < 0 then return false end
      local i = which and which[first + c] or first + c
      if fulls[i] then
        if ns[i] ~= n or caps[i] ~= cap then return false end
      elseif not open(i, n, cap) then
        return false
      end
      local us = fulls[i] - now - args[p + 8] + args[p + 6] - wait
      local left = phases[i] - args[p + 9] + args[p + 7]
      local fits = us < -1 or us == -1 and left <= n or us == 0 and left <= 0
      if not fits and cost ~= 0 then admitted = false end
      reply[r + 3 * c - 1] = fits and 1 or 0
      p = p + 10
    end
    for c = 1, count do
      local i = which and which[first + c] or first + c
      local at = from + 10 * (c - 1)
      if take and admitted and args[at + 4] > 0 then
        local full, phase = fulls[i] + args[at + 6], phases[i] + args[at + 7]
        if phase >= ns[i] then full, phase = full + 1, phase - ns[i] end
        fulls[i], phases[i], charged[i] = full, phase, true
        reply[r + 3 * c - 1] = 3
      end
      reply[r + 3 * c], reply[r + 3 * c + 1] = fulls[i], phases[i]
    end
    balance, r = first + count, r + 1 + 3 * count
  end

  -- Each changed key is written once. SETRANGE leaves the time to live as it is
  -- and answers with a number, where SET makes a table: a sixth less in all. The
  -- state is as long as the one it replaces, which was read in this call.
  local function write(i)
    local full, stamp = fulls[i], stamps[i]
    if stamp > full then
      call('SETRANGE', KEYS[i], '0', pack(BUCKET, 'b', full, phases[i], now, ns[i], caps[i], stamp))
      return
    end
    local left = full + 1 - now
    left = left + floor(left / 4) + 10000000
    call('SET', KEYS[i], pack(BUCKET, 'b', full, phases[i], now, ns[i], caps[i], now + left), 'PX', floor((left + 999) / 1000))
  end
  local tried = false
  for i = 1, #KEYS do
    if charged[i] and tried then
      write(i)
    elseif charged[i] then
      -- Redis refuses the first write or none: then nothing was written.
      tried = true
      local ok, err = pcall(write, i)
      if not ok then
        reply[2] = type(err) == 'table' and err.err or tostring(err)
        break
      end
    end
  end
  return reply
end

local reply = not strange and usual_flight()
if reply then return cmsgpack.pack(reply) end
