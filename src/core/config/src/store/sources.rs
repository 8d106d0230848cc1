//! Reading paths, URLs and standard input once, for tools.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mixer_base::regular_file;
use mixer_base::rotate::os_text;

use super::fs::file::{MAX_FILE, MAX_FILES_BYTES, ReadError, broken_file};
use super::fs::walk;
use super::url::fs_path;
use super::{StoreContents, StoreError, open, read_file};
use crate::{Diagnostic, FieldPath, Severity};

/// Why a source could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A path is unreadable.
    #[error("cannot read {path}: {}", os_text(.cause))]
    Unreadable {
        /// As given.
        path: String,
        /// The system error.
        cause: std::io::Error,
    },
    /// There is no store for a URL.
    #[error("{}", .0.plain())]
    Store(#[from] StoreError),
}

/// Reads `sources`: files (with any extension), directories, store URLs, and `-` for `stdin`.
///
/// All sources are one configuration: a resource that two of them define differently is an error, as in two files of a directory. A file or directory below a source that cannot be read is a problem of the
/// configuration. Errors: the first source that cannot be read.
pub fn read_sources(sources: &[String], stdin: &mut dyn std::io::Read) -> Result<StoreContents, SourceError> {
    let mut contents = StoreContents::default();
    for source in sources {
        if source == "-" {
            match read_stream(stdin) {
                Ok(bytes) => contents.add([&read_file(&Arc::from("-"), &bytes, None)]),
                Err(error) => refuse(Path::new("-"), "standard input", error, &mut contents)?,
            }
        } else if let Some(path) = source.strip_prefix("fs://") {
            // As a server reads the URL, unless there is a path of these very characters.
            let decoded = fs_path(path).filter(|_| !Path::new(path).exists());
            read_path(Path::new(decoded.as_deref().unwrap_or(path)), &mut contents)?;
        } else if source.contains("://") {
            let held = open(source)?.load();
            contents.merge(&held);
        } else {
            read_path(Path::new(source), &mut contents)?;
        }
    }
    Ok(contents)
}

/// The files that a server reads in a directory, in its order, and the paths below it whose files are unknown.
///
/// A link to a file is one of them; links to directories are not followed, except for `directory` itself.
pub fn configuration_files(directory: &Path) -> (Vec<PathBuf>, Vec<(PathBuf, std::io::Error)>) {
    let mut found = walk::Walk::default();
    walk::walk(directory, &mut found);
    let volumes = found.volumes.into_iter().map(|volume| (volume.link, volume.error));
    let unknown = found.errors.into_iter().chain(volumes).collect();
    (found.files.into_iter().map(|file| file.path).collect(), unknown)
}

fn read_path(path: &Path, contents: &mut StoreContents) -> Result<(), SourceError> {
    let shown = |path: &Path| path.display().to_string();
    let unreadable = |path: &Path, cause| SourceError::Unreadable { path: shown(path), cause };
    if !std::fs::metadata(path).map_err(|cause| unreadable(path, cause))?.is_dir() {
        // A path that the user names may be a pipe, as in `mixer validate <(helm template .)`.
        let read = std::fs::File::open(path).and_then(|mut file| read_stream(&mut file));
        return match read {
            Ok(bytes) => {
                contents.add([&read_file(&shown(path).into(), &bytes, None)]);
                Ok(())
            }
            Err(error) => refuse(path, &shown(path), error, contents),
        };
    }
    let mut found = walk::Walk { ignored: Some(walk::Ignored::default()), ..walk::Walk::default() };
    walk::walk(path, &mut found);
    contents.diagnostics.extend(found.ignored.as_ref().and_then(|ignored| unread_names(path, ignored)));
    let not_read = found.unread.iter().take(walk::MAX_LINKS).map(|file| walk::not_read(file));
    contents.diagnostics.extend(not_read);
    contents.diagnostics.extend(found.links.iter().map(|link| walk::not_followed(link)));
    for (lost, cause) in found.errors {
        // Without the directory that the user names there is nothing to read.
        if lost == path {
            return Err(unreadable(&lost, cause));
        }
        broken(&lost, &ReadError::System(cause), contents);
    }
    for volume in found.volumes {
        broken(&volume.link, &ReadError::System(volume.error), contents);
    }
    for (replaced, _) in found.directories.into_iter().filter(|(_, is_empty)| *is_empty) {
        broken(&replaced, &ReadError::directory(), contents);
    }
    let (mut read, mut size) = (Vec::with_capacity(found.files.len()), 0u64);
    for found in found.files {
        size =
            size.saturating_add(Some(found.stamp.length()).filter(|length| *length <= MAX_FILE).unwrap_or(0));
        let path = found.path.as_path();
        if size > MAX_FILES_BYTES {
            broken(path, &ReadError::TooMuch(MAX_FILES_BYTES), contents);
            continue;
        }
        match regular_file::read(path, MAX_FILE) {
            Ok(bytes) => read.push(read_file(&shown(path).into(), &bytes, None)),
            Err(error) => broken(path, &ReadError::System(error), contents),
        }
    }
    contents.add(&read);
    contents.bound_broken(path);
    Ok(())
}

