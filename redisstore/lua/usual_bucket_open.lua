-- usual_bucket_open: value, n, cap → full, phase, stamp.
if value then
  if #value ~= 34 then return false end
  local letter, at, n_, cap_
  letter, full, phase, at, n_, cap_, stamp = unpack_('>BI7I4I7I4I4I7', value)
  if letter ~= 98 or n_ ~= n or cap_ ~= cap or at > now or stamp <= now then return false end
  if full < now or full == now and phase == 0 then full, phase = now, 0 end
else
  full, phase, stamp = now, 0, 0
end
