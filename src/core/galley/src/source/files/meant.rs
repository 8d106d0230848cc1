//! What a document of an unknown kind was probably meant to be.

use mixer_config::message::resembles;
use mixer_config::{Node, RawResource};
use mixer_schema::{by_api, kinds};

use crate::convert::{decides, is_of_engine};

/// The API group of a document, as it is written.
pub(super) fn group_of(resource: &RawResource) -> &str {
    let api_version = &*resource.envelope.api_version;
    api_version.split_once('/').map_or(api_version, |(group, _)| group)
}

/// Whether a document of an unknown kind is probably meant as one that decides about requests.
pub(super) fn is_meant_for_us(resource: &RawResource) -> bool {
    let group = group_of(resource);
    let kind = resource.key.kind.split('.').next().unwrap_or_default();
    let is_of_istio = group.is_empty() || group == "istio.io" || group.ends_with(".istio.io");
    let resembles_ours = || {
        let ours = kinds().iter().filter(|known| decides(known));
        ours.into_iter().any(|known| resembles(kind, known.kind))
    };
    kind.is_empty() || is_of_engine(group) || (is_of_istio && resembles_ours())
}

/// Whether a document is what is left of one that decides about requests: a list with such items, as `kubectl get -o yaml` writes it, or the
/// answer to a failed request.
pub(super) fn stands_for_ours(resource: &RawResource) -> bool {
    let kind = resource.key.kind.split('.').next().unwrap_or_default();
    if kind == "Status" {
        return &*resource.envelope.api_version == "v1";
    }
    let is_ours = |item: &Node| {
        let text = |key: &str| item.get(key).and_then(Node::as_str).unwrap_or_default();
        let known = by_api(text("apiVersion"), text("kind"));
        known.is_some_and(decides) || item.entries().is_empty()
    };
    kind.ends_with("List")
        && resource.document().get("items").is_some_and(|all| all.items().iter().any(is_ours))
}
