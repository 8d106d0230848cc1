//! Keys in Redis: those of Istio Mixer, so that servers of both count together.
//!
//! `NAME;DIMENSION=VALUE…` names a window, by the names of the dimensions. Two windows never have the same key, and no answer to an id has that of
//! a window: what would make them alike is escaped, which Istio Mixer does not do.
//!
//! | | key | so that |
//! | --- | --- | --- |
//! | in names and values | `;`, `%` are `%3B`, `%25`; in names of dimensions also `=`, in a cluster also `}` | the parts of a name are known |
//! | in maps | blanks, and `:` in keys, are escaped | entries are known |
//! | value of the last dimension without an override | `-7` at its end is `%2D7` | it is no digest of an override |
//! | answer to an id | `NAME…;%id=ID.meta`; in a cluster `{NAME…}-ID` | no name of a dimension begins with `%i` |
//! | answer to an id, as Istio Mixer has it | `ID-NAME….meta` | servers of both repeat each other's answers |
//!
//! In the last form, with `istioKeys` and called as `mixs`, a caller can choose an id with which the answer has the key of a window of another quota, as in
//! Istio Mixer.

use std::io::Write as _;

use mixer_attribute::text::push_text;
use mixer_attribute::{StringMap, Value};
use mixer_base::bounded::key_digest;
use mixer_engine::adapter::{BoundInstance, Instance};

use super::super::Params;
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
    /// Answers to deduplication ids as in Istio Mixer.
    pub(super) istio_answers: bool,
}

impl KeyStyle {
    /// That of a handler.
    pub(super) fn of(params: &Params, as_istio_mixer: bool) -> Self {
        let istio = params.istio_keys;
        Self { cluster: params.cluster, istio, istio_answers: istio || as_istio_mixer }
    }

    /// Whether a byte would be taken for a part of the form of a name.
    fn is_special(self, byte: u8) -> bool {
        matches!(byte, b';' | b'%') || self.cluster && byte == b'}'
    }
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
        let prefix = |name: &str| {
            let mut prefix = b";".to_vec();
            push_escaped(&mut prefix, name.as_bytes(), |byte| byte == b'=' || style.is_special(byte));
            prefix.push(b'=');
            prefix
        };
        let dimensions = dimensions.into_iter().map(|(name, at)| (prefix(name), at)).collect();
        let mut instance = Vec::new();
        push_escaped(&mut instance, bound.name.as_bytes(), |byte| style.is_special(byte));
        Self { instance, dimensions, style }
    }

    /// The name of the window of an instance; `selected`: the digest of the override that applies.
    fn window(&self, instance: &Instance<'_>, selected: Option<u32>) -> Vec<u8> {
        let mut name = self.instance.clone();
        let mut last = (None, 0);
        for (dimension, at) in &self.dimensions {
            name.extend_from_slice(dimension);
            last = (instance.value(*at), name.len());
            if let (Some(value), begin) = last {
                self.push(&mut name, value, begin);
            }
        }
        match (selected, last) {
            // Writing to a Vec cannot fail.
            (Some(digest), _) => drop(write!(name, "-{digest}")),
            (None, (Some(Value::String(_) | Value::Bytes(_)), begin)) => escape_digest(&mut name, begin),
            // Without a value, the digest of an override stands where a negative number would.
            (None, (Some(Value::Int64(_)), begin)) if !self.style.istio => escape_digest(&mut name, begin),
            // The others never end like one, or only like that of a value that they cannot have.
            (None, _) => {}
        }
        if name.len() <= MAX_NAME {
            return name;
        }
        let mut short = self.instance.clone();
        // No name of a dimension begins so.
        push_digest(&mut short, b";%blake3=", &name);
        short
    }

    /// Appends a value, which begins there.
    fn push(&self, name: &mut Vec<u8>, value: Value<'_>, begin: usize) {
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
            // The text has microseconds.
            Value::Timestamp(time) if time.nanos % 1000 != 0 => drop(write!(name, "{}", time.rfc3339())),
            Value::StringMap(map) => return self.push_map(name, map),
            text => push_text(name, text),
        }
        if name.get(begin..).is_some_and(|value| value.iter().any(|byte| self.style.is_special(*byte))) {
            let value = name.split_off(begin);
            push_escaped(name, &value, |byte| self.style.is_special(byte));
        }
    }

    /// Appends a map, as [`push_text`] but for what is escaped.
    fn push_map(&self, name: &mut Vec<u8>, map: &StringMap<'_>) {
        let mut entries = map.entries.to_vec();
        entries.sort_unstable();
        name.extend_from_slice(b"stringmap[");
        for (index, (key, value)) in entries.into_iter().enumerate() {
            if index > 0 {
                name.push(b' ');
            }
            let is_special = |byte: u8| byte == b' ' || self.style.is_special(byte);
            push_escaped(name, key, |byte| byte == b':' || is_special(byte));
            name.push(b':');
            push_escaped(name, value, is_special);
        }
        name.push(b']');
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
        let joined = |parts: &[&[u8]]| parts.concat();
        if self.style.cluster {
            // Redis chooses the node by what is in the first braces.
            return Keys {
                meta: joined(&[b"{", &name, b"}.meta"]),
                data: joined(&[b"{", &name, b"}.data"]),
                answer: joined(&[b"{", &name, b"}-", &short_id(id, true)]),
            };
        }
        let answer = match self.style.istio_answers {
            true => joined(&[&short_id(id, false), b"-", &name, b".meta"]),
            false => joined(&[&name, b";%id=", &short_id(id, true), b".meta"]),
        };
        Keys { meta: joined(&[&name, b".meta"]), data: joined(&[&name, b".data"]), answer }
    }
}

