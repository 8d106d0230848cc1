//! The scenarios: configuration, calls and measurement.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::task::LocalSet;

use super::client::{Call, Client, Plan};
use super::measure::{Figures, megabytes};
use super::options::{Options, Work};
use super::process::{Program, Role, Server};
use super::sinks::{Backend, Sink};
use super::{bridge, checks, configuration, envoy, quotas, reports};

/// Timeout of a start.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(120);
/// How often a server is started whose ports are taken.
const STARTS: usize = 5;
/// How long a backend may have to wait: handlers send once a second.
const BACKEND_PATIENCE: Duration = Duration::from_secs(120);
/// Interval of polling.
pub(super) const POLL: Duration = Duration::from_millis(2);
/// Distinct requests of a scenario.
pub(super) const VARIETY: usize = 64;
/// Entries of the check cache, where enabled: the default of Istio Mixer.
const CACHE_ENTRIES: usize = 1_500_000;
/// Warm-up, as a fraction of the measured duration.
pub(super) const WARM_UP: f64 = 0.25;
/// Maximum duration of the idle measurement, in seconds.
const IDLE: f64 = 5.0;
/// Number of edits; the median is reported.
const EDITS: usize = 5;

/// A prepared scenario.
pub(super) struct Stage {
    /// All files of the run.
    directory: tempfile::TempDir,
    /// Sent round-robin.
    pub(super) calls: Rc<[Call]>,
    cache_entries: usize,
    /// Bags per call.
    bags: usize,
    /// Whether the backend of a handler has received something.
    is_reached: Option<Box<dyn Fn() -> bool>>,
    /// Counts quotas.
    _redis: Option<Sink>,
}

impl Stage {
    /// Writes the configuration of a scenario and prepares its calls.
    pub(super) fn set(options: &Options, work: Work) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let configuration = directory.path().join("config");
        std::fs::create_dir(&configuration)?;
        let (mut cache_entries, mut bags) = (CACHE_ENTRIES, 1);
        let mut redis = None;
        let calls: Vec<Call> = match work {
            Work::NoOp => {
                configuration::sample(&configuration)?;
                vec![Call::report(&[])]
            }
            Work::Table
            | Work::Adapters
            | Work::Curves
            | Work::Envoy
            | Work::Galley
            | Work::CheckCached
            | Work::CheckUncached
            | Work::MemorySample => {
                configuration::sample(&configuration)?;
                cache_entries = if work == Work::CheckUncached { 0 } else { CACHE_ENTRIES };
                checks::of_sample(VARIETY).iter().map(|c| Call::check(&c.body, c.code)).collect()
            }
            Work::Tails | Work::CheckRules | Work::Start | Work::Edit | Work::Idle | Work::MemoryRules => {
                configuration::many_rules(&configuration, options.rules)?;
                cache_entries = 0;
                checks::of_rules(VARIETY, options.rules)
                    .iter()
                    .map(|c| Call::check(&c.body, c.code))
                    .collect()
            }
            Work::EnvoyCheck | Work::EnvoyCheckUncached => {
                envoy::configuration(&configuration)?;
                if work == Work::EnvoyCheckUncached {
                    std::fs::write(configuration.join("settings.yaml"), envoy::WITHOUT_CACHE)?;
                }
                (0..VARIETY).map(|number| Call::envoy_check(&envoy::check(number))).collect()
            }
            Work::EnvoyLimit => {
                envoy::configuration(&configuration)?;
                (0..VARIETY).map(|number| Call::envoy_limit(&envoy::limit(number))).collect()
            }
            Work::QuotaExact | Work::QuotaLease => {
                let started = redis.insert(Sink::start(Backend::Redis)?);
                quotas::configuration(&configuration, started.port, work == Work::QuotaLease)?;
                quotas::calls()
            }
            Work::EnvoyLog => {
                envoy::configuration(&configuration)?;
                bags = options.bags;
                (0..VARIETY).map(|number| Call::envoy_log(&envoy::log(number, bags))).collect()
            }
            Work::Report | Work::ReportLog => {
                let log = directory.path().join("access.log");
                let log = (work == Work::ReportLog).then_some(log.as_path());
                configuration::telemetry(&configuration, options.metrics, log)?;
                bags = options.bags;
                (0..VARIETY).map(|number| Call::report(&reports::report(number, bags))).collect()
            }
        };
        Ok(Self { directory, calls: calls.into(), cache_entries, bags, is_reached: None, _redis: redis })
    }

    /// A scenario without a check cache and with an empty configuration directory. It is measured once the backend is reached.
    pub(super) fn of(calls: Vec<Call>, bags: usize, is_reached: impl Fn() -> bool + 'static) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        std::fs::create_dir(directory.path().join("config"))?;
        let is_reached: Option<Box<dyn Fn() -> bool>> = Some(Box::new(is_reached));
        Ok(Self { directory, calls: calls.into(), cache_entries: 0, bags, is_reached, _redis: None })
    }

    /// The directory with all files.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The configuration directory.
    pub(super) fn configuration(&self) -> std::path::PathBuf {
        self.directory.path().join("config")
    }

    /// Starts a server on the configuration and waits until it answers accordingly; on other ports if another process has taken one of them.
    pub(super) async fn serve(
        &self,
        options: &Options,
        program: &Program,
        connections: usize,
    ) -> Result<(Server, Client)> {
        for _ in 1..STARTS {
            let mut server = self.start(options, program)?;
            match serving(&mut server, self, connections).await {
                Ok(client) => return Ok((server, client)),
                Err(_) if self.has_collided() => {}
                Err(error) => return Err(error),
            }
        }
        let mut server = self.start(options, program)?;
        let client = serving(&mut server, self, connections).await?;
        Ok((server, client))
    }

    fn has_collided(&self) -> bool {
        let log = std::fs::read_to_string(self.directory.path().join("server.log")).unwrap_or_default();
        log.to_lowercase().contains("address already in use")
    }

    /// Starts a server on the configuration.
    fn start(&self, options: &Options, program: &Program) -> Result<Server> {
        let directory = self.directory.path();
        if program.role == Role::Limitador {
            return bridge::limitador(program, directory);
        }
        Server::start(program, &self.configuration(), directory, self.cache_entries, options.workers)
    }

    /// Adds the last lines of the server's log to an error.
    pub(super) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let log = std::fs::read_to_string(self.directory.path().join("server.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        error.context(format!("server log ends: {}", lines.into_iter().rev().collect::<Vec<_>>().join(" / ")))
    }
}

