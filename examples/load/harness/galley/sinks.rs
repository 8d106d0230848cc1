//! The sinks of a run, all on one thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::BytesMut;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinHandle, LocalSet};

use super::stream::{Heard, Receiver, opening, request};

/// Sinks that receive everything at once when they begin one after the other.
const AT_ONCE: usize = 16;
/// Timeout of whatever is waited for.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes that are read at a time.
const BUFFER: usize = 1 << 18;

/// A version of a collection.
type Version = (String, String);

/// What the sinks have done.
#[derive(Default)]
struct Seen {
    sinks: usize,
    /// How many sinks have acknowledged a version.
    acknowledged: HashMap<Version, usize>,
    /// Sinks that have everything.
    ready: usize,
    /// What the next edit brings, and the version in which the first sink saw it.
    marker: Vec<u8>,
    marked: Option<Version>,
    failure: Option<String>,
}

/// Sinks on connections of their own.
pub(super) struct Sinks {
    seen: Rc<RefCell<Seen>>,
    changed: Rc<Notify>,
    running: Vec<JoinHandle<()>>,
    local: LocalSet,
}

/// What sinks ask for.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) address: SocketAddr,
    pub(super) collections: Rc<[&'static str]>,
    pub(super) is_incremental: bool,
}

impl Sinks {
    /// Connects sinks, and waits until all have acknowledged everything; returns how long that takes. `is_storm`: all at once.
    pub(super) async fn connect(asked: &Asked, count: usize, is_storm: bool) -> Result<(Self, Duration)> {
        let began = Instant::now();
        let seen = Rc::new(RefCell::new(Seen { sinks: count, ..Seen::default() }));
        let changed = Rc::new(Notify::new());
        let places = Rc::new(Semaphore::new(if is_storm { count } else { AT_ONCE }));
        let local = LocalSet::new();
        let mut running = Vec::with_capacity(count);
        for number in 0..count {
            let (asked, seen, changed) = (asked.clone(), Rc::clone(&seen), Rc::clone(&changed));
            let places = Rc::clone(&places);
            running.push(local.spawn_local(async move {
                let sink = Sink { asked, seen: Rc::clone(&seen), changed: Rc::clone(&changed), places };
                if let Err(error) = sink.run(number == 0).await {
                    seen.borrow_mut().failure.get_or_insert(format!("sink {number}: {error:#}"));
                    changed.notify_one();
                }
            }));
        }
        let sinks = Self { seen, changed, running, local };
        sinks.until(|seen| (seen.ready == count).then_some(())).await.context("the first state")?;
        Ok((sinks, began.elapsed()))
    }

    /// Makes an edit that brings `marker`, and returns how long it takes until all sinks have acknowledged it.
    pub(super) async fn follow(&self, marker: &str, edit: impl FnOnce() -> Result<()>) -> Result<Duration> {
        {
            let mut seen = self.seen.borrow_mut();
            (seen.marker, seen.marked) = (marker.as_bytes().to_vec(), None);
            seen.acknowledged.clear();
        }
        let began = Instant::now();
        edit()?;
        let is_everywhere = |seen: &Seen| {
            let count = seen.acknowledged.get(seen.marked.as_ref()?)?;
            (*count == seen.sinks).then_some(())
        };
        self.until(is_everywhere).await.with_context(|| format!("edit {marker}"))?;
        Ok(began.elapsed())
    }

    /// Runs the sinks until something is the case.
    async fn until<T>(&self, is_so: impl Fn(&Seen) -> Option<T>) -> Result<T> {
        let look = async {
            loop {
                {
                    let seen = self.seen.borrow();
                    if let Some(failure) = &seen.failure {
                        bail!("{failure}");
                    }
                    if let Some(found) = is_so(&seen) {
                        return Ok(found);
                    }
                }
                self.changed.notified().await;
            }
        };
        tokio::time::timeout(PATIENCE, self.local.run_until(look)).await.context("nothing arrives")?
    }

    /// Keeps the connections for a time.
    pub(super) async fn idle(&self, time: Duration) {
        self.local.run_until(tokio::time::sleep(time)).await;
    }
}

impl Drop for Sinks {
    fn drop(&mut self) {
        self.running.iter().for_each(JoinHandle::abort);
    }
}

struct Sink {
    asked: Asked,
    seen: Rc<RefCell<Seen>>,
    changed: Rc<Notify>,
    places: Rc<Semaphore>,
}

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
}

impl Sink {
    /// `is_first`: looks into the messages for what an edit brings.
    async fn run(self, is_first: bool) -> Result<()> {
        let place = self.places.acquire().await?;
        let mut socket = TcpStream::connect(self.asked.address).await?;
        socket.set_nodelay(true)?;
        let mut out = opening();
        for collection in self.asked.collections.iter() {
            out.extend_from_slice(&request(collection, "", self.asked.is_incremental));
        }
        let mut receiver = if is_first { Receiver::keeping() } else { Receiver::default() };
        let (mut heard, mut missing, mut place) = (Vec::new(), self.asked.collections.len(), Some(place));
        loop {
            if !out.is_empty() {
                socket.write_all(&out).await?;
                out.clear();
            }
            for message in heard.drain(..) {
                self.acknowledged(&message, is_first);
                missing = missing.saturating_sub(1);
                if missing == 0 && place.take().is_some() {
                    self.seen.borrow_mut().ready += 1;
                    self.changed.notify_one();
                }
            }
            socket.readable().await?;
            let read = SCRATCH.with_borrow_mut(|scratch| match socket.try_read(scratch) {
                Ok(0) => bail!("the connection was closed"),
                Ok(length) => {
                    receiver.receive(scratch.get(..length).unwrap_or_default(), &mut out, &mut heard)
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
                Err(error) => Err(error.into()),
            });
            read?;
            for message in &heard {
                self.acknowledge(message, &mut out);
            }
        }
    }

    fn acknowledge(&self, message: &Heard, out: &mut BytesMut) {
        out.extend_from_slice(&request(&message.collection, &message.nonce, self.asked.is_incremental));
    }

    /// The ACK of a message is written.
    fn acknowledged(&self, message: &Heard, is_first: bool) {
        let mut seen = self.seen.borrow_mut();
        let version = (message.collection.clone(), message.version.clone());
        if is_first && !seen.marker.is_empty() && memchr::memmem::find(&message.bytes, &seen.marker).is_some()
        {
            seen.marked.get_or_insert_with(|| version.clone());
        }
        let sinks = seen.sinks;
        let count = seen.acknowledged.entry(version).or_default();
        *count += 1;
        if *count == sinks {
            self.changed.notify_one();
        }
    }
}
