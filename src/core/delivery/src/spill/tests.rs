use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::sink::{AsyncSink, Tally};
use crate::spool::tests::{open_with, start};
use crate::{Batching, Bounds, Delivery, Retry, Settings};

/// Longest time that a test waits for a thread.
const PATIENCE: Duration = Duration::from_secs(60);

/// An entry with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry(u64);

impl Item for Entry {
    fn size(&self) -> usize {
        100
    }
}

impl StoredItem for Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.0.to_le_bytes());
        out.extend(std::iter::repeat_n(7, self.0 as usize % 50));
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().map(|number| Entry(u64::from_le_bytes(*number)))
    }
}

/// Keeps numbers while it works.
#[derive(Clone, Default)]
struct Backend {
    works: Arc<AtomicBool>,
    kept: Arc<Mutex<Vec<u64>>>,
    attempts: Arc<AtomicUsize>,
}

impl Backend {
    fn works(&self, works: bool) {
        self.works.store(works, Ordering::Relaxed);
    }
}

impl AsyncSink<List<Entry>> for Backend {
    async fn deliver(&mut self, batch: &mut List<Entry>, tally: &mut Tally) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        if !self.works.load(Ordering::Relaxed) {
            return tally.try_again("connection refused");
        }
        self.kept.lock().extend(batch.iter().map(|entry| entry.0));
        tally.delivered(batch.len());
    }
}

/// That of the handler of these tests.
fn spill_at(directory: &Path, bytes: u64) -> Spill {
    Spill { directory: directory.to_owned(), home: directory.to_owned(), bytes, owner: Owner::for_tests() }
}

fn open(directory: &Path, backend: &Backend) -> Delivery<List<Entry>> {
    open_for(Holds::default(), directory, backend)
}

fn open_for(holds: Holds, directory: &Path, backend: &Backend) -> Delivery<List<Entry>> {
    let spill = spill_at(&directory.join("spill"), 256 << 20);
    let settings = Settings {
        bounds: Bounds { items: 1000, ..Bounds::default() },
        batching: Batching { items: 200, bytes: usize::MAX, wait: Duration::from_millis(5) },
        retry: Retry {
            first_pause: Duration::from_millis(10),
            longest_pause: Duration::from_millis(50),
            budget: Duration::from_secs(3600),
            breaker_failures: 3,
        },
        holds,
        ..Settings::default()
    };
    Delivery::in_task_with_spill("spill test", "", settings, spill.clone(), backend.clone()).unwrap()
}

/// Hands over entries, as fast as there is room for them.
async fn send(delivery: &Delivery<List<Entry>>, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert_eq!(delivery.accept_when_room(Entry(number), PATIENCE).await, Ok(()));
    }
}

/// Waits for a condition.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn a_list_is_encoded_item_by_item() {
    let mut list = List::default();
    (0..100).for_each(|number| list.push(Entry(number)));
    let mut bytes = Vec::new();
    list.encode(&mut bytes);
    let decoded = List::<Entry>::decode(&bytes).unwrap();
    assert!(decoded.iter().eq(list.iter()));
    for cut in [1, 2, 3, bytes.len() - 1] {
        assert!(List::<Entry>::decode(&bytes[..cut]).is_none(), "{cut} bytes");
    }
    assert_eq!(List::<Entry>::decode(&[]).unwrap().len(), 0);
}

#[test]
fn a_disk_that_fails_for_a_while_is_told_once_and_when_it_works_again() {
    let mut health = Health::default();
    let start = Instant::now();
    let told = [
        (false, 0),
        (false, 29),
        (true, 29),
        (false, 30),
        (false, 59),
        (false, 60),
        (false, 61),
        (true, 62),
        (true, 63),
    ]
    .map(|(works, second)| health.note_at(works, start + Duration::from_secs(second)));
    assert_eq!(told, [false, false, false, false, false, true, false, true, false]);
}

