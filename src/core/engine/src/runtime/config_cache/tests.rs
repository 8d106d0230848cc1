//! Tests of the cache of the last good configuration.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::*;
use crate::snapshot::Registry;
use mixer_base::metrics::Metrics;
use mixer_config::store::read_document;

fn identity() -> CacheIdentity {
    CacheIdentity::new("fs:///etc/mixer", &SnapshotOptions::new(Registry::default()))
}

fn served() -> Served {
    let resources = resources();
    let since = resources.iter().map(|r| (r.key.clone(), Timestamp { seconds: 1_600_000_000, nanos: 7 }));
    Served { since: since.collect(), resources }
}

fn resources() -> Resources {
    let text = "kind: rule\nmetadata: {name: r, namespace: ns}\nspec: {match: 'true'}";
    let origin = Origin { file: "/etc/mixer/a.yaml".into(), text: text.into(), first_line: 7 };
    [read_document(origin).unwrap()].into_iter().collect()
}

const WRITTEN: Timestamp = Timestamp { seconds: 1_700_000_000, nanos: 0 };

#[test]
fn a_cache_returns_what_was_written() {
    let read = decode(&encode(&served(), &identity(), WRITTEN).unwrap(), &identity()).unwrap();
    assert_eq!((read.written, read.version, read.resource_count()), (WRITTEN, VERSION, 1));
    let places: Vec<_> =
        read.resources.iter().map(|r| (r.key.to_string(), r.origin.clone(), r.revision)).collect();
    let wanted: Vec<_> =
        resources().iter().map(|r| (r.key.to_string(), r.origin.clone(), r.revision)).collect();
    assert_eq!(places, wanted);
    assert_eq!(read.since, served().since);
    // None was kept when it was written.
    let bytes =
        encode(&Served { resources: resources(), ..Served::default() }, &identity(), WRITTEN).unwrap();
    assert!(decode(&bytes, &identity()).unwrap().since.is_empty());
}

#[test]
fn a_directory_is_the_same_with_a_slash_at_its_end() {
    let of = |store: &str| CacheIdentity::new(store, &SnapshotOptions::new(Registry::default())).store;
    for (store, same) in [
        ("fs:///etc/conf/", "fs:///etc/conf"),
        ("fs:///etc/conf//", "fs:///etc/conf"),
        ("fs:///", "fs:///"),
        ("embedded://sample", "embedded://sample"),
    ] {
        assert_eq!((of(store), of(same)), (same.to_owned(), same.to_owned()));
    }
}

#[test]
fn a_relative_directory_is_that_below_the_working_directory() {
    let of = |store: &str| CacheIdentity::new(store, &SnapshotOptions::new(Registry::default()));
    let of_files = |path: &str| CacheIdentity::of_files(path, Reading::default());
    let here = std::env::current_dir().unwrap().display().to_string();
    for (path, wanted) in [
        ("conf", format!("fs://{here}/conf")),
        ("conf/", format!("fs://{here}/conf")),
        ("./conf//", format!("fs://{here}/conf")),
        ("a/./conf", format!("fs://{here}/a/conf")),
        ("../conf", format!("fs://{here}/../conf")),
        (".", format!("fs://{here}")),
        ("", "fs://".to_owned()),
        ("/", "fs:///".to_owned()),
        ("/etc/conf/", "fs:///etc/conf".to_owned()),
    ] {
        assert_eq!(of(&format!("fs://{path}")).store, wanted, "{path}");
        assert_eq!(of_files(path).store, wanted, "{path}");
    }
    // From before: nobody knows of which directory it is, but it is not of one with another name.
    let before = |store: &str| {
        let written = CacheIdentity { store: store.to_owned(), ..identity() };
        encode(&served(), &written, WRITTEN).unwrap()
    };
    for (written, now) in
        [("fs://conf", "fs://conf"), ("fs://./a/conf", "fs://a/conf/"), ("fs://../a", "fs://../a")]
    {
        assert_eq!(
            decode(&before(written), &of(now)).unwrap_err().to_string(),
            format!("it is of {written}, and does not tell below which directory")
        );
    }
    for (written, now) in [
        ("fs://conf", "fs://other"),
        ("fs://a/conf", "fs://conf"),
        ("fs://conf", "embedded://sample"),
        ("fs:///conf", "fs://conf"),
    ] {
        let why = decode(&before(written), &of(now)).unwrap_err();
        assert!(matches!(why, CacheError::OfAnother { .. }), "{written} {now}: {why}");
    }
}

