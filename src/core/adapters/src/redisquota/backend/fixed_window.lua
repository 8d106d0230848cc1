-- Allocates in a fixed window. Returns the granted amount, and for how many nanoseconds it is valid.
-- KEYS: state of the window; answer to the deduplication id.
-- ARGV: limit; length of the window, in nanoseconds; unused; 1 for best effort; amount, negative to release.
-- Redis below 5 replicates the commands of the script, not the script, which asks for the time.
if redis.replicate_commands then redis.replicate_commands() end
local limit, length = tonumber(ARGV[1]), tonumber(ARGV[2])
local best_effort, amount = ARGV[4] == '1', tonumber(ARGV[5])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1e9 + tonumber(time[2]) * 1e3

-- The text of a number that may have more than 14 digits.
local function integer(number) return string.format('%.0f', number) end
local function expire_at(key, due)
  redis.call('PEXPIRE', key, integer(math.max(1, math.ceil((due - now) / 1e6))))
end

local answer = redis.call('HMGET', KEYS[2], 'token', 'expire')
local granted, due = tonumber(answer[1] or nil), tonumber(answer[2] or nil)
if granted and due and now < due then return {granted, due - now} end

local state = redis.call('HMGET', KEYS[1], 'token', 'expire')
local used, ends = tonumber(state[1] or nil), tonumber(state[2] or nil)
if not used or not ends or now >= ends then
  used, ends = 0, now + length
  redis.call('HSET', KEYS[1], 'token', '0')
  redis.call('HSET', KEYS[1], 'expire', integer(ends))
  expire_at(KEYS[1], ends)
elseif ends > now + length then
  -- The clock was set back, or the window was longer.
  ends = now + length
  redis.call('HSET', KEYS[1], 'expire', integer(ends))
  expire_at(KEYS[1], ends)
end

if used + amount <= limit then
  granted = amount
elseif best_effort and limit - used > 0 then
  granted = limit - used
else
  return {0, 0}
end
-- What is released is not more than what is used.
redis.call('HSET', KEYS[1], 'token', integer(math.max(0, used + granted)))
if granted > 0 then
  redis.call('HSET', KEYS[2], 'token', integer(granted))
  redis.call('HSET', KEYS[2], 'expire', integer(ends))
  expire_at(KEYS[2], ends)
end
return {granted, ends - now}
