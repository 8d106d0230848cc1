use super::groups::OTHERS;
use super::*;
use crate::snapshot::{Registry, SnapshotBuilder, SnapshotId, SnapshotOptions};
use mixer_attribute::{OwnedValue, Value, ValueType};
use mixer_base::secrets::MASKED;

fn vocabulary() -> Vocabulary {
    let mut builder = Vocabulary::builder();
    builder.declare("source.user", ValueType::String);
    builder.declare("request.headers", ValueType::StringMap);
    builder.build()
}

/// A snapshot with this number, under which these attributes are secret.
fn snapshot(id: u64, secrets: &[&str]) -> Snapshot {
    let empty = SnapshotBuilder::new(SnapshotOptions::new(Registry::default())).empty();
    let mut snapshot = Arc::into_inner(empty).unwrap();
    snapshot.id = SnapshotId(id);
    snapshot.secrets = Arc::new(secrets.iter().map(|name| (*name).into()).collect());
    snapshot
}

/// Records a denial: code, message, and whether it is from the cache.
fn record(
    denials: &Denials,
    (code, message, cached): (i32, &str, bool),
    snapshot: &Snapshot,
    request: Vec<u8>,
) {
    let (arena, vocabulary) = (Bump::new(), vocabulary());
    let bag = AttributeBag::empty(&vocabulary, &arena);
    let refusal = Refusal { code, message, by: DeniedBy::Quota("requests"), cached };
    denials.record(refusal, snapshot, &bag, || request);
}

fn request(path: &str) -> Vec<u8> {
    let mut attributes = OwnedAttributes::new();
    attributes.insert("source.user", "ann");
    let headers = OwnedValue::from([(":path", path), ("authorization", "Bearer abc")]);
    attributes.insert("request.headers", headers);
    let mut request = Vec::new();
    prost::encoding::bytes::encode(1, &attributes.to_bytes(0), &mut request);
    request
}

