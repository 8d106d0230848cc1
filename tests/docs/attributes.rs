//! docs/attributes.md has a row for every standard attribute, with its type; and a policy that declares none of them is short.

use std::collections::BTreeMap;

use mixer_wire::envoy::config::core::v3::{Address, SocketAddress, address};
use mixer_wire::envoy::service::auth::v3::{
    AttributeContext, CheckRequest, CheckResponse, attribute_context,
};
use prost::Message as _;
use regex::Regex;

use crate::read;
use crate::support::docs::{Item, items};
use crate::support::rpc::Client;
use crate::support::{DEADLINE, Server, http, run_mixer, wait_for};

/// Pairs of two groups of an expression in a text.
fn pairs(expression: &str, text: &str) -> BTreeMap<String, String> {
    let expression = Regex::new(expression).expect("an expression");
    expression.captures_iter(text).map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
}

#[test]
fn every_attribute_of_envoy_is_described_with_its_type() {
    let types = [
        ("String", "STRING"),
        ("Int64", "INT64"),
        ("Bool", "BOOL"),
        ("IpAddress", "IP_ADDRESS"),
        ("StringMap", "STRING_MAP"),
        ("Timestamp", "TIMESTAMP"),
        ("Duration", "DURATION"),
    ];
    let source = read("src/core/envoy/src/known.rs");
    let built_in = pairs(r#"\("([\w.]+)", (\w+)\)"#, &read("src/core/envoy/src/config/manifest.rs"));
    let mut expected = pairs(r#"(?m)^ +\w+ "([\w.]+)" (\w+);$"#, &source);
    assert!(expected.len() > 80 && built_in.len() > 20, "{expected:?} {built_in:?}");
    for (name, found) in &mut expected {
        let named =
            types.iter().find(|(own, _)| *own == found.as_str()).unwrap_or_else(|| panic!("{name}: {found}"));
        // Those without a manifest.
        *found = format!("{}{}", named.1, if built_in.contains_key(name) { "*" } else { "" });
    }
    let of_istio = pairs(r#"\("([\w.]+)", (\w+)\)"#, &read("src/core/engine/src/snapshot/standard.rs"));
    for (name, found) in &of_istio {
        let (_, named) =
            types.iter().find(|(own, _)| own == found).unwrap_or_else(|| panic!("{name}: {found}"));
        assert_eq!(expected.insert(name.clone(), (*named).to_owned()), None, "{name} is in two tables");
    }
    assert!(of_istio.len() > 20, "{of_istio:?}");
    let rows = pairs(r"(?m)^\| `([\w.]+)` \| ([A-Z_0-9]+\*?) \|", &read("docs/attributes.md"));
    assert_eq!(rows, expected, "docs/attributes.md and the tables of the source differ");
}

/// The code of the answer to a check of Envoy.
fn asked_by_envoy(client: &mut Client, user: &str) -> i32 {
    let socket = SocketAddress { address: "10.1.2.3".to_owned(), port_value: 1234 };
    let address = Some(Address { address: Some(address::Address::SocketAddress(socket)) });
    let http = attribute_context::HttpRequest {
        method: "GET".to_owned(),
        path: "/".to_owned(),
        headers: [("x-user".to_owned(), user.to_owned())].into(),
        ..Default::default()
    };
    let request = attribute_context::Request { http: Some(http), ..Default::default() };
    let source = attribute_context::Peer { address, ..Default::default() };
    let attributes = AttributeContext { source: Some(source), request: Some(request), ..Default::default() };
    let request = CheckRequest { attributes: Some(attributes) }.encode_to_vec();
    let answer = client.call("/envoy.service.auth.v3.Authorization/Check", request, None).expect("an answer");
    CheckResponse::decode(answer).expect("a response").status.expect("a status").code
}

/// What the cookbook has last: refused by a header, allowed by a list, limited by user, counted and logged.
#[test]
fn five_purposes_take_less_than_sixty_lines() {
    let page = read("docs/cookbook.md");
    let policy = items(&page, "Recipes").into_iter().find_map(|item| match item {
        Item::Fence { comment: "file: shop/policy.yaml", content, .. } => Some(content.to_owned()),
        _ => None,
    });
    let policy = policy.expect("the cookbook has shop/policy.yaml");
    assert!(policy.lines().count() < 60 && !policy.contains("attributemanifest"), "{policy}");
    let longest = policy.lines().map(str::len).max();
    assert!(longest < Some(125), "{longest:?}: lines are not to be counted by making them long");
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("policy.yaml"), policy).expect("it is writable");
    let server = Server::on(directory.path()).native().start();
    let api = format!("127.0.0.1:{}", server.ports.api);
    let check = |ip: &str, headers: &str, amount: &str| {
        let (ip, headers) = (format!("source.ip={ip}"), format!("request.headers={headers}"));
        let flags = [
            "check",
            "--server",
            &api,
            "-o",
            "json",
            "--ip-attributes",
            &ip,
            "--stringmap-attributes",
            &headers,
        ];
        run_mixer(&[&flags[..], &["-q", &format!("user={amount}")]].concat())
    };
    // A header refuses, and so does an address that is not in the list.
    let beta = check("10.1.2.3", "x-user:ann;x-channel:beta", "1");
    assert!(beta.stdout.contains("the beta is closed"), "{beta:?}");
    let stranger = check("192.0.2.1", "x-user:ann", "1");
    assert!(stranger.stdout.contains("192.0.2.1 is not whitelisted"), "{stranger:?}");
    // Three for each user.
    let granted = |user: &str| {
        let answer = check("10.1.2.3", &format!("x-user:{user}"), "2");
        let document: serde_json::Value =
            serde_json::from_str(&answer.stdout).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
        document["quotas"][0]["granted"].as_i64().unwrap_or_else(|| panic!("{document}"))
    };
    assert_eq!([granted("ann"), granted("ann"), granted("ann"), granted("bob")], [2, 1, 0, 2]);
    // Also behind Envoy, which names no quota.
    let mut envoy = Client::new(&api).expect("a client");
    assert_eq!([(); 5].map(|()| asked_by_envoy(&mut envoy, "kim")), [0, 0, 0, 8, 8], "{}", server.log());
    assert_eq!(asked_by_envoy(&mut envoy, "lee"), 0);
    // Counted and logged.
    let attributes = ["-s", "request.method=GET,request.path=/cart", "-i", "response.code=503"];
    let time = ["-t", "request.time=2026-01-02T03:04:05Z"];
    let report = run_mixer(&[&["report", "--server", &api], &attributes[..], &time[..]].concat());
    assert_eq!(report.status, 0, "{report:?}");
    let metrics = format!("http://127.0.0.1:{}/metrics", server.ports.metrics);
    let counted = wait_for(DEADLINE, || {
        let page = http("GET", &metrics, "").ok()?.body;
        page.contains("requests{code=\"503\",method=\"GET\"} 1").then_some(())
    });
    assert!(counted.is_some(), "{:?}", http("GET", &metrics, ""));
    let line = r#""instance":"entry.instance.istio-system","code":503,"path":"/cart"}"#;
    let logged = wait_for(DEADLINE, || server.log().contains(line).then_some(()));
    assert!(logged.is_some(), "{}", server.log());
}
