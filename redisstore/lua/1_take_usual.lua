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
--     and how many bills ask; 0 at the end; then for other bills, as many as
--     come one after the other and ask the same, of other keys perhaps:
--     verb wait charges, per charge: trial quota, and how many; 0 at the end
--   quota: kind+1 n period cost, then for buckets: cap cost_us cost_phase cap_us
--     cap_phase; for fixed windows: the number of edges, and the edges
--
-- verb is 1 for take, 2 for peek. KEYS are the balances in the order of use;
-- ARGV[2], if not empty, is an array that says which key each one is, for
-- batches in which a key is used by several runs or bills; the number of such a
-- key is negative.
--
-- The usual reply is one string of fixed fields, since to take numbers out of an
-- array and make MessagePack of them costs more than to decide:
--
--   u now(7), then for each run, if it is of windows, start(8) stop(8), and for
--     each of its keys, if it is merged, how many of its bills were debited(4), then
--     the balance; then for each other bill its balances; then, if the first write
--     was refused, the error
--   balance: if it was debited what was written of its state,
--     b full(7) phase(4) charged(7) or w start(7) prev(4) cur(4); else flags(1) and
--     full(7) phase(4) or prev(4) cur(4); of a log always flags(1) used(4)
--     newest(7) free(7)
--
-- The general reply is a MessagePack array: now, an error of the first write or
-- false, then per key of a run: how many of its bills were debited (if merged), the
-- flags and the view after them, or a word if the state is bad; then per other bill
-- a status (0 decided, or a word) and per balance the flags and the view.

local args = lone and {cmsgpack.unpack(ARGV[1])} or cmsgpack.unpack(ARGV[1])
local which = not lone and ARGV[2] ~= '' and cmsgpack.unpack(ARGV[2])
if args[1] > 0 and now > args[1] then return cmsgpack.pack({now, 'STALE'}) end

