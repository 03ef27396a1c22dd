-- usual_bucket_seal: what is to be written, as text and ttl: all of the state
-- where the time to live changes, else what comes before the quota; and what is
-- answered, as told.
if stamp <= full then
  local keep = full + 1 - now
  keep = keep + floor(keep / 4) + 10000000
  ttl = floor((keep + 999) / 1000)
  text = pack('>c1I7I4I7I4I4I7', 'b', full, phase, now, n, cap, now + keep)
  told = sub(text, 1, 19)
else
  text = pack('>c1I7I4I7', 'b', full, phase, now)
  told = text
end
