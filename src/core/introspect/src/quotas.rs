//! Quotas and their usage.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use axum::response::Response;
use maud::{Markup, html};
use serde::Serialize;

use super::limits::DescriptorLimit;
use super::page::Page;
use super::{Server, configuration, format, plot};
use mixer_base::secrets::{MASKED, is_secret, mask_text};
use mixer_base::time::Moment;
use mixer_engine::adapter::{QuotaKey, QuotaMode, QuotaSource, QuotaStatus, QuotaUse, SharedQuota};
use mixer_engine::snapshot::{InstanceConfig, Snapshot};

/// JSON of a quota.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Quota {
    handler: String,
    name: String,
    limit: i64,
    /// Go text; `0s` when clients release amounts.
    window: String,
    keys: usize,
    top: Vec<(String, i64)>,
    /// Those of `top` with an override, with their limits.
    overrides: Vec<(String, i64)>,
    /// Those of `top`, with all that is known.
    uses: Vec<Use>,
    /// The first overrides, with their limits, in the order in which they apply.
    configured_overrides: Vec<(String, i64)>,
    configured_override_count: usize,
    /// Absent: the handler counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared: Option<Shared>,
}

/// JSON of the usage of a key.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Use {
    key: String,
    used: i64,
    limit: i64,
    r#override: bool,
    exhausted: bool,
    /// `handler`, `backend`, `lease` or `localShare`.
    source: &'static str,
    /// Seconds since the backend said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    known_ago: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<Lease>,
}

/// JSON of a lease.
#[derive(Debug, Serialize)]
struct Lease {
    share: i64,
    used: i64,
    /// Seconds.
    lasts: f64,
}

/// JSON of the backend of a quota.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shared {
    backend: String,
    /// `exact`, `leases` or `localShare`.
    mode: &'static str,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_duration: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local_share_percent: Option<i64>,
    answers: bool,
    /// Since when it does not, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    away_since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    /// What calls get while it does not answer.
    without_backend: String,
}

/// A quota of a handler, without secrets.
struct Found {
    handler: String,
    quota: QuotaStatus,
}

/// The dimensions whose values must not be shown.
struct SecretDimensions<'s>(BTreeSet<&'s str>);

impl<'s> SecretDimensions<'s> {
    /// Those with the names of secrets, and those whose expressions read one.
    fn of(instance: &'s InstanceConfig, snapshot: &Snapshot) -> Self {
        let leaves = instance.bound.leaves.iter().zip(instance.secret_leaves(snapshot));
        let secret = leaves.filter(|(_, is_of_secret)| *is_of_secret);
        Self(secret.map(|(leaf, _)| leaf.key.as_deref().unwrap_or(&leaf.field)).collect())
    }

    fn mask(&self, key: &mut QuotaKey) {
        for (name, value) in key {
            let is_masked = !value.is_empty() && (self.0.contains(&**name) || is_secret(name));
            *value = if is_masked { MASKED.to_owned() } else { mask_text(value).into_owned() };
        }
    }
}

fn of_handlers(server: &Server) -> Vec<Found> {
    let published = server.runtime.load_full();
    let snapshot = published.routes.snapshot();
    let of = |handler: &mixer_engine::handler::LiveHandler| {
        let quotas = handler.status().quotas.into_iter();
        quotas.map(|quota| Found { handler: handler.name().to_owned(), quota }).collect::<Vec<_>>()
    };
    let mut all: Vec<Found> = published.routes.handlers().iter().flat_map(|handler| of(handler)).collect();
    let names: HashSet<String> = all.iter().map(|found| found.quota.name.clone()).collect();
    let instances = snapshot.instances.iter().filter(|instance| names.contains(&**instance.name()));
    let secrets: HashMap<&str, SecretDimensions<'_>> =
        instances.map(|instance| (&**instance.name(), SecretDimensions::of(instance, snapshot))).collect();
    let none = SecretDimensions(BTreeSet::new());
    for Found { quota, .. } in &mut all {
        let secrets = secrets.get(&*quota.name).unwrap_or(&none);
        quota.top.iter_mut().for_each(|used| secrets.mask(&mut used.key));
        quota.overrides.iter_mut().for_each(|over| secrets.mask(&mut over.dimensions));
    }
    all
}

