use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::testing::{TestClock, problems, test_env};
use mixer_attribute::{SignedDuration, StringMap, Timestamp, Value, ValueType};
use mixer_base::metrics::Family;
use mixer_engine::adapter::{Instance, Leaf};
use mixer_engine::template;

const TIME: Timestamp = Timestamp { seconds: 1_546_398_245, nanos: 678_901_234 };

/// An instance whose values are those of its map, then the other fields in the order given.
fn instance(name: &str, template: &str, map: &str, keys: &[&str], fields: &[&str]) -> BoundInstance {
    let keyed = keys.iter().map(|key| Leaf::new(map, Some(key), ValueType::String));
    let plain = fields.iter().map(|field| Leaf::new(field, None, ValueType::String));
    BoundInstance {
        name: format!("{name}.instance.istio-system").into(),
        template: template::find(template).unwrap(),
        leaves: keyed.chain(plain).collect(),
        messages: Vec::new(),
        plan: None,
        read_outputs: Arc::default(),
    }
}

fn log_entry(keys: &[&str]) -> BoundInstance {
    instance("l", "logentry", "variables", keys, &["timestamp", "severity"])
}

fn to(stream: LogStream, path: &Path) -> Params {
    Params {
        log_stream: stream,
        output_path: path.display().to_string(),
        write_queue_kilobytes: 0,
        ..Params::default()
    }
}

fn queued(stream: LogStream, path: &Path, kilobytes: u32) -> Params {
    Params { write_queue_kilobytes: kilobytes, ..to(stream, path) }
}

async fn build(params: &Params, instances: &[BoundInstance], env: &Env) -> Box<dyn Handler> {
    Stdio::build(params.clone(), instances.to_vec(), env.clone()).await.unwrap()
}

