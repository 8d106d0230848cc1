//! The cases of `redisquota`, with the Redis server of the system.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_yaml::Value;

use crate::support::bag::{self, Attributes, Words};
use crate::support::rpc::{Client, mixer};
use crate::support::{DEADLINE, Process, Server, free_port, is_listening, wait_for};

/// By how much the seconds of an answer may differ.
const TOLERANCE: f64 = 0.3;

/// Longest time of a step: on a machine that stalls for longer, what a case expects of times may not hold.
const STALL: Duration = Duration::from_millis(100);
/// How often a case is played on a machine that stalls.
const ATTEMPTS: usize = 10;

/// Moves all times in the state, so that a time passes that is not that of the machine. ARGV: that time since the begin; the begin, by the
/// clock of Redis, or 0; by how much times were moved so far; all in nanoseconds. Returns the last two.
const PASS: &str = "
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1e9 + tonumber(time[2]) * 1e3
local begun, moved = tonumber(ARGV[2]), tonumber(ARGV[3])
if begun == 0 then begun = now end
local shift = tonumber(ARGV[1]) - (now - begun) - moved
local function text(number) return string.format('%.0f', number) end
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('TYPE', key).ok == 'hash' then
    for _, field in ipairs({'expire', 'bucket.timestamp'}) do
      local at = tonumber(redis.call('HGET', key, field) or nil)
      if at then redis.call('HSET', key, field, text(at - shift)) end
    end
  else
    local members = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for index = 1, #members, 2 do
      redis.call('ZADD', key, text(tonumber(members[index + 1]) - shift), members[index])
    end
  end
  local left = redis.call('PTTL', key)
  if left > 0 then redis.call('PEXPIRE', key, text(left - math.floor(shift / 1e6))) end
end
return {text(begun), text(moved + shift)}
";

/// A Redis server, whose time passes only by [`sleep`](Self::sleep).
struct Redis {
    port: u16,
    process: Option<Process>,
    /// The time that passed.
    elapsed: Duration,
    /// The state of [`PASS`].
    begun: String,
    moved: String,
}

impl Redis {
    fn start() -> Result<Self, String> {
        for _ in 0..5 {
            let port = free_port();
            let zero = || "0".to_owned();
            let mut redis =
                Self { port, process: None, elapsed: Duration::ZERO, begun: zero(), moved: zero() };
            if redis.spawn()? {
                return Ok(redis);
            }
        }
        Err("redis-server does not start".to_owned())
    }

    /// Whether it starts on its port.
    fn spawn(&mut self) -> Result<bool, String> {
        let mut command = Command::new("redis-server");
        let port = self.port.to_string();
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process::spawn(&mut command);
        let mut process =
            process.map_err(|error| format!("redis-server: {error}; `.ci/run needs` installs it"))?;
        let answers = wait_for(DEADLINE, || match process.ended() {
            Some(_) => Some(false),
            None => is_listening(self.port).then_some(true),
        });
        self.process = Some(process);
        Ok(answers == Some(true))
    }

    /// The answer to a command, as `redis-cli` prints it in JSON.
    fn ask(&self, command: &[&str]) -> Result<serde_json::Value, String> {
        let port = self.port.to_string();
        let output = Command::new("redis-cli").args(["-p", &port, "-3", "--json"]).args(command).output();
        let output = output.map_err(|error| format!("redis-cli: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(text.trim()).map_err(|error| format!("redis-cli {command:?}: {error}: {text}"))
    }

    fn keys(&self) -> Result<Vec<String>, String> {
        let keys = self.ask(&["KEYS", "*"])?;
        let keys = keys.as_array().cloned().unwrap_or_default();
        Ok(keys.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect())
    }

    fn hash(&self, key: &str) -> Result<BTreeMap<String, String>, String> {
        let fields = self.ask(&["HGETALL", key])?;
        let fields = fields.as_object().cloned().unwrap_or_default();
        Ok(fields
            .into_iter()
            .map(|(name, value)| (name, value.as_str().unwrap_or_default().to_owned()))
            .collect())
    }

    /// The members of a sorted set with their scores.
    fn members(&self, key: &str) -> Result<Vec<(String, f64)>, String> {
        let members = self.ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"])?;
        let pair =
            |pair: &serde_json::Value| Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1)?.as_f64()?));
        Ok(members.as_array().into_iter().flatten().filter_map(pair).collect())
    }

    /// Makes the time in the state that which passed.
    fn settle(&mut self) -> Result<(), String> {
        let elapsed = self.elapsed.as_nanos().to_string();
        let answer = self.ask(&["EVAL", PASS, "0", &elapsed, &self.begun, &self.moved])?;
        let text = |index: usize| answer.get(index).and_then(serde_json::Value::as_str).map(str::to_owned);
        (self.begun, self.moved) = text(0).zip(text(1)).ok_or_else(|| format!("EVAL: got {answer}"))?;
        Ok(())
    }

    /// Lets time pass.
    fn sleep(&mut self, time: Duration) {
        self.elapsed += time;
    }
}

