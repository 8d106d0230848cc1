//! Reads a file of configuration, if it is a version that its writer has completed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mixer_base::file_stamp::{FileStamp, SETTLED};
use mixer_base::file_writer::{Writer, writer_of};
use mixer_base::regular_file;
use mixer_base::rotate::os_text;

use super::walk::{self, Found};
use super::watch::{LastEvent, Watch};
use crate::store::document::{read_file_as, revision};
use crate::store::{Broken, FILE_BEING_WRITTEN, FileContents, Reading};
use crate::{Diagnostic, FieldPath};

/// Maximum size of a file, in bytes.
pub(in crate::store) const MAX_FILE: u64 = 16 << 20;
/// Maximum size of all files, in bytes.
pub(in crate::store) const MAX_FILES_BYTES: u64 = 32 << 20;

/// A warning names a file that is in the middle of a change for this long, and a missing one is removed after it, whatever moves. One that was
/// closed by a writer while others may have it open is read when it is unchanged for as long.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A file as last read.
#[derive(Clone)]
pub(super) struct CachedFile {
    pub(super) stamp: FileStamp,
    /// Read so soon after its last change that another change may leave the stamp unchanged.
    pub(super) fresh: bool,
    pub(super) hash: u64,
    /// Whether the path is a symbolic link.
    pub(super) link: bool,
    /// Whether the file has several names.
    pub(super) is_shared: bool,
    pub(super) contents: Arc<FileContents>,
}

/// Why the state of a file on disk is not in effect yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// A process has it open for writing.
    Open,
    /// It was changed, and it is unknown whether its writer closed it.
    Changing,
    /// It is empty: programs that rewrite a file empty it first.
    Emptied,
    /// It does not exist: programs that replace a file may remove it first.
    Vanished,
}

/// What events say of the writers of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Nothing.
    Nothing,
    /// It was written to, and not closed since: it is not complete, however long it is unchanged.
    Written,
    /// One has closed it, while others may have it open.
    ClosedByOne,
}

/// A file whose state on disk is not in effect yet.
#[derive(Debug, Clone)]
pub(super) struct Unsettled {
    pub(super) why: Why,
    /// When this was first seen.
    since: Instant,
    stamp: Option<FileStamp>,
    /// When the stamp was first seen. The clock that dates files may be another machine's, or be set.
    stamp_since: Instant,
    told: Told,
    /// When others were last moving, of which one may have what this one had.
    moved: Option<Instant>,
}

impl Unsettled {
    /// The next state after another look. `event`: the last one, and whether others may have the file open after it.
    pub(super) fn next(
        before: Option<&Self>,
        why: Why,
        stamp: Option<FileStamp>,
        event: Option<(LastEvent, bool)>,
        now: Instant,
    ) -> Self {
        let unchanged = before.filter(|before| before.stamp == stamp);
        let is_same =
            |before: &&Self| stamp.zip(before.stamp).is_some_and(|(now, then)| now.same_file(&then));
        let told = match event {
            Some((LastEvent::Written, _)) => Told::Written,
            Some((LastEvent::Closed, true)) => Told::ClosedByOne,
            Some((LastEvent::Closed, false)) => Told::Nothing,
            // The writer of a file that this one replaced says nothing about this one.
            Some((LastEvent::Other | LastEvent::Gone, _)) | None => {
                before.filter(is_same).map_or(Told::Nothing, |before| before.told)
            }
        };
        Self {
            why,
            since: before.map_or(now, |before| before.since),
            stamp,
            stamp_since: unchanged.map_or(now, |before| before.stamp_since),
            told,
            moved: before.and_then(|before| before.moved),
        }
    }

    /// The next state of a file that is not there. `was_back`: it may have been there since the last look. `is_moving`: others are, of which
    /// one may have what it had.
    pub(super) fn missed(before: Option<&Self>, was_back: bool, is_moving: bool, now: Instant) -> Self {
        let before = before.filter(|before| before.why == Why::Vanished && !was_back);
        let next = Self::next(before, Why::Vanished, None, None, now);
        Self { moved: if is_moving { Some(now) } else { next.moved }, ..next }
    }

