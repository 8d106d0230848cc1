//! Stacks as a `perftools.profiles.Profile`, compressed.

use std::collections::HashMap;
use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost::Message;

use crate::core::telemetry::heap::Held;

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

    /// The places of one frame: the innermost inlined call first.
    fn location(&mut self, places: impl Iterator<Item = Place>) -> u64 {
        let lines: Vec<(u64, i64)> =
            places.map(|place| (self.function(place.name, place.file), i64::from(place.line))).collect();
        if let Some(known) = self.locations.get(&lines) {
            return *known;
        }
        let id = self.locations.len() as u64 + 1;
        let line = lines.iter().map(|(function_id, line)| Line { function_id: *function_id, line: *line });
        self.profile.location.push(Location { id, line: line.collect() });
        self.locations.insert(lines, id);
        id
    }

    /// The compressed profile; `types` are names and units of the values of its samples, of which the last is sampled at `period`.
    fn finish(mut self, types: [(&str, &str); 2], period: i64) -> std::io::Result<Vec<u8>> {
        let types = types.map(|(kind, unit)| ValueType { kind: self.text(kind), unit: self.text(unit) });
        let mut profile = self.profile;
        profile.sample_type = types.to_vec();
        profile.period_type = types.last().copied();
        profile.period = period;
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(&profile.encode_to_vec())?;
        out.finish()
    }

    fn set_time(&mut self, began: SystemTime, length: Duration) {
        let since = began.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.profile.time_nanos = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        self.profile.duration_nanos = i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
    }
}

/// A line of the program.
struct Place {
    name: String,
    file: String,
    line: u32,
}

/// The compressed CPU profile. Errors: compression failed.
pub(super) fn encode(report: &pprof::Report) -> std::io::Result<Vec<u8>> {
    let mut encoder = Encoder::new();
    let period = 1_000_000_000 / i64::from(report.timing.frequency.max(1));
    for (frames, count) in &report.data {
        let place = |symbol: &pprof::Symbol| Place {
            name: symbol.name(),
            file: symbol.filename().into_owned(),
            line: symbol.lineno(),
        };
        let location_id =
            frames.frames.iter().map(|symbols| encoder.location(symbols.iter().map(place))).collect();
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        let label = Label { key: encoder.text("thread"), text: encoder.text(&frames.thread_name) };
        let value = vec![count, count.saturating_mul(period)];
        encoder.profile.sample.push(Sample { location_id, value, label: vec![label] });
    }
    encoder.set_time(report.timing.start_time, report.timing.duration);
    encoder.finish([("samples", "count"), ("cpu", "nanoseconds")], period)
}

/// The compressed profile of memory in use, allocated in the time since `began`. Errors: compression failed.
pub(super) fn encode_heap(held: &[Held], began: SystemTime, length: Duration) -> std::io::Result<Vec<u8>> {
    let mut encoder = Encoder::new();
    let mut known: HashMap<usize, Option<u64>> = HashMap::new();
    for held in held {
        let mut location_id = Vec::with_capacity(held.frames.len());
        for address in &held.frames {
            let location = *known.entry(*address).or_insert_with(|| {
                let places = places(*address);
                // How an allocation comes to be noted is not what it is for.
                let is_own = places.iter().all(|place| place.name.contains(OWN) || place.name.contains(WALK));
                (!is_own).then(|| encoder.location(places.into_iter()))
            });
            location_id.extend(location);
        }
        let value = vec![held.objects.round() as i64, held.bytes.round() as i64];
        encoder.profile.sample.push(Sample { location_id, value, label: Vec::new() });
    }
    encoder.set_time(began, length);
    encoder.finish([("inuse_objects", "count"), ("inuse_space", "bytes")], 1)
}

/// What the frames of the allocator are called.
const OWN: &str = "core::telemetry::heap::";
/// What the frames are called that walk the stack.
const WALK: &str = "backtrace::";

/// The lines at a return address, the innermost inlined call first.
fn places(address: usize) -> Vec<Place> {
    let mut places = Vec::new();
    // A return address is one past the call.
    let call = std::ptr::without_provenance_mut(address.saturating_sub(1));
    backtrace::resolve(call, |symbol| {
        places.push(Place {
            name: symbol.name().map_or_else(|| "unknown".to_owned(), |name| format!("{name:#}")),
            file: symbol.filename().map(|file| file.display().to_string()).unwrap_or_default(),
            line: symbol.lineno().unwrap_or(0),
        });
    });
    if places.is_empty() {
        places.push(Place { name: format!("{address:#x}"), file: String::new(), line: 0 });
    }
    places
}

/// What [`encode`] wrote.
#[cfg(test)]
pub(super) fn decode(compressed: &[u8]) -> Profile {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(compressed).read_to_end(&mut bytes).unwrap();
    Profile::decode(bytes.as_slice()).unwrap()
}
