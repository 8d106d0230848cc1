//! Replaces a file in one step, by a new one with its owner, permissions and attributes.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use mixer_base::file_stamp::FileStamp;
use mixer_base::file_writer::{Writer, writer_of};
use mixer_base::regular_file;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

/// Maximum size of the names of all extended attributes of a file, and of the value of one, in bytes: that of Linux.
const MAX_ATTRIBUTE: usize = 64 << 10;
/// The access control list of a file. A new file has one if its directory has a default for it.
const ACCESS_CONTROL_LIST: &[u8] = b"system.posix_acl_access";
/// Names that are tried for the new file.
const MAX_NAMES: u32 = 64;
/// How often other programs may put another file in the place of this one, one right after the other.
const MAX_TURNS: u32 = 64;

/// Bits of the mode that are kept.
const PERMISSIONS: u32 = 0o7777;

/// What to do about a file that cannot be replaced.
const BY_HAND: &str = "write the output of `mixer fmt -` into the file, which keeps all that the file has";

/// Why a file was not replaced. It is as it was.
#[derive(Debug)]
pub(super) struct NotReplaced {
    pub(super) why: String,
    /// What to do.
    pub(super) hint: &'static str,
}

impl NotReplaced {
    fn changed() -> Self {
        let hint = "run the command again, once no other program writes the file";
        Self::new("it was changed while it was being formatted", hint)
    }

    fn new(why: impl Into<String>, hint: &'static str) -> Self {
        Self { why: why.into(), hint }
    }
}

/// Why a new file did not take the place of the old one.
enum Refused {
    Changed(NotReplaced),
    System(io::Error),
}

impl From<NotReplaced> for Refused {
    fn from(refused: NotReplaced) -> Self {
        Refused::Changed(refused)
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Refused::System(error)
    }
}

/// How a new file took the place of the old one.
enum Placed {
    /// The old one has the name of the new one.
    Exchanged,
    /// The old one has no name any more.
    Renamed,
}

/// Device and inode.
fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Whether a path is that of a file.
fn is_at(file: &File, path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path).map(|found| identity(&found));
    found.is_ok_and(|found| file.metadata().is_ok_and(|metadata| identity(&metadata) == found))
}

