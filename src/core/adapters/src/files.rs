//! Files that handlers read again when they change.
//!
//! A file is read when its writer has closed it. Nobody waits for a file system that hangs: an operation on a file runs on a thread, at
//! most one of a path. One watcher of the system tells of the changes of all of them.

#[cfg(target_os = "linux")]
mod events;
#[cfg(not(target_os = "linux"))]
#[path = "files/no_events.rs"]
mod events;
mod reads;
mod settled;
mod watch;

pub(crate) use reads::PENDING_READS;
pub(crate) use settled::{SettledFile, Unread};
pub(crate) use watch::{FileWatches, SETTLE_TIME};
