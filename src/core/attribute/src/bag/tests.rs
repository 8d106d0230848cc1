use bumpalo::Bump;
use proptest::prelude::*;
use prost::Message as _;

use super::{AttributeBag, Condition, Reads};
use crate::{
    CompressedAttributes, GLOBAL_WORDS, OwnedAttributes, OwnedValue, SignedDuration, SlotId, Timestamp,
    Value, ValueType, Vocabulary,
};
use mixer_wire::istio::mixer::v1 as proto;

fn vocabulary(names: &[&str]) -> Vocabulary {
    let mut builder = Vocabulary::builder();
    for name in names {
        builder.declare(name, ValueType::String);
    }
    builder.build()
}

/// In slot order, before the well-known attributes.
const NAMES: [&str; 4] = ["a.map", "b.text", "c.absent", "d.map"];

fn sample() -> OwnedAttributes {
    let mut attributes = OwnedAttributes::new();
    attributes.insert("a.map", [("k", "v"), ("source.ip", "x")]);
    attributes.insert("d.map", [("k", "w")]);
    attributes.insert("b.text", "text");
    attributes
}

fn references_of(bag: &AttributeBag<'_>) -> Vec<(String, Option<String>, Condition)> {
    bag.references()
        .iter()
        .map(|r| {
            let key = r.key.map(|key| String::from_utf8_lossy(key).into_owned());
            (r.name.to_owned(), key, r.condition)
        })
        .collect()
}

#[test]
fn reads_are_recorded_as_specified() {
    let (arena, vocabulary, body) = (Bump::new(), vocabulary(&NAMES), sample().to_bytes(0));
    let mut bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
    let slot = |name: &str| vocabulary.slot(name.as_bytes()).unwrap();
    let Some(Value::StringMap(map)) = bag.get(slot("a.map")) else { panic!("no map") };
    assert_eq!(references_of(&bag), [], "a map without a key");
    bag.lookup(map, b"k");
    bag.lookup(map, b"k");
    bag.lookup(map, b"nope");
    bag.get(slot("c.absent"));
    bag.get(slot("b.text"));
    bag.peek(slot("source.namespace"));
    assert!(!bag.contains(slot("destination.namespace")));
    let expected = [
        ("a.map".to_owned(), Some("k".to_owned()), Condition::Exact),
        ("a.map".to_owned(), Some("nope".to_owned()), Condition::Absence),
        ("b.text".to_owned(), None, Condition::Exact),
        ("c.absent".to_owned(), None, Condition::Absence),
    ];
    assert_eq!(references_of(&bag), expected);
    let mark = bag.mark_references();
    let Some(Value::StringMap(other)) = bag.get(slot("d.map")) else { panic!("no map") };
    bag.lookup(other, b"k");
    bag.get(slot("source.namespace"));
    assert_eq!(references_of(&bag).len(), 6);
    bag.reset_references(&mark);
    assert_eq!(references_of(&bag), expected);
    bag.set(slot("source.namespace"), Value::Bool(true));
    bag.get(slot("source.namespace"));
    assert_eq!(references_of(&bag), expected, "an override");
    bag.rewind(0);
    assert_eq!(bag.peek(slot("source.namespace")), None);
}

/// The names in an encoded ReferencedAttributes.
fn encoded_names(bag: &AttributeBag<'_>, reads: Reads) -> Vec<String> {
    let mut encoded = Vec::new();
    bag.encode_references(0, reads, &mut encoded);
    let words = proto::ReferencedAttributes::decode(&*encoded).unwrap().words;
    words.iter().map(|word| String::from_utf8(word.to_vec()).unwrap()).collect()
}

#[test]
fn a_generated_attribute_that_is_read_was_absent() {
    let (arena, vocabulary, body) = (Bump::new(), vocabulary(&NAMES), sample().to_bytes(0));
    let mut bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
    let slot = |name: &str| vocabulary.slot(name.as_bytes()).unwrap();
    let made = Value::String(b"made");
    for name in ["b.text", "c.absent", "source.namespace"] {
        bag.generate(slot(name), made);
    }
    bag.generate(slot("c.absent"), Value::Bool(true));
    assert_eq!(references_of(&bag), [], "no presence test is recorded");
    assert_eq!(bag.get(slot("b.text")), Some(Value::String(b"text")), "the request wins");
    let mark = bag.mark_references();
    assert_eq!(bag.get(slot("c.absent")), Some(made), "the first generator wins");
    let expected =
        [("b.text".to_owned(), None, Condition::Exact), ("c.absent".to_owned(), None, Condition::Absence)];
    assert_eq!(references_of(&bag), expected);
    assert_eq!(encoded_names(&bag, Reads::All), ["b.text", "c.absent"]);
    assert_eq!(encoded_names(&bag, Reads::Received), ["b.text"], "as Istio Mixer");
    assert!(!bag.depends_on_origin_of_map());
    bag.reset_references(&mark);
    assert_eq!(references_of(&bag), expected[..1]);
}