#[test]
fn an_attribute_with_the_name_of_an_entry_is_not_taken_for_one() {
    let mut attributes = OwnedAttributes::new();
    attributes.insert("request.headers", OwnedValue::from([("x-user", "mallory")]));
    attributes.insert("request.headers[x-user]", "root");
    let mut request = Vec::new();
    prost::encoding::bytes::encode(1, &attributes.to_bytes(0), &mut request);
    let denials = Denials::default();
    record(&denials, (7, "no", false), &snapshot(3, &[]), request);
    let kept = denials.list(&vocabulary());
    let shown = kept.first().unwrap().attributes.clone().unwrap();
    let expected = [("\"request.headers[x-user]\"", "root"), ("request.headers[x-user]", "mallory")];
    assert_eq!(shown, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn secrets_are_masked() {
    let denials = Denials::default();
    record(&denials, (7, "no", false), &snapshot(3, &[]), request("/x"));
    let kept = denials.list(&vocabulary());
    let first = kept.first().unwrap();
    let expected = [
        ("request.headers[:path]", "/x"),
        ("request.headers[authorization]", MASKED),
        ("source.user", "ann"),
    ];
    assert_eq!(first.attributes, Some(expected.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec()));
    assert_eq!(first.masked, ["request.headers[authorization]"]);
    assert_eq!((first.code, &*first.message, first.snapshot, first.cached), (7, "no", 3, false));
    assert_eq!(denials.get(first.id, &vocabulary()).unwrap().message, "no");
    assert!(denials.get(99, &vocabulary()).is_none());
}

/// A handler may repeat in its message what it was given.
#[test]
fn secrets_in_the_message_are_masked() {
    let denials = Denials::default();
    record(&denials, (7, "abc: Bearer abc is not whitelisted", false), &snapshot(3, &[]), request("/x"));
    let listed = denials.list(&vocabulary());
    assert_eq!(listed.first().unwrap().message, "abc: *** is not whitelisted");
}

/// Masked as the snapshot says that decided: a later one may declare nothing.
#[test]
fn attributes_that_are_declared_to_be_secret_are_masked() {
    let denials = Denials::default();
    let snapshot = snapshot(3, &["source.user", "request.headers"]);
    record(&denials, (7, "ann is not whitelisted", false), &snapshot, request("/x"));
    drop(snapshot);
    let denial = denials.list(&vocabulary()).remove(0);
    let names = ["request.headers[:path]", "request.headers[authorization]", "source.user"];
    let expected = names.map(|name| (name.to_owned(), MASKED.to_owned())).to_vec();
    assert_eq!(denial.attributes, Some(expected));
    record(&denials, (7, "ann", false), &self::snapshot(3, &["source.user"]), request("/x"));
    assert_eq!(denials.list(&vocabulary()).remove(0).message, MASKED);
}

#[test]
fn recording_is_rate_limited() {
    let denials = Denials::default();
    let snapshot = snapshot(3, &[]);
    for _ in 0..1001 {
        record(&denials, (7, "no", false), &snapshot, request("/x"));
    }
    assert_eq!(denials.total(), 1001);
    assert_eq!(denials.by_code().collect::<Vec<_>>(), [("PERMISSION_DENIED", 1001)]);
    assert!(denials.list(&vocabulary()).len() <= 3 * KEPT_A_SECOND as usize);
}

#[test]
fn the_ring_wraps_around_and_large_requests_are_recorded_without_attributes() {
    let denials = Denials::with_rate(u32::MAX);
    let snapshot = snapshot(1, &[]);
    for number in 0..KEPT + 10 {
        record(&denials, (16, &format!("denial {number}"), true), &snapshot, request(&number.to_string()));
    }
    let list = denials.list(&vocabulary());
    assert_eq!(list.len(), KEPT);
    assert_eq!(list.first().unwrap().message, format!("denial {}", KEPT + 9));
    assert_eq!(list.last().unwrap().message, "denial 10");
    let path = list.last().unwrap().attributes.as_ref().unwrap().first().unwrap().1.clone();
    assert_eq!(path, "10");
    record(&denials, (16, &"ä".repeat(500), true), &snapshot, request(&"x".repeat(2 * SLOT)));
    let last = denials.list(&vocabulary()).remove(0);
    let cut = last.message.strip_suffix('…').expect("a sign that there is more");
    assert_eq!((cut.len(), last.attributes), (MAX_VALUE, None));
    // What fits has no sign.
    record(&denials, (16, &"x".repeat(MAX_VALUE), true), &snapshot, request("/"));
    assert_eq!(denials.list(&vocabulary()).remove(0).message, "x".repeat(MAX_VALUE));
}

/// A vocabulary, and the bag of a request with these attributes that has read one of them.
fn record_read(denials: &Denials, attributes: OwnedAttributes, read: &str, key: Option<&str>) -> Denial {
    let mut builder = Vocabulary::builder();
    for name in ["request.url_path", "source.user"] {
        builder.declare(name, ValueType::String);
    }
    builder.declare("request.headers", ValueType::StringMap);
    let (arena, vocabulary) = (Bump::new(), builder.build());
    let body = attributes.to_bytes(0);
    let bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
    let found = bag.get(vocabulary.slot(read.as_bytes()).unwrap());
    if let (Some(Value::StringMap(map)), Some(key)) = (found, key) {
        bag.lookup(map, arena.alloc_str(key).as_bytes()).unwrap();
    }
    let refusal = Refusal { code: 7, message: "no", by: DeniedBy::Server, cached: false };
    denials.record(refusal, &snapshot(1, &[]), &bag, || request_of(&bag));
    denials.list(&vocabulary).remove(0)
}

fn value<'d>(denial: &'d Denial, name: &str) -> Option<&'d str> {
    denial.attributes.iter().flatten().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
}

