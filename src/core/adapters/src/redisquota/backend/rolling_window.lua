-- Allocates in a rolling window. Returns the granted amount, and for how many nanoseconds it is valid.
-- KEYS: state of the window; answer to the deduplication id; amounts of steps that are over, by their begin.
-- ARGV: limit; length of the window and of a step, in nanoseconds; 1 for best effort; amount, negative to release.
-- Redis below 5 replicates the commands of the script, not the script, which asks for the time.
if redis.replicate_commands then redis.replicate_commands() end
local limit, length, step = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local best_effort, amount = ARGV[4] == '1', tonumber(ARGV[5])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1e9 + tonumber(time[2]) * 1e3
local lifetime = string.format('%.0f', math.max(1, math.ceil(length / 1e6)))

-- The text of a number that may have more than 14 digits.
local function integer(number) return string.format('%.0f', number) end

local answer = redis.call('HMGET', KEYS[2], 'token', 'expire')
local granted, due = tonumber(answer[1] or nil), tonumber(answer[2] or nil)
if granted and due and now < due then return {granted, due - now} end

local state = redis.call('HMGET', KEYS[1], 'token', 'bucket.token', 'bucket.timestamp', 'key')
local used, in_step, begun = tonumber(state[1] or nil), tonumber(state[2] or nil), tonumber(state[3] or nil)
local number = tonumber(state[4] or nil) or 0
if not used or not in_step or not begun then
  used, in_step, begun, number = 0, 0, now, 0
elseif begun > now then
  -- The clock was set back.
  begun = now
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. integer(now), '+inf')) do
    redis.call('ZADD', KEYS[3], integer(now), member)
  end
end

if now - begun + 1 > step then
  if in_step > 0 then
    number = number + 1
    redis.call('ZADD', KEYS[3], integer(begun), integer(number) .. '.' .. integer(in_step))
  end
  in_step, begun = 0, now
end

-- What was granted a window ago is available again.
local over = integer(now - length)
local expired = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', over)
for _, member in ipairs(expired) do
  used = used - (tonumber(string.match(member, '%.(.*)$')) or 0)
end
if #expired > 0 then redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', over) end
used = math.max(0, used)

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

redis.call('HSET', KEYS[1], 'token', integer(used))
redis.call('HSET', KEYS[1], 'bucket.token', integer(in_step))
redis.call('HSET', KEYS[1], 'bucket.timestamp', integer(begun))
redis.call('HSET', KEYS[1], 'key', integer(number))
redis.call('PEXPIRE', KEYS[1], lifetime)
redis.call('PEXPIRE', KEYS[3], lifetime)
if granted > 0 then
  redis.call('HSET', KEYS[2], 'token', integer(granted))
  redis.call('HSET', KEYS[2], 'expire', integer(now + length))
  redis.call('PEXPIRE', KEYS[2], lifetime)
end
if granted == 0 and (amount > 0 or available <= 0) then return {0, 0} end
return {granted, length}