#[test]
fn the_origin_of_a_map_matters_if_it_decides_what_is_read() {
    let (arena, vocabulary, body) = (Bump::new(), vocabulary(&NAMES), sample().to_bytes(0));
    let mut bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
    let slot = |name: &str| vocabulary.slot(name.as_bytes()).unwrap();
    let made = Value::StringMap(arena.alloc(crate::StringMap { entries: &[], source: None }));
    for name in ["a.map", "c.absent", "d.map"] {
        bag.generate(slot(name), made);
    }
    let read = |name: &str, key: &'static str| {
        let Some(Value::StringMap(map)) = bag.get(slot(name)) else { panic!("no map") };
        bag.lookup(map, key.as_bytes());
    };
    let mark = bag.mark_references();
    // Maps and keys that are read.
    for (reads, depends) in [
        (&[][..], false),
        (&[("a.map", "k")], false),
        (&[("a.map", "k"), ("a.map", "absent")], false),
        (&[("a.map", "absent")], true),
        (&[("a.map", "k"), ("d.map", "absent")], true),
        (&[("c.absent", "k")], true),
    ] {
        bag.reset_references(&mark);
        reads.iter().for_each(|(name, key)| read(name, key));
        assert_eq!(bag.depends_on_origin_of_map(), depends, "{reads:?}");
    }
}

#[test]
fn many_keys_are_recorded_once_and_reset() {
    let (arena, vocabulary, body) = (Bump::new(), vocabulary(&NAMES), sample().to_bytes(0));
    let bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
    let Some(Value::StringMap(map)) = bag.get(vocabulary.slot(b"a.map").unwrap()) else { panic!("no map") };
    let keys: Vec<String> = (0..200).map(|i| format!("key {i}")).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &*arena.alloc_slice_copy(key.as_bytes())).collect();
    let look =
        |from: usize, to: usize| keys[from..to].iter().for_each(|key| assert_eq!(bag.lookup(map, key), None));
    look(0, 50);
    let mark = bag.mark_references();
    look(0, 200);
    assert_eq!(bag.references().len(), 200);
    bag.reset_references(&mark);
    assert_eq!(bag.references().len(), 50);
    look(40, 60);
    assert_eq!(bag.references().len(), 60);
}

#[test]
fn a_map_read_without_a_key_is_reported() {
    let (arena, vocabulary, body) = (Bump::new(), vocabulary(&NAMES), sample().to_bytes(0));
    let bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
    assert!(!bag.reads_map_without_key());
    let Some(Value::StringMap(map)) = bag.get(vocabulary.slot(b"a.map").unwrap()) else { panic!("no map") };
    assert!(bag.reads_map_without_key());
    bag.lookup(map, b"no such key");
    assert!(!bag.reads_map_without_key());
    bag.whole_map_used();
    assert!(bag.reads_map_without_key(), "a key says nothing of the others");
}

#[test]
fn the_key_source_ip_is_a_message_word() {
    let (arena, vocabulary, body) = (Bump::new(), vocabulary(&NAMES), sample().to_bytes(222));
    let bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
    let Some(Value::StringMap(map)) = bag.get(vocabulary.slot(b"a.map").unwrap()) else { panic!("no map") };
    assert_eq!(bag.lookup(map, b"source.ip"), Some(&b"x"[..]));
    let mut encoded = Vec::new();
    bag.encode_references(222, Reads::All, &mut encoded);
    let message = proto::ReferencedAttributes::decode(&*encoded).unwrap();
    assert_eq!(message.words, ["source.ip", "a.map"]);
    assert_eq!(message.attribute_matches[0].map_key, -1);
    assert_eq!(message.attribute_matches[0].name, -2);
}

