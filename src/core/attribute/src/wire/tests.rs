use bumpalo::Bump;
use proptest::prelude::*;

use super::message::text_len;
use super::{CompressedAttributes, DecodeError, Reader, nested, put_bytes, put_varint, zigzag};

fn varint(bytes: &[u8]) -> Result<u64, DecodeError> {
    Reader::new(bytes).varint()
}

#[test]
fn varints_of_every_length() {
    for number in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 1 << 35, u64::MAX] {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, number);
        assert_eq!(varint(&bytes), Ok(number));
        bytes.pop();
        assert_eq!(varint(&bytes), Err(DecodeError::Truncated), "{number}");
    }
    assert_eq!(varint(&[0xff; 11]), Err(DecodeError::LongVarint));
    assert_eq!(varint(&[0x80, 0x00]), Ok(0), "overlong encoding");
}

/// What is left to be read.
fn varints(reader: &mut Reader<'_>) -> Vec<u64> {
    std::iter::from_fn(|| reader.varint().ok()).collect()
}

/// Key and value of a field 1 that is exactly them, as the general methods read it, and what is left.
fn entry_by_fields(message: &[u8]) -> Option<((u32, u32), Vec<u64>)> {
    let mut reader = Reader::new(message);
    let (1, wire_type) = reader.tag().ok()?? else { return None };
    let mut fields = Reader::new(reader.bytes_of(1, wire_type).ok()?);
    let mut pair = [0; 2];
    for (number, value) in (1..).zip(&mut pair) {
        if fields.tag() != Ok(Some((number, 0))) {
            return None;
        }
        *value = u32::try_from(fields.varint().ok()?).ok()?;
    }
    (fields.tag() == Ok(None)).then(|| ((pair[0], pair[1]), varints(&mut reader)))
}

#[test]
fn short_entries_are_read_as_their_fields() {
    const BYTES: [u8; 7] = [0, 1, 8, 0x10, 0x7f, 0x80, 0xff];
    let mut short = 0;
    for len in 3..=7_u8 {
        for number in 0..BYTES.len().pow(6) {
            let tail =
                std::array::from_fn::<u8, 6, _>(|place| BYTES[number / BYTES.len().pow(place as u32) % 7]);
            let message = [&[10, len, 8][..], &tail, &[0; 3]].concat();
            // Two bytes at most for the key, and for the value.
            let key_len = tail.iter().take_while(|byte| **byte >= 0x80).count() as u8 + 1;
            let is_short = key_len <= 2 && (3 + key_len..=4 + key_len).contains(&len);
            let expected = entry_by_fields(&message).filter(|_| is_short);
            short += usize::from(expected.is_some());
            let mut reader = Reader::new(&message);
            let found = reader.short_entry(10).map(|pair| (pair, varints(&mut reader)));
            assert_eq!(found, expected, "{message:?}");
        }
    }
    assert!(short > 1000, "{short}");
    assert_eq!(Reader::new(&[10, 4, 8, 1, 0x10, 2, 0]).short_entry(10), None, "near the end");
    assert_eq!(Reader::new(&[18, 4, 8, 1, 0x10, 2, 0, 0]).short_entry(10), None, "another field");
}

#[test]
fn zigzag_round_trips() {
    for number in [0, -1, 1, i32::MAX, i32::MIN] {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, u64::from(zigzag(number)));
        assert_eq!(Reader::new(&bytes).zigzag(), Ok(number));
    }
}

#[test]
fn nested_messages_are_length_prefixed() {
    for len in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
        let content: Vec<u8> = (0..=255).cycle().take(len).collect();
        let (mut direct, mut moved) = (vec![9], vec![9]);
        put_bytes(&mut direct, 3, &content);
        nested(&mut moved, 3, |out| out.extend_from_slice(&content));
        assert!(direct == moved, "{len}");
    }
}

#[test]
fn unknown_fields_and_groups_are_skipped() {
    let arena = Bump::new();
    for (name, bytes, accepted) in [
        ("group in a group", &[0xa3, 0x01, 0xa3, 0x01, 0x08, 0x05, 0xa4, 0x01, 0xa4, 0x01][..], true),
        ("group without an end", &[0xa3, 0x01, 0x08, 0x05], false),
        ("end of a group without a start", &[0xa4, 0x01], false),
        ("field number 0", &[0x00, 0x00], false),
        ("field number 0, long", &[0x80, 0x00], false),
        ("field number of 30 bits", &[0xf8, 0xff, 0xff, 0xff, 0x7f, 0x00], false),
        ("wire type 6", &[0x7e, 0x00], false),
        ("truncated fixed32", &[0xa5, 0x01, 0, 0, 0], false),
    ] {
        assert_eq!(CompressedAttributes::decode(bytes, &arena).is_ok(), accepted, "{name}");
    }
}

#[test]
fn nested_groups_do_not_recurse() {
    let mut bytes = [0xa3, 0x01].repeat(200_000);
    assert_eq!(CompressedAttributes::decode(&bytes, &Bump::new()).err(), Some(DecodeError::Truncated));
    bytes.extend([0xa4, 0x01].repeat(200_000));
    assert!(CompressedAttributes::decode(&bytes, &Bump::new()).is_ok());
}

/// A varint field of one byte, or nothing.
fn index(field: u8) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(Vec::new()), (0..64_u8).prop_map(move |index| vec![field << 3, index])]
}

/// A pair of indexes, each of which may be left out.
fn pair() -> impl Strategy<Value = Vec<u8>> {
    (index(1), index(2)).prop_map(|(key, value)| [key, value].concat())
}

proptest! {
    #[test]
    fn the_texts_of_a_message_are_no_more_than_estimated(
        words in prop::collection::vec("[a-z]{0,200}", 0..8),
        strings in prop::collection::vec(pair(), 0..20),
        maps in prop::collection::vec(prop::collection::vec(pair(), 0..20), 0..4),
    ) {
        let mut message = Vec::new();
        words.iter().for_each(|word| put_bytes(&mut message, 1, word.as_bytes()));
        strings.iter().for_each(|pair| nested(&mut message, 2, |out| out.extend(pair)));
        for map in &maps {
            nested(&mut message, 9, |out| {
                nested(out, 2, |out| map.iter().for_each(|pair| nested(out, 1, |out| out.extend(pair))));
            });
        }
        let arena = Bump::new();
        let decoded = CompressedAttributes::decode(&message, &arena).unwrap();
        let text: usize =
            decoded.entries.iter().map(|entry| text_len(entry.payload.get(), decoded.words())).sum();
        for few in [0, usize::MAX] {
            let most = decoded.most_text(message.len(), 0, few);
            prop_assert!(text <= most, "{text} bytes, estimated {most}");
        }
    }
}
