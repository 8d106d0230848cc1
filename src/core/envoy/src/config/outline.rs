//! The configuration as tools list it.

use mixer_engine::snapshot::MappingOutline;

use super::{CheckQuota, CompiledMapping, EnvoyConfig, Limit, Mode, TextTest, Written};
use mixer_attribute::Vocabulary;

/// Mappings in the order in which they are set, then limits by domain and key, then quotas.
pub(super) fn outline(config: &EnvoyConfig, vocabulary: &Vocabulary) -> Vec<MappingOutline> {
    let route = |(what, shadow): (&str, bool), from: String, mut to: String, written: &Written| {
        to.push_str(if shadow { ", shadow" } else { "" });
        let (place, resource) = (written.place.clone(), written.resource.clone());
        MappingOutline { what: what.to_owned(), from, to, shadow, place, resource, labels: None }
    };
    let (checks, limits) = (config.settings.check.mode == Mode::Shadow, config.settings.ratelimit.shadow);
    let mapping = |m: &CompiledMapping| {
        let written = Written { resource: m.resource.to_string(), place: m.place.clone() };
        route(("mapping", false), m.source.to_string(), m.attribute.to_string(), &written)
    };
    let mut routes: Vec<MappingOutline> = config.mappings.iter().map(mapping).collect();
    let mut domains: Vec<_> = config.domains.values().collect();
    domains.sort_by(|a, b| a.name.cmp(&b.name));
    for domain in domains {
        routes.extend(domain.descriptors.limits().into_iter().map(|l| {
            let kind = ("limit", limits || l.shadow_mode);
            let labels = Some(l.labels.each_ref().map(|label| label.to_string()));
            MappingOutline { labels, ..route(kind, l.full_key.to_string(), limit(l), &domain.written(l)) }
        }));
    }
    for selector in &config.quotas {
        let entries = selector.entries.iter().map(|(key, value)| format!(" {key}={}", value.text()));
        let from = std::iter::once(selector.domain.clone()).chain(entries).collect();
        routes.push(route(("quota", limits), from, selector.quota.clone(), &selector.written));
    }
    for quota in &config.check_quotas {
        let to = quota.quotas.iter().map(|(name, charge)| format!("{charge} of {name}"));
        let to = to.collect::<Vec<_>>().join(", ");
        routes.push(route(("check-quota", checks), matches(quota, vocabulary), to, &quota.written));
    }
    routes
}

fn limit(limit: &Limit) -> String {
    let mut text = match limit.unit {
        None => "unlimited".to_owned(),
        Some(unit) => format!("{} per {}", limit.requests_per_unit, unit.name()),
    };
    text.push_str(if limit.quota_mode { ", quota mode" } else { "" });
    text
}

fn matches(quota: &CheckQuota, vocabulary: &Vocabulary) -> String {
    if quota.matches.is_empty() {
        return "every check".to_owned();
    }
    let test = |(slot, test): &(_, TextTest)| match test {
        TextTest::Exact(text) => format!("{} is {text}", vocabulary.name(*slot)),
        TextTest::Prefix(text) => format!("{} begins with {text}", vocabulary.name(*slot)),
        TextTest::Regex(_, regex) => format!("{} fits {regex}", vocabulary.name(*slot)),
    };
    let each = quota.matches.iter().map(|tests| tests.iter().map(test).collect::<Vec<_>>().join(" and "));
    each.collect::<Vec<_>>().join(", or ")
}
