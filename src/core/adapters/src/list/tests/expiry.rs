//! How long a list serves that cannot be fetched.

use super::*;

/// A file that changes all the time does not keep its list alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_list_is_dropped_while_its_file_is_written_all_the_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("list");
    std::fs::write(&path, "a\n").unwrap();
    let second = SignedDuration::from_secs(1);
    let written = path.display().to_string();
    let params =
        Params { provider_file: written, refresh_interval: second, ttl: second, ..Params::default() };
    let f = Fixture::new(params).await;
    f.until(|f| f.has("a")).await;
    let stops = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = Arc::clone(&stops);
    let writer = std::thread::spawn(move || {
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            file.write_all(b"b\n").unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let give_up = std::time::Instant::now() + Duration::from_secs(60);
    let is_dropped = || f.handler.status().notes == [("entries", "none".to_owned())];
    while !is_dropped() && std::time::Instant::now() < give_up {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stops.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
    assert!(is_dropped());
}
