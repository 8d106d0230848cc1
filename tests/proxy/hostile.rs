//! What clients bring about must not let them pass unchecked, and what passes unchecked is told.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tonic::{Code, Status};

use crate::fixture::{Setup, read_answer};
use crate::scripted::{Scripted, answer};
use crate::support::{DEADLINE, free_port, wait_for};

const OPEN: &str = "{network_fail_policy: {policy: FAIL_OPEN}}";

/// A path with so many query parameters, each with a name and a value of its own.
fn path_with(parameters: usize) -> String {
    let mut path = "/?".to_owned();
    for number in 0..parameters {
        write!(path, "n{number}=v{number}&").unwrap();
    }
    path
}

#[test]
fn what_a_client_can_bring_about_does_not_open() {
    let codes = [
        (Code::InvalidArgument, 400),
        (Code::ResourceExhausted, 429),
        (Code::OutOfRange, 400),
        (Code::Internal, 500),
        (Code::Unknown, 500),
        (Code::Cancelled, 499),
        (Code::Aborted, 409),
        (Code::Unimplemented, 501),
        (Code::PermissionDenied, 403),
        (Code::Unavailable, 200),
        (Code::DeadlineExceeded, 200),
    ];
    let mixer = Scripted::start(move |number, _, _| Err(Status::new(codes[number].0, "because")));
    let proxy = Setup { transport: OPEN, ..Setup::to(mixer.address) }.http();
    let found = codes.map(|(code, _)| (code, proxy.get("/", &[]).status));
    assert_eq!(found, codes);
    proxy.assert_identities("http");
}

