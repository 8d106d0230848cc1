//! Checks whether a value is on a list of strings, addresses or patterns, inline or fetched from a provider.
//!
//! A provider is a URL ([`Params::provider_url`], http or https) or, beyond Istio Mixer, a file ([`Params::provider_file`]). Its
//! list is fetched when the handler is built, refreshed in the background, and purged if it could not be refreshed for
//! [`Params::ttl`]. Readers take no lock.

mod addresses;
mod content;
mod document;
mod entries;
mod error_text;
mod fetch;
mod inheritance;
mod metrics;
mod openness;
mod provider;
mod text;
mod turn;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mixer_attribute::text::brief_text;
use mixer_attribute::{SignedDuration, Value};
use mixer_base::task::Task;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Severity};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, Backends, BoundInstance, BuildError, CheckPower, CheckResult, Env, HandleCheck,
    Handler, HandlerError, HandlerStatus, Instance, NOT_BUILT, Reply, Status,
};
use mixer_expr::functions::Regex;

use crate::AdapterOptions;
use addresses::{Dialect, Network};
use entries::Lookup;
use fetch::ListSource;
use inheritance::KnownProviders;
use metrics::ListMetrics;
use provider::Provider;

/// How long the building of a handler waits for its list.
const FIRST_LOAD: Duration = Duration::from_secs(2);
/// How much longer it waits for a list that is there and is being read.
const FIRST_READING: Duration = Duration::from_secs(10);

mixer_config::message_enum! {
    /// The type of the entries of a list.
    pub enum EntryType: "adapter.list.config.Params_ListEntryType" {
        /// Strings, compared byte by byte.
        0 "STRINGS" Strings;
        /// Strings, compared in upper case.
        1 "CASE_INSENSITIVE_STRINGS" CaseInsensitiveStrings;
        /// Addresses and networks.
        2 "IP_ADDRESSES" IpAddresses;
        /// Regular expressions, not anchored.
        3 "REGEX" Regex;
    }
}

mixer_config::message! {
    /// Parameters of the list adapter.
    pub struct Params: "adapter.list.config.Params" {
        /// URL of the list, http or https; empty: only `overrides` apply.
        1 provider_url: String = String::new();
        /// Interval between fetches; at least 1s.
        2 refresh_interval: SignedDuration = SignedDuration::from_secs(60);
        /// How long a list is used if it cannot be refreshed; at least `refreshInterval`.
        3 ttl: SignedDuration = SignedDuration::from_secs(300);
        /// How long an answer may be reused.
        4 caching_interval: SignedDuration = SignedDuration::from_secs(300);
        /// How often an answer may be reused.
        5 caching_use_count: i32 = 10_000;
        /// Entries in addition to those of the provider. Istio Mixer reads null as an empty text; see [`Params::entries`].
        6 overrides: Option<Vec<Option<String>>> = None;
        /// Type of the entries.
        7 entry_type: EntryType = EntryType::default();
        /// Deny values on the list instead of values not on it.
        8 blacklist: bool = false;
        /// File with the list, as an absolute path or `file:///path`; reloaded when it changes and every `refreshInterval`. Not in
        /// Istio Mixer. Excludes `providerUrl`.
        1000 provider_file: String = String::new();
        /// A provider without entries is an empty list. Otherwise it counts as a failed fetch: the last list stays. And a blacklist needs
        /// neither entries nor a provider. Not in Istio Mixer.
        1001 allow_empty_list: bool = false;
    } elsewhere {
        "entries" => "did you mean `overrides`?",
        "list" => "did you mean `overrides`?",
        "values" => "did you mean `overrides`?",
        "denylist" => "did you mean `blacklist`? With `true` what is on the list is denied",
        "denyList" => "did you mean `blacklist`? With `true` what is on the list is denied",
        "blocklist" => "did you mean `blacklist`? With `true` what is on the list is denied",
        "deny" => "did you mean `blacklist`? With `true` what is on the list is denied",
        "whitelist" => "leave it out: what is on the list is allowed, unless `blacklist` is true",
        "allowlist" => "leave it out: what is on the list is allowed, unless `blacklist` is true",
        "allow" => "leave it out: what is on the list is allowed, unless `blacklist` is true",
        "negate" => "did you mean `blacklist`? With `true` what is on the list is denied",
    }
}

