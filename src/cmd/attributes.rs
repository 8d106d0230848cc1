//! Attributes and quotas as flags and files spell them, and their wire form.
//!
//! The rules and error texts of the flags are those of the originals. Spec: cli-operations.md 1.7 and 1.8.

use std::collections::BTreeMap;

use prost_types::{Duration as WireDuration, Timestamp as WireTimestamp};

use super::Failure;
use super::value::{self, NumberError};
use mixer_attribute::{GLOBAL_WORDS, SignedDuration, Timestamp, global_index};
use mixer_wire::istio::mixer::v1::{CompressedAttributes, StringMap};

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AttributeValue {
    /// Text.
    String(String),
    /// A whole number.
    Int64(i64),
    /// A floating point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// An instant.
    Timestamp(Timestamp),
    /// A length of time.
    Duration(SignedDuration),
    /// Bytes, often an address.
    Bytes(Vec<u8>),
    /// Keys and values.
    StringMap(BTreeMap<String, String>),
}

/// How the values of one flag are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sense {
    /// Text.
    String,
    /// `12`.
    Int64,
    /// `1.5`.
    Double,
    /// `true`.
    Bool,
    /// `2017-07-04T00:01:10Z`.
    Timestamp,
    /// `1m30s`.
    Duration,
    /// `c0:0:0:2`.
    Bytes,
    /// `key:value;key:value`.
    StringMap,
    /// The first of the others that fits.
    Auto,
}

impl Sense {
    /// The order in which the types are tried, and in which the flags are read.
    const ORDER: [Sense; 7] = [
        Sense::Int64,
        Sense::Double,
        Sense::Bool,
        Sense::Timestamp,
        Sense::Duration,
        Sense::Bytes,
        Sense::StringMap,
    ];

    /// Reads one value.
    pub(crate) fn read(self, text: &str) -> Result<AttributeValue, String> {
        let number = |function: &'static str| move |error: NumberError| error.text(function, text);
        match self {
            Sense::String => Ok(AttributeValue::String(text.to_owned())),
            Sense::Int64 => value::go_decimal(text).map(AttributeValue::Int64).map_err(number("ParseInt")),
            Sense::Double => value::go_float(text).map(AttributeValue::Double).map_err(number("ParseFloat")),
            Sense::Bool => value::go_bool(text).map(AttributeValue::Bool).map_err(number("ParseBool")),
            Sense::Timestamp => Timestamp::parse_rfc3339(text).map(AttributeValue::Timestamp),
            Sense::Duration => SignedDuration::parse(text).map(AttributeValue::Duration),
            Sense::Bytes => read_bytes(text).map(AttributeValue::Bytes),
            Sense::StringMap => read_map(text).map(AttributeValue::StringMap),
            Sense::Auto => Ok(Self::ORDER
                .into_iter()
                .find_map(|sense| sense.read(text).ok())
                .unwrap_or_else(|| AttributeValue::String(text.to_owned()))),
        }
    }
}

fn read_bytes(text: &str) -> Result<Vec<u8>, String> {
    text.split(':')
        .map(|part| value::go_hex_byte(part).map_err(|error| error.text("ParseUint", part)))
        .collect()
}

fn read_map(text: &str) -> Result<BTreeMap<String, String>, String> {
    text.split(';')
        .map(|entry| match entry.split_once(':') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(format!("{entry} is not a valid key/value pair in the form key:value")),
        })
        .collect()
}

/// Attributes by name, in the order in which the names first came up.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct AttributeSet {
    entries: Vec<(String, AttributeValue)>,
}

impl AttributeSet {
    /// Names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &AttributeValue)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }

    fn set(&mut self, name: &str, value: AttributeValue) {
        match self.entries.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.entries.push((name.to_owned(), value)),
        }
    }

    /// Adds the attributes of one flag: `name=value,name=value`; nothing if it is empty. Errors: the first bad one.
    pub(crate) fn add_flag(&mut self, sense: Sense, text: &str) -> Result<(), String> {
        if text.is_empty() {
            return Ok(());
        }
        for segment in text.split(',') {
            let (name, value) = segment
                .split_once('=')
                .ok_or_else(|| format!("attribute value {segment} does not include an = sign"))?;
            if name.is_empty() {
                return Err(format!("attribute value {segment} does not contain a valid name"));
            }
            self.set(name, sense.read(value)?);
        }
        Ok(())
    }

    /// Adds the attributes of a YAML or JSON map.
    ///
    /// A text, number or truth value stands for itself, a map of texts is a string map, and `{timestamp: …}`, `{duration: …}`,
    /// `{bytes: …}`, `{ip: …}`, `{string: …}`, `{int64: …}`, `{double: …}`, `{bool: …}` and `{stringmap: …}` name the type.
    pub(crate) fn add_document(&mut self, text: &str) -> Result<(), String> {
        let document: serde_json::Value = serde_yaml::from_str(text).map_err(|e| e.to_string())?;
        let serde_json::Value::Object(members) = document else {
            return Err("expected a map of attribute names and values".to_owned());
        };
        for (name, value) in members {
            let value = document_value(&value).map_err(|cause| format!("attribute `{name}`: {cause}"))?;
            self.set(&name, value);
        }
        Ok(())
    }
}

fn document_value(value: &serde_json::Value) -> Result<AttributeValue, String> {
    use serde_json::Value;
    match value {
        Value::String(text) => Ok(AttributeValue::String(text.clone())),
        Value::Bool(value) => Ok(AttributeValue::Bool(*value)),
        Value::Number(number) => number
            .as_i64()
            .map(AttributeValue::Int64)
            .or_else(|| number.as_f64().map(AttributeValue::Double))
            .ok_or_else(|| "number out of range".to_owned()),
        Value::Object(members) => {
            if let Some((name, inner)) = members.iter().next().filter(|_| members.len() == 1)
                && let Some(typed) = typed_value(name, inner)
            {
                return typed;
            }
            members
                .iter()
                .map(|(key, value)| Ok((key.clone(), scalar_text(value)?)))
                .collect::<Result<_, String>>()
                .map(AttributeValue::StringMap)
        }
        Value::Null | Value::Array(_) => Err("expected a scalar or a map".to_owned()),
    }
}

fn typed_value(name: &str, inner: &serde_json::Value) -> Option<Result<AttributeValue, String>> {
    let sense = match name {
        "string" => Sense::String,
        "int64" => Sense::Int64,
        "double" => Sense::Double,
        "bool" => Sense::Bool,
        "timestamp" => Sense::Timestamp,
        "duration" => Sense::Duration,
        "bytes" => Sense::Bytes,
        "stringmap" => return Some(map_value(inner)),
        "ip" => return Some(ip_value(inner)),
        _ => return None,
    };
    Some(scalar_text(inner).and_then(|text| sense.read(&text)))
}

fn map_value(inner: &serde_json::Value) -> Result<AttributeValue, String> {
    let members = inner.as_object().ok_or("expected a map")?;
    let pairs = members.iter().map(|(key, value)| Ok((key.clone(), scalar_text(value)?)));
    pairs.collect::<Result<_, String>>().map(AttributeValue::StringMap)
}

fn ip_value(inner: &serde_json::Value) -> Result<AttributeValue, String> {
    let text = scalar_text(inner)?;
    let address: std::net::IpAddr = text.parse().map_err(|_| format!("`{text}` is no IP address"))?;
    Ok(AttributeValue::Bytes(match address {
        std::net::IpAddr::V4(v4) => v4.octets().to_vec(),
        std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
    }))
}

fn scalar_text(value: &serde_json::Value) -> Result<String, String> {
    match value {
        serde_json::Value::String(text) => Ok(text.clone()),
        serde_json::Value::Bool(_) | serde_json::Value::Number(_) => Ok(value.to_string()),
        _ => Err("expected a scalar".to_owned()),
    }
}

/// Amounts by quota name.
pub(crate) type Quotas = BTreeMap<String, i64>;

/// Reads `name=amount,name=amount`; nothing if it is empty. Errors: the text of the originals.
pub(crate) fn read_quotas(text: &str) -> Result<Quotas, String> {
    let mut quotas = Quotas::new();
    if text.is_empty() {
        return Ok(quotas);
    }
    for segment in text.split(',') {
        let (name, amount) = segment
            .split_once('=')
            .ok_or_else(|| format!("Quota definition {segment} does not include an = sign"))?;
        if name.is_empty() {
            return Err(format!("Quota definition {segment} does not contain a valid name"));
        }
        let parsed = value::go_decimal(amount).map_err(|error| {
            format!("Unable to parse quota value {amount}: {}", error.text("ParseInt", amount))
        })?;
        quotas.insert(name.to_owned(), parsed);
    }
    Ok(quotas)
}