local function usual_flight()
  local now, keys, unpack_, pack, sub = now, keys, unpack_, pack, sub -- nearer than those outside
  local abs = math.abs
  local reply, r = {pack('>c1I7', 'u', now)}, 1
  local p, balance = 2, 0 -- next argument, last balance
  -- By key: what to write, where in the value if not at its beginning, and for how
  -- long if that changes.
  local packed, places, ttls = {}, {}, {}
  local missing = {}
  -- By key, only where several runs or bills use it: the state after what was
  -- decided, its stamp and quota, and whether it was debited.
  local fulls, phases, stamps, ns, caps, taken = {}, {}, {}, {}, {}, {}

  -- values reads the states of the next count balances.
  local function values(count)
    if not which then return redis.call('MGET', unpack(keys, balance + 1, balance + count)) end
    local names = {}
    for k = 1, count do names[k] = keys[abs(which[balance + k])] end
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
      --< usual_log_search
    else
      if n * period >= 2 ^ 53 then return false end
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
    if start then
      r = r + 1
      reply[r] = pack('>i8I8', start, stop)
    end
    -- Takes of buckets by one bill each are most of what is asked. As far as they reach,
    -- no other case stands in their way, and a flight of them costs a twentieth less.
    local plain, k = cap and take and not which, 0
    while k < count do
      local last = plain and (next_merged or count + 1) - 1 or k
      for k = k + 1, last do
        balance = balance + 1
        local value, full, phase, stamp, text, told, ttl = found[k], nil, nil, nil, nil, nil, nil
        if not value then missing[#missing + 1] = keys[balance] end
        --< usual_bucket_open
        local us, left = full - now - room_us, phase - room_phase
        if us < -1 or us == -1 and left <= n or us == 0 and left <= 0 then
          full, phase = full + cost_us, phase + cost_phase
          if phase >= n then full, phase = full + 1, phase - n end
          --< usual_bucket_seal
          packed[balance] = text
          if ttl then ttls[balance] = ttl end
        else
          told = pack('>BI7I4', 0, full, phase)
        end
        r = r + 1
        reply[r] = told
      end
      k = last + 1
      if k > count then break end
      balance = balance + 1
      local i, asking = balance, 1
      if which then i = which[balance] end
      if k == next_merged then
        asking, p, merged = args[p + 1], p + 2, merged - 1
        next_merged = merged > 0 and args[p]
      end
      local flags, debited = 0, 0
      local text, told, place, ttl
      if cap then
        local value, full, phase, stamp = found[k], nil, nil, nil
        if i < 0 then
          full, phase, stamp = reopen(-i, n, cap, value)
          if not full then return false end
        else
          if not value then missing[#missing + 1] = keys[i] end
          --< usual_bucket_open
        end
        --< usual_bucket_debit
        if debited > 0 and i > 0 then
          --< usual_bucket_seal
        else
          told = pack('>BI7I4', flags, full, phase)
          if debited > 0 then fulls[-i], phases[-i], taken[-i] = full, phase, true end
        end
      elseif i < 0 then
        return false
      elseif start then
        local value, prev, cur = found[k], nil, nil
        if not value then missing[#missing + 1] = keys[i] end
        --< usual_window
      else
        local key, used, newest, free = keys[i], nil, nil, nil
        --< usual_log
        if place then places[i] = place end
      end
      if text then
        packed[i] = text
        if ttl then ttls[i] = ttl end -- to set nil costs as much as to set
      end
      if asking > 1 then told = pack('>I4', debited) .. told end
      r = r + 1
      reply[r] = told
    end
  end
  p = p + 1

  -- Other bills, those of one shape together. By charge: what is asked, in all of
  -- them, and what one of them found. Nearly every bill is admitted, so each balance is
  -- debited at once, and taken back where another one refuses.
  local n_of, cap_of, cost_of, us_of, phase_of, till_of, room_phase_of = {}, {}, {}, {}, {}, {}, {}
  local full_of, left_of = {}, {}
  while args[p] > 0 do
    local take, wait, charges = args[p] == 1, args[p + 1], args[p + 2]
    p = p + 3
    for c = 1, charges do
      local kind, n, cost = args[p + 1], args[p + 2], args[p + 4]
      if args[p] ~= 0 or (kind ~= 1 and kind ~= 5) or n == 0 or cost < 0 then return false end
      n_of[c], cap_of[c], cost_of[c], us_of[c], phase_of[c] = n, args[p + 5], cost, args[p + 6], args[p + 7]
      till_of[c], room_phase_of[c] = now + args[p + 8] - args[p + 6] + wait, args[p + 9] - args[p + 7]
      p = p + 10
    end
    local count = args[p]
    p = p + 1
    local found, f = values(count * charges), 0
    for _ = 1, count do
      local admitted, first = take, balance
      for c = 1, charges do
        balance, f, r = balance + 1, f + 1, r + 1
        local i, value, n, cap = balance, found[f], n_of[c], cap_of[c]
        local full, phase, stamp
        if which then i = which[balance] end
        if i < 0 then
          full, phase, stamp = reopen(-i, n, cap, value)
          if not full then return false end
        else
          if not value then missing[#missing + 1] = keys[i] end
          --< usual_bucket_open
        end
        full_of[c], left_of[c] = full, phase
        local us, left = full - till_of[c], phase - room_phase_of[c]
        if not (us < -1 or us == -1 and left <= n or us == 0 and left <= 0) then
          reply[r] = pack('>BI7I4', 0, full, phase)
          if cost_of[c] > 0 then admitted = false end
        elseif admitted and cost_of[c] > 0 then
          full, phase = full + us_of[c], phase + phase_of[c]
          if phase >= n then full, phase = full + 1, phase - n end
          if i > 0 then
            local text, told, ttl
            --< usual_bucket_seal
            packed[i], reply[r] = text, told
            if ttl then ttls[i] = ttl end
          else
            fulls[-i], phases[-i] = full, phase
            reply[r] = pack('>BI7I4', 3, full, phase)
          end
        else
          reply[r] = pack('>BI7I4', 1, full, phase)
        end
      end
      if take and (which or not admitted) then
        for c = 1, charges do
          local i, told = first + c, r - charges + c
          if byte(reply[told]) > 1 then -- was debited
            if which then i = which[i] end
            if admitted then
              if i < 0 then taken[-i] = true end
            else
              reply[told] = pack('>BI7I4', 1, full_of[c], left_of[c])
              if i < 0 then
                fulls[-i], phases[-i] = full_of[c], left_of[c]
              else
                packed[i] = nil
              end
            end
          end
        end
      end
    end
  end

  -- MGET says nil of a key that is no string, too: the general way asks which.
  if #missing > 0 and redis.call('EXISTS', unpack(missing)) > 0 then return false end

  -- Each changed key is written once. SETRANGE leaves the time to live and the
  -- rest of the state as they are, which was read in this call, and answers with a
  -- number, where SET makes a table: a sixth less in all.
  for i in pairs(taken) do
    local full, phase, stamp, n, cap = fulls[i], phases[i], stamps[i], ns[i], caps[i]
    local text, told, ttl
    --< usual_bucket_seal
    packed[i], ttls[i] = text, ttl
  end
  -- Redis refuses the first write or none: if it does, nothing was written.
  local write, tried = redis.pcall, false
  local timed, placed = next(ttls), next(places) -- hardly ever
  for i = 1, #keys do
    local value = packed[i]
    if value then
      local ttl, wrote = timed and ttls[i], nil
      if ttl then
        wrote = write('SET', keys[i], value, 'PX', ttl)
      else
        wrote = write('SETRANGE', keys[i], placed and places[i] or '0', value)
      end
      if not tried then
        if type(wrote) == 'table' and wrote.err then
          reply[r + 1] = wrote.err
          break
        end
        write, tried = redis.call, true
      end
    end
  end
  return table.concat(reply)
end

local reply = not lone and usual_flight()
if reply then return reply end
