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

local keys = KEYS
local unpack_, pack, byte, floor = struct.unpack, struct.pack, string.byte, math.floor
-- A state as 3_state.lua has it, what follows its letter, and what comes before
-- the quota and the time to live.
local BUCKET, STATE, CHANGED = '>c1I7I4I7I4I4I7', '>I7I4I7I4I4I7', '>c1I7I4I7'

local found = #keys > 0 and redis.call('MGET', unpack(keys)) or {}

local function usual_flight()
  local reply, r = {now, false}, 2
  local p, balance = 2, 0 -- next argument, last balance
  local packed, ttls = {}, {} -- by key: what to write, and for how long if that changes
  local missing = {}
  -- By key, only where it may be asked about again: the state after what was
  -- decided, its stamp and quota, and whether it was debited. Elsewhere packed is
  -- all that is kept: what a table costs is felt at a quarter of a million keys a
  -- second.
  local fulls, phases, stamps, ns, caps, taken = {}, {}, {}, {}, {}, {}

  -- open reads the state of key i under the quota of n and cap: from when it is
  -- full, and its stamp. It returns nothing if that is not its quota, or if it is
  -- no usual state.
  local function open(i, n, cap)
    local value = found[i]
    if not value then
      missing[#missing + 1] = keys[i]
      return now, 0, 0
    end
    if #value ~= 34 or byte(value) ~= 98 then return end
    local full, phase, at, n_, cap_, stamp = unpack_(STATE, value, 2)
    if n_ ~= n or cap_ ~= cap or at > now or stamp <= now then return end
    if full < now or full == now and phase == 0 then full, phase = now, 0 end
    return full, phase, stamp
  end

  -- reopen is open for a key that may have been asked about before.
  local function reopen(i, n, cap)
    local full = fulls[i]
    if full then
      if ns[i] ~= n or caps[i] ~= cap then return end
      return full, phases[i], stamps[i]
    end
    local phase, stamp
    full, phase, stamp = open(i, n, cap)
    fulls[i], phases[i], stamps[i], ns[i], caps[i] = full, phase, stamp, n, cap
    return full, phase, stamp
  end

  -- seal says what is to be written for key i: all of it where the time to live
  -- changes, else what comes before the quota.
  local function seal(i, full, phase, n, cap, stamp)
    if stamp <= full then
      local left = full + 1 - now
      left = left + floor(left / 4) + 10000000
      ttls[i] = floor((left + 999) / 1000)
      packed[i] = pack(BUCKET, 'b', full, phase, now, n, cap, now + left)
    else
      packed[i] = pack(CHANGED, 'b', full, phase, now)
    end
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
      local i, full, phase, stamp = balance, nil, nil, nil
      if which then
        i = which[balance]
        full, phase, stamp = reopen(i, n, cap)
        if not full then return false end
      else
        -- open and, below, seal, written out: a twentieth of what a check costs.
        local value = found[i]
        if value then
          if #value ~= 34 or byte(value) ~= 98 then return false end
          local at, n_, cap_
          full, phase, at, n_, cap_, stamp = unpack_(STATE, value, 2)
          if n_ ~= n or cap_ ~= cap or at > now or stamp <= now then return false end
          if full < now or full == now and phase == 0 then full, phase = now, 0 end
        else
          missing[#missing + 1] = keys[i]
          full, phase, stamp = now, 0, 0
        end
      end
      local us, left = full - now - room_us, phase - room_phase
      local flags = (us < -1 or us == -1 and left <= n or us == 0 and left <= 0) and 1 or 0
      local debited = 0
      if flags == 1 and take then
        flags, debited = 3, 1
        full, phase = full + cost_us, phase + cost_phase
        if phase >= n then full, phase = full + 1, phase - n end
      end
      if k == next_merged then
        for _ = 2, debited == 1 and args[p + 1] or 0 do
          us, left = full - now - room_us, phase - room_phase
          if not (us < -1 or us == -1 and left <= n or us == 0 and left <= 0) then break end
          debited, full, phase = debited + 1, full + cost_us, phase + cost_phase
          if phase >= n then full, phase = full + 1, phase - n end
        end
        p, merged = p + 2, merged - 1
        next_merged = merged > 0 and args[p]
        r = r + 1
        reply[r] = debited
      end
      reply[r + 1], reply[r + 2], reply[r + 3] = flags, full, phase
      r = r + 3
      if debited > 0 then
        if which then
          fulls[i], phases[i], taken[i] = full, phase, true
        elseif stamp <= full then
          seal(i, full, phase, n, cap, stamp)
        else
          packed[i] = pack(CHANGED, 'b', full, phase, now)
        end
      end
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
      local full, phase = reopen(which and which[first + c] or first + c, n, cap)
      if not full then return false end
      local us = full - now - args[p + 8] + args[p + 6] - wait
      local left = phase - args[p + 9] + args[p + 7]
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
        fulls[i], phases[i], taken[i] = full, phase, true
        reply[r + 3 * c - 1] = 3
      end
      reply[r + 3 * c], reply[r + 3 * c + 1] = fulls[i], phases[i]
    end
    balance, r = first + count, r + 1 + 3 * count
  end

  -- MGET says nil of a key that is no string, too: the general way asks which.
  if #missing > 0 and redis.call('EXISTS', unpack(missing)) > 0 then return false end

  -- Each changed key is written once. SETRANGE leaves the time to live and the
  -- rest of the state as they are, which was read in this call, and answers with a
  -- number, where SET makes a table: a sixth less in all.
  for i in pairs(taken) do seal(i, fulls[i], phases[i], ns[i], caps[i], stamps[i]) end
  -- Redis refuses the first write or none: if it does, nothing was written.
  local write, tried = redis.pcall, false
  for i = 1, #keys do
    local value = packed[i]
    if value then
      local ttl, wrote = ttls[i], nil
      if ttl then
        wrote = write('SET', keys[i], value, 'PX', ttl)
      else
        wrote = write('SETRANGE', keys[i], '0', value)
      end
      if not tried then
        if type(wrote) == 'table' and wrote.err then
          reply[2] = wrote.err
          break
        end
        write, tried = redis.call, true
      end
    end
  end
  return reply
end

local reply = usual_flight()
if reply then return cmsgpack.pack(reply) end
