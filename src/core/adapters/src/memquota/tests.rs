use std::time::Duration;

use super::*;
use crate::testing::{TestClock, bound, problems, ready, test_env};
use mixer_attribute::{StringMap, Timestamp, Value, ValueType};
use mixer_engine::adapter::QuotaOverride;

const NAME: &str = "q.instance.istio-system";

fn quota(max_amount: i64, seconds: i64) -> Quota {
    Quota {
        name: NAME.into(),
        max_amount,
        valid_duration: SignedDuration::from_secs(seconds),
        overrides: vec![],
    }
}

fn over(dimension: &str, text: &str, max_amount: i64) -> Override {
    let dimensions = Entries::from([(dimension.to_owned(), Some(text.to_owned()))]);
    Override { dimensions, max_amount, valid_duration: SignedDuration::ZERO }
}

struct Fixture {
    handler: Box<dyn Handler>,
    clock: Arc<TestClock>,
    calls: std::cell::Cell<u32>,
}

impl Fixture {
    async fn new(quota: Quota) -> Self {
        Self::with(quota, AdapterOptions::default()).await
    }

    async fn with(quota: Quota, options: AdapterOptions) -> Self {
        let clock = TestClock::at(Duration::from_secs(1_000));
        let env = Env { clock: clock.clone(), ..test_env("h.istio-system") };
        env.commons.insert(Arc::new(options));
        let instance = bound(NAME, "quota", "dimensions", &[("a", ValueType::String)]);
        let params = Params { quotas: vec![quota], ..Params::default() };
        let handler = Memquota::build(params, vec![instance], env).await.unwrap();
        Self { handler, clock, calls: Default::default() }
    }

    fn at(&self, millis: u64) -> &Self {
        self.clock.set(Duration::from_millis(1_000_000 + millis));
        self
    }

    fn ask_id(&self, value: Option<Value<'_>>, amount: i64, best_effort: bool, id: &str) -> (i64, i64) {
        let instance = Instance { bound: 0, name: NAME, values: &[value] };
        let call = QuotaCall { amount, best_effort, deduplication_id: id };
        let result = ready(self.handler.as_quota().unwrap().quota(&instance, call));
        (result.granted, result.valid_duration.nanos / 1_000_000)
    }

    fn ask(&self, value: Option<Value<'_>>, amount: i64) -> (i64, i64) {
        self.calls.set(self.calls.get() + 1);
        self.ask_id(value, amount, false, &self.calls.get().to_string())
    }

    fn most(&self, value: Option<Value<'_>>) -> i64 {
        self.calls.set(self.calls.get() + 1);
        self.ask_id(value, i64::MAX, true, &self.calls.get().to_string()).0
    }
}

const A: Option<Value<'static>> = Some(Value::String(b"a"));

#[test]
fn params_table() {
    let text = |nanos| {
        let window = SignedDuration::from_nanos(nanos);
        problems::<Memquota>(&Params { min_deduplication_duration: window, ..Params::default() })
    };
    assert!(text(1).is_empty());
    for nanos in [0, -1_000_000_000] {
        let shown = SignedDuration::from_nanos(nanos);
        let wanted =
            format!("minDeduplicationDuration: deduplication window of {shown} is invalid, must be > 0");
        assert_eq!(text(nanos), [wanted]);
    }
}

#[test]
fn a_missing_limit_is_diagnosed() {
    let instance = bound(NAME, "quota", "dimensions", &[]);
    let params = Params { quotas: vec![Quota { name: "q".into(), ..quota(1, 1) }], ..Params::default() };
    let mut found = Diagnostics::new();
    Memquota::validate(&params, &[instance], &mut found);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].field.to_string(), "quotas");
    assert_eq!(found[0].hint.as_deref(), Some("add an entry with `name: q.instance.istio-system`"));
}

#[tokio::test]
async fn an_instance_without_a_limit_is_refused_and_as_in_istio_mixer_the_last_of_two_limits_applies() {
    let instance = || vec![bound(NAME, "quota", "dimensions", &[])];
    let error = Memquota::build(Params::default(), instance(), test_env("h")).await.err().unwrap();
    assert_eq!(error.to_string(), "did not find limit defined for quota q.instance.istio-system");
    let params = Params { quotas: vec![quota(1, 0), quota(2, 0)], ..Params::default() };
    let istio = test_env("h");
    istio.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
    let handler = Memquota::build(params, instance(), istio).await.unwrap();
    let call = QuotaCall { amount: 5, best_effort: true, deduplication_id: "" };
    let asked = Instance { bound: 0, name: NAME, values: &[] };
    assert_eq!(ready(handler.as_quota().unwrap().quota(&asked, call)).granted, 2);
}

