//! Quotas in Redis, shared by all servers that use it: fixed and rolling windows.
//!
//! One script does each allocation in Redis, by the clock of Redis. A call fails if Redis does not answer; [`mixer.dev/on-error`] says what
//! follows. Called as Istio Mixer, a handler is not built while Redis does not answer
//! ([`AdapterOptions`]). See docs/adapters.md.
//!
//! [`mixer.dev/on-error`]: mixer_engine::snapshot::OnError

#[cfg(any(test, not(feature = "adapter-redisquota")))]
mod absent;
#[cfg(feature = "adapter-redisquota")]
mod backend;

#[cfg(not(feature = "adapter-redisquota"))]
use absent as backend;

use foldhash::HashMap;

use crate::AdapterOptions;
use crate::client_tls::{self, Tls};
use crate::overrides::{self, Configured};
use crate::quotas::LIMIT_NAMES;
use mixer_attribute::SignedDuration;
use mixer_config::message::Entries;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{Adapter, AdapterInfo, Backends, BoundInstance, BuildError, Env, Handler};

mixer_config::message_enum! {
    /// How a window moves.
    pub enum Algorithm: "adapter.redisquota.config.Params.QuotaAlgorithm" {
        /// The whole amount is available again at the end of each window.
        0 "FIXED_WINDOW" FixedWindow;
        /// Amounts are available again one window after they were granted.
        1 "ROLLING_WINDOW" RollingWindow;
    }
}

mixer_config::message_enum! {
    /// What calls get while Redis does not answer.
    pub enum OutageMode: "adapter.redisquota.config.Params.OutageMode" {
        /// They fail; `mixer.dev/on-error` says what follows.
        0 "FAIL" Fail;
        /// What they ask for.
        1 "FAIL_OPEN" FailOpen;
        /// Nothing.
        2 "FAIL_CLOSED" FailClosed;
        /// A part of the limit, which the server counts by itself.
        3 "LOCAL_SHARE" LocalShare;
    }
}

mixer_config::message! {
    /// A limit for certain dimension values.
    pub struct Override: "adapter.redisquota.config.Params.Override" {
        /// Dimension values, as text, to which it applies; all must match. Istio Mixer reads null as an empty text.
        1 dimensions: Entries<Option<String>> = Entries::default();
        /// Amount in a window.
        2 max_amount: i64 = 0;
    }
}

mixer_config::message! {
    /// The limit of one quota instance.
    pub struct Quota: "adapter.redisquota.config.Params.Quota" {
        /// The full name of the instance, for example `q.instance.istio-system`.
        1 name: String = String::new();
        /// Amount in a window.
        2 max_amount: i64 = 0;
        /// Length of the window.
        3 valid_duration: SignedDuration = SignedDuration::ZERO;
        /// Length of the steps in which a rolling window moves.
        4 bucket_duration: SignedDuration = SignedDuration::ZERO;
        /// How the window moves.
        5 rate_limit_algorithm: Algorithm = Algorithm::FixedWindow;
        /// Limits for certain dimension values; the first match applies.
        6 overrides: Vec<Override> = Vec::new();
        /// How long a share of the window lasts, from which a server grants without Redis; 0: Redis is asked for each call. Not in Istio
        /// Mixer.
        1000 lease_duration: SignedDuration = SignedDuration::ZERO;
    } elsewhere LIMIT_NAMES
}

mixer_config::message! {
    /// Parameters of redisquota.
    pub struct Params: "adapter.redisquota.config.Params" {
        /// One entry per quota instance.
        1 quotas: Vec<Quota> = Vec::new();
        /// `host:port`, or a URL `redis://` or `rediss://` with user, password and database; several separated by commas for a cluster and
        /// for sentinels.
        2 redis_server_url: String = "localhost:6379".to_owned();
        /// Accepted for Istio Mixer: all calls of a handler share one connection, in which they do not wait for each other.
        3 connection_pool_size: i64 = 10;
        /// Whether the addresses are those of a Redis Cluster. Not in Istio Mixer.
        1000 cluster: bool = false;
        /// The name of the master that the sentinels at the addresses watch. Not in Istio Mixer.
        1001 sentinel_master: String = String::new();
        /// A file with the password, as an absolute path; read again at each connection. Not in Istio Mixer.
        1002 password_file: String = String::new();
        /// How long a call waits for Redis. Not in Istio Mixer.
        1003 timeout: SignedDuration = SignedDuration::from_secs(1);
        /// Whether numbers and booleans have the keys that Istio Mixer gives them, to count together with it. Not in Istio Mixer.
        1004 istio_keys: bool = false;
        /// What calls get while Redis does not answer. Not in Istio Mixer.
        1005 outage_mode: OutageMode = OutageMode::Fail;
        /// The part of each limit that this server grants by itself while Redis does not answer, in percent. Not in Istio Mixer.
        1006 local_share_percent: i64 = 0;
        /// TLS, with addresses `rediss://`; absent: the roots of the system, and no client certificate. Not in Istio Mixer.
        1007 tls: Option<Tls> = None;
        /// The user, instead of that in the addresses. Not in Istio Mixer.
        1008 username: String = String::new();
        /// A file with the user, as an absolute path; read again at each connection. Not in Istio Mixer.
        1009 username_file: String = String::new();
        /// Environment variable with the user. Not in Istio Mixer.
        1010 username_environment: String = String::new();
        /// Environment variable with the password. Not in Istio Mixer.
        1011 password_environment: String = String::new();
    }
}

