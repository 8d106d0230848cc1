//! A file system that hangs, and scans that panic.

use std::sync::mpsc;

use super::*;

/// A store whose next scan waits until the sender is dropped.
fn hanging(root: &Path) -> (FsStore, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let store = store(root);
    let (release, released) = mpsc::channel::<()>();
    let (arrived, arrival) = mpsc::channel();
    *store.shared.gate.lock() = Some(Box::new(move || {
        let _ = arrived.send(());
        let _ = released.recv();
    }));
    (store, release, arrival)
}

#[tokio::test]
async fn nobody_waits_for_a_file_system_that_hangs() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "a.yaml", &resource("a", "one"));
    let (store, release, arrival) = hanging(directory.path());
    {
        let loading = store.loaded();
        arrival.recv().unwrap();
        // The thread is within the scan now.
        assert_eq!(store.contents().unavailable.as_deref(), Some("not read yet"));
        assert_eq!(store.availability(), Err("not read yet".to_owned()));
        store.rescan();
        assert!(timeout(Duration::from_millis(1), loading).await.is_err());
    }
    store.shared.published.lock().scanning_since = Instant::now().checked_sub(Duration::from_secs(11));
    assert_eq!(
        store.availability(),
        Err("reading takes longer than 10 s: the file system may hang".to_owned())
    );
    drop(release);
    store.loaded().await;
    assert_eq!(held(&store.contents()), ["a=one"]);
    assert_eq!(store.availability(), Ok(()));
}

#[tokio::test]
async fn a_store_whose_file_system_hangs_can_be_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let (store, release, arrival) = hanging(directory.path());
    drop(store.changed());
    arrival.recv().unwrap();
    drop(store);
    drop(release);
}

#[tokio::test]
async fn a_scan_that_panics_is_reported_and_repeated() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "a.yaml", &resource("a", "one"));
    let store = store(directory.path());
    until(&store, &["a=one"]).await;
    let panics = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&panics);
    *store.shared.gate.lock() = Some(Box::new(move || {
        if count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            panic!("on purpose");
        }
    }));
    write(directory.path(), "a.yaml", &resource("a", "two"));
    until(&store, &["a=two"]).await;
    assert!(panics.load(std::sync::atomic::Ordering::Relaxed) > 1);
    assert_eq!(store.availability(), Ok(()));
}

#[test]
fn a_first_scan_that_panics_makes_the_store_unavailable() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    *store.shared.gate.lock() = Some(Box::new(|| panic!("on purpose")));
    let text = "reading the configuration failed: on purpose";
    assert_eq!(store.load().unavailable.as_deref(), Some(text));
    assert_eq!(store.availability(), Err(text.to_owned()));
}
