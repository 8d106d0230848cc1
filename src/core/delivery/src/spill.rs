//! The spill: items that find no room in memory, or whose sink fails, are kept on disk and survive a restart.
//!
//! A thread, the keeper, owns the [spool], which it also opens. Neither producers nor the courier of the sink wait for the disk, nor does
//! whoever makes the delivery.
//!
//! ```text
//! producers -> queue -------------------------> courier -> sink
//!                 |                                ^
//!                 +-> keeper -> spool -> keeper ---+
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use mixer_base::task::{FaultPoint, Task, is_injection_enabled};

use crate::backlog::{DiskStep, Stored as WriteOutcome};
use crate::directories::{self, LeftOnDisk};
use crate::items::{Item, Items, List};
use crate::settings::Holds;
use crate::shared::Shared;
use crate::spool::{self, GONE, OF_ANOTHER, Owner, Spool};

/// For how long a disk fails until that is told: the directory of a handler that is replaced is in use until that closes.
const GRACE: Duration = Duration::from_secs(30);
/// How often a keeper that sleeps tries to remove what it could not.
const TIDYING: Duration = Duration::from_secs(1);
/// How often a keeper that sleeps looks whether the directory is where it was, if it has something there.
const LOOK: Duration = Duration::from_secs(10);
/// How often a keeper that sleeps looks for an injected fault, where there are any, and whether its directory is free.
const INTERVAL: Duration = Duration::from_millis(100);

/// Where items are kept that have no room in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spill {
    /// A directory of its own; it is created.
    pub directory: PathBuf,
    /// That of its handler: the same, or the one above.
    pub home: PathBuf,
    /// Most bytes on disk.
    pub bytes: u64,
    /// Whose items these are: what another handler has left in the directory is not sent.
    pub owner: Owner,
}

impl Spill {
    fn open(&self) -> io::Result<Spool> {
        let Some(_opening) = directories::opening(&self.directory) else {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "another handler is opening it"));
        };
        Spool::open(&self.directory, self.bytes, &self.owner)
    }
}

