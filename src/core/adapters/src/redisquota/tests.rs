#![cfg(feature = "adapter-redisquota")]

//! Tests against a real Redis, which each of them starts: Debian's package `redis-server`.

mod credentials;
mod leases;
mod outages;
pub(super) mod server;
mod status;
mod topologies;
mod windows;

use std::sync::Arc;

use super::*;
use crate::AdapterOptions;
use crate::testing::{bound, problems, test_env};
use mixer_attribute::{Value, ValueType};
use mixer_engine::adapter::{HandlerError, Instance, QuotaCall, QuotaResult, Reply};

const NAME: &str = "q.instance.istio-system";

/// A quota of 5 in 30 s.
fn quota() -> Quota {
    let valid_duration = SignedDuration::from_secs(30);
    Quota { name: NAME.into(), max_amount: 5, valid_duration, ..Quota::default() }
}

fn params(address: &str) -> Params {
    Params {
        quotas: vec![quota()],
        redis_server_url: address.into(),
        // However busy the machine is.
        timeout: MAX_TIMEOUT,
        ..Params::default()
    }
}

/// A handler, with an environment of its own.
async fn handler(params: Params) -> (Box<dyn Handler>, Env) {
    let env = test_env("h.istio-system");
    let instance = bound(NAME, "quota", "dimensions", &[("svc", ValueType::String)]);
    let handler = RedisQuota::build(params, vec![instance], env.clone()).await.unwrap();
    (handler, env)
}

/// An allocation for a service.
async fn allocate(
    handler: &dyn Handler,
    service: &str,
    id: &str,
    amount: i64,
    best_effort: bool,
) -> Result<QuotaResult, HandlerError> {
    let reply = {
        let values = [Some(Value::String(service.as_bytes()))];
        let instance = Instance { bound: 0, name: NAME, values: &values };
        let call = QuotaCall { amount, best_effort, deduplication_id: id };
        handler.as_quota().unwrap().quota(&instance, call)
    };
    match reply {
        Reply::Ready(result) => result,
        Reply::Later(later) => later.await,
    }
}

/// What is granted; all or nothing.
async fn granted(handler: &dyn Handler, id: &str, amount: i64) -> i64 {
    allocate(handler, "none", id, amount, false).await.unwrap().granted
}

#[test]
fn problems_table() {
    let of = |quota: Quota| Params { quotas: vec![quota], ..Params::default() };
    let url = |url: &str| params(url);
    let rolling = Quota { rate_limit_algorithm: Algorithm::RollingWindow, ..quota() };
    const ADDRESS: &[&str] =
        &["redis_server_url: an address is neither host:port nor a URL redis:// or rediss://"];
    let of_web = Override { dimensions: Entries::from([("svc", Some("web".into()))]), max_amount: 0 };
    let rows: Vec<(&str, Params, &[&str])> = vec![
        ("nothing wrong", url("localhost:6379"), &[]),
        ("a URL", url("rediss://user:secret@redis.example:6380/2"), &[]),
        ("no quota", Params::default(), &["quotas: quota should not be empty"]),
        ("no name", of(Quota::default()), &["name: quotas.name should not be empty"]),
        (
            "no window",
            of(Quota { valid_duration: SignedDuration::ZERO, ..quota() }),
            &["valid_duration: quotas.valid_duration should be bigger must be > 0"],
        ),
        (
            "no step",
            of(rolling.clone()),
            &["bucket_duration: quotas.bucket_duration should be > 0 for ROLLING_WINDOW algorithm"],
        ),
        (
            "a long step",
            of(Quota { bucket_duration: SignedDuration::from_secs(60), ..rolling }),
            &[
                "valid_duration: quotas.valid_duration: 30s should be longer than quotas.bucket_duration: 1m0s for ROLLING_WINDOW algorithm",
            ],
        ),
        (
            "an override without amount, and one without dimensions",
            of(Quota {
                overrides: vec![of_web, Override { max_amount: 1, ..Override::default() }],
                ..quota()
            }),
            &[
                "max_amount: quotas.overrides.max_amount must be > 0",
                "dimensions: quotas.overrides.dimensions is empty",
            ],
        ),
        ("no address", url(""), &["redis_server_url: redis_server_url should not be empty"]),
        ("another scheme", url("http://localhost:1"), ADDRESS),
        ("a password without a scheme", url("user:secret@localhost:1"), ADDRESS),
        (
            "several addresses",
            url("a:1,b:2"),
            &[
                "redis_server_url: several addresses are those of a cluster, with cluster: true, or of sentinels, with sentinelMaster",
            ],
        ),
        ("a cluster", Params { cluster: true, ..url("a:1, b:2") }, &[]),
        (
            "unverified certificates",
            url("rediss://a:1/#insecure"),
            &["redis_server_url: certificates of servers are verified: #insecure is not accepted"],
        ),
        ("leases", of(Quota { lease_duration: SignedDuration::from_nanos(500_000_000), ..quota() }), &[]),
        (
            "a lease that is too short",
            of(Quota { lease_duration: SignedDuration::from_nanos(1), ..quota() }),
            &["leaseDuration: must be 10ms to 1m0s, or 0 to ask Redis for each call; it is 1ns"],
        ),
        (
            "leases of a window that is too short",
            of(Quota {
                lease_duration: SignedDuration::from_secs(1),
                valid_duration: SignedDuration::from_nanos(300_000_000),
                ..quota()
            }),
            &[
                "leaseDuration: a window with leases is at least 320ms long, because a lease is 1/32 of it at most; validDuration is 300ms",
            ],
        ),
        (
            "a local share of nothing",
            Params { outage_mode: OutageMode::LocalShare, ..url("a:1") },
            &[
                "localSharePercent: must be 1 to 100 with outageMode LOCAL_SHARE, for example 33 for one of three servers; it is 0",
            ],
        ),
        (
            "a local share that is not used",
            Params { local_share_percent: 50, ..url("a:1") },
            &["localSharePercent: has no effect without outageMode: LOCAL_SHARE"],
        ),
        (
            "credentials",
            Params {
                username: "ann".into(),
                username_file: "user".into(),
                password_file: "/secret".into(),
                password_environment: "SECRET".into(),
                tls: Some(Tls { cert_file: "c".into(), ..Tls::default() }),
                ..url("a:1")
            },
            &[
                "usernameFile: an absolute path is needed, it is user",
                "username: one of `username`, `usernameFile` and `usernameEnvironment` is enough",
                "passwordFile: one of `passwordFile` and `passwordEnvironment` is enough",
                "tls: has no effect without addresses rediss://HOST:PORT",
                "tls: a certificate and its key belong together",
            ],
        ),
        (
            "a user without a password",
            Params { username: "ann".into(), ..url("a:1") },
            &["username: a user needs a password: set `passwordFile` or `passwordEnvironment`"],
        ),
        ("a user with a password", Params { username: "ann".into(), ..url("redis://:secret@a:1") }, &[]),
        ("tls", Params { tls: Some(Tls::default()), ..url("rediss://a:1") }, &[]),
        (
            "other parameters",
            Params {
                connection_pool_size: -1,
                cluster: true,
                sentinel_master: "main".into(),
                password_file: "secret".into(),
                timeout: SignedDuration::from_secs(11),
                ..url("a:1")
            },
            &[
                "connection_pool_size: connection_pool_size of -1 is invalid, must be > 0",
                "sentinelMaster: a cluster has no sentinels",
                "passwordFile: an absolute path is needed, it is secret",
                "timeout: must be above 0 and at most 10s, it is 11s",
            ],
        ),
    ];
    for (name, params, wanted) in rows {
        assert_eq!(problems::<RedisQuota>(&params), wanted, "{name}");
    }
    let mut found = Diagnostics::new();
    let other = bound("other.instance.ns", "quota", "dimensions", &[]);
    RedisQuota::validate(&params("localhost:6379"), &[other], &mut found);
    let found: Vec<String> = found.into_iter().map(|problem| problem.message.clone()).collect();
    assert_eq!(found, ["quotas: did not find limit defined for quota other.instance.ns"]);
}