/// Every cut and every changed byte is noticed, and none panics.
#[test]
fn a_damaged_cache_is_not_used() {
    let bytes = encode(&served(), &identity(), WRITTEN).unwrap();
    for cut in 0..bytes.len() {
        assert!(decode(&bytes[..cut], &identity()).is_err(), "cut at {cut}");
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(decode(&damaged, &identity()).is_err(), "byte {at}");
    }
}

#[test]
fn a_foreign_or_newer_cache_is_not_used() {
    let bytes = encode(&served(), &identity(), WRITTEN).unwrap();
    let other = CacheIdentity { store: "fs:///other".to_owned(), ..identity() };
    let foreign = decode(&bytes, &other).unwrap_err();
    assert!(foreign.to_string().contains("of the store fs:///etc/mixer"));
    assert!(matches!(foreign, CacheError::OfAnother { .. }));
    let other = CacheIdentity { default_namespace: "mesh".to_owned(), ..identity() };
    let foreign = decode(&bytes, &other).unwrap_err();
    assert_eq!(
        foreign.to_string(),
        "it is of the default namespace istio-system, and this server has mesh; it is not replaced"
    );
    for (other, why) in [
        (
            CacheIdentity { language: Some(Language::Cel), ..identity() },
            "it was written without ISTIO_LANG, and this server runs with ISTIO_LANG=CEL",
        ),
        (
            CacheIdentity { adapter_kinds: false, ..identity() },
            "it was written with --use-adapter-crds=true, and this server runs with false",
        ),
        (
            CacheIdentity { template_kinds: false, ..identity() },
            "it was written with --use-template-crds=true, and this server runs with false",
        ),
    ] {
        assert_eq!(decode(&bytes, &other).unwrap_err().to_string(), why);
        let own = encode(&served(), &other, WRITTEN).unwrap();
        assert!(decode(&own, &other).is_ok(), "{why}");
    }
    let newer = String::from_utf8(bytes).unwrap().replacen("cache 2\n", "cache 3\n", 1);
    assert!(decode(newer.as_bytes(), &identity()).unwrap_err().to_string().contains("version 3"));
    for foreign in ["", "\n", "hello", "kind: rule\n"] {
        assert_eq!(
            decode(foreign.as_bytes(), &identity()).unwrap_err().to_string(),
            "it is no configuration cache"
        );
    }
}

#[test]
fn the_file_is_private_and_replaced_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let cache = CacheDirectory(directory.path().join("deep/cache"));
    assert_eq!(cache.read().unwrap(), None);
    cache.write(b"one").unwrap();
    cache.write(b"two").unwrap();
    assert_eq!(cache.read().unwrap().unwrap(), b"two");
    let file = cache.0.join(FILE);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(&cache.0).unwrap().count(), 1, "no temporary file is left");
    let chmod = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let refusal = || cache.read().unwrap_err().to_string();
    for mode in [0o666, 0o620, 0o602] {
        chmod(&file, mode);
        assert_eq!(refusal(), "others than its owner may write it", "{mode:o}");
    }
    chmod(&file, 0o600);
    for mode in [0o777, 0o1777, 0o720, 0o702] {
        chmod(&cache.0, mode);
        assert_eq!(refusal(), "others than its owner may write its directory", "{mode:o}");
    }
    chmod(&cache.0, 0o755);
    assert_eq!(cache.read().unwrap().unwrap(), b"two");
    // Only root gives files away.
    if effective_user().unwrap() == ROOT {
        for (path, what) in [(&file, "it"), (&cache.0, "its directory")] {
            std::os::unix::fs::chown(path, Some(12_345), None).unwrap();
            assert_eq!(refusal(), format!("{what} belongs to another user"));
            std::os::unix::fs::chown(path, Some(0), None).unwrap();
        }
        // That of a server of another user, which root examines.
        let of_user =
            |id| CacheOfUser { directory: cache.clone(), user: ProcessUser { id, groups: Vec::new() } };
        chmod(directory.path(), 0o755);
        chmod(&directory.path().join("deep"), 0o755);
        for path in [&file, &cache.0] {
            std::os::unix::fs::chown(path, Some(12_345), None).unwrap();
        }
        assert_eq!(of_user(12_345).read().unwrap().unwrap(), b"two");
        assert!(of_user(12_346).read().is_err() && of_user(12_345).write(b"three").is_err());
        for path in [&file, &cache.0] {
            std::os::unix::fs::chown(path, Some(0), None).unwrap();
        }
    }
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
    assert!(cache.read().unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn what_processes_left_that_ended_while_they_wrote_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let cache = CacheDirectory(directory.path().to_owned());
    let put = |name: &str| {
        let file = File::create(directory.path().join(name)).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
        file
    };
    // Larger than any number of a process.
    let [ended, other] = [".last-good.cache.4194305", ".last-good.cache.4194306"];
    put(ended);
    let locked = put(other);
    locked.try_lock().unwrap();
    // That of a process that runs, written just now and long ago.
    let running = format!(".last-good.cache.{}", std::os::unix::process::parent_id());
    put(&running);
    let others = [".last-good.cache.x", ".last-good.cache.", "last-good.cache.4194305", "spill-directories"];
    others.iter().for_each(|name| drop(put(name)));
    std::os::unix::fs::symlink(
        directory.path().join(others[0]),
        directory.path().join(".last-good.cache.4194307"),
    )
    .unwrap();
    let left = || {
        let names = fs::read_dir(directory.path()).unwrap().flatten();
        let names: BTreeSet<String> = names.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names
    };
    let before = left();
    cache.write(b"configuration").unwrap();
    let mut expected = before;
    expected.remove(ended);
    expected.insert(FILE.to_owned());
    assert_eq!(left(), expected, "the others are being written, or are something else");
    drop(locked);
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(100);
    File::options()
        .write(true)
        .open(directory.path().join(&running))
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    cache.write(b"configuration").unwrap();
    expected.remove(other);
    expected.remove(&running);
    assert_eq!(left(), expected);
}

