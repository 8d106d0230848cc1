//! The last good configuration on a disk, so that a restart with a broken configuration serves it.
//!
//! One file: a line with magic and version, a line with checksum and length, and the resources as JSON. It is replaced atomically,
//! has mode 0600 because parameters may be secret, and is used only if it is intact, of this version, and of the same store.
//!
//! A configuration is written before it serves, so that no restart, whenever a process ended, serves an older one than that which served
//! last. One that cannot be written takes away the older one.

mod leftovers;
mod of_user;
mod writer;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::absences::has_effect;
use super::differences::Resources;
use super::kept::SinceByKey;
use crate::snapshot::{SnapshotBuilder, SnapshotOptions};
use mixer_attribute::Timestamp;
use mixer_base::regular_file;
use mixer_base::shared_map::SharedMap;
use mixer_config::store::{Reading, read_document_as};
use mixer_config::{Origin, RawResource};
use mixer_expr::Language;
pub use of_user::{CacheOfUser, ProcessUser};
pub use writer::ConfigCache;

/// The name of the file in its directory.
const FILE: &str = "last-good.cache";
/// The user who may change every file anyway.
const ROOT: u32 = 0;
/// The diagnostic of a cache that is not used.
pub(super) const PROBLEM: &str = "config-cache";
/// The first word of the file.
const MAGIC: &str = "mixer-config-cache";
/// What replaces the beginning of the first word in a cache that is no longer to be used and cannot be removed.
const SUPERSEDED: &str = "superseded";
/// What a cache is of, beside its default namespace.
const STORE: &str = "store";
/// The beginning of the URL of a directory.
const DIRECTORY: &str = "fs://";
/// The version of the format.
const VERSION: u32 = 2;
/// Largest file in bytes; a larger configuration is not cached.
pub const MAX_CACHE_BYTES: u64 = 256 << 20;

/// Where a configuration is cached.
pub trait CacheMedium: Send + Sync + 'static {
    /// What was written last; `None` if nothing was. Errors: it cannot be read, or must not be trusted.
    fn read(&self) -> io::Result<Option<Vec<u8>>>;
    /// Replaces it; after a crash, either the old or the new bytes are there.
    fn write(&self, bytes: &[u8]) -> io::Result<()>;
    /// Makes what is there unusable, because something newer cannot be written: removes it, or at least marks it.
    fn discard(&self) -> io::Result<()>;
    /// Whether what is there can be replaced or made unusable now. Errors: it cannot, so that it may be older than what served last.
    fn check_replaceable(&self) -> io::Result<()> {
        Ok(())
    }
    /// Its name for users.
    fn name(&self) -> String;
}

/// A directory with the file.
#[derive(Debug, Clone)]
pub struct CacheDirectory(pub PathBuf);

impl CacheMedium for CacheDirectory {
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        self.read_as(effective_user()?)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let user = effective_user()?;
        self.check(user)?;
        leftovers::remove(&self.0, user);
        let temporary = self.0.join(leftovers::temporary(std::process::id()));
        // Left behind by a process with the same id.
        let _ = fs::remove_file(&temporary);
        let written = self.replace(&temporary, bytes);
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn discard(&self) -> io::Result<()> {
        let path = self.0.join(FILE);
        match fs::remove_file(&path) {
            Ok(()) => File::open(&self.0)?.sync_all(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // The directory may be read-only, and the file not.
            Err(error) => self.mark().map_err(|_| error),
        }
    }

    /// As [`discard`](CacheMedium::discard) marks it: what can be opened for that is unusable once something newer cannot be written.
    fn check_replaceable(&self) -> io::Result<()> {
        self.open_to_mark().map(drop)
    }

    fn name(&self) -> String {
        self.0.join(FILE).display().to_string()
    }
}

impl CacheDirectory {
    /// What a process of `user` would read, as far as this one may.
    fn read_as(&self, user: u32) -> io::Result<Option<Vec<u8>>> {
        let is_absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match self.check(user) {
            Err(error) if is_absent(&error) => return Ok(None),
            checked => checked?,
        }
        let path = self.0.join(FILE);
        let found = match fs::symlink_metadata(&path) {
            Err(error) if is_absent(&error) => return Ok(None),
            found => found?,
        };
        if !found.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let (file, metadata) = regular_file::open(&path)?;
        // Otherwise a link may have taken its place.
        if (found.dev(), found.ino()) != (metadata.dev(), metadata.ino()) {
            return Err(io::Error::other("it was replaced while it was opened"));
        }
        trust(&metadata, user, "it")?;
        // The file may grow meanwhile; its checksum fails then.
        regular_file::read_open(&file, &metadata, MAX_CACHE_BYTES).map(Some)
    }

