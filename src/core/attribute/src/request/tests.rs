use bumpalo::Bump;
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::wire::{MAX_ELEMENTS, MAX_TEXT};
use crate::{AttributeBag, OwnedValue, RecordSlices, ReportRecords, Vocabulary, Words};
use mixer_wire::istio::mixer::v1 as proto;

fn attributes(path: &str) -> OwnedAttributes {
    OwnedAttributes::from_iter([("request.path", path), ("my.attribute", "GET")])
}

#[test]
fn clients_must_not_know_more_words() {
    assert_eq!(check_global_word_count(0), Ok(()));
    assert_eq!(check_global_word_count(222), Ok(()));
    let text = "inconsistent global dictionary versions used: mixer knows 222 words, caller knows 223";
    assert_eq!(check_global_word_count(223), Err(text.to_owned()));
}

#[test]
fn check_requests_round_trip() {
    let quotas = BTreeMap::from([("b".to_owned(), (-2, false)), ("a".to_owned(), (i64::MAX, true))]);
    let body = encode_check_request(
        &attributes("/x"),
        222,
        &CheckCall { deduplication_id: "id", quotas: quotas.clone() },
    );
    let arena = Bump::new();
    let request = CheckRequest::decode(&body, &arena).unwrap();
    assert_eq!((request.global_word_count, request.deduplication_id), (222, "id"));
    let read: BTreeMap<String, (i64, bool)> =
        request.quotas.iter().map(|q| (q.name.to_owned(), (q.amount, q.best_effort))).collect();
    assert_eq!(read, quotas);
    let vocabulary = Vocabulary::builder().build();
    let bag = AttributeBag::new(&request.attributes, None, &vocabulary, &arena);
    assert_eq!(OwnedAttributes::from_bag(&bag), attributes("/x"));
    let message = proto::CheckRequest::decode(&*body).unwrap();
    assert_eq!(message.quotas["b"].amount, -2);
    assert_eq!(message.attributes.unwrap().words, ["my.attribute", "/x"]);
    assert!(!body.ends_with(&[0]));
    assert!(encode_check_request(&OwnedAttributes::new(), 0, &CheckCall::default()) == [0x0a, 0]);
}

#[test]
fn repeated_fields_of_a_check_request_merge() {
    let (first, second) = (attributes("/x"), OwnedAttributes::from_iter([("request.size", 5)]));
    let mut body = encode_check_request(&first, 0, &CheckCall::default());
    body.extend(encode_check_request(&second, 222, &CheckCall::default()));
    // The quota `q` twice, with amounts 1 and 2.
    body.extend([0x22, 0x07, 0x0a, 0x01, b'q', 0x12, 0x02, 0x08, 0x01]);
    body.extend([0x22, 0x07, 0x0a, 0x01, b'q', 0x12, 0x02, 0x08, 0x02]);
    // A deduplication id that is not UTF-8.
    body.extend([0x1a, 0x01, 0xff]);
    let (arena, vocabulary) = (Bump::new(), Vocabulary::builder().build());
    let request = CheckRequest::decode(&body, &arena).unwrap();
    let bag = AttributeBag::new(&request.attributes, None, &vocabulary, &arena);
    let expected = OwnedAttributes::from_iter([
        ("request.path", OwnedValue::from("/x")),
        ("my.attribute", OwnedValue::from("GET")),
        ("request.size", OwnedValue::from(5)),
    ]);
    assert_eq!(OwnedAttributes::from_bag(&bag), expected);
    assert_eq!(request.quotas, [QuotaParams { name: "q", amount: 2, best_effort: false }]);
    assert_eq!(request.deduplication_id, "\u{fffd}");
}

