//! A file that is read when its writer has closed it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::reads::{self, PENDING_READS};
use mixer_base::file_stamp::{FileStamp, SETTLED};
use mixer_base::file_writer::{Writer, writer_of};
use mixer_base::regular_file;

/// A file, and what the last look at it found.
#[derive(Debug)]
pub(crate) struct SettledFile {
    path: PathBuf,
    /// The file at the last look, and since when it is unchanged.
    seen: Option<(FileStamp, Instant)>,
    /// The file when it was last read.
    read: Option<FileStamp>,
    /// Whether the system is asked who has a file open.
    leases: bool,
}

/// Why a file was not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It may be in the middle of a change: it is worth another look after [`SETTLED`].
    Unsettled(String),
    /// It is larger than allowed.
    TooLarge,
    /// The file system does not answer in time.
    Late,
    /// Any other reason.
    Failed(String),
}

impl SettledFile {
    /// Nothing read yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, seen: None, read: None, leases: true }
    }

    /// As on a file system that does not tell who has a file open.
    #[cfg(test)]
    pub(crate) fn without_leases(self) -> Self {
        Self { leases: false, ..self }
    }

    /// The stamp that the file had when it was last read.
    pub(crate) fn read_stamp(&self) -> Option<FileStamp> {
        self.read
    }

    /// The bytes of the file, at most `most`, if its writer has closed it or, where writers are unknown, it is unchanged for
    /// [`SETTLED`]. Waits up to `limit`.
    pub(crate) async fn read(&mut self, limit: Duration, most: usize) -> Result<Vec<u8>, Unread> {
        let (owned, leases, before) = (self.path.clone(), self.leases, self.seen);
        match PENDING_READS.run(&self.path, limit, move || look(&owned, leases, before, most as u64)).await {
            Ok(Ok((stamp, body))) => {
                let unchanged = self.seen.filter(|(seen, _)| *seen == stamp);
                self.seen = unchanged.or_else(|| Some((stamp, Instant::now())));
                if body.is_some() {
                    self.read = Some(stamp);
                }
                body.ok_or_else(|| {
                    Unread::Unsettled(format!(
                        "the file is being changed: it is read when it is unchanged for {SETTLED:?}"
                    ))
                })
            }
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::FileTooLarge => Err(Unread::TooLarge),
            Ok(Err(error)) => Err(Unread::Failed(error.to_string())),
            Err(reads::Unread::Late) => Err(Unread::Late),
            Err(why) => Err(Unread::Failed(why.to_string())),
        }
    }
}

/// The stamp of a file, and its bytes unless it may be in the middle of a change. `seen`: its stamp at the last look, and since when.
fn look(
    path: &Path,
    leases: bool,
    seen: Option<(FileStamp, Instant)>,
    most: u64,
) -> std::io::Result<(FileStamp, Option<Vec<u8>>)> {
    let (file, metadata) = regular_file::open(path)?;
    let stamp = FileStamp::of(&metadata);
    // Only at the first look the date counts, so that a start does not wait for a file that is old: later it may be any.
    let is_settled = match seen {
        None => stamp.age() >= Some(SETTLED),
        Some((before, since)) => before == stamp && since.elapsed() >= SETTLED,
    };
    // A lease is held while the file is read.
    let writer = if leases { writer_of(&file) } else { Writer::Unknown };
    match writer {
        Writer::Open => {
            return Err(std::io::Error::new(
                std::io::ErrorKind::ResourceBusy,
                "the file is being written: it is read when its writer has closed it",
            ));
        }
        Writer::Unknown if !is_settled => return Ok((stamp, None)),
        Writer::Unknown | Writer::None(_) => {}
    }
    let body = regular_file::read_open(&file, &metadata, most)?;
    let after = FileStamp::of(&file.metadata()?);
    Ok((after, (after == stamp).then_some(body)))
}
