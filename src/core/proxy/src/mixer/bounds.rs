//! What a server takes of a request. What is beyond is refused here: a server would refuse it, too, and a client could choose that.

use mixer_attribute::{OwnedAttributes, OwnedValue};

/// Most query parameters of a request.
pub(super) const MAX_PARAMETERS: usize = 1000;
/// Most words, values and map entries of the attributes of a request. `mixer server` takes 4096.
const MAX_ELEMENTS: usize = 4000;
/// Most bytes of the texts of the attributes of a request; a text counts as often as it occurs. `mixer server` takes 1 MiB, and messages of as
/// much.
pub(super) const MAX_BYTES: usize = 512 << 10;
/// What a client chooses of the attributes, the largest first.
const CHOSEN: [&str; 8] = [
    "request.headers",
    "request.query_params",
    "response.headers",
    "request.path",
    "request.url_path",
    "request.host",
    "request.useragent",
    "request.referer",
];

/// What is too much of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excess {
    Parameters,
    Elements,
    Bytes,
}

impl Excess {
    /// The status of HTTP.
    pub(super) fn status(self) -> u16 {
        if self == Excess::Parameters { 414 } else { 431 }
    }

    /// The details of the response code.
    pub(super) fn details(self) -> &'static str {
        if self == Excess::Parameters { "mixer_query_too_long" } else { "mixer_attributes_too_large" }
    }

    /// The message of the refusal.
    pub(super) fn message(self) -> String {
        match self {
            Excess::Parameters => format!("the query has more than {MAX_PARAMETERS} parameters"),
            Excess::Elements => format!(
                "the attributes of the request have more than {MAX_ELEMENTS} words, values and map entries: send fewer headers and parameters"
            ),
            Excess::Bytes => format!(
                "the attributes of the request have more than {MAX_BYTES} bytes: send shorter headers, or a shorter path"
            ),
        }
    }
}

/// The size of attributes as a server counts it, or more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Words, values and map entries, as if no word occurred twice.
    elements: usize,
    /// Bytes of texts.
    bytes: usize,
}

impl Size {
    pub(super) fn of(attributes: &OwnedAttributes) -> Self {
        let mut size = Self::default();
        for (name, value) in attributes.iter() {
            size.add(2, name.len());
            match value {
                OwnedValue::String(text) => size.add(1, text.len()),
                OwnedValue::Bytes(bytes) => size.add(0, bytes.len()),
                OwnedValue::StringMap(map) => {
                    map.iter().for_each(|(key, value)| size.add(3, key.len() + value.len()));
                }
                _ => {}
            }
        }
        size
    }

    fn add(&mut self, elements: usize, bytes: usize) {
        self.elements += elements;
        self.bytes += bytes;
    }

    /// What is too much.
    pub(super) fn excess(self) -> Option<Excess> {
        if self.elements > MAX_ELEMENTS {
            Some(Excess::Elements)
        } else {
            (self.bytes > MAX_BYTES).then_some(Excess::Bytes)
        }
    }

    /// The memory of the attributes and of a message of them, about, in bytes.
    pub(super) fn memory(self) -> usize {
        2 * self.bytes + 64 * self.elements
    }
}

/// Removes from attributes that are too large what a client chooses, until they are not.
pub(super) fn trim(attributes: &mut OwnedAttributes) {
    for name in CHOSEN {
        if Size::of(attributes).excess().is_none() {
            return;
        }
        attributes.remove(name);
    }
}