/// Longest timeout.
const MAX_TIMEOUT: SignedDuration = SignedDuration::from_secs(10);

/// Shortest and longest lease.
const MIN_LEASE: SignedDuration = SignedDuration::from_nanos(10_000_000);
const MAX_LEASE: SignedDuration = SignedDuration::from_secs(60);
/// A lease lasts at most such a part of its window. Rolling windows count a share from the end of its lease: they grant up to such a part less.
const LEASES_A_WINDOW: i64 = 32;

/// How long shares of a quota last; 0: there are none.
fn lease_of(quota: &Quota) -> SignedDuration {
    let longest = SignedDuration::from_nanos(quota.valid_duration.nanos / LEASES_A_WINDOW);
    quota.lease_duration.min(longest)
}

/// The adapter; its handlers are those of the backend.
pub(crate) struct RedisQuota;

impl Adapter for RedisQuota {
    const INFO: AdapterInfo =
        AdapterInfo { name: "redisquota", about: "Redis-based quotas", templates: &["quota"] };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        let mut found = Found(problems);
        let quotas = FieldPath::root().field("quotas");
        if params.quotas.is_empty() {
            found.push(quotas.clone(), "quotas", "quota should not be empty");
        }
        for (index, quota) in params.quotas.iter().enumerate() {
            found.quota(&quotas.index(index), quota);
        }
        overrides::check(&configured(params), instances, found.0);
        let limits = limits(params);
        for instance in instances.iter().filter(|instance| !limits.contains_key(&*instance.name)) {
            let text = format!("did not find limit defined for quota {}", instance.name);
            found.push(quotas.clone(), "quotas", text);
        }
        let root = FieldPath::root();
        if params.redis_server_url.is_empty() {
            let text = "redis_server_url should not be empty";
            found.push(root.field("redisServerUrl"), "redis_server_url", text);
        } else if let Err(text) = backend::check(params) {
            found.push(root.field("redisServerUrl"), "redis_server_url", text);
        }
        if params.connection_pool_size < 0 {
            let text =
                format!("connection_pool_size of {} is invalid, must be > 0", params.connection_pool_size);
            found.push(root.field("connectionPoolSize"), "connection_pool_size", text);
        }
        if params.cluster && !params.sentinel_master.is_empty() {
            let text = "a cluster has no sentinels";
            found.push(root.field("sentinelMaster"), "sentinelMaster", text);
        }
        for (field, file) in
            [("passwordFile", &params.password_file), ("usernameFile", &params.username_file)]
        {
            if !file.is_empty() && !file.starts_with('/') {
                found.push(root.field(field), field, format!("an absolute path is needed, it is {file}"));
            }
        }
        found.credentials(params);
        client_tls::validate(params.tls.as_ref(), found.0);
        if params.timeout <= SignedDuration::ZERO || params.timeout > MAX_TIMEOUT {
            let text = format!("must be above 0 and at most {MAX_TIMEOUT}, it is {}", params.timeout);
            found.push(root.field("timeout"), "timeout", text);
        }
        let (percent, field) = (params.local_share_percent, root.field("localSharePercent"));
        if params.outage_mode == OutageMode::LocalShare && !(1..=100).contains(&percent) {
            let text = format!(
                "must be 1 to 100 with outageMode LOCAL_SHARE, for example 33 for one of three servers; it is {percent}"
            );
            found.push(field, "localSharePercent", text);
        } else if params.outage_mode != OutageMode::LocalShare && percent != 0 {
            found.push(field, "localSharePercent", "has no effect without outageMode: LOCAL_SHARE");
        }
    }

    fn backends(_: &Params) -> Backends {
        Backends::AskHandler
    }

    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        if !env.commons.get::<AdapterOptions>().as_istio_mixer
            && let Some(flaw) = overrides::flaws(&configured(&params), &instances).next()
        {
            return Err(BuildError::Refused(flaw.text));
        }
        backend::build(params, &instances, &env).await
    }
}

