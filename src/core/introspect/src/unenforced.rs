//! What decides about calls without being enforced.

use maud::{Markup, html};

use super::{format, links};
use mixer_engine::runtime::{Published, UnenforcedSince};
use mixer_engine::snapshot::UnenforcedScope;

/// Most entries of the notice.
const LISTED: usize = 10;

/// Tells of settings by which a service refuses nothing, of limits that refuse nothing, and of rules in dry run.
pub(super) fn notice(published: &Published) -> Markup {
    listed(&published.unenforced())
}

/// Tells of settings by which services refuse nothing.
pub(super) fn services(published: &Published) -> Markup {
    let mut all = published.unenforced();
    all.retain(|unenforced| unenforced.what.scope == UnenforcedScope::Service);
    listed(&all)
}

/// Tells of settings by which no check is refused.
pub(super) fn checks(published: &Published) -> Markup {
    let mut all = published.unenforced();
    all.retain(|unenforced| unenforced.what.is_of_checks());
    listed(&all)
}

fn listed(all: &[UnenforcedSince]) -> Markup {
    // Those of the widest scope are first.
    let title = match all.first().map(|unenforced| unenforced.what.scope) {
        Some(UnenforcedScope::Service) => "Decisions are not enforced",
        Some(UnenforcedScope::Limits) => "Some limits are not enforced",
        Some(UnenforcedScope::Rule) | None => "Rules in dry run decide nothing",
    };
    html! {
        @if !all.is_empty() {
            div.notice.warn #unenforced role="status" {
                strong { (title) }
                ul {
                    @for UnenforcedSince { what, since } in all.iter().take(LISTED) { li {
                        (links::link(&what.resource.to_string())) " " span.dim { (what.place) } ": "
                        (format::message(what.what)) ", since " (format::instant(since.time())) " (" (format::ago(*since)) ")"
                    } }
                    @if all.len() > LISTED { li.dim { "and " (format::counted((all.len() - LISTED) as u64, "other")) } }
                }
            }
        }
    }
}
