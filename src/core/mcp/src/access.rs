//! Who may have streams: a list of identities in a file, read again when it changes.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use mixer_base::file_stamp::{FileStamp, SETTLED};
use mixer_base::file_writer::{Writer, writer_of};
use mixer_base::regular_file;
use mixer_config::{Node, NodeKind, yaml};
use mixer_net::peer::Peer;

use crate::limiter::{Bucket, Rate};

/// Largest file.
const MAX_FILE: u64 = 4 << 20;
/// How often the file is looked at.
const LOOKS: Duration = Duration::from_secs(5);
/// How long a start waits for the writer of the file, and how often it asks.
const START_PATIENCE: Duration = Duration::from_secs(2);
const START_LOOKS: Duration = Duration::from_millis(20);

/// A list of identities: URIs, DNS names and addresses, as SANs of certificates have them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct List {
    /// Whether those on the list are refused, and the others allowed.
    is_deny_list: bool,
    names: HashSet<String>,
    addresses: HashSet<IpAddr>,
}

impl List {
    /// Errors: text and line.
    fn parse(text: &str) -> Result<Self, String> {
        let parsed = yaml::parse(text).map_err(|error| error.cause().to_owned())?;
        let mut list = Self::default();
        let at = |node: &Node, why: &str| format!("line {}: {why}", node.span.start.line);
        let entries = match &parsed.root.kind {
            // compat(1.3): an empty file is an allow list that allows nobody.
            NodeKind::Null => return Ok(list),
            NodeKind::Mapping(_) => parsed.root.entries(),
            _ => return Err(at(&parsed.root, "a mapping with `isblacklist` and `allowed` is expected")),
        };
        for note in &parsed.notes {
            if let yaml::Note::DuplicateKey { key, span, .. } | yaml::Note::OverriddenKey { key, span, .. } =
                note
            {
                let line = span.start.line;
                return Err(format!("line {line}: `{key}` is there twice, and one of them would not count"));
            }
        }
        let mut known = HashSet::new();
        for entry in entries {
            if !known.insert(entry.key.to_ascii_lowercase()) {
                return Err(at(&entry.value, &format!("`{}` is there twice", entry.key)));
            }
            match entry.key.to_ascii_lowercase().as_str() {
                "isblacklist" => match entry.value.kind {
                    NodeKind::Bool(is_deny_list) => list.is_deny_list = is_deny_list,
                    _ => return Err(at(&entry.value, "`isblacklist` is `true` or `false`")),
                },
                "allowed" => {
                    if !matches!(entry.value.kind, NodeKind::Sequence(_) | NodeKind::Null) {
                        return Err(at(&entry.value, "`allowed` is a list of identities"));
                    }
                    for item in entry.value.items() {
                        let Some(name) = item.as_str() else {
                            return Err(at(item, "an identity is a text"));
                        };
                        list.names.insert(name.to_owned());
                        list.addresses
                            .extend(name.parse::<IpAddr>().ok().map(|address| address.to_canonical()));
                    }
                }
                _ => {
                    let why = format!("unknown key `{}`: `isblacklist` and `allowed` are known", entry.key);
                    return Err(at(&entry.value, &why));
                }
            }
        }
        Ok(list)
    }

    /// Errors: why the peer is refused.
    fn check(&self, peer: &Peer) -> Result<(), String> {
        let identity = match peer {
            Peer::Tls(_, Some(identity)) => identity,
            Peer::Tls(_, None) => {
                return Err("unable to extract TLS info from the supplied auth info".to_owned());
            }
            Peer::Tcp(_) | Peer::Unix => return Err("denying by default: no auth info found".to_owned()),
        };
        let name = identity.names.iter().find(|name| self.names.contains(*name)).cloned();
        let is_listed = |address: &&IpAddr| self.addresses.contains(&address.to_canonical());
        let found = name.or_else(|| identity.addresses.iter().find(is_listed).map(IpAddr::to_string));
        match (found, self.is_deny_list) {
            (Some(id), true) => Err(format!("id is blacklisted: {id}")),
            (None, false) => Err("no allowed identity found in peer's authentication info".to_owned()),
            (Some(_), false) | (None, true) => Ok(()),
        }
    }
}