#[test]
fn the_quotas_of_a_check_are_bounded() {
    let quotas = |count: usize| {
        let names = (0..count).map(|number| (format!("q{number}"), (1, false))).collect();
        encode_check_request(&OwnedAttributes::new(), 0, &CheckCall { deduplication_id: "", quotas: names })
    };
    let arena = Bump::new();
    let decoded =
        |body: &[u8]| CheckRequest::decode_bounded(body, 3, &Bump::new()).map(|request| request.quotas.len());
    assert_eq!(decoded(&quotas(3)), Ok(3));
    assert_eq!(decoded(&quotas(4)), Err(RequestError::TooManyQuotas { limit: 3 }));
    // Repeated names count, because each of them costs.
    assert_eq!(decoded(&quotas(2).repeat(2)), Err(RequestError::TooManyQuotas { limit: 3 }));
    let truncated = decoded(&[&quotas(3)[..], &[0x22, 5]].concat());
    assert_eq!(truncated, Err(RequestError::Undecodable(DecodeError::Truncated)));
    // Nothing is stored beyond the limit.
    let many = quotas(80_000);
    assert!(CheckRequest::decode_bounded(&many, 3, &arena).is_err());
    assert!(arena.allocated_bytes() < 4096, "{} bytes", arena.allocated_bytes());
}

#[test]
fn an_invalid_record_rejects_the_whole_report() {
    let good = encode_report_request([&attributes("/x")], 0, ReportWords::Own, Semantics::Delta);
    let bad = [&good[..], &[0x0a, 0x02, 0x0a, 0x05]].concat();
    assert!(ReportRequest::decode(&good, &Bump::new()).is_ok());
    assert_eq!(ReportRequest::decode(&bad, &Bump::new()).err(), Some(DecodeError::Truncated));
}

#[test]
fn records_are_iterated_in_order() {
    let records = [attributes("/a"), OwnedAttributes::from_iter([("request.path", "/b")]), attributes("/a")];
    for (words, semantics) in [
        (ReportWords::Own, Semantics::Delta),
        (ReportWords::Shared, Semantics::Delta),
        (ReportWords::Own, Semantics::Independent),
        (ReportWords::Shared, Semantics::Independent),
    ] {
        let body = encode_report_request(&records, 111, words, semantics);
        let (arena, vocabulary) = (Bump::new(), Vocabulary::builder().build());
        let request = ReportRequest::decode(&body, &arena).unwrap();
        assert_eq!((request.semantics, request.global_word_count), (semantics, 111));
        let mut seen = Vec::new();
        let mut walk = ReportRecords::new(&request, &vocabulary, &arena);
        while let Some(bag) = walk.next() {
            seen.push(OwnedAttributes::from_bag(bag.unwrap()));
        }
        let mut expected = records.to_vec();
        if semantics == Semantics::Delta {
            expected[1].insert("my.attribute", "GET");
        }
        assert_eq!(seen, expected, "{words:?} {semantics:?}");
    }
}

#[test]
fn records_with_unknown_semantics_are_ignored() {
    let body = encode_report_request([&attributes("/a")], 0, ReportWords::Own, Semantics::Unknown(-7));
    let (arena, vocabulary) = (Bump::new(), Vocabulary::builder().build());
    let request = ReportRequest::decode(&body, &arena).unwrap();
    assert_eq!(request.semantics, Semantics::Unknown(-7));
    assert!(ReportRecords::new(&request, &vocabulary, &arena).next().is_none());
}

#[test]
fn words_resolve_at_the_bounds_of_both_dictionaries() {
    let (arena, vocabulary) = (Bump::new(), Vocabulary::builder().build());
    let texts: [&[u8]; 2] = [b"x", b"y"];
    let words = Words::new(&texts, &vocabulary, &arena);
    for (index, text) in [
        (0, Some(&b"source.ip"[..])),
        (221, Some(b"context.proxy_version")),
        (222, None),
        (i32::MAX, None),
        (-1, Some(b"x")),
        (-2, Some(b"y")),
        (-3, None),
        (i32::MIN, None),
    ] {
        assert_eq!(words.resolve(index), text, "{index}");
    }
}

