//! Files named in settings, without blocking on what is not a file.
//!
//! Opening a FIFO waits for a process at its other end, and reading a device may never end. [`open`] refuses both, [`read`] also
//! bounds the size. [`append`] never waits.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file, or a link to one, for reading. Never waits for another process.
///
/// Errors: those of the system; [`io::ErrorKind::InvalidInput`] for anything but a regular file;
/// [`io::ErrorKind::WouldBlock`] while another process holds a lease on the file.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::NXIO.raw_os_error() => not_regular("a socket"),
        _ => error,
    })?;
    let metadata = file.metadata()?;
    match special(&metadata) {
        None => Ok((file, metadata)),
        Some(kind) => Err(not_regular(kind)),
    }
}

/// Opens a file for appending; a new one gets `mode`. Never waits for another process; writing to a FIFO waits as usual.
///
/// Errors: those of the system; [`io::ErrorKind::NotConnected`] for a FIFO that no process has open for reading.
pub fn append(path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(mode).custom_flags(flags.bits().cast_signed());
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::NXIO.raw_os_error() && is_fifo(path) => {
            io::Error::new(io::ErrorKind::NotConnected, "no process reads the FIFO")
        }
        _ => error,
    })?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Whether [`append`] could open a file. One that does not exist is not created: another file is, beside it, for a moment.
///
/// Errors: those of `append`.
pub fn try_append(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path).is_ok() {
        return append(path, 0o600).map(drop);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let probe = path.with_file_name(format!(".{name}.{}", std::process::id()));
    OpenOptions::new().write(true).create_new(true).open(&probe)?;
    std::fs::remove_file(&probe)
}

fn is_fifo(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Whether lines can be appended to what is at `path`, and the file be renamed once it is large: nothing, a regular file, or a device,
/// which is never renamed.
///
/// Errors: [`io::ErrorKind::InvalidInput`] for anything else.
pub fn check_rotatable(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path).ok().and_then(|metadata| special(&metadata)) {
        None | Some(DEVICE) => Ok(()),
        Some(kind) => Err(not_regular(kind)),
    }
}

/// Whether the directory exists in which a file is to be created: a misspelt path should not become a new directory.
///
/// Errors: [`io::ErrorKind::NotFound`] with the directory and the cure. Nothing else is checked.
pub fn check_directory(path: &Path) -> io::Result<()> {
    let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) else {
        return Ok(());
    };
    match std::fs::metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = format!(
                "the directory `{}` does not exist; correct the path, or create the directory, writable by the server",
                directory.display()
            );
            Err(io::Error::new(io::ErrorKind::NotFound, text))
        }
        _ => Ok(()),
    }
}

/// The bytes of a regular file of at most `max` bytes.
///
/// Errors: those of [`open`]; [`io::ErrorKind::FileTooLarge`].
pub fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = open(path)?;
    read_open(&file, &metadata, max)
}

/// Bytes that are read at once: the system may run nothing else on a core while it copies them.
const PIECE: u64 = 128 << 10;

/// The bytes of an open file of at most `max` bytes, also if it grows meanwhile.
///
/// Errors: those of the system; [`io::ErrorKind::FileTooLarge`].
pub fn read_open(file: &File, metadata: &Metadata, max: u64) -> io::Result<Vec<u8>> {
    if metadata.len() > max {
        return Err(too_large(max));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    while bytes.len() as u64 <= max {
        let left = max.saturating_add(1).saturating_sub(bytes.len() as u64);
        if file.take(left.min(PIECE)).read_to_end(&mut bytes)? == 0 {
            break;
        }
    }
    if bytes.len() as u64 > max { Err(too_large(max)) } else { Ok(bytes) }
}

/// The text of a regular file of at most `max` bytes.
///
/// Errors: those of [`read`]; [`io::ErrorKind::InvalidData`] for bytes that are not UTF-8.
pub fn read_text(path: &Path, max: u64) -> io::Result<String> {
    String::from_utf8(read(path, max)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

/// The error for a file of more than `max` bytes.
pub fn too_large(max: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("file is larger than {}", size(max)))
}

fn not_regular(kind: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("not a regular file but {kind}"))
}

const DEVICE: &str = "a device";

/// What a file is, if it is not regular: `a FIFO`, `a directory`, ….
fn special(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a directory"),
        () if kind.is_fifo() => Some("a FIFO"),
        () if kind.is_socket() => Some("a socket"),
        () => Some(DEVICE),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(read(&path("file"), 4).unwrap(), b"text");
        assert_eq!(read_text(&path("link"), 1024).unwrap(), "text");
        for (name, expected) in [
            (path("fifo"), "not a regular file but a FIFO"),
            (directory.path().to_owned(), "not a regular file but a directory"),
            ("/dev/zero".into(), "not a regular file but a device"),
        ] {
            assert_eq!(read(&name, 1024).unwrap_err().to_string(), expected);
        }
        std::fs::write(path("bytes"), b"\xff").unwrap();
        assert_eq!(read_text(&path("bytes"), 8).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn appending_to_a_fifo_waits_for_no_reader() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = append(&path, 0o600).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::NotConnected, "no process reads the FIFO")
        );
        assert_eq!(check_rotatable(&path).unwrap_err().to_string(), "not a regular file but a FIFO");
        // Not blocking on its opening is not blocking on a full FIFO: the flag is cleared.
        let reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let writer = append(&path, 0o600).unwrap();
        assert!(!rustix::fs::fcntl_getfl(&writer).unwrap().contains(OFlags::NONBLOCK));
        drop(reader);
        for rotatable in [directory.path().join("none"), "/dev/full".into()] {
            assert!(check_rotatable(&rotatable).is_ok(), "{}", rotatable.display());
        }
        assert!(check_rotatable(directory.path()).is_err());
    }

    #[test]
    fn large_files_are_refused_unread() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read(&path, 1 << 20).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::FileTooLarge, "file is larger than 1 MiB")
        );
        // Files of /proc have no size: the bound counts what is read.
        assert_eq!(read(Path::new("/proc/self/status"), 10).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
