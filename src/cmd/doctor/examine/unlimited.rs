//! Rate limits that Envoy asks the running server for and that it does not have, and quotas that its checks are not charged to.

use serde::Deserialize;

use super::{controlz, warn};
use crate::cmd::doctor::finding::Finding;
use crate::cmd::output::counted;
use mixer_server::ServerOptions;

const CHECK: &str = "rate limits";
/// Most findings.
const MAX_FINDINGS: usize = 5;

/// `/unlimitedj/` of ControlZ.
#[derive(Debug, Default, Deserialize)]
struct Unlimited {
    groups: Vec<Calls>,
    others: u64,
    cure: String,
    #[serde(default)]
    uncharged: Vec<String>,
    #[serde(default, rename = "unchargedCure")]
    uncharged_cure: String,
}

#[derive(Debug, Deserialize)]
struct Calls {
    domain: String,
    keys: String,
    why: String,
    calls: u64,
}

/// A finding for each domain and keys, and one for the quotas; none without ControlZ, or if it does not answer.
pub(super) async fn examine(options: &ServerOptions) -> Vec<Finding> {
    controlz::findings(options, "/unlimitedj/", |found: Unlimited| findings(&found)).await
}

fn findings(found: &Unlimited) -> Vec<Finding> {
    let of = |group: &Calls| {
        let Calls { domain, keys, why, calls } = group;
        let calls = counted(*calls, "call");
        warn(
            CHECK,
            format!("Envoy asks for domain `{domain}` with keys `{keys}` ({calls}): {why}"),
            &found.cure,
        )
    };
    let mut findings: Vec<Finding> = found.groups.iter().take(MAX_FINDINGS).map(of).collect();
    let others = found.others + found.groups.iter().skip(MAX_FINDINGS).map(|group| group.calls).sum::<u64>();
    if others > 0 {
        let calls = counted(others, "call");
        findings.push(warn(CHECK, format!("{calls} with other domains or keys"), &found.cure));
    }
    if !found.uncharged.is_empty() {
        let quotas = found.uncharged.join(", ");
        let detail = format!("no check of Envoy is charged to quotas that rules configure: {quotas}");
        findings.push(warn("quotas", detail, &found.uncharged_cure));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::doctor::finding::CheckStatus;

    #[test]
    fn calls_that_nothing_limits_are_warnings() {
        let group = |keys: &str| {
            format!(
                r#"{{"domain": "shop", "keys": "{keys}", "why": "w", "calls": 1, "last": "2026-01-02T03:04:05Z"}}"#
            )
        };
        let groups: Vec<String> = ["a", "b", "c", "d", "e", "f", "g"].map(group).to_vec();
        let json = format!(r#"{{"groups": [{}], "others": 7, "cure": "do it"}}"#, groups.join(","));
        let found = findings(&serde_json::from_str(&json).unwrap());
        assert_eq!(found.len(), MAX_FINDINGS + 1);
        assert!(found.iter().all(|finding| finding.verdict == CheckStatus::Warn));
        assert_eq!(found[0].detail, "Envoy asks for domain `shop` with keys `a` (1 call): w");
        assert_eq!(found[0].hint.as_deref(), Some("do it"));
        assert_eq!(found[MAX_FINDINGS].detail, "9 calls with other domains or keys");
        assert!(findings(&Unlimited::default()).is_empty());
    }
}
