//! The spill: items that find no room in memory, or whose sink fails, are kept on disk and survive a restart.
//!
//! A thread, the keeper, owns the [spool](crate::spool). Neither producers nor the courier of the sink wait for the disk.
//!
//! ```text
//! producers -> queue -------------------------> courier -> sink
//!                 |                                ^
//!                 +-> keeper -> spool -> keeper ---+
//! ```

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use mixer_base::task::{FaultPoint, Task, is_injection_enabled};

use crate::backlog::{DiskStep, Stored as WriteOutcome};
use crate::items::{Item, Items, List};
use crate::shared::Shared;
use crate::spool::{IN_USE, Spool};

/// How often a keeper that sleeps looks for an injected fault, where there are any, and whether its directory is free.
const INTERVAL: Duration = Duration::from_millis(100);

/// Where items are kept that have no room in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spill {
    /// A directory of its own; it is created.
    pub directory: PathBuf,
    /// Most bytes on disk.
    pub bytes: u64,
}

/// Items that can be kept on disk.
pub trait StoredItems: Items {
    /// Appends their encoding.
    fn encode(&self, out: &mut Vec<u8>);

    /// What [`encode`](Self::encode) wrote; `None` if it is something else.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// An item that can be kept on disk.
pub trait StoredItem: Item + Sized {
    /// Appends its encoding, at most 4 GiB.
    fn encode(&self, out: &mut Vec<u8>);

    /// What [`encode`](Self::encode) wrote; `None` if it is something else.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

impl<T: StoredItem> StoredItems for List<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        for item in self.iter() {
            let start = out.len();
            out.extend([0; LENGTH]);
            item.encode(out);
            let length = u32::try_from(out.len() - start - LENGTH).unwrap_or(u32::MAX).to_le_bytes();
            out.iter_mut().skip(start).zip(length).for_each(|(place, byte)| *place = byte);
        }
    }

    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut list = Self::default();
        while let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() {
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            list.push(T::decode(rest.get(..length)?)?);
            bytes = rest.get(length..)?;
        }
        bytes.is_empty().then_some(list)
    }
}

/// Bytes of the length of an item.
const LENGTH: usize = size_of::<u32>();

/// Opens the directory; `None` while a delivery that closes, such as that of a replaced handler, still uses it.
///
/// Errors: it cannot be used.
pub(crate) fn open(spill: &Spill) -> io::Result<Option<Spool>> {
    match Spool::open(&spill.directory, spill.bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        spool => spool.map(Some),
    }
}

/// Starts the keeper.
///
/// Errors: its thread cannot be created.
pub(crate) fn start<B: StoredItems>(
    spill: Spill,
    spool: Option<Spool>,
    shared: &Arc<Shared<B>>,
) -> io::Result<()> {
    let keeper = Mutex::new(Keeper { spill, spool, hand: B::default() });
    let has_ended = Arc::new(AtomicBool::new(false));
    let is_expected = Arc::clone(&has_ended);
    let shared = Arc::clone(shared);
    let detail = match shared.name.detail.as_str() {
        "" => shared.name.task.to_owned(),
        detail => format!("{}: {detail}", shared.name.task),
    };
    let body = move |fault: &FaultPoint<'_>| {
        keeper.lock().run(&shared, fault);
        has_ended.store(true, Ordering::Relaxed);
    };
    let is_expected = move || is_expected.load(Ordering::Relaxed);
    Task::restarted("delivery spill").of(detail).spawn_thread("delivery-spill", is_expected, body).map(drop)
}

struct Keeper<B> {
    spill: Spill,
    /// `None` until the directory is free.
    spool: Option<Spool>,
    /// What is to be written; it survives a panic.
    hand: B,
}

