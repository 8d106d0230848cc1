use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Longer than anything that is waited for takes on a busy machine.
const MINUTE: Duration = Duration::from_secs(60);

async fn current(credential: &Credential) -> String {
    credential.secret_within(MINUTE, Source::read).await.expose().to_owned()
}

#[tokio::test]
async fn a_file_is_read_again_when_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "first\n").unwrap();
    let credential = Credential::from_file(&path).unwrap();
    assert_eq!(current(&credential).await, "first");
    // As Kubernetes replaces mounted secrets.
    std::fs::write(directory.path().join("new"), "second, longer").unwrap();
    std::fs::rename(directory.path().join("new"), &path).unwrap();
    assert_eq!(credential.last().expose(), "first");
    assert_eq!(current(&credential).await, "second, longer");
    assert_eq!((credential.last().expose(), credential.trouble()), ("second, longer", None));
    for broken in ["", "\n"] {
        std::fs::write(&path, broken).unwrap();
        assert_eq!(current(&credential).await, "second, longer", "the last value is used on");
        let why = format!("cannot read file `{}`: it is empty", path.display());
        assert_eq!(credential.trouble(), Some(why));
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(current(&credential).await, "second, longer");
    std::fs::write(&path, "third").unwrap();
    assert_eq!((&*current(&credential).await, credential.trouble()), ("third", None));
}

#[test]
fn a_file_is_read_again_where_nothing_can_be_awaited() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "first\n").unwrap();
    let credential = Credential::from_file(&path).unwrap();
    std::fs::write(&path, "second, longer").unwrap();
    let end = Instant::now() + MINUTE;
    while credential.blocking_secret().expose() != "second, longer" {
        assert!(Instant::now() < end);
    }
}

static READS: AtomicUsize = AtomicUsize::new(0);

fn counted(source: &Source) -> Result<Secret, CredentialError> {
    READS.fetch_add(1, Ordering::Relaxed);
    source.read()
}

#[test]
fn a_file_that_cannot_be_used_is_not_read_for_each_call() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "first").unwrap();
    let credential = Credential::from_file(&path).unwrap();
    let start = Instant::now();
    for (state, change) in [("empty", true), ("away", false)] {
        READS.store(0, Ordering::Relaxed);
        match change {
            true => std::fs::write(&path, "").unwrap(),
            false => std::fs::remove_file(&path).unwrap(),
        }
        for _ in 0..100 {
            credential.shared.look(start, counted);
            assert_eq!(credential.last().expose(), "first", "{state}");
            assert!(credential.trouble().is_some(), "{state}");
        }
        assert_eq!(READS.load(Ordering::Relaxed), 1, "{state}");
    }
    std::fs::write(&path, "second").unwrap();
    credential.shared.look(start, Source::read);
    assert_eq!((credential.last().expose(), credential.trouble()), ("second", None));
}

/// Held while the file system of the next test hangs.
static HUNG: Mutex<()> = Mutex::new(());
static HUNG_READS: AtomicUsize = AtomicUsize::new(0);

fn hangs(source: &Source) -> Result<Secret, CredentialError> {
    HUNG_READS.fetch_add(1, Ordering::Relaxed);
    drop(HUNG.lock());
    source.read()
}

#[test]
fn nobody_waits_for_a_file_system_that_hangs() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "first").unwrap();
    let credential = Credential::from_file(&path).unwrap();
    std::fs::write(&path, "second, longer").unwrap();
    let hung = HUNG.lock();
    let limit = Duration::from_millis(20);
    runtime.block_on(async {
        // Another task of the thread goes on meanwhile.
        let (secret, ()) = tokio::join!(credential.secret_within(limit, hangs), tokio::task::yield_now());
        assert_eq!(secret.expose(), "first");
        let why =
            format!("cannot read file `{}`: no answer within 20ms, its file system may hang", path.display());
        assert_eq!(credential.trouble(), Some(why));
        // Only the first one waits, and one thread is held.
        for _ in 0..100 {
            assert_eq!(credential.secret_within(MINUTE, hangs).await.expose(), "first");
        }
        assert_eq!(credential.blocking_secret().expose(), "first");
        assert_eq!(HUNG_READS.load(Ordering::Relaxed), 1);
        drop(hung);
        while credential.secret_within(MINUTE, Source::read).await.expose() == "first" {
            tokio::task::yield_now().await;
        }
        assert_eq!((credential.last().expose(), credential.trouble()), ("second, longer", None));
    });
}

