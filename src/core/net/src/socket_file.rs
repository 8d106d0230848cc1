//! Files of unix sockets: whether a process serves one, and whether one is still that of a certain socket.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mixer_base::looks::Looks;
use mixer_base::task::hang_if_injected;
use parking_lot::Mutex;
use socket2::{Domain, SockAddr, Socket, Type};

/// How long the removal of a file is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// A look that takes longer hangs.
const HANGS: Duration = Duration::from_secs(10);

/// The file of a unix socket that this process has bound. No other file has its identity while the socket is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    /// The file that is at `path`. Errors: it cannot be looked at.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let found = std::fs::symlink_metadata(path)?;
        Ok(Self { path: path.to_path_buf(), device: found.dev(), inode: found.ino() })
    }

    /// The same file has another path.
    pub(crate) fn renamed_to(&mut self, path: &Path) {
        self.path = path.to_path_buf();
    }

    /// Whether clients reach the socket by its path, as far as this process may see. Errors: why not.
    pub fn check(&self) -> Result<(), String> {
        let path = self.path.display();
        match Self::at(&self.path) {
            Ok(found) if found == *self => Ok(()),
            Ok(_) => Err(format!(
                "`{path}` is not the file of this server any more: clients reach another one, or none"
            )),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Err(format!("`{path}` was removed: clients cannot connect until the server is started again"))
            }
            Err(_) => Ok(()),
        }
    }

    /// Removes the file, unless another one is in its place. A file system that does not answer within a second keeps it.
    pub(crate) fn remove(&self) {
        let file = self.clone();
        let remove = move || {
            hang_if_injected();
            if Self::at(&file.path).is_ok_and(|found| found == file) {
                // It may be removed already.
                let _ = std::fs::remove_file(&file.path);
            }
        };
        let _ = Looks::on_threads().wait(PATIENCE, remove);
    }
}

/// Looks of a task at the file of a socket, each on a thread.
#[derive(Debug)]
pub struct SocketWatch {
    file: Arc<SocketFile>,
    looks: Looks,
    /// When the look that goes on began.
    since: Mutex<Option<Instant>>,
}

impl SocketWatch {
    /// Looks of the current runtime.
    pub fn new(file: SocketFile) -> Self {
        Self { file: Arc::new(file), looks: Looks::default(), since: Mutex::default() }
    }

    /// Begins a [check](SocketFile::check), whose result is told by `tell`, unless one goes on. One that hangs for 10 s is told.
    pub fn look(&self, tell: impl Fn(Result<(), String>) + Clone + Send + 'static) {
        let (file, of_look) = (Arc::clone(&self.file), tell.clone());
        let look = move || {
            hang_if_injected();
            of_look(file.check());
        };
        let mut since = self.since.lock();
        if self.looks.begin(look, || {}) {
            *since = Some(Instant::now());
        } else if since.is_some_and(|since| since.elapsed() >= HANGS) {
            tell(Err(format!(
                "`{}` cannot be looked at: its file system may hang",
                self.file.path.display()
            )));
        }
    }
}

/// Whether a process serves the unix socket at `path`, which is asked by a connection that ends at once; `false` for a socket that an
/// earlier process left, and for what is none. Errors: this process may not connect to it, so that it cannot be told.
pub(crate) fn is_served(path: &Path) -> io::Result<bool> {
    if !std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        return Ok(false);
    }
    let Ok(address) = SockAddr::unix(path) else { return Ok(false) };
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A connection would wait while the backlog is full.
    socket.set_nonblocking(true)?;
    match socket.connect(&address) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        // The backlog is full, or the socket is one of datagrams.
        Err(error) => {
            Ok(matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINPROGRESS | libc::EPROTOTYPE)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;

    #[test]
    fn a_socket_is_served_while_a_process_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        assert!(!is_served(&path).unwrap(), "nothing is there");
        std::fs::write(&path, "").unwrap();
        assert!(!is_served(&path).unwrap(), "a file that is no socket");
        std::fs::remove_file(&path).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        assert!(is_served(&path).unwrap());
        drop(listener);
        assert!(path.exists() && !is_served(&path).unwrap(), "an earlier process left it");
        std::fs::remove_file(&path).unwrap();
        let datagrams = UnixDatagram::bind(&path).unwrap();
        assert!(is_served(&path).unwrap());
        drop(datagrams);
        assert!(!is_served(&path).unwrap());
    }

    #[test]
    fn a_server_whose_backlog_is_full_is_asked_without_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        socket.listen(0).unwrap();
        let waiting = std::os::unix::net::UnixStream::connect(&path).unwrap();
        assert!(is_served(&path).unwrap());
        drop(waiting);
    }

    #[test]
    fn the_file_of_another_socket_is_told_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        let first = UnixListener::bind(&path).unwrap();
        let file = SocketFile::at(&path).unwrap();
        assert_eq!(file.check(), Ok(()));
        std::fs::remove_file(&path).unwrap();
        assert!(file.check().unwrap_err().contains("api.sock` was removed: "));
        let _second = UnixListener::bind(&path).unwrap();
        assert!(file.check().unwrap_err().contains("is not the file of this server any more"));
        file.remove();
        assert!(path.exists(), "it is that of the second");
        SocketFile::at(&path).unwrap().remove();
        assert!(!path.exists());
        drop(first);
    }
}
