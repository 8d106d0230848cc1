//! Paid services: strict stand-ins over HTTPS, which verify every request and decode every field, and a real syslog daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::adapter_examples::{MANIFEST, example};
use crate::certificates::{Authority, Files, put};
use crate::senders::{count, handler, report, start, until};
use crate::support::{Collector, DEADLINE, Process, Server, free_port, is_listening, python, wait_for};

const SPAN: &str = r#"---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: span, namespace: istio-system}
spec:
  compiledTemplate: tracespan
  params:
    traceId: '"463ac35c9f6413ad48485a3953bb6124"'
    spanId: '"a2fb4a1d1a96d312"'
    spanName: request.path | "/"
    startTime: timestamp("2019-03-01T10:00:00Z")
    endTime: timestamp("2019-03-01T10:00:01Z")
    httpStatusCode: '503'
    spanTags: {number: request.size | 0, source.name: '"web"', source.ip: ip("10.0.0.1")}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: took, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: '"20ms"'}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: level, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: request.size | 0}}
"#;

/// A stand-in for a service, and the files that a handler needs to reach it.
struct Vendor {
    receiver: Collector,
    root: String,
    secret: PathBuf,
    _files: tempfile::TempDir,
}

/// Every secret of these tests.
pub(crate) const SECRET: &str = "hunter2";

/// A stand-in that speaks HTTP.
pub(crate) fn plain(name: &str) -> Collector {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/vendor_receiver.py");
    Collector::start(&python(), |port| {
        [&script.display().to_string(), name, &port.to_string(), "-", "-", SECRET].map(str::to_owned).into()
    })
}

impl Vendor {
    fn start(name: &str, options: &[&str]) -> Self {
        let files = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let Files { certificate, key } = authority.issue(&["localhost"]).put(files.path(), "server");
        let root = put(files.path(), "root.pem", &authority.certificate);
        let secret = files.path().join("secret");
        std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/vendor_receiver.py");
        let receiver = Collector::start(&python(), |port| {
            let fixed = [&script.display().to_string(), name, &port.to_string(), &certificate, &key, SECRET];
            fixed.iter().chain(options).map(|text| (*text).to_owned()).collect()
        });
        Self { receiver, root, secret, _files: files }
    }

    /// Path and items of the requests that it took so far.
    fn taken(&self) -> Vec<(String, Value)> {
        let text = self.receiver.printed();
        // The last line may be incomplete.
        let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        let all = complete.lines().map(|line| {
            let request: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
            assert!(request["error"].is_null(), "{request}");
            request
        });
        let taken = all.filter(|request| request["outcome"] == "taken");
        taken
            .map(|request| (request["path"].as_str().unwrap().to_owned(), request["items"].clone()))
            .collect()
    }

    /// The items of requests with a path.
    fn items(&self, path: &str) -> Vec<Value> {
        let of_path = self.taken().into_iter().filter(|(of, _)| of == path);
        of_path.flat_map(|(_, items)| items.as_array().unwrap().clone()).collect()
    }
}

#[test]
fn appoptics_takes_every_measurement_although_it_is_busy_at_first() {
    let vendor = Vendor::start("appoptics", &["busy=2"]);
    let directory = tempfile::tempdir().unwrap();
    let params = format!(
        "appopticsAccessTokenFile: '{}', appopticsUrl: 'https://localhost:{}/v1/measurements', caFile: '{}', \
         appopticsBatchSize: 40, metrics: {{hits.instance.istio-system: {{labelNames: [path]}}}}",
        vendor.secret.display(),
        vendor.receiver.port,
        vendor.root
    );
    let mut server = start(directory.path(), &handler("sun", "hits", "solarwinds", &params));
    report(&server, 0..150, "/a b");
    until(&server, "appoptics sender", "all is delivered", |of| count(of, "delivered") == 150);
    // What waits is sent at the end.
    report(&server, 150..160, "/a b");
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let items = vendor.items("/v1/measurements");
    assert_eq!(items.len(), 160);
    for item in &items {
        assert_eq!(
            (&item["name"], &item["tags"]["path"]),
            (&"hits.instance.istio-system".into(), &"/a b".into())
        );
        assert_eq!(item["value"].as_f64(), Some(1.0));
    }
    assert!(vendor.taken().iter().all(|(_, items)| items.as_array().unwrap().len() <= 40));
    assert!(!server.log().contains(SECRET), "{}", server.log());
}

