//! Whether lines can be appended to a file, found out before they are: nothing waits, and nothing is left behind.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::regular_file;
use crate::rotate::os_text;

/// Less free disk space, in bytes, is told.
pub const LITTLE_SPACE: u64 = 256 << 20;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputUse {
    /// Whether it is renamed once it is large, and another one is created.
    pub is_rotated: bool,
    /// Whether directories that are missing are created.
    pub creates_directories: bool,
}

/// Why lines would be lost; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The file cannot be opened, created or renamed.
    #[error("{0}")]
    Access(String),
    /// The disk is full, or nearly.
    #[error("{0}")]
    Space(String),
}

/// Whether a file can be written now. Errors: why not, or not for long.
///
/// That of the user who asks, who may not be that of the server. A FIFO or a device is neither opened nor rotated.
pub fn examine(path: &Path, how: OutputUse) -> Result<(), Obstacle> {
    let directory = access(path, how).map_err(Obstacle::Access)?;
    has_space(path, directory).map_err(Obstacle::Space)
}

/// The directory of a file that can be written. Errors: why it cannot.
fn access(path: &Path, how: OutputUse) -> Result<&Path, String> {
    let name = path.display();
    let existing = std::fs::metadata(path);
    if existing.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
        return Err(format!("`{name}` is a directory"));
    }
    let directory = directory_of(path);
    // The nearest one that exists, if those below it are created.
    let found = match how.creates_directories {
        true => directory.ancestors().find(|above| above.exists()).unwrap_or(directory),
        false => directory,
    };
    if !found.exists() {
        return Err(format!("`{name}`: the directory `{}` does not exist", found.display()));
    }
    if !found.is_dir() {
        return Err(format!("`{name}`: `{}` is no directory", found.display()));
    }
    let is_special = existing.as_ref().is_ok_and(|metadata| !metadata.is_file());
    match &existing {
        _ if is_special => return may_write(path).map(|()| found),
        Ok(_) => regular_file::append(path, 0o600)
            .map(drop)
            .map_err(|error| format!("`{name}` cannot be written: {}", os_text(&error)))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => create_in(found).map_err(|error| {
            format!("`{name}` cannot be created in `{}`: {}", found.display(), os_text(&error))
        })?,
        Err(error) => return Err(format!("`{name}`: {}", os_text(error))),
    }
    if how.is_rotated && existing.is_ok() {
        create_in(found).map_err(|error| {
            let why = os_text(&error);
            format!(
                "`{name}` can be written and not rotated: no file can be created in `{}`: {why}",
                found.display()
            )
        })?;
    }
    Ok(found)
}

/// Creates and removes a file in a directory. Errors: it cannot be created.
pub fn create_in(directory: &Path) -> io::Result<()> {
    /// Several files of a directory may be examined at once.
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".mixer-doctor-{}-{number}", std::process::id()));
    OpenOptions::new().write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)
}

/// Whether a file can be created at `path`, or take the place of the one that is there; nothing is left behind. Errors: it cannot, as where
/// there is a directory.
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    create_in(directory_of(path))
}

/// The directory of a file.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn may_write(path: &Path) -> Result<(), String> {
    let allowed = rustix::fs::access(path, rustix::fs::Access::WRITE_OK);
    allowed.map_err(|error| format!("`{}` cannot be written: {}", path.display(), os_text(&error.into())))
}

fn has_space(path: &Path, directory: &Path) -> Result<(), String> {
    let Ok(disk) = rustix::fs::statvfs(directory) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    lack_of_space(free, [disk.f_favail, disk.f_files]).map_err(|why| format!("`{}`: {why}", path.display()))
}

/// Errors: that there is little room, of so many bytes, and of so many files out of all that there can be.
fn lack_of_space(free: u64, [files, all_files]: [u64; 2]) -> Result<(), String> {
    match free {
        0 => Err("its disk is full".to_owned()),
        // File systems without a table of files tell 0 of 0.
        _ if all_files > 0 && files == 0 => Err("its disk has no room for another file".to_owned()),
        _ if free < LITTLE_SPACE => Err(format!("{} MiB of free disk space", free >> 20)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const ONE: OutputUse = OutputUse { is_rotated: false, creates_directories: false };
    const ROTATED: OutputUse = OutputUse { is_rotated: true, creates_directories: true };

    #[test]
    fn files_of_one_directory_are_examined_at_once() {
        let directory = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            let examined = || (0..200).try_for_each(|_| create_in(directory.path()));
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(examined)).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_that_can_be_written_leave_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        for how in [ONE, ROTATED] {
            assert_eq!(examine(&path, how), Ok(()));
            assert_eq!(examine(&directory.path().join("a/b/lines"), ROTATED), Ok(()));
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        std::fs::write(&path, "kept\n").unwrap();
        assert_eq!((examine(&path, ONE), examine(&path, ROTATED)), (Ok(()), Ok(())));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept\n");
        assert_eq!(examine(Path::new("/dev/null"), ROTATED), Ok(()), "never rotated");
    }

    #[test]
    fn what_is_missing_or_in_the_way_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        for (path, how, why) in [
            (at("a/lines"), ONE, "does not exist"),
            (at("file/lines"), ONE, "is no directory"),
            (at("file/a/lines"), ROTATED, "is no directory"),
            (directory.path().to_owned(), ONE, "is a directory"),
            (Path::new("/dev/full/x").to_owned(), ONE, "is no directory"),
            // Nobody creates files there, root included.
            (Path::new("/proc/lines").to_owned(), ROTATED, "cannot be created in `/proc`"),
        ] {
            let found = examine(&path, how).unwrap_err().to_string();
            assert!(found.contains(why), "{}: {found}", path.display());
        }
    }

    #[test]
    fn a_directory_is_not_replaced_by_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "kept").unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        std::os::unix::fs::symlink(at("directory"), at("link")).unwrap();
        let told = |name: &str| check_replaceable(&at(name)).map_err(|error| os_text(&error));
        assert_eq!((told("file"), told("new")), (Ok(()), Ok(())));
        assert_eq!(told("directory"), Err("is a directory".to_owned()));
        assert_eq!(told("link"), Err("is a directory".to_owned()));
        assert_eq!(told("nowhere/new"), Err("no such file or directory".to_owned()));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
        assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "kept");
    }

    #[test]
    fn a_disk_without_room_is_told() {
        let told = |free, files| lack_of_space(free, files).err().unwrap_or_default();
        assert_eq!(told(0, [7, 9]), "its disk is full");
        assert_eq!(told(5 << 20, [7, 9]), "5 MiB of free disk space");
        assert_eq!(told(1 << 30, [0, 9]), "its disk has no room for another file");
        assert_eq!((told(1 << 30, [0, 0]), told(1 << 30, [7, 9])), (String::new(), String::new()));
    }

    #[test]
    fn permissions_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
        let (one, rotated) = (examine(&path, ONE), examine(&path, ROTATED));
        // Permissions are not for root, which can create files all the same.
        if create_in(directory.path()).is_err() {
            assert_eq!(one, Ok(()));
            assert!(rotated.unwrap_err().to_string().contains("can be written and not rotated"));
        }
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}