fn report(handler: &dyn Handler, all: &[(usize, &[Option<Value<'_>>])]) -> Result<(), String> {
    let instances: Vec<Instance<'_>> =
        all.iter().map(|(bound, values)| Instance { bound: *bound, name: "unused", values }).collect();
    match handler.as_report().unwrap().report(&instances) {
        Reply::Ready(result) => result.map_err(|e| e.message),
        Reply::Later(_) => panic!("a synchronous reply is expected"),
    }
}

fn text(value: &str) -> Option<Value<'_>> {
    Some(Value::String(value.as_bytes()))
}

#[test]
fn params_are_checked() {
    let with =
        |log_stream, path: &str| Params { log_stream, output_path: path.to_owned(), ..Params::default() };
    let needless = "outputPath: cannot specify an output path when using a STDOUT or STDERR log stream";
    let missing = "outputPath: need a valid output path when using a FILE or ROTATED_FILE log stream";
    let cases: [(LogStream, &str, &[&str]); 8] = [
        (LogStream::Stdout, "", &[]),
        (LogStream::Stderr, "", &[]),
        (LogStream::File, "/x", &[]),
        (LogStream::RotatedFile, "/x", &[]),
        (LogStream::Stdout, "/x", &[needless]),
        (LogStream::Stderr, "/x", &[needless]),
        (LogStream::File, "", &[missing]),
        (LogStream::RotatedFile, "", &[missing]),
    ];
    for (stream, path, expected) in cases {
        assert_eq!(problems::<Stdio>(&with(stream, path)), expected, "{stream:?} {path:?}");
    }
}

#[test]
fn severities_replace_the_defaults() {
    use mixer_config::{MappingEntry, Node, NodeKind};
    let node = |kind| Node::synthetic(kind);
    let entry =
        |key: &str, kind| MappingEntry { key: key.into(), key_span: Default::default(), value: node(kind) };
    let levels = vec![entry("Default", NodeKind::Int(1)), entry("info", NodeKind::String("ERROR".into()))];
    let tree = node(NodeKind::Mapping(vec![
        entry("severity_levels", NodeKind::Mapping(levels)),
        entry("logStream", NodeKind::Int(3)),
    ]));
    let mut params = Params::default();
    assert_eq!(mixer_config::message::decode_over(&mut params, &tree, FieldPath::root()), []);
    assert_eq!(params.severity_levels.len(), 2);
    assert_eq!(
        (params.severity_levels["Default"], params.severity_levels["info"]),
        (Level::Warning, Level::Error)
    );
    assert_eq!(params.log_stream, LogStream::RotatedFile);
    assert_eq!(params.max_megabytes_before_rotation, 100);
}

#[tokio::test]
async fn an_entry_without_severity_has_the_level_of_the_empty_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lines");
    let mut params = to(LogStream::File, &path);
    params.severity_levels = BTreeMap::from([(String::new(), Level::Warning)]);
    let entry = instance("l", "logentry", "variables", &[], &["timestamp", "severity"]);
    let handler = build(&params, &[entry], &test_env("h.istio-system")).await;
    report(&*handler, &[(0, &[None, None]), (0, &[None, text("")]), (0, &[None, text("INFO")])]).unwrap();
    let lines = std::fs::read_to_string(&path).unwrap();
    let levels: Vec<&str> = lines.lines().map(|line| line.split('"').nth(3).unwrap()).collect();
    assert_eq!(levels, ["warn", "warn", "info"]);
}

#[tokio::test]
async fn lines_have_all_types() {
    let keys = ["B", "a.b", "bool", "double", "dur", "ip", "ip6", "map", "none", "q\"x", "s", "ts"];
    let map = StringMap { entries: &[(b"b", b"2"), (b"a", b"\"1")], source: None };
    let mut values = vec![
        Some(Value::Int64(-42)),
        Some(Value::Double(1e21)),
        Some(Value::Bool(true)),
        Some(Value::Double(f64::NAN)),
        Some(Value::Duration(SignedDuration::from_nanos(3_723_004_005_000))),
        Some(Value::Bytes(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 1, 2, 3])),
        Some(Value::Bytes(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
        Some(Value::StringMap(&map)),
        None,
        text("5"),
        Some(Value::String(b"he said \"hi\"\n\t\xff<>&")),
        Some(Value::Timestamp(TIME)),
    ];
    values.extend([Some(Value::Timestamp(TIME)), text("warning")]);
    let empty = [None, None];
    for (as_json, expected) in [
        (
            true,
            concat!(
                r#"{"level":"warn","time":"2019-01-02T03:04:05.678901Z","instance":"l.instance.istio-system","B":-42,"#,
                r#""a.b":1000000000000000000000,"bool":true,"double":"NaN","dur":"1h2m3.004005s","ip":"10.1.2.3","#,
                r#""ip6":"2001:db8::1","map":"stringmap[a:\"1 b:2]","q\"x":"5","s":"he said \"hi\"\n\t\ufffd<>&","#,
                r#""ts":"2019-01-02T03:04:05.678901Z"}"#,
                "\n",
                r#"{"level":"info","time":"0001-01-01T00:00:00.000000Z","instance":"l.instance.istio-system"}"#,
                "\n"
            ),
        ),
        (
            false,
            concat!(
                "2019-01-02T03:04:05.678901Z\twarn\tl.instance.istio-system\t",
                r#"{"B": -42, "a.b": 1000000000000000000000, "bool": true, "double": "NaN", "dur": "1h2m3.004005s", "#,
                r#""ip": "10.1.2.3", "ip6": "2001:db8::1", "map": "stringmap[a:\"1 b:2]", "q\"x": "5", "#,
                r#""s": "he said \"hi\"\n\t\ufffd<>&", "ts": "2019-01-02T03:04:05.678901Z"}"#,
                "\n0001-01-01T00:00:00.000000Z\tinfo\tl.instance.istio-system\n"
            ),
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.log");
        let params = Params { output_as_json: as_json, ..to(LogStream::File, &path) };
        let handler = build(&params, &[log_entry(&keys), log_entry(&[])], &test_env("h")).await;
        report(&*handler, &[(0, &values), (1, &empty)]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }
}

#[tokio::test]
async fn metrics_have_their_value_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.log");
    let env = Env { clock: TestClock::at(Duration::new(1_546_398_245, 1_999)), ..test_env("h") };
    let params =
        Params { metric_level: Level::Error, output_level: Level::Error, ..to(LogStream::File, &path) };
    let bound = instance("m", "metric", "dimensions", &["a", "value"], &["value"]);
    let handler = build(&params, &[bound], &env).await;
    report(&*handler, &[(0, &[text("x"), text("y"), Some(Value::Int64(7))]), (0, &[None, text(""), None])])
        .unwrap();
    let expected = concat!(
        r#"{"level":"error","time":"2019-01-02T03:04:05.000001Z","instance":"m.instance.istio-system","value":7,"a":"x","value":"y"}"#,
        "\n",
        r#"{"level":"error","time":"2019-01-02T03:04:05.000001Z","instance":"m.instance.istio-system","value":null,"a":null,"value":""}"#,
        "\n"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
}

#[tokio::test]
async fn severities_have_levels() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.log");
    let handler = build(&to(LogStream::File, &path), &[log_entry(&[])], &test_env("h")).await;
    let words = ["INFORMATIONAL", "Warning", "WARN", "warn", "err", "FATAL", "Default", "", "INFO "];
    for word in words {
        report(&*handler, &[(0, &[None, text(word)])]).unwrap();
    }
    let lines = std::fs::read_to_string(&path).unwrap();
    let level =
        |l: &str| serde_json::from_str::<serde_json::Value>(l).unwrap()["level"].as_str().unwrap().to_owned();
    let levels: Vec<String> = lines.lines().map(level).collect();
    assert_eq!(levels, ["info", "info", "warn", "warn", "error", "error", "info", "info", "info"]);
}

#[tokio::test]
async fn files_are_appended_to_and_errors_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.log");
    std::fs::write(&path, "before\n").unwrap();
    let env = test_env("h.istio-system");
    let params = to(LogStream::File, &path);
    let first = build(&params, &[log_entry(&[])], &env).await;
    report(&*first, &[(0, &[None, None])]).unwrap();
    let second = build(&params, &[log_entry(&[])], &env).await;
    first.close(Duration::from_secs(1)).await.unwrap();
    report(&*second, &[(0, &[None, None]), (0, &[None, None])]).unwrap();
    second.close(Duration::from_secs(1)).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 4);

    let missing = directory.path().join("no/such/file");
    let error = Stdio::build(to(LogStream::File, &missing), Vec::new(), env.clone()).await.err().unwrap();
    let shown = missing.display();
    assert_eq!(
        error.to_string(),
        format!(
            "could not build logger: couldn't open sink \"{shown}\": open {shown}: no such file or directory"
        )
    );

    let full = build(&to(LogStream::File, Path::new("/dev/full")), &[log_entry(&[])], &env).await;
    let error = report(&*full, &[(0, &[None, None]), (0, &[None, None])]).unwrap_err();
    assert_eq!(error, join_errors(&["write /dev/full: no space left on device"]));
    assert_eq!(env.metrics.counter(Family::StdioLinesLost, &["h.istio-system"]).get(), 2);
}

#[tokio::test]
async fn rotated_files_are_shared_and_long_lines_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/rot.log");
    let env = test_env("h.istio-system");
    let params = Params { max_megabytes_before_rotation: 1, ..to(LogStream::RotatedFile, &path) };
    let first = build(&params, &[log_entry(&["k"])], &env).await;
    let second = build(&params, &[log_entry(&["k"])], &env).await;
    assert!(!path.exists());
    let half = "x".repeat(600_000);
    let whole = "x".repeat(1 << 20);
    report(&*first, &[(0, &[text("1"), None, None])]).unwrap();
    report(&*second, &[(0, &[text(&half), None, None])]).unwrap();
    let error =
        report(&*first, &[(0, &[text(&whole), None, None]), (0, &[text(&half), None, None])]).unwrap_err();
    let length = whole.len() + r#"{"level":"info","time":"0001-01-01T00:00:00.000000Z","instance":"l.instance.istio-system","k":""}"#.len() + 1;
    assert_eq!(error, join_errors(&[format!("write length {length} exceeds maximum file size 1048576")]));
    assert_eq!(env.metrics.counter(Family::StdioLinesLost, &["h.istio-system"]).get(), 1);
    let lines = |path: &Path| std::fs::read_to_string(path).unwrap().lines().count();
    let mut counts: Vec<usize> =
        std::fs::read_dir(path.parent().unwrap()).unwrap().map(|e| lines(&e.unwrap().path())).collect();
    counts.sort_unstable();
    assert_eq!((counts, lines(&path)), (vec![1, 2], 1));
}

