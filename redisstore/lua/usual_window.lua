-- usual_window: value, the period from start to stop, n, cost, take, asking →
-- flags, debited, prev, cur, told, and text and ttl if debited. The products are
-- below 2^53, or it is not usual.
local stamp = 0
if value then
  if #value ~= 23 or byte(value) ~= 119 then return false end
  local begun
  begun, prev, cur, stamp = unpack_('>I7I4I4I7', value, 2)
  if begun > now or stamp <= now then return false end
  if begun ~= start then
    prev = sliding and begun + period == start and cur or 0
    cur = 0
  end
else
  prev, cur = 0, 0
end
local taken = prev * (stop - now)
if taken >= 2 ^ 53 then return false end
local room = n - cur - cost
if room >= 0 and taken <= room * period then
  if take then
    flags = 3
    repeat
      debited, room = debited + 1, room - cost
    until debited == asking or room < 0 or taken > room * period
    cur = cur + debited * cost
    local need = sliding and stop + period or stop
    if stamp < need then
      local keep = need - now
      keep = keep + floor(keep / 4) + 10000000
      ttl = floor((keep + 999) / 1000)
      text = pack('>c1I7I4I4I7', 'w', start, prev, cur, now + keep)
      told = sub(text, 1, 16)
    else
      text = pack('>c1I7I4I4', 'w', start, prev, cur)
      told = text
    end
  else
    flags = 1
  end
end
if debited == 0 then told = pack('>BI4I4', flags, prev, cur) end