#[tokio::test]
async fn an_amount_is_available_again_after_the_window() {
    let f = Fixture::new(quota(5, 1)).await;
    assert_eq!(f.ask(A, 5), (5, 1000));
    assert_eq!(f.at(900).ask(A, 1), (0, 0));
    assert_eq!(f.at(1000).ask(A, 1), (1, 1000));
    assert_eq!(f.at(1100).ask(A, -9), (1, 0));
    assert_eq!(f.at(1100).ask(A, -9), (0, 0));
}

#[tokio::test]
async fn a_repeated_id_gets_the_recorded_answer() {
    let f = Fixture::new(quota(10, 5)).await;
    assert_eq!(f.ask_id(A, 4, false, "x"), (4, 5000));
    assert_eq!(f.at(200).ask_id(A, 9, false, "x"), (4, 4800));
    assert_eq!(f.ask_id(A, -1, false, "x"), (4, 0));
    assert_eq!(f.ask_id(A, 0, false, "x"), (0, 0));
    assert_eq!(f.most(A), 6);
    assert_eq!(f.at(2_100).ask_id(A, 4, false, "x"), (0, 0));
}

#[tokio::test]
async fn overrides_compare_by_type() {
    let map = [(&b"b"[..], &b"2"[..]), (b"a", b"1")];
    let map = StringMap { entries: &map, source: None };
    let empty = StringMap { entries: &[], source: None };
    let ip6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3];
    let instant = Timestamp::parse_rfc3339("2019-01-02T03:04:05Z").unwrap();
    let rows = [
        ("text", "x", Some(Value::String(b"x")), true),
        ("other text", "x", Some(Value::String(b"xx")), false),
        ("number with a zero in front", "07", Some(Value::Int64(7)), true),
        ("fraction", "2.50", Some(Value::Double(2.5)), true),
        ("no text for a number", "x", Some(Value::Int64(7)), false),
        ("Boolean", "T", Some(Value::Bool(true)), true),
        ("not a Boolean", "yes", Some(Value::Bool(true)), false),
        ("instant with an offset", "2019-01-02T04:04:05+01:00", Some(Value::Timestamp(instant)), true),
        ("IPv4", "10.1.2.3", Some(Value::Bytes(&[10, 1, 2, 3])), true),
        ("mapped IPv4", "10.1.2.3", Some(Value::Bytes(&mapped)), true),
        ("IPv6", "2001:db8::1", Some(Value::Bytes(&ip6)), true),
        ("IPv6 in another spelling", "2001:DB8::1", Some(Value::Bytes(&ip6)), false),
        ("no address", "10.1.2.3", Some(Value::Bytes(b"abc")), false),
        ("map", "stringmap[a:1 b:2]", Some(Value::StringMap(&map)), true),
        ("map in other order", "stringmap[b:2 a:1]", Some(Value::StringMap(&map)), false),
        ("empty map", "stringmap[]", Some(Value::StringMap(&empty)), true),
        ("absent", "", None, true),
        ("absent and text", "x", None, false),
    ];
    for (name, text, value, matches) in rows {
        let f = Fixture::new(Quota { overrides: vec![over("a", text, 1)], ..quota(9, 0) }).await;
        assert_eq!(f.most(value), if matches { 1 } else { 9 }, "{name}");
    }
}

#[tokio::test]
async fn an_empty_override_matches_what_it_cannot_be() {
    for (value, matches) in [
        (Some(Value::Int64(7)), true),
        (Some(Value::Bool(false)), true),
        (Some(Value::Timestamp(Timestamp::YEAR_ONE)), true),
        (A, false),
        (Some(Value::Bytes(&[1, 2, 3, 4])), false),
    ] {
        let f = Fixture::new(Quota { overrides: vec![over("a", "", 1)], ..quota(9, 0) }).await;
        assert_eq!(f.most(value), if matches { 1 } else { 9 }, "{value:?}");
    }
}

