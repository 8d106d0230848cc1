//! Header operations of Mixer.

use mixer_client::HeaderEdit;
use mixer_wire::istio::mixer::v1::header_operation::Operation;

use crate::head::Head;
use crate::header_changes::{self, Change, Manner, Unwritable};

/// Who asks for changes of headers, in the log.
const BY: &str = "Mixer";

/// Applies operations to the head of a request, of which path and host can be replaced as well. Returns whether there were any.
///
/// Errors: one cannot be written.
pub(super) fn edit_request(head: &mut Head, edits: &[HeaderEdit]) -> Result<bool, Unwritable> {
    let changes: Vec<Change> = edits.iter().map(change).collect();
    header_changes::edit_request(&changes, head, BY)?;
    Ok(!edits.is_empty())
}

/// Applies operations to the head of a response.
pub(super) fn edit_response(head: &mut Head, edits: &[HeaderEdit]) {
    for change in edits.iter().map(change) {
        if !change.apply(head) {
            change.report_invalid(BY);
        }
    }
}

fn change(edit: &HeaderEdit) -> Change {
    let manner = match edit.action {
        Operation::Remove => Manner::Remove,
        Operation::Append => Manner::Add,
        Operation::Replace => Manner::Set,
    };
    Change { name: edit.name.clone(), value: edit.value.clone().into(), manner }
}
