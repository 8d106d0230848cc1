-- Allocates in a fixed window. Returns the granted amount, and for how many nanoseconds it is valid; then, unless the answer to the id is
-- repeated, what is left, and for how many nanoseconds the window lasts.
-- KEYS: state of the window; answer to the deduplication id.
-- ARGV: limit; length of the window, in nanoseconds; unused; 1 for best effort; amount, negative to release.
local limit, length = tonumber(ARGV[1]), tonumber(ARGV[2])
local best_effort, amount = ARGV[4] == '1', tonumber(ARGV[5])

local answer = redis.call('HMGET', KEYS[2], 'token', 'expire')
local granted, due = tonumber(answer[1] or nil), tonumber(answer[2] or nil)
if granted and due and now < due then return {granted, due - now} end

local used, ends = open_window(KEYS[1], length)
if used + amount <= limit then
  granted = amount
elseif best_effort and limit - used > 0 then
  granted = limit - used
else
  return {0, 0, math.max(0, limit - used), ends - now}
end
-- What is released is not more than what is used.
used = math.max(0, used + granted)
redis.call('HSET', KEYS[1], 'token', integer(used))
if granted > 0 then
  redis.call('HSET', KEYS[2], 'token', integer(granted))
  redis.call('HSET', KEYS[2], 'expire', integer(ends))
  redis.call('PEXPIRE', KEYS[2], lifetime(ends - now))
end
return {granted, ends - now, math.max(0, limit - used), ends - now}
