-- usual_log_search: first_live and holds, which are locals where this stands: what is asked of the entries of a log themselves.

-- first_live finds where the entries end that have left: low has, high has not.
-- It returns how many have, the running total up to there, and when the first that
-- has not left came. Few leave between two checks, so it begins at low.
function first_live(key, low, high, till)
  local reach = 1
  while true do
    local mid = reach and low + reach - 1
    if not mid or mid >= high then mid, reach = floor((low + high) / 2), nil end
    local time, total, next_time = unpack_('>I7I7I7', redis.call('GETRANGE', key, 14 * mid - 13, 14 * mid + 7))
    if time > till then
      high, reach = mid, nil
    elseif next_time > till then
      return mid, total, next_time
    else
      low, reach = mid + 1, reach and 2 * reach
    end
  end
end

-- holds returns the time of the first entry from low on with a total of goal.
function holds(key, low, high, goal)
  local time, total
  while low < high do
    local mid = floor((low + high) / 2)
    total = unpack_('>I7', redis.call('GETRANGE', key, 14 * mid - 6, 14 * mid))
    if total >= goal then high = mid else low = mid + 1 end
  end
  time = unpack_('>I7', redis.call('GETRANGE', key, 14 * low - 13, 14 * low - 7))
  return time
end
