//! The cost of the services for Envoy: called directly, compared with other servers, and through Envoy.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_yaml::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use super::measure::{Figures, megabytes};
use super::options::{Options, Work};
use super::ports::next_free_port;
use super::process::{Program, Server};
use super::scenario::{self, START_PATIENCE, WARM_UP};
use super::{envoy, http1};

/// The services that Envoy calls for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Authorization,
    Limits,
    Logs,
    Everything,
}

impl Asked {
    const ALL: [(Asked, &'static str); 5] = [
        (Asked::Nothing, "nothing asked"),
        (Asked::Authorization, "ext_authz"),
        (Asked::Limits, "rate limit"),
        (Asked::Logs, "access log"),
        (Asked::Everything, "all three"),
    ];

    fn has(self, part: Asked) -> bool {
        self == part || self == Asked::Everything
    }
}

/// Prints two tables.
pub(crate) fn run(
    runtime: &Runtime,
    options: &Options,
    programs: &[Program],
    out: &mut dyn Write,
) -> Result<()> {
    writeln!(out, "| call | server | CPU us | budget us | per s | p50 us | p99 us | MB |")?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
    let rows = [
        (Work::EnvoyCheck, "ext_authz check", "8"),
        (Work::EnvoyCheckUncached, "ext_authz check, no cache", "8"),
        (Work::CheckCached, "Mixer's Check, sample configuration", ""),
        (Work::CheckUncached, "Mixer's Check, no cache", ""),
        (Work::EnvoyLimit, "rate limit, one descriptor", "6"),
        (Work::EnvoyLog, "access-log entry, 25 per message", "5"),
    ];
    for (work, title, budget) in rows {
        let able = super::able(programs, work);
        let figures = super::measure_all(runtime, options, &able, work)?;
        for (program, figures) in able.iter().zip(&figures) {
            let budget = if program.is_own() { budget } else { "" };
            writeln!(out, "| {title} | {} | {} |", program.name, cells(figures, budget))?;
        }
    }
    let (Some(envoy), Some(own)) = (&options.envoy_bin, programs.first()) else { return Ok(()) };
    writeln!(out, "\n| through Envoy | CPU us of Envoy | CPU us of mixer | per s | p50 us | p99 us |")?;
    writeln!(out, "| --- | --- | --- | --- | --- | --- |")?;
    for (asked, title) in Asked::ALL {
        let (proxy, server) =
            runtime.block_on(LocalSet::new().run_until(through(options, own, envoy, asked)))?;
        let number = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.0}"));
        let cpu = |figures: &Figures| format!("{:.2}", figures.cpu_micros.unwrap_or_default());
        writeln!(
            out,
            "| {title} | {} | {} | {} | {} | {} |",
            cpu(&proxy),
            cpu(&server),
            number(proxy.per_second),
            number(proxy.p50),
            number(proxy.p99)
        )?;
    }
    Ok(())
}

fn cells(figures: &Figures, budget: &str) -> String {
    let number =
        |value: Option<f64>, digits: usize| value.map_or_else(String::new, |v| format!("{v:.digits$}"));
    [
        number(figures.cpu_micros, 2),
        budget.to_owned(),
        number(figures.per_second, 0),
        number(figures.p50, 0),
        number(figures.p99, 0),
        number(figures.megabytes, 1),
    ]
    .join(" | ")
}

