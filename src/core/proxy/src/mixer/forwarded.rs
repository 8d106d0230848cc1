//! The header `x-istio-attributes`: attributes that a proxy tells the next one, as `istio.mixer.v1.Attributes` in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mixer_attribute::wire::{Reader, nested, put_bytes, put_duration, put_nonempty, put_nonzero};
use mixer_attribute::{DecodeError, OwnedAttributes, OwnedValue, SignedDuration};

/// The name of the header.
pub(super) const HEADER: &str = "x-istio-attributes";
/// What a proxy may say of others.
const ACCEPTED: [&str; 6] = [
    "source.uid",
    "source.namespace",
    "destination.service.name",
    "destination.service.uid",
    "destination.service.host",
    "destination.service.namespace",
];

/// The attributes of a header that are accepted: some texts that are not empty. None of a header that cannot be read.
pub(super) fn decode(header: &[u8]) -> OwnedAttributes {
    let decoded = STANDARD.decode(header).ok().and_then(|bytes| texts(&bytes).ok());
    let accepted =
        |(name, value): &Text| !value.is_empty() && ACCEPTED.iter().any(|known| known.as_bytes() == name);
    let all = decoded.unwrap_or_default().into_iter().filter(accepted);
    all.map(|(name, value)| (name, OwnedValue::String(value))).collect()
}

/// The name and the value of an attribute that is a text.
type Text = (Vec<u8>, Vec<u8>);

/// Names and values of the attributes that are texts. Errors: invalid protobuf.
fn texts(bytes: &[u8]) -> Result<Vec<Text>, DecodeError> {
    let mut found = Vec::new();
    let mut message = Reader::new(bytes);
    while let Some((number, wire_type)) = message.tag()? {
        if number != 1 {
            message.skip(wire_type)?;
            continue;
        }
        let (mut name, mut value) = (Vec::new(), None);
        let mut entry = Reader::new(message.bytes_of(number, wire_type)?);
        while let Some((number, wire_type)) = entry.tag()? {
            match number {
                1 => name = entry.bytes_of(number, wire_type)?.to_vec(),
                2 => {
                    let mut typed = Reader::new(entry.bytes_of(number, wire_type)?);
                    while let Some((number, wire_type)) = typed.tag()? {
                        match number {
                            2 => value = Some(typed.bytes_of(number, wire_type)?.to_vec()),
                            // Of a oneof the last counts.
                            3..=9 => {
                                value = None;
                                typed.skip(wire_type)?;
                            }
                            _ => typed.skip(wire_type)?,
                        }
                    }
                }
                _ => entry.skip(wire_type)?,
            }
        }
        found.extend(value.map(|value| (name, value)));
    }
    Ok(found)
}

/// The value of a header.
pub(super) fn encode(attributes: &OwnedAttributes) -> String {
    let mut out = Vec::new();
    for (name, value) in attributes.iter() {
        nested(&mut out, 1, |out| {
            put_nonempty(out, 1, name);
            nested(out, 2, |out| put_value(value, out));
        });
    }
    STANDARD.encode(out)
}

/// Appends a value. A field of a oneof is written even if it is empty.
fn put_value(value: &OwnedValue, out: &mut Vec<u8>) {
    let mut varint = |field: u8, number: u64| {
        if number == 0 {
            out.extend_from_slice(&[field << 3, 0]);
        } else {
            put_nonzero(out, field.into(), number);
        }
    };
    match value {
        OwnedValue::Int64(number) => varint(3, number.cast_unsigned()),
        OwnedValue::Bool(flag) => varint(5, u64::from(*flag)),
        OwnedValue::String(text) => put_bytes(out, 2, text),
        OwnedValue::Double(number) => {
            out.push(4 << 3 | 1);
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        OwnedValue::Bytes(bytes) => put_bytes(out, 6, bytes),
        OwnedValue::Timestamp(time) => nested(out, 7, |out| {
            put_nonzero(out, 1, time.seconds.cast_unsigned());
            put_nonzero(out, 2, time.nanos.into());
        }),
        OwnedValue::Duration(SignedDuration { nanos }) => {
            put_duration(out, 8, SignedDuration { nanos: *nanos })
        }
        OwnedValue::StringMap(map) => nested(out, 9, |out| {
            for (key, value) in map {
                nested(out, 1, |out| {
                    put_nonempty(out, 1, key);
                    put_nonempty(out, 2, value);
                });
            }
        }),
    }
}