    /// Marks the file as superseded, in the blocks that it has: a full disk has no others.
    fn mark(&self) -> io::Result<()> {
        let mut file = self.open_to_mark()?;
        file.write_all(SUPERSEDED.as_bytes())?;
        file.sync_all()
    }

    /// The file, for writing. Errors: it is another user's, or its file system is read-only.
    fn open_to_mark(&self) -> io::Result<File> {
        let path = self.0.join(FILE);
        let found = fs::symlink_metadata(&path)?;
        if !found.is_file() || found.uid() != effective_user()? {
            return Err(io::Error::other("it is no file of this user"));
        }
        let file = OpenOptions::new().write(true).open(&path)?;
        let opened = file.metadata()?;
        if (found.dev(), found.ino()) != (opened.dev(), opened.ino()) {
            return Err(io::Error::other("it was replaced while it was opened"));
        }
        Ok(file)
    }

    /// Errors: others may replace the file, or the system refuses.
    fn check(&self, user: u32) -> io::Result<()> {
        trust(&fs::metadata(&self.0)?, user, "its directory")
    }

    fn replace(&self, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
        leftovers::claim(&file);
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(temporary, self.0.join(FILE))?;
        File::open(&self.0)?.sync_all()
    }
}

/// Errors: somebody other than `user` and root may write `what`. A sticky directory is no exception, because others may create files.
fn trust(metadata: &fs::Metadata, user: u32, what: &str) -> io::Result<()> {
    if ![user, ROOT].contains(&metadata.uid()) {
        let why = format!("{what} belongs to another user");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!("others than its owner may write {what}")));
    }
    Ok(())
}

/// The id of the user that this process acts as: the owner of what it creates.
pub fn effective_user() -> io::Result<u32> {
    let (created, _) = io::pipe()?;
    Ok(File::from(OwnedFd::from(created)).metadata()?.uid())
}

/// The configuration that a cache belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheIdentity {
    /// The URL of the store.
    pub store: String,
    /// The namespace of mesh-wide rules.
    pub default_namespace: String,
    /// The language of all expressions, if the environment sets it.
    pub language: Option<Language>,
    /// Whether the legacy kinds named like adapters are known.
    pub adapter_kinds: bool,
    /// Whether the legacy kinds named like templates are known.
    pub template_kinds: bool,
    /// How documents are read.
    pub reading: Reading,
}

impl CacheIdentity {
    /// That of a server whose configuration is at the URL `store`, and is built with these settings: what decides what the resources
    /// mean. A directory is the same with and without slashes at its end, and a relative one is that below the working directory.
    pub fn new(store: &str, options: &SnapshotOptions) -> Self {
        Self {
            store: store.strip_prefix(DIRECTORY).map_or_else(|| store.to_owned(), url_of_directory),
            default_namespace: options.default_namespace.to_string(),
            language: options.language,
            adapter_kinds: options.adapter_kinds,
            template_kinds: options.template_kinds,
            reading: Reading::default(),
        }
    }

    /// That of a configuration plane which distributes the files at `path`, and reads them in this way.
    pub fn of_files(path: &str, reading: Reading) -> Self {
        Self {
            store: url_of_directory(path),
            default_namespace: String::new(),
            language: None,
            adapter_kinds: true,
            template_kinds: true,
            reading,
        }
    }
}

/// The URL of a directory. A relative path is one below the working directory: elsewhere it leads to another one.
fn url_of_directory(path: &str) -> String {
    let without = path.trim_end_matches('/');
    let path = if without.is_empty() { path } else { without };
    let here = if is_relative(path) { std::env::current_dir().ok() } else { None };
    let Some(here) = here else { return format!("{DIRECTORY}{path}") };
    // Two directories never have one text.
    let here = here.to_str().map_or_else(|| format!("{here:?}"), str::to_owned);
    format!("{DIRECTORY}/{}", names(&format!("{here}/{path}")))
}

fn is_relative(path: &str) -> bool {
    !path.is_empty() && !path.starts_with('/')
}

/// A path without what does not change where it leads.
fn names(path: &str) -> String {
    path.split('/').filter(|name| !["", "."].contains(name)).collect::<Vec<_>>().join("/")
}

/// Whether a cache of the relative path `written`, from before it was written as an absolute one, may be of the store `now`.
fn may_be(written: &str, now: &str) -> bool {
    let written = written.strip_prefix(DIRECTORY).filter(|path| is_relative(path));
    written
        .zip(now.strip_prefix(DIRECTORY))
        .is_some_and(|(written, now)| Path::new(now).ends_with(names(written)))
}

/// The configuration of a cache.
#[derive(Debug, Clone)]
pub struct CachedConfiguration {
    pub(super) resources: Resources,
    /// Since when resources served in their previous version.
    pub(super) since: SinceByKey,
    /// When it was written.
    pub written: Timestamp,
    /// The version of its format.
    pub version: u32,
}

