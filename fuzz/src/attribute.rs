//! The wire encoding of attributes, compared with the generated messages; decoded attributes survive a round trip.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bumpalo::Bump;
use mixer_attribute::request::{
    CheckCall, CheckRequest, ReportRequest, ReportWords, Semantics, encode_check_request,
    encode_report_request,
};
use mixer_attribute::{
    AttributeBag, DecodeError, GLOBAL_WORDS, OwnedAttributes, OwnedValue, ReportRecords, SignedDuration,
    Timestamp, Value, ValueType, Vocabulary, Words,
};
use mixer_wire::istio::mixer::v1 as proto;
use prost::Message as _;

use crate::input::Input;

const ALL_WORDS: u32 = GLOBAL_WORDS.len() as u32;

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
    let mut builder = Vocabulary::builder();
    for (name, value_type) in [
        ("a", ValueType::String),
        ("request.headers", ValueType::StringMap),
        ("request.size", ValueType::Int64),
        ("request.time", ValueType::Timestamp),
        ("source.ip", ValueType::IpAddress),
    ] {
        builder.declare(name, value_type);
    }
    builder.build()
});

pub(crate) fn run(data: &[u8]) {
    let Some((selector, body)) = data.split_first() else { return };
    match selector % 4 {
        0 => compressed(body),
        1 => check_request(body),
        2 => report_request(body),
        _ => written(&mut Input::new(body)),
    }
}

/// The attributes of a bag in their canonical encoding.
fn canonical(bag: &AttributeBag<'_>) -> Vec<u8> {
    OwnedAttributes::from_bag(bag).to_bytes(0)
}

/// Whether our decoder may reject what the generated one accepts: time ranges are narrower, and elements and their texts are bounded.
fn is_out_of_range<T>(result: &Result<T, DecodeError>) -> bool {
    use DecodeError::{DurationRange, LongValues, TimestampRange, TooManyElements};
    matches!(
        result,
        Err(TimestampRange { .. } | DurationRange { .. } | TooManyElements { .. } | LongValues { .. })
    )
}

/// The same for non-canonical bytes: prost ignores the wire type of a map.
fn is_stricter<T>(result: &Result<T, DecodeError>) -> bool {
    is_out_of_range(result) || matches!(result, Err(DecodeError::WrongWireType { .. }))
}

fn compressed(body: &[u8]) {
    let (arena, vocabulary) = (Bump::new(), &*VOCABULARY);
    let read = AttributeBag::decode(body, None, vocabulary, &arena);
    if let Ok(bag) = &read {
        encodes_to_itself(&OwnedAttributes::from_bag(bag));
    }
    let Ok(message) = proto::CompressedAttributes::decode(body) else { return };
    assert!(read.is_ok() || is_stricter(&read), "prost takes what is refused: {:?}", read.err());
    let bytes = message.encode_to_vec();
    let again = AttributeBag::decode(&bytes, None, vocabulary, &arena);
    let Ok(bag) = again else {
        assert!(is_out_of_range(&again), "{:?}", again.err());
        return;
    };
    if let Some(model) = model_of(&message) {
        assert_eq!(canonical(&bag), model.to_bytes(0), "{message:?}");
        for (name, value) in model.iter() {
            let Some(slot) = vocabulary.slot(name) else { continue };
            let peeked = bag.peek(slot).map(OwnedValue::from);
            let both = [peeked, Some(value.clone())]
                .map(|v| v.map(|v| OwnedAttributes::from_iter([("x", v)]).to_bytes(0)));
            assert_eq!(both[0], both[1], "{message:?}");
        }
    }
    // Nothing was lost; only the order may differ.
    if bytes.len() == body.len() {
        let Ok(read) = read else { return };
        assert_eq!(canonical(&read), canonical(&bag), "{message:?}");
    }
}

