use std::sync::Arc;
use std::time::Duration;

use mixer_attribute::{SignedDuration, Value, ValueType};
use mixer_config::{Diagnostics, Severity};
use mixer_engine::adapter::{BoundInstance, Env, Handler, Instance, Leaf, Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

use super::appoptics::{Measured, MeasurementTemplate};
use super::*;
use crate::options::AdapterOptions;
use crate::testing::{TestClock, bound, test_env};

const PATIENCE: Duration = Duration::from_secs(60);
/// The time of the tests: 2019-03-01T10:00:07Z.
const NOW: Duration = Duration::from_secs(1_551_434_407);
const LOG: &str = "l.instance.ns";
const METRIC: &str = "m.instance.ns";

fn logentry(name: &str) -> BoundInstance {
    let variables =
        [("code", ValueType::Int64), ("originIp", ValueType::IpAddress), ("url", ValueType::String)];
    bound(name, "logentry", "variables", &variables)
}

fn metric() -> BoundInstance {
    let dimensions = [("code", ValueType::Int64), ("svc", ValueType::String)];
    let mut instance = bound(METRIC, "metric", "dimensions", &dimensions);
    let value = Leaf::new("value", None, ValueType::Double);
    instance.leaves = instance.leaves.iter().cloned().chain([value]).collect();
    instance
}

fn env() -> Env {
    Env { clock: TestClock::at(NOW), ..test_env("h.istio-system") }
}

fn logs(template: &str) -> Params {
    let info = LogInfo { payload_template: template.to_owned() };
    Params { logs: [(LOG.to_owned(), info)].into(), ..Params::default() }
}

async fn build(params: Params, env: Env) -> Box<dyn Handler> {
    let instances = vec![logentry(LOG), logentry("unknown.instance.ns"), metric()];
    Solarwinds::build(params, instances, env).await.unwrap()
}

/// Reports an entry with a URL. Returns the error.
fn report(handler: &dyn Handler, bound: usize, url: &str) -> String {
    let values =
        [Some(Value::Int64(0)), Some(Value::Bytes(&[10, 0, 0, 1])), Some(Value::String(url.as_bytes()))];
    let name = if bound == 0 { LOG } else { "unknown.instance.ns" };
    let reply = handler.as_report().unwrap().report(&[Instance { bound, name, values: &values }]);
    match reply {
        Reply::Ready(result) => result.map_or_else(|error| error.message, |()| String::new()),
        Reply::Later(_) => panic!("no report waits"),
    }
}

/// What is before the text of every message, and the message.
fn expected(text: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    format!("<6>2019-03-01T10:00:07Z {} istio[{}]: {text}\n", host.trim(), std::process::id())
}

async fn datagram(receiver: &UdpSocket) -> String {
    let mut buffer = [0; 2000];
    let received = tokio::time::timeout(PATIENCE, receiver.recv(&mut buffer)).await;
    String::from_utf8_lossy(&buffer[..received.unwrap().unwrap()]).into_owned()
}

#[tokio::test]
async fn an_entry_is_one_message() {
    let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = receiver.local_addr().unwrap().to_string();
    for (template, escape_html, url, text) in [
        ("", false, "/a?x=<1>", "10.0.0.1 - - [2019-03-01T10:00:07Z] \"- /a?x=<1> -\" - -"),
        (" ", true, "/\"+\"", "10.0.0.1 - - [2019-03-01T10:00:07Z] \"- /&#34;&#43;&#34; -\" - -"),
        ("{{.url}} {{.code}} {{.none}}.\n", false, "one\ntwo\r\u{1b}[31m\tc", "one\\ntwo\\r\\x1b[31m\tc 0 ."),
        ("{{.timestamp.Format \"15:04\"}} {{index .url 1}} lost", false, "x", "10:00 "),
        ("<6>{{.url}}", false, "\n<0>forged", "<6>\\n<0>forged"),
    ] {
        let params = Params { papertrail_address: address.clone(), escape_html, ..logs(template) };
        let handler = build(params, env()).await;
        assert_eq!(report(&*handler, 0, url), "");
        assert_eq!(datagram(&receiver).await, expected(text), "{template}");
        handler.close(PATIENCE).await.unwrap();
    }
}

#[tokio::test]
async fn an_entry_without_a_template_fails_its_report_and_others_are_sent() {
    let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let params =
        Params { papertrail_address: receiver.local_addr().unwrap().to_string(), ..logs("{{.url}}") };
    let handler = build(params, env()).await;
    let text = "error while recording the log message: Got an unknown instance of log: unknown.instance.ns. Hence Skipping.";
    assert_eq!(report(&*handler, 1, "/"), text);
    // Without a text there is no message.
    assert_eq!(report(&*handler, 0, "\n"), "");
    assert_eq!(report(&*handler, 0, "/a"), "");
    assert_eq!(datagram(&receiver).await, expected("/a"));
    // Without an address nothing fails.
    let handler = build(logs(""), env()).await;
    assert_eq!(report(&*handler, 1, "/"), "");
}

async fn read(stream: &mut TcpStream, length: usize) -> String {
    let mut bytes = vec![0; length];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut bytes)).await.unwrap().unwrap();
    String::from_utf8(bytes).unwrap()
}

