use super::*;
use crate::config::Domain;
use crate::config::{DescriptorTree, QuotaSelector, Wildcard, Written};
use crate::descriptor::Descriptor;

/// A configuration with a quota for the entries `tenant` of the domain `shop`.
fn config() -> EnvoyConfig {
    let selector = QuotaSelector {
        domain: "shop".to_owned(),
        entries: vec![("tenant".to_owned(), Wildcard::new("big-*"))],
        quota: "calls".to_owned(),
        written: Written::default(),
    };
    let written = Written::default();
    let edge = Domain {
        name: "edge".to_owned(),
        descriptors: DescriptorTree::default(),
        written,
        documents: vec![],
    };
    let domains = [(b"edge"[..].into(), Arc::new(edge))];
    let mut config = EnvoyConfig::default();
    (config.quotas, config.domains) = (vec![selector], domains.into_iter().collect());
    config
}

fn count(known: &mut Known, domain: &str, descriptors: &[&[&str]]) {
    let entries: Vec<Vec<(&[u8], &[u8])>> =
        descriptors.iter().map(|keys| keys.iter().map(|key| (key.as_bytes(), &b"v"[..])).collect()).collect();
    let descriptors: Vec<Descriptor<'_>> =
        entries.iter().map(|entries| Descriptor { entries, limit: None, charge: 1 }).collect();
    for descriptor in &descriptors {
        known.count(domain.as_bytes(), descriptor, &config());
    }
}

fn shown(tables: &Tables, id: u64) -> Vec<(String, String, u64)> {
    let groups = tables.list(SnapshotId(id)).groups;
    groups.into_iter().map(|group| (group.domain, group.keys, group.calls)).collect()
}

#[test]
fn calls_are_counted_by_domain_and_keys_over_workers() {
    let tables = Tables::default();
    let mut workers = [(); 2].map(|()| Known::new(tables.of(SnapshotId(1))));
    for worker in &mut workers {
        count(worker, "shop", &[&["user", "path"], &["user"]]);
        count(worker, "edge", &[&["user"]]);
        // Of other values: meant. That of the other descriptor is not.
        count(worker, "shop", &[&["plan"], &["tenant"]]);
    }
    count(&mut workers[0], "shop", &[&["user", "path"], &["user"]]);
    let text = |domain: &str, keys: &str, calls| (domain.to_owned(), keys.to_owned(), calls);
    assert_eq!(
        shown(&tables, 1),
        [
            text("shop", "user", 3),
            text("shop", "user.path", 3),
            text("edge", "user", 2),
            text("shop", "plan", 2)
        ]
    );
    let groups = tables.list(SnapshotId(1)).groups;
    assert!(groups.iter().all(|group| group.why.starts_with("the limits and quotas for the domain")));
    assert!(groups[0].last.age() < Duration::from_secs(60));
}

#[test]
fn a_configuration_begins_without_calls_and_an_older_one_does_not_come_back() {
    let tables = Tables::default();
    let mut old = Known::new(tables.of(SnapshotId(1)));
    count(&mut old, "nosuch", &[&["user"]]);
    assert_eq!(shown(&tables, 1).len(), 1);
    let mut new = Known::new(tables.of(SnapshotId(2)));
    assert!(tables.list(SnapshotId(2)).groups.is_empty() && tables.list(SnapshotId(1)).groups.is_empty());
    count(&mut Known::new(tables.of(SnapshotId(1))), "nosuch", &[&["user"]]);
    assert!(tables.list(SnapshotId(2)).groups.is_empty());
    count(&mut new, "nosuch", &[&["user"]]);
    assert_eq!(shown(&tables, 2).len(), 1);
}

/// Callers choose domains and keys.
#[test]
fn what_is_kept_is_bounded_and_in_one_line() {
    let tables = Tables::default();
    let mut known = Known::new(tables.of(SnapshotId(1)));
    let long = "k\n".repeat(1 << 16);
    for number in 0..2000 {
        count(&mut known, &format!("{number}{long}"), &[&[&long, &long], &[&long]]);
    }
    let Unlimited { groups, others } = tables.list(SnapshotId(1));
    assert_eq!((groups.len(), others), (MAX_GROUPS, 4000 - MAX_GROUPS as u64));
    assert!(known.calls.len() <= MAX_KNOWN);
    for text in groups.iter().flat_map(|group| [&group.domain, &group.keys]) {
        assert!(text.len() <= MAX_TEXT + '…'.len_utf8() && !text.contains('\n'), "{text}");
    }
}