#[test]
fn a_cache_beyond_the_bound_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let cache = CacheDirectory(directory.path().to_owned());
    cache.write(b"").unwrap();
    let file = OpenOptions::new().write(true).open(directory.path().join(FILE)).unwrap();
    // Sparse: takes no space.
    file.set_len(MAX_CACHE_BYTES + 1).unwrap();
    assert!(cache.read().is_err());
}

/// A medium that is read only once it is released.
struct Slow {
    bytes: parking_lot::Mutex<Option<Vec<u8>>>,
    is_released: parking_lot::Mutex<bool>,
    released: parking_lot::Condvar,
}

impl Slow {
    fn new() -> Arc<Self> {
        let bytes = encode(&served(), &identity(), WRITTEN).unwrap();
        Arc::new(Self {
            bytes: parking_lot::Mutex::new(Some(bytes)),
            is_released: parking_lot::Mutex::new(false),
            released: parking_lot::Condvar::new(),
        })
    }

    fn release(&self) {
        *self.is_released.lock() = true;
        self.released.notify_all();
    }
}

impl CacheMedium for Slow {
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        self.released.wait_while(&mut self.is_released.lock(), |is_released| !*is_released);
        Ok(self.bytes.lock().clone())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        *self.bytes.lock() = Some(bytes.to_vec());
        Ok(())
    }

    fn discard(&self) -> io::Result<()> {
        *self.bytes.lock() = None;
        Ok(())
    }

    fn name(&self) -> String {
        "slow".to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_late_is_there_for_whom_nothing_serves() {
    let limit = Duration::from_millis(20);
    let medium = Slow::new();
    let cache = ConfigCache::new(medium.clone(), identity());
    let mut news = cache.news();
    assert!(cache.load(limit).await.is_none());
    assert!(cache.trouble().is_some_and(|why| why.contains("is ignored: it is not read after")));
    assert!(cache.take_late().is_none());
    medium.release();
    news.changed().await.unwrap();
    assert_eq!(cache.take_late().unwrap().resource_count(), 1);
    assert!(cache.take_late().is_none(), "once");
    assert_eq!(cache.trouble(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_late_may_be_of_another_store() {
    let medium = Slow::new();
    let other = CacheIdentity { default_namespace: "mesh".to_owned(), ..identity() };
    let cache = ConfigCache::new(medium.clone(), other);
    let mut news = cache.news();
    assert!(cache.load(Duration::from_millis(20)).await.is_none());
    assert_eq!(cache.mismatch(), None);
    medium.release();
    news.changed().await.unwrap();
    assert!(cache.take_late().is_none());
    assert!(
        cache.mismatch().is_some_and(|why| why.message.contains("of the default namespace istio-system"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_late_is_older_than_what_was_written_meanwhile() {
    let medium = Slow::new();
    let cache = ConfigCache::new(medium.clone(), identity());
    assert!(cache.load(Duration::from_millis(20)).await.is_none());
    let (runtime, metrics) = (tokio::runtime::Handle::current(), Arc::new(Metrics::new()));
    let saving = cache.save(served(), WRITTEN, &runtime, &metrics);
    medium.release();
    saving.await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(cache.take_late().is_none());
}
