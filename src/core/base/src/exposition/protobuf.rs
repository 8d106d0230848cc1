//! The delimited protobuf format of Prometheus: messages `io.prometheus.client.MetricFamily`, each after its length. Scrapers that store
//! native histograms ask for it.

use super::{FamilyKind, FamilyWriter, HistogramSample, Labels, NATIVE_SCHEMA, NativeBuckets};

/// Wire types.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

/// Writes metric families in sequence, in protobuf.
#[derive(Debug)]
pub struct Protobuf<'o> {
    out: &'o mut Vec<u8>,
    /// The family that is being written; empty before the first.
    family: Vec<u8>,
    kind: FamilyKind,
}

impl<'o> Protobuf<'o> {
    /// Appends to `out`.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, family: Vec::new(), kind: FamilyKind::Gauge }
    }

    /// Ends the last family.
    pub fn finish(mut self) {
        self.end_family();
    }

    fn end_family(&mut self) {
        if !self.family.is_empty() {
            varint(self.out, self.family.len() as u64);
            self.out.append(&mut self.family);
        }
    }

    /// Adds a `Metric`: its labels, and its value as the field of its kind.
    fn metric(&mut self, labels: &Labels, field: u32, value: &[u8]) {
        let mut metric = Vec::new();
        for (name, text) in labels.pairs() {
            let mut pair = Vec::new();
            bytes(&mut pair, 1, name);
            bytes(&mut pair, 2, &text);
            bytes(&mut metric, 1, &pair);
        }
        bytes(&mut metric, field, value);
        bytes(&mut self.family, 4, &metric);
    }
}

impl FamilyWriter for Protobuf<'_> {
    fn family(&mut self, name: &str, help: &str, kind: FamilyKind) {
        self.end_family();
        self.kind = kind;
        bytes(&mut self.family, 1, name.as_bytes());
        bytes(&mut self.family, 2, help.as_bytes());
        let number = match kind {
            FamilyKind::Counter => 0,
            FamilyKind::Gauge => 1,
            FamilyKind::Histogram => 4,
        };
        unsigned(&mut self.family, 3, number);
    }

    fn sample(&mut self, _: &str, labels: &Labels, value: f64) {
        let mut message = Vec::new();
        double(&mut message, 1, value);
        let field = if self.kind == FamilyKind::Counter { 3 } else { 2 };
        self.metric(labels, field, &message);
    }

    fn histogram(&mut self, _: &str, labels: &Labels, bounds: &[f64], sample: &HistogramSample) {
        let mut message = Vec::new();
        unsigned(&mut message, 1, sample.counts.iter().sum());
        double(&mut message, 2, sample.sum);
        let mut total = 0;
        for (bound, count) in bounds.iter().zip(&sample.counts) {
            total += count;
            let mut bucket = Vec::new();
            unsigned(&mut bucket, 1, total);
            double(&mut bucket, 2, *bound);
            bytes(&mut message, 3, &bucket);
        }
        if let Some(native) = &sample.native {
            native_buckets(&mut message, native);
        }
        self.metric(labels, 7, &message);
    }
}

/// The fields of native buckets: runs of buckets that have values, with the differences of their counts.
fn native_buckets(out: &mut Vec<u8>, native: &NativeBuckets) {
    tag(out, 5, VARINT);
    varint(out, zigzag(i64::from(NATIVE_SCHEMA)));
    double(out, 6, native.zero_threshold);
    unsigned(out, 7, native.zero_count);
    let mut deltas = Vec::new();
    // Of the next span, and the index that it would have without a gap.
    let (mut next, mut before) = (0_i64, 0_i64);
    let mut at = i64::from(native.first);
    for run in native.counts.chunk_by(|a, b| (*a == 0) == (*b == 0)) {
        let length = run.len() as u64;
        if run.first().is_some_and(|count| *count > 0) {
            let mut span = Vec::new();
            tag(&mut span, 1, VARINT);
            varint(&mut span, zigzag(at - next));
            unsigned(&mut span, 2, length);
            bytes(out, 12, &span);
            for count in run {
                let count = i64::try_from(*count).unwrap_or(i64::MAX);
                varint(&mut deltas, zigzag(count - before));
                before = count;
            }
            next = at + run.len() as i64;
        }
        at += run.len() as i64;
    }
    bytes(out, 13, &deltas);
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn tag(out: &mut Vec<u8>, field: u32, wire_type: u32) {
    varint(out, u64::from(field << 3 | wire_type));
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn unsigned(out: &mut Vec<u8>, field: u32, number: u64) {
    tag(out, field, VARINT);
    varint(out, number);
}

fn double(out: &mut Vec<u8>, field: u32, number: f64) {
    tag(out, field, FIXED64);
    out.extend_from_slice(&number.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    tag(out, field, BYTES);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_delimited_messages() {
        let mut out = Vec::new();
        let mut writer = Protobuf::new(&mut out);
        writer.family("hits", "h", FamilyKind::Counter);
        writer.sample("hits", &Labels::of(&[("a", "q\"u\\o\nte")]), 2.0);
        writer.family("up", "", FamilyKind::Gauge);
        writer.sample("up", &Labels::default(), 1.0);
        writer.finish();
        let (one, two) = (1_f64.to_le_bytes(), 2_f64.to_le_bytes());
        let mut expected = Vec::new();
        expected.extend_from_slice(b"\x0a\x04hits\x12\x01h\x18\x00");
        expected.extend_from_slice(b"\x22\x1a\x0a\x0d\x0a\x01a\x12\x08q\"u\\o\nte\x1a\x09\x09");
        expected.extend_from_slice(&two);
        let mut second = b"\x0a\x02up\x12\x00\x18\x01\x22\x0b\x12\x09\x09".to_vec();
        second.extend_from_slice(&one);
        let mut all = vec![expected.len() as u8];
        all.append(&mut expected);
        all.push(second.len() as u8);
        all.append(&mut second);
        assert_eq!(out, all);
    }

    #[test]
    fn native_buckets_are_spans_and_differences() {
        let mut out = Vec::new();
        let native = NativeBuckets {
            zero_threshold: 0.5,
            zero_count: 3,
            first: -3,
            counts: vec![0, 2, 5, 0, 0, 300, 0],
        };
        native_buckets(&mut out, &native);
        let mut expected = b"\x28\x04\x31".to_vec();
        expected.extend_from_slice(&0.5_f64.to_le_bytes());
        // Zero count 3; spans from -2 with two buckets, and with a gap of two one more; 2, +3, +295.
        expected.extend_from_slice(
            b"\x38\x03\x62\x04\x08\x03\x10\x02\x62\x04\x08\x04\x10\x01\x6a\x04\x04\x06\xce\x04",
        );
        assert_eq!(out, expected);
    }
}