/// The content of a message without duplicates and invalid indexes.
fn model_of(message: &proto::CompressedAttributes) -> Option<OwnedAttributes> {
    let word = |index: i32| -> Option<Vec<u8>> {
        match usize::try_from(index) {
            Ok(global) => GLOBAL_WORDS.get(global).map(|word| word.as_bytes().to_vec()),
            Err(_) => {
                message.words.get(usize::try_from(-1 - i64::from(index)).ok()?).map(|word| word.to_vec())
            }
        }
    };
    let mut texts: Vec<&[u8]> = message.words.iter().map(|word| &**word).collect();
    texts.sort_unstable();
    let is_global = |text: &&[u8]| GLOBAL_WORDS.iter().any(|word| word.as_bytes() == *text);
    if texts.windows(2).any(|pair| pair[0] == pair[1]) || texts.iter().any(is_global) {
        return None;
    }
    let mut values: Vec<(i32, OwnedValue)> = Vec::new();
    for (name, index) in &message.strings {
        values.push((*name, OwnedValue::String(word(*index)?)));
    }
    values.extend(message.int64s.iter().map(|(name, value)| (*name, OwnedValue::Int64(*value))));
    values.extend(message.doubles.iter().map(|(name, value)| (*name, OwnedValue::Double(*value))));
    values.extend(message.bools.iter().map(|(name, value)| (*name, OwnedValue::Bool(*value))));
    for (name, time) in &message.timestamps {
        // An absent value is the year 1; the generated message does not distinguish it from 1970.
        let is_default = (time.seconds, time.nanos) == (0, 0);
        let seconds = if is_default { Timestamp::YEAR_ONE.seconds } else { time.seconds };
        let instant = Timestamp { seconds, nanos: u32::try_from(time.nanos).ok()? };
        values.push((*name, OwnedValue::Timestamp(instant)));
    }
    for (name, duration) in &message.durations {
        let nanos = duration.seconds.checked_mul(1_000_000_000)?.checked_add(i64::from(duration.nanos))?;
        values.push((*name, OwnedValue::Duration(SignedDuration::from_nanos(nanos))));
    }
    values.extend(message.bytes.iter().map(|(name, value)| (*name, OwnedValue::Bytes(value.to_vec()))));
    for (name, map) in &message.string_maps {
        let mut pairs = BTreeMap::new();
        for (key, value) in &map.entries {
            pairs.insert(word(*key)?, word(*value)?);
        }
        values.push((*name, OwnedValue::StringMap(pairs)));
    }
    let mut model = OwnedAttributes::new();
    for (name, value) in values {
        if model.insert(word(name)?, value).is_some() {
            return None;
        }
    }
    Some(model)
}

fn encodes_to_itself(attributes: &OwnedAttributes) {
    let vocabulary = &*VOCABULARY;
    let expected = attributes.to_bytes(0);
    for words in [0, ALL_WORDS / 2, ALL_WORDS] {
        let arena = Bump::new();
        let bytes = attributes.to_bytes(words);
        let bag = AttributeBag::decode(&bytes, None, vocabulary, &arena).expect("it was encoded here");
        assert_eq!(canonical(&bag), expected, "{attributes:?} with {words} global words");
        assert!(proto::CompressedAttributes::decode(&*bytes).is_ok());
    }
}

fn check_request(body: &[u8]) {
    let arena = Bump::new();
    let read = CheckRequest::decode(body, &arena);
    if let Ok(request) = &read {
        // It reads back as written.
        let bag = AttributeBag::new(&request.attributes, None, &VOCABULARY, &arena);
        let quotas: BTreeMap<String, (i64, bool)> =
            request.quotas.iter().map(|q| (q.name.to_owned(), (q.amount, q.best_effort))).collect();
        assert_eq!(quotas.len(), request.quotas.len(), "a quota is there twice");
        let call = CheckCall { deduplication_id: request.deduplication_id, quotas: quotas.clone() };
        let bytes = encode_check_request(&OwnedAttributes::from_bag(&bag), ALL_WORDS, &call);
        let again = CheckRequest::decode(&bytes, &arena).expect("it was encoded here");
        assert_eq!(again.deduplication_id, request.deduplication_id);
        assert_eq!(again.quotas, request.quotas);
        let same = AttributeBag::new(&again.attributes, None, &VOCABULARY, &arena);
        assert_eq!(canonical(&same), canonical(&bag));
    }
    let Ok(message) = proto::CheckRequest::decode(body) else { return };
    assert!(read.is_ok() || is_stricter(&read), "prost takes what is refused: {:?}", read.err());
    let bytes = message.encode_to_vec();
    let again = CheckRequest::decode(&bytes, &arena);
    let Ok(request) = again else {
        assert!(is_out_of_range(&again), "{:?}", again.err());
        return;
    };
    assert_eq!(request.global_word_count, message.global_word_count);
    assert_eq!(request.deduplication_id, message.deduplication_id);
    let quotas: Vec<(&str, i64, bool)> =
        request.quotas.iter().map(|q| (q.name, q.amount, q.best_effort)).collect();
    let expected: Vec<(&str, i64, bool)> =
        message.quotas.iter().map(|(name, q)| (&**name, q.amount, q.best_effort)).collect();
    assert_eq!(quotas, expected);
}

fn report_request(body: &[u8]) {
    let arena = Bump::new();
    let read = ReportRequest::decode(body, &arena);
    if let Ok(request) = &read {
        records(request, &arena);
    }
    let Ok(message) = proto::ReportRequest::decode(body) else { return };
    assert!(read.is_ok() || is_stricter(&read), "prost takes what is refused: {:?}", read.err());
    if let Ok(request) = read
        && message.encoded_len() == body.len()
    {
        assert_eq!(request.record_count, message.attributes.len());
        assert_eq!(request.default_words.len(), message.default_words.len());
        assert_eq!(request.global_word_count, message.global_word_count);
        let semantics = match request.semantics {
            Semantics::Delta => 0,
            Semantics::Independent => 1,
            Semantics::Unknown(number) => number,
        };
        assert_eq!(semantics, message.repeated_attributes_semantics);
    }
}

