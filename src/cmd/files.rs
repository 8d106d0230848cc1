//! Files that a command makes for the user to edit.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use super::exit::{Failure, Stop};

/// Writes all files, by their paths in the directory, or none if one of them exists. `hint` is what to do then.
pub(crate) fn write_new(directory: &Path, files: &BTreeMap<String, String>, hint: &str) -> Result<(), Stop> {
    let exists = |path: &&String| directory.join(path).symlink_metadata().is_ok();
    if let Some(path) = files.keys().find(exists) {
        let what = format!("`{}` exists", directory.join(path).display());
        return Err(Failure::local(what).hint(hint).into());
    }
    for (path, text) in files {
        let path = directory.join(path);
        let written = create(&path, text);
        written.map_err(|error| Failure::local(format!("cannot write `{}`", path.display())).cause(error))?;
    }
    Ok(())
}

/// Writes a new file; one that exists is left alone, and is an error.
fn create(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}