/// Results of Envoy and of the server, per request.
async fn through(
    options: &Options,
    own: &Program,
    program: &Path,
    asked: Asked,
) -> Result<(Figures, Figures)> {
    let stage = scenario::Stage::set(options, Work::EnvoyCheck)?;
    let (mut server, _) = stage.serve(options, own, 1).await?;
    let upstream = TcpListener::bind("127.0.0.1:0").await?;
    let (listener, admin) = (next_free_port()?, next_free_port()?);
    let ports = [
        ("ENVOY_PORT", listener),
        ("ADMIN_PORT", admin),
        ("UPSTREAM_PORT", upstream.local_addr()?.port()),
        ("MIXER_PORT", server.address.port()),
    ];
    tokio::task::spawn_local(http1::serve(upstream));
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("envoy.yaml");
    std::fs::write(&path, bootstrap(&ports, asked)?)?;
    let mut command = Command::new(program);
    let base = std::process::id() % 30_000 + 1;
    command.arg("-c").arg(&path).args(["--base-id", &base.to_string()]);
    command.args(["--concurrency", "1", "--log-level", "error"]);
    let mut proxy = Server::spawn(command, listener, directory.path())?;
    let requests: Vec<http1::Request> = (0..scenario::VARIETY).map(|number| request(number, asked)).collect();
    while let Err(error) = http1::verify(proxy.address, &requests).await {
        proxy.check_alive()?;
        server.check_alive()?;
        if proxy.started.elapsed() > START_PATIENCE {
            return Err(error.context("Envoy does not serve"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let callers = options.connections * options.streams;
    let lasting = |share: f64| Duration::from_secs_f64(options.duration * share);
    http1::drive(proxy.address, &requests, callers, lasting(WARM_UP)).await?;
    let before = (proxy.cpu()?, server.cpu()?);
    let seen = http1::drive(proxy.address, &requests, callers, lasting(1.0)).await?;
    // Envoy flushes its access log every 200 ms; the CPU time of that belongs to the requests.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let used = (proxy.cpu()?.saturating_sub(before.0), server.cpu()?.saturating_sub(before.1));
    let mut of_proxy = Figures::of_load(&seen, used.0, 1, proxy.resident()?);
    of_proxy.megabytes = Some(megabytes(proxy.resident()?));
    Ok((of_proxy, Figures::of_load(&seen, used.1, 1, server.resident()?)))
}

/// A request of a browser; every third user is denied.
fn request(number: usize, asked: Asked) -> http1::Request {
    let refused = number % 3 == 2;
    let user = if refused { "mallory".to_owned() } else { format!("user-{number}") };
    let head = format!(
        "GET /shop/items/{number}?page=1&sort=price HTTP/1.1\r\nhost: shop.example\r\n\
         accept: text/html,application/xhtml+xml\r\naccept-encoding: gzip, deflate, br\r\n\
         accept-language: en-GB,en;q=0.5\r\ncookie: session=0123456789abcdef0123456789abcdef\r\n\
         user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
         x-user: {user}\r\nx-plan: plan-{number}\r\n\r\n"
    );
    let status = if refused && asked.has(Asked::Authorization) { 403 } else { 200 };
    http1::Request { head, status }
}

/// The bootstrap of the example with some of the services.
fn bootstrap(ports: &[(&str, u16)], asked: Asked) -> Result<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/envoy/envoy.yaml");
    let text = std::fs::read_to_string(path)?;
    let text =
        ports.iter().fold(text, |text, (name, port)| text.replace(&format!("${name}"), &port.to_string()));
    let mut document: Value = serde_yaml::from_str(&text)?;
    let mut manager = &mut document;
    for step in ["static_resources", "listeners", "", "filter_chains", "", "filters", "", "typed_config"] {
        let next = if step.is_empty() { manager.get_mut(0) } else { manager.get_mut(step) };
        manager = next.context("the bootstrap of the example has changed")?;
    }
    let manager = manager.as_mapping_mut().context("the bootstrap of the example has changed")?;
    if !asked.has(Asked::Logs) {
        manager.remove("access_log");
    }
    let filters = manager.get_mut("http_filters").and_then(Value::as_sequence_mut);
    filters.context("no filters")?.retain(|filter| match filter.get("name").and_then(Value::as_str) {
        Some("envoy.filters.http.ext_authz") => asked.has(Asked::Authorization),
        Some("envoy.filters.http.ratelimit") => asked.has(Asked::Limits),
        _ => true,
    });
    Ok(serde_yaml::to_string(&document)?)
}

/// Starts Limitador with the limit of the policy, with a counter per value.
pub(crate) fn limitador(program: &Program, directory: &Path) -> Result<Server> {
    let path = directory.join("limits.yaml");
    std::fs::write(&path, envoy::LIMITADOR)?;
    let (api, http) = (next_free_port()?, next_free_port()?);
    let mut command = Command::new(&program.path);
    command
        .args(["--rls-ip", "127.0.0.1", "--rls-port", &api.to_string()])
        .args(["--http-ip", "127.0.0.1", "--http-port", &http.to_string()])
        .arg(&path)
        .arg("memory");
    Server::spawn(command, api, directory)
}