/// Iterates over the records as a call does, and one at a time.
fn records<'a>(request: &ReportRequest<'a>, arena: &'a Bump) {
    let vocabulary = &*VOCABULARY;
    let words = Words::new(request.default_words, vocabulary, arena);
    let mut walk = ReportRecords::new(request, vocabulary, arena);
    // The accumulated records; `None` if they are ambiguous.
    let mut sum: Option<OwnedAttributes> = None;
    let mut count = 0;
    while let Some(record) = walk.next() {
        let plain = request.records()[count];
        let bag = AttributeBag::new(&plain, Some(words), vocabulary, arena);
        let alone = OwnedAttributes::from_bag(&bag);
        let is_first = count == 0 || request.semantics == Semantics::Independent;
        count += 1;
        match record {
            Err(error) => assert!(!is_first, "the first record is lenient: {error}"),
            Ok(bag) if is_first => {
                assert_eq!(canonical(bag), alone.to_bytes(0));
                sum = Some(alone);
            }
            Ok(bag) => {
                let shown = OwnedAttributes::from_bag(bag);
                if alone.len() == plain.len()
                    && let Some(sum) = &mut sum
                {
                    for (name, value) in alone.iter() {
                        sum.insert(name, value.clone());
                    }
                    assert_eq!(shown.to_bytes(0), sum.to_bytes(0));
                } else {
                    sum = Some(shown);
                }
            }
        }
    }
    let expected = if matches!(request.semantics, Semantics::Unknown(_)) { 0 } else { request.record_count };
    assert_eq!(count, expected);
}

/// Encodes attributes made from the input in every way, and decodes them.
fn written(input: &mut Input<'_>) {
    let mut bags = Vec::new();
    while !input.is_empty() && bags.len() < 8 {
        let mut attributes = OwnedAttributes::new();
        for _ in 0..input.below(8) {
            attributes.insert(name(input), value(input));
        }
        encodes_to_itself(&attributes);
        bags.push(attributes);
    }
    let arena = Bump::new();
    for semantics in [Semantics::Delta, Semantics::Independent] {
        for words in [ReportWords::Own, ReportWords::Shared] {
            for global in [0, ALL_WORDS] {
                let bytes = encode_report_request(&bags, global, words, semantics);
                let bytes = arena.alloc_slice_copy(&bytes);
                assert!(proto::ReportRequest::decode(&*bytes).is_ok());
                let request = ReportRequest::decode(bytes, &arena).expect("it was encoded here");
                read_back(&request, &bags, &arena);
            }
        }
    }
}

fn read_back<'a>(request: &ReportRequest<'a>, bags: &[OwnedAttributes], arena: &'a Bump) {
    let mut walk = ReportRecords::new(request, &VOCABULARY, arena);
    let mut sum = OwnedAttributes::new();
    for attributes in bags {
        if request.semantics == Semantics::Independent {
            sum = OwnedAttributes::new();
        }
        for (name, value) in attributes.iter() {
            sum.insert(name, value.clone());
        }
        let bag = walk.next().expect("a record each").expect("every word is defined");
        assert_eq!(canonical(bag), sum.to_bytes(0));
        for (name, value) in sum.iter() {
            if let (Some(slot), OwnedValue::StringMap(pairs)) = (VOCABULARY.slot(name), value)
                && let Some(Value::StringMap(map)) = bag.peek(slot)
            {
                for (key, value) in pairs {
                    assert_eq!(map.peek(key), Some(&**value));
                }
            }
        }
    }
    assert!(walk.next().is_none());
}

fn name(input: &mut Input<'_>) -> Vec<u8> {
    let choice = input.byte();
    match GLOBAL_WORDS.get(usize::from(choice)) {
        Some(word) => word.as_bytes().to_vec(),
        None => text(input),
    }
}

fn text(input: &mut Input<'_>) -> Vec<u8> {
    let length = input.below(12);
    input.take(length).to_vec()
}

fn value(input: &mut Input<'_>) -> OwnedValue {
    match input.below(8) {
        0 => OwnedValue::String(name(input)),
        1 => OwnedValue::Int64(input.u64().cast_signed()),
        2 => OwnedValue::Double(f64::from_bits(input.u64())),
        3 => OwnedValue::Bool(input.byte() & 1 == 1),
        4 => OwnedValue::Timestamp(Timestamp {
            seconds: i64::from(input.u32()) - (1 << 31),
            nanos: input.u32() % 1_000_000_000,
        }),
        5 => OwnedValue::Duration(SignedDuration::from_nanos(input.u64().cast_signed())),
        6 => OwnedValue::Bytes(text(input)),
        _ => {
            let count = input.below(4);
            OwnedValue::StringMap((0..count).map(|_| (name(input), name(input))).collect())
        }
    }
}
