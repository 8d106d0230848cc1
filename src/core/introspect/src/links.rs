//! Links to resources.

use maud::{Markup, html};

use super::form;

/// A link to a resource.
pub(super) fn link(full_name: &str) -> Markup {
    link_as(full_name, full_name)
}

/// A link to a resource, with another text than its name; the text alone without a name.
pub(super) fn link_as(full_name: &str, text: &str) -> Markup {
    html! {
        @if full_name.is_empty() { (text) }
        @else { a.resource href={ "/configz/resource?name=" (form::encoded(full_name)) } { (text) } }
    }
}