/// Creates the directory of a [`Spill`], as it is done when that is opened; for who wants to tell at once that it cannot be used. It may not return, as the
/// file system may hang.
///
/// Errors: it cannot be used, and no time makes that better.
pub fn prepare(directory: &Path) -> io::Result<()> {
    match spool::prepare(directory) {
        Err(error) if is_lasting(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether no time makes it better.
fn is_lasting(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, InvalidData, InvalidFilename, NotADirectory, PermissionDenied, ReadOnlyFilesystem,
    };
    matches!(
        error.kind(),
        OF_ANOTHER
            | AlreadyExists
            | InvalidData
            | InvalidFilename
            | NotADirectory
            | PermissionDenied
            | ReadOnlyFilesystem
    )
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

/// Starts the keeper.
///
/// Errors: its thread cannot be created.
pub(crate) fn start<B: StoredItems>(spill: Spill, holds: Holds, shared: &Arc<Shared<B>>) -> io::Result<()> {
    directories::want(&spill.directory, &spill.home);
    let directory = spill.directory.clone();
    let keeper = Mutex::new(Keeper {
        spill,
        spool: None,
        refusal: String::new(),
        holds,
        hand: B::default(),
        condition: Condition::default(),
        away_since: None,
        next_look: None,
    });
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
    let task = Task::restarted("delivery spill").of(detail);
    task.spawn_thread("delivery-spill", is_expected, body).map(drop).inspect_err(|_| {
        // Nobody has it: what is there is found by whoever looks.
        let nothing = LeftOnDisk { directory, name: "", detail: String::new(), items: 0, bytes: 0 };
        directories::leave(nothing);
    })
}

struct Keeper<B> {
    spill: Spill,
    /// `None` until the directory is opened.
    spool: Option<Spool>,
    /// Why it is not.
    refusal: String,
    /// Ended when the server stops.
    holds: Holds,
    /// What is to be written; it survives a panic.
    hand: B,
    condition: Condition,
    /// Since when the directory is not where it was.
    away_since: Option<Instant>,
    /// When it looks whether that is where it was, if nothing else does.
    next_look: Option<Instant>,
}

/// What a disk does. One kind may fail while another works.
#[derive(Debug, Clone, Copy)]
enum Work {
    Write,
    Read,
    /// Of what is delivered, and of the cursor.
    Remove,
}

/// The condition of a disk, by [`Work`].
#[derive(Debug, Default)]
struct Condition([Health; 3]);

impl Condition {
    /// Something worked, or failed. Returns whether that is to be told.
    fn note_at(&mut self, work: Work, works: bool, now: Instant) -> bool {
        self.0.get_mut(work as usize).is_some_and(|health| health.note_at(works, now))
    }

    /// Something fails, and waiting does not help: that is told at once.
    fn is_lasting(&mut self, work: Work) {
        if let Some(health) = self.0.get_mut(work as usize) {
            health.is_lasting = true;
        }
    }

    /// Whether something fails that was told.
    fn is_failing(&self) -> bool {
        self.0.iter().any(|health| health.is_told)
    }

    /// Whether something that was delivered could not be removed.
    fn is_untidy(&self) -> bool {
        self.0.get(Work::Remove as usize).is_some_and(|health| health.since.is_some())
    }
}

/// Since when a disk fails.
#[derive(Debug, Default)]
struct Health {
    since: Option<Instant>,
    is_told: bool,
    /// Whether no time makes it better.
    is_lasting: bool,
}

impl Health {
    fn note_at(&mut self, works: bool, now: Instant) -> bool {
        if works {
            return std::mem::take(self).is_told;
        }
        let since = *self.since.get_or_insert(now);
        let is_due = self.is_lasting || now.saturating_duration_since(since) >= GRACE;
        let is_new = !self.is_told && is_due;
        self.is_told |= is_new;
        is_new
    }
}

impl<B: StoredItems> Keeper<B> {
    /// The disk did something, or did not, for this reason. Once it has failed for [`GRACE`], that is told, and when it works again.
    fn note(&mut self, shared: &Shared<B>, work: Work, outcome: Result<(), &str>) {
        let is_told = self.condition.note_at(work, outcome.is_ok(), Instant::now());
        shared.is_disk_failing.store(self.condition.is_failing(), Ordering::Relaxed);
        let directory = self.spill.directory.display();
        match outcome {
            Err(why) if is_told => tracing::warn!(%directory, "what waits cannot be kept on disk: {why}"),
            Ok(()) if is_told => tracing::info!(%directory, "what waits can be kept on disk again"),
            _ => {}
        }
    }

    fn note_removal(&mut self, shared: &Shared<B>, outcome: Result<(), &str>) {
        if self.condition.is_untidy() && outcome.is_ok() {
            shared.queue.lock().tidied();
        }
        self.note(shared, Work::Remove, outcome);
    }

    /// Keeps items until the delivery has ended.
    fn run(&mut self, shared: &Shared<B>, fault: &FaultPoint<'_>) {
        loop {
            fault.check();
            self.open(shared);
            let mut queue = shared.queue.lock();
            let now = Instant::now();
            match queue.next_disk_step(now, &mut self.hand) {
                DiskStep::End => {
                    let has_ended = queue.is_ended();
                    drop(queue);
                    self.leave(shared);
                    shared.has_ended.send_replace(has_ended);
                    return;
                }
                DiskStep::Sleep => {
                    match self.pause() {
                        Some(pause) => drop(shared.disk.wait_for(&mut queue, pause)),
                        None => shared.disk.wait(&mut queue),
                    }
                    drop(queue);
                    self.look_after(shared);
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

    /// How long it sleeps at most; `None`: until it is woken.
    fn pause(&self) -> Option<Duration> {
        match &self.spool {
            None => Some(INTERVAL),
            Some(_) if is_injection_enabled() => Some(INTERVAL),
            Some(_) if self.condition.is_untidy() => Some(TIDYING),
            Some(spool) if spool.items() > 0 => Some(LOOK),
            Some(_) => None,
        }
    }

    /// Does between two sleeps what nobody asks for.
    fn look_after(&mut self, shared: &Shared<B>) {
        if self.condition.is_untidy() {
            self.tidy(shared);
        }
        let now = Instant::now();
        if self.next_look.is_none_or(|at| now >= at) {
            self.next_look = Some(now + LOOK);
            if self.spool.as_ref().is_some_and(|spool| spool.items() > 0) {
                self.give_up_if_gone(shared);
            }
        }
    }

    /// Tells what is left on disk, unless another delivery goes on with it.
    fn leave(&mut self, shared: &Shared<B>) {
        if let Some(error) = self.gone(shared) {
            self.give_up(shared, &error);
        }
        let Spill { directory, owner, .. } = &self.spill;
        let (items, bytes) = self.spool.as_ref().map_or((0, 0), |spool| (spool.items(), spool.bytes()));
        let (name, detail) = (shared.name.task, shared.name.detail.clone());
        let left = LeftOnDisk { directory: directory.clone(), name, detail, items, bytes };
        let goes_on = directories::leave(left);
        let directory = directory.display();
        match items {
            0 => {}
            _ if goes_on => {
                tracing::debug!(%directory, items, "what waits stays on disk for the next handler")
            }
            _ if self.holds.has_ended() => {
                tracing::info!(%directory, items, "{items} items of {owner} stay on disk for the next start");
            }
            _ => tracing::warn!(
                %directory,
                items,
                "{items} items stay on disk and are not sent: no handler has this `spillDirectory` any more; {owner} would send them"
            ),
        }
    }

    /// Opens the directory once it is free.
    fn open(&mut self, shared: &Shared<B>) {
        if self.spool.is_some() {
            return;
        }
        let opened = {
            let _asked = shared.ask_disk();
            self.spill.open()
        };
        match opened {
            Ok(spool) => {
                directories::take(&self.spill.directory);
                let signal = shared.queue.lock().recovered(spool.items(), spool.bytes());
                self.spool = Some(spool);
                self.note(shared, Work::Write, Ok(()));
                shared.follow(signal);
            }
            Err(error) => {
                self.refusal = error.to_string();
                let signal = shared.queue.lock().disk_not_open(self.refusal.clone());
                shared.follow(signal);
                if is_lasting(&error) {
                    self.condition.is_lasting(Work::Write);
                }
                self.note(shared, Work::Write, Err(&error.to_string()));
            }
        }
    }

    /// Why the directory with items that are to be on disk is not where it was; `None`: it is there, as far as one can tell.
    fn gone(&mut self, shared: &Shared<B>) -> Option<io::Error> {
        let _asked = shared.ask_disk();
        let spool = self.spool.as_mut().filter(|spool| spool.items() > 0)?;
        spool.check().err().filter(|error| error.kind() == GONE)
    }

    /// Gives up a directory that was removed, or that was moved away for a while, or has been somebody else's since its lock was removed. Returns whether it
    /// did: then it is opened anew.
    fn give_up_if_gone(&mut self, shared: &Shared<B>) -> bool {
        let found = {
            let _asked = shared.ask_disk();
            self.spool.as_mut().map(|spool| (spool.check(), spool.is_removed()))
        };
        let (error, is_removed) = match found {
            Some((Err(error), is_removed)) => (error, is_removed),
            Some((Ok(()), _)) | None => {
                self.away_since = None;
                return false;
            }
        };
        let may_come_back = match error.kind() {
            GONE => !is_removed,
            io::ErrorKind::WouldBlock => true,
            // Nobody knows whether it is there.
            _ => return false,
        };
        let now = Instant::now();
        let since = *self.away_since.get_or_insert(now);
        if may_come_back && now.saturating_duration_since(since) < GRACE {
            return false;
        }
        self.give_up(shared, &error);
        true
    }

    /// The directory is gone with what was there.
    fn give_up(&mut self, shared: &Shared<B>, error: &io::Error) {
        (self.spool, self.away_since) = (None, None);
        let (lost, signal) = shared.queue.lock().gone(error.to_string());
        shared.follow(signal);
        let (directory, owner) = (self.spill.directory.display(), &self.spill.owner);
        match lost {
            0 => tracing::warn!(%directory, "{error}, with nothing in it that {owner} was to send"),
            items => tracing::warn!(
                %directory,
                items,
                "{error}: {items} items that were kept there are not sent by {owner} and count as failed"
            ),
        }
    }

    /// Removes what could not be removed.
    fn tidy(&mut self, shared: &Shared<B>) {
        let Some(spool) = &mut self.spool else { return };
        let tidied = {
            let _asked = shared.ask_disk();
            spool.tidy().map_err(|error| error.to_string())
        };
        self.note_removal(shared, tidied.as_ref().copied().map_err(String::as_str));
        if tidied.is_err() {
            self.give_up_if_gone(shared);
        }
    }

    fn store(&mut self, shared: &Shared<B>) {
        let outcome = match &mut self.spool {
            None => WriteOutcome::Failed(self.refusal.clone()),
            Some(spool) => {
                let mut payload = Vec::with_capacity(self.hand.bytes());
                self.hand.encode(&mut payload);
                let items = u32::try_from(self.hand.len()).unwrap_or(u32::MAX);
                let _asked = shared.ask_disk();
                match spool.push(items, &payload) {
                    Ok(true) => WriteOutcome::Yes(spool.bytes()),
                    Ok(false) => WriteOutcome::Full,
                    Err(error) => WriteOutcome::Failed(error.to_string()),
                }
            }
        };
        if matches!(outcome, WriteOutcome::Failed(_)) && self.give_up_if_gone(shared) {
            // What is in hand is written once it is opened anew.
            return;
        }
        match &outcome {
            WriteOutcome::Yes(_) => self.note(shared, Work::Write, Ok(())),
            WriteOutcome::Full => {}
            WriteOutcome::Failed(why) => self.note(shared, Work::Write, Err(why)),
        }
        let signal = shared.queue.lock().stored(Instant::now(), &mut self.hand, outcome);
        shared.follow(signal);
    }

    fn load(&mut self, shared: &Shared<B>) {
        let Some(spool) = &mut self.spool else { return };
        let directory = self.spill.directory.display();
        let unreadable = |items, bytes, why: String| {
            mixer_base::warn_limited!(1, %directory, "entries that were kept on disk are lost: {why}");
            shared.queue.lock().unreadable(items, bytes, why)
        };
        let asked = shared.ask_disk();
        let outcome = match spool.oldest() {
            Ok(Some(record)) => {
                let batch = B::decode(&record.payload).filter(|batch| batch.len() == record.items as usize);
                match batch {
                    Some(batch) => Ok(shared.queue.lock().loaded(batch)),
                    None => {
                        // It is removed all the same.
                        let _ = spool.remove_oldest();
                        let why = "a record is of another version";
                        Ok(unreadable(record.items.into(), spool.bytes(), why.to_owned()))
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                spool.skip_damaged().map(|lost| unreadable(lost, spool.bytes(), error.to_string()))
            }
            Err(error) => Err(error),
            // INVARIANT: the spool has what the queue was told.
            Ok(None) => Ok(unreadable(u64::MAX, spool.bytes(), "a record is missing".to_owned())),
        };
        drop(asked);
        match outcome {
            Ok(signal) => {
                self.note(shared, Work::Read, Ok(()));
                shared.follow(signal);
            }
            Err(_) if self.give_up_if_gone(shared) => {}
            Err(error) => {
                shared.queue.lock().disk_failed(Instant::now(), error.to_string());
                self.note(shared, Work::Read, Err(&error.to_string()));
            }
        }
    }

    fn remove(&mut self, shared: &Shared<B>) {
        let Some(spool) = &mut self.spool else { return };
        let asked = shared.ask_disk();
        let trouble = spool.remove_oldest().err().map(|error| error.to_string());
        drop(asked);
        let bytes = spool.bytes();
        self.note_removal(shared, trouble.as_deref().map_or(Ok(()), Err));
        let is_trouble = trouble.is_some();
        let signal = shared.queue.lock().removed(bytes, trouble);
        shared.follow(signal);
        if is_trouble {
            self.give_up_if_gone(shared);
        }
    }
}

#[cfg(test)]
mod tests;
