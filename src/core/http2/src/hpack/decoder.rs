//! Decodes header blocks.

use super::huffman;
use super::table::{DynamicTable, Field, Name, look_up};

/// SETTINGS_HEADER_TABLE_SIZE of the server (the default).
const TABLE_SIZE: usize = 4096;
/// Maximum length of a decoded name or value, unless told otherwise.
const MAX_TEXT: usize = 64 << 10;
/// Capacity of the buffer for Huffman codes that is kept between blocks.
const KEPT_SCRATCH: usize = 1 << 10;

/// The block cannot be decoded: a connection error of type COMPRESSION_ERROR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Malformed;

/// Decodes the blocks of one connection, in order.
#[derive(Debug)]
pub(in super::super) struct Decoder {
    table: DynamicTable,
    scratch: Vec<u8>,
    max_text: usize,
}

impl Decoder {
    pub(in super::super) fn new() -> Self {
        Self::with_max_text(MAX_TEXT)
    }

    /// A decoder of names and values of at most so many bytes each.
    pub(in super::super) fn with_max_text(max_text: usize) -> Self {
        Self { table: DynamicTable::new(TABLE_SIZE), scratch: Vec::new(), max_text }
    }

    /// Version of the dynamic table: equal blocks decode alike while it is unchanged.
    pub(in super::super) fn changes(&self) -> u64 {
        self.table.changes
    }

    /// Decodes a block and passes each field line to `each`, which must bound what it stores.
    ///
    /// Errors: the block is invalid.
    pub(in super::super) fn decode(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(&Field),
    ) -> Result<(), Malformed> {
        let mut input = block;
        let mut begun = false;
        while let Some(&first) = input.first() {
            if first & 0x80 != 0 {
                let index = integer(&mut input, 7)?;
                each(look_up(index, &self.table).ok_or(Malformed)?);
            } else if first & 0xe0 == 0x20 {
                let size = integer(&mut input, 5)?;
                // Only at the start of a block, and within SETTINGS_HEADER_TABLE_SIZE.
                if begun || size > TABLE_SIZE {
                    return Err(Malformed);
                }
                self.table.set_max_size(size);
                continue;
            } else {
                let is_indexed = first & 0x40 != 0;
                let field = self.literal(&mut input, if is_indexed { 6 } else { 4 })?;
                each(&field);
                if is_indexed {
                    self.table.insert(field);
                }
            }
            begun = true;
        }
        if self.scratch.capacity() > KEPT_SCRATCH {
            self.scratch.clear();
            self.scratch.shrink_to(KEPT_SCRATCH);
        }
        Ok(())
    }

    /// Memory of the decoder in bytes.
    pub(in super::super) fn memory(&self) -> usize {
        self.table.memory() + self.scratch.capacity()
    }

    /// Bytes of the dynamic table.
    pub(super) fn table_bytes(&self) -> usize {
        self.table.size()
    }

    fn literal(&mut self, input: &mut &[u8], prefix: u32) -> Result<Field, Malformed> {
        let (name, name_len) = match integer(input, prefix)? {
            0 => {
                let text = string(input, &mut self.scratch, self.max_text)?;
                (Name::of(text), text.len())
            }
            index => {
                let known = look_up(index, &self.table).ok_or(Malformed)?;
                (known.name.clone(), known.name_len())
            }
        };
        Ok(Field::new(name, name_len, string(input, &mut self.scratch, self.max_text)?))
    }
}

