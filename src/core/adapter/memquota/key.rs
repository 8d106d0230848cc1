//! What tells one cell from another: the instance and the values of all its dimensions, typed.

use crate::core::adapter::Instance;
use crate::core::attribute::Value;
use crate::core::attribute::text::ip_from_bytes;

/// Appends bytes that are equal exactly for equal instances with equal values.
pub(super) fn encode(instance: &Instance<'_>, out: &mut Vec<u8>) {
    // Names and order of dimensions follow from the instance.
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