fn configured(params: &Params) -> Vec<Configured<'_>> {
    let quotas = params.quotas.iter();
    quotas
        .map(|quota| Configured {
            name: &quota.name,
            overrides: quota.overrides.iter().map(|over| &over.dimensions).collect(),
        })
        .collect()
}

/// The limits by the name of their instance. Of two entries with the same name, the last applies.
fn limits(params: &Params) -> HashMap<&str, &Quota> {
    params.quotas.iter().map(|quota| (&*quota.name, quota)).collect()
}

/// Errors, with the texts of Istio Mixer.
struct Found<'d>(&'d mut Diagnostics);

impl Found<'_> {
    /// User, password and TLS.
    fn credentials(&mut self, params: &Params) {
        let count = |sources: &[&String]| sources.iter().filter(|source| !source.is_empty()).count();
        let root = FieldPath::root();
        let users = count(&[&params.username, &params.username_file, &params.username_environment]);
        if users > 1 {
            let text = "one of `username`, `usernameFile` and `usernameEnvironment` is enough";
            self.push(root.field("username"), "username", text);
        }
        let passwords = count(&[&params.password_file, &params.password_environment]);
        if passwords > 1 {
            let text = "one of `passwordFile` and `passwordEnvironment` is enough";
            self.push(root.field("passwordFile"), "passwordFile", text);
        }
        // A URL may have one, between `:` and `@`.
        if users > 0 && passwords == 0 && !params.redis_server_url.contains('@') {
            let text = "a user needs a password: set `passwordFile` or `passwordEnvironment`";
            self.push(root.field("username"), "username", text);
        }
        let has_tls = params.redis_server_url.split(',').all(|url| url.trim().starts_with("rediss://"));
        if params.tls.is_some() && !has_tls {
            self.push(root.field("tls"), "tls", "has no effect without addresses rediss://HOST:PORT");
        }
    }

    fn push(&mut self, path: FieldPath, field: &str, text: impl std::fmt::Display) {
        self.0.push(Diagnostic::error("adapter-config", path, format!("{field}: {text}")));
    }

    fn quota(&mut self, path: &FieldPath, quota: &Quota) {
        if quota.name.is_empty() {
            self.push(path.field("name"), "name", "quotas.name should not be empty");
            return;
        }
        let (window, bucket) = (quota.valid_duration, quota.bucket_duration);
        if window <= SignedDuration::ZERO {
            let text = "quotas.valid_duration should be bigger must be > 0";
            self.push(path.field("validDuration"), "valid_duration", text);
        }
        let is_rolling = quota.rate_limit_algorithm == Algorithm::RollingWindow;
        if is_rolling && bucket <= SignedDuration::ZERO {
            let text = "quotas.bucket_duration should be > 0 for ROLLING_WINDOW algorithm";
            self.push(path.field("bucketDuration"), "bucket_duration", text);
        } else if is_rolling && window > SignedDuration::ZERO && window <= bucket {
            let text = format!(
                "quotas.valid_duration: {window} should be longer than quotas.bucket_duration: {bucket} for \
                 ROLLING_WINDOW algorithm"
            );
            self.push(path.field("validDuration"), "valid_duration", text);
        }
        let lease = quota.lease_duration;
        if lease != SignedDuration::ZERO && !(MIN_LEASE..=MAX_LEASE).contains(&lease) {
            let text =
                format!("must be {MIN_LEASE} to {MAX_LEASE}, or 0 to ask Redis for each call; it is {lease}");
            self.push(path.field("leaseDuration"), "leaseDuration", text);
        } else if lease > SignedDuration::ZERO && lease_of(quota) < MIN_LEASE && window > SignedDuration::ZERO
        {
            let least = SignedDuration::from_nanos(MIN_LEASE.nanos * LEASES_A_WINDOW);
            let text = format!(
                "a window with leases is at least {least} long, because a lease is 1/{LEASES_A_WINDOW} of it at most; validDuration is {window}"
            );
            self.push(path.field("leaseDuration"), "leaseDuration", text);
        }
        for (index, over) in quota.overrides.iter().enumerate() {
            let path = path.field("overrides").index(index);
            if over.max_amount <= 0 {
                self.push(path.field("maxAmount"), "max_amount", "quotas.overrides.max_amount must be > 0");
            } else if over.dimensions.is_empty() {
                self.push(path.field("dimensions"), "dimensions", "quotas.overrides.dimensions is empty");
            }
        }
    }
}

#[cfg(test)]
mod tests;
