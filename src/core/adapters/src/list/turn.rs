//! Threads for work on lists that may take seconds: the tasks of the server, which other handlers wait for, go on meanwhile.
//!
//! One list at a time is read in the whole process, and takes memory and one core. Lists up to [`SMALL`] do not wait for larger ones: one of
//! them is read at a time, too. Those up to [`AT_ONCE`] wait for nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use mixer_base::task::panic_text;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;

/// Longest list, in bytes, that does not wait for longer ones.
pub(super) const SMALL: usize = 64 << 10;

/// Longest list, in bytes, that is read at once: that takes less than to give it to a thread and back.
const AT_ONCE: usize = 4 << 10;

static OF_SMALL: Semaphore = Semaphore::const_new(1);
static OF_LARGE: Semaphore = Semaphore::const_new(1);

/// Whether somebody waits for the result of work.
pub(super) struct Awaited(Weak<()>);

impl Awaited {
    /// The handler is gone, or its fetch was given up: what is left of the work is of no use.
    pub(super) fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// The turn of a list of so many bytes. Errors: there is none.
pub(super) async fn turn(bytes: usize) -> Result<SemaphorePermit<'static>, String> {
    let turns = if bytes <= SMALL { &OF_SMALL } else { &OF_LARGE };
    turns.acquire().await.map_err(|error| error.to_string())
}

/// Does work on a list of so many bytes on a thread, in its turn, unless it is done at once. Work that has begun keeps the turn to its end, also if nobody waits for it
/// any more. Errors: it panicked, or the process ends.
pub(super) async fn in_turn<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce(&Awaited) -> T + Send + 'static,
) -> Result<T, String> {
    let waits = Arc::new(());
    let awaited = Awaited(Arc::downgrade(&waits));
    if bytes <= AT_ONCE {
        let done = catch_unwind(AssertUnwindSafe(|| work(&awaited)));
        return done.map_err(|panic| format!("panicked: {}", panic_text(&*panic)));
    }
    let turn = turn(bytes).await?;
    let done = spawn_blocking(move || {
        let _turn = turn;
        work(&awaited)
    });
    let result = done.await.map_err(|error| error.to_string());
    drop(waits);
    result
}

/// Does short work on a list of so many bytes, on a thread unless the list is small. Errors: as of [`in_turn`].
pub(super) async fn aside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    if bytes <= SMALL {
        return Ok(work());
    }
    spawn_blocking(work).await.map_err(|error| error.to_string())
}

/// Drops what may have very many parts.
pub(super) fn drop_aside(value: impl Send + 'static) {
    drop(spawn_blocking(move || drop(value)));
}