/// The list of a server, and whoever follows it.
#[derive(Debug)]
pub(crate) struct AccessList {
    path: PathBuf,
    current: watch::Sender<Arc<List>>,
    /// What the file had when it was read last.
    text: Mutex<Option<String>>,
    /// The stamp of a file that the last look found, of which the writer is unknown. The pause between looks is longer than [`SETTLED`].
    seen: Mutex<Option<FileStamp>>,
    log: Mutex<RefusalLog>,
}

/// Refusals since the last one that was logged.
#[derive(Debug)]
struct RefusalLog {
    limit: Bucket,
    count: u64,
}

impl AccessList {
    /// Reads the file. One that does not exist denies nobody, unless it `is_needed`. `log` is how often refusals are logged.
    ///
    /// Errors: a file that cannot be used, or is needed and does not exist; the text names it.
    pub(crate) fn read(path: &Path, is_needed: bool, log: Rate) -> Result<Self, String> {
        let started = Instant::now();
        let text = loop {
            match read(path, None)? {
                Found::Text(text) => break Some(text),
                Found::Nothing if is_needed => {
                    return Err(format!(
                        "the access list file {} does not exist: create it or mount its volume, or name none to allow every verified client",
                        path.display()
                    ));
                }
                Found::Nothing => break None,
                Found::Changing(_) if started.elapsed() >= START_PATIENCE => {
                    return Err(refusal(path, "it is open for writing: write another file and rename it"));
                }
                Found::Changing(_) => std::thread::sleep(START_LOOKS),
            }
        };
        let list = match &text {
            Some(text) => parse(path, text)?,
            None => List { is_deny_list: true, ..List::default() },
        };
        Ok(Self {
            path: path.to_owned(),
            current: watch::Sender::new(Arc::new(list)),
            text: Mutex::new(text),
            seen: Mutex::new(None),
            log: Mutex::new(RefusalLog { limit: Bucket::new(log), count: 0 }),
        })
    }

    /// Whether a peer may have a stream. Errors: why not; logged, though not each time.
    pub(crate) fn check(&self, peer: &Peer) -> Result<(), String> {
        let list = Arc::clone(&self.current.borrow());
        let checked = list.check(peer);
        if let Err(reason) = &checked {
            let mut log = self.log.lock();
            log.count += 1;
            if log.limit.take().is_ok() {
                let count = std::mem::take(&mut log.count);
                tracing::warn!("NewConnection: auth check failed: {reason} (repeated {count} times).");
            }
        }
        checked
    }

    /// Completes when a peer is no longer allowed: why.
    pub(crate) async fn revoked(self: Arc<Self>, peer: Arc<Peer>) -> String {
        let mut changes = self.current.subscribe();
        loop {
            let list = Arc::clone(&changes.borrow_and_update());
            if let Err(reason) = list.check(&peer) {
                return reason;
            }
            if changes.changed().await.is_err() {
                // Not before the server is gone.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Reads the file again if its content has changed, once its writer has closed it. A file that is gone leaves the list as it is.
    ///
    /// Errors: the new content cannot be used; the list stays.
    fn reload(&self) -> Result<bool, String> {
        let seen = *self.seen.lock();
        let text = match read(&self.path, seen)? {
            Found::Text(text) => text,
            Found::Nothing => return Ok(false),
            Found::Changing(stamp) => {
                *self.seen.lock() = stamp;
                return Ok(false);
            }
        };
        {
            let mut last = self.text.lock();
            if last.as_ref() == Some(&text) {
                return Ok(false);
            }
            *last = Some(text.clone());
        }
        self.current.send_replace(Arc::new(parse(&self.path, &text)?));
        Ok(true)
    }

    /// Follows the file until `stop`.
    pub(crate) async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let mut last_error = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOKS) => {}
            }
            let list = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || list.reload()).await {
                Ok(Ok(true)) => {
                    last_error = None;
                    tracing::info!(file = %self.path.display(), "access list reloaded");
                }
                Ok(Ok(false)) | Err(_) => {}
                Ok(Err(error)) => {
                    // Logged once per distinct error.
                    if last_error.as_ref() != Some(&error) {
                        tracing::error!("the access list stays as it was: {error}");
                        last_error = Some(error);
                    }
                }
            }
        }
    }
}

