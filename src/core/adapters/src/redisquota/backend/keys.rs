//! Keys in Redis: those of Istio Mixer, so that servers of both count together.
//!
//! `NAME;DIMENSION=VALUE…` names a window, by the names of the dimensions. Two texts of requests never have the same key: what would make
//! them alike is escaped, which Istio Mixer does not do.

use std::io::Write as _;

use mixer_attribute::Value;
use mixer_attribute::text::push_text;
use mixer_base::bounded::key_digest;
use mixer_engine::adapter::{BoundInstance, Instance};

use super::scripts::Keys;

/// Longest name of a window, and longest deduplication id, in bytes: a longer one is replaced by its digest.
const MAX_NAME: usize = 512;
/// What Istio Mixer writes before numbers and booleans.
const ISTIO_PREFIX: [u8; 32] = [0; 32];

/// How keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyStyle {
    /// All keys of a window are on one node.
    pub(super) cluster: bool,
    /// Numbers and booleans as in Istio Mixer.
    pub(super) istio: bool,
}

/// The keys of a window of which shares are leased.
#[derive(Debug)]
pub(super) struct LeasedKeys {
    pub(super) meta: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) leases: Vec<u8>,
}

/// The names of the windows of an instance.
#[derive(Debug)]
pub(super) struct WindowNames {
    instance: Vec<u8>,
    /// `;DIMENSION=` and position, by name.
    dimensions: Vec<(Vec<u8>, usize)>,
    style: KeyStyle,
}

impl WindowNames {
    pub(super) fn new(bound: &BoundInstance, style: KeyStyle) -> Self {
        let mut dimensions: Vec<_> = bound.entries("dimensions").collect();
        dimensions.sort_unstable();
        let dimensions = dimensions.into_iter().map(|(name, at)| (format!(";{name}=").into_bytes(), at));
        Self { instance: bound.name.as_bytes().to_vec(), dimensions: dimensions.collect(), style }
    }

    /// The name of the window of an instance; `selected`: the digest of the override that applies.
    fn window(&self, instance: &Instance<'_>, selected: Option<u32>) -> Vec<u8> {
        let mut name = self.instance.clone();
        let mut last = None;
        for (dimension, at) in &self.dimensions {
            name.extend_from_slice(dimension);
            let begin = name.len();
            last = instance.value(*at);
            if let Some(value) = last {
                self.push(&mut name, value);
            }
            escape(&mut name, begin);
        }
        match (selected, last) {
            // Writing to a Vec cannot fail.
            (Some(digest), _) => drop(write!(name, "-{digest}")),
            (None, Some(Value::String(_))) => escape_digest(&mut name),
            (None, _) => {}
        }
        if name.len() <= MAX_NAME {
            return name;
        }
        let mut short = self.instance.clone();
        push_digest(&mut short, b";blake3=", &name);
        short
    }

    fn push(&self, name: &mut Vec<u8>, value: Value<'_>) {
        let prefix: &[u8] = if self.style.istio { &ISTIO_PREFIX } else { &[] };
        match value {
            Value::Bytes(bytes) => name.extend_from_slice(bytes),
            Value::Int64(number) => {
                name.extend_from_slice(prefix);
                let sign = if number < 0 { "-" } else { "" };
                let _ = write!(name, "{sign}{:x}", number.unsigned_abs());
            }
            Value::Double(number) => {
                name.extend_from_slice(prefix);
                push_binary(name, number);
            }
            Value::Bool(value) => {
                name.extend_from_slice(prefix);
                let _ = write!(name, "{value}");
            }
            text => push_text(name, text),
        }
    }

    /// The keys of a window of which shares are leased.
    pub(super) fn leased_keys(&self, instance: &Instance<'_>, selected: Option<u32>) -> LeasedKeys {
        let name = self.window(instance, selected);
        let (before, after): (&[u8], &[u8]) = if self.style.cluster { (b"{", b"}") } else { (b"", b"") };
        let key = |suffix: &[u8]| [before, &*name, after, suffix].concat();
        LeasedKeys { meta: key(b".meta"), data: key(b".data"), leases: key(b".leases") }
    }

    /// The keys of an allocation.
    pub(super) fn keys(&self, instance: &Instance<'_>, selected: Option<u32>, id: &str) -> Keys {
        let name = self.window(instance, selected);
        let mut id = id.as_bytes().to_vec();
        if id.len() > MAX_NAME {
            let mut short = Vec::new();
            push_digest(&mut short, b"blake3=", &id);
            id = short;
        }
        let joined = |parts: &[&[u8]]| parts.concat();
        match self.style.cluster {
            false => Keys {
                meta: joined(&[&name, b".meta"]),
                data: joined(&[&name, b".data"]),
                answer: joined(&[&id, b"-", &name, b".meta"]),
            },
            // Redis chooses the node by what is in the first braces.
            true => Keys {
                meta: joined(&[b"{", &name, b"}.meta"]),
                data: joined(&[b"{", &name, b"}.data"]),
                answer: joined(&[b"{", &name, b"}-", &id]),
            },
        }
    }
}

/// Escapes what separates dimensions in the value from `begin` on, and the sign of an escape.
fn escape(name: &mut Vec<u8>, begin: usize) {
    let needs = |byte: &u8| matches!(byte, b';' | b'%');
    if !name.get(begin..).is_some_and(|value| value.iter().any(needs)) {
        return;
    }
    let value = name.split_off(begin);
    for byte in value {
        match byte {
            b';' => name.extend_from_slice(b"%3B"),
            b'%' => name.extend_from_slice(b"%25"),
            byte => name.push(byte),
        }
    }
}

