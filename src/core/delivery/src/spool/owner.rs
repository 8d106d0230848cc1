//! The file that says whose a spool is: what one handler keeps is not sent to the backend of another.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use mixer_base::quote::quoted;
use mixer_base::regular_file;

const NAME: &str = "owner";
/// Most bytes of the file that are read. Names of resources are shorter.
const MOST: u64 = 2048;

/// Whose items a spool has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The name of its adapter.
    pub adapter: &'static str,
    /// The full name of the handler.
    pub handler: String,
}

impl Owner {
    /// The line of the file.
    fn line(&self) -> String {
        format!("{} {}", self.adapter, self.handler)
    }

    /// Whether a spool with this recorded owner is another's.
    pub(super) fn is_other(&self, recorded: Option<&Recorded>) -> bool {
        recorded.is_some_and(|recorded| recorded.0 != self.line())
    }

    /// Records it, all or nothing.
    pub(super) fn record(&self, directory: &Path) -> io::Result<()> {
        let (path, partial) = (directory.join(NAME), directory.join("owner.tmp"));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        let written = file.write_all(format!("{}\n", self.line()).as_bytes()).and_then(|()| file.sync_all());
        if let Err(error) = written.and_then(|()| std::fs::rename(&partial, &path)) {
            let _ = std::fs::remove_file(&partial);
            return Err(error);
        }
        File::open(directory)?.sync_all()
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of adapter {}", self.handler, self.adapter)
    }
}

/// What a directory says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recorded(String);

impl Recorded {
    /// The owner of a directory; `None`: it has none, as those of earlier versions.
    pub(super) fn read(directory: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(directory.join(NAME)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(MOST).read_to_end(&mut bytes)?;
        Ok(Self::of(&bytes))
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes).trim_ascii_end().to_owned();
        (!text.is_empty()).then_some(Self(text))
    }
}

/// The owner of a directory, which may be another's, as it is shown; `None` without a file that says so.
pub(super) fn shown(directory: &Path) -> Option<String> {
    let bytes = regular_file::read(&directory.join(NAME), MOST).ok()?;
    Recorded::of(&bytes).map(|recorded| recorded.to_string())
}

impl std::fmt::Display for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(text) = self;
        // Whoever can write to the directory can write anything there.
        match text.split_once(' ').filter(|_| !text.chars().any(char::is_control)) {
            Some((adapter, handler)) => write!(f, "{handler} of adapter {adapter}"),
            None => write!(f, "{}", quoted(text)),
        }
    }
}