proptest! {
    #[test]
    fn arbitrary_requests_do_not_panic(body in prop::collection::vec(any::<u8>(), 0..100), at: prop::sample::Index, to: u8) {
        let arena = Bump::new();
        let _ = CheckRequest::decode(&body, &arena);
        let _ = ReportRequest::decode(&body, &arena);
        let mut body = encode_report_request([&attributes("/a"), &attributes("/b")], 200, ReportWords::Shared, Semantics::Delta);
        let at = at.index(body.len());
        body[at] = to;
        let vocabulary = Vocabulary::builder().build();
        if let Ok(request) = ReportRequest::decode(&body, &arena) {
            let mut walk = ReportRecords::new(&request, &vocabulary, &arena);
            while let Some(bag) = walk.next() {
                prop_assert!(bag.map_or(0, |bag| bag.all().len()) < 10);
            }
        }
    }
}

/// The attributes of the vocabulary after each record, or why the record is skipped; in slices of these sizes, of which at most `most`
/// records are taken at once.
fn walked(body: &[u8], slice: SliceLimits, most: usize) -> Vec<Result<Vec<Option<OwnedValue>>, String>> {
    let mut builder = Vocabulary::builder();
    let declared = ["a", "b", "source.ip", "m"];
    for name in declared {
        builder.declare(name, crate::ValueType::String);
    }
    let vocabulary = builder.build();
    let arena = Bump::new();
    let limits = RecordLimits { records: usize::MAX, slice };
    let request = ReportRequest::decode_bounded(body, limits, &arena).unwrap();
    let mut seen = Vec::new();
    let mut take = |records: &mut ReportRecords<'_>| {
        for _ in 0..most {
            let Some(record) = records.next() else { break };
            let value = |bag: &AttributeBag<'_>, name: &str| {
                vocabulary.slot(name.as_bytes()).and_then(|slot| bag.peek(slot)).map(OwnedValue::from)
            };
            seen.push(match record {
                Ok(bag) => Ok(declared.map(|name| value(bag, name)).to_vec()),
                Err(error) => Err(error.to_string()),
            });
        }
    };
    let mut slices = if request.is_decoded() {
        let mut first = ReportRecords::new(&request, &vocabulary, &arena);
        take(&mut first);
        RecordSlices::after(&request, &first)
    } else {
        RecordSlices::new(&request, &vocabulary, &arena)
    };
    let mut scratch = Bump::new();
    while !slices.is_empty() {
        let mut decoder = slices.slice(slice, &vocabulary, &scratch);
        while decoder.step().is_some() {}
        let mut records = decoder.records();
        take(&mut records);
        slices.finish(&records);
        drop(records);
        scratch.reset();
    }
    seen
}

#[test]
fn the_records_of_a_report_are_bounded() {
    let body = |count: usize| [0x0a, 0].repeat(count);
    let decoded = |count: usize, bytes: &mut usize| {
        let limits = RecordLimits { records: 20_000, slice: SliceLimits { records: 10, bytes: 1000 } };
        let arena = Bump::new();
        let body = body(count);
        let request = ReportRequest::decode_bounded(&body, limits, &arena);
        *bytes = arena.allocated_bytes();
        request.map(|request| (request.record_count, request.records().len()))
    };
    let mut bytes = 0;
    assert_eq!(decoded(10, &mut bytes), Ok((10, 10)));
    assert_eq!(decoded(20_000, &mut bytes), Ok((20_000, 0)), "they are validated");
    assert!(bytes < 4096, "{bytes} bytes");
    assert_eq!(
        decoded(20_001, &mut bytes),
        Err(RequestError::TooManyRecords { found: 20_001, limit: 20_000 })
    );
    // A record that does not fit a slice is one of its own.
    let large =
        encode_report_request([&attributes(&"x".repeat(5000))], 0, ReportWords::Own, Semantics::Delta);
    let limits = RecordLimits { records: 9, slice: SliceLimits { records: 10, bytes: 1000 } };
    let (arena, body) = (Bump::new(), large.repeat(3));
    assert_eq!(ReportRequest::decode_bounded(&body, limits, &arena).unwrap().records().len(), 0);
    assert_eq!(walked(&body, limits.slice, 10).len(), 3);
    // A later record that is invalid rejects the whole report as well.
    let bad = [&[0x0a, 0].repeat(50)[..], &[0x0a, 0x02, 0x0a, 0x05]].concat();
    let truncated = ReportRequest::decode_bounded(&bad, RecordLimits { records: 99, ..limits }, &arena);
    assert_eq!(truncated.err(), Some(RequestError::Undecodable(DecodeError::Truncated)));
}

