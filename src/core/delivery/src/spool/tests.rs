use std::io::BufRead;
use std::process::{Child, Command, Stdio};

use parking_lot::Mutex;
use proptest::prelude::*;

use super::segment::NAME;
use super::*;

const LIMIT: u64 = 64 << 20;

/// Held while a process is started: until it executes its program it has copies of the descriptors of this one, and so holds its locks.
static FORKS: Mutex<()> = Mutex::new(());

/// Starts a process and gives its output, without the first line.
pub(crate) fn start(command: &mut Command) -> (Child, impl BufRead) {
    let _held = FORKS.lock();
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = io::BufReader::new(child.stdout.take().unwrap());
    // What prints a line has executed its program. That `spawn` returned does not say so: the kernel lets the caller go on before it closes
    // the descriptors.
    output.read_line(&mut String::new()).unwrap();
    (child, output)
}

/// Opens a spool, while no process is being started.
pub(crate) fn open_with(directory: &Path, limit: u64) -> io::Result<Spool> {
    open_as(directory, limit, "a.test.ns")
}

fn open_as(directory: &Path, limit: u64, handler: &str) -> io::Result<Spool> {
    let _no_fork = FORKS.lock();
    Spool::open(directory, limit, &Owner { adapter: "test", handler: handler.to_owned() })
}

fn open(directory: &Path) -> Spool {
    open_with(directory, LIMIT).unwrap()
}

/// Takes all records.
fn drain(spool: &mut Spool) -> Vec<Record> {
    let mut records = Vec::new();
    while let Some(record) = spool.oldest().unwrap() {
        spool.remove_oldest().unwrap();
        records.push(record);
    }
    records
}

fn payload(number: u32) -> Vec<u8> {
    format!("record {number} {}", "x".repeat(number as usize % 50)).into_bytes()
}

impl Owner {
    /// That of spools of tests.
    pub(crate) fn for_tests() -> Self {
        Self { adapter: "test", handler: "a.test.ns".to_owned() }
    }
}

#[test]
fn records_of_one_owner_are_not_given_to_another() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let as_other = || open_as(path, LIMIT, "b.test.ns");
    let mut spool = open(path);
    assert_eq!(std::fs::read_to_string(path.join("owner")).unwrap(), "test a.test.ns\n");
    assert!(spool.push(3, b"three").unwrap());
    let refusal = as_other().unwrap_err();
    assert_eq!(refusal.kind(), io::ErrorKind::WouldBlock);
    assert!(refusal.to_string().starts_with("it is in use by a.test.ns of adapter test"), "{refusal}");
    drop(spool);
    let refusal = as_other().unwrap_err();
    assert_eq!(refusal.kind(), OF_ANOTHER);
    let text = refusal.to_string();
    for part in ["a.test.ns of adapter test", "b.test.ns of adapter test", "remove the file `owner`"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(open(path).items(), 3, "its own has them still");
    // The cure; a directory of an earlier version has no such file either.
    std::fs::remove_file(path.join("owner")).unwrap();
    let mut spool = as_other().unwrap();
    assert_eq!(spool.items(), 3);
    drain(&mut spool);
    drop(spool);
    assert!(path.join("owner").exists() && !path.join("owner.tmp").exists());
    assert_eq!(open(path).items(), 0, "without items it is anyone's");
    let refusal = {
        open(path).push(1, b"one").unwrap();
        std::fs::write(path.join("owner"), "\x1b[31m x").unwrap();
        open_with(path, LIMIT).unwrap_err().to_string()
    };
    assert!(!refusal.contains('\x1b'), "{refusal:?}");
}

#[test]
fn records_survive_a_restart_in_their_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/spool");
    for number in 0..10 {
        let mut spool = open(&path);
        assert_eq!(spool.items(), u64::from(number) * 2);
        assert!(spool.push(2, &payload(number)).unwrap());
    }
    for number in 0..10 {
        let mut spool = open(&path);
        let record = spool.oldest().unwrap().unwrap();
        assert_eq!(record, Record { items: 2, payload: payload(number) });
        spool.remove_oldest().unwrap();
        assert_eq!(spool.items(), u64::from(9 - number) * 2);
    }
    assert_eq!(open(&path).oldest().unwrap(), None);
    assert_eq!(open(&path).bytes(), 0, "delivered segments are removed");
}

