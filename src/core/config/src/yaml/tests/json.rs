//! Prints a document as Go's JSON encoder does, for comparison with recorded readings.

use crate::{Node, NodeKind};
use mixer_base::decimal;

/// One line: keys sorted, no spaces, `<`, `>` and `&` escaped.
pub(super) fn compact_json(node: &Node) -> String {
    let mut out = String::new();
    write(node, &mut out);
    out
}

fn write(node: &Node, out: &mut String) {
    match &node.kind {
        NodeKind::Null => out.push_str("null"),
        NodeKind::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        NodeKind::Int(value) => out.push_str(&value.to_string()),
        NodeKind::Float(value) => out.push_str(&decimal::json(*value).to_string()),
        NodeKind::String(text) => write_string(text, out),
        NodeKind::Sequence(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        NodeKind::Mapping(entries) => {
            let mut sorted = entries.iter().collect::<Vec<_>>();
            sorted.sort_by(|a, b| a.key.cmp(&b.key));
            out.push('{');
            for (i, entry) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(&entry.key, out);
                out.push(':');
                write(&entry.value, out);
            }
            out.push('}');
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