/// A syslog daemon, which writes messages as `priority|host|tag|message`.
pub(crate) struct Rsyslog {
    _process: Process,
    output: PathBuf,
}

impl Rsyslog {
    /// On ports for UDP, TCP and TLS.
    pub(crate) fn start(directory: &Path, ports: [u16; 3], files: &Files, root: &str) -> Self {
        let output = directory.join("messages");
        let [udp, tcp, tls] = ports;
        let config = format!(
            "global(workDirectory=\"{work}\" defaultNetstreamDriverCAFile=\"{root}\" \
             defaultNetstreamDriverCertFile=\"{certificate}\" defaultNetstreamDriverKeyFile=\"{key}\")\n\
             module(load=\"imudp\")\nmodule(load=\"imtcp\")\n\
             input(type=\"imudp\" address=\"127.0.0.1\" port=\"{udp}\")\n\
             input(type=\"imtcp\" address=\"127.0.0.1\" port=\"{tcp}\")\n\
             input(type=\"imtcp\" address=\"127.0.0.1\" port=\"{tls}\" streamDriver.name=\"ossl\" \
             streamDriver.mode=\"1\" streamDriver.authMode=\"anon\")\n\
             template(name=\"line\" type=\"string\" string=\"%pri%|%hostname%|%syslogtag%|%msg%\\n\")\n\
             action(type=\"omfile\" file=\"{output}\" template=\"line\" flushOnTXEnd=\"on\")\n",
            work = directory.display(),
            certificate = files.certificate,
            key = files.key,
            output = output.display(),
        );
        let file = put(directory, "rsyslog.conf", &config);
        let id = directory.join("rsyslog.pid");
        let mut command = Command::new("rsyslogd");
        command.args(["-n", "-f", &file, "-i", &id.display().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process::spawn(&mut command);
        let process = process.expect("rsyslogd is installed: `.ci/run needs` does it");
        let listens = wait_for(DEADLINE, || (is_listening(tcp) && is_listening(tls)).then_some(()));
        assert!(listens.is_some(), "rsyslogd does not listen");
        Self { _process: process, output }
    }

    /// The texts of all messages, whose priority, host and process are right.
    pub(crate) fn texts(&self) -> Vec<String> {
        let all = std::fs::read_to_string(&self.output).unwrap_or_default();
        // The last line may be incomplete.
        let complete = all.rsplit_once('\n').map_or("", |(complete, _)| complete);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let start = format!("6|{}|istio[", host.trim());
        // The daemon has messages of its own.
        let messages = complete.lines().filter(|line| line.contains("istio["));
        messages
            .map(|line| {
                let (head, text) = line.split_once("]:| ").unwrap_or_else(|| panic!("{line}"));
                let process = head.strip_prefix(&start).unwrap_or_else(|| panic!("{line}"));
                assert!(process.parse::<u32>().is_ok(), "{line}");
                text.to_owned()
            })
            .collect()
    }
}

#[test]
fn rsyslog_reads_every_message_over_udp_tcp_and_tls() {
    let files = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let root = put(files.path(), "root.pem", &authority.certificate);
    let issued = authority.issue(&["localhost"]).put(files.path(), "server");
    let ports = [free_port(), free_port(), free_port()];
    let rsyslog = Rsyslog::start(files.path(), ports, &issued, &root);
    let directory = tempfile::tempdir().unwrap();
    let params = |protocol: &str, port: u16| {
        format!(
            "papertrailAddress: 'localhost:{port}', papertrailProtocol: {protocol}, caFile: '{root}', \
             logs: {{entry.instance.istio-system: {{payloadTemplate: '{protocol} {{{{.number}}}} {{{{.path}}}}'}}}}"
        )
    };
    let protocols = ["UDP", "TCP", "TLS"];
    let handlers: String = protocols
        .iter()
        .zip(ports)
        .map(|(name, port)| handler(&name.to_lowercase(), "entry", "solarwinds", &params(name, port)))
        .collect();
    let entry = r#"---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: entry, namespace: istio-system}
spec: {compiledTemplate: logentry, params: {severity: '"error"', variables: {number: request.size | 0, path: request.path | "/"}}}
"#;
    let config = format!("{MANIFEST}{NUMBERS}{entry}{handlers}");
    std::fs::write(directory.path().join("config.yaml"), config).unwrap();
    let mut server = Server::on(directory.path()).native().start();
    report(&server, 0..100, "/a\n<0>Jan 1 00:00:00 forged istio[1]: b");
    let all = wait_for(DEADLINE, || (rsyslog.texts().len() >= 300).then_some(()));
    assert!(all.is_some(), "{} of 300 messages\n{}", rsyslog.texts().len(), server.log());
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let messages = rsyslog.texts();
    assert_eq!(messages.len(), 300);
    for protocol in protocols {
        let numbers: BTreeSet<u64> = messages
            .iter()
            .filter_map(|text| {
                let (number, path) = text.strip_prefix(protocol)?.strip_prefix(' ')?.split_once(' ')?;
                assert_eq!(path, "/a\\n<0>Jan 1 00:00:00 forged istio[1]: b");
                number.parse().ok()
            })
            .collect();
        assert_eq!(numbers, (0..100).collect(), "{protocol}: {messages:?}");
    }
}

/// The attribute with the numbers of reports.
const NUMBERS: &str = "kind: attributemanifest
metadata: {name: numbers, namespace: istio-system}
spec:
  attributes:
    request.size: {valueType: INT64}
";

#[test]
fn circonus_counts_everything_although_it_is_busy_at_first() {
    let vendor = Vendor::start("circonus", &["busy=2"]);
    let directory = tempfile::tempdir().unwrap();
    let url = format!("https://localhost:{}/module/httptrap/check/{SECRET}", vendor.receiver.port);
    std::fs::write(&vendor.secret, &url).unwrap();
    let params = format!(
        "submissionUrlFile: '{}', submissionInterval: 1s, caFile: '{}', metrics: [{{name: hits.instance.istio-system, type: COUNTER}}, \
         {{name: took.instance.istio-system, type: DISTRIBUTION}}, {{name: level.instance.istio-system, type: GAUGE}}]",
        vendor.secret.display(),
        vendor.root
    );
    let all = handler("circ", "hits, took, level", "circonus", &params);
    let mut server = start(directory.path(), &format!("{SPAN}{all}"));
    report(&server, 0..120, "/");
    until(&server, "circonus sender", "all is delivered", |of| count(of, "delivered") >= 3);
    report(&server, 120..150, "/");
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let items = vendor.items(&format!("/module/httptrap/check/{SECRET}"));
    let of = |name: &'static str| {
        items.iter().filter(move |item| item["name"] == format!("{name}.instance.istio-system"))
    };
    assert_eq!(of("hits").map(|item| item["_value"].as_u64().unwrap()).sum::<u64>(), 150);
    assert_eq!(of("level").next_back().unwrap()["_value"], 149);
    let bins = of("took").flat_map(|item| item["_value"].as_array().unwrap());
    let counted =
        bins.map(|bin| bin.as_str().unwrap().strip_prefix("H[2.0e+07]=").unwrap().parse::<u64>().unwrap());
    assert_eq!(counted.sum::<u64>(), 150);
    assert!(!server.log().contains(SECRET), "{}", server.log());
}

#[test]
fn signalfx_takes_datapoints_and_spans_although_it_is_busy_at_first() {
    let vendor = Vendor::start("signalfx", &["busy=3"]);
    let directory = tempfile::tempdir().unwrap();
    let params = format!(
        "accessTokenFile: '{}', ingestUrl: 'https://localhost:{}', caFile: '{}', datapointInterval: 1s, tracingBufferSize: 500, \
         metrics: [{{name: hits.instance.istio-system, type: COUNTER}}, {{name: took.instance.istio-system, type: HISTOGRAM}}]",
        vendor.secret.display(),
        vendor.receiver.port,
        vendor.root
    );
    let all = handler("sfx", "hits, took, span", "signalfx", &params);
    let mut server = start(directory.path(), &format!("{SPAN}{all}"));
    report(&server, 0..100, "/a?b=1");
    until(&server, "signalfx span sender", "all is delivered", |of| count(of, "delivered") == 100);
    // Two hundred series, so that requests are compressed.
    for number in 0..200 {
        report(&server, 0..1, &format!("/{number}"));
    }
    until(&server, "signalfx metric sender", "points are delivered", |of| count(of, "delivered") > 200);
    report(&server, 0..7, "/a?b=1");
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let spans = vendor.items("/v1/trace");
    assert_eq!(spans.len(), 307);
    let numbers: BTreeSet<&str> = spans
        .iter()
        .filter(|span| span["name"] == "/a")
        .map(|span| {
            assert_eq!((&span["tags"]["b"], &span["tags"]["error"]), (&"1".into(), &"server error".into()));
            assert_eq!(span["localEndpoint"]["ipv4"], "10.0.0.1");
            assert_eq!(
                (&span["timestamp"], &span["duration"]),
                (&1_551_434_400_000_000_u64.into(), &1_000_000.into())
            );
            span["tags"]["number"].as_str().unwrap()
        })
        .collect();
    assert_eq!(numbers.len(), 100);
    // The last value of every series.
    let mut sums: BTreeMap<(String, String), f64> = BTreeMap::new();
    for point in vendor.items("/v2/datapoint") {
        let value = &point["value"];
        let number =
            value["doubleValue"].as_f64().or_else(|| value["intValue"].as_str()?.parse().ok()).unwrap();
        let is_sum = point["metricType"] == "CUMULATIVE_COUNTER";
        let metric = point["metric"].as_str().unwrap().to_owned();
        assert_eq!(is_sum, ![".min", ".max", ".p"].iter().any(|suffix| metric.contains(suffix)), "{point}");
        let dimensions = point["dimensions"].to_string();
        if let Some(before) = sums.insert((metric, dimensions), number) {
            assert!(!is_sum || before <= number, "{point} after {before}");
        }
    }
    let hits = sums.iter().filter(|((metric, _), _)| metric == "hits.instance.istio-system");
    assert_eq!((hits.clone().count(), hits.map(|(_, sum)| sum).sum::<f64>()), (201, 307.0));
    let took = |suffix: &str| sums[&(format!("took.instance.istio-system{suffix}"), "null".to_owned())];
    assert_eq!((took(".count"), took(".sum"), took(".p50")), (307.0, 307.0 * 2e7, 2e7));
    assert!(!server.log().contains(SECRET), "{}", server.log());
}

/// Starts a server with an example, in which texts are replaced.
fn run_example(name: &str, replaced: &[(&str, &str)]) -> (Server, tempfile::TempDir) {
    let mut text = example(name).to_owned();
    for (from, to) in replaced {
        assert!(text.contains(from), "{from} in {text}");
        text = text.replace(from, to);
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("config.yaml"), format!("{MANIFEST}{NUMBERS}---\n{text}")).unwrap();
    (Server::on(directory.path()).native().start(), directory)
}

#[test]
fn the_examples_send() {
    let sun = Vendor::start("appoptics", &[]);
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(DEADLINE)).unwrap();
    let more = format!(
        "papertrailAddress: {}\n    appopticsUrl: https://localhost:{}/v1/measurements\n    caFile: {}",
        receiver.local_addr().unwrap(),
        sun.receiver.port,
        sun.root
    );
    let replaced = [
        ("/etc/mixer/appoptics-token", sun.secret.to_str().unwrap()),
        ("papertrailUrl: logs1.papertrailapp.com:12345", &more),
    ];
    let (mut server, _directory) = run_example("solarwinds", &replaced);
    report(&server, 0..7, "/a");
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    assert_eq!(sun.items("/v1/measurements").len(), 7);
    let mut buffer = [0; 2000];
    let length = receiver.recv(&mut buffer).unwrap();
    assert!(buffer[..length].ends_with(b"]: unknown /a\n"), "{}", String::from_utf8_lossy(&buffer[..length]));