/// Which words are sent as indexes of the shared list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Dictionary {
    /// None: the message carries all of its words, as the originals send it.
    #[default]
    Message,
    /// All that it has.
    Global,
}

impl Dictionary {
    /// What to put into `global_word_count`.
    pub(crate) fn word_count(self) -> u32 {
        match self {
            Dictionary::Message => 0,
            Dictionary::Global => u32::try_from(GLOBAL_WORDS.len()).unwrap_or(0),
        }
    }
}

/// The wire form of a set.
pub(crate) fn encode(set: &AttributeSet, dictionary: Dictionary) -> CompressedAttributes {
    let mut encoder =
        Encoder { dictionary, known: BTreeMap::new(), message: CompressedAttributes::default() };
    for (name, value) in set.iter() {
        encoder.add(name, value);
    }
    encoder.message
}

struct Encoder {
    dictionary: Dictionary,
    known: BTreeMap<String, i32>,
    message: CompressedAttributes,
}

impl Encoder {
    fn word(&mut self, text: &str) -> i32 {
        if self.dictionary == Dictionary::Global
            && let Some(index) = global_index(text.as_bytes()).and_then(|i| i32::try_from(i).ok())
        {
            return index;
        }
        if let Some(index) = self.known.get(text) {
            return *index;
        }
        self.message.words.push(text.as_bytes().to_vec().into());
        let index = i32::try_from(self.message.words.len()).map_or(i32::MIN, |n| -n);
        self.known.insert(text.to_owned(), index);
        index
    }

    fn add(&mut self, name: &str, value: &AttributeValue) {
        let name = self.word(name);
        match value {
            AttributeValue::String(text) => {
                let text = self.word(text);
                self.message.strings.insert(name, text);
            }
            AttributeValue::Int64(number) => drop(self.message.int64s.insert(name, *number)),
            AttributeValue::Double(number) => drop(self.message.doubles.insert(name, *number)),
            AttributeValue::Bool(value) => drop(self.message.bools.insert(name, *value)),
            AttributeValue::Timestamp(time) => {
                let nanos = i32::try_from(time.nanos).unwrap_or(0);
                self.message.timestamps.insert(name, WireTimestamp { seconds: time.seconds, nanos });
            }
            AttributeValue::Duration(duration) => drop(self.message.durations.insert(name, wire(*duration))),
            AttributeValue::Bytes(bytes) => drop(self.message.bytes.insert(name, bytes.clone().into())),
            AttributeValue::StringMap(map) => {
                let entries = map.iter().map(|(k, v)| (self.word(k), self.word(v))).collect();
                self.message.string_maps.insert(name, StringMap { entries });
            }
        }
    }
}

fn wire(duration: SignedDuration) -> WireDuration {
    let (seconds, nanos) = (duration.nanos / 1_000_000_000, duration.nanos % 1_000_000_000);
    WireDuration { seconds, nanos: i32::try_from(nanos).unwrap_or(0) }
}

/// A duration of the wire; saturates.
pub(crate) fn from_wire(duration: Option<WireDuration>) -> SignedDuration {
    let duration = duration.unwrap_or_default();
    let nanos = duration.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(duration.nanos));
    SignedDuration::from_nanos(nanos)
}