#[test]
fn two_processes_do_not_share_a_spool() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path());
    assert_eq!(
        open_with(directory.path(), LIMIT).unwrap_err().to_string(),
        "it is in use by another process"
    );
    drop(first);
    open(directory.path());
}

#[test]
fn a_spool_at_its_limit_takes_no_more_until_a_segment_is_delivered() {
    let directory = tempfile::tempdir().unwrap();
    let limit = 3 * SEGMENT;
    let mut spool = open_with(directory.path(), limit).unwrap();
    let record = vec![7; 1 << 20];
    let mut taken = 0;
    while spool.push(1, &record).unwrap() {
        taken += 1;
        assert!(spool.bytes() <= limit);
    }
    assert_eq!((taken, spool.items()), (11, 11), "each segment takes what begins before it is complete");
    for _ in 0..4 {
        assert!(spool.oldest().unwrap().is_some());
        spool.remove_oldest().unwrap();
    }
    assert!(spool.push(1, &record).unwrap());
    assert_eq!(drain(&mut spool).len(), 8);
    assert!(!spool.push(1, &vec![0; LARGEST as usize + 1]).unwrap());
}

/// A spool of records with these payloads; returns the bytes of its only segment and where each record ends.
fn segment(directory: &Path, count: u32) -> (PathBuf, Vec<u8>, Vec<usize>) {
    let mut spool = open(directory);
    let mut ends = Vec::new();
    for number in 0..count {
        assert!(spool.push(1, &payload(number)).unwrap());
        ends.push(spool.bytes() as usize);
    }
    let path = directory.join("00000001.spool");
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(ends.last(), Some(&bytes.len()));
    (path, bytes, ends)
}

#[test]
fn a_segment_that_ends_anywhere_keeps_every_complete_record() {
    let directory = tempfile::tempdir().unwrap();
    let (path, bytes, ends) = segment(directory.path(), 6);
    for length in 0..=bytes.len() {
        let _ = std::fs::remove_file(directory.path().join("cursor"));
        std::fs::write(&path, &bytes[..length]).unwrap();
        let complete = ends.iter().filter(|end| **end <= length).count();
        let mut spool = open(directory.path());
        assert_eq!(spool.items(), complete as u64, "cut at {length}");
        // What follows a cut is readable too.
        assert!(spool.push(1, b"new").unwrap());
        let records = drain(&mut spool);
        assert_eq!(records.len(), complete + 1, "cut at {length}");
        for (number, record) in records[..complete].iter().enumerate() {
            assert_eq!(record.payload, payload(number as u32));
        }
        assert_eq!(records[complete].payload, b"new");
        drop(spool);
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "spool") {
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}

/// Takes all records. Returns how many items are lost with those that are damaged as well.
fn drain_damaged(spool: &mut Spool) -> (Vec<Record>, u64) {
    let (mut records, mut lost) = (Vec::new(), 0);
    loop {
        match spool.oldest() {
            Ok(None) => return (records, lost),
            Ok(Some(record)) => {
                spool.remove_oldest().unwrap();
                records.push(record);
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::InvalidData);
                lost += spool.skip_damaged().unwrap();
            }
        }
    }
}

/// The record that is damaged, and if its length is, those after it in its segment, are lost and counted; never more.
#[test]
fn no_damaged_record_is_delivered_and_the_others_are() {
    let directory = tempfile::tempdir().unwrap();
    let (path, bytes, ends) = segment(directory.path(), 4);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x41;
        let _ = std::fs::remove_file(directory.path().join("cursor"));
        std::fs::write(&path, &damaged).unwrap();
        if at == NAME.len() {
            let error = open_with(directory.path(), LIMIT).unwrap_err();
            assert_eq!(error.to_string(), "it was written by another version");
            continue;
        }
        let mut spool = open(directory.path());
        let waiting = spool.items();
        let (records, lost) = drain_damaged(&mut spool);
        let hit = ends.iter().filter(|end| **end <= at).count();
        let start = if hit == 0 { MAGIC.len() } else { ends[hit - 1] };
        let all: Vec<u32> = (0..4).collect();
        let (expected, counted) = match at {
            _ if at < MAGIC.len() => (all, 0),
            // That of the newest segment may not have been written completely.
            _ if hit == 3 => (all[..3].to_vec(), 0),
            _ if at < start + 4 => (all[..hit].to_vec(), 1),
            _ => (all.into_iter().filter(|number| *number as usize != hit).collect(), 1),
        };
        let payloads: Vec<Vec<u8>> = records.into_iter().map(|record| record.payload).collect();
        assert_eq!(payloads, expected.into_iter().map(payload).collect::<Vec<_>>(), "byte {at}");
        // What the header says of the number of items may be what is damaged.
        assert!(lost >= counted && (lost > 0) == (counted > 0), "byte {at}: {lost}");
        assert_eq!(waiting, payloads.len() as u64 + lost, "byte {at}");
    }
}