    /// After events were lost: perhaps its writer closed it, and perhaps it was changed until now.
    pub(super) fn forget_writer(&mut self, now: Instant) {
        if self.told == Told::Written {
            (self.told, self.stamp_since) = (Told::Nothing, now);
        }
    }

    /// Whether nothing changed for so long that a state whose writers are unknown counts as complete.
    fn is_settled(&self, stamp: Option<FileStamp>, now: Instant) -> bool {
        match self.told {
            Told::Nothing => self.is_unchanged(stamp, SETTLED, now),
            Told::ClosedByOne => self.is_unchanged(stamp, PATIENCE, now),
            Told::Written => false,
        }
    }

    fn is_unchanged(&self, stamp: Option<FileStamp>, duration: Duration, now: Instant) -> bool {
        self.stamp == stamp && now.saturating_duration_since(self.stamp_since) >= duration
    }

    /// Whether it is time to tell the user.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= PATIENCE
    }

    /// Whether a file that does not exist is removed for good: a second after it was last there, or after others were last moving, but these
    /// hold that up for [`PATIENCE`] at most.
    pub(super) fn is_gone(&self, now: Instant) -> bool {
        let is_past = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        self.why == Why::Vanished
            && is_past(self.since, SETTLED)
            && (self.moved.is_none_or(|moved| is_past(moved, SETTLED)) || is_past(self.since, PATIENCE))
    }

    /// The problem for the user. `known`: the file has contents that stay in effect.
    pub(super) fn problem(&self, path: &Path, known: bool) -> Diagnostic {
        let state = match self.why {
            Why::Open => "is open for writing",
            _ => "is being changed",
        };
        if self.why == Why::Vanished && !known {
            let message = format!("{} is gone before it was read, and may come back", path.display());
            let seconds = PATIENCE.as_secs();
            let problem = Diagnostic::error(FILE_BEING_WRITTEN, FieldPath::root(), message);
            let hint = format!(
                "if it was deleted, it is forgotten after a second, and after {seconds} s whatever else moves"
            );
            return about(path, problem.with_hint(hint));
        }
        let (message, hint) = (
            format!("{} {state}", path.display()),
            "a file is read once its writer has closed it: write to another file and rename it",
        );
        let diagnostic = match known {
            true => {
                let seconds = PATIENCE.as_secs();
                let message =
                    format!("{message} for more than {seconds} s; its last contents stay in effect");
                Diagnostic::warning(FILE_BEING_WRITTEN, FieldPath::root(), message)
            }
            false => Diagnostic::error(
                FILE_BEING_WRITTEN,
                FieldPath::root(),
                format!("{message} and was not read yet"),
            ),
        };
        about(path, diagnostic.with_hint(hint))
    }
}

/// What is known about a file before it is looked at.
#[derive(Clone, Copy)]
pub(super) struct Before<'b> {
    pub(super) cached: Option<&'b CachedFile>,
    pub(super) unsettled: Option<&'b Unsettled>,
    pub(super) event: Option<LastEvent>,
    /// Whether another process may have it open.
    pub(super) may_be_open: bool,
    /// What tells of the files that processes open below a directory.
    pub(super) watch: Option<(&'b Watch, &'b Path)>,
    /// A file that is empty now and had contents may be in the middle of a change.
    pub(super) distrust_empty: bool,
    /// Whether the last contents stay in effect if nothing of the present ones can be read.
    pub(super) keeps_last: bool,
    /// Whether the system is asked for writers.
    pub(super) leases: bool,
    /// How documents are read.
    pub(super) reading: Reading,
    /// Whether nothing was read from the store yet. Only then the date of a file tells whether it is complete, because a start
    /// should not wait for files that are old.
    pub(super) first: bool,
}

/// The result of a look at a file.
pub(super) enum Look {
    /// This is in effect.
    Read(CachedFile),
    /// The last contents stay in effect.
    Wait(Why, FileStamp),
    /// The file cannot be read.
    Failed(ReadError),
}

/// Why a file cannot be read.
#[derive(Debug)]
pub(in crate::store) enum ReadError {
    /// The system refused.
    System(std::io::Error),
    /// The files before it have the size that a configuration may have, in bytes.
    TooMuch(u64),
}

