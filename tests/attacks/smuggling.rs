//! Requests that say two things, that are of another protocol, or that ask for what they may not see.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::scene::{Attacker, Scene};
use crate::support::DEADLINE;
use crate::support::good_client::Frames;
use crate::support::http2::{self, DATA, END_STREAM, GOAWAY, HEADERS, PREFACE, RST_STREAM, frame};
use crate::support::rpc::CHECK;
use crate::support::wire::connect;

/// What no page may have.
const SECRET: &str = "hunter2";

/// A handler with a secret parameter, which no rule uses.
const WITH_SECRET: &str = "---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: sends, namespace: istio-system}
spec:
  compiledAdapter: signalfx
  params:
    ingestUrl: 'http://127.0.0.1:1'
    accessToken: hunter2
    metrics: [{name: calls.instance.istio-system, type: COUNTER}]
";

/// What comes back on a connection to an HTTP port that sends this.
fn exchange(port: u16, request: &str) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(text)?;
    stream.set_read_timeout(Some(DEADLINE)).map_err(text)?;
    stream.write_all(request.as_bytes()).map_err(text)?;
    let mut answer = Vec::new();
    // A server that refuses closes its end before it has read everything.
    match stream.read_to_end(&mut answer) {
        Err(error) if answer.is_empty() => return Err(format!("{request:?}: {error}")),
        _ => {}
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The answer to `request` begins with this status.
fn expect(port: u16, request: &str, status: u16) -> Result<(), String> {
    let answer = exchange(port, request)?;
    match answer.starts_with(&format!("HTTP/1.1 {status} ")) {
        true => Ok(()),
        false => Err(format!("{request:?}: {:?}", answer.lines().next())),
    }
}

/// Requests over HTTP/1.1 with lengths that contradict each other or are none.
fn smuggler(port: u16) -> Attacker {
    let request = |lengths: &str| {
        format!(
            "POST /metrics HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\nhello GET /smuggled HTTP/1.1\r\n\r\n"
        )
    };
    let requests =
        ["Content-Length: +5\r\n", "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5, 6\r\n"]
            .map(request);
    Box::new(move || requests.iter().try_for_each(|request| expect(port, request, 400)))
}

/// Pages for operators, asked for by foreign names and from foreign sites.
fn stranger(port: u16) -> Attacker {
    let get = |host: &str| format!("GET /configz/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let post = |site: &str| {
        format!(
            "POST /signalz/SIGUSR1 HTTP/1.1\r\nHost: localhost\r\n{site}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    };
    let mut requests: Vec<(String, u16)> = ["evil.example.com", "localhost:1.evil.com", "localhost.evil.com"]
        .map(|host| (get(host), 421))
        .into();
    requests.extend(
        ["Origin: http://evil.example.com", "Referer: http://evil.example.com/"].map(|s| (post(s), 403)),
    );
    Box::new(move || requests.iter().try_for_each(|(request, status)| expect(port, request, *status)))
}

/// Pages that show configuration, arguments and environment.
fn reader(port: u16) -> Attacker {
    let pages = ["/configz/", "/snapshotj/", "/argj/", "/argz/", "/envj/", "/handlerz/"];
    Box::new(move || {
        pages.iter().try_for_each(|page| {
            let answer = exchange(
                port,
                &format!("GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
            )?;
            match answer.starts_with("HTTP/1.1 200 ") && !answer.contains(SECRET) {
                true => Ok(()),
                false => Err(format!("{page}: {:?}", answer.lines().find(|line| line.contains(SECRET)))),
            }
        })
    })
}

/// Calls of the API with foreign content types and lengths. Each is answered or reset, and the connection stays.
fn foreigner(port: u16) -> Attacker {
    let call = |stream: u32, kind: &str, lengths: &[&str]| {
        let fields: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
        [http2::headers(stream, CHECK, kind, &fields), frame(DATA, END_STREAM, stream, &[0; 5])].concat()
    };
    let grpc = "application/grpc";
    let kinds: [(&str, &[&str]); 5] = [
        ("application/json", &[]),
        ("text/plain", &[]),
        ("application/grpc-web", &[]),
        (grpc, &["+5"]),
        (grpc, &["5", "6"]),
    ];
    let mut bytes = PREFACE.to_vec();
    let streams = (1..1001_u32).step_by(2);
    streams
        .clone()
        .zip(kinds.iter().cycle())
        .for_each(|(stream, (kind, lengths))| bytes.extend(call(stream, kind, lengths)));
    let calls = streams.count();
    Box::new(move || {
        let socket = connect(port, &bytes)?;
        let (mut frames, mut ended, mut waited) = (Frames::new(&socket), BTreeSet::new(), 0);
        while ended.len() < calls {
            match frames.next()? {
                Some((HEADERS | DATA, flags, stream, _)) if flags & END_STREAM != 0 => {
                    ended.insert(stream);
                }
                Some((RST_STREAM, _, stream, _)) => {
                    ended.insert(stream);
                }
                Some((GOAWAY, _, _, why)) => return Err(format!("GOAWAY {why:?}")),
                Some(_) => {}
                // A frame is awaited for 100 ms.
                None if waited < 200 => waited += 1,
                None => return Err(format!("{} calls are not answered", calls - ended.len())),
            }
        }
        Ok(())
    })
}

#[test]
fn requests_that_say_two_things_or_come_from_strangers() {
    let mut scene = Scene::start(&["--trace_zipkin_url", "http://ann:hunter2@127.0.0.1:1/"]);
    scene.configure(WITH_SECRET);
    let ports = scene.server.ports;
    let attackers = || {
        vec![
            smuggler(ports.monitoring),
            smuggler(ports.ctrlz),
            stranger(ports.ctrlz),
            reader(ports.ctrlz),
            foreigner(ports.api),
        ]
    };
    let outcome = scene.attack("smuggled lengths, foreign hosts, secrets", &attackers);
    outcome.assert_within(96);
    outcome.assert_attackers_succeeded();
    assert!(!scene.server.log().contains(SECRET), "the log has a secret");
    scene.end();
}