#[test]
fn damage_in_an_older_segment_is_counted() {
    // The last record of the second of three segments is damaged, and cut off.
    for (is_cut, lost) in [(false, 7), (true, 1)] {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..3 {
            let mut spool = open(directory.path());
            assert!(spool.push(7, &payload(number)).unwrap());
            assert!(spool.push(7, &payload(number)).unwrap());
        }
        let path = directory.path().join("00000002.spool");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.pop();
        if !is_cut {
            bytes.push(b'?');
        }
        std::fs::write(&path, bytes).unwrap();
        let mut spool = open(directory.path());
        assert_eq!(spool.items(), 35 + lost);
        for _ in 0..3 {
            assert!(spool.oldest().unwrap().is_some());
            spool.remove_oldest().unwrap();
        }
        assert!(spool.oldest().is_err());
        // It opens as it was left.
        drop(spool);
        let mut spool = open(directory.path());
        assert_eq!((spool.items(), spool.skip_damaged().unwrap()), (14 + lost, lost));
        assert_eq!((spool.items(), drain(&mut spool).len()), (14, 2));
    }
}

/// A full disk has no room for another file.
#[test]
fn what_is_delivered_is_removed_although_nothing_can_be_created() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    let record = vec![7; SEGMENT as usize];
    for _ in 0..2 {
        assert!(spool.push(1, &record).unwrap());
    }
    // What a file system that has no room refuses.
    std::fs::create_dir(directory.path().join("cursor.tmp")).unwrap();
    assert!(spool.oldest().unwrap().is_some());
    spool.remove_oldest().unwrap();
    assert!(!directory.path().join("00000001.spool").exists());
    assert_eq!((spool.items(), drain(&mut spool).len(), spool.bytes()), (1, 1, 0));
}

#[test]
fn what_cannot_be_removed_counts_until_it_can() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    assert!(spool.push(1, b"one").unwrap());
    let path = directory.path().join("00000001.spool");
    let aside = directory.path().join("aside");
    assert!(spool.oldest().unwrap().is_some());
    std::fs::rename(&path, &aside).unwrap();
    // Only a file can be removed so.
    std::fs::create_dir(&path).unwrap();
    assert!(spool.remove_oldest().is_err());
    assert!((spool.items(), spool.bytes() > 0, spool.oldest().unwrap()) == (0, true, None));
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    spool.tidy().unwrap();
    assert_eq!((spool.bytes(), path.exists()), (0, false));
}

#[test]
fn files_that_are_no_segments_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    assert!(spool.push(1, b"kept").unwrap());
    drop(spool);
    let names = ["20260101.spool", "7.spool", "notes.spool", "00000000.spool", "00000009.spool"];
    for name in names {
        std::fs::write(directory.path().join(name), "these are the notes of somebody").unwrap();
    }
    // A segment whose head was not written completely.
    std::fs::write(directory.path().join("00000008.spool"), &MAGIC[..3]).unwrap();
    let mut spool = open(directory.path());
    assert!(spool.push(1, b"new").unwrap());
    let payloads: Vec<Vec<u8>> = drain(&mut spool).into_iter().map(|record| record.payload).collect();
    assert_eq!(payloads, [b"kept".to_vec(), b"new".to_vec()]);
    drop(spool);
    open(directory.path());
    for name in names {
        assert!(directory.path().join(name).exists(), "{name}");
    }
    assert!(!directory.path().join("00000008.spool").exists());
}

#[test]
fn a_record_that_is_damaged_while_the_spool_is_open_is_given_up_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    for number in 0..3 {
        assert!(spool.push(5, &payload(number)).unwrap());
    }
    let path = directory.path().join("00000001.spool");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.get_mut(MAGIC.len() + HEADER).unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(spool.oldest().unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert_eq!(spool.skip_damaged().unwrap(), 5);
    assert_eq!(spool.items(), 10);
    assert!(spool.push(1, b"new").unwrap());
    assert_eq!(drain(&mut spool).len(), 3);
}