/// `name=value, …`.
fn text(key: &QuotaKey) -> String {
    let part = |(name, value): &(String, String)| match name.as_str() {
        "" => value.clone(),
        name => format!("{name}={value}"),
    };
    key.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// JSON of the page: quotas of handlers, then limits of descriptors.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Limiting {
    Quota(Box<Quota>),
    Descriptor(DescriptorLimit),
}

/// All quotas and limits.
pub(super) fn json(server: &Server) -> Vec<Limiting> {
    let quotas = quotas(server).into_iter().map(Box::new).map(Limiting::Quota);
    quotas.chain(super::limits::json(server).into_iter().map(Limiting::Descriptor)).collect()
}

/// All quotas.
fn quotas(server: &Server) -> Vec<Quota> {
    let quota = |Found { handler, quota }: Found| Quota {
        overrides: quota
            .top
            .iter()
            .filter(|used| used.is_override)
            .map(|used| (text(&used.key), used.limit))
            .collect(),
        top: quota.top.iter().map(|used| (text(&used.key), used.used)).collect(),
        uses: quota.top.iter().map(Use::from).collect(),
        configured_overrides: quota
            .overrides
            .iter()
            .map(|over| (text(&over.dimensions), over.limit))
            .collect(),
        configured_override_count: quota.override_count,
        shared: quota.shared.map(Shared::from),
        handler,
        name: quota.name,
        limit: quota.limit,
        window: quota.window.to_string(),
        keys: quota.keys,
    };
    of_handlers(server).into_iter().map(quota).collect()
}

impl From<&QuotaUse> for Use {
    fn from(used: &QuotaUse) -> Self {
        let (source, known_ago, lease) = match used.source {
            QuotaSource::Handler => ("handler", None, None),
            QuotaSource::Backend { ago } => ("backend", Some(ago), None),
            QuotaSource::Lease { ago, share, used, lasts } => {
                ("lease", Some(ago), Some(Lease { share, used, lasts: lasts.as_secs_f64() }))
            }
            QuotaSource::LocalShare => ("localShare", None, None),
        };
        Self {
            key: text(&used.key),
            used: used.used,
            limit: used.limit,
            r#override: used.is_override,
            exhausted: is_exhausted(used),
            source,
            known_ago: known_ago.map(|ago| ago.as_secs_f64()),
            lease,
        }
    }
}

impl From<SharedQuota> for Shared {
    fn from(shared: SharedQuota) -> Self {
        let SharedQuota { backend, mode, outage, without } = shared;
        let (mode, lease, local_share_percent) = match mode {
            QuotaMode::Exact => ("exact", None, None),
            QuotaMode::Leases(length) => ("leases", Some(length), None),
            QuotaMode::LocalShare(percent) => ("localShare", None, Some(percent)),
        };
        Self {
            backend,
            mode,
            lease_duration: lease.map(|length| length.as_secs_f64()),
            local_share_percent,
            answers: outage.is_none(),
            away_since: outage
                .as_ref()
                .map(|outage| format::instant(Moment::before_now(outage.lasts).time())),
            trouble: outage.map(|outage| mask_text(&outage.why).into_owned()),
            without_backend: without,
        }
    }
}

fn is_exhausted(used: &QuotaUse) -> bool {
    used.used >= used.limit
}

/// The page.
pub(super) fn page(server: &Server) -> Response {
    let (quotas, limits) = (of_handlers(server), super::limits::table(server));
    Page {
        path: "/quotaz/",
        title: "Quotas",
        lead: html! { "Current usage by key, those closest to their limit first. Of quotas that a backend counts, what this server last heard of it." },
        json: "/quotaj/",
        body: html! {
            section #quotas data-live {
                (super::envoy::unlimited_notice(server))
                @if quotas.is_empty() && limits.is_none() { (format::nothing("No rule allocates a quota, and there are no limits of descriptors.")) }
                div.columns { @for Found { handler, quota } in &quotas { (card(handler, quota)) } }
                @if let Some(limits) = limits { (limits) }
            }
        },
    }
    .answer(server)
}