/// A port at which nobody listens until the socket does; connections are refused, and no other process can take it.
fn silent() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

async fn until_troubled(handler: &dyn Handler) {
    while handler.status().trouble.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn messages_wait_for_a_server_that_comes_later() {
    let (place, address) = silent();
    let of_tcp = |address: &str| Params {
        papertrail_address: address.to_owned(),
        papertrail_protocol: Protocol::Tcp,
        ..logs("{{.url}}")
    };
    let handler = build(of_tcp(&address), env()).await;
    assert_eq!(report(&*handler, 0, "/1"), "");
    until_troubled(&*handler).await;
    assert!(handler.status().trouble.unwrap().starts_with("logs: "), "{:?}", handler.status());
    assert_eq!(report(&*handler, 0, "/2"), "");
    let listener = place.listen(16).unwrap();
    let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let both = expected("/1") + &expected("/2");
    assert_eq!(read(&mut stream, both.len()).await, both);
    handler.close(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn messages_that_are_too_old_are_dropped_while_the_server_is_away() {
    let (place, address) = silent();
    let clock = TestClock::at(NOW);
    let params = Params {
        papertrail_address: address,
        papertrail_protocol: Protocol::Tcp,
        papertrail_local_retention_duration: SignedDuration::from_secs(600),
        ..logs("{{.url}}")
    };
    let handler = build(params, Env { clock: Arc::clone(&clock) as _, ..env() }).await;
    assert_eq!(report(&*handler, 0, "/old"), "");
    until_troubled(&*handler).await;
    clock.set(NOW + Duration::from_secs(601));
    // The next attempt drops it.
    tokio::time::timeout(PATIENCE, async {
        while handler.status().queues[0].length > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(1500)).await;
    })
    .await
    .unwrap();
    clock.set(NOW);
    assert_eq!(report(&*handler, 0, "/new"), "");
    let listener = place.listen(16).unwrap();
    let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    assert_eq!(read(&mut stream, expected("/new").len()).await, expected("/new"));
}

fn measured(value: Option<Value<'_>>, labels: &[&str]) -> Option<String> {
    let info = MetricInfo { label_names: labels.iter().map(|label| (*label).to_owned()).collect() };
    let values = [Some(Value::Int64(404)), Some(Value::String(b"w\"x")), value];
    let instance = Instance { bound: 2, name: METRIC, values: &values };
    match MeasurementTemplate::new(&metric(), &info).measurement(&instance, 7) {
        Measured::Number(number) => Some(number.json().to_owned()),
        Measured::Zero(zero) => Some(format!("zero {}", zero.json())),
        Measured::NotFinite => None,
    }
}

#[test]
fn a_metric_is_a_measurement() {
    let of = |value| measured(Some(value), &[]).unwrap();
    let plain = |number: &str| format!(r#"{{"name":"m.instance.ns","time":7,"value":{number}}}"#);
    assert_eq!(of(Value::Int64(-5)), plain("-5"));
    assert_eq!(of(Value::Double(1.5)), plain("1.5"));
    assert_eq!(of(Value::Duration(SignedDuration::from_millis(1500))), plain("1.5"));
    assert_eq!(of(Value::String(b"2.25")), plain("2.25"));
    for none in [Value::String(b"x"), Value::Bool(true)] {
        assert_eq!(of(none), format!("zero {}", plain("0")));
    }
    assert_eq!(measured(None, &[]), Some(format!("zero {}", plain("0"))));
    for infinite in [Value::Double(f64::NAN), Value::String(b"inf")] {
        assert_eq!(measured(Some(infinite), &[]), None);
    }
    let tagged =
        r#"{"name":"m.instance.ns","tags":{"code":"404","none":"","svc":"w\"x"},"time":7,"value":1}"#;
    assert_eq!(measured(Some(Value::Int64(1)), &["svc", "code", "none", "svc"]).as_deref(), Some(tagged));
}

/// The next request of a connection: its head and its body. It is answered.
async fn answer(stream: &mut TcpStream, status: &str, reply: &str) -> (String, String) {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse::<usize>().unwrap() {
                let reply = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{reply}", reply.len());
                stream.write_all(reply.as_bytes()).await.unwrap();
                return (head.to_owned(), body.to_owned());
            }
        }
        let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut bytes)).await.unwrap().unwrap();
        assert!(read > 0, "the connection ends");
    }
}

