//! Field lines, the static table and the dynamic table.

use std::collections::VecDeque;
use std::sync::LazyLock;

use http::{HeaderName, HeaderValue};

/// Overhead of an entry. Spec: RFC 7541 section 4.1.
const OVERHEAD: usize = 32;

/// A field name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Name {
    /// `:method`.
    Method,
    /// `:scheme`.
    Scheme,
    /// `:authority`.
    Authority,
    /// `:path`.
    Path,
    /// Another pseudo-header field or an invalid name.
    Forbidden,
    /// A regular field.
    Header(HeaderName),
}

impl Name {
    pub(super) fn of(text: &[u8]) -> Name {
        match text {
            b":method" => Name::Method,
            b":scheme" => Name::Scheme,
            b":authority" => Name::Authority,
            b":path" => Name::Path,
            // Upper case is malformed.
            _ => HeaderName::from_lowercase(text).map_or(Name::Forbidden, Name::Header),
        }
    }
}

/// A field line.
#[derive(Debug, Clone)]
pub(in super::super) struct Field {
    pub(in super::super) name: Name,
    /// `None` for an invalid value.
    pub(in super::super) value: Option<HeaderValue>,
    /// Size for the dynamic table and the header list limit.
    pub(in super::super) size: usize,
    name_len: usize,
}

impl Field {
    pub(super) fn new(name: Name, name_len: usize, value: &[u8]) -> Field {
        let size = name_len + value.len() + OVERHEAD;
        Field { name, value: HeaderValue::from_bytes(value).ok(), size, name_len }
    }

    /// Length of the name.
    pub(super) fn name_len(&self) -> usize {
        self.name_len
    }
}

/// The first index of a name in the static table.
pub(super) fn static_name(name: &[u8]) -> Option<usize> {
    STATIC_TEXTS.iter().position(|(known, _)| known.as_bytes() == name).map(|position| position + 1)
}

/// The static table, from index 1. Spec: RFC 7541 appendix A.
static STATIC: LazyLock<Vec<Field>> = LazyLock::new(|| {
    STATIC_TEXTS
        .iter()
        .map(|(name, value)| Field::new(Name::of(name.as_bytes()), name.len(), value.as_bytes()))
        .collect()
});

const STATIC_TEXTS: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The dynamic table of the decoder.
#[derive(Debug)]
pub(super) struct DynamicTable {
    /// Newest first.
    fields: VecDeque<Field>,
    size: usize,
    max_size: usize,
    /// Number of changes.
    pub(super) changes: u64,
}

impl DynamicTable {
    pub(super) fn new(max_size: usize) -> Self {
        Self { fields: VecDeque::new(), size: 0, max_size, changes: 0 }
    }

    /// Size of all entries in bytes.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.fields.capacity() * size_of::<Field>() + self.size
    }

    /// Applies a size update.
    pub(super) fn set_max_size(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.changes += 1;
        self.make_room(0);
    }

    pub(super) fn insert(&mut self, field: Field) {
        self.changes += 1;
        self.make_room(field.size);
        // An entry larger than the table empties it.
        if field.size <= self.max_size {
            self.size += field.size;
            self.fields.push_front(field);
        }
    }

    fn make_room(&mut self, room: usize) {
        while self.size + room > self.max_size
            && let Some(oldest) = self.fields.pop_back()
        {
            self.size -= oldest.size;
        }
    }
}

/// The field line at an index.
pub(super) fn look_up(index: usize, dynamic: &DynamicTable) -> Option<&Field> {
    let index = index.checked_sub(1)?;
    STATIC.get(index).or_else(|| dynamic.fields.get(index.checked_sub(STATIC_TEXTS.len())?))
}