/// As with a cursor that cannot be written: what is delivered would be delivered again after a restart.
#[test]
fn a_disk_that_takes_no_removal_is_told_although_it_can_be_read() {
    let mut condition = Condition::default();
    let start = Instant::now();
    let told: Vec<u64> = (0..40)
        .filter(|second| {
            let now = start + Duration::from_secs(*second);
            let of_read = condition.note_at(Work::Read, true, now);
            condition.note_at(Work::Remove, false, now) || of_read
        })
        .collect();
    assert_eq!((told, condition.is_failing(), condition.is_untidy()), (vec![30], true, true));
    assert!(condition.note_at(Work::Remove, true, start + Duration::from_secs(40)));
    assert!(!condition.is_failing() && !condition.is_untidy());
}

/// As `mixer server --dry-run`: a server may use the directory, or is to use it with another user.
#[tokio::test]
async fn a_process_that_only_tries_a_configuration_leaves_the_directory_alone() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Backend::default();
    let try_it = || open_for(Holds::of_rehearsal(), directory.path(), &backend);
    assert!(try_it().close(PATIENCE).await);
    assert!(!directory.path().join("spill").exists());

    let delivery = open(directory.path(), &backend);
    send(&delivery, 0..10).await;
    delivery.close(Duration::from_millis(100)).await;
    let files = || {
        let entries = std::fs::read_dir(directory.path().join("spill")).unwrap().flatten();
        let sizes = entries.map(|entry| (entry.file_name(), entry.metadata().unwrap().len()));
        sizes.collect::<BTreeSet<_>>()
    };
    let before = files();
    backend.works(true);
    let trial = try_it();
    send(&trial, 100..101).await;
    assert!(trial.close(PATIENCE).await);
    assert_eq!((backend.kept.lock().clone(), files()), (vec![100], before), "only what it was given is sent");
}

#[tokio::test]
async fn a_stop_tells_what_the_disk_does_not_take() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Backend::default();
    let first = open(directory.path(), &backend);
    // More than there is room for without the directory.
    send(&first, 0..3000).await;
    let second = open(directory.path(), &backend);
    send(&second, 0..50).await;
    let limit = Duration::from_millis(300);
    let started = Instant::now();
    assert_eq!((second.close(limit).await, second.status().closed), (false, 50));
    assert!(started.elapsed() >= limit, "they are tried until then");
    assert_eq!((first.close(PATIENCE).await, first.status().closed), (true, 0));
}

/// As a handler without a directory does.
#[tokio::test]
async fn while_the_disk_takes_nothing_what_waits_at_the_end_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("spill");
    let of_another = Owner { handler: "b.test.ns".to_owned(), ..Owner::for_tests() };
    assert!(crate::spool::Spool::open(&path, 1 << 20, &of_another).unwrap().push(1, b"kept").unwrap());
    let backend = Backend::default();
    let delivery = open(directory.path(), &backend);
    send(&delivery, 0..300).await;
    until("the sink fails", || delivery.status().failures_in_a_row > 0).await;
    let comes_back = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        backend.works(true);
    };
    let (is_done, ()) = tokio::join!(delivery.close(PATIENCE), comes_back);
    let status = delivery.status();
    assert!(is_done, "{status:?}");
    assert_eq!((status.delivered, status.closed), (300, 0), "{status:?}");
}

#[tokio::test]
async fn a_directory_that_is_removed_is_given_up_and_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let (backend, path) = (Backend::default(), directory.path().join("spill"));
    let delivery = open(directory.path(), &backend);
    send(&delivery, 0..5000).await;
    until("everything is on disk", || delivery.status().queued == 0).await;
    until("and nothing on its way", || delivery.status().spilled == delivery.status().on_disk).await;
    std::fs::remove_dir_all(&path).unwrap();
    send(&delivery, 5000..6000).await;
    until("it is noticed", || delivery.status().failed > 0).await;
    until("what comes then is on disk", || {
        let status = delivery.status();
        status.queued == 0 && status.on_disk > 0
    })
    .await;
    let status = delivery.status();
    // Those that were in memory as well are not lost.
    let in_memory = 2 * 200;
    assert!(status.failed >= 5000 - in_memory && status.failed <= 5000 && status.adds_up(), "{status:?}");
    assert!(path.join("00000001.spool").exists());
    backend.works(true);
    until("the rest is delivered", || delivery.status().waiting() == 0).await;
    let kept = backend.kept.lock().clone();
    let status = delivery.status();
    assert_eq!(kept.len() as u64, 6000 - status.failed);
    assert!(kept.is_sorted() && kept.ends_with(&(5000..6000).collect::<Vec<_>>()));
    assert!(delivery.close(PATIENCE).await && delivery.status().adds_up());
}

