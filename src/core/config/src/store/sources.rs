//! Reading paths, URLs and standard input once, for tools.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fs::walk;
use super::{StoreContents, StoreError, open, read_file};

/// Why a source could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A path is unreadable.
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        /// As given.
        path: String,
        /// The system error.
        cause: std::io::Error,
    },
    /// There is no store for a URL.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads `sources`: files (with any extension), directories, store URLs, and `-` for `stdin`.
///
/// Later sources override earlier ones, as later files do. Errors: the first source that cannot be read.
pub fn read_sources(sources: &[String], stdin: &mut dyn std::io::Read) -> Result<StoreContents, SourceError> {
    let mut contents = StoreContents::default();
    for source in sources {
        if source == "-" {
            let mut bytes = Vec::new();
            let read = stdin.read_to_end(&mut bytes);
            read.map_err(|cause| SourceError::Unreadable { path: "standard input".to_owned(), cause })?;
            contents.add([&read_file(&Arc::from("-"), &bytes, None)]);
        } else if let Some(path) = source.strip_prefix("fs://") {
            read_path(Path::new(path), &mut contents)?;
        } else if source.contains("://") {
            let held = open(source)?.contents();
            contents.files += held.files;
            contents.documents += held.documents;
            contents.diagnostics.extend(held.diagnostics.iter().cloned());
            for resource in &held.resources {
                contents.resources.put(resource.clone());
            }
        } else {
            read_path(Path::new(source), &mut contents)?;
        }
    }
    Ok(contents)
}

fn read_path(path: &Path, contents: &mut StoreContents) -> Result<(), SourceError> {
    let unreadable = |path: &Path, cause| SourceError::Unreadable { path: path.display().to_string(), cause };
    let kind = std::fs::metadata(path).map_err(|cause| unreadable(path, cause))?;
    let files: Vec<PathBuf> = if kind.is_dir() {
        let mut found = walk::Walk::default();
        walk::walk(path, &mut found);
        if let Some((path, cause)) = found.errors.into_iter().next() {
            return Err(unreadable(&path, cause));
        }
        found.files.into_iter().map(|f| f.path).collect()
    } else {
        vec![path.to_owned()]
    };
    let mut read = Vec::with_capacity(files.len());
    for file in files {
        let bytes = std::fs::read(&file).map_err(|cause| unreadable(&file, cause))?;
        read.push(read_file(&file.display().to_string().into(), &bytes, None));
    }
    contents.add(&read);
    Ok(())
}
