//! Header fields, and the fields that both sides know without being told.

use std::collections::VecDeque;
use std::sync::LazyLock;

use http::{HeaderName, HeaderValue};

/// What a field counts for besides its text. Spec: RFC 7541 section 4.1.
const OVERHEAD: usize = 32;

/// The name of a field.
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
    /// Another pseudo header, or a name that no field of a request may have.
    Forbidden,
    /// An ordinary name.
    Header(HeaderName),
}

impl Name {
    pub(super) fn of(text: &[u8]) -> Name {
        match text {
            b":method" => Name::Method,
            b":scheme" => Name::Scheme,
            b":authority" => Name::Authority,
            b":path" => Name::Path,
            // Upper case is forbidden.
            _ => HeaderName::from_lowercase(text).map_or(Name::Forbidden, Name::Header),
        }
    }
}

/// A header field.
#[derive(Debug, Clone)]
pub(in super::super) struct Field {
    pub(in super::super) name: Name,
    /// `None` for a value that no field may have.
    pub(in super::super) value: Option<HeaderValue>,
    /// As it counts for the dynamic table and for the limit of a header list.
    pub(in super::super) size: usize,
    name_len: usize,
}

impl Field {
    pub(super) fn new(name: Name, name_len: usize, value: &[u8]) -> Field {
        let size = name_len + value.len() + OVERHEAD;
        Field { name, value: HeaderValue::from_bytes(value).ok(), size, name_len }
    }

    /// Bytes of the name.
    pub(super) fn name_len(&self) -> usize {
        self.name_len
    }
}

/// The first index of a name in the static table.
pub(super) fn static_name(name: &[u8]) -> Option<usize> {
    STATIC_TEXTS.iter().position(|(known, _)| known.as_bytes() == name).map(|position| position + 1)
}

/// The fields of RFC 7541 appendix A, from index 1.
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

/// The fields that this side was told to remember.
#[derive(Debug)]
pub(super) struct DynamicTable {
    /// The newest first.
    fields: VecDeque<Field>,
    size: usize,
    max_size: usize,
    /// Counts every change.
    pub(super) changes: u64,
}

impl DynamicTable {
    pub(super) fn new(max_size: usize) -> Self {
        Self { fields: VecDeque::new(), size: 0, max_size, changes: 0 }
    }

    /// Bytes of all fields, each with its overhead.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Makes it smaller or larger.
    pub(super) fn set_max_size(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.changes += 1;
        self.make_room(0);
    }

    pub(super) fn insert(&mut self, field: Field) {
        self.changes += 1;
        self.make_room(field.size);
        // One that is larger than the table empties it and stays out.
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

/// The field of an index; `None` if there is none.
pub(super) fn look_up(index: usize, dynamic: &DynamicTable) -> Option<&Field> {
    let index = index.checked_sub(1)?;
    STATIC.get(index).or_else(|| dynamic.fields.get(index.checked_sub(STATIC_TEXTS.len())?))
}