/// What is in the place of the file.
enum Found {
    Nothing,
    /// A file that its writer has not closed, or may not have closed: it may be a part of a list. With its stamp, if the writer is unknown.
    Changing(Option<FileStamp>),
    Text(String),
}

/// Reads the file, if its writer has closed it. `seen`: its stamp at an earlier look, at least [`SETTLED`] ago.
///
/// Errors: it cannot be read.
fn read(path: &Path, seen: Option<FileStamp>) -> Result<Found, String> {
    look(path, seen).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(Found::Nothing),
        // Another process holds a lease on it: it writes.
        std::io::ErrorKind::WouldBlock => Ok(Found::Changing(None)),
        _ => Err(refusal(path, &mixer_base::rotate::os_text(&error))),
    })
}

fn look(path: &Path, seen: Option<FileStamp>) -> std::io::Result<Found> {
    let (file, metadata) = regular_file::open(path)?;
    let stamp = FileStamp::of(&metadata);
    let lease = match writer_of(&file) {
        Writer::Open => return Ok(Found::Changing(None)),
        Writer::Unknown if seen != Some(stamp) && stamp.age().is_none_or(|age| age < SETTLED) => {
            return Ok(Found::Changing(Some(stamp)));
        }
        Writer::Unknown => None,
        Writer::None(lease) => Some(lease),
    };
    let bytes = regular_file::read_open(&file, &metadata, MAX_FILE)?;
    let after = FileStamp::of(&file.metadata()?);
    drop(lease);
    if after != stamp {
        return Ok(Found::Changing(Some(after)));
    }
    let invalid =
        |_| std::io::Error::new(std::io::ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    Ok(Found::Text(String::from_utf8(bytes).map_err(invalid)?))
}

fn parse(path: &Path, text: &str) -> Result<List, String> {
    List::parse(text).map_err(|why| refusal(path, &why))
}

fn refusal(path: &Path, why: &str) -> String {
    format!("unable to parse access list file {}: {why}", path.display())
}

#[cfg(test)]
mod tests {
    use mixer_net::tls::PeerIdentity;

    use super::*;

    const LOG: Rate = Rate { every: Duration::from_secs(60), burst: 1 };

    fn peer(names: &[&str], addresses: &[&str]) -> Peer {
        let identity = PeerIdentity {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        };
        Peer::Tls("127.0.0.1:1".parse().unwrap(), Some(Arc::new(identity)))
    }

    #[test]
    fn lists_allow_or_deny_names_and_addresses() {
        let allow = "isblacklist: false\nallowed:\n- spiffe://a/ns/b/sa/c\n- host.example\n- 10.0.0.7\n";
        let (allow, deny) =
            (List::parse(allow).unwrap(), List::parse(&allow.replace("false", "true")).unwrap());
        for (names, addresses, id) in [
            (&["x", "spiffe://a/ns/b/sa/c"][..], &[][..], Some("spiffe://a/ns/b/sa/c")),
            (&["host.example"], &["10.0.0.9"], Some("host.example")),
            (&["x"], &["10.0.0.7"], Some("10.0.0.7")),
            (&["x"], &["::ffff:10.0.0.7"], Some("::ffff:10.0.0.7")),
            (&["x"], &["10.0.0.8"], None),
            (&[], &[], None),
        ] {
            let peer = peer(names, addresses);
            let (allowed, denied) = match id {
                Some(id) => (Ok(()), Err(format!("id is blacklisted: {id}"))),
                None => (Err("no allowed identity found in peer's authentication info".to_owned()), Ok(())),
            };
            assert_eq!((allow.check(&peer), deny.check(&peer)), (allowed, denied), "{names:?} {addresses:?}");
        }
        for list in [&allow, &deny] {
            let refused = list.check(&Peer::Tcp("127.0.0.1:1".parse().unwrap()));
            assert_eq!(refused, Err("denying by default: no auth info found".to_owned()));
            let refused = list.check(&Peer::Tls("127.0.0.1:1".parse().unwrap(), None));
            assert_eq!(refused, Err("unable to extract TLS info from the supplied auth info".to_owned()));
        }
    }

    #[test]
    fn keys_in_any_case_are_known_and_others_refused() {
        let list = List::parse("isBlackList: true\nAllowed: [a]\n").unwrap();
        assert!(list.is_deny_list && list.names.contains("a"));
        assert_eq!(List::parse("").unwrap(), List::default());
        for (text, why) in [
            ("isblacklist: 3", "line 1: `isblacklist` is `true` or `false`"),
            ("allowed: x", "line 1: `allowed` is a list of identities"),
            ("allowed:\n- a\n- 3\n", "line 3: an identity is a text"),
            ("allow: []", "line 1: unknown key `allow`: `isblacklist` and `allowed` are known"),
            (
                "allowed: [a]\nallowed: [b]\n",
                "line 2: `allowed` is there twice, and one of them would not count",
            ),
            ("allowed: [a]\nAllowed: [b]\n", "line 2: `Allowed` is there twice"),
            ("- a", "line 1: a mapping with `isblacklist` and `allowed` is expected"),
        ] {
            assert_eq!(List::parse(text).unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn a_list_is_read_once_its_writer_has_closed_the_file() {
        use std::io::Write as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list.yaml");
        std::fs::write(&path, "isblacklist: true\nallowed: [a, b]\n").unwrap();
        let list = AccessList::read(&path, true, LOG).unwrap();
        let b = peer(&["b"], &[]);
        let denied = Err("id is blacklisted: b".to_owned());
        assert_eq!(list.check(&b), denied);
        let mut writer = std::fs::File::create(&path).unwrap();
        writer.write_all(b"isblacklist: true\nallowed:\n- a\n").unwrap();
        writer.flush().unwrap();
        assert_eq!((list.reload(), list.check(&b)), (Ok(false), denied.clone()), "a part of the list");
        let started = Instant::now();
        let refused = AccessList::read(&path, true, LOG).err().unwrap();
        assert!(refused.ends_with("it is open for writing: write another file and rename it"), "{refused}");
        assert!(started.elapsed() < START_PATIENCE * 5);
        writer.write_all(b"- b\n- c\n").unwrap();
        drop(writer);
        assert_eq!((list.reload(), list.check(&b)), (Ok(true), denied));
        assert!(list.check(&peer(&["c"], &[])).is_err());
    }

    #[tokio::test]
    async fn a_file_is_read_again_and_what_cannot_be_used_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list.yaml");
        let why = AccessList::read(&path, true, LOG).unwrap_err();
        assert!(why.contains("list.yaml does not exist"), "{why}");
        let list = Arc::new(AccessList::read(&path, false, LOG).unwrap());
        let a = peer(&["a"], &[]);
        assert_eq!(list.check(&a), Ok(()), "a missing file denies nobody");
        let put = |text: &str| std::fs::write(&path, text).unwrap();
        put("allowed: [a]\n");
        assert_eq!(list.reload(), Ok(true));
        assert_eq!(list.reload(), Ok(false));
        assert!(list.check(&peer(&["b"], &[])).is_err());
        let revoked = Arc::clone(&list).revoked(Arc::new(a.clone()));
        tokio::pin!(revoked);
        assert!(futures_util::poll!(revoked.as_mut()).is_pending());
        put("nonsense: [a]\n");
        let error = list.reload().unwrap_err();
        assert!(error.starts_with(&format!("unable to parse access list file {}: line 1: ", path.display())));
        assert_eq!(list.check(&a), Ok(()), "the last list stays");
        std::fs::remove_file(&path).unwrap();
        assert_eq!((list.reload(), list.check(&a)), (Ok(false), Ok(())), "the last list stays");
        put("allowed: [b]\n");
        assert_eq!(list.reload(), Ok(true));
        assert_eq!(revoked.await, "no allowed identity found in peer's authentication info");
        put("allowed: x\n");
        assert!(AccessList::read(&path, true, LOG).is_err(), "at the start it is an error");
    }
}
