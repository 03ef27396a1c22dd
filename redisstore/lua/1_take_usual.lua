-- The usual flight. Nearly every check is a take or a peek of a balance that was
-- last charged under the same quota, on a clock that did not go back. A flight of
-- nothing else is decided here, with its states in local variables and arrays of
-- numbers and not in tables, and ends here. The first balance that is anything
-- else (blocked, bad, under a changed limit, a window or a log that several bills
-- ask) leaves the whole flight to the general way below; nothing was written by
-- then. Both ways decide alike, which TestTheUsualWayIsTheGeneralWay holds them to.
--
-- It stands first because a script makes each of its functions anew at every
-- call: those of the general way are two thirds of what a lone check costs. A line
-- "--< name" stands for the statements in name.lua (see script.go): a call for
-- each balance would be a tenth of what a check costs.
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

local args = lone and {cmsgpack.unpack(ARGV[1])} or cmsgpack.unpack(ARGV[1])
local which = not lone and ARGV[2] ~= '' and cmsgpack.unpack(ARGV[2])
if args[1] > 0 and now > args[1] then return cmsgpack.pack({now, 'STALE'}) end

local function usual_flight()
  local reply, r = {now, false}, 2
  local p, balance = 2, 0 -- next argument, last balance
  -- By key: what to write, where in the value if not at its beginning, and for how
  -- long if that changes.
  local packed, places, ttls = {}, {}, {}
  local missing = {}
  -- By key, only where it may be asked about again: the state after what was
  -- decided, its stamp and quota, and whether it was debited.
  local fulls, phases, stamps, ns, caps, taken = {}, {}, {}, {}, {}, {}

  -- values reads the states of the next count balances.
  local function values(count)
    if not which then return redis.call('MGET', unpack(keys, balance + 1, balance + count)) end
    local names = {}
    for k = 1, count do names[k] = keys[which[balance + k]] end
    return redis.call('MGET', unpack(names))
  end

  -- reopen reads the state of key i, or what an earlier bill left of it.
  local function reopen(i, n, cap, value)
    local full, phase, stamp = fulls[i], nil, nil
    if full then
      if ns[i] ~= n or caps[i] ~= cap then return end
      return full, phases[i], stamps[i]
    end
    if not value then missing[#missing + 1] = keys[i] end
    --< usual_bucket_open
    fulls[i], phases[i], stamps[i], ns[i], caps[i] = full, phase, stamp, n, cap
    return full, phase, stamp
  end

  while args[p] > 0 do -- runs
    local take, wait, kind, n, period, cost = args[p] == 1, args[p + 1], args[p + 2], args[p + 3], args[p + 4], args[p + 5]
    if n == 0 or cost < 0 then return false end
    if cost == 0 then take = false end
    p = p + 6
    local cap, cost_us, cost_phase, room_us, room_phase -- buckets
    local start, stop, sliding                          -- windows
    local first_live, holds                             -- logs
    if kind == 1 or kind == 5 then
      cap, cost_us, cost_phase = args[p], args[p + 1], args[p + 2]
      room_us, room_phase = args[p + 3] - cost_us + wait, args[p + 4] - cost_phase
      p = p + 5
    elseif kind == 3 then
      if which then return false end
      --< usual_log_search
    else
      if which or n * period >= 2 ^ 53 then return false end
      start, sliding = now - now % period, kind == 4
      stop = start + period
      if not sliding then
        local edges = args[p]
        if edges > 0 then
          start = nil
          for e = p + 1, p + edges - 1 do
            if args[e] <= now and now < args[e + 1] then start, stop = args[e], args[e + 1] end
          end
          if not start then return false end
        end
        p = p + 1 + edges
      end
    end
    local count, merged = args[p], args[p + 1]
    p = p + 2
    local next_merged = merged > 0 and args[p]
    local found = kind ~= 3 and values(count)
    for k = 1, count do
      balance = balance + 1
      local asking = 1
      if k == next_merged then
        asking, p, merged = args[p + 1], p + 2, merged - 1
        next_merged = merged > 0 and args[p]
        r = r + 1 -- for the number of the debited
      end
      local flags, debited = 0, 0
      local text, place, ttl
      if cap then
        local i, value, full, phase, stamp = balance, found[k], nil, nil, nil
        if which then
          i = which[balance]
          full, phase, stamp = reopen(i, n, cap, value)
          if not full then return false end
        else
          if not value then missing[#missing + 1] = keys[i] end
          --< usual_bucket_open
        end
        --< usual_bucket_debit
        if asking > 1 then reply[r] = debited end
        reply[r + 1], reply[r + 2], reply[r + 3] = flags, full, phase
        r = r + 3
        if debited > 0 then
          if which then
            fulls[i], phases[i], taken[i] = full, phase, true
          else
            --< usual_bucket_seal
            packed[i], ttls[i] = text, ttl
          end
        end
      elseif start then
        local value, prev, cur = found[k], nil, nil
        if not value then missing[#missing + 1] = keys[balance] end
        --< usual_window
        if asking > 1 then reply[r] = debited end
        reply[r + 1], reply[r + 2], reply[r + 3], reply[r + 4], reply[r + 5] = flags, start, stop, prev, cur
        r = r + 5
        packed[balance], ttls[balance] = text, ttl
      else
        local key, used, newest, free = keys[balance], nil, nil, nil
        --< usual_log
        if asking > 1 then reply[r] = debited end
        reply[r + 1], reply[r + 2], reply[r + 3], reply[r + 4] = flags, used, newest, free
        r = r + 4
        packed[balance], places[balance], ttls[balance] = text, place, ttl
      end
    end
  end
  p = p + 1

  while args[p] > 0 do -- other bills
    local take, wait, count = args[p] == 1, args[p + 1], args[p + 2]
    p = p + 3
    local first, from, admitted = balance, p, true
    local found = values(count)
    reply[r + 1] = 0
    for c = 1, count do
      local kind, n, cost, cap = args[p + 1], args[p + 2], args[p + 4], args[p + 5]
      if args[p] ~= 0 or (kind ~= 1 and kind ~= 5) or n == 0 or cost < 0 then return false end
      local full, phase = reopen(which and which[first + c] or first + c, n, cap, found[c])
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
  for i in pairs(taken) do
    local full, phase, stamp, n, cap = fulls[i], phases[i], stamps[i], ns[i], caps[i]
    local text, ttl
    --< usual_bucket_seal
    packed[i], ttls[i] = text, ttl
  end
  -- Redis refuses the first write or none: if it does, nothing was written.
  local write, tried = redis.pcall, false
  for i = 1, #keys do
    local value = packed[i]
    if value then
      local ttl, wrote = ttls[i], nil
      if ttl then
        wrote = write('SET', keys[i], value, 'PX', ttl)
      else
        wrote = write('SETRANGE', keys[i], places[i] or '0', value)
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

local reply = not lone and usual_flight()
if reply then return cmsgpack.pack(reply) end
