//! The outputs of an adapter: the message `OutputMsg` of its template.

use mixer_attribute::{SignedDuration, Timestamp, ValueType};
use mixer_engine::adapter::GeneratedValue;
use mixer_engine::template::{Cardinality, Kind, MessageField, MessageId, Schema, TemplateInfo};

/// Reads the outputs of a template.
#[derive(Debug)]
pub(super) struct OutputReader {
    fields: Vec<OutputField>,
}

#[derive(Debug)]
struct OutputField {
    number: u32,
    kind: Kind,
    value_type: ValueType,
    /// The position among the outputs of the template.
    position: usize,
    /// What it is if it is not sent.
    default: Option<GeneratedValue>,
}

/// Why a message cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("proto: {0}")]
pub(super) struct OutputError(&'static str);

const TRUNCATED: OutputError = OutputError("unexpected EOF");
const MALFORMED: OutputError = OutputError("malformed field");

impl OutputReader {
    /// A reader of the message `OutputMsg` of a template. Except as Istio Mixer, a number or a Boolean that is not sent is 0 or false, which
    /// proto3 does not send; a text that is not sent is absent.
    pub(super) fn new(
        template: &TemplateInfo,
        schema: &Schema,
        message: MessageId,
        as_istio_mixer: bool,
    ) -> Self {
        let declared = schema.message(message).map_or(&[][..], |message| &message.fields);
        let fields = template.output.iter().enumerate().filter_map(|(position, output)| {
            let field = declared.iter().find(|field| field.number == output.number)?;
            let default = default_of(field, output.value_type).filter(|_| !as_istio_mixer);
            let (number, value_type) = (output.number, output.value_type);
            Some(OutputField { number, kind: field.kind.clone(), value_type, position, default })
        });
        Self { fields: fields.collect() }
    }

    /// The outputs in a message, by their positions among those of the template. Fields that are none are skipped.
    ///
    /// Errors: a message that is malformed, or has a value that its type does not.
    pub(super) fn read(&self, message: &[u8]) -> Result<Vec<(usize, GeneratedValue)>, OutputError> {
        let mut found: Vec<(usize, GeneratedValue)> = Vec::with_capacity(self.fields.len());
        let mut reader = Reader(message);
        while let Some((number, raw)) = reader.field()? {
            let Some(field) = self.fields.iter().find(|field| field.number == number) else { continue };
            let earlier = found.iter().position(|(position, _)| *position == field.position);
            if field.value_type == ValueType::StringMap {
                let entry = entry_of(raw)?;
                match earlier.and_then(|at| found.get_mut(at)) {
                    Some((_, GeneratedValue::StringMap(entries))) => entries.push(entry),
                    _ => found.push((field.position, GeneratedValue::StringMap(vec![entry]))),
                }
                continue;
            }
            let Some(value) = value_of(field, raw)? else { continue };
            // The last one counts.
            match earlier.and_then(|at| found.get_mut(at)) {
                Some(place) => place.1 = value,
                None => found.push((field.position, value)),
            }
        }
        for (_, value) in &mut found {
            if let GeneratedValue::StringMap(entries) = value {
                keep_last(entries);
            }
        }
        for field in &self.fields {
            if let Some(default) = &field.default
                && !found.iter().any(|(position, _)| *position == field.position)
            {
                found.push((field.position, default.clone()));
            }
        }
        Ok(found)
    }
}

/// Of the entries of a key the last one counts.
fn keep_last(entries: &mut Vec<(String, String)>) {
    // Stable: the later one of two equal keys comes second.
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    entries.dedup_by(|later, kept| {
        let is_same = later.0 == kept.0;
        if is_same {
            std::mem::swap(&mut later.1, &mut kept.1);
        }
        is_same
    });
}

/// The value of a number or a Boolean that proto3 does not send.
fn default_of(field: &MessageField, value_type: ValueType) -> Option<GeneratedValue> {
    if field.has_presence || field.cardinality != Cardinality::One {
        return None;
    }
    match value_type {
        ValueType::Int64 => Some(GeneratedValue::Int64(0)),
        ValueType::Double => Some(GeneratedValue::Double(0.0)),
        ValueType::Bool => Some(GeneratedValue::Bool(false)),
        _ => None,
    }
}

/// A field as it is encoded.
#[derive(Debug, Clone, Copy)]
enum Raw<'m> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(&'m [u8]),
}

