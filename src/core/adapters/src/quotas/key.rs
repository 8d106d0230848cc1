//! Keys of cells: the instance and the typed values of all its dimensions.

use mixer_attribute::Value;
use mixer_attribute::text::ip_from_bytes;
use mixer_base::bounded::{MAX_KEY_BYTES, key_digest};
use mixer_base::secrets::mask_value;
use mixer_engine::adapter::{BoundInstance, Instance, QuotaKey};

/// The tag of a digest, which stands for all values of a long key.
const DIGEST: u8 = 0xfe;

/// Writes an injective encoding of the instance and its values to `out`. Values of more than [`MAX_KEY_BYTES`] are replaced by their
/// digest, so that no client evicts the cells of others by the length of its values.
pub(crate) fn encode(instance: &Instance<'_>, out: &mut Vec<u8>) {
    out.clear();
    encode_values(instance, out);
    if out.len() > MAX_KEY_BYTES {
        let digest = key_digest(out);
        out.truncate(size_of::<u32>());
        tagged(DIGEST, &digest, out);
    }
}

fn encode_values(instance: &Instance<'_>, out: &mut Vec<u8>) {
    // The instance determines names and order of the dimensions.
    out.extend_from_slice(&(instance.bound as u32).to_le_bytes());
    for value in instance.values {
        match *value {
            None => out.push(0),
            Some(Value::String(bytes)) => tagged_bytes(1, bytes, out),
            Some(Value::Int64(value)) => tagged(2, &value.to_le_bytes(), out),
            Some(Value::Double(value)) => tagged(3, &value.to_bits().to_le_bytes(), out),
            Some(Value::Bool(value)) => tagged(4, &[u8::from(value)], out),
            Some(Value::Timestamp(time)) => {
                tagged(5, &time.seconds.to_le_bytes(), out);
                out.extend_from_slice(&time.nanos.to_le_bytes());
            }
            Some(Value::Duration(value)) => tagged(6, &value.nanos.to_le_bytes(), out),
            Some(Value::Bytes(bytes)) => match ip_from_bytes(bytes) {
                Some(std::net::IpAddr::V4(ip)) => tagged_bytes(7, &ip.octets(), out),
                Some(std::net::IpAddr::V6(ip)) => tagged_bytes(7, &ip.octets(), out),
                None => tagged_bytes(7, bytes, out),
            },
            Some(Value::StringMap(map)) => {
                tagged(8, &(map.entries.len() as u32).to_le_bytes(), out);
                let mut entries = map.entries.to_vec();
                entries.sort_unstable();
                for (key, value) in entries {
                    length_and_bytes(key, out);
                    length_and_bytes(value, out);
                }
            }
        }
    }
}

/// The names of the dimensions of an instance, in the order of its values.
pub(crate) fn names_of(instance: &BoundInstance) -> Vec<String> {
    instance.leaves.iter().map(|leaf| leaf.key.as_deref().unwrap_or(&leaf.field).to_owned()).collect()
}

/// Decodes a key of [`encode`] for display: name and value of each dimension, in their order. Entries of maps with the names of secrets are
/// masked.
pub(crate) fn describe(key: &[u8], names: &[String]) -> Option<QuotaKey> {
    let mut rest = key.get(size_of::<u32>()..)?;
    let mut values = QuotaKey::new();
    while let Some((tag, tail)) = rest.split_first() {
        rest = tail;
        let text = value(*tag, &mut rest)?;
        // A digest stands for all of them.
        let name = names.get(values.len()).filter(|_| *tag != DIGEST);
        values.push((name.cloned().unwrap_or_default(), text));
    }
    Some(values)
}

/// The index of the bound instance of a key.
pub(crate) fn bound_of(mut key: &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(take(&mut key)?) as usize)
}

/// The values of a key of [`encode`]; `None` if it has their digest, or a map.
pub(crate) fn values(key: &[u8]) -> Option<Vec<Option<Value<'_>>>> {
    let mut rest = key.get(size_of::<u32>()..)?;
    let mut values = Vec::new();
    while let Some((tag, tail)) = rest.split_first() {
        rest = tail;
        values.push(decoded(*tag, &mut rest)?);
    }
    Some(values)
}

fn decoded<'k>(tag: u8, rest: &mut &'k [u8]) -> Option<Option<Value<'k>>> {
    use mixer_attribute::{SignedDuration, Timestamp};
    Some(Some(match tag {
        0 => return Some(None),
        1 => Value::String(prefixed(rest)?),
        2 => Value::Int64(i64::from_le_bytes(take(rest)?)),
        3 => Value::Double(f64::from_bits(u64::from_le_bytes(take(rest)?))),
        4 => Value::Bool(u8::from_le_bytes(take(rest)?) != 0),
        5 => {
            let seconds = i64::from_le_bytes(take(rest)?);
            Value::Timestamp(Timestamp { seconds, nanos: u32::from_le_bytes(take(rest)?) })
        }
        6 => Value::Duration(SignedDuration::from_nanos(i64::from_le_bytes(take(rest)?))),
        7 => Value::Bytes(prefixed(rest)?),
        _ => return None,
    }))
}

fn value(tag: u8, rest: &mut &[u8]) -> Option<String> {
    use mixer_attribute::text::ip_text;
    use mixer_attribute::{SignedDuration, Timestamp};
    use mixer_base::decimal;
    Some(match tag {
        0 => "–".to_owned(),
        DIGEST => {
            let digest: [u8; 32] = take(rest)?;
            let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("long values, BLAKE3 {hex}…")
        }
        1 => String::from_utf8_lossy(prefixed(rest)?).into_owned(),
        2 => i64::from_le_bytes(take(rest)?).to_string(),
        3 => decimal::plain(f64::from_bits(u64::from_le_bytes(take(rest)?))).to_string(),
        4 => (u8::from_le_bytes(take(rest)?) != 0).to_string(),
        5 => {
            let seconds = i64::from_le_bytes(take(rest)?);
            Timestamp { seconds, nanos: u32::from_le_bytes(take(rest)?) }.rfc3339().to_string()
        }
        6 => SignedDuration::from_nanos(i64::from_le_bytes(take(rest)?)).to_string(),
        7 => ip_text(prefixed(rest)?).to_string(),
        8 => {
            let entries = u32::from_le_bytes(take(rest)?);
            let entry = |rest: &mut &[u8]| {
                let key = String::from_utf8_lossy(prefixed(rest)?).into_owned();
                let value = String::from_utf8_lossy(prefixed(rest)?);
                Some(format!("{key}:{}", mask_value(&key, &value)))
            };
            let list: Option<Vec<String>> = (0..entries).map(|_| entry(rest)).collect();
            list?.join(";")
        }
        _ => return None,
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

fn prefixed<'k>(rest: &mut &'k [u8]) -> Option<&'k [u8]> {
    let length = u32::from_le_bytes(take(rest)?) as usize;
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(head)
}

fn tagged(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

fn tagged_bytes(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    length_and_bytes(bytes, out);
}

fn length_and_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}
