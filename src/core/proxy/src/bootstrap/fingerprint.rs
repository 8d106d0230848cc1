//! What a part of a configuration says, so that it can be compared and not be read.

use mixer_base::bounded::key_digest;
use mixer_config::{MappingEntry, Node, NodeKind};

use super::reader::is_named;

/// Stands for all that was written of something, keys and passwords with it: what dumps show does not tell whether two are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of a message, but for some of its fields, whose names are in snake_case. The order of fields does not matter.
    pub(super) fn without(message: &Node, fields: &[&str]) -> Self {
        let mut out = Vec::new();
        match &message.kind {
            NodeKind::Mapping(entries) => {
                let is_left = |entry: &&MappingEntry| !fields.iter().any(|field| is_named(&entry.key, field));
                write_fields(entries.iter().filter(is_left).collect(), &mut out);
            }
            _ => write(message, &mut out),
        }
        Self(key_digest(&out))
    }

    /// Of all of a message.
    pub(super) fn of(message: &Node) -> Self {
        Self::without(message, &[])
    }
}

/// Different values are written as different bytes, none of which is the beginning of another.
fn write(node: &Node, out: &mut Vec<u8>) {
    match &node.kind {
        NodeKind::Null => out.push(b'n'),
        NodeKind::Bool(value) => out.extend([b'b', u8::from(*value)]),
        NodeKind::Int(value) => {
            out.push(b'i');
            out.extend(value.to_be_bytes());
        }
        NodeKind::Float(value) => {
            out.push(b'f');
            out.extend(value.to_bits().to_be_bytes());
        }
        NodeKind::String(text) => {
            out.push(b's');
            write_text(text, out);
        }
        NodeKind::Sequence(items) => {
            out.push(b'l');
            write_count(items.len(), out);
            items.iter().for_each(|item| write(item, out));
        }
        NodeKind::Mapping(entries) => write_fields(entries.iter().collect(), out),
    }
}

fn write_fields(mut entries: Vec<&MappingEntry>, out: &mut Vec<u8>) {
    entries.sort_unstable_by_key(|entry| &entry.key);
    out.push(b'm');
    write_count(entries.len(), out);
    for entry in entries {
        write_text(&entry.key, out);
        write(&entry.value, out);
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    write_count(text.len(), out);
    out.extend(text.as_bytes());
}

fn write_count(count: usize, out: &mut Vec<u8>) {
    out.extend(u64::try_from(count).unwrap_or(u64::MAX).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Fingerprint {
        Fingerprint::of(&mixer_config::yaml::parse(text).unwrap().root)
    }

    #[test]
    fn what_is_written_otherwise_is_the_same_and_what_says_something_else_is_not() {
        assert_eq!(of("{a: 1, b: {c: x, d: [z]}}"), of("b:\n  d: ['z']\n  c: \"x\"\na: 1\n"));
        let texts = [
            "",
            "{}",
            "[]",
            "''",
            "'null'",
            "true",
            "false",
            "'true'",
            "0",
            "'0'",
            "1",
            "1.5",
            "[1]",
            "['1']",
            "[[1]]",
            "[1, 1]",
            "[[1], 1]",
            "[1, [1]]",
            "{a: 1}",
            "{a: '1'}",
            "{b: 1}",
            "{a: 1, b: 1}",
            "{a: {b: 1}}",
            "[{a: 1}]",
            "{a: , b: 1}",
            "{a: b}",
            "[a, b]",
            "[ab]",
            "[ab, '']",
            "['', ab]",
            "{ab: c}",
            "{a: bc}",
        ];
        for (index, text) in texts.iter().enumerate() {
            for other in texts.iter().skip(index + 1) {
                assert_ne!(of(text), of(other), "{text} and {other}");
            }
        }
    }

    #[test]
    fn fields_are_left_out_however_they_are_written() {
        let without = |text: &str| {
            Fingerprint::without(&mixer_config::yaml::parse(text).unwrap().root, &["filter_chains"])
        };
        for text in ["{a: 1, filter_chains: [2]}", "{filterChains: 3, a: 1}", "a: 1"] {
            assert_eq!(without(text), of("a: 1"), "{text}");
        }
        assert_ne!(without("{a: 1, b: {filter_chains: 1}}"), without("{a: 1, b: {filter_chains: 2}}"));
    }
}