#[tokio::test]
async fn a_dimension_that_the_instance_lacks_matches_only_empty_text() {
    let f = Fixture::with(
        Quota { overrides: vec![over("b", "x", 1), over("b", "", 2)], ..quota(9, 0) },
        AdapterOptions { as_istio_mixer: true },
    )
    .await;
    assert_eq!(f.most(A), 2);
}

#[tokio::test]
async fn values_of_different_types_have_different_cells() {
    let f = Fixture::new(quota(1, 0)).await;
    let values = [
        A,
        None,
        Some(Value::String(b"")),
        Some(Value::Int64(1)),
        Some(Value::Int64(-1)),
        Some(Value::Bool(true)),
        Some(Value::Double(1.0)),
        Some(Value::Duration(SignedDuration::from_nanos(1))),
    ];
    for value in values {
        assert_eq!(f.ask(value, 1).0, 1, "{value:?}");
    }
    for value in values {
        assert_eq!(f.ask(value, 1).0, 0, "{value:?}");
    }
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3];
    assert_eq!(f.ask(Some(Value::Bytes(&mapped)), 1).0, 1);
    assert_eq!(f.ask(Some(Value::Bytes(&[10, 1, 2, 3])), 1).0, 0);
}

#[tokio::test]
async fn limits_hold_under_concurrency() {
    let f = Fixture::new(quota(1000, 0)).await;
    let handler = &f.handler;
    let granted: i64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|t| {
                scope.spawn(move || {
                    (0..500)
                        .map(|i| {
                            let id = format!("{t}-{i}");
                            let call = QuotaCall { amount: 1, best_effort: false, deduplication_id: &id };
                            let instance = Instance { bound: 0, name: NAME, values: &[A] };
                            ready(handler.as_quota().unwrap().quota(&instance, call)).granted
                        })
                        .sum::<i64>()
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(granted, 1000);
    f.handler.close(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test]
async fn a_time_of_day_that_jumps_changes_no_quota() {
    let limited = Fixture::new(quota(2, 60)).await;
    assert_eq!(limited.ask(A, 2), (2, 60_000));
    for seconds in [600, -600, 0] {
        limited.clock.jump(seconds);
        assert_eq!(limited.ask(A, 1), (0, 0), "{seconds}");
        assert_eq!(limited.ask_id(A, 2, false, "1"), (2, 60_000), "the answer to an id is remembered");
    }
    limited.at(60_000).clock.jump(-600);
    assert_eq!(limited.ask(A, 2), (2, 60_000));
}

#[tokio::test]
async fn keys_and_ids_of_a_mebibyte_stay_within_the_memory_limit() {
    let env = test_env("h.istio-system");
    env.commons.insert(Arc::new(MemoryBudget::new(16 << 20)));
    let instance = bound(NAME, "quota", "dimensions", &[("a", ValueType::String)]);
    let params = Params { quotas: vec![quota(1, 86_400)], ..Params::default() };
    let handler = Memquota::build(params, vec![instance], env.clone()).await.unwrap();
    let memory = env.commons.get::<MemoryBudget>();
    let shares = [Purpose::QuotaCells, Purpose::Deduplication].map(|purpose| memory.share(purpose));
    let ask = |key: &str, id: &str| {
        let value = [Some(Value::String(key.as_bytes()))];
        let instance = Instance { bound: 0, name: NAME, values: &value };
        let call = QuotaCall { amount: 1, best_effort: false, deduplication_id: id };
        ready(handler.as_quota().unwrap().quota(&instance, call)).granted
    };
    let long = "k".repeat(1 << 20);
    for n in 0..300 {
        let (key, id) = (format!("{long}{n}"), format!("{n}{long}"));
        assert_eq!((ask(&key, &id), ask(&key, &format!("{id}again"))), (1, 0), "every key is counted");
    }
    for n in 0..60_000 {
        ask(&format!("short {n}"), &format!("id {n}"));
        assert!(shares.iter().all(|share| share.used() <= share.limit()));
    }
    let lost = env.metrics.counter(Family::MemquotaCellsForgotten, &["h.istio-system"]);
    assert!(lost.get() > 0 && shares.iter().all(|share| share.exhausted() > 0));
    assert_eq!(ask("short 59999", "a new id"), 0, "the newest cells are counted");
    drop(handler);
    assert!(shares.iter().all(|share| share.used() == 0));
}

#[tokio::test]
async fn overrides_that_do_not_apply_as_written_are_told() {
    let instance = || bound(NAME, "quota", "dimensions", &[("plan", ValueType::String)]);
    let with = |overrides: Vec<Override>| {
        let of_a_second = |over| Override { valid_duration: SignedDuration::from_secs(1), ..over };
        let overrides = overrides.into_iter().map(of_a_second).collect();
        Params { quotas: vec![Quota { overrides, ..quota(5, 1) }], ..Params::default() }
    };
    let told = |params: &Params| {
        let mut found = Diagnostics::new();
        Memquota::validate(params, &[instance()], &mut found);
        let line = |d: &mixer_config::Diagnostic| {
            format!("{} {}: {} ({})", d.code, d.field, d.message, d.hint.as_deref().unwrap_or_default())
        };
        found.iter().map(line).collect::<Vec<_>>()
    };
    let misspelt = with(vec![over("plann", "free", 1)]);
    let why = "q.instance.istio-system has no dimension `plann`, which its override names";
    let field = "quotas[0].overrides[0].dimensions";
    assert_eq!(
        told(&misspelt),
        [format!(
            "adapter-build {field}[plann]: the handler will not be built: {why} (did you mean `plan`?)"
        )]
    );
    let refused = Memquota::build(misspelt.clone(), vec![instance()], test_env("h.istio-system")).await;
    assert_eq!(refused.err().map(|error| error.to_string()), Some(why.to_owned()));
    let istio = test_env("h.istio-system");
    istio.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
    assert!(Memquota::build(misspelt, vec![instance()], istio).await.is_ok());

    for value in ["\"free\"", "'free'", "*", "10.0.0.0/8", "free ", " free"] {
        let found = told(&with(vec![over("plan", value, 1)]));
        assert!(matches!(&*found, [one] if one.starts_with("quota-override-value ")), "{found:?}");
    }
    let everybody = Override { dimensions: Entries::default(), ..over("plan", "", 1) };
    let shadowed = told(&with(vec![everybody, over("plan", "free", 1)]));
    assert!(
        matches!(&*shadowed, [one] if one.contains("overrides[1] never applies: overrides[0]")),
        "{shadowed:?}"
    );
    assert!(told(&with(vec![over("plan", "free", 1), over("plan", "gold", 2)])).is_empty());
}

/// Parameters with these quotas.
fn written(quotas: &str) -> Params {
    let mut params = Params::default();
    let text = format!("quotas:\n{quotas}");
    let errors = mixer_config::message::decode_over(
        &mut params,
        &mixer_config::yaml::parse(&text).unwrap().root,
        FieldPath::root(),
    );
    assert!(errors.is_empty(), "{errors:?}");
    params
}

/// `(field, message)` of each error for an instance with a text, a number and a boolean.
fn errors_of(params: &Params) -> Vec<(String, String)> {
    let mut found = Diagnostics::new();
    Memquota::validate(params, &[typed_instance()], &mut found);
    let errors = found.into_iter().filter(|problem| problem.severity == mixer_config::Severity::Error);
    errors
        .map(|problem| {
            assert!(problem.accepted_by_istio, "{problem:?}");
            (problem.field.to_string(), problem.message.clone())
        })
        .collect()
}

fn typed_instance() -> mixer_engine::adapter::BoundInstance {
    let dimensions = [("tenant", ValueType::String), ("size", ValueType::Int64), ("tls", ValueType::Bool)];
    bound(NAME, "quota", "dimensions", &dimensions)
}

#[tokio::test]
async fn an_override_with_an_empty_value_is_refused() {
    let quota = |dimensions: &str| {
        written(&format!(
            "- {{name: {NAME}, maxAmount: 2, validDuration: 60s, overrides: [{{dimensions: {dimensions}, maxAmount: 100}}]}}\n"
        ))
    };
    for (dimensions, wanted) in [
        ("{tenant: }", Some(("tenant", "it is null"))),
        ("{tenant: ~, size: '1'}", Some(("tenant", "it is null"))),
        ("{size: ''}", Some(("size", "it is empty, and the dimension is a number"))),
        ("{tenant: a, tls: ''}", Some(("tls", "it is empty, and the dimension is a boolean"))),
        ("{tenant: ''}", None),
        ("{tenant: a, size: '1', tls: 'true'}", None),
    ] {
        let params = quota(dimensions);
        let found = errors_of(&params);
        let wanted = wanted.map(|(name, why)| {
            (
                format!("quotas[0].overrides[0].dimensions[{name}]"),
                format!("the handler will not be built: the value of `{name}` in an override of {NAME} is none: {why}"),
            )
        });
        assert_eq!(found, wanted.clone().into_iter().collect::<Vec<_>>(), "{dimensions}");
        for (as_istio_mixer, is_built) in [(false, wanted.is_none()), (true, true)] {
            let env = test_env("h.istio-system");
            env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer }));
            let built = Memquota::build(params.clone(), vec![typed_instance()], env).await;
            assert_eq!(built.is_ok(), is_built, "{dimensions}");
        }
    }
}

#[tokio::test]
async fn a_quota_is_there_once() {
    let params = written(&format!(
        "- {{name: {NAME}, maxAmount: 2, validDuration: 60s}}\n- {{name: {NAME}, maxAmount: 100000, validDuration: 60s}}\n"
    ));
    let why = format!("the handler will not be built: {NAME} is there twice, as quotas[0] and quotas[1]");
    assert_eq!(errors_of(&params), [("quotas[1].name".to_owned(), why)]);
    let wanted = Some(());
    let dimensions = "";
    for (as_istio_mixer, is_built) in [(false, wanted.is_none()), (true, true)] {
        let env = test_env("h.istio-system");
        env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer }));
        let built = Memquota::build(params.clone(), vec![typed_instance()], env).await;
        assert_eq!(built.is_ok(), is_built, "{dimensions}");
    }
}