/// The flags that describe a request.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Attributes")]
pub(crate) struct AttributeFlags {
    /// Attributes whose type is sensed: name1=value1,name2=value2,….
    ///
    /// Tried in turn: int64, double, bool, timestamp, duration, bytes, stringmap, string.
    #[arg(short = 'a', long, default_value = "", hide_default_value = true, value_name = "LIST")]
    attributes: String,
    /// Text attributes: name1=value1,name2=value2,….
    #[arg(
        short = 's',
        long = "string-attributes",
        alias = "string_attributes",
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    string_attributes: String,
    /// Whole number attributes: name1=1,name2=2,….
    #[arg(
        short = 'i',
        long = "int64-attributes",
        alias = "int64_attributes",
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    int64_attributes: String,
    /// Floating point attributes: name1=0.5,name2=1e3,….
    #[arg(
        short = 'd',
        long = "double-attributes",
        alias = "double_attributes",
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    double_attributes: String,
    /// Truth attributes: name1=true,name2=false,….
    #[arg(
        short = 'b',
        long = "bool-attributes",
        alias = "bool_attributes",
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    bool_attributes: String,
    /// Time attributes: name1=2017-07-04T00:01:10Z,….
    #[arg(
        short = 't',
        long = "timestamp-attributes",
        alias = "timestamp_attributes",
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    timestamp_attributes: String,
    /// Duration attributes: name1=250ms,name2=1h30m,….
    #[arg(
        long = "duration-attributes",
        alias = "duration_attributes",
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    duration_attributes: String,
    /// Bytes attributes, for example addresses: name1=c0:0:0:2,….
    #[arg(
        long = "bytes-attributes",
        alias = "bytes_attributes",
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    bytes_attributes: String,
    /// Map attributes: name1=key1:value1;key2:value2,….
    #[arg(
        long = "stringmap-attributes",
        alias = "stringmap_attributes",
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    stringmap_attributes: String,
    /// YAML or JSON file with attributes; `@-` reads standard input. Flags win over the file.
    ///
    /// A map of names and values. {timestamp: …}, {duration: …}, {bytes: …} and {ip: …} name a type that YAML does not have.
    #[arg(long, value_name = "FILE")]
    attributes_file: Option<String>,
    /// Which words are sent as indexes of the list that every peer knows.
    #[arg(long, value_enum, default_value = "message", value_name = "WORDS")]
    pub(crate) dictionary: Dictionary,
}

impl AttributeFlags {
    /// The attributes. Errors: the first flag that is wrong, in a fixed order whatever the order on the command line.
    pub(crate) fn read(&self, input: &mut dyn std::io::Read) -> Result<AttributeSet, Failure> {
        let mut set = AttributeSet::default();
        if let Some(file) = &self.attributes_file {
            let refuse =
                |cause: String| Failure::local(format!("cannot read attributes from `{file}`")).cause(cause);
            let text = read_file(file, input).map_err(|e| refuse(e.to_string()))?;
            set.add_document(&text).map_err(refuse)?;
        }
        let flags = [
            (Sense::String, &self.string_attributes),
            (Sense::Int64, &self.int64_attributes),
            (Sense::Double, &self.double_attributes),
            (Sense::Bool, &self.bool_attributes),
            (Sense::Timestamp, &self.timestamp_attributes),
            (Sense::Duration, &self.duration_attributes),
            (Sense::Bytes, &self.bytes_attributes),
            (Sense::StringMap, &self.stringmap_attributes),
            (Sense::Auto, &self.attributes),
        ];
        for (sense, text) in flags {
            set.add_flag(sense, text).map_err(|text| {
                Failure::usage(text)
                    .hint("attributes are written name=value,name=value; a value cannot hold a comma")
            })?;
        }
        Ok(set)
    }
}

/// Largest attribute file that is read.
const MAX_FILE: u64 = 16 << 20;

