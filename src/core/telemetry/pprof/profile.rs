//! A report of stacks as a `perftools.profiles.Profile`, compressed.

use std::collections::HashMap;
use std::io::Write as _;
use std::time::UNIX_EPOCH;

use prost::Message;

/// `perftools.profiles.Profile`, the members that are used.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub(super) sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(super) sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    pub(super) location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub(super) function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub(super) string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(super) time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub(super) duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub(super) period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub(super) period: i64,
}

/// What is counted, and in which unit.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct ValueType {
    #[prost(int64, tag = "1")]
    pub(super) kind: i64,
    #[prost(int64, tag = "2")]
    pub(super) unit: i64,
}

/// A stack, innermost first, and how often it was seen.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub(super) location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) label: Vec<Label>,
}

/// A word about a sample.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Label {
    #[prost(int64, tag = "1")]
    pub(super) key: i64,
    #[prost(int64, tag = "2")]
    pub(super) text: i64,
}

/// A place in the program, with the calls that were inlined there.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Location {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) line: Vec<Line>,
}

/// A line of a function.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Line {
    #[prost(uint64, tag = "1")]
    pub(super) function_id: u64,
    #[prost(int64, tag = "2")]
    pub(super) line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Function {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(int64, tag = "2")]
    pub(super) name: i64,
    #[prost(int64, tag = "3")]
    pub(super) system_name: i64,
    #[prost(int64, tag = "4")]
    pub(super) file: i64,
}

/// Gathers what samples share.
struct Encoder {
    profile: Profile,
    texts: HashMap<String, i64>,
    functions: HashMap<(String, String), u64>,
    locations: HashMap<Vec<(u64, i64)>, u64>,
}

impl Encoder {
    fn new() -> Self {
        // The first text is empty by definition.
        let profile = Profile { string_table: vec![String::new()], ..Profile::default() };
        let texts = HashMap::from([(String::new(), 0)]);
        Self { profile, texts, functions: HashMap::new(), locations: HashMap::new() }
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let index = i64::try_from(self.profile.string_table.len()).unwrap_or(0);
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), index);
        index
    }

    fn function(&mut self, name: String, file: String) -> u64 {
        let key = (name, file);
        if let Some(known) = self.functions.get(&key) {
            return *known;
        }
        let id = self.functions.len() as u64 + 1;
        let (name, file) = (self.text(&key.0), self.text(&key.1));
        self.profile.function.push(Function { id, name, system_name: name, file });
        self.functions.insert(key, id);
        id
    }

    /// The symbols of one frame: the innermost inlined call first.
    fn location(&mut self, symbols: &[pprof::Symbol]) -> u64 {
        let lines: Vec<(u64, i64)> = symbols
            .iter()
            .map(|symbol| {
                let function = self.function(symbol.name(), symbol.filename().into_owned());
                (function, i64::from(symbol.lineno()))
            })
            .collect();
        if let Some(known) = self.locations.get(&lines) {
            return *known;
        }
        let id = self.locations.len() as u64 + 1;
        let line = lines.iter().map(|(function_id, line)| Line { function_id: *function_id, line: *line });
        self.profile.location.push(Location { id, line: line.collect() });
        self.locations.insert(lines, id);
        id
    }
}

/// The compressed profile. Errors: compression failed.
pub(super) fn encode(report: &pprof::Report) -> std::io::Result<Vec<u8>> {
    let mut encoder = Encoder::new();
    let period = 1_000_000_000 / i64::from(report.timing.frequency.max(1));
    for (frames, count) in &report.data {
        let location_id = frames.frames.iter().map(|symbols| encoder.location(symbols)).collect();
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        let label = Label { key: encoder.text("thread"), text: encoder.text(&frames.thread_name) };
        let value = vec![count, count.saturating_mul(period)];
        encoder.profile.sample.push(Sample { location_id, value, label: vec![label] });
    }
    let samples = ValueType { kind: encoder.text("samples"), unit: encoder.text("count") };
    let cpu = ValueType { kind: encoder.text("cpu"), unit: encoder.text("nanoseconds") };
    let mut profile = encoder.profile;
    profile.sample_type = vec![samples, cpu];
    profile.period_type = Some(cpu);
    profile.period = period;
    let since = report.timing.start_time.duration_since(UNIX_EPOCH).unwrap_or_default();
    profile.time_nanos = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
    profile.duration_nanos = i64::try_from(report.timing.duration.as_nanos()).unwrap_or(i64::MAX);
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(&profile.encode_to_vec())?;
    out.finish()
}

/// What [`encode`] wrote.
#[cfg(test)]
pub(super) fn decode(compressed: &[u8]) -> Profile {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(compressed).read_to_end(&mut bytes).unwrap();
    Profile::decode(bytes.as_slice()).unwrap()
}
