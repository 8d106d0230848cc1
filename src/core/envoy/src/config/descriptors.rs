//! The kind `ratelimit`, which is the file format of envoyproxy/ratelimit, and the tree of its descriptors.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use mixer_config::message::{DecodeContext, Field, suggestion};
use mixer_config::{Diagnostic, FieldPath, Node, ResourceKey};
use mixer_engine::snapshot::ResourceProblems;

use super::replacements::Replacements;
use super::wildcard::{Exhausted, Search, Wildcard};

/// A text that is not used, and may be a YAML number or Boolean.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Unused;

impl Field for Unused {
    fn merge(&mut self, _: &Node, _: &mut DecodeContext) {}

    fn to_json(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

mixer_config::message! {
    /// The name of another limit.
    pub struct Replaces: "ratelimit.Replaces" {
        /// The name of the limit.
        1 name: String = String::new();
    }
}

mixer_config::message! {
    /// A limit.
    pub struct RateLimitPolicy: "ratelimit.RateLimit" {
        /// second, minute, hour, day, week, month or year, in any case.
        1 unit: String = String::new();
        /// Requests per unit; without it 0, so that every request is over the limit.
        2 requests_per_unit: Option<u32> = None;
        /// No limit at all.
        3 unlimited: bool = false;
        /// A name for `replaces`.
        4 name: String = String::new();
        /// Limits that this one replaces.
        5 replaces: Vec<Replaces> = Vec::new();
    } elsewhere {
        "shadowMode" => "it is a field of the descriptor: indent it less, beside `rate_limit`",
        "shareThreshold" => "it is a field of the descriptor: indent it less, beside `rate_limit`",
        "burst" => "there are no bursts: within a unit the requests may come at any time",
        "unitMultiplier" => "there are no multiples of units: write second, minute, hour, day, week, month or year",
        "limit" => "did you mean `requests_per_unit`?",
        "maxAmount" => "did you mean `requests_per_unit`?",
    }
}

mixer_config::message! {
    /// A descriptor entry with its limit and nested entries.
    pub struct DescriptorConfig: "ratelimit.Descriptor" {
        /// The key.
        1 key: String = String::new();
        /// The value, which may have `*` wildcards; empty matches any value.
        2 value: String = String::new();
        /// The limit of descriptors that end here.
        3 rate_limit: Option<RateLimitPolicy> = None;
        /// Entries that may follow.
        4 descriptors: Vec<DescriptorConfig> = Vec::new();
        /// Hits are counted, but never denied.
        5 shadow_mode: bool = false;
        /// Denied only if all limits in quota mode are over.
        6 quota_mode: bool = false;
        /// Whether the metrics show values of keys without a configured value.
        7 detailed_metric: bool = false;
        /// The same for this key only.
        8 value_to_metric: bool = false;
        /// Whether all values of a wildcard share one counter.
        9 share_threshold: bool = false;
        /// Not used.
        10 metadata: BTreeMap<String, Unused> = BTreeMap::new();
    } elsewhere {
        "name" => "did you mean `key`? A name for `replaces` is a field of `rate_limit`",
        "unit" => "it is a field of `rate_limit`: `rate_limit: {unit: hour, requests_per_unit: 3}`",
        "requestsPerUnit" => "it is a field of `rate_limit`: `rate_limit: {unit: hour, requests_per_unit: 3}`",
    }
}

mixer_config::message! {
    /// The limits of a domain.
    pub struct DomainConfig: "ratelimit.Domain" {
        /// The domain.
        1 domain: String = String::new();
        /// The first entries of its descriptors.
        2 descriptors: Vec<DescriptorConfig> = Vec::new();
    }
}

/// A unit of time, with its number in protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Unit {
    /// 1 s.
    Second = 1,
    /// 60 s.
    Minute = 2,
    /// 3600 s.
    Hour = 3,
    /// 86 400 s.
    Day = 4,
    /// 30 days.
    Month = 5,
    /// 365 days.
    Year = 6,
    /// 7 days.
    Week = 7,
}

impl Unit {
    /// Every unit, longest first.
    pub(crate) const ALL: [Unit; 7] =
        [Unit::Year, Unit::Month, Unit::Week, Unit::Day, Unit::Hour, Unit::Minute, Unit::Second];