#[test]
fn many_words_keep_their_indexes() {
    let names: Vec<String> = (0..100).map(|i| format!("name{i:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (arena, vocabulary) = (Bump::new(), vocabulary(&names));
    let bag = AttributeBag::empty(&vocabulary, &arena);
    for name in &names {
        assert_eq!(bag.get(vocabulary.slot(name.as_bytes()).unwrap()), None);
    }
    let mut encoded = Vec::new();
    bag.encode_references(0, Reads::All, &mut encoded);
    let message = proto::ReferencedAttributes::decode(&*encoded).unwrap();
    assert_eq!(message.words, names);
    assert!(
        message.attribute_matches.iter().zip(0..).all(|(found, i)| found.name == !i && found.condition == 1)
    );
}

#[test]
fn large_string_maps_keep_the_last_of_equal_keys() {
    // Word 0 is the name, 1 to 100 are keys and values. Every key occurs twice, the second time with itself as value.
    let words = std::iter::once("m".to_owned()).chain((1..=100).map(|i| format!("w{i}")));
    let pairs = (1..=100).map(|i| (!i, !100)).chain((1..=100).map(|i| (!i, !i)));
    let mut map = Vec::new();
    for (key, value) in pairs {
        map.extend(proto::StringMap { entries: [(key, value)].into() }.encode_to_vec());
    }
    let mut body = Vec::new();
    words.for_each(|word| prost::encoding::string::encode(1, &word, &mut body));
    let mut entry = Vec::new();
    prost::encoding::sint32::encode(1, &-1, &mut entry);
    prost::encoding::bytes::encode(2, &map, &mut entry);
    prost::encoding::bytes::encode(9, &entry, &mut body);
    let (arena, vocabulary) = (Bump::new(), vocabulary(&["m"]));
    let bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
    let Some(Value::StringMap(map)) = bag.peek(vocabulary.slot(b"m").unwrap()) else { panic!("no map") };
    assert_eq!(map.entries.len(), 100);
    assert!(map.entries.iter().all(|(key, value)| key == value));
}

#[test]
fn a_failed_delta_record_changes_nothing() {
    let (arena, vocabulary) = (Bump::new(), vocabulary(&NAMES));
    let (base, delta) = (sample().to_bytes(0), OwnedAttributes::from_iter([("b.text", 7)]).to_bytes(0));
    // b.text under a valid index, followed by an invalid one.
    let bad_bytes = [&delta[..], &[0x22, 0x0b, 0x08, 0x09, 0x11, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
    let mut bag = AttributeBag::decode(&base, None, &vocabulary, &arena).unwrap();
    let slot = vocabulary.slot(b"b.text").unwrap();
    let good = CompressedAttributes::decode(&delta, &arena).unwrap();
    let bad = CompressedAttributes::decode(&bad_bytes, &arena).unwrap();
    let error = bag.apply_delta(&bad, None).unwrap_err().to_string();
    assert_eq!(
        error,
        "1 error occurred:\n\t* attribute index -5 is not defined in the available dictionaries\n\n"
    );
    assert_eq!(bag.peek(slot), Some(Value::String(b"text")));
    bag.apply_delta(&good, None).unwrap();
    assert_eq!(bag.get(slot), Some(Value::Int64(7)));
    assert_eq!(bag.peek_received(slot), None);
    assert_eq!(references_of(&bag), [], "an overridden attribute");
    assert!(bag.all().iter().any(|named| named.name == b"b.text" && named.value == Some(Value::Int64(7))));
}

#[test]
fn replacing_a_bag_clears_it() {
    let (arena, vocabulary) = (Bump::new(), vocabulary(&NAMES));
    let body = sample().to_bytes(0);
    let mut bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
    bag.get(SlotId(0));
    bag.get(SlotId(1));
    bag.set(SlotId(2), Value::Int64(1));
    bag.replace(&CompressedAttributes::default(), None);
    assert!(bag.all().is_empty());
    assert_eq!(bag.references().len(), 0);
    assert!((0..vocabulary.len()).all(|i| !bag.contains(SlotId(i as u32))));
}

fn any_text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-c]{0,3}".prop_map(String::into_bytes),
        (0..GLOBAL_WORDS.len()).prop_map(|i| GLOBAL_WORDS[i].as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ]
}

fn any_value() -> impl Strategy<Value = OwnedValue> {
    prop_oneof![
        any_text().prop_map(OwnedValue::String),
        any::<i64>().prop_map(OwnedValue::Int64),
        any::<f64>().prop_filter("equal to itself", |n| !n.is_nan()).prop_map(OwnedValue::Double),
        any::<bool>().prop_map(OwnedValue::Bool),
        (Timestamp::YEAR_ONE.seconds..=Timestamp::MAX_SECONDS, 0u32..1_000_000_000)
            .prop_map(|(seconds, nanos)| OwnedValue::Timestamp(Timestamp { seconds, nanos })),
        any::<i64>().prop_map(|nanos| OwnedValue::Duration(SignedDuration::from_nanos(nanos))),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(OwnedValue::Bytes),
        prop::collection::btree_map(any_text(), any_text(), 0..40).prop_map(OwnedValue::StringMap),
    ]
}

fn any_attributes() -> impl Strategy<Value = OwnedAttributes> {
    prop::collection::vec((any_text(), any_value()), 0..40).prop_map(OwnedAttributes::from_iter)
}

proptest! {
    #[test]
    fn encoding_round_trips(attributes in any_attributes(), count in 0u32..=222) {
        let body = attributes.to_bytes(count);
        let (arena, plain) = (Bump::new(), vocabulary(&[]));
        let bag = AttributeBag::decode(&body, None, &plain, &arena).unwrap();
        prop_assert_eq!(&OwnedAttributes::from_bag(&bag), &attributes);
        // The same through the strict decoder; prost accepts the encoding.
        let mut strict = AttributeBag::empty(&plain, &arena);
        strict.apply_delta(&CompressedAttributes::decode(&body, &arena).unwrap(), None).unwrap();
        prop_assert_eq!(&OwnedAttributes::from_bag(&strict), &attributes);
        prop_assert!(proto::CompressedAttributes::decode(&*body).is_ok());
    }

    #[test]
    fn by_slot_and_by_name_agree(attributes in any_attributes(), position in any::<prop::sample::Index>(), to: u8) {
        // Change a byte, so that indexes become invalid or equal.
        let mut body = attributes.to_bytes(100);
        if !body.is_empty() {
            let at = position.index(body.len());
            body[at] = to;
        }
        let (arena, plain) = (Bump::new(), vocabulary(&[]));
        let Ok(bag) = AttributeBag::decode(&body, None, &plain, &arena) else { return Ok(()) };
        let names = bag.all();
        let mut builder = Vocabulary::builder();
        for named in &names {
            if let Ok(name) = std::str::from_utf8(named.name) {
                builder.declare(name, ValueType::String);
            }
        }
        let full = builder.build();
        let by_slot = AttributeBag::decode(&body, None, &full, &arena).unwrap();
        for named in &names {
            if let Some(slot) = full.slot(named.name) {
                prop_assert_eq!(
                    format!("{:?}", by_slot.get(slot).map(OwnedValue::from)),
                    format!("{:?}", named.value.map(OwnedValue::from))
                );
            }
        }
        let references = by_slot.references();
        prop_assert!(references.windows(2).all(|pair| (pair[0].name, pair[0].key) < (pair[1].name, pair[1].key)));
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let (arena, plain) = (Bump::new(), vocabulary(&NAMES));
        if let Ok(bag) = AttributeBag::decode(&body, None, &plain, &arena) {
            bag.all();
        }
    }

    #[test]
    fn messages_that_prost_decodes_are_decoded_alike(
        attributes in any_attributes(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let mut body = attributes.to_bytes(111);
        for (at, to) in changes {
            if !body.is_empty() {
                let at = at.index(body.len());
                body[at] = to;
            }
        }
        let Ok(message) = proto::CompressedAttributes::decode(&*body) else { return Ok(()) };
        let arena = Bump::new();
        let decoded = CompressedAttributes::decode(&body, &arena);
        // prost does not check the ranges of timestamps and durations.
        let out_of_range = message.timestamps.values().any(|t| {
            !(0..1_000_000_000).contains(&t.nanos)
                || !(Timestamp::YEAR_ONE.seconds..=Timestamp::MAX_SECONDS).contains(&t.seconds)
        }) || !message.durations.is_empty();
        match decoded {
            Ok(decoded) => {
                let words: Vec<&[u8]> = message.words.iter().map(|word| &**word).collect();
                prop_assert_eq!(decoded.words(), words);
                prop_assert!(decoded.len() >= message.strings.len() + message.int64s.len() + message.bytes.len());
            }
            // prost ignores the wire type of map fields; Istio Mixer rejects the message.
            Err(error) => {
                let is_rejected = error.to_string().starts_with("wrong wire type");
                prop_assert!(out_of_range || is_rejected, "{error}");
            }
        }
    }
}