/// Plays a case, again where the machine stalls.
pub(super) fn play(path: &Path) -> Result<(), String> {
    let mut attempts = 0;
    loop {
        let mut longest = Duration::ZERO;
        let result = attempt(path, &mut longest);
        attempts += 1;
        if result.is_ok() || longest < STALL || attempts == ATTEMPTS {
            return result;
        }
    }
}

/// Plays a case. `longest`: the time of its longest step.
fn attempt(path: &Path, longest: &mut Duration) -> Result<(), String> {
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let case: Value = serde_yaml::from_str(&read(path)?).map_err(|error| error.to_string())?;
    let file = case.get("config").and_then(Value::as_str).ok_or("no config")?;
    let mut config = read(&path.with_file_name(file))?;
    let mut redis = match case.get("sinks").and_then(|sinks| sinks.get("redis")) {
        Some(_) => Some(Redis::start()?),
        None => None,
    };
    if let Some(redis) = &redis {
        config = config.replace("@@redis@@", &format!("127.0.0.1:{}", redis.port));
    }
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    std::fs::write(directory.path().join("config.yaml"), config).map_err(|error| error.to_string())?;
    let server = Server::on(directory.path()).try_start()?;
    let mut client = Client::new(&server.address())?;
    // After a restart, the server finds Redis again soon.
    let mut is_restarted = false;
    let steps = case.get("steps").and_then(Value::as_sequence).cloned().unwrap_or_default();
    for (index, step) in steps.iter().enumerate() {
        let number = |key: &str| step.get(key).and_then(Value::as_u64).unwrap_or(0);
        let op = step.get("op").and_then(Value::as_str);
        let begun = Instant::now();
        if let (Some("check" | "snapshot_redis"), Some(redis)) = (op, &mut redis)
            && redis.process.is_some()
        {
            redis.settle()?;
        }
        let found = match (op, &mut redis) {
            (Some("check"), _) if is_restarted => {
                let holds = wait_for(DEADLINE, || check(&mut client, step).ok());
                holds.map_or_else(|| check(&mut client, step), Ok)
            }
            (Some("check"), _) => check(&mut client, step),
            (Some("sleep"), Some(redis)) => {
                redis.sleep(Duration::from_millis(number("ms")));
                Ok(())
            }
            (Some("stop_sink"), Some(redis)) => {
                redis.process = None;
                Ok(())
            }
            (Some("start_sink"), Some(redis)) => {
                is_restarted = true;
                redis.spawn().and_then(|starts| if starts { Ok(()) } else { Err("no start".to_owned()) })
            }
            (Some("snapshot_redis"), Some(redis)) => snapshot(redis, step),
            (op, _) => Err(format!("unknown step {op:?}")),
        };
        *longest = begun.elapsed().max(*longest);
        found.map_err(|error| format!("step {index}: {error}"))?;
    }
    let expected = case.get("expect").and_then(|expect| expect.get("config_error_text"));
    let expected = expected.and_then(Value::as_str).unwrap_or_default();
    let log = server.log();
    // Validation asks no network: that Redis does not answer is an error of the build, of a handler without other errors.
    let of_configuration = expected.lines().filter_map(|line| line.strip_prefix("\t* "));
    let mut of_configuration =
        of_configuration.filter(|line| !line.starts_with("redisquota: could not create"));
    match of_configuration.find(|line| !log.contains(line)) {
        Some(missing) => Err(format!("not logged: {missing}")),
        None => Ok(()),
    }
}

