//! Parts of the filters: identity, forwarded attributes, API specifications, quotas, header operations, pauses.

use std::time::Duration;

use mixer_attribute::{OwnedAttributes, OwnedValue};
use mixer_client::HeaderEdit;
use mixer_wire::istio::mixer::v1::header_operation::Operation;

use super::bounds::Excess;
use super::client::retry_pause;
use super::node::Node;
use super::peer::Peer;
use super::{FilterBuilder, api, forwarded, headers, quotas};
use crate::bootstrap::{
    ApiKey, ApiPattern, ApiSpec, Bootstrap, Clause, FilterKind, MixerConfig, NetworkFilter, QuotaRule,
    ServiceConfig, Told, UriPattern, UriTemplate,
};
use crate::connection_info::ConnectionInfo;
use crate::head::Head;
use crate::stats::Stats;

fn request(text: &str) -> Head {
    let mut head = Head::default();
    head.read_request(format!("{text}\r\n\r\n").as_bytes(), 100).unwrap();
    head
}

fn bag(rows: &[(&str, &str)]) -> OwnedAttributes {
    rows.iter().copied().collect()
}

/// The configuration of a filter that says nothing.
fn mixer_config() -> MixerConfig {
    let text = "static_resources: {clusters: [{name: mixer_server, load_assignment: {cluster_name: c}}], listeners: [{name: l, \
        address: {socket_address: {address: 127.0.0.1, port_value: 0}}, filter_chains: [{filters: [{name: http, typed_config: {\
        '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, \
        stat_prefix: p, route_config: {}, http_filters: [{name: mixer, config: {}}, {name: r, typed_config: \
        {'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]}}]}]}]}";
    let (bootstrap, _) = crate::bootstrap::read(text, "b.yaml").unwrap();
    match &bootstrap.listeners[0].chains[0].filter {
        NetworkFilter::Http(manager) => match &manager.filters[0].kind {
            FilterKind::Mixer(mixer) => mixer.clone(),
            other => panic!("{other:?}"),
        },
        NetworkFilter::Tcp(_) => panic!("an HTTP listener"),
    }
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
fn what_a_certificate_and_the_configuration_say_is_not_overridden() {
    let told = |rows: &[(&str, &str)]| {
        let header = forwarded::encode(&bag(rows));
        request(&format!("GET / HTTP/1.1\r\nx-istio-attributes: {header}"))
    };
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    let principal = Some("spiffe://cluster.local/ns/b/sa/x".to_owned());
    let peer = Peer { principal, is_mutual: true, ..Peer::plain(address) };
    let service =
        ServiceConfig { attributes: bag(&[("destination.service.name", "web")]), ..Default::default() };
    let empty = mixer_config();
    let config = |told| MixerConfig {
        attributes: bag(&[("destination.service.host", "web.default")]),
        told,
        ..empty.clone()
    };
    let head = told(&[
        ("source.namespace", "prod"),
        ("source.uid", "u"),
        ("destination.service.host", "other"),
        ("destination.service.name", "other"),
    ]);
    let seen = |told| {
        let bootstrap = Bootstrap::default();
        let filter = FilterBuilder::new(&bootstrap, false).http(&config(told), &Stats::default(), |_| None);
        let (attributes, excess) = filter.attributes(&head, &service, &peer);
        assert_eq!(excess, None);
        ["source.namespace", "source.uid", "destination.service.host", "destination.service.name"]
            .map(|name| attributes.get(name).cloned())
    };
    let texts = |texts: [&str; 4]| texts.map(|text| (!text.is_empty()).then(|| OwnedValue::from(text)));
    assert_eq!(seen(Told::Completes), texts(["b", "u", "web.default", "web"]));
    assert_eq!(seen(Told::Overrides), texts(["prod", "u", "other", "other"]), "as in Istio");
    assert_eq!(seen(Told::Ignored), texts(["b", "", "web.default", "web"]));
}

#[test]
fn attributes_that_are_too_large_lose_what_the_client_chose() {
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    let filter =
        FilterBuilder::new(&Bootstrap::default(), false).http(&mixer_config(), &Stats::default(), |_| None);
    let service = ServiceConfig::default();
    let of = |text: String| filter.attributes(&request(&text), &service, &Peer::plain(address));
    let many: String = (0..1400).map(|number| format!("&{number}")).collect();
    let (attributes, excess) = of(format!("GET /?{many} HTTP/1.1\r\na: b"));
    assert_eq!(excess, Some(Excess::Parameters));
    assert!(attributes.get("request.query_params").is_none() && attributes.get("request.path").is_some());
    let long = "x".repeat(200_000);
    let (attributes, excess) = of(format!("GET /{long} HTTP/1.1\r\na: b"));
    assert_eq!(excess, Some(Excess::Bytes), "the path counts three times");
    assert!(attributes.get("request.headers").is_none() && attributes.get("request.method").is_some());
    let longer = "x".repeat(700_000);
    let (attributes, excess) = of(format!("GET /{longer} HTTP/1.1\r\na: b"));
    assert_eq!(excess, Some(Excess::Bytes));
    assert!(attributes.get("request.path").is_none() && attributes.get("request.method").is_some());
    assert_eq!(of("GET /a?b=c HTTP/1.1\r\na: b".to_owned()).1, None);
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
    let mut head = request("POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\nx: 1\r\ny: 2");
    let all = [Operation::Replace, Operation::Remove, Operation::Append];
    for name in ["content-length", "transfer-encoding", "connection", "", "a b", ":method", ":path", "host"] {
        for action in all {
            let edited = headers::edit_request(&mut head, &[edit(name, "bad value", action)]);
            let is_own = matches!(name, "content-length" | "transfer-encoding" | "connection");
            assert_eq!(edited.is_ok(), is_own || action == Operation::Remove, "{name}");
        }
    }
    for edit in [edit("x", "a\nb", Operation::Append), edit("y", "\0", Operation::Replace)] {
        assert!(headers::edit_request(&mut head, &[edit]).is_err(), "the request does not pass");
    }
    let mut written = Vec::new();
    head.write_fields(&mut written);
    // What was to be replaced is not left as the client says.
    assert_eq!(String::from_utf8(written).unwrap(), "host: h\r\ncontent-length: 3\r\nx: 1\r\n");
    assert_eq!(head.path(), b"/a");
    let changes =
        [edit(":path", "/b?c", Operation::Replace), edit(":authority", "other:1", Operation::Replace)];
    assert_eq!(headers::edit_request(&mut head, &changes), Ok(true));
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
