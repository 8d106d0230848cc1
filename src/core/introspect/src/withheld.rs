//! That no configuration serves.

use maud::{Markup, html};

use super::format;
use mixer_engine::runtime::Published;

/// Tells that no configuration serves, and why.
pub(super) fn notice(published: &Published) -> Markup {
    html! {
        @if let Some(why) = &published.withheld {
            p.notice.bad role="alert" { strong { "No configuration serves: " } (format::message(why)) ". Calls are answered with UNAVAILABLE." }
        }
    }
}