    /// Its length in seconds.
    pub(crate) fn seconds(self) -> u64 {
        match self {
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3600,
            Unit::Day => 86_400,
            Unit::Week => 604_800,
            Unit::Month => 2_592_000,
            Unit::Year => 31_536_000,
        }
    }

    /// For example `DAY`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Second => "SECOND",
            Unit::Minute => "MINUTE",
            Unit::Hour => "HOUR",
            Unit::Day => "DAY",
            Unit::Week => "WEEK",
            Unit::Month => "MONTH",
            Unit::Year => "YEAR",
        }
    }

    /// The unit of a name in any case.
    pub(crate) fn from_name(name: &str) -> Option<Unit> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// The unit with this number in protobuf.
    pub fn from_number(number: u64) -> Option<Unit> {
        Self::ALL.into_iter().find(|unit| *unit as u64 == number)
    }
}

/// A compiled limit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limit {
    /// Keys and configured values from the domain on, as tools and denials name it: `domain.key_value.key`.
    pub(crate) full_key: Arc<str>,
    /// The full name of its resource.
    pub(crate) resource: Arc<str>,
    /// The line of its descriptor in the document of the resource, from 1; 0 if that has no lines.
    pub(crate) line: u32,
    /// The labels of its metrics: domain, key and value of the first entry, and those of the others joined with dots.
    pub(crate) labels: [Arc<str>; 3],
    /// The length of the window; `None` without any limit.
    pub(crate) unit: Option<Unit>,
    /// Requests in a window.
    pub(crate) requests_per_unit: u32,
    /// The name for `replaces` and in responses.
    pub(crate) name: Arc<str>,
    /// Names of limits that this one replaces.
    pub(crate) replaces: Vec<Arc<str>>,
    /// Hits are counted, but never denied.
    pub(crate) shadow_mode: bool,
    /// Denied only if all limits in quota mode are over.
    pub(crate) quota_mode: bool,
    /// Whether metrics show the values of the request.
    pub(crate) detailed_metric: bool,
}

/// An entry of the tree.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct DescriptorNode {
    /// The limit of descriptors that end here.
    pub(crate) limit: Option<Arc<Limit>>,
    /// Whether a wildcard matched and all its values share one counter.
    pub(crate) share_threshold: bool,
    /// The pattern of the value, where it has wildcards.
    pub(crate) pattern: Option<Arc<str>>,
    /// The next entries.
    pub(crate) children: DescriptorTree,
}

/// The descriptor entries of one level.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct DescriptorTree {
    /// By key.
    keys: HashMap<Box<[u8]>, KeyNodes>,
}

/// The entries of one key.
#[derive(Debug, Clone, PartialEq, Default)]
struct KeyNodes {
    exact: HashMap<Box<[u8]>, DescriptorNode>,
    /// In the order of the file.
    wildcards: Vec<(Wildcard, DescriptorNode)>,
    any: Option<Box<DescriptorNode>>,
}

impl DescriptorNode {
    /// Adds what another node of the same entries has.
    fn merge(&mut self, other: DescriptorNode, twice: &mut Vec<Arc<str>>) {
        match (&self.limit, other.limit) {
            (None, limit @ Some(_)) => {
                self.limit = limit;
                self.share_threshold = other.share_threshold;
            }
            (Some(_), Some(limit)) => twice.push(Arc::clone(&limit.full_key)),
            (_, None) => {}
        }
        twice.extend(self.children.merge(other.children));
    }
}

impl KeyNodes {
    fn all(&self) -> impl Iterator<Item = &DescriptorNode> {
        let wildcards = self.wildcards.iter().map(|(_, node)| node);
        self.exact.values().chain(wildcards).chain(self.any.as_deref())
    }
}