#[test]
fn the_elements_of_a_message_are_bounded() {
    let too_many = DecodeError::TooManyElements { limit: MAX_ELEMENTS };
    let pairs = |count: usize| {
        let (mut map, mut entry, mut message) = (Vec::new(), Vec::new(), Vec::new());
        nested(&mut map, 2, |out| out.extend([0x0a, 0].repeat(count)));
        nested(&mut entry, 9, |out| out.extend_from_slice(&map));
        message.extend(entry);
        message
    };
    let words = |count: usize| [0x0a, 0].repeat(count);
    let values = |count: usize| [0x12, 0].repeat(count);
    for (name, message, fits) in [
        ("words", words(MAX_ELEMENTS), true),
        ("words", words(MAX_ELEMENTS + 1), false),
        ("values", values(MAX_ELEMENTS), true),
        ("values", values(MAX_ELEMENTS + 1), false),
        ("pairs", pairs(MAX_ELEMENTS - 1), true),
        ("pairs", pairs(MAX_ELEMENTS), false),
        ("unknown fields", [0x52, 0].repeat(4 * MAX_ELEMENTS), true),
        ("unknown fields", [0x52, 0].repeat(4 * MAX_ELEMENTS + 1), false),
        ("unknown numbers", [0x50, 0].repeat(100_000), false),
        ("all", [words(1500), values(1500), pairs(1500)].concat(), false),
        ("long texts", [0x0a, 60].into_iter().chain([b'x'; 60]).cycle().take(62 * 4000).collect(), true),
    ] {
        let arena = Bump::new();
        let decoded = CompressedAttributes::decode(&message, &arena);
        assert_eq!(decoded.err(), (!fits).then_some(too_many), "{name}");
        let most = 4 * message.len() + (1 << 20);
        assert!(arena.allocated_bytes() < most, "{name}: {} bytes", arena.allocated_bytes());
        let (mut report, mut check) = (Vec::new(), Vec::new());
        nested(&mut report, 1, |out| out.extend_from_slice(&message));
        nested(&mut check, 1, |out| out.extend_from_slice(&message));
        assert_eq!(ReportRequest::decode(&report, &arena).is_ok(), fits, "{name}");
        assert_eq!(CheckRequest::decode(&check, &arena).is_ok(), fits, "{name}");
        let merged = CheckRequest::decode(&check.repeat(2), &arena).err();
        assert_eq!(merged, Some(too_many), "{name}: two parts of one field are one message");
    }
    let default_words = |count: usize| ReportRequest::decode(&[0x12, 0].repeat(count), &Bump::new()).is_ok();
    assert!(default_words(MAX_DEFAULT_WORDS) && !default_words(MAX_DEFAULT_WORDS + 1));
}

#[test]
fn a_report_decodes_in_steps() {
    let records: Vec<_> = (0..200).map(|number| attributes(&format!("/{number}"))).collect();
    let body = encode_report_request(&records, 200, ReportWords::Shared, Semantics::Independent);
    for slice in [SliceLimits::NONE, SliceLimits { records: 100, bytes: 1 << 20 }] {
        let arena = Bump::new();
        let mut decoder = ReportDecoder::new(&body, slice, &arena);
        let mut steps = 1;
        while !decoder.step(1000, 200).unwrap() {
            steps += 1;
        }
        let request = decoder.finish();
        assert!(steps >= body.len() / 1100, "{steps} steps for {} bytes", body.len());
        assert_eq!((request.record_count, request.is_decoded()), (200, slice == SliceLimits::NONE));
        assert_eq!(
            request.default_words.len(),
            ReportRequest::decode(&body, &arena).unwrap().default_words.len()
        );
    }
    let arena = Bump::new();
    let mut decoder = ReportDecoder::new(&body, SliceLimits::NONE, &arena);
    let error = std::iter::repeat_with(|| decoder.step(1000, 199)).find_map(Result::err);
    assert_eq!(error, Some(RequestError::TooManyRecords { found: 200, limit: 199 }));
}

