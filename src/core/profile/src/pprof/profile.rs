//! Encodes stacks as a gzipped `perftools.profiles.Profile`.

use std::collections::HashMap;
use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost::Message;

use super::symbols::names;
use crate::cpu::SampledStack;
use crate::heap::LiveStack;

/// `perftools.profiles.Profile`, the fields in use.
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

/// Type and unit of a value.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct ValueType {
    #[prost(int64, tag = "1")]
    pub(super) kind: i64,
    #[prost(int64, tag = "2")]
    pub(super) unit: i64,
}

/// A stack, innermost first, with its values.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub(super) location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) label: Vec<Label>,
}

/// A label of a sample.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Label {
    #[prost(int64, tag = "1")]
    pub(super) key: i64,
    #[prost(int64, tag = "2")]
    pub(super) text: i64,
}

/// A location: here, a function.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Location {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) line: Vec<Line>,
}

/// The function of a location.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Line {
    #[prost(uint64, tag = "1")]
    pub(super) function_id: u64,
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
}

/// Interns strings, functions and locations.
struct Encoder {
    profile: Profile,
    texts: HashMap<String, i64>,
    locations: HashMap<String, u64>,
}

impl Encoder {
    fn new() -> Self {
        // The format requires the first string to be empty.
        let profile = Profile { string_table: vec![String::new()], ..Profile::default() };
        let texts = HashMap::from([(String::new(), 0)]);
        Self { profile, texts, locations: HashMap::new() }
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

    /// The location of a function name.
    fn location(&mut self, name: &str) -> u64 {
        if let Some(known) = self.locations.get(name) {
            return *known;
        }
        let id = self.locations.len() as u64 + 1;
        let text = self.text(name);
        self.profile.function.push(Function { id, name: text, system_name: text });
        self.profile.location.push(Location { id, line: vec![Line { function_id: id }] });
        self.locations.insert(name.to_owned(), id);
        id
    }

    /// The gzipped profile. `types` are name and unit of the values of each sample; `period` is that of the last.
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

/// Name parts of the frames of the profiler itself.
const PROFILER: [&str; 2] = ["backtrace::", "mixer_profile::heap::"];
/// How many of the innermost frames may be the profiler's.
const PROFILER_DEPTH: usize = 24;
/// Name prefixes of the frames of the allocator and of collections.
const ALLOCATION: [&str; 5] = ["__r", "alloc::", "<alloc::", "core::", "<core::"];

/// The stack without the innermost frames of the profiler, the allocator and the collections that use it.
fn below_allocator(mut stack: Vec<&str>) -> Vec<&str> {
    let is_profiler = |name: &&str| PROFILER.iter().any(|part| name.contains(part));
    let own = stack.iter().take(PROFILER_DEPTH).rposition(is_profiler).map_or(0, |last| last + 1);
    let is_allocation = |name: &&&str| ALLOCATION.iter().any(|part| name.starts_with(part));
    let inner = own + stack.iter().skip(own).take_while(is_allocation).count();
    if inner < stack.len() {
        stack.drain(..inner);
    }
    stack
}

/// An address within the call instruction, given the return address.
fn call(returns_to: usize) -> usize {
    returns_to.saturating_sub(1)
}

fn stack(frames: impl Iterator<Item = usize>, names: &HashMap<usize, String>) -> Vec<&str> {
    frames.map(|at| names.get(&call(at)).map_or("unknown", String::as_str)).collect()
}

/// The compressed CPU profile. Errors: compression failed.
pub(super) fn encode_cpu(
    stacks: &[SampledStack],
    frequency: u32,
    began: SystemTime,
    length: Duration,
) -> std::io::Result<Vec<u8>> {
    let mut encoder = Encoder::new();
    let period = 1_000_000_000 / i64::from(frequency.max(1));
    let names = names(stacks.iter().flat_map(|sampled| &sampled.frames).map(|frame| call(*frame)));
    for sampled in stacks {
        let stack = stack(sampled.frames.iter().copied(), &names);
        let location_id = stack.into_iter().map(|name| encoder.location(name)).collect();
        let count = i64::try_from(sampled.count).unwrap_or(i64::MAX);
        let label = Label { key: encoder.text("thread"), text: encoder.text(&sampled.thread) };
        let value = vec![count, count.saturating_mul(period)];
        encoder.profile.sample.push(Sample { location_id, value, label: vec![label] });
    }
    encoder.set_time(began, length);
    encoder.finish([("samples", "count"), ("cpu", "nanoseconds")], period)
}

/// The compressed heap profile. Errors: compression failed.
pub(super) fn encode_heap(
    live: &[LiveStack],
    began: SystemTime,
    length: Duration,
) -> std::io::Result<Vec<u8>> {
    let mut encoder = Encoder::new();
    let names = names(live.iter().flat_map(|live| &live.frames).map(|frame| call(*frame)));
    for live in live {
        let stack = below_allocator(stack(live.frames.iter().copied(), &names));
        let location_id = stack.into_iter().map(|name| encoder.location(name)).collect();
        let value = vec![live.objects.round() as i64, live.bytes.round() as i64];
        encoder.profile.sample.push(Sample { location_id, value, label: Vec::new() });
    }
    encoder.set_time(began, length);
    encoder.finish([("inuse_objects", "count"), ("inuse_space", "bytes")], 1)
}

/// Decodes what [`encode_cpu`] wrote.
#[cfg(test)]
pub(super) fn decode(compressed: &[u8]) -> Profile {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(compressed).read_to_end(&mut bytes).unwrap();
    Profile::decode(bytes.as_slice()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_begin_with_the_allocating_code() {
        let allocated = vec![
            "backtrace::x",
            "mixer_profile::heap::maybe_record",
            "std::thread::local::LocalKey<T>::try_with",
            "<mixer_profile::heap::SampledAllocator as core::alloc::GlobalAlloc>::alloc",
            "__rustc::__rust_alloc",
            "alloc::raw_vec::grow",
            "mixer_config::store::read",
            "core::ops::call",
        ];
        assert_eq!(below_allocator(allocated), ["mixer_config::store::read", "core::ops::call"]);
        assert_eq!(below_allocator(vec!["core::x"]), ["core::x"], "kept when nothing else remains");
    }
}
