//! How far loads are that take long: of documents, of objects of a cluster, of resources that are built; for the log and for operators.
//!
//! ```
//! use mixer_base::load::{self, Load};
//!
//! let load = Load::begin("fs:///etc/mixer", "documents", "read", 0);
//! load::files_known(load.id(), 1);
//! load::documents_known(load.id(), 100);
//! load::documents_done(load.id(), 40);
//! assert_eq!(load.progress().to_string(), "fs:///etc/mixer: 40 of 100 documents read, 0 of 1 files");
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::info;

/// A load that takes longer is told.
pub const TOLD_AFTER: Duration = Duration::from_secs(1);
/// Loads that are remembered after their end: the last one of each place and stage.
const REMEMBERED: usize = 64;

static LOADS: Mutex<Loads> = Mutex::new(Loads { next: 1, live: BTreeMap::new(), ended: VecDeque::new() });

struct Loads {
    next: u64,
    live: BTreeMap<u64, Arc<State>>,
    /// The last ones, in the order of their ends.
    ended: VecDeque<Progress>,
}

#[derive(Debug)]
struct State {
    what: String,
    unit: &'static str,
    stage: &'static str,
    started: Instant,
    counts: Counts,
    /// Seconds after the start at which the log tells it next.
    tells_at: AtomicU64,
}

#[derive(Debug, Default)]
struct Counts {
    done: AtomicU64,
    known: AtomicU64,
    files_done: AtomicU64,
    files_known: AtomicU64,
}

/// Which of the counts.
type Count = fn(&Counts) -> &AtomicU64;

/// A load, which ends with this value.
#[derive(Debug)]
pub struct Load {
    id: LoadId,
    state: Arc<State>,
}

/// Which load it is. The default is none: what is counted for it is nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadId(u64);

/// How far a load is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Of what.
    pub what: String,
    /// What `documents` are, for example `documents` or `objects`.
    pub unit: &'static str,
    /// What is done with them, for example `read`.
    pub stage: &'static str,
    /// Those with which it was done.
    pub documents: u64,
    /// Those that are known so far.
    pub of_documents: u64,
    /// Files that were read, and all of them; 0 of 0 if they were read before.
    pub files: u64,
    /// See `files`.
    pub of_files: u64,
    /// How long it takes, or took.
    pub seconds: u64,
    /// Whether it has ended.
    pub is_over: bool,
}

impl Progress {
    /// Whether nothing that is known is left.
    pub fn is_complete(&self) -> bool {
        self.documents >= self.of_documents && self.files >= self.of_files
    }

    /// As JSON, for operators.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "what": self.what,
            "unit": self.unit,
            "stage": self.stage,
            "documents": self.documents,
            "ofDocuments": self.of_documents,
            "files": self.files,
            "ofFiles": self.of_files,
            "seconds": self.seconds,
        })
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, unit, stage, documents, of_documents, files, of_files, .. } = self;
        write!(f, "{what}: {documents} of {of_documents} {unit} {stage}")?;
        if *of_files > 0 {
            write!(f, ", {files} of {of_files} files")?;
        }
        Ok(())
    }
}

impl Load {
    /// Begins a load of so many documents, objects or whatever `unit` says; more may become [known](documents_known). `stage`: what is done
    /// with them.
    pub fn begin(what: impl Into<String>, unit: &'static str, stage: &'static str, documents: usize) -> Self {
        Self::begun_at(Instant::now(), what.into(), (unit, stage), documents)
    }

    fn begun_at(
        started: Instant,
        what: String,
        (unit, stage): (&'static str, &'static str),
        documents: usize,
    ) -> Self {
        let counts = Counts { known: AtomicU64::new(documents as u64), ..Counts::default() };
        let tells_at = AtomicU64::new(TOLD_AFTER.as_secs());
        let state = Arc::new(State { what, unit, stage, started, counts, tells_at });
        let mut loads = LOADS.lock();
        let id = loads.next;
        loads.next += 1;
        loads.live.insert(id, Arc::clone(&state));
        Self { id: LoadId(id), state }
    }

    /// For what counts.
    pub fn id(&self) -> LoadId {
        self.id
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.state.progress(false)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let progress = self.state.progress(true);
        let mut loads = LOADS.lock();
        loads.live.remove(&self.id.0);
        if progress.of_documents + progress.of_files == 0 {
            // Nothing was found, or nothing was reached.
            return;
        }
        let is_same = |last: &Progress| last.what == progress.what && last.stage == progress.stage;
        let last = loads.ended.iter().position(is_same);
        if let Some(at) = last.or((loads.ended.len() == REMEMBERED).then_some(0)) {
            loads.ended.remove(at);
        }
        loads.ended.push_back(progress.clone());
        drop(loads);
        let took = self.state.started.elapsed();
        if took >= TOLD_AFTER {
            let end = if progress.is_complete() { "done" } else { "ended" };
            info!(seconds = took.as_secs_f64(), "{progress}, {end}");
        }
    }
}