/// The backend is away, and nothing arrives that would be written.
#[tokio::test]
async fn what_was_removed_does_not_count_as_kept_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Backend::default();
    let delivery = open(directory.path(), &backend);
    send(&delivery, 0..1000).await;
    until("everything is on disk", || {
        let status = delivery.status();
        status.queued == 0 && status.spilled == status.on_disk
    })
    .await;
    std::fs::remove_dir_all(directory.path().join("spill")).unwrap();
    delivery.close(PATIENCE).await;
    let status = delivery.status();
    // The batch in flight is written to the directory that is made anew.
    assert!(status.failed > 500 && status.adds_up(), "{status:?}");
    drop(delivery);
    let path = directory.path().join("spill");
    until("the keeper has ended", || open_with(&path, 1 << 20).is_ok()).await;
    assert_eq!(open_with(&path, 1 << 20).unwrap().items(), status.on_disk);
}

/// As on a file system that does not answer: a FIFO is opened once somebody reads it.
#[tokio::test]
async fn nobody_waits_for_a_directory_that_does_not_answer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("spill");
    std::fs::create_dir(&path).unwrap();
    let fifo = path.join("lock");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let backend = Backend::default();
    backend.works(true);
    let started = Instant::now();
    let (first, second) = (open(directory.path(), &backend), open(directory.path(), &backend));
    assert!(started.elapsed() < Duration::from_secs(30));
    for (delivery, numbers) in [(&first, 0..100), (&second, 100..200)] {
        send(delivery, numbers).await;
        until("it is delivered", || delivery.status().delivered == 100).await;
    }
    let for_longer = |than: u64| {
        let than = Duration::from_millis(than);
        [&first, &second].into_iter().filter(|of| of.disk_silence() > than).count()
    };
    until("one of them waits for the disk", || for_longer(0) > 0).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(for_longer(200), 1, "one thread of the process");
    assert_eq!((first.disk_failure(), second.disk_failure()), (None, None), "it is told after a while");
    // It answers.
    drop(std::fs::File::options().read(true).write(true).open(&fifo).unwrap());
    backend.works(false);
    for delivery in [&first, &second] {
        send(delivery, 0..10).await;
        until("the sink fails", || delivery.status().failures_in_a_row > 0).await;
        send(delivery, 10..20).await;
    }
    until("one of them has the directory", || first.status().on_disk + second.status().on_disk > 0).await;
}

#[tokio::test]
async fn nobody_waits_at_the_end_for_a_directory_that_has_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("spill");
    std::fs::create_dir(&path).unwrap();
    let fifo = path.join("lock");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let backend = Backend::default();
    let delivery = open(directory.path(), &backend);
    send(&delivery, 0..100).await;
    until("the sink fails", || delivery.status().failures_in_a_row > 0).await;
    backend.works(true);
    let started = Instant::now();
    assert!(delivery.close(PATIENCE).await && delivery.status().delivered == 100);
    assert!(started.elapsed() < PATIENCE / 2);
    // It answers.
    drop(std::fs::File::options().read(true).write(true).open(&fifo).unwrap());
    drop(delivery);
}

#[tokio::test]
async fn an_outage_loses_nothing_and_keeps_the_order() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Backend::default();
    let delivery = open(directory.path(), &backend);
    // Twenty times what the queue holds.
    send(&delivery, 0..20_000).await;
    until("the sink fails", || delivery.status().failures_in_a_row > 2).await;
    until("everything is on disk", || delivery.status().queued == 0).await;
    let status = delivery.status();
    assert!(status.spilled + status.in_flight as u64 == 20_000 && status.adds_up(), "{status:?}");
    assert!(status.is_breaker_open && status.spilled_bytes > 0);
    backend.works(true);
    send(&delivery, 20_000..21_000).await;
    until("everything is delivered", || delivery.status().waiting() == 0).await;
    assert_eq!(*backend.kept.lock(), (0..21_000).collect::<Vec<_>>());
    assert!(delivery.close(PATIENCE).await);
    let status = delivery.status();
    assert_eq!((status.delivered, status.dropped(), status.spilled_bytes), (21_000, 0, 0));
}

