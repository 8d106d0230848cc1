//! Measures the proxy beside Envoy, HAProxy, nginx and a bare relay: CPU time per request and latency at equal load, in one run.
//!
//!     cargo run --release -p mixer-proxy --example load -- [--seconds 2] [--rounds 5] [--connections 16] [--rate 4000] [--kind http|log|http2|tls|policy|tcp|idle]
//!
//! `--rate 0` sends as fast as answers come. `ENVOY` names an Envoy; without it that of `target/python` is taken. Programs that are not
//! installed are left out. `policy` is HTTP with the Mixer filter before the router of ours, its cache and its reports, and with external
//! authorization and an access log over gRPC in Envoy; `MIXER` names the `mixer` whose server both ask, with the sample configuration, and
//! without it this kind is left out. `idle` is the memory with connections that do nothing. Each proxy is a process of its own with one worker; so is the host behind all of them. `load serve FILE` runs
//! a bootstrap alone, for profiles.

#![expect(clippy::print_stdout, reason = "the table is its result")]

#[path = "load/client.rs"]
mod client;
#[path = "load/host.rs"]
mod host;
#[path = "load/peers.rs"]
mod peers;
#[path = "../../../../tests/support/ports.rs"]
mod ports;
#[path = "load/relay.rs"]
mod relay;

use std::time::Duration;

use mixer_base::allocation::CountingAllocator;

use client::{Load, Protocol};
use peers::{Kind, Peer};

/// That of the `mixer` binary.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new(std::alloc::System);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What a round measured.
#[derive(Debug, Clone, Copy)]
struct Figures {
    micros_per_request: f64,
    per_second: f64,
    p50: f64,
    p99: f64,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", path] => peers::serve(path),
        ["relay", listen, host] => relay::run(listen.parse()?, host.parse()?),
        ["host", listen] => host::run(listen.parse()?),
        _ => measure(&words),
    }
}

fn measure(words: &[&str]) -> Outcome<()> {
    let mut load = Load { connections: 16, rate: 4000, duration: Duration::from_secs(2) };
    let (mut rounds, mut only) = (5, None);
    for pair in words.chunks(2) {
        match *pair {
            ["--seconds", value] => load.duration = Duration::from_secs_f64(value.parse()?),
            ["--rounds", value] => rounds = value.parse()?,
            ["--connections", value] => load.connections = value.parse()?,
            ["--rate", value] => load.rate = value.parse()?,
            ["--kind", value] => only = Some(value.to_owned()),
            _ => return Err(format!("unknown arguments: {}", pair.join(" ")).into()),
        }
    }
    let directory = std::env::temp_dir().join(format!("mixer-proxy-load-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let wants = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let outcome = [Kind::Http, Kind::Log, Kind::Http2, Kind::Tls, Kind::Policy, Kind::Tcp]
        .into_iter()
        .filter(|kind| wants(kind.name()))
        .try_for_each(|kind| table(kind, load, rounds, &directory))
        .and_then(|()| if wants("idle") { idle(&directory) } else { Ok(()) });
    std::fs::remove_dir_all(&directory)?;
    outcome
}

/// Prints the resident memory of each proxy with connections that do nothing after their first request.
fn idle(directory: &std::path::Path) -> Outcome<()> {
    const COUNTS: [usize; 3] = [0, 100, 10_000];
    let host = peers::start_host()?;
    println!("\n| resident MB, idle connections: | {} |", COUNTS.map(|count| count.to_string()).join(" | "));
    println!("| --- | --- | --- | --- |");
    for peer in Peer::start_all(Kind::Http, host.port, 0, directory)? {
        let mut held = Vec::new();
        let mut row = Vec::new();
        for count in COUNTS {
            while held.len() < count {
                held.push(client::one_request(peer.port)?);
            }
            // What only the start needed is given back within two seconds.
            std::thread::sleep(Duration::from_secs(3));
            row.push(format!("{:.1}", peer.resident()? as f64 / 1e6));
        }
        println!("| {} | {} |", peer.name, row.join(" | "));
    }
    Ok(())
}

fn table(kind: Kind, load: Load, rounds: usize, directory: &std::path::Path) -> Outcome<()> {
    let host = peers::start_host()?;
    let server = if kind == Kind::Policy { peers::start_server()? } else { None };
    if kind == Kind::Policy && server.is_none() {
        return Ok(());
    }
    let certificate = peers::write_certificate(directory)?;
    let peers = Peer::start_all(kind, host.port, server.as_ref().map_or(0, |server| server.port), directory)?;
    let protocol = match kind {
        Kind::Tls => Protocol::Tls(certificate),
        Kind::Http2 => Protocol::Http2,
        _ => Protocol::Http1,
    };
    let mut figures = vec![Vec::new(); peers.len()];
    for round in 0..=rounds {
        // In turns, so that what else the machine does falls on all of them; the first turn warms up.
        for (peer, figures) in peers.iter().zip(&mut figures) {
            let before = peer.cpu()?;
            let seen = client::run(peer.port, load, &protocol)?;
            let used = peer.cpu()?.saturating_sub(before);
            let count = seen.latencies.len().max(1) as f64;
            if round > 0 {
                figures.push(Figures {
                    micros_per_request: used.as_secs_f64() * 1e6 / count,
                    per_second: count / seen.took.as_secs_f64(),
                    p50: seen.quantile(0.5),
                    p99: seen.quantile(0.99),
                });
            }
        }
    }
    let medians: Vec<Figures> = figures.iter().map(|rounds| median(rounds)).collect();
    let of = |name: &str| {
        peers.iter().zip(&medians).find(|(peer, _)| peer.name == name).map(|(_, m)| m.micros_per_request)
    };
    println!(
        "\n{} connections, {} requests a second, {rounds} rounds of {:?}: {}\n",
        load.connections,
        load.rate,
        load.duration,
        kind.name()
    );
    println!(
        "| proxy | CPU us/request | least | most | per second | p50 us | p99 us | x Envoy | x HAProxy | x relay |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for ((peer, median), rounds) in peers.iter().zip(&medians).zip(&figures) {
        let cpu = rounds.iter().map(|round| round.micros_per_request);
        let (least, most) = (cpu.clone().fold(f64::MAX, f64::min), cpu.fold(0.0, f64::max));
        let ratio = |name| {
            of(name)
                .map_or_else(String::new, |other: f64| format!("{:.2}", median.micros_per_request / other))
        };
        println!(
            "| {} | {:.2} | {least:.2} | {most:.2} | {:.0} | {:.0} | {:.0} | {} | {} | {} |",
            peer.name,
            median.micros_per_request,
            median.per_second,
            median.p50,
            median.p99,
            ratio("envoy"),
            ratio("haproxy"),
            ratio("relay"),
        );
    }
    Ok(())
}

fn median(rounds: &[Figures]) -> Figures {
    let of = |pick: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Figures {
        micros_per_request: of(|f| f.micros_per_request),
        per_second: of(|f| f.per_second),
        p50: of(|f| f.p50),
        p99: of(|f| f.p99),
    }
}