#[tokio::test]
async fn workers_do_not_mix_their_lines() {
    let directory = tempfile::tempdir().unwrap();
    for stream in [LogStream::File, LogStream::RotatedFile] {
        let path = directory.path().join(stream.name());
        let handler: Arc<dyn Handler> =
            build(&to(stream, &path), &[log_entry(&["k"])], &test_env("h")).await.into();
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let handler = &*handler;
                scope.spawn(move || {
                    let value = worker.to_string().repeat(300);
                    let values = [text(&value), None, None];
                    for _ in 0..50 {
                        report(handler, &[(0, &values), (0, &values)]).unwrap();
                    }
                });
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 400);
        for line in text.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }
}

#[tokio::test]
async fn queued_lines_are_written_in_order_before_the_handler_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    for stream in [LogStream::File, LogStream::RotatedFile] {
        let path = directory.path().join(stream.name());
        let params = Params { max_megabytes_before_rotation: 1, ..queued(stream, &path, 64 << 10) };
        let handler = build(&params, &[log_entry(&["k"])], &test_env("h")).await;
        let filler = "x".repeat(200);
        for turn in 0..2000 {
            let value = format!("{turn} {filler}");
            let values = [text(&value), None, None];
            report(&*handler, &[(0, &values), (0, &values), (0, &values)]).unwrap();
        }
        handler.close(Duration::from_secs(10)).await.unwrap();
        let mut files: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().path()).collect();
        files.retain(|file| file.file_name().unwrap().to_string_lossy().starts_with(stream.name()));
        // Rotated files have their time in the name, and the current one sorts first.
        files.sort();
        files.rotate_left(1);
        assert_eq!(files.len() > 1, stream == LogStream::RotatedFile);
        let all: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
        let turns: Vec<usize> = all
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["k"].as_str().unwrap().to_owned()
            })
            .map(|value| value.split(' ').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(turns, (0..6000).map(|line| line / 3).collect::<Vec<_>>());
        std::fs::remove_file(&path).unwrap();
    }
}