/// An integer with a `prefix`-bit prefix. Spec: RFC 7541 section 5.1.
fn integer(input: &mut &[u8], prefix: u32) -> Result<usize, Malformed> {
    let (first, mut rest) = input.split_first().ok_or(Malformed)?;
    let mask = (1_usize << prefix) - 1;
    let mut value = usize::from(*first) & mask;
    if value == mask {
        for shift in (0..).step_by(7) {
            // No valid length or index needs more than 28 bits.
            let (byte, after) = rest.split_first().filter(|_| shift < 28).ok_or(Malformed)?;
            rest = after;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *input = rest;
    Ok(value)
}

fn string<'i: 's, 's>(
    input: &mut &'i [u8],
    scratch: &'s mut Vec<u8>,
    max_text: usize,
) -> Result<&'s [u8], Malformed> {
    let is_huffman = input.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer(input, 7)?;
    let (text, rest) = input.split_at_checked(length).ok_or(Malformed)?;
    *input = rest;
    if !is_huffman {
        return Ok(text);
    }
    scratch.clear();
    if huffman::decode(text, scratch, max_text) { Ok(scratch) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Malformed> {
        let mut fields = Vec::new();
        let mut add = |field: &Field| {
            let name = match &field.name {
                Name::Header(name) => name.as_str().to_owned(),
                other => format!("{other:?}"),
            };
            let value = field.value.as_ref().map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
            fields.push(format!("{name}={}", value.unwrap_or("?".to_owned())));
        };
        decoder.decode(block, &mut add).map(|()| fields)
    }

    #[test]
    fn the_examples_of_rfc_7541_decode() {
        // RFC 7541 C.4: three requests on one connection, with Huffman codes.
        let mut decoder = Decoder::new();
        let first = [
            0x82, 0x86, 0x84, 0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4,
            0xff,
        ];
        let expected = ["Method=GET", "Scheme=http", "Path=/", "Authority=www.example.com"];
        assert_eq!(decode(&mut decoder, &first).unwrap(), expected);
        let changes = decoder.changes();
        let second = [0x82, 0x86, 0x84, 0xbe, 0x58, 0x86, 0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf];
        assert_eq!(decode(&mut decoder, &second).unwrap()[3..], [expected[3], "cache-control=no-cache"]);
        assert!(decoder.changes() > changes);
        let third = [
            0x82, 0x87, 0x85, 0xbf, 0x40, 0x88, 0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f, 0x89, 0x25,
            0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf,
        ];
        assert_eq!(
            decode(&mut decoder, &third).unwrap(),
            ["Method=GET", "Scheme=https", "Path=/index.html", expected[3], "custom-key=custom-value"]
        );
        // The newest entry has the lowest index.
        let changes = decoder.changes();
        assert_eq!(
            decode(&mut decoder, &[0xbe, 0xbf, 0xc0]).unwrap(),
            ["custom-key=custom-value", "cache-control=no-cache", expected[3]]
        );
        assert_eq!(decoder.changes(), changes);
    }

    #[test]
    fn entries_without_room_are_evicted() {
        let mut decoder = Decoder::new();
        // Room for one entry of 10 bytes: size 42.
        let block = [0x3f, 42 - 31, 0x40, 4, b'n', b'a', b'm', b'e', 6, b'v', b'a', b'l', b'u', b'e', b'1'];
        assert_eq!(decode(&mut decoder, &block).unwrap(), ["name=value1"]);
        assert_eq!(decode(&mut decoder, &[0xbe]).unwrap(), ["name=value1"]);
        assert_eq!(
            decode(&mut decoder, &[0x7e, 6, b'v', b'a', b'l', b'u', b'e', b'2', 0xbe]).unwrap().len(),
            2
        );
        assert_eq!(decode(&mut decoder, &[0xbf]), Err(Malformed));
        // An entry larger than the table empties it.
        let mut decoder = Decoder::new();
        assert!(decode(&mut decoder, &block).is_ok());
        assert!(decode(&mut decoder, &[0x7e, 7, b'v', b'a', b'l', b'u', b'e', b'2', b'2']).is_ok());
        assert_eq!(decode(&mut decoder, &[0xbe]), Err(Malformed));
    }

    #[test]
    fn invalid_blocks_are_refused() {
        for bad in [
            &[0x80][..], // index 0
            &[0xbe],     // not in the table
            &[0xff],     // a truncated integer
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0x82, 0x20],             // a size update that is not first
            &[0x3f, 0xe2, 0x1f],       // 4097
            &[0x40, 0x05, b'a'],       // a truncated name
            &[0x40, 0x01, b'a'],       // no value
            &[0x40, 0x81, 0x00, 0x00], // bad padding
        ] {
            assert_eq!(decode(&mut Decoder::new(), bad), Err(Malformed), "{bad:x?}");
        }
        // Names and values that HTTP forbids decode and are marked.
        assert_eq!(decode(&mut Decoder::new(), &[0x00, 1, b'A', 1, b'b']).unwrap(), ["Forbidden=b"]);
        assert_eq!(decode(&mut Decoder::new(), &[0x00, 1, b'a', 1, b'\n']).unwrap(), ["a=?"]);
        assert_eq!(decode(&mut Decoder::new(), &[0x00, 2, b':', b'x', 0]).unwrap(), ["Forbidden="]);
    }
}
