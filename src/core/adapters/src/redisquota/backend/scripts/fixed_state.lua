-- What is used of a fixed window, and when it ends. Begins a new window if the last one is over.
local function open_window(key, length)
  local state = redis.call('HMGET', key, 'token', 'expire')
  local used, ends = tonumber(state[1] or nil), tonumber(state[2] or nil)
  if used and ends and now < ends and ends <= now + length then return used, ends end
  if not used or not ends or now >= ends then
    used = 0
    redis.call('HSET', key, 'token', '0')
  end
  -- A new window; or the clock was set back, or the window was longer.
  ends = now + length
  redis.call('HSET', key, 'expire', integer(ends))
  redis.call('PEXPIRE', key, lifetime(length))
  return used, ends
end