impl Params {
    /// The entries of `overrides`, without those that are null; Istio Mixer's reading has an empty text for each of them.
    fn entries(&self, reads_null: bool) -> Vec<String> {
        let entries = self.overrides.iter().flatten();
        entries
            .filter(|entry| reads_null || entry.is_some())
            .map(|entry| entry.clone().unwrap_or_default())
            .collect()
    }
}

/// INVALID_ARGUMENT of `google.rpc.Code`.
const INVALID_ARGUMENT: i32 = 3;
/// PERMISSION_DENIED of `google.rpc.Code`.
const PERMISSION_DENIED: i32 = 7;

/// The adapter, which is also its handler.
pub(crate) struct ListChecker {
    provider: Arc<Provider>,
    blacklist: bool,
    valid_duration: SignedDuration,
    valid_use_count: i32,
    /// Position of `value` in each bound instance.
    positions: Vec<Option<usize>>,
    /// Checks that were refused because the patterns need too much work for their value.
    too_costly: AtomicU64,
}

impl Adapter for ListChecker {
    const INFO: AdapterInfo = AdapterInfo {
        name: "listchecker",
        about: "Checks whether an entry is present in a list",
        templates: &["listentry"],
    };
    type Params = Params;

    fn check_power(params: &Params) -> CheckPower {
        if params.blacklist { CheckPower::Refuses } else { CheckPower::Decides }
    }