#[tokio::test]
async fn an_override_for_a_dimension_that_there_is_not_is_an_error() {
    let dimensions = Entries::from([("scv".to_owned(), Some("web".to_owned()))]);
    let over = Override { dimensions, max_amount: 1 };
    let params = Params { quotas: vec![Quota { overrides: vec![over], ..quota() }], ..params("127.0.0.1:1") };
    let instance = bound(NAME, "quota", "dimensions", &[("svc", ValueType::String)]);
    let mut found = Diagnostics::new();
    RedisQuota::validate(&params, std::slice::from_ref(&instance), &mut found);
    let why = format!("{NAME} has no dimension `scv`, which its override names");
    let [problem] = &*found else { panic!("{found:?}") };
    assert_eq!(
        (problem.field.to_string(), problem.message.clone(), problem.hint.as_deref()),
        (
            "quotas[0].overrides[0].dimensions[scv]".to_owned(),
            format!("the handler will not be built: {why}"),
            Some("did you mean `svc`?")
        )
    );
    let refused = RedisQuota::build(params, vec![instance], test_env("h.istio-system")).await;
    assert_eq!(refused.err().map(|error| error.to_string()), Some(why));
}

#[tokio::test]
async fn as_istio_mixer_a_handler_needs_redis() {
    let env = test_env("h.istio-system");
    env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
    let instance = bound(NAME, "quota", "dimensions", &[]);
    // Nobody listens there.
    let refused = RedisQuota::build(params("127.0.0.1:1"), vec![instance], env.clone()).await.err().unwrap();
    let text = refused.to_string();
    assert!(
        text.contains("redisquota: could not create a connection to redis server: 127.0.0.1:1: "),
        "{text}"
    );
    env.tasks.shut_down().await;
}

#[test]
fn secrets_are_not_shown() {
    let shown = [
        "rediss://user:s3cret@redis.example:6380/2",
        "redis://:s3cret@a:1,redis://:s3cret@b:2",
        "redis://s3cret",
    ]
    .map(|url| {
        let params = Params { cluster: url.contains(','), ..params(url) };
        let problems = problems::<RedisQuota>(&params);
        (backend::check(&params), problems)
    });
    assert!(!format!("{shown:?}").contains("s3cret@"), "{shown:?}");
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
    RedisQuota::validate(params, &[typed_instance()], &mut found);
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
        let refused = RedisQuota::build(params, vec![typed_instance()], test_env("h.istio-system")).await;
        assert_eq!(refused.is_err(), wanted.is_some(), "{dimensions}");
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
    let refused = RedisQuota::build(params, vec![typed_instance()], test_env("h.istio-system")).await;
    assert_eq!(refused.is_err(), wanted.is_some(), "{dimensions}");
}
