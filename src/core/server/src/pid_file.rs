//! The file that holds the number of the process.

use std::io;
use std::path::{Path, PathBuf};

/// A file with the number of this process and a line end. It is removed when this is dropped, unless somebody else wrote it anew.
#[derive(Debug)]
pub struct PidFile {
    path: Option<PathBuf>,
}

impl PidFile {
    /// Writes the file in one step. A file of a process that has ended is replaced.
    ///
    /// Errors: the file names a process that runs, or cannot be written.
    pub fn write(path: &Path) -> io::Result<Self> {
        refuse_running(path)?;
        let mut beside = path.to_path_buf().into_os_string();
        beside.push(format!(".{}", std::process::id()));
        let beside = PathBuf::from(beside);
        std::fs::write(&beside, format!("{}\n", std::process::id()))?;
        std::fs::rename(&beside, path).inspect_err(|_| {
            // It is of no use to anybody.
            let _ = std::fs::remove_file(&beside);
        })?;
        Ok(Self { path: Some(path.to_path_buf()) })
    }

    /// Looks whether [`write`](Self::write) would be refused; writes nothing.
    pub fn rehearse(path: &Path) -> io::Result<Self> {
        refuse_running(path)?;
        Ok(Self { path: None })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && read(path) == Some(std::process::id())
        {
            // A file that is gone already is what is wanted.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn read(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn refuse_running(path: &Path) -> io::Result<()> {
    match read(path) {
        Some(pid) if pid != std::process::id() && Path::new(&format!("/proc/{pid}")).exists() => {
            Err(io::Error::other(format!("process {pid}, which it names, is running")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_lasts_as_long_as_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mixer.pid");
        // No process has this number: it is above the largest one that Linux gives.
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
        assert_eq!(error.to_string(), "process 1, which it names, is running");
        assert!(PidFile::rehearse(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
        std::fs::remove_file(&path).unwrap();
        drop(PidFile::rehearse(&path).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_file_of_somebody_else_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mixer.pid");
        let file = PidFile::write(&path).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        drop(file);
        assert!(path.exists());
    }
}