#[tokio::test]
async fn measurements_are_sent_in_batches_with_a_token_that_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "first\n").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let params = Params {
        appoptics_access_token_file: token.to_str().unwrap().to_owned(),
        appoptics_url: format!("http://{}/v1/measurements", listener.local_addr().unwrap()),
        appoptics_batch_size: 2,
        metrics: [(METRIC.to_owned(), MetricInfo::default())].into(),
        ..Params::default()
    };
    let handler = build(params, env()).await;
    let values = [None, None, Some(Value::Int64(1))];
    let instance = Instance { bound: 2, name: METRIC, values: &values };
    let infinite = [None, None, Some(Value::Double(f64::INFINITY))];
    let infinite = Instance { values: &infinite, ..instance };
    crate::testing::ready(handler.as_report().unwrap().report(&[instance, infinite, instance, instance]));
    let one = r#"{"name":"m.instance.ns","time":1551434407,"value":1}"#;
    let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let two = format!(r#"{{"measurements":[{one},{one}]}}"#);
    let basic =
        |head: &str| head.lines().find_map(|line| line.strip_prefix("authorization: ")).map(str::to_owned);
    let (head, body) = answer(&mut stream, "401 Unauthorized", "").await;
    assert!(head.starts_with("POST /v1/measurements HTTP/1.1\r\n"), "{head}");
    assert_eq!((basic(&head).as_deref(), body), (Some("Basic dG9rZW46Zmlyc3Q="), two.clone()));
    std::fs::write(&token, "second, longer").unwrap();
    let (head, body) = answer(&mut stream, "202 Accepted", "{}").await;
    assert_eq!((basic(&head).as_deref(), body), (Some("Basic dG9rZW46c2Vjb25kLCBsb25nZXI="), two));
    let refused = r#"{"errors":{"request":["no"]}}"#;
    let (_, body) = answer(&mut stream, "400 Bad Request", refused).await;
    assert_eq!(body, format!(r#"{{"measurements":[{one}]}}"#));
    handler.close(PATIENCE).await.unwrap();
    let why = r#"metrics: HTTP status 400 Bad Request: {"request":["no"]}"#;
    assert_eq!(handler.status().trouble.as_deref(), Some(why));
}

/// Texts of errors and warnings.
fn problems(params: &Params, instances: &[BoundInstance]) -> (Vec<String>, Vec<String>) {
    let mut problems = Diagnostics::new();
    Solarwinds::validate(params, instances, &mut problems);
    let (errors, warnings): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(|problem| problem.severity == Severity::Error);
    let text =
        |all: Vec<mixer_config::Diagnostic>| all.into_iter().map(|problem| problem.message.clone()).collect();
    (text(errors), text(warnings))
}

#[test]
fn parameters_are_checked() {
    let none: [String; 0] = [];
    let errors = |params: Params| problems(&params, &[]).0;
    let base = || Params { appoptics_access_token: "t".to_owned(), ..Params::default() };
    assert_eq!(errors(base()), none);
    let nothing = "nothing is sent: there is neither a token of AppOptics nor an address of Papertrail";
    assert_eq!(problems(&Params::default(), &[]), (vec![], vec![nothing.to_owned()]));
    let not_built = |why: &str| vec![format!("the handler will not be built: {why}")];
    assert_eq!(
        errors(Params { appoptics_url: "api.appoptics.com".to_owned(), ..base() }),
        not_built("`api.appoptics.com` is not http://HOST or https://HOST")
    );
    assert_eq!(
        errors(Params { appoptics_access_token_file: "/t".to_owned(), ..base() }),
        not_built("there is more than one token of AppOptics")
    );
    for address in ["logs", ":514", "logs:0", "logs:x"] {
        let found = errors(Params { papertrail_address: address.to_owned(), ..base() });
        assert_eq!(found, not_built(&format!("`{address}` is not HOST:PORT")));
    }
    let both = Params { papertrail_address: "logs:514".to_owned(), ..base() };
    let (found, warnings) = problems(&both, &[logentry(LOG), metric()]);
    let expected = [
        format!("{LOG} has no entry in `logs`, and fails its reports"),
        format!("{METRIC} has no entry in `metrics`, and is not sent"),
    ];
    assert_eq!((found, warnings.as_slice()), (vec![], expected.as_slice()));
}

#[tokio::test]
async fn a_template_that_is_none_is_refused_unless_called_as_mixs() {
    let params = Params { papertrail_address: "127.0.0.1:9".to_owned(), ..logs("{{.a") };
    let text = format!("the handler will not be built: template: {LOG}:1: unclosed action");
    assert_eq!(problems(&params, &[logentry(LOG)]).0, [text]);
    let instances = || vec![logentry(LOG)];
    let refused = Solarwinds::build(params.clone(), instances(), env()).await.err().unwrap();
    assert_eq!(refused.to_string(), format!("template: {LOG}:1: unclosed action"));
    let env = env();
    env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
    let handler = Solarwinds::build(params, instances(), env).await.unwrap();
    assert!(report(&*handler, 0, "/").contains("Got an unknown instance of log"));
}