/// The value of a field; `None` if its encoding is that of another type, as after a change of the template.
fn value_of(field: &OutputField, raw: Raw<'_>) -> Result<Option<GeneratedValue>, OutputError> {
    let zigzag = |value: u64| (value >> 1).cast_signed() ^ -(value & 1).cast_signed();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a number of 32 bits has the lower ones of its encoding"
    )]
    let value = match (&field.kind, raw) {
        (Kind::String, Raw::Bytes(text)) => GeneratedValue::String(text_of(text)?),
        (Kind::Bool, Raw::Varint(value)) => GeneratedValue::Bool(value != 0),
        (Kind::Int64 | Kind::Uint64, Raw::Varint(value)) => GeneratedValue::Int64(value.cast_signed()),
        (Kind::Int32 | Kind::Enum(_), Raw::Varint(value)) => GeneratedValue::Int64(i64::from(value as i32)),
        (Kind::Uint32, Raw::Varint(value)) => GeneratedValue::Int64(i64::from(value as u32)),
        (Kind::Sint32 | Kind::Sint64, Raw::Varint(value)) => GeneratedValue::Int64(zigzag(value)),
        (Kind::Fixed64 | Kind::Sfixed64, Raw::Fixed64(bytes)) => {
            GeneratedValue::Int64(i64::from_le_bytes(bytes))
        }
        (Kind::Fixed32, Raw::Fixed32(bytes)) => GeneratedValue::Int64(i64::from(u32::from_le_bytes(bytes))),
        (Kind::Sfixed32, Raw::Fixed32(bytes)) => GeneratedValue::Int64(i64::from(i32::from_le_bytes(bytes))),
        (Kind::Double, Raw::Fixed64(bytes)) => GeneratedValue::Double(f64::from_le_bytes(bytes)),
        (Kind::Float, Raw::Fixed32(bytes)) => GeneratedValue::Double(f64::from(f32::from_le_bytes(bytes))),
        (Kind::Message(_), Raw::Bytes(message)) => return message_of(field.value_type, message),
        _ => return Ok(None),
    };
    Ok(Some(value))
}

/// The value in a message such as `istio.policy.v1beta1.IPAddress` or `google.protobuf.Duration`. A time may be in one message more, as in
/// `istio.policy.v1beta1.Duration`.
fn message_of(value_type: ValueType, message: &[u8]) -> Result<Option<GeneratedValue>, OutputError> {
    let is_time = matches!(value_type, ValueType::Timestamp | ValueType::Duration);
    let mut fields = MessageFields::read(message)?;
    if let Some(inner) = fields.bytes.filter(|_| is_time) {
        fields = MessageFields::read(inner)?;
        if fields.bytes.is_some() {
            return Err(OutputError("a time is nested too deeply"));
        }
    }
    let MessageFields { bytes, seconds, nanos } = fields;
    let bytes = bytes.unwrap_or_default();
    Ok(Some(match value_type {
        ValueType::DnsName => GeneratedValue::String(text_of(bytes)?),
        ValueType::IpAddress => match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
            (Ok(octets), _) => GeneratedValue::IpAddress(octets.into()),
            (_, Ok(octets)) => GeneratedValue::IpAddress(octets.into()),
            _ => return Err(OutputError("an address has neither 4 nor 16 bytes")),
        },
        ValueType::Duration => {
            let nanos = seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
            GeneratedValue::Duration(SignedDuration::from_nanos(nanos))
        }
        ValueType::Timestamp => {
            let nanos = u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
            let nanos = nanos.ok_or(OutputError("a time has invalid nanoseconds"))?;
            GeneratedValue::Timestamp(Timestamp { seconds, nanos })
        }
        _ => return Ok(None),
    }))
}

/// The fields of a message with one value.
#[derive(Default)]
struct MessageFields<'m> {
    bytes: Option<&'m [u8]>,
    seconds: i64,
    nanos: i64,
}

impl<'m> MessageFields<'m> {
    fn read(message: &'m [u8]) -> Result<Self, OutputError> {
        let mut fields = Self::default();
        let mut reader = Reader(message);
        while let Some((number, raw)) = reader.field()? {
            match (number, raw) {
                (1, Raw::Bytes(inner)) => fields.bytes = Some(inner),
                (1, Raw::Varint(value)) => fields.seconds = value.cast_signed(),
                (2, Raw::Varint(value)) => fields.nanos = value.cast_signed(),
                _ => {}
            }
        }
        Ok(fields)
    }
}

/// An entry of a map of texts.
fn entry_of(raw: Raw<'_>) -> Result<(String, String), OutputError> {
    let Raw::Bytes(entry) = raw else { return Err(MALFORMED) };
    let (mut key, mut value) = (String::new(), String::new());
    let mut reader = Reader(entry);
    while let Some((number, raw)) = reader.field()? {
        match (number, raw) {
            (1, Raw::Bytes(text)) => key = text_of(text)?,
            (2, Raw::Bytes(text)) => value = text_of(text)?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn text_of(bytes: &[u8]) -> Result<String, OutputError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| OutputError("invalid UTF-8"))
}

/// Reads fields one after another.
struct Reader<'m>(&'m [u8]);

impl<'m> Reader<'m> {
    /// The next field; `None` at the end. A group is an error: proto3 has none.
    fn field(&mut self) -> Result<Option<(u32, Raw<'m>)>, OutputError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0).ok_or(MALFORMED)?;
        let raw = match tag & 7 {
            0 => Raw::Varint(self.varint()?),
            1 => Raw::Fixed64(self.array()?),
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| TRUNCATED)?;
                Raw::Bytes(self.take(len)?)
            }
            5 => Raw::Fixed32(self.array()?),
            _ => return Err(MALFORMED),
        };
        Ok(Some((number, raw)))
    }

    fn varint(&mut self) -> Result<u64, OutputError> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(MALFORMED)
    }

    fn take(&mut self, len: usize) -> Result<&'m [u8], OutputError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], OutputError> {
        self.take(N)?.try_into().map_err(|_| TRUNCATED)
    }
}
