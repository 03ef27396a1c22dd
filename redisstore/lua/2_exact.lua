-- Exact arithmetic. A Lua number is a double: integers are exact below 2^53.
-- Instants (microseconds since 1970) stay below it until 2255; products of an
-- amount and a period do not. Where one may reach 2^53 it is taken apart into
-- digits of 22 bits, so that every partial product (at most 2^30 * 2^22) and
-- every step of the long division (a remainder below 2^30, times 2^22, plus a
-- digit) is exact. The top digit is open ended.

local floor = math.floor
local EXACT = 2 ^ 53
local DIGIT = 2 ^ 22
local NEVER = 2 ^ 53 -- a backlog that no limit can fit, in microseconds

-- multiply returns a*b as three digits, highest first; a <= 2^30, b < 2^53.
local function multiply(a, b)
  local b0 = b % DIGIT
  local b1 = (b - b0) / DIGIT % DIGIT
  local b2 = floor(b / (DIGIT * DIGIT))
  local p0, p1, p2 = a * b0, a * b1, a * b2
  local d0 = p0 % DIGIT
  p1 = p1 + (p0 - d0) / DIGIT
  local d1 = p1 % DIGIT
  return p2 + (p1 - d1) / DIGIT, d1, d0
end

-- plus adds a number below 2^52 to three digits.
local function plus(d2, d1, d0, n)
  d0 = d0 + n
  local low = d0 % DIGIT
  d1 = d1 + (d0 - low) / DIGIT
  local mid = d1 % DIGIT
  return d2 + (d1 - mid) / DIGIT, mid, low
end

-- sum adds two numbers of three digits.
local function sum(a2, a1, a0, b2, b1, b0)
  local d0 = a0 + b0
  local low = d0 % DIGIT
  local d1 = a1 + b1 + (d0 - low) / DIGIT
  local mid = d1 % DIGIT
  return a2 + b2 + (d1 - mid) / DIGIT, mid, low
end

-- less compares two numbers of three digits.
local function less(a2, a1, a0, b2, b1, b0)
  if a2 ~= b2 then return a2 < b2 end
  if a1 ~= b1 then return a1 < b1 end
  return a0 < b0
end

-- difference returns a-b, or zero where b is larger.
local function difference(a2, a1, a0, b2, b1, b0)
  if less(a2, a1, a0, b2, b1, b0) then return 0, 0, 0 end
  local d0, d1, d2 = a0 - b0, a1 - b1, a2 - b2
  if d0 < 0 then d0, d1 = d0 + DIGIT, d1 - 1 end
  if d1 < 0 then d1, d2 = d1 + DIGIT, d2 - 1 end
  return d2, d1, d0
end

-- divide returns quotient and remainder of three digits by n <= 2^30. A quotient
-- of 2^53 or more comes back as NEVER, 0.
local function divide(d2, d1, d0, n)
  local r = d2 % n
  local q2 = (d2 - r) / n
  if q2 >= 512 then return NEVER, 0 end
  local x = r * DIGIT + d1
  r = x % n
  local q1 = (x - r) / n
  x = r * DIGIT + d0
  r = x % n
  return (q2 * DIGIT + q1) * DIGIT + (x - r) / n, r
end