/// One record: values of `a`, `b`, a name without a slot, and an index that no dictionary has.
fn record() -> impl Strategy<Value = Vec<u8>> {
    let value = prop::option::of(0..4_u8);
    (value.clone(), value.clone(), value, prop::bool::weighted(0.1)).prop_map(|(a, b, other, is_bad)| {
        let named = [("a", a), ("b", b), ("other", other)];
        let owned: OwnedAttributes =
            named.iter().filter_map(|(name, v)| Some((*name, i64::from((*v)?)))).collect();
        let mut body = owned.to_bytes(0);
        if is_bad {
            // An entry of strings under index -100.
            body.extend([0x12, 0x05, 0x08, 0xc7, 0x01, 0x10, 0x00]);
        }
        body
    })
}

proptest! {
    #[test]
    fn slices_show_what_the_whole_report_shows(
        records in prop::collection::vec(record(), 0..30),
        (size, most) in (1..6_usize, 1..6_usize),
        semantics in prop_oneof![Just(0_u8), Just(1), Just(7)],
    ) {
        let mut body = Vec::new();
        for record in &records {
            body.extend([0x0a, u8::try_from(record.len()).unwrap()]);
            body.extend(record);
        }
        body.extend([0x20, semantics]);
        let slice = SliceLimits { records: size, bytes: usize::MAX };
        let whole = walked(&body, SliceLimits::NONE, usize::MAX);
        prop_assert_eq!(&walked(&body, slice, most), &whole);
        prop_assert_eq!(&walked(&body, SliceLimits::NONE, most), &whole);
    }
}

/// A record of `count` strings under names of the global dictionary, each the first message word, with that word if it has words.
fn repeated(count: u8, word: Option<&str>) -> Vec<u8> {
    let mut record = Vec::new();
    if let Some(word) = word {
        nested(&mut record, 1, |out| out.extend_from_slice(word.as_bytes()));
    }
    for name in 0..count {
        // Zigzag: even numbers are global words, 1 is message word 0.
        record.extend([0x12, 4, 8, 2 * name, 16, 1]);
    }
    record
}

#[test]
fn no_word_of_the_dictionary_is_longer_than_estimated() {
    assert!(GLOBAL_WORDS.iter().all(|word| word.len() <= 64));
}

#[test]
fn a_word_counts_as_often_as_values_refer_to_it() {
    let long_values = RequestError::Undecodable(DecodeError::LongValues { limit: MAX_TEXT });
    let word = "w".repeat(MAX_TEXT / 16);
    for (count, fits) in [(16, true), (17, false)] {
        let mut check = Vec::new();
        nested(&mut check, 1, |out| out.extend(repeated(count, Some(&word))));
        let arena = Bump::new();
        let decoded = CheckRequest::decode_bounded(&check, 1, &arena);
        assert_eq!(decoded.err(), (!fits).then_some(long_values), "a check of {count}");
        // In the words of a record, and in default words, which follow the records.
        let mut own = Vec::new();
        nested(&mut own, 1, |out| out.extend(repeated(count, Some(&word))));
        let mut shared = Vec::new();
        nested(&mut shared, 1, |out| out.extend(repeated(count, None)));
        nested(&mut shared, 2, |out| out.extend_from_slice(word.as_bytes()));
        for (report, slice) in [(&own, 1 << 20), (&shared, 1 << 20), (&shared, 1000)] {
            let limits = RecordLimits { records: 9, slice: SliceLimits { records: 9, bytes: slice } };
            let decoded = ReportRequest::decode_bounded(report, limits, &arena);
            assert_eq!(decoded.err(), (!fits).then_some(long_values), "a report of {count}");
        }
    }
    // The entries of maps count, and one long word is no repetition.
    let mut map = Vec::new();
    nested(&mut map, 1, |out| out.extend_from_slice(word.as_bytes()));
    nested(&mut map, 9, |out| {
        out.extend([8, 2]);
        nested(out, 2, |out| (0..20).for_each(|key| out.extend([0x0a, 4, 8, 2 * key, 16, 1])));
    });
    let arena = Bump::new();
    assert!(matches!(CompressedAttributes::decode(&map, &arena), Err(DecodeError::LongValues { .. })));
    let long = repeated(1, Some(&"w".repeat(3 * MAX_TEXT)));
    assert_eq!(CompressedAttributes::decode(&long, &arena).unwrap().len(), 1);
}

