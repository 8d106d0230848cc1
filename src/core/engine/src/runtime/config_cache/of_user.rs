//! The cache as the processes of another user find it: what they may, as far as users and groups decide it.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{CacheDirectory, CacheMedium, FILE, ROOT};

const READ: u32 = 4;
const WRITE: u32 = 2;
/// Of a directory: to reach what is in it.
const ENTER: u32 = 1;

/// The user and the groups by whose rights a process opens files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessUser {
    /// The id of the user.
    pub id: u32,
    /// The ids of all groups.
    pub groups: Vec<u32>,
}

impl ProcessUser {
    fn may(&self, rights: u32, found: &Metadata) -> bool {
        let shift = match found.uid() == self.id {
            true => 6,
            false if self.groups.contains(&found.gid()) => 3,
            false => 0,
        };
        self.id == ROOT || (found.mode() >> shift) & rights == rights
    }

    /// Errors: it may not, or there is nothing at the path.
    fn check(&self, rights: u32, path: &Path) -> io::Result<()> {
        if self.may(rights, &fs::metadata(path)?) {
            return Ok(());
        }
        let what = match rights {
            READ => "read",
            ENTER => "enter",
            _ => "write",
        };
        let why = format!("the user {} may not {what} `{}`", self.id, path.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    /// Errors: it does not get to what is at the path.
    fn check_way(&self, path: &Path) -> io::Result<()> {
        let path = fs::canonicalize(path)?;
        path.ancestors().skip(1).try_for_each(|above| self.check(ENTER, above))
    }
}

/// A directory as the processes of another user find it; nothing is written.
#[derive(Debug, Clone)]
pub struct CacheOfUser {
    /// The directory.
    pub directory: CacheDirectory,
    /// The user.
    pub user: ProcessUser,
}

impl CacheOfUser {
    /// Whether they could create or replace the file. Errors: they may not.
    pub fn check_writable(&self) -> io::Result<()> {
        // What is missing is created.
        let above = self.directory.0.ancestors().map(|path| match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        });
        let existing = above.into_iter().find(|path| path.exists()).unwrap_or(Path::new("."));
        self.user.check_way(existing)?;
        self.user.check(WRITE | ENTER, existing)
    }

    /// Errors: they may not read the file, or there is none.
    fn check_readable(&self) -> io::Result<()> {
        self.user.check_way(&self.directory.0)?;
        self.directory.check(self.user.id)?;
        self.user.check(ENTER, &self.directory.0)?;
        self.user.check(READ, &self.directory.0.join(FILE))
    }
}

impl CacheMedium for CacheOfUser {
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        match self.check_readable() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            checked => checked.and_then(|()| self.directory.read_as(self.user.id)),
        }
    }

    fn write(&self, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn discard(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn name(&self) -> String {
        self.directory.name()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::super::effective_user;
    use super::*;

    /// Only root can give files away.
    #[test]
    fn what_the_user_may_not_read_or_write_is_told() {
        if effective_user().unwrap() != ROOT {
            return;
        }
        let top = tempfile::tempdir().unwrap();
        let cache = CacheDirectory(top.path().join("a/cache"));
        cache.write(b"one").unwrap();
        let of = |id, groups: &[u32]| CacheOfUser {
            directory: cache.clone(),
            user: ProcessUser { id, groups: groups.to_vec() },
        };
        let (above, file) = (top.path().join("a"), cache.0.join(FILE));
        let chmod = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let told = |user: &CacheOfUser| {
            user.read().map(|found| found.is_some()).map_err(|error| {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                error.to_string()
            })
        };
        chmod(top.path(), 0o755);
        let (server, of_group, root) = (of(12_345, &[]), of(12_346, &[7]), of(ROOT, &[]));
        let refused =
            |what: &str, path: &Path| Err(format!("the user 12345 may not {what} `{}`", path.display()));
        chmod(&above, 0o700);
        assert_eq!((told(&server), told(&root)), (refused("enter", &above), Ok(true)));
        chmod(&above, 0o755);
        assert_eq!(told(&server), refused("enter", &cache.0), "as an earlier start as root left it");
        chmod(&cache.0, 0o755);
        assert_eq!(told(&server), refused("read", &file));
        let not_written = server.check_writable().unwrap_err().to_string();
        assert_eq!(Err(not_written), refused("write", &cache.0).map(drop));
        chmod(&file, 0o640);
        chown(&file, None, Some(7)).unwrap();
        assert_eq!((told(&server), told(&of_group)), (refused("read", &file), Ok(true)));
        chmod(&file, 0o604);
        assert_eq!(told(&server), Ok(true));
        assert!(told(&of_group).is_err(), "the rights of the group are those of its members");
        fs::remove_file(&file).unwrap();
        assert_eq!(told(&server), Ok(false));
        chown(&cache.0, Some(12_345), None).unwrap();
        assert!(server.check_writable().is_ok() && of_group.check_writable().is_err());
        fs::remove_dir(&cache.0).unwrap();
        assert_eq!(told(&server), Ok(false));
        assert!(server.check_writable().is_err(), "it cannot be created");
        chown(&above, Some(12_345), None).unwrap();
        assert!(server.check_writable().is_ok());
    }
}
