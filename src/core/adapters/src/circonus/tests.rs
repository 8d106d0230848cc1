use std::time::Duration;

use mixer_attribute::{SignedDuration, Value, ValueType};
use mixer_engine::adapter::{BoundInstance, Handler, Instance, Leaf};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, UnixListener};

use super::*;
use crate::testing::{bound, problems, ready, test_env};

const PATIENCE: Duration = Duration::from_secs(60);

fn metric(name: &str, value_type: ValueType) -> BoundInstance {
    let mut instance = bound(name, "metric", "dimensions", &[]);
    instance.leaves = [Leaf::new("value", None, value_type)].into();
    instance
}

fn counter(url: String) -> Params {
    let metrics = vec![MetricInfo { name: "c.instance.ns".to_owned(), kind: MetricType::Counter }];
    Params {
        submission_url: url,
        submission_interval: SignedDuration::from_secs(1),
        metrics,
        ..Params::default()
    }
}

async fn build(params: Params) -> Box<dyn Handler> {
    let instances = vec![metric("c.instance.ns", ValueType::Int64)];
    Circonus::build(params, instances, test_env("h.istio-system")).await.unwrap()
}

fn count(handler: &dyn Handler, times: usize) {
    let values = [Some(Value::Int64(7))];
    let instances = vec![Instance { bound: 0, name: "c.instance.ns", values: &values }; times];
    ready(handler.as_report().unwrap().report(&instances));
}

/// The next request of a connection, which is answered.
async fn answer(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), status: &str, reply: &str) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse::<usize>().unwrap() {
                let reply = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{reply}", reply.len());
                stream.write_all(reply.as_bytes()).await.unwrap();
                let first = head.lines().next().unwrap();
                return format!("{first} {body}");
            }
        }
        let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut bytes)).await.unwrap().unwrap();
        assert!(read > 0, "the connection ends");
    }
}

fn request(path: &str, count: usize) -> String {
    format!(r#"PUT {path} HTTP/1.1 {{"c.instance.ns":{{"_type":"L","_value":{count}}}}}"#)
}

#[tokio::test]
async fn counts_add_up_while_the_trap_is_away() {
    let place = TcpSocket::new_v4().unwrap();
    place.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let handler = build(counter(format!("http://{}/trap/secret", place.local_addr().unwrap()))).await;
    count(&*handler, 2);
    while handler.status().trouble.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!format!("{:?}", handler.status()).contains("secret"));
    // More than an interval.
    for _ in 0..3 {
        count(&*handler, 1);
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    let listener = place.listen(16).unwrap();
    let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let ok = r#"{"stats":1}"#;
    let first = answer(&mut stream, "200 OK", ok).await;
    let second = answer(&mut stream, "200 OK", ok).await;
    assert_eq!((first, second), (request("/trap/secret", 2), request("/trap/secret", 3)));
    // What was counted since is submitted at the end.
    count(&*handler, 4);
    let (closed, last) = tokio::join!(handler.close(PATIENCE), answer(&mut stream, "200 OK", ok));
    closed.unwrap();
    assert_eq!((last, handler.status().trouble), (request("/trap/secret", 4), None));
}

#[tokio::test]
async fn the_url_in_a_file_is_followed_and_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("url");
    let [first, second] = [TcpListener::bind("127.0.0.1:0").await, TcpListener::bind("127.0.0.1:0").await];
    let (first, second) = (first.unwrap(), second.unwrap());
    let write = |text: String| {
        std::fs::write(directory.path().join("new"), text).unwrap();
        std::fs::rename(directory.path().join("new"), &file).unwrap();
    };
    write(format!("http://{}/hunter2\n", first.local_addr().unwrap()));
    let params = Params { submission_url_file: file.to_str().unwrap().to_owned(), ..counter(String::new()) };
    assert_eq!(problems::<Circonus>(&Params { metrics: Vec::new(), ..params.clone() }), [""; 0]);
    let handler = build(params).await;
    count(&*handler, 1);
    let (mut stream, _) = tokio::time::timeout(PATIENCE, first.accept()).await.unwrap().unwrap();
    assert_eq!(answer(&mut stream, "200 OK", r#"{"stats":1}"#).await, request("/hunter2", 1));
    write("hunter3".to_owned());
    count(&*handler, 1);
    while handler.status().trouble.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let shown = format!("{:?}", handler.status());
    assert!(shown.contains("the submission URL is not http://HOST") && !shown.contains("hunter"), "{shown}");
    write(format!("http://{}/hunter4", second.local_addr().unwrap()));
    let (mut stream, _) = tokio::time::timeout(PATIENCE, second.accept()).await.unwrap().unwrap();
    assert_eq!(answer(&mut stream, "200 OK", r#"{"stats":1}"#).await, request("/hunter4", 1));
}

#[tokio::test]
async fn an_agent_is_behind_a_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("agent.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let url = format!("http+unix://{}/write/check-7", socket.display());
    assert_eq!(problems::<Circonus>(&Params { metrics: Vec::new(), ..counter(url.clone()) }), [""; 0]);
    let handler = build(counter(url)).await;
    count(&*handler, 3);
    let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    assert_eq!(answer(&mut stream, "204 No Content", "").await, request("/write/check-7", 3));
    handler.close(PATIENCE).await.unwrap();
}

#[test]
fn parameters_are_checked() {
    let of = |url: &str| {
        problems::<Circonus>(&Params { submission_url: url.to_owned(), ..Params::default() }).join("; ")
    };
    for valid in ["http://trap/x", "https://trap", "http+unix:///run/a.sock/write/x"] {
        assert_eq!(of(valid), "", "{valid}");
    }
    assert_eq!(of(""), "submission_url: parse \"\": empty url");
    for url in ["/x", "ftp://trap/x", "http:///x", "http+unix:///run/a.sock", "http+unix://run/write/x"] {
        // Its path is a secret.
        let expected = "the handler will not be built: `***` is not http://HOST, https://HOST or http+unix://SOCKET/write/ID";
        assert_eq!(of(url), expected, "{url}");
    }
    assert_eq!(of("no url"), "submission_url: parse \"no url\": invalid URI for request");
    for (url, why) in [
        ("::SECRET", "missing protocol scheme"),
        ("SECRET", "invalid URI for request"),
        ("http://h:SECRET/x", "invalid port \"***\" after host"),
        ("http://h/a%SECRET", "invalid URL escape \"***\""),
        ("http://h/\": SECRET\u{1}", "net/url: invalid control character in URL"),
    ] {
        assert_eq!(of(url), format!("submission_url: parse \"***\": {why}"), "{url}");
    }
    let both = Params { submission_url_file: "/url".to_owned(), ..counter("http://trap".to_owned()) };
    let text = "the handler will not be built: there is more than one submission URL".to_owned();
    assert!(problems::<Circonus>(&both).contains(&text));
    let mut found = mixer_config::Diagnostics::new();
    let kinds = [("g.instance.ns", MetricType::Gauge), ("u.instance.ns", MetricType::Unknown)];
    let metrics = kinds.map(|(name, kind)| MetricInfo { name: name.to_owned(), kind }).to_vec();
    let instances = [metric("g.instance.ns", ValueType::Double), metric("u.instance.ns", ValueType::Int64)];
    Circonus::validate(&Params { metrics, ..counter("http://trap".to_owned()) }, &instances, &mut found);
    let found: Vec<String> = found.into_iter().map(|problem| problem.message.clone()).collect();
    let expected = [
        "the value of g.instance.ns is no INT64 but a DOUBLE: 0 is submitted",
        "nothing is submitted for u.instance.ns: it has no type",
    ];
    assert_eq!(found, expected);
}
