-- Allocates in a rolling window. Returns the granted amount, and for how many nanoseconds it is valid; then, unless the answer to the id is
-- repeated, what is left, and the length of the window.
-- KEYS: state of the window; answer to the deduplication id; amounts of steps that are over.
-- ARGV: limit; length of the window and of a step, in nanoseconds; 1 for best effort; amount, negative to release.
local limit, length, step = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local best_effort, amount = ARGV[4] == '1', tonumber(ARGV[5])

local answer = redis.call('HMGET', KEYS[2], 'token', 'expire')
local granted, due = tonumber(answer[1] or nil), tonumber(answer[2] or nil)
if granted and due and now < due then return {granted, due - now} end

local used, in_step, begun, number = open_window(KEYS[1], KEYS[3], length, step)
local available = limit - used
granted = 0
if amount < 0 then
  granted = amount
elseif available <= 0 then
  granted = 0
elseif available >= amount then
  granted = amount
elseif best_effort then
  granted = available
end
-- What is released is not more than what is used.
used, in_step = math.max(0, used + granted), math.max(0, in_step + granted)
store_window(KEYS[1], KEYS[3], used, in_step, begun, number, length)
if granted > 0 then
  redis.call('HSET', KEYS[2], 'token', integer(granted))
  redis.call('HSET', KEYS[2], 'expire', integer(now + length))
  redis.call('PEXPIRE', KEYS[2], lifetime(length))
end
local left = math.max(0, limit - used)
if granted == 0 and (amount > 0 or available <= 0) then return {0, 0, left, length} end
return {granted, length, left, length}