#[test]
fn more_than_a_server_takes_is_refused_by_the_filter() {
    let mixer = Scripted::start(|_, _, _| Ok(answer(0, "", 60, 0)));
    let manager = "max_request_headers_kb: 2000, common_http_protocol_options: {max_headers_count: 1000}, \
        access_log: [{name: f, typed_config: {'@type': type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, \
        path: $DIRECTORY/access, log_format: {text_format_source: {inline_string: \"%RESPONSE_CODE% %RESPONSE_CODE_DETAILS%\\n\"}}}}]";
    let manager =
        manager.replace(", common", "\n          common").replace(", access_log", "\n          access_log");
    let proxy = Setup { transport: OPEN, manager: &manager, ..Setup::to(mixer.address) }.http();
    let ask = |path: &str, headers: &str| {
        read_answer(&mut proxy.send(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n{headers}\r\n")))
    };
    assert_eq!(ask(&path_with(1000), ""), (200, "served\n".to_owned()));
    let (status, body) = ask(&path_with(1001), "");
    assert_eq!(status, 414);
    assert_eq!(body, "INVALID_ARGUMENT:the query has more than 1000 parameters");
    let mut many = String::new();
    (0..400).for_each(|number| write!(many, "h{number}: v{number}\r\n").unwrap());
    let (status, body) = ask(&path_with(1000), &many);
    assert_eq!(status, 431);
    assert!(
        body.starts_with("INVALID_ARGUMENT:the attributes of the request have more than 4000 "),
        "{body}"
    );
    let (status, body) = ask("/", &format!("h: {}\r\n", "a".repeat(600 << 10)));
    assert_eq!(status, 431);
    assert!(
        body.starts_with("INVALID_ARGUMENT:the attributes of the request have more than 524288 bytes"),
        "{body}"
    );
    assert_eq!(mixer.checks(), 1, "the server is not asked");
    assert_eq!(proxy.host.heads.lock().unwrap().len(), 1);
    assert_eq!(proxy.stat("http_mixer_filter.total_check_oversized"), 3);
    proxy.assert_identities("http");
    let expected = "200 via_upstream\n414 mixer_query_too_long\n431 mixer_attributes_too_large\n431 mixer_attributes_too_large\n";
    wait_for(DEADLINE, || (proxy.file("access") == expected).then_some(()))
        .unwrap_or_else(|| panic!("{}", proxy.file("access")));
    // Reports tell of them all the same, without what is too much.
    let reports = mixer.reports(4);
    assert!(reports.iter().all(|report| report["request.method"] == "GET"));
}

/// The statuses of so many requests at once.
fn burst(port: u16, count: usize) -> Vec<u16> {
    let clients: Vec<TcpStream> = (0..count)
        .map(|number| {
            let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
            client.set_read_timeout(Some(DEADLINE)).unwrap();
            client.write_all(format!("GET /{number} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).unwrap();
            client
        })
        .collect();
    clients.into_iter().map(|mut client| read_answer(&mut client).0).collect()
}

#[test]
fn the_proxys_own_limits_do_not_open() {
    let mixer = Scripted::start(|_, _, _| {
        std::thread::sleep(Duration::from_millis(700));
        Ok(answer(7, "no", 60, 0))
    });
    let cluster = "circuit_breakers: {thresholds: [{max_requests: 1, max_pending_requests: 3}]}";
    let proxy = Setup { transport: OPEN, cluster, ..Setup::to(mixer.address) }.http();
    let statuses = burst(proxy.port, 12);
    assert!(statuses.iter().all(|status| matches!(status, 403 | 503)), "{statuses:?}");
    assert!(statuses.iter().filter(|status| **status == 503).count() >= 8, "{statuses:?}");
    assert!(proxy.host.heads.lock().unwrap().is_empty(), "the host sees none");
    assert!(proxy.stat("http_mixer_filter.total_check_overflows") >= 8);
    proxy.assert_identities("http");
    drop(proxy);
    // A place becomes free in time.
    let mixer = Scripted::start(|_, _, _| Ok(answer(7, "no", 60, 0)));
    let cluster = "circuit_breakers: {thresholds: [{max_requests: 1}]}";
    let proxy = Setup { transport: OPEN, cluster, ..Setup::to(mixer.address) }.http();
    // Unless the machine stands still meanwhile.
    let none_is_lost = || (burst(proxy.port, 8) == [403; 8]).then_some(());
    wait_for(DEADLINE, none_is_lost).expect("all of them are asked one after the other");
}

#[test]
fn a_server_that_takes_few_calls_at_once_does_not_open() {
    let mixer = Scripted::with_streams(([127, 0, 0, 1], 0).into(), Some(1), |number, _, _| {
        std::thread::sleep(Duration::from_millis(if number == 0 { 0 } else { 700 }));
        Ok(answer(7, "no", 60, 0))
    });
    let proxy = Setup { transport: OPEN, ..Setup::to(mixer.address) }.http();
    assert_eq!(proxy.get("/", &[]).status, 403, "the settings of the server are known then");
    let statuses = burst(proxy.port, 12);
    assert!(statuses.iter().all(|status| matches!(status, 403 | 503)), "{statuses:?}");
    assert!(proxy.host.heads.lock().unwrap().is_empty(), "the host sees none");
}

/// Forwards connections, until they are told to lose what they get.
struct Relay {
    address: SocketAddr,
    lost: Arc<std::sync::Mutex<Vec<Arc<AtomicBool>>>>,
}

impl Relay {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let lost = Arc::<std::sync::Mutex<Vec<Arc<AtomicBool>>>>::default();
        let all = Arc::clone(&lost);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else { continue };
                let is_lost = Arc::<AtomicBool>::default();
                all.lock().unwrap().push(Arc::clone(&is_lost));
                for (mut from, mut to) in
                    [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
                {
                    let is_lost = Arc::clone(&is_lost);
                    std::thread::spawn(move || {
                        let mut part = [0; 16 << 10];
                        while let Ok(count @ 1..) = from.read(&mut part) {
                            if !is_lost.load(Ordering::SeqCst) && to.write_all(&part[..count]).is_err() {
                                break;
                            }
                        }
                        if !is_lost.load(Ordering::SeqCst) {
                            let _ = to.shutdown(Shutdown::Both);
                        }
                    });
                }
            }
        });
        Self { address, lost }
    }

    /// Loses everything that the connections carry from now on; those to come are not lost.
    fn lose(&self) {
        self.lost.lock().unwrap().iter().for_each(|lost| lost.store(true, Ordering::SeqCst));
    }

    fn connections(&self) -> usize {
        self.lost.lock().unwrap().len()
    }
}

#[test]
fn a_dead_path_to_mixer_is_left() {
    let mixer = Scripted::start(|_, _, _| Ok(answer(0, "", 60, 0)));
    let relay = Relay::to(mixer.address);
    let proxy = Setup::to(relay.address).http();
    assert_eq!(proxy.get("/", &[]).status, 200);
    mixer.reports(1);
    // One for checks, one for reports.
    assert_eq!(relay.connections(), 2);
    relay.lose();
    assert_eq!(proxy.get("/", &[]).status, 503, "no answer comes");
    assert_eq!(proxy.get("/", &[]).status, 200, "another connection is used");
    let reports = || {
        let _ = proxy.get("/", &[]);
        (!mixer.received.lock().unwrap().reports.is_empty()).then_some(())
    };
    wait_for(DEADLINE, reports).expect("reports find another connection as well");
    assert_eq!(relay.connections(), 4);
}

#[test]
fn a_server_that_is_slow_keeps_its_connection() {
    let mixer = Scripted::start(|number, _, _| match number {
        0 => {
            std::thread::sleep(Duration::from_millis(5200));
            Err(Status::unavailable("late"))
        }
        _ => Ok(answer(0, "", 60, 0)),
    });
    let relay = Relay::to(mixer.address);
    let filter = "{default_destination_service: all, service_configs: {all: {disable_report_calls: true}}}";
    let proxy = Setup { filter, ..Setup::to(relay.address) }.http();
    assert_eq!(proxy.get("/", &[]).status, 503);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(proxy.get("/", &[]).status, 200);
    assert_eq!(relay.connections(), 1, "it answers a PING");
}

#[test]
fn checks_that_wait_hold_little() {
    let mixer = Scripted::start(|_, _, _| {
        std::thread::sleep(Duration::from_secs(600));
        Err(Status::unavailable("never"))
    });
    let proxy = Setup::to(mixer.address).http();
    let value = "a".repeat(45);
    let path: String = (0..1000).map(|number| format!("&{number}={value}")).collect();
    let head = format!("GET /?{} HTTP/1.1\r\nhost: a\r\n\r\n", &path[1..]);
    assert!(head.len() > 48_000 && head.len() < 60_000, "{}", head.len());
    drop(proxy.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n"));
    let before = proxy.memory();
    let clients: Vec<TcpStream> = (0..60).map(|_| proxy.send(&head)).collect();
    let calls = || proxy.stat("http_mixer_filter.total_remote_calls") >= 61;
    wait_for(DEADLINE, || calls().then_some(())).expect("all are asked");
    let each = (proxy.memory().saturating_sub(before)) / clients.len();
    assert!(each < 900 << 10, "{each} bytes each");
}

#[test]
fn repeated_headers_arrive_as_one() {
    let mixer = Scripted::start(|_, _, _| Ok(answer(0, "", 60, 0)));
    let proxy = Setup::to(mixer.address).http();
    let head = "GET /?role=user&role=admin HTTP/1.1\r\nhost: a\r\nx-role: admin\r\ncookie: a=1\r\nx-role: guest\r\n\
                user-agent: one\r\ncookie: b=2\r\nuser-agent: two\r\n\r\n";
    assert_eq!(read_answer(&mut proxy.send(head)).0, 200);
    let check = mixer.received.lock().unwrap().checks[0].0.clone();
    let headers = &check["request.headers"];
    assert!(
        headers.contains("; x-role=admin,guest}") || headers.contains("; x-role=admin,guest;"),
        "{headers}"
    );
    assert!(headers.contains("; cookie=a=1; b=2;") || headers.contains("{cookie=a=1; b=2;"), "{headers}");
    assert_eq!(check["request.useragent"], "one,two");
    assert_eq!(check["request.query_params"], "{role=user}", "the first, as Istio's proxy says");
    let report = mixer.reports(1).remove(0);
    assert_eq!(&report["request.headers"], headers);
}

/// The header of a proxy that says so of one text.
fn told(name: &str, value: &str) -> String {
    use base64::Engine as _;
    let field =
        |number: u8, bytes: &[u8]| [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    let entry = [field(1, name.as_bytes()), field(2, &field(2, value.as_bytes()))].concat();
    base64::engine::general_purpose::STANDARD.encode(field(1, &entry))
}

#[test]
fn a_header_does_not_override_what_the_configuration_says() {
    let mixer = Scripted::start(|_, _, _| Ok(answer(0, "", 60, 0)));
    let name = "destination.service.host";
    for (option, seen) in [("", "web"), (", forwarded_attributes_override: true", "other")] {
        let filter = format!(
            "{{default_destination_service: all, service_configs: {{all: {{}}}}, \
             mixer_attributes: {{attributes: {{{name}: {{string_value: web}}}}}}{option}}}"
        );
        let proxy = Setup { filter: &filter, ..Setup::to(mixer.address) }.http();
        let before = mixer.checks();
        assert_eq!(proxy.get("/", &[("x-istio-attributes", &told(name, "other"))]).status, 200);
        assert_eq!(proxy.get("/", &[("x-istio-attributes", &told("source.uid", "u"))]).status, 200);
        let checks = mixer.received.lock().unwrap().checks[before..].to_vec();
        assert_eq!(checks[0].0[name], seen, "{option}");
        assert_eq!(checks[1].0["source.uid"], "u", "what nobody else says is taken");
    }
}

#[test]
fn what_passes_unchecked_is_told() {
    let dead = ([127, 0, 0, 1], free_port()).into();
    let manager = "access_log: [{name: f, typed_config: {'@type': type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, \
        path: $DIRECTORY/access, log_format: {text_format_source: {inline_string: \"%RESPONSE_CODE% %RESPONSE_CODE_DETAILS%\\n\"}}}}]";
    let proxy = Setup { transport: OPEN, manager, ..Setup::to(dead) }.http();
    for _ in 0..20 {
        assert_eq!(proxy.get("/", &[]).status, 200);
    }
    assert_eq!(proxy.get("/here", &[]).status, 200);
    assert_eq!(proxy.stat("http_mixer_filter.total_check_fail_opens"), 21);
    let lines = |text: &str| text.lines().filter(|line| line.contains("passes unchecked")).count();
    let log = proxy.file("log");
    assert!((1..20).contains(&lines(&log)), "a warning, and not for each:\n{log}");
    assert!(log.contains("remote connection failure"), "{log}");
    let expected =
        "200 via_upstream{mixer_unchecked}\n".repeat(20) + "200 direct_response{mixer_unchecked}\n";
    wait_for(DEADLINE, || (proxy.file("access") == expected).then_some(()))
        .unwrap_or_else(|| panic!("{}", proxy.file("access")));
    drop(proxy);
    let filter = "disable_report_calls: true";
    let proxy = Setup { transport: OPEN, filter, ..Setup::to(dead) }.tcp();
    let mut client = proxy.send("x");
    client.read_exact(&mut [0; 6]).unwrap();
    assert_eq!(proxy.stat("tcp_mixer_filter.total_check_fail_opens"), 1);
}

#[test]
fn a_quota_without_an_answer_is_granted_only_if_open() {
    let filter = "{default_destination_service: all, service_configs: {all: {quota_spec: [{rules: \
                  [{quotas: [{quota: q, charge: 1}]}]}]}}}";
    for (policy, status) in [("FAIL_CLOSE", 429), ("FAIL_OPEN", 200)] {
        let mixer = Scripted::start(|number, _, _| {
            let mut answered = answer(0, "", 60, 0);
            if number == 1 {
                let unavailable = mixer_wire::google::rpc::Status { code: 14, ..Default::default() };
                let result = mixer_wire::istio::mixer::v1::check_response::QuotaResult {
                    status: Some(unavailable),
                    ..Default::default()
                };
                answered.quotas.insert("q".to_owned(), result);
            }
            Ok(answered)
        });
        let transport = format!("{{network_fail_policy: {{policy: {policy}}}}}");
        let proxy = Setup { transport: &transport, filter, ..Setup::to(mixer.address) }.http();
        assert_eq!(proxy.get("/", &[]).status, status, "{policy}: none");
        assert_eq!(proxy.get("/", &[]).status, status, "{policy}: UNAVAILABLE");
    }
}

#[test]
fn amounts_that_cannot_be_fetched_are_granted_only_if_open() {
    use mixer_wire::istio::mixer::v1 as wire;
    let filter = "{default_destination_service: all, service_configs: {all: {quota_spec: [{rules: \
                  [{quotas: [{quota: q, charge: 1}]}]}]}}}";
    for (policy, is_open) in [("FAIL_CLOSE", false), ("FAIL_OPEN", true)] {
        // The first check grants; the quota of all others is missing.
        let mixer = Scripted::start(|number, _, request| {
            let mut answered = answer(0, "", 60, -1);
            if number == 0 {
                for (name, params) in &request.quotas {
                    let result = wire::check_response::QuotaResult {
                        valid_duration: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
                        granted_amount: params.amount,
                        referenced_attributes: Some(wire::ReferencedAttributes::default()),
                        status: None,
                    };
                    answered.quotas.insert(name.clone(), result);
                }
            }
            Ok(answered)
        });
        let transport = format!("{{network_fail_policy: {{policy: {policy}}}}}");
        let proxy = Setup { transport: &transport, filter, ..Setup::to(mixer.address) }.http();
        let statuses: Vec<u16> = (0..60).map(|_| proxy.get("/", &[]).status).collect();
        assert_eq!(statuses.iter().all(|status| *status == 200), is_open, "{policy}: {statuses:?}");
        let passed = statuses.iter().filter(|status| **status == 200).count();
        assert!(is_open || passed <= 21, "what was granted ahead: {passed}");
    }
}

#[test]
fn a_connection_whose_client_ends_its_side_without_a_byte_is_checked() {
    let mixer = Scripted::start(|_, _, _| Ok(answer(16, "no", 60, 0)));
    for policy in ["FAIL_CLOSE", "FAIL_OPEN"] {
        let transport =
            format!("{{network_fail_policy: {{policy: {policy}}}, report_batch_max_time: 0.05s}}");
        let setup = Setup { transport: &transport, filter: "", ..Setup::to(mixer.address) };
        let proxy = Setup { filter: "disable_report_calls: false", ..setup }.tcp();
        let before = mixer.checks();
        let mut client = proxy.send("");
        client.read_exact(&mut [0; 5]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let _ = client.read_to_end(&mut Vec::new());
        assert_eq!(mixer.checks(), before + 1, "{policy}");
        let close = mixer.report_of("close");
        assert_eq!(close["check.error_message"], "UNAUTHENTICATED:no");
    }
}
