-- Writes the caller's mark, KEYS[1], and answers with the one that stood there
-- and with what the server says of itself. ARGV[1] is the new mark, ARGV[2] how
-- many milliseconds it lives. Without permission to ask, the rest is empty.
local was = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local said = ''
for _, section in ipairs({'server', 'replication', 'stats', 'memory'}) do
  local text = redis.pcall('INFO', section)
  if type(text) == 'string' then said = said .. text end
end
local function field(name) return string.match(said, '\n' .. name .. ':([^\r\n]*)') or '' end
local guarded = string.find(said, '\nmin_slaves_good_slaves:') and 1 or 0
return cmsgpack.pack({
  tonumber(was or 0), field('run_id'), field('role'), tonumber(field('evicted_keys')) or 0,
  field('maxmemory_policy'), guarded,
})
