//! Workers that repeat a call, and what happens while they do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::{Mutex, mpsc};

use super::Summary;
use crate::cmd::{Exit, Io, Stop};

/// One call and what came of it.
pub(crate) struct Finished<T> {
    /// The answer.
    pub(crate) answer: T,
    /// How bad it is.
    pub(crate) exit: Exit,
    /// How long it took.
    pub(crate) latency: Duration,
}

/// Makes one call after the other for one worker.
pub(crate) trait Call: 'static {
    /// What a call gives.
    type Answer: 'static;
    /// Whether there is another call to make.
    fn more(&self) -> bool;
    /// Makes the next call.
    fn next(&mut self) -> impl Future<Output = (Self::Answer, Exit)>;
}

/// Limits the calls per second of all workers together: a token bucket that holds the calls of one second.
struct Pace {
    interval: Duration,
    burst: Duration,
    next: Mutex<Option<tokio::time::Instant>>,
}

impl Pace {
    /// No limit from 0 down.
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

/// Progress on standard error: a bar on a terminal, else nothing.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    failed: u64,
}

impl Progress {
    /// A bar over `calls`, if `shown` and there is a terminal to show it on.
    pub(crate) fn new(calls: u64, shown: bool, io: &Io) -> Self {
        let bar = (shown && calls > 1 && io.err_is_terminal).then(|| {
            let bar = ProgressBar::with_draw_target(Some(calls), ProgressDrawTarget::stderr());
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

/// Runs something that waits on an event loop of its own.
pub(crate) fn wait<T>(work: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

/// Runs the workers and hands every answer to `show`, in the order in which they come. SIGINT ends the run early.
///
/// Gives what happened, summed up. Errors: those of `show`. Must run inside [`wait`].
pub(crate) async fn drive<C: Call>(
    workers: Vec<C>,
    rate: i64,
    mut progress: Progress,
    io: &mut Io,
    mut show: impl FnMut(&mut Io, Finished<C::Answer>) -> Result<(), Stop>,
) -> Result<Summary, Stop> {
    let (sender, mut receiver) = mpsc::channel(256);
    let pace = Pace::new(rate);
    let mut summary = Summary::start();
    let mut tasks = tokio::task::JoinSet::new();
    for call in workers {
        tasks.spawn_local(work(call, pace.clone(), sender.clone()));
    }
    drop(sender);
    let interrupt = tokio::signal::ctrl_c();
    tokio::pin!(interrupt);
    loop {
        let finished: Finished<C::Answer> = tokio::select! {
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

async fn work<C: Call>(mut call: C, pace: Option<Arc<Pace>>, sender: mpsc::Sender<Finished<C::Answer>>) {
    while call.more() {
        if let Some(pace) = &pace {
            pace.wait().await;
        }
        let started = Instant::now();
        let (answer, exit) = call.next().await;
        let finished = Finished { answer, exit, latency: started.elapsed() };
        if sender.send(finished).await.is_err() {
            return;
        }
    }
}
