//! Which localities get the traffic of others.

use std::collections::BTreeMap;

use crate::messages::istio::mesh::v1alpha1::LocalityLoadBalancerSetting;

/// The first problem of a setting.
pub(super) fn check(setting: &LocalityLoadBalancerSetting) -> Result<(), String> {
    if !setting.distribute.is_empty() && !setting.failover.is_empty() {
        return Err("can not simultaneously specify 'distribute' and 'failover'".to_owned());
    }
    for distribution in &setting.distribute {
        if distribution.to.values().any(|weight| *weight == 0) {
            return Err("locality weight must not be in range [1, 100]".to_owned());
        }
        let total = distribution.to.values().fold(0u32, |sum, weight| sum.wrapping_add(*weight));
        if total != 100 {
            return Err(format!("total locality weight {total} != 100"));
        }
        are_apart(distribution.to.keys())?;
    }
    are_apart(setting.distribute.iter().map(|distribution| &distribution.from))?;
    for failover in &setting.failover {
        if failover.from == failover.to {
            return Err("locality lb failover settings must specify different regions".to_owned());
        }
        if failover.to.contains('*') {
            return Err("locality lb failover region should not contain '*' wildcard".to_owned());
        }
    }
    Ok(())
}

/// Regions with their zones with their parts; `*` stands for all.
type Known<'l> = BTreeMap<&'l str, BTreeMap<&'l str, BTreeMap<&'l str, ()>>>;

/// Whether no locality is part of one before it.
fn are_apart<'l>(localities: impl Iterator<Item = &'l String>) -> Result<(), String> {
    const ALL: &str = "*";
    let mut known = Known::new();
    for locality in localities {
        let stars = locality.matches('*').count();
        if stars > 1 || stars == 1 && !locality.ends_with('*') {
            return Err(format!(
                "locality {locality} wildcard '*' number can not exceed 1 and must be in the end"
            ));
        }
        let items: Vec<&str> = locality.splitn(3, '/').collect();
        if items.contains(&"") {
            return Err(format!("locality {locality} must not contain empty region/zone/subzone info"));
        }
        let overlaps = || Err(format!("locality {locality} overlap with previous specified ones"));
        if known.contains_key(ALL) {
            return overlaps();
        }
        let (region, zone, part) = match items.as_slice() {
            [region] => (*region, None, None),
            [region, zone] => (*region, Some(*zone), None),
            [region, zone, part, ..] => (*region, Some(*zone), Some(*part)),
            [] => continue,
        };
        let zones = known.get(region);
        let parts = zones.zip(zone).and_then(|(zones, zone)| zones.get(zone));
        let is_taken = match (zones, zone, part) {
            (None, ..) => false,
            (Some(_), None, _) => true,
            (Some(zones), Some(_), _) if zones.contains_key(ALL) => true,
            (Some(_), Some(_), None) => parts.is_some(),
            (Some(_), Some(_), Some(part)) => {
                parts.is_some_and(|parts| parts.contains_key(ALL) || parts.contains_key(part))
            }
        };
        if is_taken {
            return overlaps();
        }
        let zones = known.entry(region).or_default();
        zones.entry(zone.unwrap_or(ALL)).or_default().insert(part.unwrap_or(ALL), ());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::are_apart;

    #[test]
    fn localities_do_not_overlap() {
        let check = |localities: &[&str]| {
            are_apart(localities.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>().iter())
        };
        assert_eq!(check(&["a/b/c", "a/b/d", "a/c", "b"]), Ok(()));
        for localities in
            [&["a", "a/b"][..], &["a/b/c", "a/b"], &["*", "a"], &["a/*", "a/b/c"], &["a/b/*", "a/b/c"]]
        {
            assert!(check(localities).unwrap_err().contains("overlap"), "{localities:?}");
        }
        assert!(check(&["*/a"]).is_err() && check(&["a//b"]).is_err());
    }
}
