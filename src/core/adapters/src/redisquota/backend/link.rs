//! The connection of a handler: made in the background, and made again when it is lost.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::target::{Connection, Pulse, Target};
use mixer_engine::adapter::QuotaOutage;

/// Shortest and longest pause between two attempts, whatever calls want and servers do.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Shortest pause between two connections to a cluster of which nodes do not answer.
const RENEWAL_PAUSE: Duration = Duration::from_secs(5);
/// How often an idle connection is tested.
const TEST_PERIOD: Duration = Duration::from_secs(15);

/// A connection, or why there is none.
#[derive(Clone)]
enum State {
    /// An attempt is made, and the one before did not fail.
    Connecting,
    Up(Connection, Generation),
    /// The last attempt failed.
    Down(Arc<str>),
}

/// Which of the connections of a link it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation(u64);

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unconnected {
    /// The last attempt failed.
    Down(Arc<str>),
    /// An attempt goes on.
    Late,
}

/// The connection of a handler.
pub(super) struct Link {
    target: Target,
    handler_name: Arc<str>,
    state: watch::Sender<State>,
    /// Why the last attempt failed.
    trouble: ArcSwapOption<String>,
    /// Why windows that are in use may be forgotten.
    forgets: ArcSwapOption<String>,
    /// Since when there is no connection.
    away_since: Mutex<Option<Instant>>,
    /// The next attempt, or test of the connection, is due.
    due: Notify,
    generations: AtomicU64,
}

impl Link {
    /// Not connected; [`keep`](Self::keep) connects.
    pub(super) fn new(target: Target, handler_name: Arc<str>) -> Self {
        let state = watch::Sender::new(State::Connecting);
        Self {
            target,
            handler_name,
            state,
            trouble: ArcSwapOption::empty(),
            forgets: ArcSwapOption::empty(),
            away_since: Mutex::new(Some(Instant::now())),
            due: Notify::new(),
            generations: AtomicU64::new(0),
        }
    }

    /// The addresses, without secrets.
    pub(super) fn shown(&self) -> &str {
        self.target.shown()
    }

    /// Waits for the first attempt. Errors: it failed.
    pub(super) async fn first(&self) -> Result<(), String> {
        let patience = self.target.connect_time();
        match self.get(Instant::now() + patience).await {
            Ok(_) => Ok(()),
            Err(Unconnected::Down(why)) => Err(why.to_string()),
            Err(Unconnected::Late) => Err(format!("no answer within {patience:?}")),
        }
    }

