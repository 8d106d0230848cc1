//! Denied requests that are large, or that name a caller whom nobody has seen: each is counted, and some are recorded.

use std::collections::BTreeMap;

use prost::Message as _;

use crate::scene::{Attacker, Scene, code};
use crate::support::bag::{self, Attribute, Attributes, Words};
use crate::support::rpc::{Client, mixer};

/// `zed` is refused with a message that repeats `source.name`.
const REPEATING: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: names, namespace: istio-system}
spec:
  attributes:
    source.name: {valueType: STRING}
    source.principal: {valueType: STRING}
    request.headers: {valueType: STRING_MAP}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: known, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {overrides: [ann], blacklist: false}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: name, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: source.name | ""}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: known, namespace: istio-system}
spec: {match: source.user == "zed", actions: [{handler: known, instances: [name]}]}
"#;

/// A request of `zed` with these attributes.
fn denied(attributes: impl IntoIterator<Item = (String, Attribute)>) -> mixer::CheckRequest {
    let user = [("source.user".to_owned(), Attribute::Text("zed".to_owned()))];
    let attributes: Attributes = user.into_iter().chain(attributes).collect();
    let attributes = Some(bag::encode_alone(&attributes, Words::of_message()));
    let request = mixer::CheckRequest { attributes, ..Default::default() };
    assert!(request.encoded_len() <= 1 << 20, "{}", request.encoded_len());
    request
}

fn text(name: &str, value: String) -> (String, Attribute) {
    (name.to_owned(), Attribute::Text(value))
}

fn map(name: String, entries: BTreeMap<String, String>) -> (String, Attribute) {
    (name, Attribute::StringMap(entries))
}

/// The good client beside two callers who are denied; each makes its requests of the number of the round.
fn attack(name: &'static str, request: fn(usize) -> mixer::CheckRequest) {
    let mut scene = Scene::start(&[]);
    scene.configure(REPEATING);
    let address = scene.server.address();
    let caller = |first: usize| {
        let mut client = Client::new(&address).expect("a client");
        // Not all in a row: what is made up takes the client longer than the server.
        let requests: Vec<_> = (0..8).map(|round| request(first * 8 + round)).collect();
        let mut round = 0;
        let attacker = move || {
            round += 1;
            match code(&client.check(requests.get(round % 8).expect("it is one of them"), None))? {
                7 => Ok(()),
                code => Err(format!("code {code}")),
            }
        };
        Box::new(attacker) as Attacker
    };
    let outcome = scene.attack(name, &|| (0..2).map(caller).collect());
    outcome.assert_attackers_succeeded();
    outcome.assert_within(96);
    scene.end();
}

#[test]
fn denied_requests_with_a_thousand_secrets_and_a_message_of_a_megabyte() {
    attack("denials with 1 000 secrets", |_| {
        let secrets = (0..1000).map(|at| (format!("k{at:03}token"), format!("{}b{at:04}c", "a".repeat(28))));
        denied([
            text("source.name", "a".repeat(900_000)),
            map("request.headers".to_owned(), secrets.collect()),
        ])
    });
}

#[test]
fn denied_requests_with_a_message_of_parameters() {
    attack("denials with 230 000 parameters", |_| {
        denied([text("source.name", format!("/?{}", "&a=b".repeat(230_000)))])
    });
}

#[test]
fn denied_requests_of_callers_with_names_of_a_megabyte() {
    attack("denials of callers with names of 1 MB", |round| {
        denied([text("source.principal", format!("{round}/?{}", "&a=b".repeat(230_000)))])
    });
}

#[test]
fn denied_requests_with_very_many_entries_below_a_long_name() {
    attack("denials with 1 900 entries of a long name", |_| {
        let entries = (0..1900).map(|at| (format!("token{at}"), "a".repeat(150)));
        denied([text("source.name", "a".repeat(4000)), map("n".repeat(3300), entries.collect())])
    });
}