impl ReadError {
    /// There is a directory in its place.
    pub(in crate::store) fn directory() -> Self {
        let text = "not a regular file but a directory";
        ReadError::System(std::io::Error::new(std::io::ErrorKind::InvalidInput, text))
    }

    /// Whether the file does not exist.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, ReadError::System(error) if error.kind() == std::io::ErrorKind::NotFound)
    }

    /// Whether the store counts as unavailable: not if a file is none of configuration.
    pub(super) fn is_outage(&self) -> bool {
        !matches!(self, ReadError::System(error) if error.kind() == std::io::ErrorKind::InvalidInput)
    }

    /// The problem for the user. `known`: the file has contents that stay in effect.
    pub(in crate::store) fn problem(&self, path: &Path, known: bool) -> Diagnostic {
        let (code, text, hint) = match self {
            ReadError::TooMuch(limit) => (
                "config-too-large",
                format!(
                    "the files up to here have more than {} MiB; {} is not read",
                    limit >> 20,
                    path.display()
                ),
                "remove what is no configuration of this server",
            ),
            ReadError::System(error) if error.kind() == std::io::ErrorKind::FileTooLarge => (
                "file-too-large",
                format!("{} is not read: {error}", path.display()),
                "divide it into several files",
            ),
            ReadError::System(error) if error.kind() == std::io::ErrorKind::InvalidInput => (
                "file-special",
                format!("{} is not read: {error}", path.display()),
                "configuration is read from regular files and links to them",
            ),
            ReadError::System(error) => return unreadable(path, error, known),
        };
        about(path, Diagnostic::error(code, FieldPath::root(), text).with_hint(hint))
    }

    /// The text of the readiness probe.
    pub(super) fn text(&self, path: &Path) -> String {
        match self {
            ReadError::System(error) => system_text(path, error),
            ReadError::TooMuch(_) => self.problem(path, false).message.clone(),
        }
    }
}

/// Reads a file unless it is unchanged, or in the middle of a change.
pub(super) fn look(found: &Found, before: Before<'_>, now: Instant) -> Look {
    if let Some(cached) = before.cached
        && cached.stamp == found.stamp
        && !cached.fresh
        && before.unsettled.is_none()
    {
        let is_shared = found.is_shared;
        return Look::Read(CachedFile { contents: cached.contents.clone(), is_shared, ..*cached });
    }
    match read(found, before, now) {
        Ok(look) => look,
        Err(error) => Look::Failed(ReadError::System(error)),
    }
}

/// Whether a file cannot be opened because another process holds a lease: it changes the file.
pub(super) fn is_leased(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::WouldBlock
}

fn read(found: &Found, before: Before<'_>, now: Instant) -> std::io::Result<Look> {
    // Also a look that has begun already.
    mixer_base::task::hang_if_injected();
    let settled = |stamp: FileStamp| {
        (before.event == Some(LastEvent::Closed) && !before.may_be_open)
            || before.unsettled.is_some_and(|unsettled| unsettled.is_settled(Some(stamp), now))
            || (before.first && before.event.is_none() && stamp.age() >= Some(SETTLED))
            || (before.event.is_none()
                && before.cached.is_none_or(|cached| !cached.stamp.same_file(&stamp))
                && walk::is_published(&found.path))
    };
    // The system did not tell of its writers.
    let is_untold = before.unsettled.is_some_and(|unsettled| unsettled.why == Why::Changing);
    if is_untold && !settled(found.stamp) {
        return Ok(Look::Wait(Why::Changing, found.stamp));
    }
    let opened = match before.watch.filter(|_| !found.link) {
        Some((watch, root)) => watch.open(root, &found.path, !before.first),
        None => regular_file::open(&found.path),
    };
    let (file, metadata) = match opened {
        Err(error) if is_leased(&error) => return Ok(Look::Wait(Why::Open, found.stamp)),
        opened => opened?,
    };
    let stamp = FileStamp::of(&metadata);
    let writer = if before.leases { writer_of(&file) } else { Writer::Unknown };
    let lease = match writer {
        Writer::Open => return Ok(Look::Wait(Why::Open, stamp)),
        Writer::Unknown if !settled(stamp) => return Ok(Look::Wait(Why::Changing, stamp)),
        Writer::Unknown => None,
        Writer::None(lease) => Some(lease),
    };
    let emptied = metadata.len() == 0 && before.cached.is_some_and(|cached| !cached.contents.is_empty());
    let settled_empty =
        before.unsettled.is_some_and(|u| u.why == Why::Emptied && u.is_unchanged(Some(stamp), SETTLED, now));
    if emptied && before.distrust_empty && !settled_empty {
        return Ok(Look::Wait(Why::Emptied, stamp));
    }
    let bytes = regular_file::read_open(&file, &metadata, MAX_FILE)?;
    let after = FileStamp::of(&file.metadata()?);
    drop(lease);
    if after != stamp {
        return Ok(Look::Wait(Why::Changing, after));
    }
    let fresh = stamp.age().is_none_or(|age| age < Duration::from_secs(2));
    let hash = revision(&bytes);
    let contents = match before.cached {
        Some(cached) if cached.hash == hash => cached.contents.clone(),
        cached => {
            let name = found.path.display().to_string().into();
            let last = cached.map(|cached| &*cached.contents);
            let contents = read_file_as(before.reading, &name, &bytes, last);
            Arc::new(match last.filter(|_| before.keeps_last) {
                Some(last) => contents.or_last(last),
                None => contents,
            })
        }
    };
    Ok(Look::Read(CachedFile { stamp, fresh, hash, link: found.link, is_shared: found.is_shared, contents }))
}