/// A named pipe without a reader, as a file to write to.
fn stuck_pipe(directory: &Path) -> (std::path::PathBuf, std::fs::File) {
    let path = directory.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    // Opened for reading and writing, so that neither open blocks.
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    (path, reader)
}

#[tokio::test]
async fn a_sink_that_hangs_delays_no_report_and_drops_lines_that_do_not_fit() {
    use std::io::{BufRead as _, BufReader};
    let directory = tempfile::tempdir().unwrap();
    let (path, reader) = stuck_pipe(directory.path());
    let env = test_env("h.istio-system");
    let handler = build(&queued(LogStream::File, &path, 64), &[log_entry(&["k"])], &env).await;
    let value = "x".repeat(1000);
    let values = [text(&value), None, None];
    // One that waited for the pipe would never end: nobody reads it yet.
    for _ in 0..1000 {
        report(&*handler, &[(0, &values)]).unwrap();
    }
    let dropped = env.metrics.counter(Family::StdioLinesDropped, &["h.istio-system"]).get();
    // The pipe and two buffers hold lines; the others are dropped.
    assert!((700..1000).contains(&dropped), "{dropped}");
    let error = handler.close(Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.message, "lines were not written before the deadline");
    // Once the pipe is read, all queued lines arrive.
    let kept = 1000 - dropped as usize;
    let lines = tokio::task::spawn_blocking(move || {
        BufReader::new(reader)
            .lines()
            .take(kept)
            .filter(|line| line.as_ref().is_ok_and(|l| l.ends_with('}')))
            .count()
    });
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), lines).await.unwrap().unwrap(), kept);
    handler.close(Duration::from_secs(5)).await.unwrap();
    assert_eq!(env.metrics.counter(Family::StdioLinesLost, &["h.istio-system"]).get(), 0);
}

