-- What is used of a rolling window; how much of it in the current step, when that began, and the number of the last member of `data`, which
-- has the amounts of steps that are over, by their begin, and shares of leases, by their end.
local function open_window(key, data, length, step)
  local state = redis.call('HMGET', key, 'token', 'bucket.token', 'bucket.timestamp', 'key')
  local used, in_step, begun = tonumber(state[1] or nil), tonumber(state[2] or nil), tonumber(state[3] or nil)
  local number = tonumber(state[4] or nil) or 0
  if not used or not in_step or not begun then
    used, in_step, begun, number = 0, 0, now, 0
  elseif begun > now then
    -- The clock was set back.
    begun = now
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', data, '(' .. integer(now), '+inf')) do
      redis.call('ZADD', data, integer(now), member)
    end
  end

  if now - begun + 1 > step then
    if in_step > 0 then
      number = number + 1
      redis.call('ZADD', data, integer(begun), integer(number) .. '.' .. integer(in_step))
    end
    in_step, begun = 0, now
  end

  -- What was granted a window ago is available again.
  local over = integer(now - length)
  local expired = redis.call('ZRANGEBYSCORE', data, '-inf', over)
  for _, member in ipairs(expired) do
    used = used - (tonumber(string.match(member, '%.(.*)$')) or 0)
  end
  if #expired > 0 then redis.call('ZREMRANGEBYSCORE', data, '-inf', over) end
  return math.max(0, used), in_step, begun, number
end

local function store_window(key, data, used, in_step, begun, number, length)
  redis.call('HSET', key, 'token', integer(used))
  redis.call('HSET', key, 'bucket.token', integer(in_step))
  redis.call('HSET', key, 'bucket.timestamp', integer(begun))
  redis.call('HSET', key, 'key', integer(number))
  -- A share counts for a window from its end, which is at most a 32nd of a window away.
  redis.call('PEXPIRE', key, lifetime(length + length / 32))
  redis.call('PEXPIRE', data, lifetime(length + length / 32))
end
