//! What decides without being enforced, which may be forgotten: shadow mode, and rules in dry run.

use super::place::placed;
use crate::snapshot::{Snapshot, Unenforced, UnenforcedScope};
use mixer_config::{Diagnostic, Diagnostics, Origin, Severity};

/// Tells what a server with this configuration would not enforce. It may be meant, so that it is no warning.
pub(super) fn unenforced(snapshot: &Snapshot, out: &mut Diagnostics) {
    for unenforced in snapshot.unenforced_settings() {
        let mut resources = snapshot.extension_resources.iter();
        if let Some(resource) = resources.find(|known| known.key == unenforced.resource) {
            out.push(problem(unenforced, &resource.origin));
        }
    }
    let rules = snapshot.rules.iter().filter(|rule| rule.dry_run);
    out.extend(rules.map(|rule| problem(&Unenforced::rule(rule), &rule.origin)));
}

fn problem(unenforced: &Unenforced, origin: &Origin) -> Diagnostic {
    let (code, hint) = match unenforced.scope {
        UnenforcedScope::Service => {
            ("enforcement-shadow", "remove the setting before this server alone decides about requests")
        }
        UnenforcedScope::Limits => {
            ("enforcement-shadow", "remove `shadow_mode: true` from limits that are to be enforced")
        }
        UnenforcedScope::Rule => {
            ("enforcement-dry-run", "remove the annotation where the rule is to be enforced")
        }
    };
    let problem = Diagnostic::new(Severity::Info, code, unenforced.field.clone(), unenforced.what);
    placed(problem.with_hint(hint), &unenforced.resource, origin)
}
