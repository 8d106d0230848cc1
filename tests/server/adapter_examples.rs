//! The examples of docs/adapters.md, each with answers that its text promises.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use mixer_adapters::INVENTORY;
use serde_json::Value;

use crate::outages::of;
use crate::senders::{FluentServer, count};
use crate::signals::{configuration, on};
use crate::support::bag::{Attribute, Attributes, Words, encode_alone};
use crate::support::rpc::{Client, mixer as wire};
use crate::support::{
    DEADLINE, Process, Server, free_port, http, is_listening, run_mixer, sample_configuration, wait_for,
};

pub(crate) const MANIFEST: &str = "kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec:
  attributes:
    destination.namespace: {valueType: STRING}
    destination.service: {valueType: STRING}
    request.headers: {valueType: STRING_MAP}
    request.method: {valueType: STRING}
    request.path: {valueType: STRING}
    request.time: {valueType: TIMESTAMP}
    response.time: {valueType: TIMESTAMP}
    source.namespace: {valueType: STRING}
    source.user: {valueType: STRING}
---
";

/// The YAML of an example.
pub(crate) fn example(name: &str) -> &'static str {
    let page = include_str!("../../docs/adapters.md");
    let rest = page.split(&format!("<!-- example: {name} -->\n```yaml\n")).nth(1).expect(name);
    rest.split("```").next().expect("the example ends")
}

/// The code of a check with these attributes.
fn code(client: &mut Client, attributes: &[(&str, &str)]) -> i32 {
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), Attribute::Text((*value).to_owned()));
    let bag: Attributes = attributes.iter().map(text).collect();
    let attributes = Some(encode_alone(&bag, Words::of_message()));
    let request = wire::CheckRequest { attributes, ..Default::default() };
    let answer = client.check(&request, None).expect("an answer");
    answer.precondition.and_then(|precondition| precondition.status).expect("a status").code
}

#[test]
fn the_policy_decides() {
    let directory = configuration("");
    let data = directory.path().join("admins.json");
    std::fs::write(&data, "{\"admins\": [\"ann\"]}").expect("it is writable");
    let text = example("opa").replace("/etc/mixer/admins.json", &data.display().to_string());
    std::fs::write(directory.path().join("config/all.yaml"), MANIFEST.to_owned() + &text)
        .expect("it is writable");
    let server = on(&directory).native().start();
    let mut client = Client::new(&server.address()).expect("a client");
    let user = |name| ("source.user", name);
    let method = |name| ("request.method", name);
    assert_eq!(code(&mut client, &[user("bob"), method("GET")]), 0);
    assert_eq!(code(&mut client, &[user("bob"), method("PUT")]), 7);
    assert_eq!(code(&mut client, &[user("ann"), method("PUT")]), 0);
    assert_eq!(code(&mut client, &[]), 7);
}

#[test]
fn roles_decide() {
    let directory = configuration(&(MANIFEST.to_owned() + example("rbac")));
    let server = on(&directory).native().start();
    let mut client = Client::new(&server.address()).expect("a client");
    let book =
        [("destination.service", "books.shop"), ("request.method", "GET"), ("request.path", "/books/1")];
    let mut with = |more: &[(&str, &str)]| code(&mut client, &[&book[..], more].concat());
    assert_eq!(with(&[("source.user", "ann")]), 0);
    assert_eq!(with(&[("source.namespace", "web")]), 0);
    assert_eq!(with(&[("source.user", "bob"), ("source.namespace", "db")]), 7);
    assert_eq!(with(&[("source.user", "ann"), ("destination.namespace", "other")]), 7);
    assert_eq!(with(&[]), 7);
}

/// Grants of the quota `requests` for a user, all or nothing.
fn granted(client: &mut Client, user: &str, id: &str, amount: i64) -> i64 {
    let bag: Attributes =
        [("source.user".to_owned(), Attribute::Text(user.to_owned()))].into_iter().collect();
    let quota = wire::check_request::QuotaParams { amount, best_effort: false };
    let request = wire::CheckRequest {
        attributes: Some(encode_alone(&bag, Words::of_message())),
        deduplication_id: id.to_owned(),
        quotas: [("requests".to_owned(), quota)].into_iter().collect(),
        ..Default::default()
    };
    client.check(&request, None).expect("an answer").quotas["requests"].granted_amount
}