/// What a user may take for configuration, and no server reads.
fn unread_names(root: &Path, ignored: &walk::Ignored) -> Option<Diagnostic> {
    let mut names: Vec<String> = ignored
        .named
        .iter()
        .map(|path| path.strip_prefix(root).unwrap_or(path).display().to_string())
        .collect();
    if ignored.count > names.len() {
        names.push(format!("{} more", ignored.count - names.len()));
    }
    let last = names.pop()?;
    let names = if names.is_empty() { last } else { format!("{} and {last}", names.join(", ")) };
    let message = format!("not read: {names}");
    let mut problem = Diagnostic::new(Severity::Info, walk::FILE_IGNORED, FieldPath::root(), message).with_hint(
        "configuration is read from files whose names end in `.yaml` or `.yml`; links to directories are not followed",
    );
    problem.file = Some(root.display().to_string().into());
    Some(problem)
}

/// The bytes of a stream of the size that a file may have.
fn read_stream(stream: &mut dyn std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_FILE {
        true => Err(regular_file::too_large(MAX_FILE)),
        false => Ok(bytes),
    }
}

/// A file that is too large or no regular file is a problem of the configuration; otherwise the error of the source.
fn refuse(
    path: &Path,
    shown: &str,
    cause: std::io::Error,
    contents: &mut StoreContents,
) -> Result<(), SourceError> {
    match cause.kind() {
        std::io::ErrorKind::FileTooLarge | std::io::ErrorKind::InvalidInput => {
            broken(path, &ReadError::System(cause), contents);
            Ok(())
        }
        _ => Err(SourceError::Unreadable { path: shown.to_owned(), cause }),
    }
}

