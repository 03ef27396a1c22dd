-- usual_log: key, n, period, cost, take, asking → flags, debited, used, newest,
-- free, told, and if debited text with ttl, or text and place, where in the value
-- it goes. Of a log its last entry and its tail are read, which say all that a check
-- wants to know of one in which nothing has left since it was written.
local tail = redis.pcall('GETRANGE', key, '-44', '-1')
local total, entries, dead, base, from, stamp = 0, 0, 0, 0, 0, 0
newest, free = 0, 0
if tail ~= '' then
  if #tail ~= 44 or byte(tail, 44) ~= 108 then return false end
  newest, total, entries, dead, base, from, stamp = unpack_('>I7I7I4I4I7I7I7', tail)
  if newest > now or stamp <= now then return false end
  if newest <= now - period then
    dead, base = entries, total
  elseif from <= now - period then
    dead, base, from = first_live(key, dead + 1, entries, now - period)
  end
end
used = total - base
local known, fits = total, used + cost <= n
if fits then flags = 1 end
if fits and take then
  local most = floor((n - used) / cost)
  flags, debited = 3, most < asking and most or asking
  used, total = used + debited * cost, total + debited * cost
  if dead == entries then from = now end
  fits = debited == asking
end
if not fits then
  local excess = used + cost - n
  if excess == 1 then -- every entry holds a unit at least
    free = from
  elseif base + excess > known then
    free = now
  else
    free = holds(key, dead + 1, entries, base + excess)
  end
  free = free + period
end
if debited > 0 then
  if newest == now and entries > 0 then entries = entries - 1 end -- the last entry grows
  newest = now
  if stamp < now + period or dead > 0 and 2 * dead >= entries then
    local rest = dead < entries and redis.call('GETRANGE', key, 1 + 14 * dead, 14 * entries) or ''
    local keep = period + floor(period / 4) + 10000000
    ttl = floor((keep + 999) / 1000)
    text = 'l' .. rest .. pack('>I7I7I4I4I7I7I7c1', now, total, entries - dead + 1, 0, base, from, now + keep, 'l')
  else
    place = format('%d', 1 + 14 * entries) -- a third of what Redis takes to print it
    text = pack('>I7I7I4I4I7I7I7c1', now, total, entries + 1, dead, base, from, stamp, 'l')
  end
end
told = pack('>BI4I7I7', flags, used, newest, free)