#[tokio::test]
async fn the_queues_of_all_handlers_share_memory() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let pipes = [0, 1].map(|at| stuck_pipe(directories[at].path()));
    let env = test_env("h.istio-system");
    env.commons.insert(Arc::new(MemoryBudget::new(32 << 20)));
    let share = Arc::clone(env.commons.get::<MemoryBudget>().share(Purpose::Queues));
    let dropped = env.metrics.counter(Family::StdioLinesDropped, &["h.istio-system"]);
    let [first, second] = [0, 1].map(|at| queued(LogStream::File, &pipes[at].0, 1 << 20));
    let lines = [log_entry(&["k"])];
    let [first, second] = [build(&first, &lines, &env).await, build(&second, &lines, &env).await];
    let long = "x".repeat(100_000);
    for _ in 0..200 {
        report(&*first, &[(0, &[text(&long), None, None])]).unwrap();
    }
    assert!(dropped.get() > 100, "{} of 200 lines of 100 kB are dropped", dropped.get());
    assert!(share.used() > share.limit() / 2 && share.used() <= share.limit(), "{} bytes", share.used());
    // The other handler has its part.
    let before = dropped.get();
    for _ in 0..3 {
        report(&*second, &[(0, &[text(&long), None, None])]).unwrap();
    }
    assert_eq!(dropped.get(), before);
    // Without readers the writers end, and nothing is kept.
    drop((first, second, pipes));
    for _ in 0..500 {
        if share.used() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes are still in use", share.used());
}

#[tokio::test]
async fn lines_that_cannot_be_written_are_counted() {
    let env = test_env("h.istio-system");
    let handler = build(&queued(LogStream::File, Path::new("/dev/full"), 64), &[log_entry(&[])], &env).await;
    report(&*handler, &[(0, &[None, None]), (0, &[None, None])]).unwrap();
    handler.close(Duration::from_secs(5)).await.unwrap();
    assert_eq!(env.metrics.counter(Family::StdioLinesLost, &["h.istio-system"]).get(), 2);
    assert_eq!(handler.status().trouble.as_deref(), Some("the last 2 lines could not be written"));
}

/// The counter of losses is that of the name: a handler that was mended, or whose disk has room again, is in no trouble.
#[tokio::test]
async fn trouble_ends_when_lines_are_written_again() {
    let directory = tempfile::tempdir().unwrap();
    let env = test_env("h.istio-system");
    let trouble = |handler: &dyn Handler| handler.status().trouble;
    for path in ["/dev/full", "/dev/null"] {
        let handler = build(&to(LogStream::File, Path::new(path)), &[log_entry(&[])], &env).await;
        assert_eq!(trouble(&*handler), None, "{path}");
        let is_lost = report(&*handler, &[(0, &[None, None])]).is_err();
        assert_eq!(trouble(&*handler).is_some(), is_lost, "{path}");
    }
    let params = Params {
        max_megabytes_before_rotation: 1,
        ..to(LogStream::RotatedFile, &directory.path().join("rot.log"))
    };
    let handler = build(&params, &[log_entry(&["k"])], &env).await;
    let long = "x".repeat(1 << 20);
    report(&*handler, &[(0, &[text(&long), None, None])]).unwrap_err();
    assert_eq!(trouble(&*handler).as_deref(), Some("the last line could not be written"));
    report(&*handler, &[(0, &[text("1"), None, None])]).unwrap();
    assert_eq!(trouble(&*handler), None);
}

#[tokio::test]
async fn a_dropped_handler_writes_its_queued_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.log");
    let handler = build(&queued(LogStream::File, &path, 64), &[log_entry(&[])], &test_env("h")).await;
    report(&*handler, &[(0, &[None, None])]).unwrap();
    drop(handler);
    for _ in 0..500 {
        if std::fs::read_to_string(&path).unwrap().lines().count() == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the line does not come");
}

#[tokio::test]
async fn a_report_larger_than_the_queue_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.log");
    let handler = build(&queued(LogStream::File, &path, 1), &[log_entry(&["k"])], &test_env("h")).await;
    let value = "x".repeat(5000);
    report(&*handler, &[(0, &[text(&value), None, None])]).unwrap();
    handler.close(Duration::from_secs(5)).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
}
