//! The examples of docs/adapters.md, each with answers that its text promises.

use crate::signals::{configuration, on};
use crate::support::bag::{Attribute, Attributes, Words, encode_alone};
use crate::support::rpc::{Client, mixer as wire};
use crate::support::{DEADLINE, Process, free_port, is_listening, wait_for};

pub(crate) const MANIFEST: &str = "kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec:
  attributes:
    destination.namespace: {valueType: STRING}
    destination.service: {valueType: STRING}
    request.method: {valueType: STRING}
    request.path: {valueType: STRING}
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
fn redis(port: u16) -> Process {
    let mut command = std::process::Command::new("redis-server");
    let port_text = port.to_string();
    command.args(["--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.stdout(std::process::Stdio::null());
    let process = Process::spawn(&mut command).expect("redis-server is installed: `.ci/run needs` does it");
    let listens = wait_for(DEADLINE, || is_listening(port).then_some(()));
    assert!(listens.is_some(), "redis-server does not start");
    process
}

#[test]
fn servers_share_a_quota_and_grant_nothing_without_it() {
    let port = free_port();
    let process = redis(port);
    let text = example("redisquota").replace("localhost:6379", &format!("127.0.0.1:{port}"));
    let directory = configuration(&(MANIFEST.to_owned() + &text));
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