    fn validate(params: &Params, _: &[BoundInstance], problems: &mut Diagnostics) {
        if let Some((severity, text)) = denies_nobody(params) {
            let field = FieldPath::root().field("blacklist");
            problems.push(match severity {
                Severity::Error => Diagnostic::error(
                    NOT_BUILT,
                    field,
                    format!("the handler will not be built: {text}"),
                )
                .with_hint(
                    "list what it refuses under `overrides`, or name a `providerUrl` or `providerFile`; \
                             if it is to refuse nobody, set `allowEmptyList`",
                )
                .accepted_by_istio(),
                _ => Diagnostic::warning("list-empty", field, text).with_hint(
                    "list what it refuses under `overrides`, or name a `providerUrl` or `providerFile`",
                ),
            });
        }
        let mut problem = |path: FieldPath, text: String| {
            let mut diagnostic = Diagnostic::error("adapter-config", path, text);
            if diagnostic.message.starts_with("providerUrl") && params.provider_url.starts_with("file:") {
                diagnostic.hint = Some("for a list in a file write `providerFile: /path`".to_owned());
            }
            problems.push(diagnostic);
        };
        let field = |name: &str| FieldPath::root().field(name);
        validate_provider(params, &mut |name, text| problem(field(name), format!("{name}: {text}")));
        if params.caching_interval < SignedDuration::ZERO {
            let text =
                format!("cachingInterval: caching interval must be >= 0, it is {}", params.caching_interval);
            problem(field("cachingInterval"), text);
        }
        if params.caching_use_count < 0 {
            let text = format!(
                "cachingUseCount: caching use count must be >= 0, it is {}",
                params.caching_use_count
            );
            problem(field("cachingUseCount"), text);
        }
        for (index, entry) in params.entries(true).iter().enumerate() {
            let error = match params.entry_type {
                EntryType::Strings | EntryType::CaseInsensitiveStrings => None,
                EntryType::IpAddresses => {
                    let error = Network::parse(entry, Dialect::Istio).err();
                    error.map(|e| (no_address(entry, &e), Network::cure(entry)))
                }
                EntryType::Regex => Regex::compile(entry.as_bytes()).err().map(|e| {
                    let text = format!("overrides: could not parse regex override {entry}: {e}");
                    (text, "an entry is a regular expression, in which `.*` is any text".to_owned())
                }),
            };
            if let Some((text, hint)) = error {
                let path = field("overrides").index(index);
                problems.push(Diagnostic::error("adapter-config", path, text).with_hint(hint));
            }
        }
        if let Some(text) = unsupported_scheme(params) {
            let text = format!("the handler will not be built: {text}");
            let hint =
                match params.provider_url.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("file:")) {
                    true => "for a list in a file write `providerFile: /path`",
                    false => "write `http://` or `https://`",
                };
            let problem = Diagnostic::error(NOT_BUILT, FieldPath::root().field("providerUrl"), text);
            problems.push(problem.with_hint(hint).accepted_by_istio());
        }
        problems.extend(suspicious_entries(params));
        problems.extend(refused_entries(params).map(|(index, text)| {
            let field = FieldPath::root().field("overrides").index(index);
            let text = format!("the handler will not be built: {text}");
            Diagnostic::error(NOT_BUILT, field, text).accepted_by_istio()
        }));
    }

    fn backends(_: &Params) -> Backends {
        Backends::AskHandler
    }

    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        let positions = instances.iter().map(|i| i.position("value")).collect();
        let source = ListSource::of(&params);
        let as_istio_mixer = env.commons.get::<AdapterOptions>().as_istio_mixer;
        if let Some((Severity::Error, text)) = denies_nobody(&params).filter(|_| !as_istio_mixer) {
            return Err(BuildError::Refused(text.to_owned()));
        }
        if let Some((_, text)) = refused_entries(&params).next().filter(|_| !as_istio_mixer) {
            return Err(BuildError::Refused(text));
        }
        if let Some(text) = unsupported_scheme(&params).filter(|_| !as_istio_mixer) {
            return Err(BuildError::Refused(text));
        }
        let accepts_empty = params.allow_empty_list || as_istio_mixer;
        let name = env.handler_name.clone();
        let provider =
            Provider::new(source, params.entry_type, params.entries(as_istio_mixer), name, accepts_empty);
        let provider = provider.of_blacklist(params.blacklist).ending(env.commons.get());
        let provider = match provider.has_source() {
            true => provider.counting(ListMetrics::new(&env.metrics, &env.handler_name)),
            false => provider,
        };
        let provider = Arc::new(if as_istio_mixer { provider.like_istio_mixer() } else { provider });
        let mut refresher = provider::Refresher::new(provider.clone(), params.refresh_interval, params.ttl);
        if as_istio_mixer {
            refresher = refresher.like_istio_mixer();
        }
        // The handler answers as soon as it is built; a failed first fetch is retried like any other. Other changes of the configuration
        // wait for this one: a provider that is slow is asked again in the background.
        match as_istio_mixer {
            true => refresher.load().await,
            false => refresher.load_within(FIRST_LOAD, FIRST_READING).await,
        }
        if provider.has_source() && !as_istio_mixer {
            let known = env.commons.get::<KnownProviders>();
            refresher.inherit(&known, FIRST_READING).await;
            known.add(&provider);
        }
        if provider.has_source() {
            let refresher = Arc::new(tokio::sync::Mutex::new(refresher));
            env.tasks.spawn(Task::restarted("list refresher").of(&*env.handler_name), move || {
                let refresher = Arc::clone(&refresher);
                async move { refresher.lock().await.run().await }
            });
        }
        Ok(Box::new(ListChecker {
            provider,
            blacklist: params.blacklist,
            valid_duration: params.caching_interval,
            valid_use_count: params.caching_use_count,
            positions,
            too_costly: AtomicU64::new(0),
        }))
    }
}

/// The entries of `overrides` that only Istio Mixer takes, with their positions.
fn refused_entries(params: &Params) -> impl Iterator<Item = (usize, String)> {
    opening_entries(params).chain(unlike_istio(params))
}

/// The entries with which the list admits everybody, or that match nothing.
fn opening_entries(params: &Params) -> impl Iterator<Item = (usize, String)> {
    let entries = params.overrides.iter().flatten().enumerate();
    entries.filter_map(|(index, entry)| {
        let entry = entry.as_ref()?;
        let why = openness::refusal(entry.as_bytes(), params.entry_type, params.blacklist)?;
        Some((index, format!("overrides: `{entry}`: {why}")))
    })
}