    let trap = Vendor::start("circonus", &[]);
    let url = format!("https://localhost:{}/module/httptrap/check/{SECRET}", trap.receiver.port);
    std::fs::write(&trap.secret, url).unwrap();
    let file = format!("{}\n    caFile: {}", trap.secret.display(), trap.root);
    let replaced = [("/etc/mixer/circonus-url\n    caFile: /etc/mixer/circonus-ca.pem", file.as_str())];
    let (mut server, _directory) = run_example("circonus", &replaced);
    report(&server, 0..7, "/a");
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    assert_eq!(trap.items(&format!("/module/httptrap/check/{SECRET}"))[0]["_value"], 7);

    let sfx = Vendor::start("signalfx", &[]);
    let url = format!("https://localhost:{}\n    caFile: {}", sfx.receiver.port, sfx.root);
    let token = sfx.secret.display().to_string();
    let replaced = [("/etc/mixer/signalfx-token", token.as_str()), ("https://ingest.us1.signalfx.com", &url)];
    let (mut server, _directory) = run_example("signalfx", &replaced);
    report(&server, 0..7, "/a");
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let points = sfx.items("/v2/datapoint");
    let last = points.last().unwrap();
    assert_eq!(
        (&last["value"]["intValue"], &last["dimensions"][0]["value"]),
        (&"7".into(), &"unknown".into())
    );
}