/// The process that the next test kills: appends records and prints the number of each that is acknowledged.
#[test]
fn appends_until_it_is_killed() {
    let Some(directory) = std::env::var_os("SPOOL_DIRECTORY") else { return };
    let mut spool = open(Path::new(&directory));
    for number in 0..100_000 {
        if spool.push(1, &payload(number)).unwrap() {
            println!("\nacknowledged {number}");
        }
    }
}

#[test]
fn what_a_killed_process_acknowledged_is_not_lost() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "spool::tests::appends_until_it_is_killed"]);
    command.env("SPOOL_DIRECTORY", directory.path());
    let (mut child, output) = start(&mut command);
    let mut acknowledged = Vec::new();
    for line in output.lines() {
        let line = line.unwrap();
        acknowledged.extend(line.strip_prefix("acknowledged ").map(|n| n.parse::<u32>().unwrap()));
        if acknowledged.len() == 50 {
            // SIGKILL; the lines that are still in the pipe are read as well.
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(acknowledged.len() >= 50);
    let records = drain(&mut open(directory.path()));
    for number in acknowledged {
        assert_eq!(records[number as usize].payload, payload(number));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Random pushes, removals and restarts, against a list.
    #[test]
    fn a_spool_is_a_queue(steps in prop::collection::vec((0..4_u8, 1..9_u32, 0..300_usize), 1..60)) {
        let directory = tempfile::tempdir().unwrap();
        let limit = 4000;
        let mut spool = open_with(directory.path(), limit).unwrap();
        let mut model = VecDeque::new();
        for (step, items, size) in steps {
            match step {
                0 | 1 => {
                    let record = Record { items, payload: vec![items as u8; size] };
                    if spool.push(items, &record.payload).unwrap() {
                        model.push_back(record);
                    }
                }
                2 => {
                    let oldest = spool.oldest().unwrap();
                    prop_assert_eq!(oldest.as_ref(), model.front());
                    if oldest.is_some() {
                        spool.remove_oldest().unwrap();
                        model.pop_front();
                    }
                }
                _ => {
                    drop(spool);
                    spool = open_with(directory.path(), limit).unwrap();
                }
            }
            prop_assert_eq!(spool.items(), model.iter().map(|record| u64::from(record.items)).sum::<u64>());
            prop_assert!(spool.bytes() <= limit);
        }
        prop_assert_eq!(model, drain(&mut spool));
    }
}

/// What a file that is no segment leaves room for is below the cursor: it would count as delivered.
#[test]
fn new_segments_are_numbered_beyond_the_cursor() {
    let directory = tempfile::tempdir().unwrap();
    let foreign = directory.path().join("00000001.spool");
    std::fs::write(&foreign, "something else").unwrap();
    // The cursor alternates between two places: each has one.
    for number in 0..3 {
        let mut spool = open(directory.path());
        assert!(spool.push(1, &payload(number)).unwrap());
        assert_eq!(spool.oldest().unwrap().expect("it was pushed").payload, payload(number));
        spool.remove_oldest().unwrap();
    }
    let mut spool = open(directory.path());
    assert!(spool.push(1, &payload(7)).unwrap());
    drop(spool);
    let mut spool = open(directory.path());
    let kept = spool.oldest().unwrap().expect("it was never delivered");
    assert_eq!(kept.payload, payload(7));
    assert!(foreign.exists());
}

/// As who removes old files does, or an operator.
#[test]
fn nothing_counts_as_on_disk_in_a_directory_that_is_removed_or_moved() {
    let place = tempfile::tempdir().unwrap();
    let [path, aside] = ["spool", "aside"].map(|name| place.path().join(name));
    let mut spool = open(&path);
    assert!(spool.push(2, b"one").unwrap());
    for is_removed in [false, true] {
        match is_removed {
            true => std::fs::remove_dir_all(&path).unwrap(),
            false => std::fs::rename(&path, &aside).unwrap(),
        }
        for is_another_there in [false, true] {
            if is_another_there {
                let mut other = open(&path);
                assert!(other.push(1, b"another's").unwrap());
            }
            let errors =
                [spool.check().unwrap_err(), spool.push(1, b"two").unwrap_err(), spool.oldest().unwrap_err()];
            assert_eq!(errors.map(|error| error.kind()), [GONE; 3]);
            assert_eq!((spool.is_removed(), spool.items()), (is_removed, 2));
        }
        if !is_removed {
            std::fs::remove_dir_all(&path).unwrap();
            std::fs::rename(&aside, &path).unwrap();
            assert!(spool.check().is_ok() && spool.push(2, b"two").unwrap());
            // What could not be written is not there.
            assert_eq!(spool.items(), 4);
            assert_eq!(spool.oldest().unwrap().unwrap().payload, b"one");
            spool.remove_oldest().unwrap();
        }
    }
}

#[test]
fn what_another_has_in_the_place_of_a_directory_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let [path, aside] = ["spool", "aside"].map(|name| place.path().join(name));
    let mut spool = open(&path);
    for number in 0..2 {
        assert!(spool.push(1, &vec![number; SEGMENT as usize]).unwrap());
    }
    assert!(spool.oldest().unwrap().is_some());
    std::fs::rename(&path, &aside).unwrap();
    let mut other = open(&path);
    for number in 0..3 {
        assert!(other.push(1, &payload(number)).unwrap());
    }
    assert_eq!(spool.remove_oldest().unwrap_err().kind(), GONE);
    assert_eq!(spool.tidy().unwrap_err().kind(), GONE);
    drop(spool);
    drop(other);
    assert_eq!(drain(&mut open(&path)).len(), 3);
    // The one that was moved has what it had: what was delivered there could not be removed.
    assert_eq!(open(&aside).items(), 2);
}

#[test]
fn a_lock_that_is_removed_is_taken_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    for _ in 0..2 {
        std::fs::remove_file(directory.path().join("lock")).unwrap();
        assert!(spool.push(1, b"one").unwrap());
        assert_eq!(open_with(directory.path(), LIMIT).unwrap_err().to_string(), IN_USE);
    }
    std::fs::remove_file(directory.path().join("lock")).unwrap();
    let other = open(directory.path());
    assert_eq!(spool.push(1, b"two").unwrap_err().to_string(), IN_USE);
    assert_eq!(other.items(), 2);
}