/// Exchanges the files of two paths in one step. Not all file systems can.
fn exchange(one: &Path, other: &Path) -> Result<(), Errno> {
    rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

/// A file as it was read.
pub(super) struct Original {
    /// Not that of a link.
    path: PathBuf,
    file: File,
    metadata: Metadata,
    pub(super) text: String,
}

impl Original {
    /// Reads the file of a path without links, of at most `max` bytes.
    ///
    /// Errors: those of the system; it is no regular file, larger, or not UTF-8.
    pub(super) fn read(path: PathBuf, max: u64) -> io::Result<Self> {
        let (file, metadata) = regular_file::open(&path)?;
        let text = String::from_utf8(regular_file::read_open(&file, &metadata, max)?);
        let text = text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the text is not UTF-8"))?;
        Ok(Self { path, file, metadata, text })
    }

    /// Writes a text to a new file beside this one, which takes its place: who reads the path reads either the one or the other.
    ///
    /// Errors: the file is read-only, has several names, is open for writing, was changed since it was read, or what belongs to it cannot be
    /// kept.
    pub(super) fn replace(&self, text: &str) -> Result<(), NotReplaced> {
        if self.metadata.mode() & 0o200 == 0 {
            return Err(NotReplaced::new("it is read-only", "`chmod u+w` allows to format it"));
        }
        if self.metadata.nlink() > 1 {
            let names = self.metadata.nlink();
            return Err(NotReplaced::new(
                format!("it has {names} names (hard links), and only this one would get the new text"),
                BY_HAND,
            ));
        }
        let failed = |error: io::Error| {
            let hint = "the file is replaced by a new one: its directory must be writable, on a file system with space";
            NotReplaced::new(error.to_string(), hint)
        };
        let (mut file, beside) = self.create_beside().map_err(failed)?;
        let replaced = file
            .write_all(text.as_bytes())
            .map_err(failed)
            .and_then(|()| keep(&self.file, Kept::of(&self.metadata), &file))
            .and_then(|()| file.sync_all().map_err(failed))
            .and_then(|()| {
                self.take_place(&file, &beside).map_err(|error| match error {
                    Refused::Changed(refused) => refused,
                    Refused::System(error) => failed(error),
                })
            });
        // What the name beside has now is of no use, unless another program put it there and it could not go back.
        let is_useless = match &replaced {
            Ok(Placed::Exchanged) => true,
            Ok(Placed::Renamed) => false,
            Err(_) => is_at(&file, &beside),
        };
        if is_useless {
            let _ = std::fs::remove_file(&beside);
        }
        replaced.map(drop)
    }

    /// Puts the new file in the place of this one, if nobody has changed or is changing it.
    fn take_place(&self, new: &File, beside: &Path) -> Result<Placed, Refused> {
        // While the lease is held, nobody opens it to write.
        let lease = match writer_of(&self.file) {
            Writer::Open => {
                return Err(NotReplaced::new(
                    "a program has it open for writing",
                    "run the command again, once that program has closed the file",
                )
                .into());
            }
            Writer::None(lease) => Some(lease),
            // The system does not tell.
            Writer::Unknown => None,
        };
        self.check_unchanged()?;
        let placed = self.exchange_with(new, beside)?;
        // Who waits to write has found the old file by its name: what it writes would be lost with that.
        let is_awaited =
            matches!(placed, Placed::Exchanged) && lease.as_ref().is_some_and(|lease| lease.is_awaited());
        if is_awaited {
            exchange(beside, &self.path).map_err(io::Error::from)?;
            return Err(NotReplaced::changed().into());
        }
        Ok(placed)
    }

    /// Exchanges the two files, and back if another program has replaced this one since it was compared.
    fn exchange_with(&self, new: &File, beside: &Path) -> Result<Placed, Refused> {
        let [old, mut expected] = [&self.metadata, &new.metadata()?].map(identity);
        match exchange(beside, &self.path) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                std::fs::rename(beside, &self.path)?;
                return Ok(Placed::Renamed);
            }
            Err(Errno::NOENT) => return Err(NotReplaced::changed().into()),
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let mut taken = identity(&std::fs::symlink_metadata(beside)?);
        if taken == old {
            return Ok(Placed::Exchanged);
        }
        // What the other program has put there goes back. What it put in the place of the new file meanwhile is newer, and goes back in turn.
        for _ in 0..MAX_TURNS {
            exchange(beside, &self.path).map_err(io::Error::from)?;
            let put = std::mem::replace(&mut taken, identity(&std::fs::symlink_metadata(beside)?));
            if taken == expected {
                break;
            }
            expected = put;
        }
        Err(NotReplaced::changed().into())
    }

    /// A new file in the directory of this one, which nobody else can read yet. Servers read no file of such a name.
    fn create_beside(&self) -> io::Result<(File, PathBuf)> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut number = 0;
        loop {
            let path = directory.join(format!(".mixer-fmt.{}.{number}", std::process::id()));
            match options.open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MAX_NAMES => {
                    number += 1
                }
                opened => return opened.map(|file| (file, path)),
            }
        }
    }

    /// Whether the path still has what was read. The times of a file are not fine enough to tell of a change right after another.
    fn check_unchanged(&self) -> Result<(), NotReplaced> {
        let belongs = |metadata: &Metadata| (FileStamp::of(metadata), Kept::of(metadata), metadata.nlink());
        let is_unchanged = regular_file::read(&self.path, self.metadata.len())
            .is_ok_and(|now| now == self.text.as_bytes())
            && std::fs::symlink_metadata(&self.path)
                .is_ok_and(|metadata| belongs(&metadata) == belongs(&self.metadata));
        match is_unchanged {
            true => Ok(()),
            false => Err(NotReplaced::changed()),
        }
    }
}