    /// The connection. Waits for an attempt up to `due`, unless the last one failed.
    pub(super) async fn get(&self, due: Instant) -> Result<(Connection, Generation), Unconnected> {
        if let State::Up(connection, generation) = &*self.state.borrow() {
            return Ok((connection.clone(), *generation));
        }
        let mut states = self.state.subscribe();
        let settled = states.wait_for(|state| !matches!(state, State::Connecting));
        match timeout_at(due, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Up(connection, generation) => Ok((connection.clone(), *generation)),
                State::Down(why) => {
                    // A request is the reason to try sooner.
                    self.due.notify_one();
                    Err(Unconnected::Down(Arc::clone(why)))
                }
                State::Connecting => Err(Unconnected::Late),
            },
            Ok(Err(_)) | Err(_) => Err(Unconnected::Late),
        }
    }

    /// Why the last attempt to connect failed; `None`: it did not.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.load_full().map(|why| format!("Redis does not answer: {why}"))
    }

    /// Why more than a limit may be granted although Redis answers.
    pub(super) fn weakness(&self) -> Option<String> {
        self.forgets.load_full().map(|why| String::clone(&why))
    }

    /// Asks whether Redis evicts keys, and logs what is new. What nobody says is as it was.
    async fn ask_for_eviction(&self, connection: &mut Connection) {
        let Ok(policy) = connection.eviction(self.target.timeout()).await else { return };
        let why = policy.map(|policy| {
            format!(
                "{}: Redis evicts keys when its memory is full, with windows that are in use, whose limit is granted again \
                 then: set maxmemory-policy to noeviction, it is {policy}",
                self.shown()
            )
        });
        if self.weakness() != why {
            let adapter = &*self.handler_name;
            match &why {
                Some(why) => tracing::warn!(target: "adapters", adapter, "{why}"),
                None => tracing::info!(target: "adapters", adapter, "Redis evicts no keys any more"),
            }
            self.forgets.store(why.map(Arc::new));
        }
    }

    /// Why there is no connection, and for how long there has been none; `None`: there is one.
    pub(super) fn outage(&self) -> Option<QuotaOutage> {
        let since = (*self.away_since.lock())?;
        let why = match self.trouble.load_full() {
            Some(why) => String::clone(&why),
            None => format!("{}: there is no connection", self.shown()),
        };
        Some(QuotaOutage { why, lasts: since.elapsed() })
    }

    fn begin_outage(&self) {
        self.away_since.lock().get_or_insert_with(Instant::now);
    }

    /// A call found that a connection is lost.
    pub(super) fn lost(&self, lost: Generation) {
        let is_lost = |state: &mut State| {
            let is_lost = matches!(state, State::Up(_, generation) if *generation == lost);
            if is_lost {
                *state = State::Connecting;
                // Before anybody connects again, which ends it.
                self.begin_outage();
            }
            is_lost
        };
        if self.state.send_if_modified(is_lost) {
            self.due.notify_one();
        }
    }

    /// A call found no answer: the connection is tested.
    pub(super) fn suspect(&self) {
        self.due.notify_one();
    }

    /// Connects whenever there is no connection, for as long as the handler lives.
    pub(super) async fn keep(&self) {
        let mut pause = SHORTEST_PAUSE;
        let mut earliest = Instant::now();
        loop {
            sleep_until(earliest).await;
            earliest = Instant::now() + SHORTEST_PAUSE;
            match self.attempt().await {
                Ok(connection) => {
                    pause = SHORTEST_PAUSE;
                    let generation = self.connected(connection.clone());
                    self.ask_for_eviction(&mut connection.clone()).await;
                    self.watch(connection, generation).await;
                    self.begin_outage();
                    self.state.send_replace(State::Connecting);
                }
                Err(why) => {
                    let why = format!("{}: {why}", self.shown());
                    self.say_unreachable(&why);
                    self.state.send_replace(State::Down(why.into()));
                    tokio::select! {
                        () = sleep(jittered(pause)) => {}
                        () = self.due.notified() => {}
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn attempt(&self) -> Result<Connection, String> {
        let patience = self.target.connect_time();
        let attempt = timeout(patience, self.target.connect()).await;
        attempt.unwrap_or_else(|_| Err(format!("no answer within {patience:?}")))
    }

    /// Returns when the connection is lost. That to a cluster of which some nodes do not answer is kept, and one that knows which nodes there are now
    /// takes its place.
    async fn watch(&self, mut connection: Connection, mut own: Generation) {
        let mut next_renewal = Instant::now();
        loop {
            tokio::select! {
                () = self.due.notified() => {}
                () = sleep(TEST_PERIOD) => {}
            }
            let is_up = matches!(&*self.state.borrow(), State::Up(_, generation) if *generation == own);
            let pulse = if is_up { connection.pulse(self.target.timeout()).await } else { Pulse::None };
            match pulse {
                Pulse::All => self.ask_for_eviction(&mut connection).await,
                Pulse::Some if Instant::now() < next_renewal => {}
                Pulse::Some => {
                    let server = self.shown();
                    mixer_base::warn_limited!(
                        1,
                        adapter = &*self.handler_name,
                        server,
                        "some nodes of the cluster do not answer"
                    );
                    let renewed = self.attempt().await;
                    next_renewal = Instant::now() + RENEWAL_PAUSE;
                    let Ok(renewed) = renewed else { continue };
                    (connection, own) = (renewed.clone(), self.connected(renewed));
                }
                Pulse::None => {
                    tracing::warn!(
                        target: "adapters",
                        adapter = &*self.handler_name,
                        server = self.shown(),
                        "the connection to Redis is lost"
                    );
                    return;
                }
            }
        }
    }

    /// From now on, calls use this connection.
    fn connected(&self, connection: Connection) -> Generation {
        let generation = Generation(self.generations.fetch_add(1, Ordering::Relaxed));
        self.say_connected();
        self.state.send_replace(State::Up(connection, generation));
        generation
    }

    fn say_connected(&self) {
        self.trouble.store(None);
        *self.away_since.lock() = None;
        let handler = &*self.handler_name;
        tracing::info!(target: "adapters", adapter = handler, server = self.shown(), "connected to Redis");
    }

    /// Logs why an attempt failed, once for each reason.
    fn say_unreachable(&self, why: &str) {
        if self.trouble.load().as_ref().is_none_or(|known| **known != *why) {
            tracing::error!(target: "adapters", adapter = &*self.handler_name, "Redis does not answer: {why}");
            self.trouble.store(Some(Arc::new(why.to_owned())));
        }
    }
}

/// A pause of between half and all of its length, so that servers do not connect all at once.
fn jittered(pause: Duration) -> Duration {
    // A new state has random keys.
    let random = RandomState::new().hash_one(0_u8) % 1024;
    pause / 2 + pause.mul_f64(random as f64 / 2048.0)
}