/// Measures one scenario once.
pub(crate) async fn measure(options: &Options, program: &Program, work: Work) -> Result<Figures> {
    let stage = Stage::set(options, work)?;
    let local = LocalSet::new();
    let figures = local.run_until(async {
        match work {
            Work::Start => start(options, program, &stage).await,
            Work::Edit => edit(options, program, &stage).await,
            Work::Idle => idle(options, program, &stage).await,
            Work::MemorySample | Work::MemoryRules => memory(options, program, &stage).await,
            _ => load(options, program, &stage, work).await,
        }
    });
    figures.await.map_err(|error| stage.explain(error))
}

/// Measures the calls of a scenario once.
pub(super) async fn measure_stage(options: &Options, program: &Program, stage: &Stage) -> Result<Figures> {
    let figures = LocalSet::new().run_until(load(options, program, stage, Work::NoOp)).await;
    figures.map_err(|error| stage.explain(error))
}

/// Waits until the server answers according to its configuration.
async fn serving(server: &mut Server, stage: &Stage, connections: usize) -> Result<Client> {
    let call = stage.calls.last().context("nothing to call")?;
    loop {
        let problem = match Client::connect(server.address, connections).await {
            Ok(client) => match client.verify(call).await {
                Ok(()) => return Ok(client),
                Err(error) => error,
            },
            Err(error) => error,
        };
        server.check_alive()?;
        if server.started.elapsed() > START_PATIENCE {
            return Err(problem.context("the server does not serve"));
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn load(options: &Options, program: &Program, stage: &Stage, work: Work) -> Result<Figures> {
    let (server, client) = stage.serve(options, program, options.connections).await?;
    let before = match work {
        Work::Report | Work::ReportLog | Work::EnvoyLog => reported(&server).await?,
        _ => 0.0,
    };
    for call in stage.calls.iter() {
        client.verify(call).await?;
    }
    if matches!(work, Work::Report | Work::ReportLog | Work::EnvoyLog) {
        let bags = stage.calls.len() * stage.bags;
        let counted = reported(&server).await? - before;
        ensure!(counted == bags as f64, "{bags} bags were sent and {counted} are in the metrics");
    }
    if work == Work::ReportLog {
        // One more call verified that it serves.
        logged(&stage.directory.path().join("access.log"), (stage.calls.len() + 1) * stage.bags).await?;
    }
    let verified = Instant::now();
    while stage.is_reached.as_ref().is_some_and(|is_reached| !is_reached()) {
        ensure!(verified.elapsed() < BACKEND_PATIENCE, "the backend receives nothing");
        tokio::time::sleep(POLL).await;
    }
    let plan = Plan {
        streams: options.streams,
        duration: Duration::from_secs_f64(options.duration * WARM_UP),
        calls: options.calls,
        rate: options.rate,
    };
    client.drive(&stage.calls, plan).await?;
    let plan = Plan { duration: Duration::from_secs_f64(options.duration), ..plan };
    let cpu = server.cpu()?;
    let seen = client.drive(&stage.calls, plan).await?;
    let cpu = server.cpu()?.saturating_sub(cpu);
    Ok(Figures::of_load(&seen, cpu, stage.bags, server.resident()?))
}

/// How old the configuration is when a server starts: one that was written just now may be in the middle of being copied, and is waited for.
const SETTLED: Duration = Duration::from_millis(200);

async fn start(options: &Options, program: &Program, stage: &Stage) -> Result<Figures> {
    tokio::time::sleep(SETTLED).await;
    let (server, _) = stage.serve(options, program, 1).await?;
    Ok(Figures {
        seconds: Some(server.started.elapsed().as_secs_f64()),
        cpu_seconds: Some(server.cpu()?.as_secs_f64()),
        megabytes: Some(megabytes(server.resident()?)),
        ..Figures::default()
    })
}

/// Disables and enables a rule; every edit is measured.
async fn edit(options: &Options, program: &Program, stage: &Stage) -> Result<Figures> {
    let (server, client) = stage.serve(options, program, 1).await?;
    let check = checks::of_rules(VARIETY, options.rules).into_iter().nth(3).context("no check")?;
    let rule = 3_usize.wrapping_mul(7919) % options.rules.max(1);
    let mut took = Vec::new();
    let mut cpu_used = Vec::new();
    for edit in 0..EDITS {
        // Background work of the start and of the last edit must not be measured.
        tokio::time::sleep(Duration::from_secs_f64(options.duration.min(1.0))).await;
        let exempt = edit % 2 == 0;
        let expected = Call::check(&check.body, if exempt { 0 } else { check.code });
        ensure!(client.verify(&expected).await.is_err(), "the edit changes nothing");
        let (begun, cpu) = (Instant::now(), server.cpu()?);
        configuration::edit_rule(&stage.configuration(), rule, options.rules, exempt)?;
        while let Err(error) = client.verify(&expected).await {
            if begun.elapsed() > START_PATIENCE {
                return Err(error.context("the edit does not serve"));
            }
            tokio::time::sleep(POLL).await;
        }
        took.push(begun.elapsed().as_secs_f64());
        cpu_used.push(server.cpu()?.saturating_sub(cpu).as_secs_f64());
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    Ok(Figures {
        seconds: median(&mut took),
        cpu_seconds: median(&mut cpu_used),
        megabytes: Some(megabytes(server.resident()?)),
        ..Figures::default()
    })
}

async fn idle(options: &Options, program: &Program, stage: &Stage) -> Result<Figures> {
    let (server, _) = stage.serve(options, program, 1).await?;
    tokio::time::sleep(Duration::from_secs_f64(options.duration.min(2.0))).await;
    let (begun, cpu) = (Instant::now(), server.cpu()?);
    tokio::time::sleep(Duration::from_secs_f64(options.duration.min(IDLE))).await;
    let cpu = server.cpu()?.saturating_sub(cpu).as_secs_f64() / begun.elapsed().as_secs_f64();
    Ok(Figures { cpu_seconds: Some(cpu), ..Figures::default() })
}

async fn memory(options: &Options, program: &Program, stage: &Stage) -> Result<Figures> {
    let (server, client) = stage.serve(options, program, options.connections).await?;
    for call in stage.calls.iter() {
        client.verify(call).await?;
    }
    tokio::time::sleep(Duration::from_secs_f64(options.duration.min(2.0))).await;
    let (private, mapped) = server.memory()?;
    Ok(Figures {
        megabytes: Some(megabytes(private + mapped)),
        private_megabytes: Some(megabytes(private)),
        mapped_megabytes: Some(megabytes(mapped)),
        ..Figures::default()
    })
}

/// Requests counted by the metrics.
async fn reported(server: &Server) -> Result<f64> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", server.metrics_port)).await?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    // Other metrics have names with these prefixes.
    let counts =
        |line: &&str| line.starts_with("istio_requests_total{") || line.starts_with("istio_requests{");
    let lines = text.lines().filter(counts);
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

/// Waits until a log has the expected number of lines.
async fn logged(path: &Path, expected: usize) -> Result<()> {
    let begun = Instant::now();
    loop {
        let lines =
            std::fs::read_to_string(path).unwrap_or_default().lines().filter(|l| l.ends_with('}')).count();
        if lines == expected {
            return Ok(());
        }
        if begun.elapsed() > BACKEND_PATIENCE {
            bail!("{expected} bags were sent and {lines} are in the log");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