impl<B: StoredItems> Keeper<B> {
    /// Keeps items until the delivery has ended.
    fn run(&mut self, shared: &Shared<B>, fault: &FaultPoint<'_>) {
        loop {
            fault.check();
            self.open(shared);
            let mut queue = shared.queue.lock();
            let now = Instant::now();
            match queue.next_disk_step(now, &mut self.hand) {
                DiskStep::End => {
                    shared.has_ended.send_replace(queue.is_ended());
                    return;
                }
                DiskStep::Sleep if is_injection_enabled() || self.spool.is_none() => {
                    shared.disk.wait_for(&mut queue, INTERVAL);
                    continue;
                }
                DiskStep::Sleep => {
                    shared.disk.wait(&mut queue);
                    continue;
                }
                DiskStep::WaitUntil(until) => {
                    shared.disk.wait_until(&mut queue, until);
                    continue;
                }
                DiskStep::Store => {
                    drop(queue);
                    self.store(shared);
                }
                DiskStep::Load => {
                    drop(queue);
                    self.load(shared);
                }
                DiskStep::Remove => {
                    drop(queue);
                    self.remove(shared);
                }
            }
            shared.room.notify_waiters();
        }
    }

    /// Opens the directory once it is free.
    fn open(&mut self, shared: &Shared<B>) {
        if self.spool.is_some() {
            return;
        }
        let opened = Spool::open(&self.spill.directory, self.spill.bytes);
        let mut queue = shared.queue.lock();
        let signal = match opened {
            Ok(spool) => {
                let signal = queue.recovered(spool.items(), spool.bytes());
                self.spool = Some(spool);
                signal
            }
            Err(error) => return queue.disk_not_open(error.to_string()),
        };
        drop(queue);
        shared.follow(signal);
    }

    fn store(&mut self, shared: &Shared<B>) {
        let outcome = match &mut self.spool {
            None => WriteOutcome::Failed(IN_USE.to_owned()),
            Some(spool) => {
                let mut payload = Vec::with_capacity(self.hand.bytes());
                self.hand.encode(&mut payload);
                let items = u32::try_from(self.hand.len()).unwrap_or(u32::MAX);
                match spool.push(items, &payload) {
                    Ok(true) => WriteOutcome::Yes(spool.bytes()),
                    Ok(false) => WriteOutcome::Full,
                    Err(error) => WriteOutcome::Failed(error.to_string()),
                }
            }
        };
        let signal = shared.queue.lock().stored(Instant::now(), &mut self.hand, outcome);
        shared.follow(signal);
    }

    fn load(&mut self, shared: &Shared<B>) {
        let Some(spool) = &mut self.spool else { return };
        let unreadable = |items, bytes, why: String| shared.queue.lock().unreadable(items, bytes, why);
        let failed = |error: io::Error| shared.queue.lock().disk_failed(Instant::now(), error.to_string());
        let signal = match spool.oldest() {
            Ok(Some(record)) => {
                let batch = B::decode(&record.payload).filter(|batch| batch.len() == record.items as usize);
                match batch {
                    Some(batch) => shared.queue.lock().loaded(batch),
                    None => {
                        if let Err(error) = spool.remove_oldest() {
                            failed(error);
                        }
                        let why = "a record is of another version";
                        unreadable(record.items.into(), spool.bytes(), why.to_owned())
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => match spool.skip_damaged() {
                Ok(lost) => unreadable(lost, spool.bytes(), error.to_string()),
                Err(error) => return failed(error),
            },
            Err(error) => return failed(error),
            // INVARIANT: the spool has what the queue was told.
            Ok(None) => unreadable(u64::MAX, spool.bytes(), "a record is missing".to_owned()),
        };
        shared.follow(signal);
    }

    fn remove(&mut self, shared: &Shared<B>) {
        let Some(spool) = &mut self.spool else { return };
        let removed = spool.remove_oldest();
        let mut queue = shared.queue.lock();
        if let Err(error) = removed {
            // It is removed all the same; after a restart it would be delivered again.
            queue.disk_failed(Instant::now(), error.to_string());
        }
        let signal = queue.removed(spool.bytes());
        drop(queue);
        shared.follow(signal);
    }
}

#[cfg(test)]
mod tests;
