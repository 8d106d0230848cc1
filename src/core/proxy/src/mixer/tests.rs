//! Parts of the filters: identity, forwarded attributes, API specifications, quotas, header operations, pauses.

use std::time::Duration;

use mixer_attribute::{OwnedAttributes, OwnedValue};
use mixer_client::HeaderEdit;
use mixer_wire::istio::mixer::v1::header_operation::Operation;

use super::client::retry_pause;
use super::node::Node;
use super::peer::Peer;
use super::{api, forwarded, headers, quotas};
use crate::bootstrap::{ApiKey, ApiPattern, ApiSpec, Clause, QuotaRule, UriPattern, UriTemplate};
use crate::connection_info::ConnectionInfo;
use crate::head::Head;

fn request(text: &str) -> Head {
    let mut head = Head::default();
    head.read_request(format!("{text}\r\n\r\n").as_bytes(), 100).unwrap();
    head
}

fn bag(rows: &[(&str, &str)]) -> OwnedAttributes {
    rows.iter().copied().collect()
}

#[test]
fn a_node_has_an_identity_by_its_metadata_or_its_id() {
    let node = |uid: &str, namespace: &str| Node { uid: uid.to_owned(), namespace: namespace.to_owned() };
    for (metadata, id, expected) in [
        ((Some("u"), Some("n")), "", node("u", "n")),
        (
            (Some("u"), None),
            "sidecar~10.0.0.1~web-1.default~x",
            node("kubernetes://web-1.default", "default"),
        ),
        ((None, None), "~sidecar~~10.0.0.1~web-1.default", node("kubernetes://web-1.default", "default")),
        ((None, None), "sidecar~10.0.0.1~web", node("", "")),
        ((None, None), "sidecar~web.default", node("", "")),
        ((None, None), "", node("", "")),
    ] {
        assert_eq!(Node::new(metadata, id), expected, "{id}");
    }
    let outbound = bag(&[("context.reporter.kind", "outbound")]);
    let (own, forward) = node("u", "n").attributes(&outbound);
    assert_eq!(own, bag(&[("context.reporter.uid", "u"), ("source.namespace", "n"), ("source.uid", "u")]));
    assert_eq!(forward, bag(&[("source.uid", "u")]));
    let (own, forward) = node("u", "n").attributes(&bag(&[]));
    assert_eq!(
        own,
        bag(&[("context.reporter.uid", "u"), ("destination.namespace", "n"), ("destination.uid", "u")])
    );
    assert!(forward.is_empty());
}

#[test]
fn identities_of_tls_are_attributes() {
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    let extracted = |peer: &Peer| {
        let mut into = OwnedAttributes::new();
        peer.extract(&mut into);
        into
    };
    let mut expected = OwnedAttributes::new();
    expected.insert("origin.ip", address);
    expected.insert("connection.mtls", false);
    assert_eq!(extracted(&Peer::plain(address)), expected);
    let text = |text: &str| Some(text.to_owned());
    let peer = Peer {
        principal: text("spiffe://cluster.local/ns/default/sa/web"),
        local_principal: text("spiffe://cluster.local/ns/x/sa/y"),
        server_name: text("web.default"),
        is_mutual: true,
        ..Peer::plain(address)
    };
    expected.insert("connection.mtls", true);
    for (name, value) in [
        ("source.principal", "cluster.local/ns/default/sa/web"),
        ("source.user", "cluster.local/ns/default/sa/web"),
        ("source.namespace", "default"),
        ("destination.principal", "cluster.local/ns/x/sa/y"),
        ("connection.requested_server_name", "web.default"),
    ] {
        expected.insert(name, value);
    }
    assert_eq!(extracted(&peer), expected);
}

#[test]
fn the_certificate_that_is_presented_is_the_destination() {
    let mut info = ConnectionInfo::new(([10, 0, 0, 1], 5).into(), ([10, 0, 0, 2], 6).into());
    assert_eq!(Peer::of(&info).local_principal, None);
    let own_uri = Some("spiffe://td/own".to_owned());
    info.tls = Some(mixer_net::tls::context::TlsSession { own_uri, ..Default::default() });
    let mut attributes = OwnedAttributes::new();
    Peer::of(&info).extract(&mut attributes);
    let mut expected = OwnedAttributes::new();
    expected.insert("destination.principal", "td/own");
    assert_eq!(attributes.get("destination.principal"), expected.get("destination.principal"));
    assert_eq!(attributes.get("source.principal"), None);
}

#[test]
fn forwarded_attributes_are_few_texts() {
    let mut all = bag(&[("source.uid", "u"), ("source.namespace", ""), ("source.user", "root")]);
    all.insert("destination.service.uid", 7);
    all.insert("destination.service.name", OwnedValue::Bytes(b"x".to_vec()));
    all.insert("a.map", OwnedValue::from([("k", "v"), ("", "")]));
    all.insert("a.bool", false);
    all.insert("a.double", 0.5);
    let decoded = forwarded::decode(forwarded::encode(&all).as_bytes());
    assert_eq!(decoded, bag(&[("source.uid", "u")]));
    for invalid in ["", "!", "AAAA", "CgUKA2E=x", "////"] {
        assert!(forwarded::decode(invalid.as_bytes()).is_empty(), "{invalid}");
    }
}