/// A deduplication id in a key: one that is long is replaced by its digest, from which others differ if `%` is escaped.
fn short_id(id: &str, escaped: bool) -> Vec<u8> {
    let mut short = Vec::new();
    match escaped {
        _ if id.len() > MAX_NAME => {
            push_digest(&mut short, if escaped { b"%blake3=" } else { b"blake3=" }, id.as_bytes())
        }
        true => push_escaped(&mut short, id.as_bytes(), |byte| byte == b'%'),
        false => short.extend_from_slice(id.as_bytes()),
    }
    short
}

/// Appends bytes, the special ones as `%` and two digits.
fn push_escaped(out: &mut Vec<u8>, bytes: &[u8], is_special: impl Fn(u8) -> bool) {
    for byte in bytes {
        match is_special(*byte) {
            true => drop(write!(out, "%{byte:02X}")),
            false => out.push(*byte),
        }
    }
}

/// Escapes what a value from `begin` on ends with if it looks like the digest of an override.
fn escape_digest(name: &mut Vec<u8>, begin: usize) {
    let value = name.get(begin..).unwrap_or_default();
    let digits = value.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let sign =
        value.len().checked_sub(digits + 1).filter(|sign| digits > 0 && value.get(*sign) == Some(&b'-'));
    if let Some(sign) = sign {
        let tail = name.split_off(begin + sign);
        name.extend_from_slice(b"%2D");
        name.extend_from_slice(tail.get(1..).unwrap_or_default());
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
        let names = WindowNames::new(&bound, KeyStyle { cluster: false, istio, istio_answers: istio });
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

    /// Values of each type, also those that look like parts of a key.
    fn values(random: &mut fastrand::Rng, texts: &[&'static [u8]], kind: u8) -> OwnedTestValue {
        let text = |random: &mut fastrand::Rng| texts[random.usize(..texts.len())];
        match kind {
            0 => OwnedTestValue::Text(text(random)),
            1 => OwnedTestValue::Bytes(text(random)),
            2 => OwnedTestValue::Int([0, 7, -7, -16, 16, -0x10][random.usize(..6)]),
            3 => OwnedTestValue::Double([0.0, -0.0, 1.5, 7.0, f64::INFINITY][random.usize(..5)]),
            4 => OwnedTestValue::Time([0, 1, 1000, 1001][random.usize(..4)]),
            _ => {
                let entries = (0..random.usize(..3)).map(|_| (text(random), text(random)));
                let entries: std::collections::BTreeMap<_, _> = entries.collect();
                OwnedTestValue::Map(entries.into_iter().collect())
            }
        }
    }

    #[derive(Debug, Clone, PartialEq)]
    enum OwnedTestValue {
        Text(&'static [u8]),
        Bytes(&'static [u8]),
        Int(i64),
        Double(f64),
        Time(u32),
        Map(Vec<(&'static [u8], &'static [u8])>),
    }

    impl OwnedTestValue {
        /// What tells it from others: 0.0 and -0.0 are two numbers.
        fn shown(&self) -> String {
            format!("{self:?}")
        }
    }

    /// All keys of calls that have instance, values, override or id of their own are their own, in every form of keys that is not Istio Mixer's.
    #[test]
    fn no_two_windows_or_answers_have_one_key() {
        const TEXTS: [&[u8]; 18] = [
            b"", b"a", b"-", b"7", b"-7", b"a-7", b";", b"%", b"%2D7", b"%3B", b";b=", b"a;b=7", b" ", b":",
            b"a:a a:7", b"}", b"}.meta", b";%id=a",
        ];
        const IDS: [&str; 11] = [
            "",
            "a",
            "-7",
            "a-q.instance.ns",
            ".meta",
            ";b=7",
            "%id=",
            ";%id=a.meta",
            "%25",
            "}-a",
            "%blake3=00",
        ];
        let long = "y".repeat(600);
        for cluster in [false, true] {
            let style = KeyStyle { cluster, istio: false, istio_answers: false };
            let mut known = std::collections::HashMap::new();
            let mut random = fastrand::Rng::with_seed(7);
            for _ in 0..60_000 {
                let instance = ["q.instance.ns", "a-q.instance.ns", "q.instance.ns-7", "q;b=.instance.ns"]
                    [random.usize(..4)];
                let names: &[(&str, ValueType)] = [
                    &[][..],
                    &[("b", ValueType::String)],
                    &[("b", ValueType::String), ("a", ValueType::String)],
                    &[("a=7;b", ValueType::String)],
                    &[("%id", ValueType::String)],
                    &[("blake3", ValueType::String)],
                ][random.usize(..6)];
                let bound = bound(instance, "quota", "dimensions", names);
                // The type of a dimension is that of its expression.
                let kind = random.u8(..6);
                let values: Vec<OwnedTestValue> =
                    names.iter().map(|_| values(&mut random, &TEXTS, kind)).collect();
                let maps: Vec<StringMap<'_>> = values
                    .iter()
                    .map(|value| match value {
                        OwnedTestValue::Map(entries) => StringMap { entries, source: None },
                        _ => StringMap { entries: &[], source: None },
                    })
                    .collect();
                let given: Vec<Option<Value<'_>>> = values
                    .iter()
                    .zip(&maps)
                    .map(|(value, map)| {
                        Some(match value {
                            OwnedTestValue::Text(text) => Value::String(text),
                            OwnedTestValue::Bytes(bytes) => Value::Bytes(bytes),
                            OwnedTestValue::Int(number) => Value::Int64(*number),
                            OwnedTestValue::Double(number) => Value::Double(*number),
                            OwnedTestValue::Time(nanos) => {
                                Value::Timestamp(mixer_attribute::Timestamp { seconds: 7, nanos: *nanos })
                            }
                            OwnedTestValue::Map(_) => Value::StringMap(map),
                        })
                    })
                    .collect();
                let selected = (!names.is_empty() && random.bool()).then_some(7);
                let id = match random.u8(..12) {
                    11 => long.as_str(),
                    at => IDS[usize::from(at)],
                };
                let instance = Instance { bound: 0, name: instance, values: &given };
                let window_names = WindowNames::new(&bound, style);
                let keys = window_names.keys(&instance, selected, id);
                let leased = window_names.leased_keys(&instance, selected);
                assert_eq!((&keys.meta, &keys.data), (&leased.meta, &leased.data));
                let values: Vec<String> = values.iter().map(OwnedTestValue::shown).collect();
                // Two configurations give a dimension two types at two times.
                let kind = if names.is_empty() { 0 } else { kind };
                let window = format!("{} {names:?} {kind} {values:?} {selected:?}", instance.name);
                for (key, what) in [
                    (keys.meta, format!("meta of {window}")),
                    (keys.data, format!("data of {window}")),
                    (leased.leases, format!("leases of {window}")),
                    (keys.answer, format!("answer {id} of {window}")),
                ] {
                    let before = known.insert((kind, key.clone()), what.clone());
                    assert!(
                        before.as_ref().is_none_or(|before| *before == what),
                        "{key:?}: {before:?}, {what}"
                    );
                }
            }
        }
    }

    #[test]
    fn answers_have_the_keys_of_istio_mixer_where_that_is_asked_for() {
        let bound = bound("q.instance.ns", "quota", "dimensions", &[("a", ValueType::String)]);
        let (values, id) = ([text("x")], "d1-q");
        let instance = Instance { bound: 0, name: "q.instance.ns", values: &values };
        let answer = |istio_keys: bool, as_istio_mixer: bool| {
            let params = Params { istio_keys, ..Params::default() };
            let names = WindowNames::new(&bound, KeyStyle::of(&params, as_istio_mixer));
            String::from_utf8(names.keys(&instance, None, id).answer).unwrap()
        };
        for (istio_keys, as_istio_mixer) in [(true, false), (false, true), (true, true)] {
            assert_eq!(answer(istio_keys, as_istio_mixer), "d1-q-q.instance.ns;a=x.meta");
        }
        assert_eq!(answer(false, false), "q.instance.ns;a=x;%id=d1-q.meta");
    }

    #[test]
    fn overrides_have_the_digests_of_istio_mixer() {
        assert_eq!(override_digest([("svc", "web")].into_iter()), 2_161_902_848);
        assert_eq!(override_digest([("code", "7"), ("svc", "db")].into_iter()), 2_576_108_485);
    }

    #[test]
    fn all_keys_of_a_window_are_on_one_node_of_a_cluster() {
        let bound = bound("q.instance.ns", "quota", "dimensions", &[("a", ValueType::String)]);
        let style = KeyStyle { cluster: true, istio: false, istio_answers: false };
        let names = WindowNames::new(&bound, style);
        let values = [text("x}{y")];
        let instance = Instance { bound: 0, name: "q.instance.ns", values: &values };
        let keys = names.keys(&instance, None, "{id}");
        for key in [keys.meta, keys.data, keys.answer] {
            let key = String::from_utf8(key).unwrap();
            // Up to the first closing brace.
            assert!(key.starts_with("{q.instance.ns;a=x%7D{y}"), "{key}");
        }
    }
}