impl DescriptorTree {
    /// The node for an entry: by exact value, else by the first matching wildcard, else by key. Errors: those of [`Wildcard::fits`].
    pub(crate) fn find(
        &self,
        key: &[u8],
        value: &[u8],
        search: &Search,
    ) -> Result<Option<&DescriptorNode>, Exhausted> {
        let Some(nodes) = self.keys.get(key) else { return Ok(None) };
        if let Some(node) = nodes.exact.get(value) {
            return Ok(Some(node));
        }
        for (pattern, node) in &nodes.wildcards {
            if pattern.fits(value, search)? {
                return Ok(Some(node));
            }
        }
        Ok(nodes.any.as_deref())
    }

    /// Whether there is a limit for descriptors with these keys, whatever their values.
    pub(crate) fn limits_keys(&self, keys: &[&[u8]]) -> bool {
        let Some((key, rest)) = keys.split_first() else { return false };
        let Some(nodes) = self.keys.get(*key) else { return false };
        nodes.all().any(|node| match rest {
            [] => node.limit.is_some(),
            rest => node.children.limits_keys(rest),
        })
    }

    /// Every limit below, in the order of their full keys.
    pub(crate) fn limits(&self) -> Vec<&Arc<Limit>> {
        let mut out = Vec::new();
        self.gather(&mut out);
        out.sort_by(|a, b| a.full_key.cmp(&b.full_key));
        out
    }

    fn gather<'t>(&'t self, out: &mut Vec<&'t Arc<Limit>>) {
        for nodes in self.keys.values() {
            for node in nodes.all() {
                out.extend(&node.limit);
                node.children.gather(out);
            }
        }
    }

    /// Adds the entries of another tree. Of two limits for the same entries this one's counts; returns the full keys of such limits.
    pub(crate) fn merge(&mut self, other: DescriptorTree) -> Vec<Arc<str>> {
        let mut twice = Vec::new();
        for (key, nodes) in other.keys {
            let mine = self.keys.entry(key).or_default();
            for (value, node) in nodes.exact {
                match mine.exact.entry(value) {
                    Entry::Occupied(known) => known.into_mut().merge(node, &mut twice),
                    Entry::Vacant(free) => drop(free.insert(node)),
                }
            }
            for (pattern, node) in nodes.wildcards {
                match mine.wildcards.iter_mut().find(|(known, _)| *known == pattern) {
                    Some((_, known)) => known.merge(node, &mut twice),
                    None => mine.wildcards.push((pattern, node)),
                }
            }
            match (&mut mine.any, nodes.any) {
                (Some(known), Some(node)) => known.merge(*node, &mut twice),
                (free @ None, node) => *free = node,
                (Some(_), None) => {}
            }
        }
        twice.sort();
        twice
    }
}

/// The tree of one resource, without its invalid parts.
pub(super) fn tree(
    config: &DomainConfig,
    base: &FieldPath,
    resource: &ResourceKey,
    report: &mut ResourceProblems<'_>,
) -> DescriptorTree {
    let mut builder = Builder {
        report,
        resource: resource.to_string().into(),
        domain: config.domain.as_str().into(),
        keys: Vec::new(),
        replacements: Replacements::default(),
    };
    if config.domain.is_empty() {
        builder.problem(base.field("domain"), "config file cannot have empty domain", None);
    }
    let tree = builder.level(&config.descriptors, &base.field("descriptors"));
    for (name, replaced, field) in std::mem::take(&mut builder.replacements).closing() {
        let text =
            format!("limit `{name}` replaces `{replaced}`, which replaces it: none of them would count");
        builder.problem(
            field,
            text,
            Some("leave out one of the two: the limit that replaces the other counts"),
        );
    }
    tree
}

struct Builder<'b, 'r> {
    report: &'b mut ResourceProblems<'r>,
    /// Its full name.
    resource: Arc<str>,
    domain: Arc<str>,
    /// The entries down to the current one: key, or key and configured value.
    keys: Vec<String>,
    replacements: Replacements,
}

impl Builder<'_, '_> {
    fn problem(&mut self, field: FieldPath, text: impl Into<String>, hint: Option<&str>) {
        let mut problem = Diagnostic::error("ratelimit-descriptor", field, text);
        problem.hint = hint.map(str::to_owned);
        self.report.push(problem);
    }