/// The error of an entry of `overrides`.
fn no_address(entry: &str, error: &str) -> String {
    format!("overrides: could not parse ip address override {entry}: {error}")
}

/// The entries of `overrides` that are networks for Istio Mixer only, by index.
fn unlike_istio(params: &Params) -> impl Iterator<Item = (usize, String)> {
    let overrides = match params.entry_type {
        EntryType::IpAddresses => params.overrides.as_deref(),
        _ => None,
    };
    let entries = overrides.into_iter().flatten().enumerate();
    entries.filter_map(|(index, entry)| {
        let entry = entry.as_deref()?;
        let error = Network::parse(entry, Dialect::Native).err()?;
        Network::parse(entry, Dialect::Istio).ok()?;
        Some((index, no_address(entry, &error)))
    })
}

/// Warnings about entries of `overrides` that are valid and probably do not do what they say.
fn suspicious_entries(params: &Params) -> impl Iterator<Item = Diagnostic> {
    let texts =
        || params.overrides.iter().flatten().map(|entry| entry.as_deref().unwrap_or_default().as_bytes());
    let problem = |index: usize, why: &dyn std::fmt::Display| {
        let field = FieldPath::root().field("overrides").index(index);
        Diagnostic::warning("list-entry", field, format!("overrides: {why}"))
    };
    let admits_more = params.entry_type == EntryType::Regex && !params.blacklist;
    let found = texts().enumerate().filter_map(move |(index, entry)| {
        if let Some(why) = content::suspicion(entry, params.entry_type) {
            return Some(problem(index, &why));
        }
        let is_refused = openness::refusal(entry, params.entry_type, params.blacklist).is_some();
        if !admits_more || entry.is_empty() || is_refused {
            return None;
        }
        let why = content::unanchored(entry)?;
        let hint = "write `^text` for what a value begins with, `^text$` for all of it";
        Some(problem(index, &why).with_hint(hint))
    });
    found.chain(content::row(texts(), params.entry_type).map(move |(index, why)| problem(index, &why)))
}

/// What is wrong with a blacklist that refuses nobody, or fewer than it seems to. Entries that are missing or null are an error: in a
/// file they are what is left when entries were commented out, or not filled in by a template. An empty list is read as null.
fn denies_nobody(params: &Params) -> Option<(Severity, &'static str)> {
    if !params.blacklist {
        return None;
    }
    let overrides = params.overrides.as_deref();
    if overrides.is_some_and(|entries| entries.iter().any(Option::is_none)) {
        return Some((Severity::Error, "overrides: an entry of the blacklist is null"));
    }
    if !params.provider_url.is_empty() || !params.provider_file.is_empty() {
        return None;
    }
    let lets_pass = "overrides: a blacklist without entries and without provider lets everybody pass";
    let is_text = matches!(params.entry_type, EntryType::Strings | EntryType::CaseInsensitiveStrings);
    match overrides {
        None | Some([]) => (!params.allow_empty_list).then_some((Severity::Error, lets_pass)),
        Some(entries) => (is_text && entries.iter().flatten().all(String::is_empty)).then_some((
            Severity::Warning,
            "overrides: every entry of the blacklist is empty: it refuses the empty value only",
        )),
    }
}

/// The error of a provider that can never be asked; compat(1.3): Istio Mixer builds the handler, and each fetch fails.
fn unsupported_scheme(params: &Params) -> Option<String> {
    let (scheme, host) = crate::go_url::scheme_and_host(&params.provider_url).ok()?;
    let is_other = !scheme.is_empty() && !host.is_empty() && scheme != "http" && scheme != "https";
    is_other.then(|| format!("providerUrl: the scheme `{scheme}` is not supported"))
}