impl CachedConfiguration {
    /// The files of its resources.
    pub fn files(&self) -> Vec<&Path> {
        let files: BTreeSet<&str> = self.resources.iter().map(|resource| &*resource.origin.file).collect();
        files.into_iter().map(Path::new).collect()
    }

    /// Its resources.
    pub fn resources(&self) -> &SharedMap<Arc<RawResource>> {
        &self.resources
    }

    /// The number of its resources.
    pub fn resource_count(&self) -> usize {
        self.resources.len()
    }

    /// Errors: it has no resource that does anything, and a start does not accept that: what served in an earlier process, of which that
    /// was meant, is no reason to allow every call now.
    pub fn check(&self, accepts_empty: bool, builder: &SnapshotBuilder) -> Result<(), CacheError> {
        match accepts_empty || self.resources.iter().any(|resource| has_effect(&resource.key, builder)) {
            true => Ok(()),
            false => Err(CacheError::Empty),
        }
    }
}

/// Why a cache is ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// It is the last good configuration of another store or default namespace, which is never replaced: a flag of this server may be the
    /// mistake.
    #[error("it is of the {what} {written}, and this server has {now}; it is not replaced")]
    OfAnother {
        /// What differs: `store` or `default namespace`.
        what: &'static str,
        /// The value with which it was written.
        written: String,
        /// The value of this server.
        now: String,
    },
    /// It is of a server of which nothing was asked, and is replaced by the next configuration that serves.
    #[error("it has no resource, which is a configuration only with --allow-empty-config")]
    Empty,
    /// It belongs to another user than this process, or this one may not read it.
    #[error("{0}")]
    OfAnotherUser(String),
    /// It cannot be used, and is replaced by the next configuration that serves.
    #[error("{0}")]
    Unusable(String),
}

impl CacheError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::OfAnother { what: STORE, .. } => {
                "correct --config-store-url, or --config-path of galley, or the working directory, if the path is relative; or, if this server has another store now, choose another \
                 --config-cache, or delete the file, and start it again"
            }
            Self::OfAnother { .. } => {
                "correct --config-default-namespace; or, if this server has another one now, choose another --config-cache, or delete the \
                 file, and start it again"
            }
            Self::Empty => {
                "if every call is to be allowed, give --allow-empty-config; else mend the store: the next configuration that serves replaces it"
            }
            Self::OfAnotherUser(_) => {
                "run this as the user that the cache belongs to (`sudo -u USER …`), or give directory and file to that of the server"
            }
            Self::Unusable(_) => {
                "delete it, or mend owner and permissions: nobody else may write it or its directory"
            }
        }
    }
}

impl From<String> for CacheError {
    fn from(why: String) -> Self {
        Self::Unusable(why)
    }
}

/// [`read_cache`], of one that is the configuration that served last beyond doubt. Errors: why it is ignored; it cannot be replaced now,
/// and so may not have been when a newer one served.
pub(super) fn read_last(
    medium: &dyn CacheMedium,
    identity: &CacheIdentity,
) -> Result<Option<CachedConfiguration>, CacheError> {
    let found = read_cache(medium, identity)?;
    match found.as_ref().map_or(Ok(()), |_| medium.check_replaceable()) {
        Ok(()) => Ok(found),
        Err(error) => {
            let why =
                format!("it cannot be written ({error}), and may be older than what was published last");
            Err(why.into())
        }
    }
}

/// Reads a cache as a start does; `None` if there is none yet. Errors: why it is ignored.
pub fn read_cache(
    medium: &dyn CacheMedium,
    identity: &CacheIdentity,
) -> Result<Option<CachedConfiguration>, CacheError> {
    match medium.read() {
        Ok(Some(bytes)) => decode(&bytes, identity).map(Some),
        Ok(None) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(CacheError::OfAnotherUser(error.to_string()))
        }
        Err(error) => Err(error.to_string().into()),
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    store: String,
    default_namespace: String,
    /// The value of `ISTIO_LANG`, if it is set.
    language: Option<String>,
    adapter_kinds: bool,
    template_kinds: bool,
    /// Seconds since 1970.
    written: i64,
    resources: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    /// `name.kind.namespace`.
    key: String,
    file: String,
    line: u32,
    text: String,
    /// Seconds and nanoseconds since 1970 from which on this served instead of what the store had, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<(i64, u32)>,
}

/// What a cache keeps.
#[derive(Default, Clone)]
pub struct Served {
    pub(super) resources: Resources,
    /// Since when resources serve in their previous version.
    pub(super) since: SinceByKey,
}

impl Served {
    /// Resources that serve as the store has them.
    pub fn of(resources: SharedMap<Arc<RawResource>>) -> Self {
        Self { resources, since: SinceByKey::new() }
    }

    /// Whether a restart with the one serves what it would with the other.
    fn serves_as(&self, other: &Self) -> bool {
        self.resources.len() == other.resources.len()
            && self.resources.changes(&other.resources, |a, b| a.revision == b.revision).is_empty()
    }
}

