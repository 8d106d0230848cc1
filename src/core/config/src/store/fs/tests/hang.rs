//! A file system that hangs, and scans that panic.

use std::sync::mpsc;

use super::*;
use crate::store::Outage;

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

fn outage(why: &str, keeps_last: bool) -> Result<(), Outage> {
    Err(Outage { why: why.to_owned(), keeps_last })
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
        assert_eq!(store.availability(), outage("not read yet", false));
        store.rescan();
        assert!(timeout(Duration::from_millis(1), loading).await.is_err());
    }
    store.shared.published.lock().scanning_since = Instant::now().checked_sub(Duration::from_secs(11));
    let overdue =
        "reading takes longer than 10 s: the file system may hang, or the machine is too busy to read";
    assert_eq!(store.availability(), outage(overdue, false));
    drop(release);
    store.loaded().await;
    assert_eq!(held(&store.contents()), ["a=one"]);
    assert_eq!(store.availability(), Ok(()));
}

#[tokio::test]
async fn a_first_read_that_hangs_is_told_in_the_contents_until_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "a.yaml", &resource("a", "one"));
    let (store, release, arrival) = hanging(directory.path());
    drop(store.loaded());
    arrival.recv().unwrap();
    assert!(timeout(Duration::from_millis(1), store.overdue()).await.is_err(), "not yet");
    store.shared.published.lock().scanning_since = Instant::now().checked_sub(Duration::from_secs(11));
    store.overdue().await;
    let overdue =
        "reading takes longer than 10 s: the file system may hang, or the machine is too busy to read";
    let contents = store.contents();
    assert_eq!(contents.unavailable.as_deref(), Some(overdue));
    let text = format!("{}: {overdue}", directory.path().display());
    assert_eq!(contents.diagnostics.first().map(|problem| problem.message.as_str()), Some(text.as_str()));
    assert_eq!(store.availability(), outage(overdue, false));
    assert!(!store.has_changed(), "it is no version");
    drop(release);
    store.changed().await;
    assert_eq!(held(&store.contents()), ["a=one"]);
    assert!(timeout(Duration::from_millis(1), store.overdue()).await.is_err(), "never again");
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

/// Nothing was read: whatever is missing was not deleted.
fn assert_unread(contents: &StoreContents, root: &Path, why: &str) {
    assert_eq!((contents.unavailable.as_deref(), contents.resources.len()), (Some(why), 0));
    let unread: Vec<_> = contents.unread().into_iter().map(|u| u.path.to_string()).collect();
    assert_eq!(unread, [root.display().to_string()]);
    assert_eq!(contents.diagnostics.len(), 1);
}

#[tokio::test]
async fn a_store_whose_first_scans_panic_is_unavailable_until_one_succeeds() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "a.yaml", &resource("a", "one"));
    let store = store(directory.path());
    let (next, pass) = mpsc::channel::<bool>();
    let (arrived, arrival) = mpsc::channel();
    *store.shared.gate.lock() = Some(Box::new(move || {
        let _ = arrived.send(());
        if pass.recv() == Ok(false) {
            panic!("on purpose");
        }
    }));
    let text = "reading the configuration failed: on purpose";
    next.send(false).unwrap();
    store.loaded().await;
    assert_unread(&store.contents(), directory.path(), text);
    assert_eq!(store.availability(), outage(text, false));
    next.send(false).unwrap();
    // The third scan has begun: the second one is over.
    (0..3).for_each(|_| arrival.recv().unwrap());
    assert_unread(&store.contents(), directory.path(), text);
    next.send(true).unwrap();
    drop(next);
    until(&store, &["a=one"]).await;
    assert_eq!((store.contents().unavailable.clone(), store.availability()), (None, Ok(())));
}

#[tokio::test]
async fn a_thread_that_cannot_be_started_is_started_later() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "a.yaml", &resource("a", "one"));
    let store = store(directory.path());
    store.start.lock().failures_to_inject = 3;
    store.loaded().await;
    let text = "cannot start the thread that reads the configuration: out of threads";
    assert_unread(&store.contents(), directory.path(), text);
    assert_eq!(store.availability(), outage(text, false));
    let (_, down) = task::down();
    let shown = "store is down: cannot be started: out of threads";
    assert!(down.iter().any(|task| task == shown), "{down:?}");
    until(&store, &["a=one"]).await;
    assert_eq!(store.start.lock().failures_to_inject, 0);
    assert_eq!((store.contents().unavailable.clone(), store.availability()), (None, Ok(())));
    write(directory.path(), "a.yaml", &resource("a", "two"));
    until(&store, &["a=two"]).await;
}

#[tokio::test]
async fn a_store_that_was_read_keeps_its_contents_through_an_outage() {
    for (lost, keeps_last) in [(WhenLost::Keep, true), (WhenLost::Drop, false)] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("conf");
        std::fs::create_dir(&root).unwrap();
        write(&root, "a.yaml", &resource("a", "one"));
        let store = FsStore::new("fs://conf", &root, lost);
        until(&store, &["a=one"]).await;
        std::fs::remove_dir_all(&root).unwrap();
        until(&store, if keeps_last { &["a=one"] } else { &[] }).await;
        let text = format!("cannot read {}: no such file or directory", root.display());
        let mut left = 1000;
        while store.availability() != outage(&text, keeps_last) {
            left -= 1;
            assert!(left > 0, "{:?}", store.availability());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