#[tokio::test]
async fn without_an_outage_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Backend::default();
    backend.works(true);
    let delivery = open(directory.path(), &backend);
    for number in 0..10 {
        send(&delivery, number * 100..(number + 1) * 100).await;
        until("it is delivered", || delivery.status().waiting() == 0).await;
    }
    assert!(delivery.close(PATIENCE).await);
    assert_eq!(*backend.kept.lock(), (0..1000).collect::<Vec<_>>());
    let files = std::fs::read_dir(directory.path().join("spill")).unwrap();
    assert_eq!(
        files.map(|file| file.unwrap().file_name()).collect::<BTreeSet<_>>(),
        ["lock", "owner"].map(Into::into).into()
    );
}

#[tokio::test]
async fn items_that_are_handed_over_together_wake_courier_and_keeper() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Backend::default();
    backend.works(true);
    let delivery = open(directory.path(), &backend);
    // More than half of what the queue holds.
    for turn in 0..20 {
        delivery.accept_each((turn * 900..(turn + 1) * 900).map(Entry));
        until("it is delivered", || delivery.status().waiting() == 0).await;
    }
    assert!(delivery.close(PATIENCE).await);
    assert_eq!(*backend.kept.lock(), (0..18_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_waits_at_the_end_is_delivered_by_the_next_process() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Backend::default();
    let delivery = open(directory.path(), &backend);
    send(&delivery, 0..5000).await;
    until("the sink fails", || delivery.status().failures_in_a_row > 0).await;
    assert!(delivery.close(PATIENCE).await, "everything is kept");
    let status = delivery.status();
    assert_eq!((status.spilled, status.dropped()), (5000, 0));
    assert_eq!(delivery.accept(Entry(1)), Err(crate::NotAccepted::Closed));
    drop(delivery);
    backend.works(true);
    let next = open(directory.path(), &backend);
    // The thread of the first one may still hold the directory.
    until("it is free", || next.status().recovered == 5000).await;
    assert_eq!(next.status().accepted, 5000);
    until("everything is delivered", || next.status().waiting() == 0).await;
    let mut kept = backend.kept.lock().clone();
    // What the courier had when it ended is written last.
    kept.sort_unstable();
    assert_eq!(kept, (0..5000).collect::<Vec<_>>());
    assert!(next.close(PATIENCE).await && next.status().adds_up());
}

#[tokio::test]
async fn what_a_directory_has_that_becomes_free_late_is_delivered_without_new_items() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Backend::default();
    let first = open(directory.path(), &backend);
    send(&first, 0..100).await;
    assert!(first.close(PATIENCE).await, "everything is kept");
    drop(first);
    let mut held = None;
    let path = directory.path().join("spill");
    until("it is free", || {
        held = open_with(&path, 256 << 20).ok();
        held.is_some()
    })
    .await;
    backend.works(true);
    let next = open(directory.path(), &backend);
    // The courier finds nothing, and sleeps.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(next.status().recovered, 0);
    drop(held);
    until("everything is delivered", || next.status().delivered == 100).await;
    assert!(next.close(PATIENCE).await && next.status().adds_up());
}

#[tokio::test]
async fn the_delivery_of_a_replaced_handler_hands_its_directory_over() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Backend::default();
    let first = open(directory.path(), &backend);
    send(&first, 0..3000).await;
    let second = open(directory.path(), &backend);
    send(&second, 3000..3500).await;
    assert_eq!(second.status().recovered, 0);
    assert!(first.close(PATIENCE).await);
    drop(first);
    until("it is free", || second.status().recovered == 3000).await;
    backend.works(true);
    until("everything is delivered", || second.status().waiting() == 0).await;
    let mut kept = backend.kept.lock().clone();
    kept.sort_unstable();
    assert_eq!(kept, (0..3500).collect::<Vec<_>>());
    assert!(second.close(PATIENCE).await && second.status().adds_up());
}

