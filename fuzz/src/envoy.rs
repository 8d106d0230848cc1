//! Envoy's messages: what the generated decoder accepts is accepted here and has the same content; its attributes survive a round
//! trip.

use std::sync::LazyLock;
use std::time::Duration;

use bumpalo::Bump;
use mixer_attribute::{AttributeBag, OwnedAttributes, OwnedValue, Timestamp, Vocabulary};
use mixer_envoy::{
    AttributePlan, Attributes, ConnectionCounters, EntryOutcome, EnvoyConfig, LogIdentity, LogKind,
    LogMessage, RateLimitRequest, Unit, set_check_request, set_descriptor, set_entry,
};
use mixer_wire::envoy::service::accesslog::v3 as als;
use mixer_wire::envoy::service::auth::v3 as auth;
use mixer_wire::envoy::service::ratelimit::v3 as rls;
use prost::Message as _;

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::builder().build());
static CONFIG: LazyLock<EnvoyConfig> = LazyLock::new(|| {
    let mut config = EnvoyConfig::default();
    config.access_log_types = u64::MAX;
    config.settings.check.include_body = true;
    config.settings.check.trust_forwarded_attributes = true;
    config
});
static PLAN: LazyLock<AttributePlan<'static>> = LazyLock::new(|| AttributePlan::complete(&VOCABULARY));

pub(crate) fn run(data: &[u8]) {
    let Some((selector, body)) = data.split_first() else { return };
    match selector % 3 {
        0 => check_request(body),
        1 => rate_limit(body),
        _ => access_log(body),
    }
}

/// The attributes of a CheckRequest and whether it is an HTTP request; `None` if the bytes are rejected.
fn attributes_of(body: &[u8]) -> Option<(OwnedAttributes, bool)> {
    let arena = Bump::new();
    let body = arena.alloc_slice_copy(body);
    let mut out = Attributes::new(&PLAN, &arena);
    let facts = set_check_request(body, &[], Timestamp::YEAR_ONE, &CONFIG, &mut out);
    let (used, bound) = (arena.allocated_bytes(), 32 * (body.len() + 1024));
    assert!(used <= bound, "{} bytes take {used} bytes of memory", body.len());
    let facts = facts.ok()?;
    Some((encodes_to_itself(&out), facts.is_http))
}

/// The attributes, which are equal in the bag and after a round trip.
fn encodes_to_itself(out: &Attributes<'_>) -> OwnedAttributes {
    let owned = out.to_owned_attributes();
    let expected = owned.to_bytes(0);
    assert_eq!(OwnedAttributes::from_bag(&out.bag()).to_bytes(0), expected, "{owned:?} in the bag");
    let arena = Bump::new();
    let bytes = owned.to_bytes(222);
    let bag = AttributeBag::decode(&bytes, None, &VOCABULARY, &arena).expect("it was encoded here");
    assert_eq!(OwnedAttributes::from_bag(&bag).to_bytes(0), expected, "{owned:?} encoded");
    owned
}

fn check_request(body: &[u8]) {
    let read = attributes_of(body);
    let Ok(message) = auth::CheckRequest::decode(body) else { return };
    let bytes = message.encode_to_vec();
    let Some((attributes, is_http)) = attributes_of(&bytes) else {
        panic!("the canonical form is refused: {message:?}")
    };
    if bytes.len() == body.len() {
        // Nothing was lost; only the order may differ. Only this decoder rejects maps of another wire type.
        if let Some((same, same_kind)) = read {
            assert_eq!((same.to_bytes(0), same_kind), (attributes.to_bytes(0), is_http), "{message:?}");
        }
    }
    let http = message.attributes.as_ref().and_then(|a| a.request.as_ref()).and_then(|r| r.http.as_ref());
    assert_eq!(is_http, http.is_some());
    let Some(http) = http else { return };
    // Extensions and forwarded attributes may set any attribute.
    let context = message.attributes.as_ref().expect("it has a request");
    if !context.context_extensions.is_empty() || http.headers.contains_key("x-istio-attributes") {
        return;
    }
    for (name, text) in
        [("request.method", &http.method), ("request.path", &http.path), ("request.host", &http.host)]
    {
        let expected = OwnedValue::String(text.as_bytes().to_vec());
        assert_eq!(attributes.get(name), Some(&expected), "{name} of {message:?}");
    }
    if http.header_map.is_none()
        && let Some(OwnedValue::StringMap(headers)) = attributes.get("request.headers")
    {
        for (name, value) in &http.headers {
            if name != "x-envoy-auth-partial-body" {
                assert_eq!(headers.get(name.as_bytes()).map(|v| &**v), Some(value.as_bytes()), "{message:?}");
            }
        }
    }
}