#[test]
fn a_first_read_that_hangs_is_an_error_and_holds_one_thread() {
    static READS: FirstReads = FirstReads(Mutex::new(BTreeSet::new()));
    let (wake, asleep) = std::sync::mpsc::channel::<()>();
    let (limit, path) = (Duration::from_millis(20), Path::new("/hung/token"));
    let hangs = READS.run(path, limit, move || asleep.recv().is_ok());
    assert_eq!(hangs, Err("no answer in time: its file system may hang"));
    let again = READS.run(path, limit, || true);
    assert_eq!(again, Err("an earlier read of the file has not ended: its file system may hang"));
    assert_eq!(READS.run(Path::new("/other/token"), MINUTE, || true), Ok(true));
    wake.send(()).unwrap();
    assert_eq!(READS.run(path, MINUTE, || true), Ok(true));
}

#[tokio::test]
async fn a_read_elsewhere_holds_up_no_other_task_and_no_second_call() {
    static READS: FirstReads = FirstReads(Mutex::new(BTreeSet::new()));
    let (wake, asleep) = std::sync::mpsc::channel::<()>();
    let (limit, path) = (Duration::from_millis(20), Path::new("/hung/profile"));
    let mut others = 0;
    let hangs = READS.await_within(path, limit, MINUTE, move || asleep.recv().is_ok());
    let goes_on = async {
        loop {
            others += 1;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        found = hangs => assert_eq!(found, Err("no answer in time: its file system may hang")),
        () = goes_on => {}
    }
    assert!(others > 1, "the thread was free meanwhile");
    let again = READS.await_within(path, MINUTE, Duration::ZERO, || true).await;
    assert_eq!(again, Err("an earlier read of the file has not ended: its file system may hang"));
    assert_eq!(READS.await_within(Path::new("/other"), MINUTE, Duration::ZERO, || true).await, Ok(true));
    wake.send(()).unwrap();
    assert_eq!(READS.await_within(path, MINUTE, MINUTE, || true).await, Ok(true));
}

#[test]
fn a_credential_is_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "hunter2").unwrap();
    let credential = Credential::from_file(&path).unwrap();
    let shown = format!("{credential:?} {:?}", credential.last());
    assert!(!shown.contains("hunter2") && shown.ends_with("***"), "{shown}");
    let credential = Credential::from_configuration("hunter2");
    assert_eq!(credential.last().expose(), "hunter2");
    let shown = format!("{credential:?} {:?}", credential.last());
    assert!(!shown.contains("hunter2") && shown.ends_with("***"), "{shown}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let refused = |credential: Result<Credential, CredentialError>| credential.unwrap_err().to_string();
    let text = refused(Credential::from_file("/dev/zero"));
    assert_eq!(text, "cannot read file `/dev/zero`: not a regular file but a device");
    assert!(refused(Credential::from_file("/none/such")).starts_with("cannot read file `/none/such`: "));
    let text = refused(Credential::from_environment("MIXER_TEST_NO_SUCH_VARIABLE"));
    let expected =
        "cannot read environment variable `MIXER_TEST_NO_SUCH_VARIABLE`: environment variable not found";
    assert_eq!(text, expected);
    // Every process has it.
    assert!(!Credential::from_environment("PATH").unwrap().last().expose().is_empty());
}
