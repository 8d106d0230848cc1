//! A Redis server for a test.

#[path = "../../../../../../tests/support/ports.rs"]
mod ports;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::{Client, Cmd, FromRedisValue};

/// How long anything may take on a busy machine.
pub(in crate::redisquota) const DEADLINE: Duration = Duration::from_secs(60);

/// A server on a port of its own; ends with the value.
pub(in crate::redisquota) struct RedisServer {
    process: Child,
    port: u16,
    directory: tempfile::TempDir,
    arguments: Vec<String>,
}

impl RedisServer {
    /// Starts a server with more arguments, and waits until it answers.
    pub(in crate::redisquota) async fn start(arguments: &[&str]) -> Self {
        // Another test may take the port before the server does.
        for _ in 0..10 {
            if let Some(server) = Self::try_start(free_port(), arguments).await {
                return server;
            }
        }
        panic!("redis-server does not start");
    }

    async fn try_start(port: u16, arguments: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let process = spawn(port, directory.path(), &arguments);
        let mut server = Self { process, port, directory, arguments };
        server.answers().await.then_some(server)
    }

    pub(in crate::redisquota) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(in crate::redisquota) fn port(&self) -> u16 {
        self.port
    }

    /// Kills it, as a crash does.
    pub(in crate::redisquota) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again on its port, without data.
    pub(in crate::redisquota) async fn restart(&mut self) {
        self.process = spawn(self.port, self.directory.path(), &self.arguments);
        assert!(self.answers().await, "redis-server does not start again");
    }

    /// Stops or continues it, as a machine that hangs.
    pub(in crate::redisquota) fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(signal).arg(self.process.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    /// The answer to a command.
    pub(in crate::redisquota) async fn ask<T: FromRedisValue>(&self, command: &str) -> T {
        self.try_ask(command).await.unwrap()
    }

    /// The answer to a command of a server that may close connections, as one does whose role a sentinel changes.
    pub(in crate::redisquota) async fn try_ask<T: FromRedisValue>(
        &self,
        command: &str,
    ) -> redis::RedisResult<T> {
        let client = Client::open(format!("redis://{}", self.address()))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        words(command).query_async(&mut connection).await
    }

    /// Whether it answers before it ends.
    async fn answers(&mut self) -> bool {
        let begun = std::time::Instant::now();
        while begun.elapsed() < DEADLINE {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            if let Ok(client) = Client::open(format!("redis://{}", self.address()))
                && let Ok(mut connection) = client.get_multiplexed_async_connection().await
            {
                let answer: Result<String, _> = redis::cmd("PING").query_async(&mut connection).await;
                // It may want a password.
                if answer.is_ok() || answer.is_err_and(|error| error.to_string().contains("NOAUTH")) {
                    return true;
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A command as one writes it.
fn words(command: &str) -> Cmd {
    let mut words = command.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap());
    cmd.arg(words.collect::<Vec<_>>());
    cmd
}

/// Waits until `holds`.
pub(in crate::redisquota) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A free port, never the same twice in one process.
pub(in crate::redisquota) fn free_port() -> u16 {
    ports::next_free_port().unwrap()
}

fn spawn(port: u16, directory: &std::path::Path, arguments: &[String]) -> Child {
    let mut command = Command::new("redis-server");
    // A sentinel writes its configuration, whose file comes first.
    let (file, rest) = match arguments.split_first() {
        Some((first, rest)) if first.starts_with('/') => (Some(first), rest),
        _ => (None, arguments),
    };
    command.args(file);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
    command.arg("--dir").arg(directory);
    if file.is_none() {
        command.args(["--save", "", "--appendonly", "no"]);
    }
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("redis-server is installed: `.ci/run needs` does it")
}
