//! Concurrent workers that repeat a call, with rate limit and progress bar.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::{Mutex, mpsc};

use super::summary::Summary;
use crate::cmd::exit::{Exit, Stop};
use crate::cmd::io::Io;

/// A completed call.
pub(crate) struct FinishedCall<T> {
    /// The answer.
    pub(crate) answer: T,
    /// Exit status of the result.
    pub(crate) exit: Exit,
    /// Duration of the call.
    pub(crate) latency: Duration,
}

/// A worker that makes calls in sequence.
pub(crate) trait CallWorker: 'static {
    /// Result of a call.
    type Answer: 'static;
    /// Whether another call is due.
    fn has_more(&self) -> bool;
    /// Makes the next call.
    fn next(&mut self) -> impl Future<Output = (Self::Answer, Exit)>;
    /// The records that a call sent, if it was a report.
    fn records(_: &Self::Answer) -> Option<u64> {
        None
    }
}

/// Rate limit of all workers: a token bucket with the calls of one second.
struct CallRate {
    interval: Duration,
    burst: Duration,
    next: Mutex<Option<tokio::time::Instant>>,
}

impl CallRate {
    /// `None` if `rate` is 0 or less.
    fn new(rate: i64) -> Option<Arc<Self>> {
        let rate = u32::try_from(rate).ok().filter(|r| *r > 0)?;
        let interval = Duration::from_secs(1) / rate;
        Some(Arc::new(Self { interval, burst: interval * (rate - 1), next: Mutex::new(None) }))
    }

    async fn wait(&self) {
        let wake = {
            let mut next = self.next.lock().await;
            let now = tokio::time::Instant::now();
            let due = next.map_or(now, |due| due.max(now));
            *next = Some(due + self.interval);
            due.checked_sub(self.burst).unwrap_or(now)
        };
        tokio::time::sleep_until(wake).await;
    }
}

/// How often a bar is drawn again, a second.
const REDRAWS: u8 = 10;

/// A progress bar on standard error; shown on a terminal only.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    failed: u64,
}

impl Progress {
    /// A bar over `calls`, if `shown` and standard error is a terminal.
    pub(crate) fn new(calls: u64, shown: bool, io: &Io) -> Self {
        let bar = (shown && calls > 1 && io.err_is_terminal).then(|| {
            let bar = ProgressBar::with_draw_target(Some(calls), ProgressDrawTarget::stderr_with_hz(REDRAWS));
            let template = "{wide_bar} {pos}/{len}  {per_sec}  {msg}  eta {eta}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_message("0 failed");
            bar
        });
        Self { bar, failed: 0 }
    }

    fn step(&mut self, exit: Exit) {
        if let Some(bar) = &self.bar {
            if matches!(exit, Exit::Rpc | Exit::Deadline) {
                self.failed += 1;
                bar.set_message(format!("{} failed", self.failed));
            }
            bar.inc(1);
        }
    }

    fn write<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Runs the workers and passes every result to `show` in order of completion. SIGINT ends the run early.
///
/// Returns the summary. Errors: those of `show`. Must run inside [`block_on`](crate::cmd::event_loop::block_on).
pub(crate) async fn drive<C: CallWorker>(
    workers: Vec<C>,
    rate: i64,
    mut progress: Progress,
    io: &mut Io,
    mut show: impl FnMut(&mut Io, FinishedCall<C::Answer>) -> Result<(), Stop>,
) -> Result<Summary, Stop> {
    let (sender, mut receiver) = mpsc::channel(256);
    let rate_limit = CallRate::new(rate);
    let mut summary = Summary::start();
    let mut tasks = tokio::task::JoinSet::new();
    for call in workers {
        tasks.spawn_local(work(call, rate_limit.clone(), sender.clone()));
    }
    drop(sender);
    let interrupt = tokio::signal::ctrl_c();
    tokio::pin!(interrupt);
    loop {
        let finished: FinishedCall<C::Answer> = tokio::select! {
            biased;
            finished = receiver.recv() => match finished {
                Some(finished) => finished,
                None => break,
            },
            Ok(()) = &mut interrupt => {
                summary.interrupt();
                break;
            }
        };
        summary.add(finished.exit, finished.latency);
        if let Some(records) = C::records(&finished.answer) {
            summary.add_records(records, finished.exit == Exit::Success);
        }
        progress.step(finished.exit);
        progress.write(|| show(io, finished))?;
        if receiver.is_empty() {
            io.out.flush()?;
        }
    }
    tasks.shutdown().await;
    progress.end();
    Ok(summary)
}

async fn work<C: CallWorker>(
    mut call: C,
    rate_limit: Option<Arc<CallRate>>,
    sender: mpsc::Sender<FinishedCall<C::Answer>>,
) {
    while call.has_more() {
        if let Some(rate_limit) = &rate_limit {
            rate_limit.wait().await;
        }
        let started = Instant::now();
        let (answer, exit) = call.next().await;
        let finished = FinishedCall { answer, exit, latency: started.elapsed() };
        if sender.send(finished).await.is_err() {
            return;
        }
    }
}