/// Starts a Redis on a port.
pub(crate) fn redis(port: u16) -> Process {
    let mut command = std::process::Command::new("redis-server");
    let port_text = port.to_string();
    command.args(["--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.stdout(std::process::Stdio::null());
    let process = Process::spawn(&mut command).expect("redis-server is installed: `.ci/run needs` does it");
    let listens = wait_for(DEADLINE, || is_listening(port).then_some(()));
    assert!(listens.is_some(), "redis-server does not start");
    process
}

/// The example with a Redis at a port, of which some texts are replaced. Calls wait for Redis as long as they can: those of a slow machine are not
/// without it.
fn quota_by(port: u16, replaced: &[(&str, &str)]) -> String {
    let server = format!("redisServerUrl: 127.0.0.1:{port}\n    timeout: 10s");
    let all = std::iter::once(("redisServerUrl: localhost:6379", &*server)).chain(replaced.iter().copied());
    let text = all.fold(example("redisquota").to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "no {from} in {text}");
        text.replace(from, to)
    });
    MANIFEST.to_owned() + &text
}

#[test]
fn servers_share_a_quota_and_grant_nothing_without_it() {
    let port = free_port();
    let process = redis(port);
    let directory = configuration(&quota_by(port, &[]));
    let servers = [on(&directory).native().start(), on(&directory).native().start()];
    let mut clients = servers.each_ref().map(|server| Client::new(&server.address()).expect("a client"));
    assert_eq!(granted(&mut clients[0], "ann", "a", 6), 6);
    assert_eq!(granted(&mut clients[1], "ann", "b", 6), 0);
    assert_eq!(granted(&mut clients[1], "ann", "c", 4), 4);
    assert_eq!(granted(&mut clients[1], "bob", "d", 10), 10);
    drop(process);
    for (round, client) in clients.iter_mut().enumerate() {
        assert_eq!(granted(client, "carol", &format!("e{round}"), 1), 0, "Redis is away");
    }
    let _process = redis(port);
    for (index, client) in clients.iter_mut().enumerate() {
        let mut round = 0;
        let found = wait_for(DEADLINE, || {
            round += 1;
            (granted(client, "dave", &format!("f{index}-{round}"), 1) == 1).then_some(())
        });
        assert!(found.is_some(), "{}", servers[index].log());
    }
}

/// All examples of the page by their names.
fn examples() -> BTreeMap<&'static str, &'static str> {
    let page = include_str!("../../docs/adapters.md");
    let names = page.split("<!-- example: ").skip(1).filter_map(|rest| rest.split_once(" -->"));
    names.map(|(name, _)| (name, example(name))).collect()
}

#[test]
fn every_adapter_has_an_example_without_an_error() {
    let all = examples();
    for adapter in INVENTORY.names().filter(|name| *name != "drill") {
        let text = all.get(adapter).unwrap_or_else(|| panic!("no example of {adapter}"));
        assert!(text.contains(&format!("compiledAdapter: {adapter}")), "{text}");
    }
    // What a server would read is read by `validate`; files that an example names need not be there.
    for (name, text) in all {
        let directory = tempfile::tempdir().expect("a directory");
        let vocabulary = sample_configuration().join("attributes.yaml");
        std::fs::copy(vocabulary, directory.path().join("attributes.yaml")).expect("it is writable");
        std::fs::write(directory.path().join("all.yaml"), text).expect("it is writable");
        let finished = run_mixer(&["validate", &directory.path().display().to_string()]);
        assert_eq!(finished.status, 0, "{name}: {finished:?}");
    }
}

/// A server on an example, of which some texts are replaced.
fn server_on(name: &str, replaced: &[(&str, &str)]) -> (Server, tempfile::TempDir) {
    let text = replaced.iter().fold(example(name).to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "no {from} in {text}");
        text.replace(from, to)
    });
    let directory = configuration(&(MANIFEST.to_owned() + &text));
    (on(&directory).native().start(), directory)
}