/// What a caller sends besides takes no room from what was decided by.
#[test]
fn what_the_answer_depends_on_is_listed_whole_and_before_the_rest() {
    let denials = Denials::with_rate(u32::MAX);
    let path = format!("/{}.php", "a".repeat(1000));
    let many: Vec<(String, String)> = (0..150).map(|n| (format!("x-h{n:03}"), "v".to_owned())).collect();
    let mut attributes = OwnedAttributes::new();
    attributes.insert("request.url_path", path.as_str());
    attributes.insert(
        "request.headers",
        OwnedValue::StringMap(many.into_iter().map(|(k, v)| (k.into(), v.into())).collect()),
    );
    let denial = record_read(&denials, attributes, "request.url_path", None);
    assert_eq!(value(&denial, "request.url_path"), Some(&*path));
    let listed = denial.attributes.as_ref().unwrap();
    assert_eq!((listed.len(), denial.left_out), (MAX_ATTRIBUTES, 151 - MAX_ATTRIBUTES));
    assert!(listed.is_sorted() && denial.cut.is_empty() && denial.masked.is_empty());
}

/// A request that is larger than a slot: a referenced entry of a map, then short values.
#[test]
fn of_a_large_request_what_the_answer_depends_on_is_recorded_first() {
    let denials = Denials::with_rate(u32::MAX);
    let mut attributes = OwnedAttributes::new();
    let (long, longer) = ("b".repeat(2000), "c".repeat(3 * SLOT));
    attributes.insert("source.user", "ann");
    attributes.insert("request.url_path", longer.as_str());
    let headers = [("x-known", &*long), ("x-other", &*longer), ("cookie", &*longer), ("x-short", "1")];
    attributes.insert("request.headers", OwnedValue::from(headers));
    let denial = record_read(&denials, attributes.clone(), "request.headers", Some("x-known"));
    assert_eq!(value(&denial, "request.headers[x-known]"), Some(&*long));
    assert_eq!(
        (value(&denial, "request.headers[x-short]"), value(&denial, "source.user")),
        (Some("1"), Some("ann"))
    );
    assert_eq!(
        (value(&denial, "request.headers[cookie]"), &*denial.masked),
        (Some(MASKED), &["request.headers[cookie]".to_owned()][..])
    );
    assert_eq!((value(&denial, "request.headers[x-other]"), denial.left_out), (None, 2));
    assert!(denial.cut.is_empty(), "{:?}", denial.cut);
    // One that has no room is cut, and named.
    let denial = record_read(&denials, attributes, "request.url_path", None);
    let path = value(&denial, "request.url_path").unwrap();
    assert_eq!((path.chars().count(), &*denial.cut), (MAX_VALUE + 1, &["request.url_path".to_owned()][..]));
}

/// The message of a request that is recorded in part.
#[test]
fn secrets_in_the_message_of_a_large_request_are_masked() {
    let denials = Denials::default();
    let (arena, vocabulary) = (Bump::new(), vocabulary());
    let mut attributes = OwnedAttributes::new();
    let headers = [("cookie", "session-of-ann"), ("x-long", &*"x".repeat(2 * SLOT))];
    attributes.insert("request.headers", OwnedValue::from(headers));
    let body = attributes.to_bytes(0);
    let bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
    let message = "session-of-ann is not whitelisted";
    let refusal = Refusal { code: 7, message, by: DeniedBy::Server, cached: false };
    denials.record(refusal, &snapshot(1, &[]), &bag, || request_of(&bag));
    assert_eq!(denials.list(&vocabulary).remove(0).message, "*** is not whitelisted");
}

