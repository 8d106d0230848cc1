//! Keys of series: typed label values, encoded, hashed and compared without formatting them.

use std::cell::RefCell;
use std::hash::BuildHasher as _;
use std::sync::LazyLock;

use mixer_attribute::Value;
use mixer_attribute::text::push_text;
use mixer_base::bounded::key_digest;
use mixer_engine::adapter::Instance;

use crate::cut::MAX_BYTES;

static HASHER: LazyLock<foldhash::fast::RandomState> = LazyLock::new(Default::default);

/// The key of an instance, in reusable memory.
#[derive(Debug, Default)]
pub(super) struct LabelKey {
    bytes: Vec<u8>,
    hash: u64,
    /// The digests of long strings, in the order of the values.
    digests: Vec<[u8; 32]>,
}

thread_local! {
    static SCRATCH: RefCell<LabelKey> = RefCell::default();
}

impl LabelKey {
    /// Runs `step` with a key in thread-local memory.
    pub(super) fn with<T>(step: impl FnOnce(&mut LabelKey) -> T) -> T {
        SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
            Ok(mut key) => step(&mut key),
            Err(_) => step(&mut LabelKey::default()),
        })
    }

    /// Encodes the values at `positions`.
    pub(super) fn set(&mut self, instance: &Instance<'_>, positions: &[usize]) {
        self.bytes.clear();
        self.digests.clear();
        for position in positions {
            let value = instance.value(*position);
            if let Some(digest) = push_value(&mut self.bytes, value)
                && matches!(value, Some(Value::String(_)))
            {
                self.digests.push(digest);
            }
        }
        self.hash = HASHER.hash_one(&self.bytes[..]);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// The digests of the strings longer than [`MAX_BYTES`], in the order of the values.
    pub(super) fn digests(&self) -> &[[u8; 32]] {
        &self.digests
    }
}

/// Whether two instances have the same values and thus the same key, as far as a comparison is cheaper than encoding. Instances
/// of one request with the same dimensions do.
pub(super) fn same_values(a: (&Instance<'_>, &[usize]), b: (&Instance<'_>, &[usize])) -> bool {
    let same = |(x, y): (&usize, &usize)| match (a.0.value(*x), b.0.value(*y)) {
        (Some(Value::String(x)), Some(Value::String(y))) | (Some(Value::Bytes(x)), Some(Value::Bytes(y))) => {
            std::ptr::eq(x, y) || x == y
        }
        (Some(Value::Int64(x)), Some(Value::Int64(y))) => x == y,
        (Some(Value::Bool(x)), Some(Value::Bool(y))) => x == y,
        (Some(Value::Duration(x)), Some(Value::Duration(y))) => x == y,
        (Some(Value::StringMap(x)), Some(Value::StringMap(y))) => std::ptr::eq(x, y),
        (None, None) => true,
        _ => false,
    };
    a.1.len() == b.1.len() && a.1.iter().zip(b.1).all(same)
}

/// Values of one type with the same text have the same key. Returns the digest that stands for a long text.
fn push_value(key: &mut Vec<u8>, value: Option<Value<'_>>) -> Option<[u8; 32]> {
    let mut long = None;
    let mut sized = |key: &mut Vec<u8>, tag: u8, bytes: &[u8]| {
        key.push(tag);
        key.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        // The length tells digests from values.
        match bytes.len() > MAX_BYTES {
            true => key.extend_from_slice(long.insert(key_digest(bytes))),
            false => key.extend_from_slice(bytes),
        }
    };
    let fixed = |key: &mut Vec<u8>, tag: u8, bytes: [u8; 8]| {
        let [a, b, c, d, e, f, g, h] = bytes;
        key.extend_from_slice(&[tag, a, b, c, d, e, f, g, h]);
    };
    match value {
        None => key.push(0),
        Some(Value::String(text)) => sized(key, 1, text),
        Some(Value::Int64(number)) => fixed(key, 2, number.to_le_bytes()),
        Some(Value::Double(number)) if number.is_nan() => fixed(key, 3, f64::NAN.to_le_bytes()),
        Some(Value::Double(number)) => fixed(key, 3, number.to_le_bytes()),
        Some(Value::Bool(value)) => key.extend_from_slice(&[4, u8::from(value)]),
        Some(Value::Timestamp(instant)) => {
            fixed(key, 5, instant.seconds.to_le_bytes());
            key.extend_from_slice(&(instant.nanos / 1000).to_le_bytes());
        }
        Some(Value::Duration(duration)) => fixed(key, 6, duration.nanos.to_le_bytes()),
        // An IPv4-mapped address is an IPv4 address.
        Some(Value::Bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, v4 @ ..])) if v4.len() == 4 => {
            sized(key, 7, v4);
        }
        Some(Value::Bytes(bytes)) => sized(key, 7, bytes),
        Some(map @ Value::StringMap(_)) => {
            let mut text = Vec::new();
            push_text(&mut text, map);
            sized(key, 8, &text);
        }
    }
    long
}
