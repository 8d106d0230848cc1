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
        write(&root, "a0.yaml", &resource("a0", "v"));
        let mut last = Instant::now();
        let filling = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            for number in 1..FILES {
                std::thread::sleep(Duration::from_millis(20));
                write(&root, &format!("a{number}.yaml"), &resource(&format!("a{number}"), "v"));
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            longest
        });
        let store = store(dir.path());
        store.loaded().await;
        let first = held(&store.contents()).len();
        // On a machine that is busy, the pauses may have been longer than what a start waits for.
        if filling.join().unwrap() < FIRST_QUIET * 3 / 4 {
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
    while scanner.filling(Duration::from_millis(1)).is_some() {
        std::thread::yield_now();
    }
    let future = std::time::SystemTime::now() + Duration::from_secs(3600);
    fs::File::options().write(true).open(dir.path().join("a.yaml")).unwrap().set_modified(future).unwrap();
    scanner.scan(Scope::Everything, Noted::default(), Instant::now());
    assert_eq!(scanner.filling(Duration::from_secs(3600)), None, "it is of another clock");
}
