//! The HPACK decoder, compared with another implementation over the blocks of one connection.

use fluke_hpack::Decoder;
use fluke_hpack::decoder::DecoderError;
use mixer_http2::fuzzing::{FuzzedName, HpackDecoder};

use crate::input::Input;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut decoder = HpackDecoder::default();
    let mut reference = Decoder::new();
    while !input.is_empty() {
        let block = match input.byte() {
            255 => input.rest(),
            length => input.take(usize::from(length)),
        };
        let decoded = decoder.decode(block);
        assert!(decoder.table_bytes() <= 4096, "the table has {} bytes", decoder.table_bytes());
        let Some(fields) = decoded else {
            // Connection error.
            return;
        };
        let expected = match reference.decode(block) {
            Ok(expected) => expected,
            // RFC 7541 section 4.2 requires a size update at the start of a block, which may contain nothing else.
            Err(DecoderError::SizeUpdateAtEnd) => return,
            Err(error) => panic!("{block:x?} is {fields:?}, but refused by the reference: {error:?}"),
        };
        assert_eq!(fields.len(), expected.len(), "{block:x?}");
        for ((name, value), (expected_name, expected_value)) in fields.iter().zip(&expected) {
            match name {
                FuzzedName::Text(name) => assert_eq!(name, expected_name, "{block:x?}"),
                FuzzedName::Forbidden => {
                    let is_name = http::HeaderName::from_lowercase(expected_name).is_ok();
                    assert!(!is_name, "{block:x?}: {:?}", expected_name.escape_ascii());
                }
            }
            match value {
                Some(value) => assert_eq!(value, expected_value, "{block:x?}"),
                None => assert!(http::HeaderValue::from_bytes(expected_value).is_err(), "{block:x?}"),
            }
        }
    }
}
