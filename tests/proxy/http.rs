//! What the HTTP filter does with answers, with their absence, and how long it uses them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use mixer_wire::istio::mixer::v1 as wire;
use tonic::Status;
use wire::{HeaderOperation, RouteDirective};

use crate::fixture::{Setup, header};
use crate::scripted::{Scripted, answer};
use crate::support::{DEADLINE, free_port, wait_for};

fn operation(name: &str, value: &str, operation: i32) -> HeaderOperation {
    HeaderOperation { name: name.to_owned(), value: value.to_owned(), operation }
}

fn with_directive(mut answer: wire::CheckResponse, directive: RouteDirective) -> wire::CheckResponse {
    answer.precondition.as_mut().unwrap().route_directive = Some(directive);
    answer
}

#[test]
fn header_operations_change_request_response_and_route() {
    let mixer = Scripted::start(|_, bag, _| {
        let path = if bag["request.path"] == "/reroute" { "/here" } else { "/kept" };
        let directive = RouteDirective {
            request_header_operations: vec![
                operation("X-Set", "new", 0),
                operation("x-gone", "", 1),
                operation("x-more", "two", 2),
                operation(":path", path, 0),
                operation("content-length", "99", 0),
                operation("transfer-encoding", "chunked", 2),
            ],
            response_header_operations: vec![operation("x-host", "", 1), operation("x-served", "yes", 2)],
            ..RouteDirective::default()
        };
        Ok(with_directive(answer(0, "", 60, -1), directive))
    });
    let proxy = Setup::to(mixer.address).http();
    for _ in 0..2 {
        let headers = [("x-set", "old"), ("x-set", "older"), ("x-gone", "1"), ("x-more", "one")];
        let served = proxy.get("/", &headers);
        assert_eq!((served.status, served.body.as_str()), (200, "served\n"));
        assert_eq!((header(&served, "x-served"), header(&served, "x-host")), (Some("yes"), None));
        let head = proxy.host.last_head();
        assert!(head.starts_with("GET /kept HTTP/1.1\r\n"), "{head}");
        for (line, count) in [
            ("x-set: new\r\n", 1),
            ("x-set:", 1),
            ("x-gone", 0),
            ("x-more: one\r\n", 1),
            ("x-more: two\r\n", 1),
            ("content-length: 99", 0),
            ("transfer-encoding", 0),
        ] {
            assert_eq!(head.matches(line).count(), count, "{line} in {head}");
        }
    }
    assert_eq!(mixer.checks(), 1, "the second request has the answer to the first, with its operations");
    drop(proxy);
    let mixer = Scripted::start(|_, _, _| {
        let request_header_operations = vec![operation(":path", "/here", 0)];
        let directive = RouteDirective { request_header_operations, ..RouteDirective::default() };
        Ok(with_directive(answer(0, "", 60, -1), directive))
    });
    let proxy = Setup::to(mixer.address).http();
    assert_eq!(proxy.get("/there", &[]).body, "from here\n", "the route of the new path");
}

/// Without the operation, the host would get what the client said.
#[test]
fn a_header_operation_that_cannot_be_written_refuses() {
    let mixer = Scripted::start(|_, _, _| {
        let request_header_operations = vec![operation("x-split", "a\r\nx-injected: 1", 0)];
        let directive = RouteDirective { request_header_operations, ..RouteDirective::default() };
        Ok(with_directive(answer(0, "", 60, -1), directive))
    });
    let proxy = Setup::to(mixer.address).http();
    let refused = proxy.get("/", &[("x-split", "mine")]);
    assert_eq!((refused.status, refused.body.as_str()), (500, "INTERNAL:invalid header value for: x-split"));
    assert_eq!(proxy.host.last_head(), "", "no request arrived");
}

#[test]
fn direct_responses_come_from_the_proxy_also_with_a_refusal() {
    let mixer = Scripted::start(|number, _, _| {
        let directive = RouteDirective {
            direct_response_code: 302,
            direct_response_body: "go".to_owned(),
            request_header_operations: vec![operation("x-not", "used", 0)],
            response_header_operations: vec![operation("location", "/login", 0)],
        };
        let code = [0, 16, 16][number];
        let answered = answer(code, "no", 60, 0);
        Ok(if number < 2 { with_directive(answered, directive) } else { answered })
    });
    let proxy = Setup::to(mixer.address).http();
    for _ in 0..2 {
        let direct = proxy.get("/", &[]);
        assert_eq!((direct.status, direct.body.as_str()), (302, "go"));
        assert_eq!(header(&direct, "location"), Some("/login"));
    }
    let refused = proxy.get("/", &[]);
    assert_eq!((refused.status, refused.body.as_str()), (401, "UNAUTHENTICATED:no"));
    assert_eq!(header(&refused, "content-type"), Some("text/plain"));
    assert!(proxy.host.heads.lock().unwrap().is_empty());
    proxy.assert_identities("http");
}

