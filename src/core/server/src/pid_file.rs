//! The pid file.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use mixer_base::{output_file, regular_file};

/// Maximum size of a file with a pid, in bytes.
const MAX_FILE: u64 = 4 << 10;

/// The pid file of this process. Removed on drop, unless another process has replaced it.
#[derive(Debug)]
pub struct PidFile {
    path: Option<PathBuf>,
}

impl PidFile {
    /// Writes the file atomically. Replaces the file of a process that no longer runs.
    ///
    /// Errors: the file names a running process, is no regular file, or cannot be written.
    pub fn write(path: &Path) -> io::Result<Self> {
        refuse_running(path)?;
        let mut temporary = path.to_path_buf().into_os_string();
        temporary.push(format!(".{}", std::process::id()));
        let temporary = PathBuf::from(temporary);
        // What an earlier process with the same pid may have left.
        let _ = std::fs::remove_file(&temporary);
        let mut file = std::fs::File::create_new(&temporary)?;
        writeln!(file, "{}", std::process::id())?;
        std::fs::rename(&temporary, path).inspect_err(|_| {
            // Best effort.
            let _ = std::fs::remove_file(&temporary);
        })?;
        Ok(Self { path: Some(path.to_path_buf()) })
    }

    /// Checks whether [`write`](Self::write) would fail, and leaves nothing.
    pub fn rehearse(path: &Path) -> io::Result<Self> {
        refuse_running(path)?;
        output_file::check_replaceable(path)?;
        Ok(Self { path: None })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && read(path) == Some(std::process::id())
        {
            // The file may be removed already.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn read(path: &Path) -> Option<u32> {
    regular_file::read_text(path, MAX_FILE).ok()?.trim().parse().ok()
}

fn refuse_running(path: &Path) -> io::Result<()> {
    if let Err(error) = regular_file::open(path)
        && error.kind() == io::ErrorKind::InvalidInput
    {
        return Err(error);
    }
    match read(path) {
        Some(pid) if pid != std::process::id() && Path::new(&format!("/proc/{pid}")).exists() => {
            Err(io::Error::other(format!("it belongs to the running process {pid}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_removed_on_drop() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mixer.pid");
        // Above the largest pid of Linux.
        std::fs::write(&path, "99999999\n").unwrap();
        let file = PidFile::write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_running_process_keeps_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mixer.pid");
        std::fs::write(&path, "1\n").unwrap();
        let error = PidFile::write(&path).unwrap_err();
        assert_eq!(error.to_string(), "it belongs to the running process 1");
        assert!(PidFile::rehearse(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
        std::fs::remove_file(&path).unwrap();
        drop(PidFile::rehearse(&path).unwrap());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let nowhere = directory.path().join("nowhere/mixer.pid");
        let texts =
            [PidFile::write(&nowhere), PidFile::rehearse(&nowhere)].map(|r| r.unwrap_err().to_string());
        assert_eq!(texts[0], texts[1], "a trial fails as the start does");
    }

    #[test]
    fn a_fifo_or_a_device_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mixer.pid");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(PidFile::write(&path).unwrap_err().to_string(), "not a regular file but a FIFO");
        assert_eq!(
            PidFile::rehearse(Path::new("/dev/null")).unwrap_err().to_string(),
            "not a regular file but a device"
        );
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_replaced_file_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mixer.pid");
        let file = PidFile::write(&path).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        drop(file);
        assert!(path.exists());
    }
}