fn check(client: &mut Client, step: &Value) -> Result<(), String> {
    let mut attributes = Attributes::new();
    for (name, value) in step.get("attributes").and_then(Value::as_mapping).into_iter().flatten() {
        let typed = value.as_mapping().and_then(|typed| typed.iter().next());
        let (kind, value) = typed.ok_or("an attribute without a type")?;
        let value =
            bag::typed(kind.as_str().unwrap_or_default(), value).ok_or("an attribute of another type")?;
        attributes.insert(name.as_str().unwrap_or_default().to_owned(), value);
    }
    let id = step.get("dedup_id").and_then(Value::as_str).unwrap_or_default();
    let mut request = mixer::CheckRequest {
        attributes: Some(bag::encode_alone(&attributes, Words::of_message())),
        global_word_count: 222,
        deduplication_id: id.to_owned(),
        ..Default::default()
    };
    for (name, quota) in step.get("quotas").and_then(Value::as_mapping).into_iter().flatten() {
        let amount = quota.get("amount").and_then(Value::as_i64).ok_or("no amount")?;
        let best_effort = quota.get("best_effort").and_then(Value::as_bool).unwrap_or(false);
        let parameters = mixer::check_request::QuotaParams { amount, best_effort };
        request.quotas.insert(name.as_str().unwrap_or_default().to_owned(), parameters);
    }
    let response = client.check(&request, None).map_err(|status| format!("{status:?}"))?;
    let expect = step.get("expect").ok_or("nothing expected")?;
    let precondition = response.precondition.clone().unwrap_or_default();
    let code = precondition.status.clone().unwrap_or_default().code;
    let wanted = expect.get("status").and_then(|status| status.get("code")).and_then(Value::as_i64);
    if wanted != Some(i64::from(code)) {
        return Err(format!("status: got {code}, want {wanted:?}"));
    }
    if expect.get("valid_use_count").and_then(Value::as_i64) != Some(i64::from(precondition.valid_use_count))
    {
        return Err(format!("valid use count: got {}", precondition.valid_use_count));
    }
    for (name, wanted) in expect.get("quotas").and_then(Value::as_mapping).into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        let found = response.quotas.get(name).ok_or_else(|| format!("quota {name}: no answer"))?;
        let granted = wanted.get("granted_amount").and_then(Value::as_i64);
        if granted != Some(found.granted_amount) {
            return Err(format!("quota {name}: got {}, want {granted:?}", found.granted_amount));
        }
        let wanted = wanted.get("valid_duration_s").and_then(Value::as_f64).unwrap_or(0.0);
        let seconds = bag::nanos_of(found.valid_duration.as_ref()) as f64 / 1e9;
        if (seconds - wanted).abs() > TOLERANCE {
            return Err(format!("quota {name}: valid for {seconds} s, want {wanted}"));
        }
    }
    Ok(())
}

/// Compares all keys.
fn snapshot(redis: &Redis, step: &Value) -> Result<(), String> {
    let expected =
        step.get("expect").and_then(|expect| expect.get("keys_latin1")).and_then(Value::as_mapping);
    let expected = expected.ok_or("no keys expected")?;
    let mut keys = redis.keys()?;
    keys.sort();
    let mut wanted: Vec<&str> = expected.keys().filter_map(Value::as_str).collect();
    wanted.sort_unstable();
    if keys != wanted {
        return Err(format!("keys: got {keys:?}, want {wanted:?}"));
    }
    for (key, wanted) in expected {
        let key = key.as_str().unwrap_or_default();
        let fields = wanted.get("fields").and_then(Value::as_mapping);
        if let Some(fields) = fields {
            let found = redis.hash(key)?;
            if found.len() != fields.len() {
                return Err(format!("{key}: got {found:?}"));
            }
            for (name, wanted) in fields {
                let (name, wanted) = (name.as_str().unwrap_or_default(), wanted.as_str().unwrap_or_default());
                let value = found.get(name).map_or("", String::as_str);
                let holds = match wanted {
                    "$unix_ns" => value.len() == 19 && value.bytes().all(|byte| byte.is_ascii_digit()),
                    wanted => value == wanted,
                };
                if !holds {
                    return Err(format!("{key} {name}: got {value}, want {wanted}"));
                }
            }
        }
        if let Some(members) = wanted.get("members").and_then(Value::as_sequence) {
            let found: Vec<String> = redis.members(key)?.into_iter().map(|(member, _)| member).collect();
            let members: Vec<&str> = members.iter().filter_map(Value::as_str).collect();
            if found != members {
                return Err(format!("{key}: got {found:?}, want {members:?}"));
            }
        }
        // Istio Mixer leaves the amounts of a rolling window for good.
        let left = redis.ask(&["PTTL", key])?.as_i64().unwrap_or(-1);
        if left <= 0 {
            return Err(format!("{key} does not expire"));
        }
    }
    Ok(())
}