impl State {
    fn progress(&self, is_over: bool) -> Progress {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { done, known, files_done, files_known } = &self.counts;
        Progress {
            what: self.what.clone(),
            unit: self.unit,
            stage: self.stage,
            documents: of(done),
            of_documents: of(known),
            files: of(files_done),
            of_files: of(files_known),
            seconds: self.started.elapsed().as_secs(),
            is_over,
        }
    }

    /// Adds to a count, and tells it in the log after one second, two, four and so on.
    fn add(&self, to: Count, count: usize) {
        to(&self.counts).fetch_add(count as u64, Ordering::Relaxed);
        let (seconds, tells_at) = (self.started.elapsed().as_secs(), self.tells_at.load(Ordering::Relaxed));
        if seconds >= tells_at {
            let (next, order) = (seconds.saturating_mul(2), Ordering::Relaxed);
            if self.tells_at.compare_exchange(tells_at, next, order, order).is_ok() {
                info!(seconds, "{}", self.progress(false));
            }
        }
    }
}

fn add(id: LoadId, to: Count, count: usize) {
    let state = LOADS.lock().live.get(&id.0).cloned();
    if let Some(state) = state {
        state.add(to, count);
    }
}

/// So many files more are to be read.
pub fn files_known(id: LoadId, count: usize) {
    add(id, |counts| &counts.files_known, count);
}

/// So many more were read.
pub fn files_done(id: LoadId, count: usize) {
    add(id, |counts| &counts.files_done, count);
}

/// So many documents more are known.
pub fn documents_known(id: LoadId, count: usize) {
    add(id, |counts| &counts.known, count);
}

/// So many more are done.
pub fn documents_done(id: LoadId, count: usize) {
    add(id, |counts| &counts.done, count);
}

/// The loads that take longer than [`TOLD_AFTER`], by their start.
pub fn list() -> Vec<Progress> {
    let loads = LOADS.lock();
    let long = loads.live.values().filter(|state| state.started.elapsed() >= TOLD_AFTER);
    long.map(|state| state.progress(false)).collect()
}

/// The loads that have ended last, however short they were, in the order of their ends: of each place and stage the last one in which
/// anything was known.
pub fn ended() -> Vec<Progress> {
    LOADS.lock().ended.iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_tells_how_far_it_is_and_is_remembered() {
        let load = Load::begin("fs:///a", "documents", "converted", 10);
        documents_done(load.id(), 3);
        assert_eq!(load.progress().to_string(), "fs:///a: 3 of 10 documents converted");
        let all = || LOADS.lock().live.values().any(|state| state.what == "fs:///a");
        assert!(all());
        let id = load.id();
        drop(load);
        assert!(!all());
        // Nobody is there to be told.
        documents_done(id, 1);
        documents_done(LoadId::default(), 1);
        let last = || {
            let of_place = ended().into_iter().filter(|progress| progress.what == "fs:///a");
            of_place.map(|last| (last.is_over, last.documents, last.of_documents)).collect::<Vec<_>>()
        };
        assert_eq!(last(), [(true, 3, 10)]);
        // Many of one place leave those of others.
        for documents in 0..2 * REMEMBERED {
            drop(Load::begin("fs:///a", "documents", "converted", documents));
        }
        assert_eq!(last(), [(true, 0, 2 * REMEMBERED as u64 - 1)]);
    }

    #[test]
    fn long_loads_are_listed_and_told_again_after_twice_the_time() {
        let listed = |what: &str| list().into_iter().find(|progress| progress.what == what);
        let short = Load::begin("fs:///short", "documents", "read", 0);
        assert_eq!(listed("fs:///short"), None);
        let started = Instant::now().checked_sub(Duration::from_secs(3)).unwrap();
        let long = Load::begun_at(started, "fs:///long".to_owned(), ("documents", "read"), 0);
        files_known(long.id(), 2);
        files_done(long.id(), 1);
        assert_eq!(
            listed("fs:///long").unwrap().to_string(),
            "fs:///long: 0 of 0 documents read, 1 of 2 files"
        );
        let tells_at = long.state.tells_at.load(Ordering::Relaxed);
        assert!((6..60).contains(&tells_at), "{tells_at}");
        assert_eq!(short.state.tells_at.load(Ordering::Relaxed), 1);
    }
}