fn rate_limit(body: &[u8]) {
    let arena = Bump::new();
    let read = RateLimitRequest::read(body, &arena);
    if let Ok(request) = &read {
        for descriptor in request.descriptors {
            let mut out = Attributes::new(&PLAN, &arena);
            set_descriptor(request.domain, descriptor, &CONFIG, &mut out);
            encodes_to_itself(&out);
        }
    }
    let Ok(message) = rls::RateLimitRequest::decode(body) else { return };
    let bytes = message.encode_to_vec();
    let Ok(request) = RateLimitRequest::read(&bytes, &arena) else {
        panic!("the canonical form is refused: {message:?}")
    };
    assert_eq!(request.domain, message.domain.as_bytes());
    assert_eq!(request.descriptors.len(), message.descriptors.len());
    for (descriptor, expected) in request.descriptors.iter().zip(&message.descriptors) {
        let entries: Vec<_> =
            expected.entries.iter().map(|e| (e.key.as_bytes(), e.value.as_bytes())).collect();
        assert_eq!(descriptor.entries, entries);
        let amount = expected.hits_addend.unwrap_or_else(|| u64::from(message.hits_addend.max(1)));
        let amount = i64::try_from(amount).unwrap_or(i64::MAX);
        assert_eq!(descriptor.charge, if expected.is_negative_hits { -amount } else { amount });
        let limit = expected.limit.as_ref().and_then(|limit| {
            Some((limit.requests_per_unit, Unit::from_number(u64::try_from(limit.unit).ok()?)?))
        });
        assert_eq!(
            descriptor.limit.map(|limit| (limit.requests_per_unit, limit.unit)),
            limit,
            "{expected:?}"
        );
    }
}

fn access_log(body: &[u8]) {
    let read = LogMessage::read(body, usize::MAX);
    let mut counters = ConnectionCounters::new(16, Duration::from_secs(60));
    if let Ok(message) = &read {
        entries(message, &mut counters);
    }
    assert!(counters.len() <= 16);
    let Ok(message) = als::StreamAccessLogsMessage::decode(body) else { return };
    let bytes = message.encode_to_vec();
    let Ok(read) = LogMessage::read(&bytes, usize::MAX) else {
        panic!("the canonical form is refused: {message:?}")
    };
    assert_eq!(read.identifier.is_some(), message.identifier.is_some());
    if let (Some(bytes), Some(identifier)) = (read.identifier, &message.identifier) {
        assert!(LogIdentity::read(bytes).is_ok(), "{identifier:?}");
    }
    let expected = match &message.log_entries {
        Some(als::stream_access_logs_message::LogEntries::HttpLogs(logs)) => {
            (LogKind::Http, logs.log_entry.len())
        }
        Some(als::stream_access_logs_message::LogEntries::TcpLogs(logs)) => {
            (LogKind::Tcp, logs.log_entry.len())
        }
        None => (LogKind::Http, 0),
    };
    assert_eq!((read.entry_count, read.entries().count()), (expected.1, expected.1));
    assert!(read.entries().all(|(kind, _)| kind == expected.0));
    assert!(entries(&read, &mut counters), "prost takes an entry that is refused: {message:?}");
}

/// Maps every entry to attributes; returns whether all were accepted.
fn entries(message: &LogMessage<'_>, counters: &mut ConnectionCounters) -> bool {
    let identity = message.identifier.and_then(|bytes| LogIdentity::read(bytes).ok()).unwrap_or_default();
    let mut good = true;
    for entry in message.entries() {
        let arena = Bump::new();
        let mut out = Attributes::new(&PLAN, &arena);
        match set_entry(entry, &identity, &CONFIG, counters, &mut out) {
            Ok(EntryOutcome::Set { .. }) => drop(encodes_to_itself(&out)),
            Ok(EntryOutcome::Ignored) => {}
            Err(_) => good = false,
        }
    }
    good
}