fn broken(path: &Path, error: &ReadError, contents: &mut StoreContents) {
    let problem = error.problem(path, false);
    contents.files += 1;
    contents.broken.push(broken_file(path, problem.clone(), false));
    contents.diagnostics.push(problem);
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "kind: rule\nmetadata: {name: r, namespace: x}\n";

    #[test]
    fn a_file_that_cannot_be_read_is_a_problem_of_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::os::unix::fs::symlink("nowhere", path("a.yaml")).unwrap();
        std::fs::write(path("b.yaml"), RULE).unwrap();
        std::fs::create_dir(path("c.yaml")).unwrap();
        std::os::unix::fs::symlink(".", path("d.yaml")).unwrap();
        let source = directory.path().display().to_string();
        let contents = read_sources(&[source], &mut std::io::empty()).unwrap();
        assert_eq!(contents.resources.len(), 1, "the other files are read");
        let found: Vec<_> = contents.diagnostics.iter().map(|d| (d.code, d.file.clone().unwrap())).collect();
        let file = |name: &str| Arc::<str>::from(path(name).display().to_string());
        assert_eq!(
            found,
            [
                ("store-unreadable", file("a.yaml")),
                ("file-special", file("c.yaml")),
                ("file-special", file("d.yaml"))
            ]
        );
        assert_eq!(contents.broken.len(), 3);
        let missing = path("missing").display().to_string();
        let error = read_sources(std::slice::from_ref(&missing), &mut std::io::empty());
        let told = format!("cannot read {missing}: no such file or directory");
        assert_eq!(error.err().map(|error| error.to_string()), Some(told), "the user names it");
    }

    #[test]
    fn urls_of_directories_are_those_of_servers() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().display();
        std::fs::create_dir(directory.path().join("a b")).unwrap();
        std::fs::write(directory.path().join("a b/r.yaml"), RULE).unwrap();
        for url in
            [format!("fs://{root}/a%20b"), format!("fs://{root}/a b"), format!("fs://{root}/a%20b?x#y")]
        {
            let contents = read_sources(std::slice::from_ref(&url), &mut std::io::empty()).unwrap();
            assert_eq!(contents.resources.len(), 1, "{url}");
        }
    }

    #[test]
    fn what_looks_like_configuration_and_is_not_read_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let told = || {
            let source = directory.path().display().to_string();
            let contents = read_sources(&[source], &mut std::io::empty()).unwrap();
            assert_eq!(contents.resources.len(), 1);
            contents
                .diagnostics
                .into_iter()
                .map(|d| (d.code, d.severity, d.message.clone()))
                .collect::<Vec<_>>()
        };
        std::fs::create_dir(path("below")).unwrap();
        std::fs::write(path("below/a.yaml"), RULE).unwrap();
        for name in ["README.md", ".b.json", "a.yaml~", ".#a.yaml", "._a.yaml"] {
            std::fs::write(path(name), RULE).unwrap();
        }
        assert_eq!(told(), []);
        std::fs::write(path("B.YAML"), RULE).unwrap();
        let warning = |name: &str| {
            let text = format!("not read: {}, which has a resource", path(name).display());
            ("file-ignored", Severity::Warning, text)
        };
        assert_eq!(told(), [warning("B.YAML")]);
        let json = r#"{"kind": "rule", "metadata": {"name": "r", "namespace": "x"}}"#;
        for (name, text) in
            [("deny", RULE), ("deny.json", json), ("LICENSE", "kind of free"), ("d.yaml.bak", RULE)]
        {
            std::fs::write(path(name), text).unwrap();
        }
        assert_eq!(told(), [warning("B.YAML"), warning("deny"), warning("deny.json")]);
        for name in ["B.YAML", "deny", "deny.json"] {
            std::fs::remove_file(path(name)).unwrap();
        }
        let info = |text: &str| [("file-ignored", Severity::Info, text.to_owned())];
        std::fs::write(path("B.YAML"), "").unwrap();
        assert_eq!(told(), info("not read: B.YAML"));
        std::fs::write(path("below/c.json"), "{}").unwrap();
        std::os::unix::fs::symlink("below", path("link")).unwrap();
        assert_eq!(told(), info("not read: B.YAML, below/c.json and link"));
        (0..4).for_each(|n| std::fs::write(path(&format!("z{n}.yml.txt")), "").unwrap());
        assert_eq!(told(), info("not read: B.YAML, below/c.json, link, z0.yml.txt, z1.yml.txt and 2 more"));
    }

    #[test]
    fn sources_are_one_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let source = |name: &str, text: String| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let one = source("a.yaml", RULE.to_owned());
        let found = |sources: &[String]| {
            let contents = read_sources(sources, &mut RULE.as_bytes()).unwrap();
            let found = contents.diagnostics.iter().map(|d| (d.code, d.severity));
            (contents.resources.len(), found.collect::<Vec<_>>())
        };
        let error = vec![("resource-duplicate", Severity::Error)];
        let other = source("b.yaml", format!("{RULE}spec: {{}}"));
        assert_eq!(found(&[one.clone(), other.clone()]), (1, error.clone()));
        assert_eq!(found(&["-".to_owned(), other]), (1, error.clone()));
        // The same again is harmless.
        assert_eq!(found(&[one.clone(), one, "-".to_owned()]), (1, Vec::new()));
        // A store is a source like others.
        let sample = crate::store::open(crate::store::EMBEDDED_SAMPLE).unwrap().load();
        let first = sample.resources.iter().next().unwrap();
        let changed = source("c.yaml", format!("{}\n# changed\n", first.origin.text));
        let (count, found) = found(&[crate::store::EMBEDDED_SAMPLE.to_owned(), changed]);
        assert_eq!((count, found), (sample.resources.len(), error));
    }
}