/// The bytes of a cache.
pub(super) fn encode(served: &Served, identity: &CacheIdentity, written: Timestamp) -> io::Result<Vec<u8>> {
    let entry = |resource: &Arc<RawResource>| Entry {
        key: resource.key.to_string(),
        file: resource.origin.file.to_string(),
        line: resource.origin.first_line,
        text: resource.origin.text.to_string(),
        since: served.since.get(&resource.key).map(|since| (since.seconds, since.nanos)),
    };
    let CacheIdentity { store, default_namespace, language, adapter_kinds, template_kinds, .. } =
        identity.clone();
    let document = Document {
        store,
        default_namespace,
        language: language.map(|language| language.name().to_owned()),
        adapter_kinds,
        template_kinds,
        written: written.seconds,
        resources: served.resources.iter().map(entry).collect(),
    };
    let body = serde_json::to_vec(&document)?;
    let mut bytes = format!("{MAGIC} {VERSION}\n{:016x} {}\n", checksum(&body), body.len()).into_bytes();
    bytes.extend(body);
    if bytes.len() as u64 > MAX_CACHE_BYTES {
        return Err(io::Error::other(format!(
            "the configuration is larger than {} MiB",
            MAX_CACHE_BYTES >> 20
        )));
    }
    Ok(bytes)
}

/// The configuration of a cache. Errors: why it is not used.
pub(super) fn decode(bytes: &[u8], identity: &CacheIdentity) -> Result<CachedConfiguration, CacheError> {
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let mut line = || lines.next().and_then(|line| std::str::from_utf8(line).ok());
    let version = line().and_then(|line| line.strip_prefix(MAGIC)?.strip_prefix(' ')?.parse::<u32>().ok());
    match version {
        Some(VERSION) => {}
        Some(other) => {
            let why = format!("it has version {other} of the format, and this program reads {VERSION}");
            return Err(why.into());
        }
        None if bytes.starts_with(SUPERSEDED.as_bytes()) => {
            let why = "a newer configuration served that could not be written";
            return Err(why.to_owned().into());
        }
        None => return Err("it is no configuration cache".to_owned().into()),
    }
    let sums = line().and_then(|line| {
        let (sum, length) = line.split_once(' ')?;
        Some((u64::from_str_radix(sum, 16).ok()?, length.parse::<usize>().ok()?))
    });
    let body = lines.next().unwrap_or_default();
    if sums != Some((checksum(body), body.len())) {
        return Err("it is damaged: its checksum does not match".to_owned().into());
    }
    let document: Document =
        serde_json::from_slice(body).map_err(|error| format!("it is damaged: {error}"))?;
    if may_be(&document.store, &identity.store) {
        let why = format!("it is of {}, and does not tell below which directory", document.store);
        return Err(why.into());
    }
    for (what, written, now) in [
        (STORE, &document.store, &identity.store),
        ("default namespace", &document.default_namespace, &identity.default_namespace),
    ] {
        if written != now {
            return Err(CacheError::OfAnother { what, written: written.clone(), now: now.clone() });
        }
    }
    let language = |name: Option<&str>| {
        name.map_or_else(|| "without ISTIO_LANG".to_owned(), |name| format!("with ISTIO_LANG={name}"))
    };
    let (written, now) = (document.language.as_deref(), identity.language.map(Language::name));
    if written != now {
        let why = format!("it was written {}, and this server runs {}", language(written), language(now));
        return Err(why.into());
    }
    for (flag, written, now) in [
        ("use-adapter-crds", document.adapter_kinds, identity.adapter_kinds),
        ("use-template-crds", document.template_kinds, identity.template_kinds),
    ] {
        if written != now {
            let why = format!("it was written with --{flag}={written}, and this server runs with {now}");
            return Err(why.into());
        }
    }
    let (mut resources, mut since) = (Vec::with_capacity(document.resources.len()), SinceByKey::new());
    for entry in document.resources {
        let origin = Origin { file: entry.file.into(), text: entry.text.into(), first_line: entry.line };
        match read_document_as(identity.reading, origin)
            .filter(|resource| resource.key.to_string() == entry.key)
        {
            Some(resource) => {
                let key = || resource.key.clone();
                since.extend(entry.since.map(|(seconds, nanos)| (key(), Timestamp { seconds, nanos })));
                resources.push(resource);
            }
            None => return Err(format!("it is damaged: {} does not parse", entry.key).into()),
        }
    }
    Ok(CachedConfiguration {
        resources: resources.into_iter().collect(),
        since,
        written: Timestamp { seconds: document.written, nanos: 0 },
        version: VERSION,
    })
}

/// FNV-1a, 64 bits: finds damage, not forgery, which the permissions of the file prevent.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
