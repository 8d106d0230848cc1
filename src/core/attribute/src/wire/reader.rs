//! Protobuf decoding: tags, varints and length-delimited fields.

/// Why bytes are not a valid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The data ends inside a field.
    #[error("unexpected EOF")]
    Truncated,
    /// A varint of more than ten bytes.
    #[error("integer overflow")]
    LongVarint,
    /// A known field with an unexpected wire type.
    #[error("wrong wire type {wire_type} for field {field}")]
    WrongWireType {
        /// The number of the field.
        field: u32,
        /// The wire type found.
        wire_type: u8,
    },
    /// A field number of 0 or above 2^29 - 1.
    #[error("illegal tag {0}")]
    IllegalTag(u64),
    /// An end-group tag without a start.
    #[error("group ends that did not begin")]
    StrayEndGroup,
    /// Outside 0001-01-01 to 9999-12-31, or nanoseconds outside 0 to 999999999.
    #[error("timestamp of {seconds} seconds and {nanos} nanoseconds is out of range")]
    TimestampRange {
        /// Seconds as received.
        seconds: i64,
        /// Nanoseconds as received.
        nanos: i32,
    },
    /// More words, values and map entries than one message may have: each takes two bytes of a message, and tens of bytes decoded.
    #[error("the attributes have more than {limit} words, values and map entries")]
    TooManyElements {
        /// The limit.
        limit: usize,
    },
    /// More fields than one message may have: each takes two bytes of a message, and time to skip it.
    #[error("the message has more than {limit} fields")]
    TooManyFields {
        /// The limit.
        limit: usize,
    },
    /// Values that refer to more bytes than one message may: a reference takes two bytes, whatever the length of its word.
    #[error("the attributes refer to words of more than {limit} bytes together")]
    LongValues {
        /// The limit.
        limit: usize,
    },
    /// Beyond 64-bit nanoseconds, or with seconds and nanoseconds of different signs.
    #[error("duration of {seconds} seconds and {nanos} nanoseconds is out of range")]
    DurationRange {
        /// Seconds as received.
        seconds: i64,
        /// Nanoseconds as received.
        nanos: i32,
    },
}

/// Wire type of integers, enums and Booleans.
pub(crate) const VARINT: u8 = 0;
const FIXED64: u8 = 1;
/// Wire type of strings, bytes and messages.
pub(super) const LENGTH: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

const MAX_FIELD: u64 = (1 << 29) - 1;