#[tokio::test]
async fn windows_and_amounts_that_are_not_meant_are_told() {
    let told = |quota: Quota| {
        let mut found = Diagnostics::new();
        Memquota::validate(&Params { quotas: vec![quota], ..Params::default() }, &[], &mut found);
        let shown = |d: &Diagnostic| format!("{} {} {}", d.severity.name(), d.code, d.field);
        found.iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(told(quota(1, 1)), [""; 0]);
    assert_eq!(told(quota(1, 0)), ["warning quota-held quotas[0]"]);
    assert_eq!(told(quota(-1, 1)), ["warning quota-amount quotas[0].maxAmount"]);
    assert_eq!(told(quota(1, -1)), ["error adapter-build quotas[0].validDuration"]);
    let with_override = Quota { overrides: vec![over("a", "x", 1)], ..quota(1, 1) };
    assert_eq!(told(with_override), ["warning quota-held quotas[0].overrides[0]"]);
    // Istio Mixer builds it; no client is sent a negative duration.
    let instance = bound(NAME, "quota", "dimensions", &[]);
    let params = Params { quotas: vec![quota(1, -1)], ..Params::default() };
    let error = Memquota::build(params, vec![instance], test_env("h")).await.err().unwrap();
    assert_eq!(error.to_string(), "quotas[0].validDuration: must not be negative, it is -1s");
    let f = Fixture::with(quota(1, -1), AdapterOptions { as_istio_mixer: true }).await;
    assert!(f.ask(A, 1).1 >= 0);
}

/// Five of five is not five of five hundred.
#[tokio::test]
async fn the_status_has_the_limit_of_each_key_and_the_names_of_its_dimensions() {
    let f = Fixture::new(Quota { overrides: vec![over("a", "ann", 5)], ..quota(500, 0) }).await;
    let ann = Some(Value::String(b"ann"));
    assert_eq!(f.ask(A, 30), (30, 0));
    assert_eq!(f.ask(ann, 5), (5, 0));
    let status = f.handler.status();
    let quota = status.quotas.first().unwrap();
    let top = quota.top.iter().map(|used| (used.key.clone(), used.used, used.limit, used.is_override));
    let key = |value: &str| vec![("a".to_owned(), value.to_owned())];
    let wanted = [(key("ann"), 5, 5, true), (key("a"), 30, 500, false)];
    assert_eq!(top.collect::<Vec<_>>(), wanted, "the exhausted one first");
    assert_eq!((quota.limit, quota.keys), (500, 2));
    let overrides = [QuotaOverride { dimensions: key("ann"), limit: 5 }];
    assert_eq!((&*quota.overrides, quota.override_count), (&overrides[..], 1));
}
