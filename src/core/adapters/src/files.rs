//! Files that handlers read again when they change.
//!
//! A file is read when its writer has closed it. Nobody waits for a file system that hangs: an operation on a file runs on a thread, at
//! most one of a path.

mod reads;
mod settled;
mod watch;

pub(crate) use reads::PENDING_READS;
pub(crate) use settled::{SettledFile, Unread};
pub(crate) use watch::{FileWatches, SETTLE_TIME};