fn read_file(file: &str, input: &mut dyn std::io::Read) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    if matches!(file, "@-" | "-") {
        input.take(MAX_FILE).read_to_string(&mut text)?;
    } else {
        std::fs::File::open(file.strip_prefix('@').unwrap_or(file))?
            .take(MAX_FILE)
            .read_to_string(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sensed(text: &str) -> &'static str {
        match Sense::Auto.read(text).unwrap() {
            AttributeValue::String(_) => "string",
            AttributeValue::Int64(_) => "int64",
            AttributeValue::Double(_) => "double",
            AttributeValue::Bool(_) => "bool",
            AttributeValue::Timestamp(_) => "timestamp",
            AttributeValue::Duration(_) => "duration",
            AttributeValue::Bytes(_) => "bytes",
            AttributeValue::StringMap(_) => "stringmap",
        }
    }

    #[test]
    fn types_are_sensed_in_a_fixed_order() {
        let table = [
            ("int64", vec!["5", "+5", "007", "1", "0", "10"]),
            ("double", vec!["9223372036854775808", "1.5", "1e3", ".5", "NaN", "inf"]),
            ("bool", vec!["true", "T", "f"]),
            ("timestamp", vec!["2017-07-04T00:01:10Z"]),
            ("duration", vec!["1h", "1.5s", "100ms", "3µs"]),
            ("bytes", vec!["ab", "ab:cd", "c0:0:0:2", "1d", "a:b:c"]),
            ("stringmap", vec!["k:v", "k:", ":v", "k:v;x:y", "1:zz", "100:1", "f:true"]),
            (
                "string",
                vec!["tRUE", "yes", "abc", "", "hello", "a b", "2017-07-04", "0x10", "1_000", "0x1p4"],
            ),
        ];
        for (expected, texts) in table {
            for text in texts {
                assert_eq!(sensed(text), expected, "{text}");
            }
        }
    }

    #[test]
    fn flags_split_at_every_comma_and_the_first_equal_sign() {
        let mut set = AttributeSet::default();
        set.add_flag(Sense::String, "a=b=c, d =e").unwrap();
        set.add_flag(Sense::Int64, "a=5").unwrap();
        let entries: Vec<_> = set.iter().collect();
        assert_eq!(entries[0], ("a", &AttributeValue::Int64(5)), "the later flag wins, type included");
        assert_eq!(entries[1], (" d ", &AttributeValue::String("e".to_owned())));
        let refused = |sense, text: &str| AttributeSet::default().add_flag(sense, text).unwrap_err();
        assert_eq!(refused(Sense::String, "foo"), "attribute value foo does not include an = sign");
        assert_eq!(refused(Sense::String, "=foo"), "attribute value =foo does not contain a valid name");
        assert_eq!(refused(Sense::String, "a=1,"), "attribute value  does not include an = sign");
        assert_eq!(
            refused(Sense::StringMap, "m=a:b;"),
            " is not a valid key/value pair in the form key:value"
        );
        assert_eq!(
            refused(Sense::Bytes, "b=1:100"),
            "strconv.ParseUint: parsing \"100\": value out of range"
        );
    }

    #[test]
    fn quotas_are_whole_numbers() {
        assert_eq!(read_quotas("a=1,a=2,b=-3"), Ok([("a".to_owned(), 2), ("b".to_owned(), -3)].into()));
        assert_eq!(read_quotas(""), Ok(Quotas::new()));
        assert_eq!(read_quotas("a").unwrap_err(), "Quota definition a does not include an = sign");
        assert_eq!(read_quotas("=3").unwrap_err(), "Quota definition =3 does not contain a valid name");
        assert_eq!(
            read_quotas("a=some").unwrap_err(),
            "Unable to parse quota value some: strconv.ParseInt: parsing \"some\": invalid syntax"
        );
    }

    #[test]
    fn documents_name_the_types_that_yaml_lacks() {
        let mut set = AttributeSet::default();
        set.add_document(
            "source.user: ann\nresponse.code: 200\nsource.ip: {ip: 192.0.2.1}\nrequest.headers: {a: b, c: 7}\n\
             response.duration: {duration: 2s}\nx: {string: '5'}\ny: 0.5\nz: true\n",
        )
        .unwrap();
        let value = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone()).unwrap();
        assert_eq!(value("source.user"), AttributeValue::String("ann".to_owned()));
        assert_eq!(value("response.code"), AttributeValue::Int64(200));
        assert_eq!(value("source.ip"), AttributeValue::Bytes(vec![192, 0, 2, 1]));
        assert_eq!(value("x"), AttributeValue::String("5".to_owned()));
        assert_eq!(value("response.duration"), AttributeValue::Duration(SignedDuration::from_secs(2)));
        assert!(matches!(value("request.headers"), AttributeValue::StringMap(m) if m["c"] == "7"));
        assert!(AttributeSet::default().add_document("- a\n").is_err());
        assert!(AttributeSet::default().add_document("a: [1]\n").is_err());
    }

    #[test]
    fn words_are_shared_and_negative() {
        let mut set = AttributeSet::default();
        set.add_flag(Sense::String, "source.user=ann,source.name=ann").unwrap();
        let message = encode(&set, Dictionary::Message);
        assert_eq!(message.words, [&b"source.user"[..], b"ann", b"source.name"]);
        assert_eq!(message.strings, [(-1, -2), (-3, -2)].into());
        let shared = encode(&set, Dictionary::Global);
        assert_eq!(shared.words, [&b"ann"[..]]);
        assert_eq!(shared.strings, [(6, -1), (2, -1)].into());
    }
}