#[test]
fn the_examples_that_decide_allow_and_deny() {
    let (server, _directory) = server_on("denier", &[]);
    let mut client = Client::new(&server.address()).expect("a client");
    assert_eq!(code(&mut client, &[("destination.service", "shop.default")]), 7);
    assert_eq!(code(&mut client, &[("destination.service", "books.default")]), 0);
    let (server, _directory) = server_on("listchecker", &[]);
    let mut client = Client::new(&server.address()).expect("a client");
    for (user, denied) in [("mallory", true), ("eve", true), ("ann", false)] {
        assert_eq!(code(&mut client, &[("source.user", user)]) != 0, denied, "{user}");
    }
    let (server, _directory) = server_on("memquota", &[]);
    let mut client = Client::new(&server.address()).expect("a client");
    let all = [("ann", "a", 6, 6), ("ann", "b", 6, 0), ("ann", "c", 4, 4), ("bob", "d", 10, 10)];
    for (user, id, amount, expected) in all {
        assert_eq!(granted(&mut client, user, id, amount), expected, "{user} {id}");
    }
    let (server, _directory) = server_on("noop", &[]);
    let mut client = Client::new(&server.address()).expect("a client");
    assert_eq!(code(&mut client, &[]), 0);
    // Nobody is there whom it could ask.
    let (server, _directory) =
        server_on("bypass", &[("localhost:9100", &format!("127.0.0.1:{}", free_port()))]);
    let mut client = Client::new(&server.address()).expect("a client");
    assert!(client.check(&wire::CheckRequest::default(), None).is_err(), "{}", server.log());
}

/// Reports a call of the service `shop` by `ann`.
fn report_one(server: &Server) {
    let mut bag = Attributes::new();
    for (name, text) in [("destination.service", "shop"), ("request.path", "/a"), ("source.user", "ann")] {
        bag.insert(name.to_owned(), Attribute::Text(text.to_owned()));
    }
    let time = |seconds| Attribute::Timestamp(prost_types::Timestamp { seconds, nanos: 0 });
    bag.insert("request.time".to_owned(), time(1));
    bag.insert("response.time".to_owned(), time(2));
    let ids = [("x-b3-traceid", "463ac35c9f6413ad"), ("x-b3-spanid", "a2fb4a1d1a96d312")];
    let ids = ids.map(|(name, value)| (name.to_owned(), value.to_owned()));
    bag.insert("request.headers".to_owned(), Attribute::StringMap(ids.into()));
    let request = wire::ReportRequest {
        attributes: vec![encode_alone(&bag, Words::of_message())],
        repeated_attributes_semantics: 1,
        ..Default::default()
    };
    Client::new(&server.address()).expect("a client").report(&request, None).expect("it is taken");
}

