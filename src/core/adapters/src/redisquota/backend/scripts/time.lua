-- Redis below 5 replicates the commands of the script, not the script, which asks for the time.
if redis.replicate_commands then redis.replicate_commands() end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1e9 + tonumber(time[2]) * 1e3

-- The text of a number that may have more than 14 digits.
local function integer(number) return string.format('%.0f', number) end

-- How many milliseconds a key lives that is needed for so many nanoseconds.
local function lifetime(length) return integer(math.max(1, math.ceil(length / 1e6))) end
