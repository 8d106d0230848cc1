//! The event loop of commands that are not servers.

use super::exit::Stop;

/// Runs a future to completion on a single-threaded event loop that accepts `spawn_local`.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, work)
}