/// What a caller sends does not make recording it dearer. It would take minutes if values and messages were looked at whole.
#[test]
fn large_denials_are_recorded_without_a_look_at_all_of_them() {
    let denials = Denials::with_rate(u32::MAX);
    let snapshot = snapshot(1, &[]);
    let (arena, vocabulary) = (Bump::new(), vocabulary());
    let query = format!("/?{}", "&a=b".repeat(240_000));
    let tokens: Vec<(String, String)> =
        (0..1000).map(|n| (format!("x-{n}-token"), format!("hunter{n:04}{}", "-".repeat(25)))).collect();
    let tokens = tokens.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let paths = (0..20).map(|n| (format!("x-{n}").into(), format!("/?{}", "&a=b".repeat(1000)).into()));
    let secret = format!("{} hunter0999{} is not whitelisted", "-".repeat(170), "-".repeat(25));
    let entries = |count: usize, name: &str, value: &str| {
        OwnedValue::StringMap((0..count).map(|n| (format!("{name}{n}").into(), value.into())).collect())
    };
    let long_name = format!("request.{}", "n".repeat(3300));
    for (name, headers, message) in [
        (&*long_name, entries(500, "x-", &"a".repeat(150)), "a".repeat(4000)),
        ("request.headers", entries(1000, "token", "aaaa"), "a".repeat(4000)),
        ("request.headers", entries(1000, "token", &"a".repeat(150)), "a".repeat(4000)),
        ("request.api_key", OwnedValue::Bytes(vec![7; 1 << 20]), "a".repeat(4000)),
    ] {
        let body = OwnedAttributes::from_iter([(name, headers)]).to_bytes(0);
        let bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
        for _ in 0..100 {
            let refusal = Refusal { code: 7, message: &message, by: DeniedBy::Server, cached: false };
            denials.record(refusal, &snapshot, &bag, || &body);
        }
        let shown = denials.list(&vocabulary).remove(0).message;
        match name == "request.headers" {
            true => assert_eq!(shown.replace(MASKED, ""), "…", "{name}: {shown}"),
            false => assert_eq!(shown, "a".repeat(MAX_VALUE) + "…", "{name}"),
        }
    }
    let requests = [
        (OwnedValue::StringMap(tokens), "-".repeat(940_000), "…"),
        (OwnedValue::from([("x", &*query)]), query.clone(), "…"),
        (OwnedValue::StringMap(paths.collect()), query.clone(), "…"),
        (OwnedValue::from([("x-token", &*format!("hunter0999{}", "-".repeat(25)))]), secret, " ***…"),
    ];
    for (headers, message, end) in requests {
        let mut attributes = OwnedAttributes::new();
        attributes.insert("request.headers", headers);
        let body = attributes.to_bytes(0);
        for number in 0..100 {
            let mut bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
            // Another caller each time.
            let caller = arena.alloc_str(&format!("{number}{query}"));
            bag.set(vocabulary.slot(b"source.user").unwrap(), Value::String(caller.as_bytes()));
            let refusal = Refusal { code: 7, message: &message, by: DeniedBy::Server, cached: false };
            denials.record(refusal, &snapshot, &bag, || &body);
        }
        let denial = denials.list(&vocabulary).remove(0);
        assert!(denial.message.ends_with(end) && !denial.message.contains("hunter"), "{}", denial.message);
        assert!(denial.message.len() <= MAX_VALUE + "…".len());
    }
}

#[test]
fn codes_have_names() {
    assert_eq!(status_name(16), "UNAUTHENTICATED");
    assert_eq!(status_name(-1), "UNKNOWN");
    assert_eq!(status_name(99), "UNKNOWN");
}