#[test]
fn an_answer_is_used_as_often_and_as_long_as_it_says() {
    let mixer = Scripted::start(|_, bag, _| {
        let (seconds, uses) = match bag["request.path"].as_str() {
            "/twice" => (60, 2),
            "/never" => (60, 0),
            "/always" => (60, -1),
            _ => (1, -1),
        };
        let mut answered = answer(0, "", seconds, uses);
        let references = answered.precondition.as_mut().unwrap().referenced_attributes.as_mut().unwrap();
        // request.path, exact.
        references.attribute_matches = vec![wire::referenced_attributes::AttributeMatch {
            name: 17,
            condition: 2,
            ..Default::default()
        }];
        Ok(answered)
    });
    let proxy = Setup::to(mixer.address).http();
    let calls = |path: &str, count: usize| {
        let before = mixer.checks();
        (0..count).for_each(|_| assert_eq!(proxy.get(path, &[]).status, 200));
        mixer.checks() - before
    };
    assert_eq!(calls("/twice", 6), 2, "each answer for its request and two more");
    assert_eq!(calls("/never", 4), 4);
    assert_eq!(calls("/always", 5), 1);
    let started = Instant::now();
    assert_eq!(calls("/second", 1), 1);
    let again = wait_for(DEADLINE, || (calls("/second", 1) == 1).then(|| started.elapsed()));
    let again = again.expect("the answer expires");
    assert!(again >= Duration::from_millis(990), "{again:?}");
    proxy.assert_identities("http");
    assert!(proxy.stat("http_mixer_filter.total_check_cache_hits") >= 8);
}

#[test]
fn without_an_answer_the_configuration_decides() {
    let dead = ([127, 0, 0, 1], free_port()).into();
    let closed = Setup::to(dead).http();
    let refused = closed.get("/", &[]);
    let text = "UNAVAILABLE:upstream connect error or disconnect/reset before headers. reset reason: remote connection failure";
    assert_eq!((refused.status, refused.body.as_str()), (503, text));
    assert!(closed.host.heads.lock().unwrap().is_empty());
    assert_eq!(closed.stat("http_mixer_filter.total_remote_call_send_errors"), 1);
    closed.assert_identities("http");
    let open = Setup { transport: "{network_fail_policy: {policy: FAIL_OPEN}}", ..Setup::to(dead) }.http();
    assert_eq!(open.get("/", &[]).body, "served\n");
    // An internal error of a policy does not open, which a client can bring about by what it asks, nor does a refusal.
    let mixer = Scripted::start(|number, _, _| Ok(answer([13, 7][number], "m", 60, 0)));
    let open =
        Setup { transport: "{network_fail_policy: {policy: FAIL_OPEN}}", ..Setup::to(mixer.address) }.http();
    assert_eq!(open.get("/", &[]).status, 500);
    assert_eq!(open.get("/", &[]).status, 403);
    let mixer = Scripted::start(|number, _, _| match number {
        0 => Ok(wire::CheckResponse::default()),
        1 => Ok(answer(13, "m", 60, 0)),
        _ => Err(Status::unauthenticated("who")),
    });
    let closed = Setup::to(mixer.address).http();
    let answers = [(); 3].map(|()| closed.get("/", &[])).map(|answer| (answer.status, answer.body));
    let expected = [
        (400, "INVALID_ARGUMENT:CheckResponse doesn't have PreconditionResult"),
        (500, "INTERNAL:m"),
        (401, "UNAUTHENTICATED:who"),
    ];
    assert_eq!(answers, expected.map(|(status, body)| (status, body.to_owned())));
}

#[test]
fn a_call_that_fails_is_retried_as_configured() {
    let mixer = Scripted::start(|number, _, _| match number {
        0 | 1 => Err(Status::unavailable("not yet")),
        _ => Ok(answer(0, "", 60, -1)),
    });
    let transport = "{network_fail_policy: {policy: FAIL_CLOSE, max_retry: 2, base_retry_wait: 0.05s, max_retry_wait: 0.2s}}";
    let proxy = Setup { transport, ..Setup::to(mixer.address) }.http();
    let started = Instant::now();
    assert_eq!(proxy.get("/", &[]).status, 200);
    assert!(started.elapsed() >= Duration::from_millis(100), "two pauses");
    let requests = mixer.received.lock().unwrap().checks.clone();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|(_, request)| request.deduplication_id == requests[0].1.deduplication_id));
    assert_eq!(proxy.stat("http_mixer_filter.total_remote_call_retries"), 2);
    assert_eq!(proxy.stat("http_mixer_filter.total_remote_call_other_errors"), 2);
    proxy.assert_identities("http");
}

#[test]
fn a_client_that_does_not_know_all_words_uses_fewer() {
    let mixer = Scripted::start(|number, _, _| match number {
        0 => Err(Status::invalid_argument("Request could not be processed due to invalid words")),
        _ => Ok(answer(0, "", 60, 0)),
    });
    let proxy = Setup::to(mixer.address).http();
    assert_eq!(proxy.get("/", &[]).status, 400);
    assert_eq!(proxy.get("/", &[]).status, 200);
    let checks = mixer.received.lock().unwrap().checks.clone();
    assert_eq!(checks.iter().map(|(_, check)| check.global_word_count).collect::<Vec<_>>(), [222, 111]);
    assert_eq!(checks[0].0["request.method"], checks[1].0["request.method"]);
}

