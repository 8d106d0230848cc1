//! The decoder by itself, for the fuzz target that compares it with another one.

use super::{Decoder, Name};

/// The decoder of one connection.
#[derive(Debug)]
pub struct HpackDecoder(Decoder);

impl Default for HpackDecoder {
    fn default() -> Self {
        Self(Decoder::new())
    }
}

/// The name of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FuzzedName {
    /// A name that a request may have.
    Text(Vec<u8>),
    /// Another one, which is not kept.
    Forbidden,
}

impl HpackDecoder {
    /// The fields of a block, the values `None` that no field may have; `None` for a block that does not decode.
    pub fn decode(&mut self, block: &[u8]) -> Option<Vec<(FuzzedName, Option<Vec<u8>>)>> {
        let mut fields = Vec::new();
        let decoded = self.0.decode(block, |field| {
            let name = match &field.name {
                Name::Method => FuzzedName::Text(b":method".to_vec()),
                Name::Scheme => FuzzedName::Text(b":scheme".to_vec()),
                Name::Authority => FuzzedName::Text(b":authority".to_vec()),
                Name::Path => FuzzedName::Text(b":path".to_vec()),
                Name::Forbidden => FuzzedName::Forbidden,
                Name::Header(name) => FuzzedName::Text(name.as_str().as_bytes().to_vec()),
            };
            fields.push((name, field.value.as_ref().map(|value| value.as_bytes().to_vec())));
        });
        decoded.ok().map(|()| fields)
    }

    /// Bytes of the dynamic table as RFC 7541 section 4.1 counts them.
    pub fn table_bytes(&self) -> usize {
        self.0.table_bytes()
    }
}