/// The callers of a service that a limit refuses, each a different one.
#[test]
fn denials_are_grouped_by_what_refused_them_by_service_and_by_caller() {
    let denials = Denials::default();
    let snapshot = snapshot(1, &[]);
    let mut builder = Vocabulary::builder();
    for name in ["destination.service.host", "source.user", "source.name"] {
        builder.declare(name, ValueType::String);
    }
    let vocabulary = builder.build();
    let refuse = |by: DeniedBy<'_>, service: &str, caller: &str| {
        let arena = Bump::new();
        let body = OwnedAttributes::from_iter([
            ("destination.service.host", service),
            ("source.user", ""),
            ("source.name", caller),
        ])
        .to_bytes(0);
        let bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
        denials.record(Refusal { code: 8, message: "", by, cached: false }, &snapshot, &bag, || b"");
    };
    for _ in 0..3 {
        refuse(DeniedBy::Limit("edge: path"), "shop", "ann");
    }
    refuse(DeniedBy::Limit("edge: path"), "shop", "bob");
    refuse(DeniedBy::Quota("edge: path"), "shop", "ann");
    refuse(DeniedBy::Limit("edge: path"), "cart", "ann");
    let groups = denials.groups();
    let shown: Vec<_> = groups
        .list
        .iter()
        .map(|g| (g.kind.name(), &*g.by, &*g.service, &*g.caller, g.count, g.sample.is_some()))
        .collect();
    assert_eq!(
        shown,
        [
            ("limit", "edge: path", "shop", "ann", 3, true),
            ("limit", "edge: path", "cart", "ann", 1, true),
            ("quota", "edge: path", "shop", "ann", 1, true),
            ("limit", "edge: path", "shop", "bob", 1, true),
        ]
    );
    for caller in 0..10 * MAX_GROUPS {
        refuse(DeniedBy::Server, "shop", &caller.to_string());
    }
    let groups = denials.groups();
    // Callers with made-up names push out each other alone, and the sums are right.
    let of_others: Vec<&DenialGroup> = groups.list.iter().filter(|group| group.caller == OTHERS).collect();
    assert!(groups.list.len() - of_others.len() <= MAX_GROUPS * shard::count());
    assert_eq!((&*groups.list[1].caller, groups.list[1].count), ("ann", 3), "{:?}", &groups.list[..3]);
    assert!(of_others.iter().any(|others| others.by.is_empty() && others.service == OTHERS), "{of_others:?}");
    let listed: u64 = groups.list.iter().map(|group| group.count).sum();
    assert_eq!((listed, groups.others), (denials.total(), 0));
    // What is denied often stays also if it comes when all groups have more denials, and each denial is followed by that of a made-up name.
    for _ in 0..4 {
        (0..MAX_GROUPS + 2).for_each(|host| refuse(DeniedBy::Server, &format!("fill{host}"), ""));
    }
    for host in 0..600 {
        refuse(DeniedBy::Server, "often", "");
        refuse(DeniedBy::Server, &format!("new{host}"), "");
    }
    let often = denials.groups().list.into_iter().find(|group| group.service == "often");
    assert_eq!(often.map(|group| group.count), Some(600));
    for limit in 0..10 * MAX_GROUPS {
        refuse(DeniedBy::Limit(&format!("made up {limit}")), "shop", "ann");
    }
    let groups = denials.groups();
    assert!(groups.list.len() <= 2 * MAX_GROUPS * shard::count(), "{}", groups.list.len());
    let listed: u64 = groups.list.iter().map(|group| group.count).sum();
    assert_eq!(listed + groups.others, denials.total(), "each denial is in one group or among the others");
}

/// Who is refused often takes no record from others.
#[test]
fn each_group_has_a_record() {
    let denials = Denials::default();
    let snapshot = snapshot(1, &[]);
    let vocabulary = vocabulary_of_descriptors();
    let refuse = |user: &str| {
        let body = descriptor([("user", user)]);
        let arena = Bump::new();
        let bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
        let by = DeniedBy::Limit("shop: user");
        denials.record(Refusal { code: 8, message: user, by, cached: false }, &snapshot, &bag, || b"");
    };
    (0..500).for_each(|_| refuse("mallory"));
    refuse("bob");
    let groups = denials.groups().list;
    let shown: Vec<_> = groups.iter().map(|group| (&*group.caller, group.count)).collect();
    assert_eq!(shown, [("user=mallory", 500), ("user=bob", 1)]);
    for group in groups {
        let sample = denials.get(group.sample.unwrap(), &vocabulary).unwrap();
        assert_eq!(format!("user={}", sample.message), group.caller);
    }
    for user in 0..500 {
        refuse(&user.to_string());
    }
    assert!(
        denials.list(&vocabulary).len() <= 6 * KEPT_A_SECOND as usize,
        "new groups are recorded at a rate, too"
    );
}