/// A window: `10 min`, `1 min 30 s`.
fn window(nanos: i64) -> String {
    let length = Duration::from_nanos(nanos.max(0).unsigned_abs());
    if length.subsec_nanos() != 0 || length.as_secs() < 60 {
        return format::seconds(length.as_secs_f64());
    }
    let text = format::long(length);
    ["0 s", "0 min", "0 h"]
        .iter()
        .find_map(|end| text.strip_suffix(&format!(" {end}")))
        .unwrap_or(&text)
        .to_owned()
}

fn card(handler: &str, quota: &QuotaStatus) -> Markup {
    let length = if quota.window.nanos == 0 {
        html! { "until released" }
    } else {
        html! { "per " (window(quota.window.nanos)) }
    };
    let known = if quota.shared.is_some() { "known" } else { "in use" };
    html! {
        article.card {
            h2 { (configuration::link(&quota.name)) small.dim { (handler) } }
            p { b { (quota.limit) } " per key, " (length) "; " (format::counted(quota.keys as u64, "key")) " " (known) }
            @if let Some(shared) = &quota.shared { (backend(shared)) }
            @if !quota.overrides.is_empty() { (overrides(quota)) }
            table.histogram { tbody { @for used in &quota.top { (row(used)) } } }
        }
    }
}

/// Which backend, whether it answers, and what follows if it does not.
fn backend(shared: &SharedQuota) -> Markup {
    html! {
        p {
            @match &shared.outage {
                None => { span.pill.good { "answers" } }
                Some(outage) => {
                    span.pill.bad { "does not answer" } " "
                    "since " (format::ago(Moment::before_now(outage.lasts))) ": "
                    span.trouble { (format::message(&mask_text(&outage.why))) }
                }
            }
            br;
            @match shared.mode {
                QuotaMode::Exact => "Exact: a round trip a call",
                QuotaMode::Leases(length) => { "Leases of up to " (format::seconds(length.as_secs_f64())) }
                QuotaMode::LocalShare(percent) => { "Local share: " (percent) " % of each limit" }
            }
            " " small.dim { (shared.backend) "; without it: " (shared.without) }
        }
    }
}

fn overrides(quota: &QuotaStatus) -> Markup {
    html! {
        details.inline {
            summary { (quota.override_count) @if quota.override_count == 1 { " override" } @else { " overrides" } }
            ul {
                @for over in &quota.overrides { li { code { (text(&over.dimensions)) } " " (over.limit) } }
                @if quota.overrides.len() < quota.override_count { li.dim { "and " (quota.override_count - quota.overrides.len()) " more" } }
            }
        }
    }
}

fn row(used: &QuotaUse) -> Markup {
    let share = used.used as f64 / used.limit.max(1) as f64;
    let is_exhausted = is_exhausted(used);
    html! {
        tr.exhausted[is_exhausted] {
            th scope="row" { @if used.key.is_empty() { span.dim { "all clients" } } @else { (text(&used.key)) } }
            td.wide { (plot::bar(share)) }
            td.number {
                span.bad[is_exhausted] { (used.used) " of " (used.limit) }
                @if used.is_override { " " span.pill { "override" } }
                (source(used.source))
            }
        }
    }
}

fn source(source: QuotaSource) -> Markup {
    let seconds = |duration: Duration| format::seconds(duration.as_secs_f64());
    html! {
        @match source {
            QuotaSource::Handler => {}
            QuotaSource::Backend { ago } => { br; small.dim { "known " (seconds(ago)) " ago" } }
            QuotaSource::Lease { ago, share, used, lasts } => {
                br; small.dim {
                    "lease: " (used) " of " (share) " used, "
                    @if lasts.is_zero() { "over" } @else { (seconds(lasts)) " left" }
                    "; known " (seconds(ago)) " ago"
                }
            }
            QuotaSource::LocalShare => { " " span.pill.warn { "local share" } }
        }
    }
}
