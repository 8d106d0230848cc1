//! How the latencies of the good client are measured and printed.
//!
//! With `MIXER_ATTACK_SECONDS` they are figures: quiet and attacked turns alternate, three of each, and the median counts. The server
//! has one half of the cores, the good client and the attackers the other, and the attackers run only when the good client does not
//! (SCHED_IDLE): what the good client waits for is the server, not a core that the attackers have.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::ATTACKS;
use crate::support::good_client::Served;

/// Seconds of a turn, unless `MIXER_ATTACK_SECONDS` is set.
const SECONDS: f64 = 0.5;
/// Turns of each kind if they are measured.
const TURNS: usize = 3;
/// The ratio that is asked for.
const ASKED: f64 = 3.0;

fn seconds() -> Option<f64> {
    std::env::var("MIXER_ATTACK_SECONDS").ok().and_then(|text| text.parse().ok())
}

/// Whether latencies are measured.
pub(crate) fn is_measured() -> bool {
    seconds().is_some()
}

/// The length of a turn.
pub(crate) fn length() -> Duration {
    Duration::from_secs_f64(seconds().unwrap_or(SECONDS))
}

/// Quiet turns, and attacked turns.
pub(crate) fn turns() -> usize {
    if seconds().is_some() { TURNS } else { 1 }
}

/// A quiet and an attacked turn.
pub(crate) struct Round {
    calls: usize,
    made: u64,
    quiet: Latencies,
    attacked: Latencies,
}

#[derive(Clone, Copy)]
struct Latencies {
    p50: Duration,
    p99: Duration,
    longest: Duration,
    connected: Duration,
    /// The share of the time that the server's core lost.
    lost: f64,
}

impl Latencies {
    fn of(served: &Served) -> Self {
        let (p50, p99, longest) = (served.quantile(0.5), served.quantile(0.99), served.quantile(1.0));
        Self { p50, p99, longest, connected: served.connected_quantile(0.5), lost: served.lost_share() }
    }
}

impl Round {
    pub(crate) fn of(quiet: &Served, attacked: &Served, made: u64) -> Self {
        let (calls, quiet, attacked) = (attacked.calls(), Latencies::of(quiet), Latencies::of(attacked));
        Self { calls, made, quiet, attacked }
    }
}

/// What an attack showed.
pub(crate) struct Figures {
    pub(crate) name: &'static str,
    pub(crate) rounds: Vec<Round>,
    /// Most resident memory in MiB.
    pub(crate) peak: u64,
    /// The same beyond that before the attack.
    pub(crate) growth: u64,
    pub(crate) descriptors: usize,
}

impl Figures {
    /// Prints the figures, and those of all attacks once the last one has ended.
    pub(crate) fn report(self, complaint: Option<&str>) {
        assert!(ATTACKS.contains(&self.name), "{} is missing in ATTACKS", self.name);
        println!("{}", self.line());
        if let Some(complaint) = complaint {
            println!("  attackers ended with {complaint}");
        }
        static ALL: Mutex<Vec<Figures>> = Mutex::new(Vec::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(self);
        if all.len() == ATTACKS.len() && seconds().is_some() {
            all.sort_by_key(|figures| ATTACKS.iter().position(|name| *name == figures.name));
            println!("\n{HEADER}");
            all.iter().for_each(|figures| println!("{}", figures.line()));
            let above = all.iter().filter(|figures| figures.ratio() > ASKED).count();
            println!("p99 above {ASKED} times quiet: {above} of {}", all.len());
        }
    }

    fn median(&self, of: impl Fn(&Round) -> Duration) -> Duration {
        let mut all: Vec<Duration> = self.rounds.iter().map(of).collect();
        all.sort();
        all.get(all.len() / 2).copied().unwrap_or_default()
    }

    /// Percent of the time that the server's core lost, on average.
    fn lost(&self, of: impl Fn(&Round) -> f64) -> f64 {
        100.0 * self.rounds.iter().map(of).sum::<f64>() / self.rounds.len().max(1) as f64
    }

    fn ratio(&self) -> f64 {
        let quiet = self.median(|round| round.quiet.p99).as_secs_f64();
        self.median(|round| round.attacked.p99).as_secs_f64() / quiet.max(1e-9)
    }

    fn line(&self) -> String {
        let us = |of: fn(&Round) -> Duration| self.median(of).as_micros();
        format!(
            "{:<27} {:>8} {:>8} {:>8} {:>8} {:>6.1} {:>8} {:>8} {:>8} {:>8} {:>5} {:>5} {:>5} {:>7} {:>7} {:>5.1} {:>5.1}",
            self.name,
            us(|round| round.quiet.p50),
            us(|round| round.attacked.p50),
            us(|round| round.quiet.p99),
            us(|round| round.attacked.p99),
            self.ratio(),
            us(|round| round.quiet.longest),
            us(|round| round.attacked.longest),
            us(|round| round.quiet.connected),
            us(|round| round.attacked.connected),
            self.peak,
            self.growth,
            self.descriptors,
            self.rounds.iter().map(|round| round.calls).sum::<usize>(),
            self.rounds.iter().map(|round| round.made).sum::<u64>(),
            self.lost(|round| round.quiet.lost),
            self.lost(|round| round.attacked.lost),
        )
    }
}

/// Times are medians of the turns, in microseconds; memory is in MiB; what the server's core lost is in percent.
const HEADER: &str = "\
                                 p50               p99                      longest           connect           memory                      lost\n\
attack                         quiet attacked    quiet attacked  ratio    quiet attacked    quiet attacked  peak  more files   calls  rounds quiet attacked";
