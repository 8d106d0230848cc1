use std::path::{Path, PathBuf};
use std::time::Instant;

use super::*;

/// How long a test waits for the writers.
const DEADLINE: Duration = Duration::from_secs(20);

/// Held by each fixture. Configuring a log makes `tracing` ask anew which call sites are enabled. While a single subscriber is
/// alive, `tracing` asks that of the configuring thread: one without a subscriber would disable the call sites of another test.
static ALONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

struct Fixture {
    directory: tempfile::TempDir,
    log: Log,
    path: PathBuf,
    _alone: parking_lot::MutexGuard<'static, ()>,
}

/// Logs `records` to a file and returns its text.
fn logged(change: impl FnOnce(&mut LogOptions), records: impl FnOnce()) -> String {
    let fixture = Fixture::new(change);
    fixture.run(records);
    fixture.text()
}

/// Level and text of the records of `run`, with blanks between the fields, and `TIME` for durations.
pub(crate) fn records(run: impl FnOnce()) -> Vec<String> {
    let text = logged(|_| {}, run);
    let durations = regex::Regex::new(r"for [0-9.]+(ns|µs|ms|s) ").unwrap();
    let records = text.lines().filter_map(|line| line.split_once('\t'));
    records
        .map(|(_, record)| durations.replace(&record.replace('\t', " "), "for TIME ").into_owned())
        .collect()
}

impl Fixture {
    fn new(change: impl FnOnce(&mut LogOptions)) -> Self {
        let alone = ALONE.lock();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut options = LogOptions { targets: vec![path.display().to_string()], ..LogOptions::default() };
        change(&mut options);
        Self { log: Log::new(&options).unwrap(), directory, path, _alone: alone }
    }

    fn run(&self, records: impl FnOnce()) {
        tracing::subscriber::with_default(tracing_subscriber::registry().with(self.log.layer()), records);
        assert!(self.log.flush(DEADLINE), "everything is written");
    }

    fn text(&self) -> String {
        read(&self.path)
    }
}

/// The text with its times replaced.
fn read(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z").unwrap();
    time.replace_all(&text, "TIME").into_owned()
}

#[test]
fn text_is_tab_separated() {
    let text = logged(
        |_| {},
        || {
            tracing::info!("Built new config.Snapshot: id='{}'", 0);
            tracing::warn!(target: "adapters", adapter = "till.memquota.istio-system", n = 3, "over");
            tracing::error!(target: "mixer_api::check", ok = true, ratio = 0.5, "1 error occurred:\n\t* x\n");
            tracing::debug!("hidden");
            tracing::error!(n = -1_i64, text = %"a\"b", opt = ?Some(1));
        },
    );
    assert_eq!(
        text,
        "TIME\tinfo\tBuilt new config.Snapshot: id='0'\n\
         TIME\twarn\tadapters\tover\t{\"adapter\": \"till.memquota.istio-system\", \"n\": 3}\n\
         TIME\terror\tapi\t1 error occurred:\\n\\t* x\\n\t{\"ok\": true, \"ratio\": 0.5}\n\
         TIME\terror\t\t{\"n\": -1, \"text\": \"a\\\"b\", \"opt\": \"Some(1)\"}\n"
    );
}