/// Escapes what a text ends with if it looks like the digest of an override.
fn escape_digest(name: &mut Vec<u8>) {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let sign = name.len().checked_sub(digits + 1);
    if let Some(sign) = sign.filter(|sign| digits > 0 && name.get(*sign) == Some(&b'-')) {
        let digits = name.split_off(sign + 1);
        name.truncate(sign);
        name.extend_from_slice(b"%2D");
        name.extend_from_slice(&digits);
    }
}

fn push_digest(out: &mut Vec<u8>, label: &[u8], of: &[u8]) {
    out.extend_from_slice(label);
    for byte in key_digest(of) {
        let _ = write!(out, "{byte:02x}");
    }
}

/// Appends a number as Go's format `b`: mantissa, `p`, binary exponent.
fn push_binary(out: &mut Vec<u8>, number: f64) {
    if !number.is_finite() {
        push_text(out, Value::Double(number));
        return;
    }
    let bits = number.to_bits();
    let sign = if bits >> 63 == 1 { "-" } else { "" };
    let exponent = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    // Numbers near zero have no implied bit.
    let (mantissa, exponent) =
        if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    let _ = write!(out, "{sign}{mantissa}p{exponent:+}");
}

/// The digest of the dimensions of an override, FNV-1a of 32 bits, as in Istio Mixer.
pub(super) fn override_digest<'d>(dimensions: impl Iterator<Item = (&'d str, &'d str)>) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    for (key, value) in dimensions {
        for byte in key.bytes().chain([b'\t']).chain(value.bytes()).chain([b'\n']) {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bound;
    use mixer_attribute::{SignedDuration, ValueType};

    fn name(values: [Option<Value<'_>>; 2], selected: Option<u32>, istio: bool) -> String {
        let bound = bound(
            "q.instance.ns",
            "quota",
            "dimensions",
            &[("b", ValueType::String), ("a", ValueType::String)],
        );
        let names = WindowNames::new(&bound, KeyStyle { cluster: false, istio });
        let instance = Instance { bound: 0, name: "q.instance.ns", values: &values };
        String::from_utf8(names.window(&instance, selected)).unwrap()
    }

    fn text(text: &str) -> Option<Value<'_>> {
        Some(Value::String(text.as_bytes()))
    }

    #[test]
    fn names_are_those_of_istio_mixer() {
        let nul = "\0".repeat(32);
        let rows: [([Option<Value<'_>>; 2], bool, String); 6] = [
            ([text("x"), text("y")], false, "q.instance.ns;a=y;b=x".into()),
            ([None, text("")], false, "q.instance.ns;a=;b=".into()),
            ([Some(Value::Int64(-255)), Some(Value::Bool(true))], false, "q.instance.ns;a=true;b=-ff".into()),
            ([Some(Value::Int64(10)), text("y")], true, format!("q.instance.ns;a=y;b={nul}a")),
            (
                [Some(Value::Double(1.5)), Some(Value::Double(0.0))],
                false,
                "q.instance.ns;a=0p-1074;b=6755399441055744p-52".into(),
            ),
            (
                [Some(Value::Duration(SignedDuration::from_secs(90))), Some(Value::Bytes(b"abcd"))],
                false,
                "q.instance.ns;a=abcd;b=1m30s".into(),
            ),
        ];
        for (values, istio, wanted) in rows {
            assert_eq!(name(values, None, istio), wanted);
        }
        assert_eq!(name([text("x"), text("y")], Some(7), false), "q.instance.ns;a=y;b=x-7");
    }

    #[test]
    fn requests_with_different_values_have_different_names() {
        let rows = [
            name([text("3"), text("1;b=2")], None, false),
            name([text("2;b=3"), text("1")], None, false),
            name([text("3"), text("1%3Bb=2")], None, false),
            name([text("x-7"), text("y")], None, false),
            name([text("x"), text("y")], Some(7), false),
            name([text("x%2D7"), text("y")], None, false),
            name([text("x"), text(&"y".repeat(600))], None, false),
            name([text("x"), text(&"y".repeat(601))], None, false),
        ];
        for (index, row) in rows.iter().enumerate() {
            assert!(!rows[..index].contains(row), "{rows:?}");
            assert!(row.len() < 600);
        }
    }

    #[test]
    fn overrides_have_the_digests_of_istio_mixer() {
        assert_eq!(override_digest([("svc", "web")].into_iter()), 2_161_902_848);
        assert_eq!(override_digest([("code", "7"), ("svc", "db")].into_iter()), 2_576_108_485);
    }

    #[test]
    fn all_keys_of_a_window_are_on_one_node_of_a_cluster() {
        let bound = bound("q.instance.ns", "quota", "dimensions", &[("a", ValueType::String)]);
        let names = WindowNames::new(&bound, KeyStyle { cluster: true, istio: false });
        let values = [text("x}{y")];
        let instance = Instance { bound: 0, name: "q.instance.ns", values: &values };
        let keys = names.keys(&instance, None, "{id}");
        for key in [keys.meta, keys.data, keys.answer] {
            let key = String::from_utf8(key).unwrap();
            // Up to the first closing brace.
            assert!(key.starts_with("{q.instance.ns;a=x}"), "{key}");
        }
    }
}