/// Checks the fields of the provider.
fn validate_provider(params: &Params, problem: &mut dyn FnMut(&str, String)) {
    if !params.provider_url.is_empty() {
        match crate::go_url::scheme_and_host(&params.provider_url) {
            Err(error) => problem("providerUrl", error),
            Ok((scheme, host)) if scheme.is_empty() || host.is_empty() => {
                problem("providerUrl", "URL scheme and host cannot be empty".to_owned());
            }
            Ok(_) => {}
        }
    }
    if !params.provider_file.is_empty() {
        let path = fetch::file_path(&params.provider_file);
        if !params.provider_url.is_empty() {
            problem("providerFile", "cannot be given together with providerUrl".to_owned());
        } else if !path.is_absolute() {
            let text = format!("an absolute path or file:///path is needed, it is {}", params.provider_file);
            problem("providerFile", text);
        }
    }
    if params.provider_url.is_empty() && params.provider_file.is_empty() {
        return;
    }
    if params.refresh_interval < SignedDuration::from_secs(1) {
        let text = format!("refresh interval must be at least 1 second, it is {}", params.refresh_interval);
        problem("refreshInterval", text);
    }
    if params.ttl < params.refresh_interval {
        let (ttl, interval) = (params.ttl, params.refresh_interval);
        let text = format!("ttl must be > refreshInterval, ttl is {ttl} and refreshInterval is {interval}");
        problem("ttl", text);
    }
}

impl Handler for ListChecker {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let state = self.provider.state();
        let entries = state.entries.as_ref().map_or_else(|| "none".to_owned(), |e| e.len.to_string());
        let mut notes = vec![("entries", entries)];
        match self.too_costly.load(Ordering::Relaxed) {
            0 => {}
            count => notes.push(("refused as too long for the patterns", count.to_string())),
        }
        HandlerStatus { trouble: state.trouble(), notes, ..HandlerStatus::default() }
    }

    fn degradation(&self) -> Option<String> {
        self.provider.state().trouble()
    }
}

impl HandleCheck for ListChecker {
    fn answers_version(&self) -> u64 {
        self.provider.state().version
    }

    fn check(&self, instance: &Instance<'_>) -> Reply<CheckResult> {
        let state = self.provider.state();
        let Some(entries) = &state.entries else {
            let text = state.error.as_deref().unwrap_or("list is not available");
            return Reply::Ready(Err(HandlerError::new(text)));
        };
        let position = self.positions.get(instance.bound).copied().flatten();
        let mut buffer = text::AddressBuffer::default();
        let symbol = match position.and_then(|at| instance.value(at)) {
            Some(Value::String(bytes)) => bytes,
            Some(Value::Bytes(bytes)) => {
                // The common answer needs no formatting.
                if entries.holds_address(bytes) == Some(!self.blacklist) {
                    return Reply::Ready(Ok(self.result(0, String::new())));
                }
                text::address(bytes, &mut buffer)
            }
            other => {
                let shown = other.map_or_else(|| "<nil>".to_owned(), brief_text);
                let text = format!("{shown} is not a valid string or IP address");
                return Reply::Ready(Ok(self.result(INVALID_ARGUMENT, text)));
            }
        };
        let shown = || brief_text(Value::String(symbol));
        Reply::Ready(Ok(match (entries.look_up(symbol), self.blacklist) {
            (Lookup::NotAnAddress, _) => {
                self.result(INVALID_ARGUMENT, format!("{} is not a valid IP address", shown()))
            }
            // Whether it is on the list is not known: nobody passes either kind of list.
            (Lookup::TooCostly, _) => {
                self.too_costly.fetch_add(1, Ordering::Relaxed);
                let length = symbol.len();
                let text =
                    format!("a value of {length} bytes takes too much work for the patterns of the list");
                self.result(INVALID_ARGUMENT, text)
            }
            (Lookup::Found, true) => self.result(PERMISSION_DENIED, format!("{} is blacklisted", shown())),
            (Lookup::Missing, false) => {
                self.result(PERMISSION_DENIED, format!("{} is not whitelisted", shown()))
            }
            (Lookup::Found, false) | (Lookup::Missing, true) => self.result(0, String::new()),
        }))
    }
}

impl ListChecker {
    fn result(&self, code: i32, message: String) -> CheckResult {
        CheckResult {
            status: Status { code, message, details: Vec::new() },
            valid_duration: self.valid_duration,
            valid_use_count: self.valid_use_count,
            output: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