#[test]
fn segments_and_cursors_that_are_removed_are_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    let segment = |number: u64| directory.path().join(file_name(number));
    for number in 0..3 {
        assert!(spool.push(number + 1, &vec![7; SEGMENT as usize]).unwrap());
    }
    assert!(spool.push(5, b"in the newest").unwrap());
    for number in [1, 3, 4] {
        std::fs::remove_file(segment(number)).unwrap();
    }
    assert!(spool.push(7, b"in another one").unwrap());
    assert_eq!(spool.items(), 1 + 2 + 3 + 5 + 7);
    let (records, lost) = drain_damaged(&mut spool);
    assert_eq!(records.iter().map(|record| record.items).collect::<Vec<_>>(), [2, 7]);
    assert_eq!((lost, spool.items(), spool.bytes()), (1 + 3 + 5, 0, 0));
    // Without the cursor, what was delivered would be delivered again after a restart.
    for _ in 0..3 {
        assert!(spool.push(1, b"a").unwrap() && spool.push(1, b"b").unwrap());
        std::fs::remove_file(directory.path().join("cursor")).unwrap();
        assert!(spool.oldest().unwrap().is_some());
        spool.remove_oldest().unwrap();
        drop(spool);
        spool = open(directory.path());
        assert_eq!(drain(&mut spool).into_iter().map(|record| record.payload).collect::<Vec<_>>(), [b"b"]);
    }
}

#[test]
fn a_segment_that_is_cut_off_while_it_is_open_is_given_up_from_there() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path());
    for number in 0..4 {
        assert!(spool.push(1, &payload(number)).unwrap());
    }
    let first = MAGIC.len() + HEADER + payload(0).len();
    let file = OpenOptions::new().write(true).open(directory.path().join("00000001.spool")).unwrap();
    file.set_len(first as u64 + 5).unwrap();
    let (records, lost) = drain_damaged(&mut spool);
    assert_eq!((records.len(), lost, spool.items()), (1, 3, 0));
    assert!(spool.push(1, b"new").unwrap());
    assert_eq!(drain(&mut spool).len(), 1);
}