/// A cursor over one encoded message. Call [`tag`](Self::tag), then the method for the wire type it returned: 0
/// [`varint`](Self::varint), 1 [`fixed64`](Self::fixed64), 2 [`bytes`](Self::bytes), any [`skip`](Self::skip). After an
/// error the position is unspecified.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    /// Starts at the first field of a message.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Field number and wire type of the next field; `None` at the end of the message.
    ///
    /// Errors: [`Truncated`](DecodeError::Truncated), [`LongVarint`](DecodeError::LongVarint),
    /// [`IllegalTag`](DecodeError::IllegalTag).
    #[inline]
    pub fn tag(&mut self) -> Result<Option<(u32, u8)>, DecodeError> {
        match *self.rest {
            [] => Ok(None),
            [tag @ 8..0x80, ref rest @ ..] => {
                self.rest = rest;
                Ok(Some((u32::from(tag >> 3), tag & 7)))
            }
            _ => self.long_tag().map(Some),
        }
    }

    /// Number and content of the next field if it is length-delimited and its tag and length take one byte each, as nearly
    /// all do; otherwise reads nothing.
    #[inline]
    pub(crate) fn short_field(&mut self) -> Option<(u32, &'b [u8])> {
        let [tag @ 8..0x80, len @ ..0x80, ref rest @ ..] = *self.rest else { return None };
        if tag & 7 != LENGTH {
            return None;
        }
        let (bytes, rest) = rest.split_at_checked(usize::from(len))?;
        self.rest = rest;
        Some((u32::from(tag >> 3), bytes))
    }

    /// Key and value of the next field, as encoded, if it is a map entry with this tag, of exactly a key and a value of one or two bytes each,
    /// in this order, as nearly all are; otherwise reads nothing. Cost: one load and a comparison for each of the four shapes. Where fewer
    /// than eight bytes are left it reads nothing.
    #[inline]
    pub(super) fn short_entry(&mut self, tag: u8) -> Option<(u32, u32)> {
        let [first, ..] = *self.rest else { return None };
        if first != tag {
            return None;
        }
        let bytes = *self.rest.first_chunk::<8>()?;
        let entry = u64::from_le_bytes(bytes) >> 8;
        let [_, _, _, a, b, c, d, e] = bytes;
        let one = u32::from;
        let two = |low: u8, high: u8| u32::from(low & 0x7f) | u32::from(high) << 7;
        // After the tag, from the lowest byte: the length, 8 (field 1), the key, 16 (field 2), the value; 0x80 is the bit by which a byte
        // goes on in the next.
        let (len, pair) = if entry & 0x0000_0080_ff80_ffff == 0x0000_0000_1000_0804 {
            (6, (one(a), one(c)))
        } else if entry & 0x0000_80ff_8080_ffff == 0x0000_0010_0080_0805 {
            (7, (two(a, b), one(d)))
        } else if entry & 0x0000_8080_ff80_ffff == 0x0000_0080_1000_0805 {
            (7, (one(a), two(c, d)))
        } else if entry & 0x0080_80ff_8080_ffff == 0x0000_8010_0080_0806 {
            (8, (two(a, b), two(d, e)))
        } else {
            return None;
        };
        self.rest = self.rest.get(len..)?;
        Some(pair)
    }

    #[cold]
    fn long_tag(&mut self) -> Result<(u32, u8), DecodeError> {
        let tag = self.varint()?;
        let field = tag >> 3;
        match u32::try_from(field) {
            Ok(field) if (1..=MAX_FIELD).contains(&(tag >> 3)) => Ok((field, tag.to_le_bytes()[0] & 7)),
            _ => Err(DecodeError::IllegalTag(tag)),
        }
    }

    /// A base-128 varint: 1 to 10 bytes, least significant group first.
    ///
    /// Errors: [`Truncated`](DecodeError::Truncated); [`LongVarint`](DecodeError::LongVarint) beyond 10 bytes.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        match *self.rest {
            [byte @ ..0x80, ref rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(byte))
            }
            [low, high @ ..0x80, ref rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0;
        for (i, &byte) in self.rest.iter().take(10).enumerate() {
            // Only one bit of the tenth byte fits; Istio Mixer drops the others, too.
            number |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.rest = self.rest.get(i + 1..).unwrap_or_default();
                return Ok(number);
            }
        }
        Err(if self.rest.len() < 10 { DecodeError::Truncated } else { DecodeError::LongVarint })
    }

    /// A sint32 varint.
    #[inline]
    pub(super) fn zigzag(&mut self) -> Result<i32, DecodeError> {
        // Protobuf truncates to the low 32 bits.
        Ok(zigzag(self.varint()? as u32))
    }

    /// The content of a length-delimited field: a varint length, then that many bytes. Borrowed.
    ///
    /// Errors: those of [`varint`](Self::varint); [`Truncated`](DecodeError::Truncated) if the message ends before.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'b [u8], DecodeError> {
        let len = usize::try_from(self.varint()?).map_err(|_| DecodeError::Truncated)?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// 8 bytes, little-endian: fixed64, sfixed64, or the bits of a double.
    ///
    /// Errors: [`Truncated`](DecodeError::Truncated).
    pub fn fixed64(&mut self) -> Result<u64, DecodeError> {
        let (bytes, rest) = self.rest.split_first_chunk::<8>().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// The value of a 64-bit field, or an error if it has another wire type.
    pub(crate) fn fixed64_of(&mut self, field: u32, wire_type: u8) -> Result<u64, DecodeError> {
        expect(field, wire_type, FIXED64)?;
        self.fixed64()
    }

    /// The value of a varint field, or an error if it has another wire type.
    #[inline]
    pub(crate) fn varint_of(&mut self, field: u32, wire_type: u8) -> Result<u64, DecodeError> {
        expect(field, wire_type, VARINT)?;
        self.varint()
    }

    /// The value of a sint32 field, or an error if it has another wire type.
    #[inline]
    pub(crate) fn zigzag_of(&mut self, field: u32, wire_type: u8) -> Result<i32, DecodeError> {
        expect(field, wire_type, VARINT)?;
        self.zigzag()
    }

    /// The content of a length-delimited field, or an error if it has another wire type.
    #[inline]
    pub fn bytes_of(&mut self, field: u32, wire_type: u8) -> Result<&'b [u8], DecodeError> {
        expect(field, wire_type, LENGTH)?;
        self.bytes()
    }

    /// Skips the value of an unknown field; a group with everything in it.
    ///
    /// Errors: [`Truncated`](DecodeError::Truncated), [`StrayEndGroup`](DecodeError::StrayEndGroup),
    /// [`WrongWireType`](DecodeError::WrongWireType) for wire types 6 and 7.
    #[cold]
    pub fn skip(&mut self, wire_type: u8) -> Result<(), DecodeError> {
        let mut wire_type = wire_type;
        let mut depth = 0usize;
        loop {
            match wire_type {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.fixed64()?),
                LENGTH => drop(self.bytes()?),
                FIXED32 => {
                    self.rest = self.rest.get(4..).ok_or(DecodeError::Truncated)?;
                }
                START_GROUP => depth += 1,
                // compat(1.3): the field number of an end-group tag is not compared with that of its start.
                END_GROUP => depth = depth.checked_sub(1).ok_or(DecodeError::StrayEndGroup)?,
                _ => return Err(DecodeError::WrongWireType { field: 0, wire_type }),
            }
            if depth == 0 {
                return Ok(());
            }
            (_, wire_type) = self.tag()?.ok_or(DecodeError::Truncated)?;
        }
    }
}

/// Decodes zigzag: 0, 1, 2, 3, … become 0, -1, 1, -2, …
#[inline]
pub(crate) fn zigzag(number: u32) -> i32 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[inline]
fn expect(field: u32, wire_type: u8, expected: u8) -> Result<(), DecodeError> {
    if wire_type == expected { Ok(()) } else { Err(DecodeError::WrongWireType { field, wire_type }) }
}
