//! The YAML reader: the fast path agrees with the parser, and every result is representable in JSON.

use mixer_config::{Node, NodeKind, yaml};

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let parsed = yaml::fuzzing::parse_any(text);
    if let Some(root) = yaml::fuzzing::read_plain(text) {
        match &parsed {
            Ok(parsed) => {
                assert_eq!(parsed.root, root, "the readings of {text:?} differ");
                assert_eq!(parsed.notes, [], "{text:?} has notes");
            }
            Err(error) => panic!("{text:?} is read as plain, but the parser refuses it: {error}"),
        }
    }
    // JSON is YAML: the document written as JSON reads back as itself.
    let Ok(parsed) = parsed else { return };
    let mut json = String::new();
    write_json(&parsed.root, &mut json);
    match yaml::parse(&json) {
        Ok(again) => assert!(same(&again.root, &parsed.root), "{text:?} is {json}, which reads as {again:?}"),
        // Limits of depth and size count differently after alias expansion.
        Err(error) if error.cause().contains("deeper than") || error.cause().contains("larger than") => {}
        Err(error) => panic!("{json}, made of {text:?}, is refused: {error}"),
    }
}

fn write_json(node: &Node, out: &mut String) {
    match &node.kind {
        NodeKind::Null => out.push_str("null"),
        NodeKind::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        NodeKind::Int(number) => out.push_str(&number.to_string()),
        NodeKind::Float(number) => write_float(*number, out),
        NodeKind::String(text) => write_text(text, out),
        NodeKind::Sequence(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_json(item, out);
            }
            out.push(']');
        }
        NodeKind::Mapping(entries) => {
            out.push('{');
            for (index, entry) in entries.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_text(&entry.key, out);
                out.push_str(": ");
                write_json(&entry.value, out);
            }
            out.push('}');
        }
    }
}

/// YAML 1.1 requires a sign in exponents.
fn write_float(number: f64, out: &mut String) {
    let written = format!("{number:e}");
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let sign = if exponent.starts_with('-') { "" } else { "+" };
    out.push_str(&format!("{digits}e{sign}{exponent}"));
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' | '\u{a1}'..='\u{1fff}' => out.push(c),
            '\0'..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Whether two trees have equal values, regardless of positions.
fn same(a: &Node, b: &Node) -> bool {
    match (&a.kind, &b.kind) {
        (NodeKind::Sequence(a), NodeKind::Sequence(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (NodeKind::Mapping(a), NodeKind::Mapping(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.key == b.key && same(&a.value, &b.value))
        }
        (NodeKind::Float(a), NodeKind::Float(b)) => a == b,
        // A float without a fraction may be written as an integer.
        (NodeKind::Int(int), NodeKind::Float(float)) | (NodeKind::Float(float), NodeKind::Int(int)) => {
            *int as f64 == *float
        }
        (a, b) => a == b,
    }
}