/// Why the system refuses a path.
pub(super) fn system_text(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {}", path.display(), cause(error))
}

/// The same as Istio Mixer has it.
fn legacy_text(path: &Path, error: &std::io::Error) -> String {
    let call =
        if error.kind() == std::io::ErrorKind::NotFound && !path.is_symlink() { "lstat" } else { "open" };
    format!("failure during filepath.Walk: {call} {}: {}", path.display(), cause(error))
}

fn cause(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::NotADirectory => "not a directory".to_owned(),
        _ => os_text(error),
    }
}

/// The problem of a file or directory that the system refuses. `known`: it has contents that stay in effect.
pub(super) fn unreadable(path: &Path, error: &std::io::Error, known: bool) -> Diagnostic {
    let is_forbidden = error.kind() == std::io::ErrorKind::PermissionDenied;
    let hint = match known {
        true => "its last contents stay in effect until it can be read again".to_owned(),
        // A file that may not be read is at the right place.
        false => misnamed(path).filter(|_| !is_forbidden).unwrap_or_else(|| {
            "create it, or mend its owner and permissions: it is read as soon as that is possible".to_owned()
        }),
    };
    let diagnostic = Diagnostic::error("store-unreadable", FieldPath::root(), system_text(path, error))
        .with_legacy(legacy_text(path, error))
        .with_hint(hint);
    about(path, diagnostic)
}

/// What to write for a path that is a file, or lacks the slash at its beginning, as `tmp/x` of `fs://tmp/x`.
pub(super) fn misnamed(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => {
            let parent = path.parent().unwrap_or(path);
            Some(format!("name the directory of the file: `fs://{}`", parent.display()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && path.is_relative() => {
            let scheme =
                path.to_str().and_then(|text| text.strip_prefix("fs:")).filter(|rest| rest.starts_with('/'));
            let absolute = Path::new("/").join(scheme.map_or(path, Path::new));
            Some(match scheme.is_some() || absolute.exists() {
                true => format!("did you mean `fs://{}`?", absolute.display()),
                false => {
                    "create it; without a slash at its beginning it is below the working directory".to_owned()
                }
            })
        }
        _ => None,
    }
}

fn about(path: &Path, mut diagnostic: Diagnostic) -> Diagnostic {
    diagnostic.file = Some(path.display().to_string().into());
    diagnostic
}

/// The part that `problem` breaks: a whole file or directory. `known`: it has contents that stay in effect.
pub(in crate::store) fn broken_file(path: &Path, problem: Diagnostic, known: bool) -> Broken {
    let file = path.display().to_string().into();
    Broken { file, document: None, text: "".into(), problem, keeps_last: known }
}
