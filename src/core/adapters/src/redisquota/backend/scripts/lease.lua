-- Exchanges what a server holds of a window for a new share. Returns the share; what the server keeps, 0 if its window is over; the window;
-- for how many nanoseconds grants are valid; and what others can still get. Returns nothing to a request that another one has overtaken.
-- KEYS: state of the window; leases; amounts of steps that are over, of a rolling window.
-- ARGV: limit; length of the window and of a step, in nanoseconds; id of the lease; number of the request; all that was granted from shares;
-- the part of it that was acknowledged; what is kept; the window of that; what calls wait for; the least that is of use to them; what is
-- wanted besides; length of the lease, in nanoseconds.
local limit, length, step, id = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local request, spent, acknowledged = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local keep, held_of = tonumber(ARGV[8]), tonumber(ARGV[9])
local need, least, extra, lease = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])

-- The last request of the lease: its number, what was granted then, the share, what was kept, the window, what was available, and until when
-- it is remembered.
local known = redis.call('HGET', KEYS[2], id)
local last, last_spent, share, kept, last_window, available
if known then
  local fields = {}
  for field in string.gmatch(known, '%S+') do fields[#fields + 1] = tonumber(field) end
  last, last_spent, share, kept, last_window, available = unpack(fields)
else
  -- A new lease: those are removed that nobody renews.
  local all = redis.call('HGETALL', KEYS[2])
  for at = 1, #all, 2 do
    local due = tonumber(string.match(all[at + 1], '(%S+)$'))
    if not due or due < now then redis.call('HDEL', KEYS[2], all[at]) end
  end
end
if last and request < last then return {} end
local is_repeated = last == request
if is_repeated and KEYS[3] then return {share, kept, 0, length, available} end

local used, window, valid, in_step, begun, number
if KEYS[3] then
  used, in_step, begun, number = open_window(KEYS[1], KEYS[3], length, step)
  window, valid = 0, length
else
  used, window = open_window(KEYS[1], length)
  valid = window - now
end
if is_repeated and last_window == window then return {share, kept, window, valid, available} end

-- What was counted for the lease is replaced by what was granted and what is kept.
local is_counted = last and last_window == window
if is_counted and KEYS[3] then
  local member = id .. '-' .. integer(last) .. '.' .. integer(share + kept)
  is_counted = redis.call('ZREM', KEYS[3], member) == 1
end
if is_counted then used = math.max(0, used - share - kept) end
local granted = 0
if held_of == window then
  granted = math.max(0, spent - (last and last_window == window and last_spent or acknowledged))
else
  -- Its window is over.
  keep = 0
end
used = used + granted + keep

available = math.max(0, limit - used)
share = 0
if available >= least then
  share = math.min(available, need)
  -- No server holds more than an eighth of what remains.
  share = share + math.max(0, math.min(extra, math.floor((available - share + keep) / 8) - keep))
end
used, available = used + share, available - share

if KEYS[3] then
  if share + keep > 0 then
    local member = id .. '-' .. integer(request) .. '.' .. integer(share + keep)
    redis.call('ZADD', KEYS[3], integer(now + lease), member)
  end
  store_window(KEYS[1], KEYS[3], used, in_step + granted, begun, number, length)
else
  redis.call('HSET', KEYS[1], 'token', integer(used))
end
local record = {request, spent, share, keep, window, available, now + 4 * lease}
for at, field in ipairs(record) do record[at] = integer(field) end
redis.call('HSET', KEYS[2], id, table.concat(record, ' '))
redis.call('PEXPIRE', KEYS[2], lifetime(4 * lease))
return {share, keep, window, valid, available}