/// The caller of a rate limit is told by the values of the descriptor.
#[test]
fn secret_entries_of_descriptors_are_masked() {
    let denials = Denials::default();
    let snapshot = snapshot(1, &[]);
    let vocabulary = vocabulary_of_descriptors();
    let (arena, body) = (Bump::new(), descriptor([("path", "/a"), ("api_token", "hunter2")]));
    let bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
    let by = DeniedBy::Limit("shop: path.api_token");
    denials.record(Refusal { code: 8, message: "", by, cached: false }, &snapshot, &bag, || b"");
    let caller = denials.groups().list.remove(0).caller;
    let mut parts: Vec<&str> = caller.split(' ').collect();
    parts.sort_unstable();
    assert_eq!(parts, ["api_token=***", "path=/a"]);
}

fn vocabulary_of_descriptors() -> Vocabulary {
    let mut builder = Vocabulary::builder();
    builder.declare("ratelimit.descriptor", ValueType::StringMap);
    builder.build()
}

/// A request that says of itself only what descriptor it has.
fn descriptor<const N: usize>(entries: [(&str, &str); N]) -> Vec<u8> {
    let mut attributes = OwnedAttributes::new();
    attributes.insert("ratelimit.descriptor", entries);
    attributes.to_bytes(0)
}

#[test]
fn secret_callers_are_masked() {
    let denials = Denials::default();
    let vocabulary = vocabulary();
    let arena = Bump::new();
    let body = OwnedAttributes::from_iter([("source.user", "ann")]).to_bytes(0);
    let bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
    let refusal = Refusal { code: 7, message: "", by: DeniedBy::Server, cached: false };
    denials.record(refusal, &snapshot(1, &["source.user"]), &bag, || b"");
    assert_eq!(denials.groups().list.first().unwrap().caller, MASKED);
}

/// Two names that begin alike are two, and none looks like another one.
#[test]
fn long_names_are_kept_whole_or_end_with_a_sign() {
    let denials = Denials::default();
    let snapshot = snapshot(1, &[]);
    let vocabulary = vocabulary();
    let refuse = |by: DeniedBy<'_>| {
        let arena = Bump::new();
        let bag = AttributeBag::empty(&vocabulary, &arena);
        let refusal = Refusal { code: 8, message: "", by, cached: false };
        denials.record(refusal, &snapshot, &bag, || b"");
    };
    let long = "x".repeat(1100);
    let [first, second] = ["first", "second"].map(|end| format!("{long}{end}"));
    refuse(DeniedBy::Quota(&first));
    refuse(DeniedBy::Quota(&second));
    let names = |list: Vec<String>| list.into_iter().collect::<std::collections::BTreeSet<_>>();
    let groups = || names(denials.groups().list.into_iter().map(|group| group.by).collect());
    let records = || names(denials.list(&vocabulary).into_iter().map(|denial| denial.by).collect());
    let whole = names(vec![first, second]);
    assert_eq!((groups(), records()), (whole.clone(), whole));

    let limits = ["a", "b"].map(|end| format!("{}{end}", "ä".repeat(MAX_VALUE)));
    limits.iter().for_each(|limit| refuse(DeniedBy::Limit(limit)));
    let shown = format!("{}…", "ä".repeat(MAX_VALUE / 2));
    assert_eq!(denials.groups().list.iter().filter(|group| group.by == shown).count(), 2);
    assert!(records().contains(&shown), "{:?}", records());
    refuse(DeniedBy::Quota(&"y".repeat(MAX_NAME + 1)));
    let shown = format!("{}…", "y".repeat(MAX_NAME));
    assert!(groups().contains(&shown) && records().contains(&shown));
}
