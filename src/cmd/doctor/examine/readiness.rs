//! What the running server says of its health.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;

use super::enforcement::NotEnforced;
use super::{TIMEOUT, fail, reached_at, warn};
use crate::cmd::doctor::finding::{CheckStatus, Finding};
use mixer_base::secrets::mask_address;
use mixer_server::ServerOptions;

const CHECK: &str = "running server";
/// Components, and the check that tells more of each, where it finds anything.
const TOLD: [(&str, &str); 3] =
    [("enforcement", "running enforcement"), ("handlers", "running handler"), ("recording", "recording")];

/// The status of a condition that holds.
const AVAILABLE: &str = "available";

/// `/readyz?verbose`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Readiness {
    /// The conditions of readiness, with why they do not hold.
    emitters: BTreeMap<String, String>,
    pub(super) not_enforced: NotEnforced,
    degraded: BTreeMap<String, Degradation>,
    configuration: Served,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Served {
    /// The URL of the store, without passwords; empty if it is not told.
    store: String,
}

#[derive(Debug, Deserialize)]
struct Degradation {
    why: String,
    since: String,
}

impl Readiness {
    /// Asks the server; `None` without `/readyz`.
    pub(super) async fn ask(options: &ServerOptions) -> Option<Self> {
        let place = reached_at(&options.monitoring_listen_address())?;
        let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build().ok()?;
        let answer = client.get(format!("http://{place}/readyz?verbose")).send().await.ok()?;
        serde_json::from_slice(&answer.bytes().await.ok()?).ok()
    }

    /// A finding if the server reads another store than this one, which is examined.
    pub(super) fn other_store(&self, url: &str) -> Option<Finding> {
        let (its, own) = (self.configuration.store.as_str(), mask_address(url));
        if its.is_empty() || its == own || is_same_directory(its, &own) {
            return None;
        }
        let detail = format!("it reads its configuration from `{its}`, and what is examined here is `{own}`");
        Some(warn(
            CHECK,
            detail,
            "give the flags, or --config-file, of the running server, or start it again with these",
        ))
    }

    /// One finding for each condition that does not hold, and for each component that is degraded, but for those of which one of `others` tells.
    pub(super) fn findings<'f>(&self, others: impl Iterator<Item = &'f Finding>) -> Vec<Finding> {
        let unmet = self.emitters.iter().filter(|(_, status)| *status != AVAILABLE);
        let unmet = unmet.map(|(condition, why)| {
            let hint = "it is sent no calls, or answers none, as long as this lasts: docs/operations.md, Health and discovery, has what each condition means";
            fail(CHECK, format!("not ready: {condition}: {why}"), hint)
        });
        let problems = others.filter(|finding| finding.verdict != CheckStatus::Ok);
        let found: HashSet<&str> = problems.map(|finding| finding.check).collect();
        let is_told =
            |component: &str| TOLD.iter().any(|(told, by)| *told == component && found.contains(by));
        let untold = self.degraded.iter().filter(|(component, _)| !is_told(component));
        let finding = |(component, Degradation { why, since }): (&String, &Degradation)| {
            warn(CHECK, format!("{component} is degraded since {since}: {why}"), hint(component))
        };
        unmet.chain(untold.map(finding)).collect()
    }
}

/// Whether two stores are one directory, or one file.
fn is_same_directory(one: &str, other: &str) -> bool {
    let place = |url: &str| std::fs::canonicalize(url.strip_prefix("fs://")?).ok();
    place(one).is_some_and(|one| place(other) == Some(one))
}

fn hint(component: &str) -> &'static str {
    match component {
        "calls" => "ControlZ, Calls (`/callz/`), has the calls that failed by status, and why",
        _ => "docs/operations.md, Health and discovery, has what each component means",
    }
}

#[cfg(test)]
mod tests {
    use super::super::ok;
    use super::*;

    #[test]
    fn a_server_with_another_store_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("fs://{}", directory.path().display());
        let json = format!(r#"{{"available": true, "configuration": {{"store": "{url}"}}}}"#);
        let readiness: Readiness = serde_json::from_str(&json).unwrap();
        assert!(readiness.other_store(&url).is_none());
        assert!(readiness.other_store(&format!("{url}/../{}", name(directory.path()))).is_none());
        assert!(Readiness::default().other_store(&url).is_none());
        let found = readiness.other_store("mcp://ann:secret@host:1").unwrap();
        assert!(found.detail.contains(&url) && found.detail.contains("mcp://"), "{}", found.detail);
        assert!(!found.detail.contains("secret"), "{}", found.detail);
    }

    fn name(path: &std::path::Path) -> String {
        path.file_name().unwrap().to_string_lossy().into_owned()
    }

    #[test]
    fn what_keeps_a_server_from_serving_is_told_and_degradations_once() {
        let json = r#"{"available": false, "emitters": {"socket": "`/s` was removed", "tasks": "available"}, "degraded": {
            "calls": {"why": "4 of the last 4 calls failed: 4 UNAVAILABLE", "since": "2026-01-02T03:04:05Z"},
            "handlers": {"why": "h", "since": "2026-01-02T03:04:05Z"}}}"#;
        let readiness: Readiness = serde_json::from_str(json).unwrap();
        let found = |others: &[Finding]| -> Vec<String> {
            readiness.findings(others.iter()).into_iter().map(|finding| finding.detail).collect()
        };
        let first = [
            "not ready: socket: `/s` was removed",
            "calls is degraded since 2026-01-02T03:04:05Z: 4 of the last 4 calls failed: 4 UNAVAILABLE",
        ];
        assert_eq!(found(&[warn("running handler", "h".to_owned(), "")]), first);
        // ControlZ is off, or says that all of them work.
        let handlers = "handlers is degraded since 2026-01-02T03:04:05Z: h";
        let all = [&first[..], &[handlers]].concat();
        assert_eq!(found(&[]), all);
        assert_eq!(found(&[ok("running handler", String::new()), warn("handler", String::new(), "")]), all);
    }
}