/// What a new file gets of the old one, beside attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kept {
    user: u32,
    group: u32,
    mode: u32,
}

impl Kept {
    fn of(metadata: &Metadata) -> Self {
        Self { user: metadata.uid(), group: metadata.gid(), mode: metadata.mode() & PERMISSIONS }
    }
}

/// Gives a new file the owner, the group, the permissions and the extended attributes of the old one.
fn keep(old: &File, kept: Kept, new: &File) -> Result<(), NotReplaced> {
    let not_kept = |what: String, error: io::Error| {
        NotReplaced::new(
            format!("{what} cannot be kept: {error}"),
            "run `mixer fmt` as the owner of the file or as root",
        )
    };
    let Kept { user, group, mode } = kept;
    let owner = |error| not_kept(format!("its owner and group, {user}:{group},"), error);
    let permissions = |error| not_kept(format!("its permissions, {mode:04o},"), error);
    let now = |file: &File| file.metadata().map(|metadata| Kept::of(&metadata));
    // An owner who is not changed needs no permission to change owners.
    let created = now(new).map_err(owner)?;
    let changed = |old: u32, new: u32| (old != new).then_some(new);
    fchown(new, changed(created.user, user), changed(created.group, group)).map_err(owner)?;
    // After the owner: a change of that removes the bits for another user or group.
    new.set_permissions(Permissions::from_mode(mode)).map_err(permissions)?;
    // After the permissions: the access control list has those for the group in its mask.
    copy_attributes(old, new).map_err(|(name, error)| {
        let name = String::from_utf8_lossy(&name).into_owned();
        not_kept(format!("its extended attribute `{name}`"), error)
    })?;
    let found = now(new).map_err(owner)?;
    let refused = || io::Error::other("the file system keeps others");
    match found {
        _ if found == kept => Ok(()),
        Kept { mode: other, .. } if other != mode => Err(permissions(refused())),
        _ => Err(owner(refused())),
    }
}

/// Copies the extended attributes: access control lists, labels of security, those of users. Errors with the name of the attribute.
fn copy_attributes(old: &File, new: &File) -> Result<(), (Vec<u8>, io::Error)> {
    let (names, present) = (attribute_names(old), attribute_names(new));
    let listed = |names: io::Result<Vec<Vec<u8>>>| names.map_err(|error| (b"*".to_vec(), error));
    let (names, present) = (listed(names)?, listed(present)?);
    for name in &names {
        let failed = |error: io::Error| (name.clone(), error);
        let value = attribute(old, name).map_err(failed)?;
        // One that the system has given already may not be set, not even to the same.
        let has_it = present.contains(name) && attribute(new, name).is_ok_and(|found| found == value);
        if !has_it {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::fsetxattr(new, name.as_slice(), &value, flags)
                .map_err(|error| failed(error.into()))?;
        }
    }
    let list = ACCESS_CONTROL_LIST.to_vec();
    if present.contains(&list) && !names.contains(&list) {
        rustix::fs::fremovexattr(new, ACCESS_CONTROL_LIST).map_err(|error| (list, error.into()))?;
    }
    Ok(())
}

fn attribute_names(file: &File) -> io::Result<Vec<Vec<u8>>> {
    let mut list = vec![0; MAX_ATTRIBUTE];
    let length = match rustix::fs::flistxattr(file, list.as_mut_slice()) {
        // The file system has none.
        Err(Errno::NOTSUP) => 0,
        listed => listed?,
    };
    list.truncate(length);
    Ok(list.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
}

fn attribute(file: &File, name: &[u8]) -> io::Result<Vec<u8>> {
    let mut value = vec![0; MAX_ATTRIBUTE];
    let length = rustix::fs::fgetxattr(file, name, value.as_mut_slice())?;
    value.truncate(length);
    Ok(value)
}

#[cfg(test)]
mod tests;
