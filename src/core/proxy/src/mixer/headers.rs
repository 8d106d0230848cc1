//! Header operations of Mixer.

use mixer_client::HeaderEdit;
use mixer_wire::istio::mixer::v1::header_operation::Operation;

use crate::head::{Head, is_token_byte};

/// Headers that say where a message ends or that concern a connection. They are the proxy's own: a change would let two parsers read a
/// message differently.
const PROTECTED: [&str; 8] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Applies operations to the head of a request, of which path and host can be replaced as well. Returns whether there were any.
pub(super) fn edit_request(head: &mut Head, edits: &[HeaderEdit]) -> bool {
    for edit in edits {
        match (edit.name.as_str(), edit.action) {
            (":path", Operation::Replace) if is_path(&edit.value) => head.set_path(edit.value.as_bytes()),
            (":authority" | "host", Operation::Replace) if is_host(&edit.value) => {
                head.set_authority(edit.value.as_bytes());
            }
            ("host", _) => refuse(edit),
            _ => apply(head, edit),
        }
    }
    !edits.is_empty()
}

/// Applies operations to the head of a response.
pub(super) fn edit_response(head: &mut Head, edits: &[HeaderEdit]) {
    edits.iter().for_each(|edit| apply(head, edit));
}

fn apply(head: &mut Head, edit: &HeaderEdit) {
    let (name, value) = (edit.name.as_str(), edit.value.as_bytes());
    let is_name = !name.is_empty() && name.bytes().all(is_token_byte) && !PROTECTED.contains(&name);
    let is_value = !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
    if !is_name || !is_value {
        return refuse(edit);
    }
    match edit.action {
        Operation::Remove => {
            head.remove(name.as_bytes());
        }
        Operation::Append => head.add(name, value),
        Operation::Replace => {
            head.remove(name.as_bytes());
            head.add(name, value);
        }
    }
}

fn refuse(edit: &HeaderEdit) {
    let name: String = edit.name.chars().take(64).collect();
    mixer_base::warn_limited!(1, ?name, "a header operation of Mixer is not applied: it is invalid");
}

fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte > b' ' && byte != 0x7f && byte != b'#')
}

fn is_host(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%:[]".contains(&b))
}