#[test]
fn routes_decide_whether_requests_are_checked() {
    let mixer = Scripted::start(|_, _, _| Ok(answer(7, "no", 60, 0)));
    let disabled = "typed_per_filter_config: {mixer: {'@type': type.googleapis.com/istio.mixer.v1.config.client.ServiceConfig, \
                    disable_check_calls: true, mixer_attributes: {attributes: {a: {string_value: of-route}}}}}";
    let proxy = Setup { route: disabled, ..Setup::to(mixer.address) }.http();
    assert_eq!(proxy.get("/", &[]).status, 200);
    let report = mixer.reports(1).remove(0);
    assert_eq!((report["a"].as_str(), report.get("check.cache_hit")), ("of-route", None));
    assert_eq!(proxy.get("/here", &[]).status, 403, "another route has the default service");
    drop(proxy);
    let before = mixer.checks();
    let proxy = Setup { filter: "{}", ..Setup::to(mixer.address) }.http();
    assert_eq!(
        proxy.get("/", &[("x-istio-attributes", "x")]).status,
        200,
        "without a service nothing is checked"
    );
    assert!(!proxy.host.last_head().contains("x-istio-attributes"), "and the header is removed all the same");
    assert_eq!(mixer.checks(), before);
}

#[test]
fn reports_are_sent_by_count_by_time_and_at_the_end() {
    let mixer = Scripted::start(|_, _, _| Ok(answer(0, "", 60, -1)));
    let transport = "{network_fail_policy: {}, report_batch_max_entries: 3, report_batch_max_time: 3600s}";
    let proxy = Setup { transport, ..Setup::to(mixer.address) }.http();
    (0..7).for_each(|_| assert_eq!(proxy.get("/", &[]).status, 200));
    mixer.reports(6);
    assert_eq!(mixer.received.lock().unwrap().batches, [3, 3], "by count");
    proxy.stop();
    mixer.reports(1);
    assert_eq!(mixer.received.lock().unwrap().batches, [3, 3, 1], "at the end");
    mixer.received.lock().unwrap().batches.clear();
    let transport = "{network_fail_policy: {}, report_batch_max_time: 0.2s}";
    let proxy = Setup { transport, ..Setup::to(mixer.address) }.http();
    (0..5).for_each(|_| assert_eq!(proxy.get("/nowhere", &[]).status, 503));
    let reports = mixer.reports(5);
    assert!(mixer.received.lock().unwrap().batches.len() < 5, "by time");
    assert_eq!(reports[0]["context.proxy_error_code"], "UF");
    assert_eq!(reports[1]["check.cache_hit"], "true");
    assert_eq!(proxy.stat("http_mixer_filter.total_report_calls"), 5);
    drop(proxy);
    mixer.received.lock().unwrap().batches.clear();
    let transport = "{network_fail_policy: {}, disable_report_batch: true}";
    let proxy = Setup { transport, ..Setup::to(mixer.address) }.http();
    (0..3).for_each(|_| assert_eq!(proxy.get("/", &[]).status, 200));
    mixer.reports(3);
    assert_eq!(mixer.received.lock().unwrap().batches, [1, 1, 1], "at once");
}

#[test]
fn a_client_that_leaves_cancels_its_check() {
    let mixer = Scripted::start(|_, _, _| {
        std::thread::sleep(Duration::from_millis(1500));
        Ok(answer(0, "", 60, 0))
    });
    let proxy = Setup::to(mixer.address).http();
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port)).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    wait_for(DEADLINE, || (mixer.checks() == 1).then_some(())).expect("the check has begun");
    drop(client);
    let cancelled = || proxy.stat("http_mixer_filter.total_remote_call_cancellations") == 1;
    wait_for(DEADLINE, || cancelled().then_some(())).expect("it is cancelled");
    assert!(proxy.host.heads.lock().unwrap().is_empty());
    // A client that sends on while it waits is served in order.
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port)).unwrap();
    client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n").unwrap();
    client.write_all(b"body").unwrap();
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut part = [0; 15];
    client.read_exact(&mut part).unwrap();
    assert_eq!(&part, b"HTTP/1.1 200 OK");
}

#[test]
fn a_server_that_is_started_again_is_found() {
    let mixer = Scripted::start(|_, _, _| Ok(answer(0, "", 60, 0)));
    let proxy = Setup::to(mixer.address).http();
    let address = mixer.address;
    assert_eq!(proxy.get("/", &[]).status, 200);
    drop(mixer);
    let down = || (proxy.get("/", &[]).status == 503).then_some(());
    wait_for(DEADLINE, down).expect("nothing passes without Mixer");
    let _again = Scripted::at(address, |_, _, _| Ok(answer(0, "", 60, 0)));
    let up = || (proxy.get("/", &[]).status == 200).then_some(());
    wait_for(DEADLINE, up).expect("a connection is made again");
}