#[test]
fn the_examples_that_send_and_write_do_what_they_say() {
    for (name, host, line) in [
        ("statsd", "statsd.monitoring:8125", "mesh.requests.shop:1|c"),
        ("dogstatsd", "datadog-agent.monitoring:8125", "istio.request.count:1|c|#mesh:main,service:shop"),
    ] {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = receiver.local_addr().expect("an address").to_string();
        let (server, _directory) = server_on(name, &[(host, &address)]);
        report_one(&server);
        let mut buffer = [0; 2000];
        receiver.set_read_timeout(Some(DEADLINE)).expect("a socket");
        let length = receiver.recv(&mut buffer).unwrap_or_else(|_| panic!("{}", server.log()));
        assert_eq!(String::from_utf8_lossy(&buffer[..length]), line);
    }
    let (server, _directory) = server_on("prometheus", &[]);
    report_one(&server);
    let metrics =
        http("GET", &format!("http://127.0.0.1:{}/metrics", server.ports.metrics), "").expect("metrics").body;
    assert!(metrics.contains("istio_requests_total{service=\"shop\"} 1\n"), "{metrics}");
    let files = tempfile::tempdir().expect("a directory");
    let file = |name: &str| files.path().join(name).display().to_string();
    let (server, _directory) = server_on("stdio", &[("/var/log/mixer/access.log", &file("access.log"))]);
    report_one(&server);
    let line = wait_for(DEADLINE, || {
        let text = std::fs::read_to_string(file("access.log")).ok()?;
        serde_json::from_str::<Value>(text.lines().next()?).ok()
    });
    let line = line.unwrap_or_else(|| panic!("{}", server.log()));
    assert_eq!((&line["path"], &line["user"], &line["level"]), (&"/a".into(), &"ann".into(), &"info".into()));
    // Not the year 1, which an instance without `timestamp` gives.
    assert_eq!(line["time"], "1970-01-01T00:00:01.000000Z");
    let spill = file("spill");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address").to_string();
    let (server, _directory) =
        server_on("fluentd", &[("fluentd.logging:24224", &address), ("/var/lib/mixer/fluent", &spill)]);
    report_one(&server);
    let (entry, id) = FluentServer::one_chunk(&listener);
    assert_eq!((&entry["path"], &entry["user"], id.len()), (&"/a".into(), &"ann".into(), 24));
    let ports = [free_port(), free_port()];
    let collector = crate::otlp::strict(ports, &[]);
    let own = format!("http://127.0.0.1:{}/api/v2/spans?front=example", ports[1]);
    let (server, _directory) = server_on("zipkin", &[("http://zipkin.istio-system:9411/api/v2/spans", &own)]);
    report_one(&server);
    let sent = wait_for(DEADLINE, || (count(&of(&server, "zipkin"), "delivered") == 1).then_some(()));
    assert!(sent.is_some(), "{}\n{}", of(&server, "zipkin"), server.log());
    // The collector takes nothing that is not of version 2; times are microseconds.
    let requests = crate::otlp::requests(&collector, "");
    let span = &requests[0]["spans"][0];
    let expected = serde_json::json!({
        "traceId": "463ac35c9f6413ad", "id": "a2fb4a1d1a96d312", "name": "/a", "kind": "SERVER",
        "timestamp": 1_000_000, "duration": 1_000_000, "localEndpoint": {"serviceName": "default", "ipv4": "0.0.0.0"},
    });
    for (member, value) in expected.as_object().expect("an object") {
        assert_eq!(&span[member], value, "{member} of {span}");
    }
}

#[test]
fn servers_with_leases_grant_the_limit_and_one_that_is_killed_costs_its_lease() {
    const LIMIT: i64 = 2000;
    let port = free_port();
    let _process = redis(port);
    // Long, so that a pause of a server costs no lease.
    let limit = format!("maxAmount: {LIMIT}\n      leaseDuration: 10s");
    let changed = [("maxAmount: 10", &*limit), ("validDuration: 60s", "validDuration: 3600s")];
    let directory = configuration(&quota_by(port, &changed));
    let mut servers = vec![
        on(&directory).native().start(),
        on(&directory).native().start(),
        on(&directory).native().start(),
    ];
    let mut clients: Vec<Client> =
        servers.iter().map(|server| Client::new(&server.address()).expect("a client")).collect();
    let mut calls = 0;
    let mut grant = |client: &mut Client| {
        calls += 1;
        granted(client, "ann", &format!("call{calls}"), 1)
    };
    let mut sum = 0;
    for call in 0..900 {
        sum += grant(&mut clients[call / 300]);
    }
    assert_eq!(sum, 900);
    // As `kill -9`.
    drop(servers.remove(0));
    clients.remove(0);
    // It held at most an eighth of what remained.
    let rest = wait_for(DEADLINE, || {
        for _ in 0..100 {
            sum += grant(&mut clients[1]);
        }
        (sum >= LIMIT - LIMIT / 8).then_some(())
    });
    assert!(rest.is_some(), "{sum} are granted: {}", servers[1].log());
    for client in &mut clients {
        for _ in 0..200 {
            sum += grant(client);
        }
    }
    assert!(sum <= LIMIT, "{sum} are granted");
    let from_leases = "mixer_redisquota_calls_total{answer=\"lease\",handler=\"limits.istio-system\"}";
    assert!(servers[1].metric(from_leases) > 0.0, "{from_leases}");
}