/// Hangs.
struct Hanging;

impl AsyncSink<List<Entry>> for Hanging {
    async fn deliver(&mut self, _: &mut List<Entry>, _: &mut Tally) {
        std::future::pending().await
    }
}

#[tokio::test]
async fn what_a_sink_that_hangs_has_at_the_deadline_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let spill = spill_at(directory.path(), 1 << 20);
    let delivery =
        Delivery::in_task_with_spill("hanging spill", "", Settings::default(), spill.clone(), Hanging)
            .unwrap();
    delivery.accept(Entry(0)).unwrap();
    until("the sink has it", || delivery.status().in_flight == 1).await;
    (1..10).for_each(|number| delivery.accept(Entry(number)).unwrap());
    // Whether it is written within a second is up to the disk.
    let _ = delivery.close(Duration::from_millis(1)).await;
    assert_eq!((delivery.status().spilled, delivery.status().dropped()), (10, 0));
    drop(delivery);
    until("the keeper has ended", || open_with(&spill.directory, spill.bytes).is_ok()).await;
    assert_eq!(open_with(&spill.directory, spill.bytes).unwrap().items(), 10);
}

#[tokio::test]
async fn what_one_handler_keeps_is_not_sent_by_another() {
    let directory = tempfile::tempdir().unwrap();
    let (of_first, of_second) = (Backend::default(), Backend::default());
    of_second.works(true);
    let path = directory.path().join("spill");
    let left = || crate::left_on_disk().into_iter().find(|left| left.directory == path);
    let first = open(directory.path(), &of_first);
    until("it has the directory", || path.join("owner").exists()).await;
    send(&first, 0..100).await;
    let owner = Owner { handler: "b.test.ns".to_owned(), ..Owner::for_tests() };
    let spill = Spill { owner, ..spill_at(&path, 256 << 20) };
    let settings = Settings::default();
    let second = Delivery::in_task_with_spill("spill test", "b", settings, spill, of_second.clone()).unwrap();
    assert!(first.close(PATIENCE).await, "everything is kept");
    drop(first);
    until("that is told, without waiting", || second.disk_failure().is_some()).await;
    let why = second.disk_failure().unwrap();
    let parts = ["a.test.ns of adapter test", "b.test.ns of adapter test", "remove the file `owner`"];
    assert!(parts.iter().all(|part| why.contains(part)), "{why}");
    send(&second, 100..110).await;
    until("it sends what is its own", || second.status().waiting() == 0).await;
    assert_eq!(*of_second.kept.lock(), (100..110).collect::<Vec<_>>());
    assert_eq!((left().unwrap().items, second.status().recovered), (100, 0));
    // That of the first handler comes back.
    of_first.works(true);
    let third = open(directory.path(), &of_first);
    until("it has them", || third.status().delivered == 100).await;
    assert_eq!(left(), None);
    assert!(third.close(PATIENCE).await && second.close(PATIENCE).await);
}

/// Waits at the disk until its gate is open.
#[derive(Debug)]
struct Slow;

static GATE: (Mutex<bool>, parking_lot::Condvar) = (Mutex::new(false), parking_lot::Condvar::new());

impl Item for Slow {
    fn size(&self) -> usize {
        1
    }
}

impl StoredItem for Slow {
    fn encode(&self, _: &mut Vec<u8>) {
        GATE.1.wait_while(&mut GATE.0.lock(), |is_open| !*is_open);
    }

    fn decode(_: &[u8]) -> Option<Self> {
        Some(Self)
    }
}