#[test]
fn json_is_one_object_a_line() {
    let text = logged(
        |o| {
            o.as_json = true;
            o.caller = "api".to_owned();
        },
        || {
            tracing::info!(x = "é\n", n = 1_u64, "started");
            tracing::warn!(target: "api", "two\nlines");
        },
    );
    let mut lines = text.lines();
    assert_eq!(lines.next().unwrap(), r#"{"level":"info","time":"TIME","msg":"started","x":"é\n","n":1}"#);
    let second = lines.next().unwrap();
    let start = r#"{"level":"warn","time":"TIME","scope":"api","caller":"log/tests.rs:"#;
    assert!(second.starts_with(start) && second.ends_with(r#"","msg":"two\nlines"}"#), "{second}");
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn levels_are_per_scope() {
    let text = logged(
        |o| o.output_level = "default:none,api:debug,mcp:error".to_owned(),
        || {
            tracing::error!("hidden");
            tracing::trace!(target: "api", "one");
            tracing::warn!(target: "mcp", "hidden");
            tracing::info!(target: "notify::inotify", "hidden");
            tracing::error!(target: "mcp", "two");
            tracing::info!(target: "adapters", "three");
        },
    );
    assert_eq!(text, "TIME\tdebug\tapi\tone\nTIME\terror\tmcp\ttwo\nTIME\tinfo\tadapters\tthree\n");
}

#[test]
fn callers_and_stack_traces_are_per_scope() {
    let text = logged(
        |o| {
            o.caller = "default".to_owned();
            o.stack_trace_level = "default:warn".to_owned();
        },
        || {
            tracing::info!("no stack");
            tracing::warn!("stack");
        },
    );
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("TIME\tinfo\tlog/tests.rs:") && lines[0].ends_with("\tno stack"), "{text}");
    assert!(lines[1].ends_with("\tstack"), "{text}");
    assert!(lines[2].contains("callers_and_stack_traces") || lines.len() > 4, "{text}");
    assert!(lines.iter().skip(3).any(|l| l.starts_with('\t')), "{text}");
}

#[test]
fn scopes_change_while_running() {
    let fixture = Fixture::new(|_| {});
    fixture.run(|| {
        let mut state = fixture.log.scopes().into_iter().find(|s| s.name == "loadshedding").unwrap();
        assert_eq!(
            (state.output_level, state.stack_trace_level, state.caller),
            (LogLevel::Info, LogLevel::None, false)
        );
        for (level, text) in [(LogLevel::Debug, "one"), (LogLevel::None, "hidden"), (LogLevel::Debug, "two")]
        {
            state.output_level = level;
            fixture.log.set_scope(&state).unwrap();
            tracing::debug!(target: "loadshedding", "{text}");
        }
        let unknown = fixture.log.set_scope(&ScopeState { name: "nosuch", ..state });
        assert_eq!(unknown, Err(OptionsError("unknown scope 'nosuch' specified".to_owned())));
    });
    assert_eq!(fixture.text(), "TIME\tdebug\tloadshedding\tone\nTIME\tdebug\tloadshedding\ttwo\n");
}

#[test]
fn records_go_to_every_target() {
    let mut rotated = PathBuf::new();
    let mut second = PathBuf::new();
    let fixture = Fixture::new(|o| {
        rotated = PathBuf::from(&o.targets[0]).with_file_name("rotated.log");
        second = rotated.with_file_name("second");
        std::fs::write(&second, "before\n").unwrap();
        o.targets.push(second.display().to_string());
        o.rotate = rotated.clone();
    });
    fixture.run(|| tracing::info!("hello"));
    for (path, before) in [(&fixture.path, ""), (&second, "before\n"), (&rotated, "")] {
        assert_eq!(read(path), format!("{before}TIME\tinfo\thello\n"), "{path:?}");
    }
    assert_eq!(std::fs::read_dir(&fixture.directory).unwrap().count(), 3);
}

#[test]
fn errors_of_settings_are_those_of_istio_mixer() {
    let refuse = |change: fn(&mut LogOptions)| {
        let mut options = LogOptions::default();
        change(&mut options);
        Log::new(&options).unwrap_err().0
    };
    for (change, text) in [
        ((|o| o.output_level = "loud".to_owned()) as fn(&mut LogOptions), "invalid output level 'loud'"),
        (|o| o.stack_trace_level = "loud".to_owned(), "invalid output level 'loud'"),
        (|o| o.output_level = "a:b:c".to_owned(), "invalid output level format 'a:b:c'"),
        (|o| o.caller = "nosuch".to_owned(), "unknown scope 'nosuch' specified"),
        (
            |o| o.targets = vec!["stdout".to_owned(), "/nonexist/x".to_owned()],
            "couldn't open sink \"/nonexist/x\": open /nonexist/x: no such file or directory",
        ),
    ] {
        assert_eq!(refuse(change), text);
    }
}

#[test]
fn targets_have_scopes() {
    for (target, scope) in [
        ("mixer_adapters::stdio", "adapters"),
        ("mixer_api::mixer_v1", "api"),
        ("mixer_engine::runtime", "default"),
        ("h2::client", "default"),
        ("loadshedding", "loadshedding"),
        ("grpcAdapter", "grpcAdapter"),
        ("", "default"),
    ] {
        assert_eq!(SCOPES[scope_of_target(target)].0, scope, "{target}");
    }
}

#[test]
fn lost_records_are_counted() {
    let fixture = Fixture::new(|o| {
        o.targets = Vec::new();
        o.rotate = PathBuf::from("/proc/nonexist/rotated.log");
        o.create_rotate_directory = true;
    });
    let metrics = crate::metrics::Metrics::new();
    let lost = metrics.counter(crate::metrics::Family::LogRecordsLost, &[]);
    fixture.log.count_lost_in(lost.clone());
    fixture.run(|| tracing::info!("nowhere to go"));
    assert_eq!(lost.get(), 1);
}

#[test]
fn an_idle_log_recovers_when_its_disk_has_space_again() {
    let fixture = Fixture::new(|o| {
        let place = Path::new(&o.targets[0]).parent().unwrap().join("gone/rotated.log");
        o.rotate = place;
        o.create_rotate_directory = true;
    });
    // A file in place of the directory stands for a full disk.
    let blocked = fixture.directory.path().join("gone");
    std::fs::write(&blocked, "").unwrap();
    fixture.run(|| (0..3).for_each(|n| tracing::info!("record {n}")));
    let failure = format!("{}: ", blocked.join("rotated.log").display());
    assert!(fixture.log.last_write().unwrap_err().starts_with(&failure));
    let try_again = || {
        fixture.log.try_again();
        assert!(fixture.log.flush(DEADLINE));
        fixture.log.last_write()
    };
    assert!(try_again().is_err(), "the disk is still full");
    std::fs::remove_file(&blocked).unwrap();
    assert_eq!(try_again(), Ok(()));
    assert_eq!(fixture.log.last_write(), Ok(()));
    fixture.run(|| tracing::info!("after"));
    let text = read(&blocked.join("rotated.log"));
    assert!(text.starts_with("TIME\twarn\t3 log records before this one could not be written: "), "{text}");
    assert!(text.ends_with("\nTIME\tinfo\tafter\n"), "{text}");
    assert_eq!(fixture.text().lines().count(), 4, "sinks that did not fail get no extra record");
}

#[test]
fn debug_records_of_noisy_libraries_are_dropped() {
    let text = logged(
        |o| o.output_level = "all:debug".to_owned(),
        || {
            tracing::debug!(target: "notify::inotify", "an event of the file system, perhaps of this log");
            tracing::warn!(target: "notify::inotify", "a problem");
            tracing::debug!(target: "h2::client", "of use");
        },
    );
    assert_eq!(text, "TIME\twarn\ta problem\nTIME\tdebug\tof use\n");
}

/// A FIFO that is open for reading, so that writing to it blocks once it is full.
fn unread_pipe(directory: &Path) -> (PathBuf, std::fs::File) {
    let path = directory.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    (path, reader)
}

#[test]
fn a_full_pipe_blocks_nobody_and_what_is_lost_is_counted_exactly() {
    let directory = tempfile::tempdir().unwrap();
    let (path, mut reader) = unread_pipe(directory.path());
    let fixture = Fixture::new(|o| {
        o.targets.push(path.display().to_string());
        o.output_level = "all:debug".to_owned();
    });
    let metrics = crate::metrics::Metrics::new();
    let lost = metrics.counter(crate::metrics::Family::LogRecordsLost, &[]);
    fixture.log.count_lost_in(lost.clone());
    let (records, text) = (10_000, "x".repeat(1000));
    let subscriber = tracing_subscriber::registry().with(fixture.log.layer());
    tracing::subscriber::with_default(subscriber, || {
        for n in 0..records {
            // Debug records have no limit of their rate. The other target keeps up.
            tracing::debug!("record {n} {text}");
            if n % 1000 == 0 {
                assert!(fixture.log.sinks()[0].flush(Instant::now() + DEADLINE));
            }
        }
    });
    assert!(!fixture.log.flush(Duration::from_millis(10)), "the pipe is full");
    let count = lost.get();
    assert!(count > 0, "the queue is bounded");
    assert!(records - usize::try_from(count).unwrap() < queue::QUEUE_BYTES / 1000 + 100, "{count} lost");

    let mut read = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    let note = format!("{count} log records before this one could not be written: the queue was full\n");
    while !String::from_utf8_lossy(&read[read.len().saturating_sub(chunk.len() + note.len())..])
        .contains(&note)
    {
        let length = std::io::Read::read(&mut reader, &mut chunk).unwrap();
        read.extend_from_slice(&chunk[..length]);
        assert!(read.len() < 2 * queue::QUEUE_BYTES, "no {note}");
    }
    assert!(fixture.log.flush(DEADLINE));
    let text = String::from_utf8(read).unwrap();
    let written = text.lines().filter(|line| line.contains("\trecord ")).count();
    assert_eq!(written as u64 + count, records as u64, "nothing is lost without being counted");
    assert_eq!(fixture.text().lines().count(), records, "another target gets every record");
    assert_eq!(lost.get(), count);
}

/// Reads what arrives in a FIFO until it contains a text.
fn read_until(mut reader: impl std::io::Read, text: &str) -> String {
    let (mut read, mut chunk) = (String::new(), [0; 1 << 12]);
    while !read.contains(text) {
        let length = reader.read(&mut chunk).unwrap();
        assert!(length > 0, "no {text} in {read}");
        read.push_str(&String::from_utf8_lossy(&chunk[..length]));
    }
    read
}

#[test]
fn a_fifo_gets_records_whenever_somebody_reads_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let fixture = Fixture::new(|o| o.targets.push(path.display().to_string()));
    let unread = format!("{}: no process reads the FIFO", path.display());
    assert_eq!(fixture.log.last_write(), Err(unread.clone()), "known before the first record");
    fixture.run(|| tracing::info!("one"));
    let try_again = || {
        fixture.log.try_again();
        assert!(fixture.log.flush(DEADLINE));
        fixture.log.last_write()
    };
    assert_eq!(try_again(), Err(unread));
    assert_eq!(fixture.text(), "TIME\tinfo\tone\n", "another target gets every record");
    for number in 0..2 {
        // Opened for both directions, the FIFO opens without a writer.
        let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert_eq!(try_again(), Ok(()));
        fixture.run(|| tracing::info!("two"));
        let read = read_until(&reader, "\ttwo\n");
        assert!(read.contains("\t1 log records before this one could not be written: "), "{number} {read}");
        drop(reader);
        // The reader has gone; a process that another test is starting may have it for a moment longer.
        let until = Instant::now() + DEADLINE;
        while fixture.log.last_write().is_ok() && Instant::now() < until {
            fixture.run(|| tracing::info!("three"));
        }
        assert_eq!(fixture.log.last_write(), Err(format!("{}: broken pipe", path.display())));
    }
    fixture.log.reopen().unwrap();
    assert!(fixture.log.flush(DEADLINE), "reopening waits for no reader");
}

#[test]
fn a_file_that_cannot_be_rotated_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let options = LogOptions { rotate: path.clone(), ..LogOptions::default() };
    let path = path.display();
    assert_eq!(
        Log::new(&options).unwrap_err().0,
        format!("couldn't open sink \"{path}\": open {path}: not a regular file but a FIFO")
    );
}

#[test]
fn a_call_site_writes_a_bounded_number_of_records_a_second() {
    let fixture = Fixture::new(|_| {});
    let metrics = crate::metrics::Metrics::new();
    let suppressed = metrics.counter(crate::metrics::Family::LogRecordsSuppressed, &[]);
    fixture.log.count_suppressed_in(suppressed.clone());
    let records = 10_000;
    fixture.run(|| (0..records).for_each(|n| tracing::warn!("record {n}")));
    let count = |text: &str| text.matches("\trecord ").count();
    assert!(count(&fixture.text()) < records / 2, "{}", count(&fixture.text()));
    fixture.run(|| tracing::info!("another call site"));
    assert!(fixture.text().contains("another call site"));
    // The rest is counted when its second has passed.
    let all = || {
        std::thread::sleep(Duration::from_millis(50));
        fixture.run(|| fixture.log.try_again());
        suppressed.get() + count(&fixture.text()) as u64 == records as u64
    };
    assert!((0..400).any(|_| all()), "{} and {}", count(&fixture.text()), suppressed.get());
    assert!(fixture.text().contains("log/tests.rs:"), "the note names the call site: {}", fixture.text());
}

#[test]
fn records_before_a_reopening_are_written_before_those_after_it() {
    let fixture = Fixture::new(|_| {});
    fixture.run(|| {
        tracing::info!("before");
        std::fs::rename(&fixture.path, fixture.path.with_extension("old")).unwrap();
        fixture.log.reopen().unwrap();
        tracing::info!("after");
    });
    assert_eq!(fixture.text(), "TIME\tinfo\tafter\n");
    assert_eq!(read(&fixture.path.with_extension("old")), "TIME\tinfo\tbefore\n");
}

#[test]
fn long_texts_of_a_record_are_cut() {
    for json in [false, true] {
        let long = "\u{1}".repeat(1_000_000);
        let text = logged(
            |options| options.as_json = json,
            || {
                tracing::warn!(name = long, "the quota '{long}'");
                tracing::warn!(name = ?long, error = %long, "a short one");
            },
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        let bound = 6 * (super::cut::MAX_MESSAGE + 3 * super::cut::MAX_VALUE);
        assert!(text.len() < bound + 2000, "{}", text.len());
        assert!(text.contains("… (998976 more bytes)"), "the field");
        assert!(text.contains("… (991820 more bytes)"), "the message: {}", &lines[0][lines[0].len() - 200..]);
    }
}