    fn level(&mut self, configs: &[DescriptorConfig], path: &FieldPath) -> DescriptorTree {
        let mut tree = DescriptorTree::default();
        let mut seen = HashSet::default();
        for (index, config) in configs.iter().enumerate() {
            let path = path.index(index);
            if config.key.is_empty() {
                self.problem(path, "descriptor has empty key", Some("give it the key of a descriptor entry"));
                continue;
            }
            let own = match config.value.as_str() {
                "" => config.key.clone(),
                value => format!("{}_{value}", config.key),
            };
            let is_first = seen.insert(own.clone());
            self.keys.push(own);
            if is_first {
                self.add(&mut tree, config, &path);
            } else {
                let text = format!("duplicate descriptor composite key '{}'", self.full_key());
                self.problem(path, text, Some("the first one counts; remove this one"));
            }
            self.keys.pop();
        }
        tree
    }

    /// Domain and entries down to the current one.
    fn full_key(&self) -> String {
        format!("{}.{}", self.domain, self.keys.join("."))
    }

    fn add(&mut self, tree: &mut DescriptorTree, config: &DescriptorConfig, path: &FieldPath) {
        let wildcard = config.value.contains('*');
        if config.share_threshold && !wildcard {
            let text = "share_threshold can only be used with wildcard values (values containing '*')";
            self.problem(path.field("share_threshold"), text, None);
        }
        let node = DescriptorNode {
            limit: self.limit(config, path).map(Arc::new),
            share_threshold: config.share_threshold && wildcard,
            pattern: wildcard.then(|| config.value.as_str().into()),
            children: self.level(&config.descriptors, &path.field("descriptors")),
        };
        let nodes = tree.keys.entry(config.key.as_bytes().into()).or_default();
        match config.value.as_str() {
            "" => nodes.any = Some(Box::new(node)),
            value if wildcard => nodes.wildcards.push((Wildcard::new(value), node)),
            value => {
                nodes.exact.insert(value.as_bytes().into(), node);
            }
        }
    }

    fn limit(&mut self, config: &DescriptorConfig, path: &FieldPath) -> Option<Limit> {
        let policy = config.rate_limit.as_ref()?;
        let line = self.report.document().at(path).span.start.line;
        let path = path.field("rate_limit");
        let unit = Unit::from_name(&policy.unit);
        if policy.unlimited && !policy.unit.is_empty() {
            self.problem(path.field("unit"), "should not specify rate limit unit when unlimited", None);
            return None;
        }
        if !policy.unlimited && unit.is_none() {
            let hint = suggestion(&policy.unit, Unit::ALL.map(Unit::name))
                .unwrap_or_else(|| "write second, minute, hour, day, week, month or year".to_owned());
            let text = format!("invalid rate limit unit '{}'", policy.unit);
            self.problem(path.field("unit"), text, Some(&hint));
            return None;
        }
        for (index, replaced) in policy.replaces.iter().enumerate() {
            let field = path.field("replaces").index(index);
            if replaced.name.is_empty() {
                self.problem(field, "should not have an empty replaces entry", None);
            } else if replaced.name == policy.name {
                self.problem(field, "replaces should not contain name of same descriptor", None);
            } else {
                self.replacements.add(&policy.name, &replaced.name, field);
            }
        }
        let (first, others) = self.keys.split_first()?;
        Some(Limit {
            full_key: self.full_key().into(),
            resource: Arc::clone(&self.resource),
            line,
            labels: [Arc::clone(&self.domain), first.as_str().into(), others.join(".").into()],
            unit,
            requests_per_unit: policy.requests_per_unit.unwrap_or_default(),
            name: policy.name.as_str().into(),
            replaces: policy.replaces.iter().map(|r| r.name.as_str().into()).collect(),
            shadow_mode: config.shadow_mode,
            quota_mode: config.quota_mode,
            detailed_metric: config.detailed_metric || config.value_to_metric,
        })
    }
}