impl AsyncSink<List<Slow>> for Hanging {
    async fn deliver(&mut self, _: &mut List<Slow>, _: &mut Tally) {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_disk_that_is_slow_beyond_the_deadline_is_free_once_it_works() {
    let directory = tempfile::tempdir().unwrap();
    let spill = spill_at(directory.path(), 1 << 20);
    // A queue with room: the keeper takes nothing before the sink has the first.
    let settings = Settings::default();
    let delivery = Delivery::in_task_with_spill("slow spill", "", settings, spill.clone(), Hanging).unwrap();
    delivery.accept(Slow).unwrap();
    until("the sink has it", || delivery.status().in_flight == 1).await;
    // More than half of what the queue takes.
    (0..2).for_each(|_| delivery.accept(Slow).unwrap());
    assert!(!delivery.close(Duration::from_millis(1)).await, "the disk is slow");
    // It closes once more.
    drop(delivery);
    assert!(open_with(&spill.directory, spill.bytes).is_err());
    *GATE.0.lock() = true;
    GATE.1.notify_all();
    until("the keeper has ended", || open_with(&spill.directory, spill.bytes).is_ok()).await;
    assert_eq!(open_with(&spill.directory, spill.bytes).unwrap().items(), 3);
}

#[tokio::test]
async fn a_disk_that_is_full_drops_what_has_no_room_in_memory_either() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Backend::default();
    let spill = spill_at(directory.path(), 20_000);
    let settings = Settings {
        bounds: Bounds { items: 100, ..Bounds::default() },
        batching: Batching { items: 20, ..Batching::default() },
        retry: Retry {
            first_pause: Duration::from_millis(5),
            longest_pause: Duration::from_millis(10),
            budget: Duration::from_secs(3600),
            breaker_failures: 0,
        },
        ..Settings::default()
    };
    let delivery =
        Delivery::in_task_with_spill("full spill", "", settings, spill.clone(), backend.clone()).unwrap();
    let mut number = 0;
    until("items are dropped", || {
        (0..50).for_each(|_| {
            _ = delivery.accept(Entry(number));
            number += 1;
        });
        delivery.status().full > 100
    })
    .await;
    let status = delivery.status();
    assert!(status.adds_up() && status.spilled_bytes <= 20_000 && status.queued <= 100, "{status:?}");
    backend.works(true);
    until("the rest is delivered", || delivery.status().waiting() == 0).await;
    let kept = backend.kept.lock().clone();
    assert!(kept.is_sorted() && kept.len() as u64 == delivery.status().delivered);
    assert!(delivery.close(PATIENCE).await && delivery.status().adds_up());
}

/// The process that the next test kills: its sink is out of reach, and it prints how many items are on disk.
#[test]
fn spills_until_it_is_killed() {
    let Some(directory) = std::env::var_os("SPILL_DIRECTORY") else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let delivery = open(Path::new(&directory), &Backend::default());
        for turn in 0..10_000 {
            send(&delivery, turn * 100..(turn + 1) * 100).await;
            let status = delivery.status();
            // Records are written in the order of their items; the first batch may be in flight.
            println!("\nkept {}", status.delivered_or_on_disk());
        }
    });
}

impl crate::DeliveryStatus {
    /// Items that are not in memory only.
    fn delivered_or_on_disk(&self) -> u64 {
        let in_memory = (self.queued + self.in_flight + 400) as u64;
        self.accepted.saturating_sub(in_memory)
    }
}

#[tokio::test]
async fn a_killed_process_loses_no_more_than_what_was_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "spill::tests::spills_until_it_is_killed"]);
    command.env("SPILL_DIRECTORY", directory.path());
    let (mut child, output) = start(&mut command);
    let mut kept = 0;
    for line in output.lines() {
        let line = line.unwrap();
        kept = line.strip_prefix("kept ").map_or(kept, |number| number.parse().unwrap());
        if kept > 5000 {
            // SIGKILL; the lines that are still in the pipe are read as well.
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(kept > 5000, "{kept}");
    let backend = Backend::default();
    backend.works(true);
    let delivery = open(directory.path(), &backend);
    until("what it kept is found", || delivery.status().recovered > 0).await;
    let recovered = delivery.status().recovered;
    assert!(recovered >= kept, "{recovered} of at least {kept}");
    until("everything is delivered", || delivery.status().waiting() == 0).await;
    let numbers = backend.kept.lock().clone();
    assert!(numbers.is_sorted() && numbers.len() as u64 == recovered);
    // Only the batch in flight is missing before the newest one.
    let missing = numbers.last().unwrap() + 1 - recovered;
    assert!(missing <= 200, "{missing} are missing in the middle");
    assert!(delivery.close(PATIENCE).await);
}