#[test]
fn long_texts_of_a_record_are_those_of_its_bag() {
    let vocabulary = vocabulary_of_strings();
    let word = "w".repeat(100_000);
    let texts = |semantics: u8| {
        let mut report = Vec::new();
        nested(&mut report, 1, |out| out.extend(repeated(1, None)));
        nested(&mut report, 1, |out| out.extend([0x12, 4, 8, 2, 16, 1]));
        nested(&mut report, 1, |_| {});
        nested(&mut report, 2, |out| out.extend_from_slice(word.as_bytes()));
        report.extend([0x20, semantics]);
        let arena = Bump::new();
        let request = ReportRequest::decode(&report, &arena).unwrap();
        let mut records = ReportRecords::new(&request, &vocabulary, &arena);
        let mut texts = Vec::new();
        while records.next().is_some() {
            texts.push(records.last_text());
        }
        texts
    };
    assert_eq!(texts(1), [100_000, 100_000, 0], "independent records");
    assert_eq!(texts(0), [100_000, 200_000, 200_000], "later records have the values of earlier ones");
}

#[test]
fn texts_that_records_of_a_delta_report_add_up_to_are_long() {
    let vocabulary = vocabulary_of_strings();
    let mut report = Vec::new();
    for name in 0..20 {
        nested(&mut report, 1, |out| out.extend([0x12, 4, 8, 2 * name, 16, 1]));
    }
    nested(&mut report, 2, |out| out.extend_from_slice("w".repeat(4000).as_bytes()));
    let arena = Bump::new();
    let request = ReportRequest::decode(&report, &arena).unwrap();
    let mut records = ReportRecords::new(&request, &vocabulary, &arena);
    let mut texts = Vec::new();
    while records.next().is_some() {
        texts.push(records.last_text());
    }
    // Below 32 KiB they are few.
    let expected = (1..=20).map(|count| if count <= 8 { 0 } else { count * 4000 });
    assert_eq!(texts, expected.collect::<Vec<_>>());
}

/// The first words of the global dictionary are strings.
fn vocabulary_of_strings() -> Vocabulary {
    let mut builder = Vocabulary::builder();
    for name in &crate::GLOBAL_WORDS[..20] {
        builder.declare(name, crate::ValueType::String);
    }
    builder.build()
}

#[test]
fn names_of_quotas_and_deduplication_ids_are_bounded() {
    for (length, fits) in [(MAX_QUOTA_TEXT, true), (MAX_QUOTA_TEXT + 1, false)] {
        let text = "q".repeat(length);
        let quotas = |name: &str| BTreeMap::from([(name.to_owned(), (1, false))]);
        for (what, call) in [
            ("name of a quota", CheckCall { deduplication_id: "d", quotas: quotas(&text) }),
            ("deduplication id", CheckCall { deduplication_id: &text, quotas: quotas("q") }),
        ] {
            let body = encode_check_request(&OwnedAttributes::new(), 0, &call);
            let arena = Bump::new();
            let error = RequestError::LongText { what, found: length, limit: MAX_QUOTA_TEXT };
            assert_eq!(CheckRequest::decode_bounded(&body, 9, &arena).err(), (!fits).then_some(error));
        }
    }
}
