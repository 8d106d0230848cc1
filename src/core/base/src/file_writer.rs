//! Whether a file is open for writing.
//!
//! Linux grants a read lease on a file only while no process has it open for writing. The lease is held while the file is read:
//! what was read is a version that its writer had closed. A process that opens the file for writing meanwhile waits, for as
//! long as reading takes.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// The answer of the system.
pub enum Writer<'f> {
    /// No process has the file open for writing, and none will while this is held.
    None(Lease<'f>),
    /// A process has the file open for writing.
    Open,
    /// The system does not tell: the file is on a network file system or FUSE, or another user's, or this is not Linux.
    Unknown,
}

/// Asks whether `file`, opened for reading, is open for writing.
pub fn writer_of(file: &File) -> Writer<'_> {
    // Network file systems refuse a lease with the same error when the server does not delegate the file.
    if !is_local(file) {
        return Writer::Unknown;
    }
    match lease(file, LeaseKind::Read) {
        Ok(()) => Writer::None(Lease { file }),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Writer::Open,
        Err(_) => Writer::Unknown,
    }
}

/// Whether `file` is on a local file system: no other machine changes it.
fn is_local(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|system| is_local_type(system.f_type as u32))
}

/// Whether `path` is on a local file system: the system sees every change of a file there, and tells of it.
pub fn is_local_path(path: &Path) -> bool {
    // The type of `f_type` differs by architecture; the number has 32 bits.
    rustix::fs::statfs(path).is_ok_and(|system| is_local_type(system.f_type as u32))
}

fn is_local_type(magic: u32) -> bool {
    /// Magic numbers of network file systems and FUSE: NFS, SMB, CIFS, SMB2, 9P, FUSE, Ceph, AFS, Lustre, GFS2 and OCFS2.
    const REMOTE: [u32; 11] = [
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x0102_1997,
        0x6573_5546,
        0x00c3_6400,
        0x5346_414f,
        0x0bd0_0bd0,
        0x0116_1970,
        0x7461_636f,
    ];
    !REMOTE.contains(&magic)
}

/// A read lease on a file.
pub struct Lease<'f> {
    file: &'f File,
}

impl Lease<'_> {
    /// Whether a process waits to open the file for writing, or to cut it off.
    pub fn is_awaited(&self) -> bool {
        lease_of(self.file).is_ok_and(|kind| kind != libc::F_RDLCK)
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // Closing the file ends the lease at the latest.
        let _ = lease(self.file, LeaseKind::Unlock);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LeaseKind {
    Read,
    Unlock,
}

#[cfg(target_os = "linux")]
fn lease(file: &File, kind: LeaseKind) -> std::io::Result<()> {
    /// Of `fcntl.h`; missing in `libc`.
    const F_SETSIG: libc::c_int = 10;
    if kind == LeaseKind::Read {
        // A writer that waits makes the system signal the holder: by SIGIO, which ends a process without a handler. SIGURG is ignored.
        fcntl(file, F_SETSIG, libc::SIGURG)?;
    }
    let requested = match kind {
        LeaseKind::Read => libc::F_RDLCK,
        LeaseKind::Unlock => libc::F_UNLCK,
    };
    fcntl(file, libc::F_SETLEASE, requested).map(drop)
}

/// The lease on a file; what it is to become, once somebody waits.
#[cfg(target_os = "linux")]
fn lease_of(file: &File) -> std::io::Result<libc::c_int> {
    fcntl(file, libc::F_GETLEASE, 0)
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "rustix has no leases")]
fn fcntl(file: &File, command: libc::c_int, argument: libc::c_int) -> std::io::Result<libc::c_int> {
    // SAFETY: the descriptor is open as long as `file`, and the commands take an integer, or ignore it.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if result == -1 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(not(target_os = "linux"))]
fn lease_of(_: &File) -> std::io::Result<libc::c_int> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn lease(_: &File, _: LeaseKind) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn state(path: &std::path::Path) -> &'static str {
        match writer_of(&File::open(path).unwrap()) {
            Writer::None(_) => "none",
            Writer::Open => "open",
            Writer::Unknown => "unknown",
        }
    }

    #[test]
    fn a_writer_is_seen_until_it_closes_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "x").unwrap();
        assert_eq!(state(&path), "none");
        let reader = File::open(&path).unwrap();
        assert_eq!(state(&path), "none", "another reader");
        let writer = OpenOptions::new().append(true).open(&path).unwrap();
        assert_eq!(state(&path), "open");
        let second = writer.try_clone().unwrap();
        drop(writer);
        assert_eq!(state(&path), "open", "a descriptor is left");
        drop(second);
        assert_eq!(state(&path), "none");
        drop(reader);
    }

    #[test]
    fn a_writer_that_waits_for_the_reader_ends_neither() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "x").unwrap();
        let file = File::open(&path).unwrap();
        let Writer::None(held) = writer_of(&file) else { panic!("nobody has it open") };
        assert!(!held.is_awaited());
        let nonblocking = {
            use std::os::unix::fs::OpenOptionsExt as _;
            OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&path)
        };
        assert_eq!(nonblocking.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        assert!(held.is_awaited());
        let writing = std::thread::spawn({
            let path = path.clone();
            move || std::fs::write(path, "y").unwrap()
        });
        drop(held);
        writing.join().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"y");
    }
}
