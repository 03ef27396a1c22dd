-- usual_bucket_debit: full, phase, room_us, room_phase, take, asking → flags,
-- debited, full, phase.
local us, left = full - now - room_us, phase - room_phase
if us < -1 or us == -1 and left <= n or us == 0 and left <= 0 then
  if take then
    flags = 3
    repeat
      debited, full, phase = debited + 1, full + cost_us, phase + cost_phase
      if phase >= n then full, phase = full + 1, phase - n end
      if debited == asking then break end
      us, left = full - now - room_us, phase - room_phase
    until not (us < -1 or us == -1 and left <= n or us == 0 and left <= 0)
  else
    flags = 1
  end
end