#[test]
fn an_api_adds_attributes_by_method_and_path() {
    let template = |text| UriPattern::Template(UriTemplate::parse(text).unwrap());
    let pattern = |name, method: &str, uri| ApiPattern {
        attributes: bag(&[(name, "yes")]),
        method: method.to_owned(),
        uri,
    };
    let regex = |text: &str| {
        let whole = format!(r"\A(?:{text})\z");
        UriPattern::Regex(mixer_expr::functions::Regex::compile(whole.as_bytes()).unwrap())
    };
    let spec = ApiSpec {
        attributes: bag(&[("api.service", "s")]),
        patterns: vec![
            pattern("any", "*", template("/pets/{id}")),
            pattern("rest", "GET", template("/pets/**")),
            pattern("one", "GET", template("/pets/{id}")),
            pattern("mine", "GET", template("/pets/mine")),
            pattern("again", "GET", template("/pets/{other}")),
            pattern("query", "GET", regex(r"/pets/.*\?v=1")),
            pattern("whole", "GET", regex(r"/pets/mine")),
        ],
        keys: vec![ApiKey::Cookie("key".to_owned()), ApiKey::Header("x-key".to_owned())],
    };
    let extracted = |text: &str| {
        let mut into = OwnedAttributes::new();
        api::extract(&spec, &request(text), &mut into);
        let texts = into.iter().map(|(name, _)| String::from_utf8(name.to_vec()).unwrap());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(extracted("GET /pets/mine HTTP/1.1"), ["api.service", "mine", "whole"]);
    assert_eq!(extracted("GET /pets/7?v=1 HTTP/1.1"), ["api.service", "one", "query"]);
    assert_eq!(extracted("POST /pets/7 HTTP/1.1"), ["any", "api.service"]);
    assert_eq!(extracted("GET /pets/7/toys HTTP/1.1"), ["api.service", "rest"]);
    assert_eq!(extracted("GET /cars HTTP/1.1"), ["api.service"]);
    let key = |spec: &ApiSpec, text: &str| {
        let mut into = OwnedAttributes::new();
        api::extract(spec, &request(text), &mut into);
        into.get("request.api_key").cloned()
    };
    let both = "GET / HTTP/1.1\r\nx-key: h\r\ncookie: a=b; key=\"c\"; z=1";
    assert_eq!(key(&spec, both), Some("c".into()));
    assert_eq!(
        key(&spec, "GET /?key=q HTTP/1.1\r\nx-key: h"),
        Some("h".into()),
        "only where it is configured"
    );
    let default = ApiSpec::default();
    assert_eq!(key(&default, "GET /?a=1&api_key=q HTTP/1.1\r\nx-api-key: h"), Some("q".into()));
    assert_eq!(key(&default, "GET / HTTP/1.1\r\nx-api-key: h"), Some("h".into()));
    assert_eq!(key(&default, "GET / HTTP/1.1"), None);
}

#[test]
fn rules_charge_the_requests_that_they_match() {
    let clause = |name: &str, clause| (name.to_owned(), clause);
    let rule = |matches, quota: &str| QuotaRule { matches, quotas: vec![(quota.to_owned(), 2)] };
    let rules = [
        rule(vec![], "always"),
        rule(vec![vec![clause("a", Clause::Exact("1".to_owned())), clause("b", Clause::Any)]], "both"),
        rule(
            vec![vec![clause("n", Clause::Any)], vec![clause("a", Clause::Prefix("1".to_owned()))]],
            "either",
        ),
    ];
    let names = |attributes: &OwnedAttributes| {
        quotas::required(&rules, attributes).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(&bag(&[])), ["always"]);
    assert_eq!(names(&bag(&[("a", "1"), ("b", "")])), ["always", "both", "either"]);
    assert_eq!(names(&bag(&[("a", "12"), ("b", "")])), ["always", "either"]);
    let mut number = bag(&[]);
    number.insert("n", 5);
    assert_eq!(names(&number), ["always"], "only texts match");
}

#[test]
fn header_operations_cannot_change_how_a_message_is_framed() {
    let edit = |name: &str, value: &str, action| HeaderEdit {
        name: name.to_owned(),
        value: value.to_owned(),
        action,
    };
    let mut head = request("POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\nx: 1");
    let all = [Operation::Replace, Operation::Remove, Operation::Append];
    for name in ["content-length", "transfer-encoding", "connection", "", "a b", ":method", ":path", "host"] {
        for action in all {
            headers::edit_request(&mut head, &[edit(name, "bad value", action)]);
        }
    }
    headers::edit_request(
        &mut head,
        &[edit("x", "a\nb", Operation::Append), edit("x", "\0", Operation::Replace)],
    );
    let mut written = Vec::new();
    head.write_fields(&mut written);
    assert_eq!(String::from_utf8(written).unwrap(), "host: h\r\ncontent-length: 3\r\nx: 1\r\n");
    assert_eq!(head.path(), b"/a");
    let changes =
        [edit(":path", "/b?c", Operation::Replace), edit(":authority", "other:1", Operation::Replace)];
    assert!(headers::edit_request(&mut head, &changes));
    assert_eq!((head.path(), head.authority()), (&b"/b?c"[..], &b"other:1"[..]));
}

#[test]
fn pauses_double_up_to_the_longest() {
    let wait = (Duration::from_millis(80), Duration::from_millis(1000));
    for attempt in [0, 1, 2, 3, 4, 10, u32::MAX] {
        let ceiling =
            Duration::from_millis(80).saturating_mul(2_u32.saturating_pow(attempt.min(10))).min(wait.1);
        for _ in 0..100 {
            let pause = retry_pause(wait, attempt);
            assert!(wait.0 <= pause && pause <= ceiling, "{attempt}: {pause:?}");
        }
    }
}
