//! The HPACK decoder alone, for the fuzz target that compares it with another implementation.

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
    /// A valid name.
    Text(Vec<u8>),
    /// An invalid name, which is not stored.
    Forbidden,
}

impl HpackDecoder {
    /// The fields of a block, with `None` for invalid values; `None` if the block does not decode.
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

    /// Size of the dynamic table. Spec: RFC 7541 section 4.1.
    pub fn table_bytes(&self) -> usize {
        self.0.table_bytes()
    }
}
