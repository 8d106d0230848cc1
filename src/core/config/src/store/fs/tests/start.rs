//! A start beside a directory that is being filled.

use super::*;

/// The files of a configuration.
const FILES: usize = 10;

/// A server serves nothing of a directory before nothing has been written to it for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_being_filled_is_read_as_a_whole() {
    loop {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        let mut last = Instant::now();
        write(&root, "a0.yaml", &resource("a0", "v"));
        let filling = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            for number in 1..FILES {
                std::thread::sleep(Duration::from_millis(20));
                let begun = Instant::now();
                write(&root, &format!("a{number}.yaml"), &resource(&format!("a{number}"), "v"));
                // Each was written some time between its begin and its end.
                longest = longest.max(last.elapsed());
                last = begun;
            }
            longest
        });
        let begun = Instant::now();
        let store = store(dir.path());
        store.loaded().await;
        let took = begun.elapsed();
        let first = held(&store.contents()).len();
        // On a machine that is busy, the pauses may have been longer than what a start waits for, and the start itself.
        if filling.join().unwrap() < FIRST_QUIET * 3 / 4 && took < FIRST_WRITERS {
            assert_eq!(first, FILES);
            return;
        }
    }
}

/// Tools read what there is, and so do servers where nothing has changed for a while.
#[test]
fn only_what_was_written_just_now_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", &resource("a", "v"));
    let mut scanner = Scanner::new(dir.path().to_owned(), WhenLost::Keep);
    scanner.scan(Scope::Everything, Noted::default(), Instant::now());
    assert!(scanner.filling(Duration::from_secs(3600)).is_some_and(|left| left > Duration::from_secs(3000)));
    // A read that took long: what was written since it began may not be in it.
    let quiet = Duration::from_millis(1);
    scanner.pretend_looked(Instant::now().checked_sub(Duration::from_secs(1)).unwrap());
    while scanner.filling(quiet).is_some_and(|left| !left.is_zero()) {
        std::thread::yield_now();
    }
    assert_eq!(scanner.filling(quiet), Some(Duration::ZERO), "it is to be read again");
    while scanner.filling(quiet).is_some() {
        scanner.scan(Scope::Everything, Noted::default(), Instant::now());
    }
    let future = std::time::SystemTime::now() + Duration::from_secs(3600);
    fs::File::options().write(true).open(dir.path().join("a.yaml")).unwrap().set_modified(future).unwrap();
    scanner.scan(Scope::Everything, Noted::default(), Instant::now());
    assert_eq!(scanner.filling(Duration::from_secs(3600)), None, "it is of another clock");
}
