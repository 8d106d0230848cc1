//! Header operations of Mixer.

use mixer_client::HeaderEdit;
use mixer_wire::istio::mixer::v1::header_operation::Operation;

use crate::head::Head;
use crate::header_changes::{Change, Manner};

/// Applies operations to the head of a request, of which path and host can be replaced as well. Returns whether there were any.
pub(super) fn edit_request(head: &mut Head, edits: &[HeaderEdit]) -> bool {
    for edit in edits {
        apply(edit, |change| change.apply_to_request(head));
    }
    !edits.is_empty()
}

/// Applies operations to the head of a response.
pub(super) fn edit_response(head: &mut Head, edits: &[HeaderEdit]) {
    for edit in edits {
        apply(edit, |change| change.apply(head));
    }
}

fn apply(edit: &HeaderEdit, apply: impl FnOnce(&Change) -> bool) {
    let manner = match edit.action {
        Operation::Remove => Manner::Remove,
        Operation::Append => Manner::Add,
        Operation::Replace => Manner::Set,
    };
    let change = Change { name: edit.name.clone(), value: edit.value.clone().into(), manner };
    if !apply(&change) {
        change.report_invalid("Mixer");
    }
}
