//! The bytes of a message that is being received.

use bytes::{Bytes, BytesMut};

use super::framing::PREFIX;
use super::{Code, GrpcError};
use mixer_base::memory::OWN_PAGES;
use mixer_base::pages::Pages;

/// Longest message after which the buffer is used again. A stream may be open for days: the buffer of a longer one is freed with it. The
/// request of a unary call that is longer has memory of its own, and not more than it needs.
pub(crate) const MAX_REUSED: usize = 64 << 10;

/// How much of a very long message must have arrived before it gets pages of its own, in bytes.
const GOOD_PART: usize = OWN_PAGES / 8;

/// Received bytes: the prefix and what has arrived of the message, and on a stream of what follows.
///
/// The prefix is a claim: memory is reserved for what arrives. Only a message that says to be very long gets pages of its own, once a good
/// part has arrived: what is still short is cheap to move there, and it grows there without copies.
pub(super) enum Received {
    Short(BytesMut),
    Long(Pages),
}

impl Received {
    pub(super) fn new() -> Self {
        Self::Short(BytesMut::new())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(bytes) => bytes,
            Self::Long(pages) => pages.as_ref(),
        }
    }

    /// The first two parts of a message; most have no more.
    ///
    /// Errors: as [`append`](Self::append).
    pub(super) fn of(first: &[u8], second: &[u8]) -> Result<Self, GrpcError> {
        let mut received = Self::Short(BytesMut::with_capacity(first.len() + second.len()));
        received.append(first)?;
        received.append(second)?;
        Ok(received)
    }

    /// Errors: RESOURCE_EXHAUSTED if no address space is left.
    pub(super) fn append(&mut self, data: &[u8]) -> Result<(), GrpcError> {
        if let Self::Short(bytes) = self {
            let arrived = bytes.len() + data.len();
            let is_long = arrived > bytes.capacity()
                && arrived >= GOOD_PART
                && expected_length(bytes).is_some_and(|length| length > OWN_PAGES);
            if !is_long {
                bytes.extend_from_slice(data);
                return Ok(());
            }
            let mut pages = Pages::new().map_err(no_memory)?;
            pages.append(bytes, 0).map_err(no_memory)?;
            *self = Self::Long(pages);
        }
        let most = expected_length(self.bytes()).unwrap_or_default();
        match self {
            Self::Long(pages) => pages.append(data, most).map_err(no_memory),
            Self::Short(_) => Ok(()),
        }
    }

    /// Takes the first `length` bytes, of which all have arrived.
    pub(super) fn take(&mut self, length: usize) -> Bytes {
        match std::mem::replace(self, Self::new()) {
            Self::Short(bytes) if length > MAX_REUSED && bytes.len() == length => {
                // In place: nobody else has a part of it.
                let mut bytes = Vec::from(bytes);
                bytes.shrink_to_fit();
                Bytes::from(bytes)
            }
            Self::Short(mut bytes) => {
                let message = bytes.split_to(length);
                // What follows would keep the memory of the whole message.
                if length > MAX_REUSED && bytes.len() <= MAX_REUSED {
                    bytes = BytesMut::from(&*bytes);
                }
                *self = Self::Short(bytes);
                message.freeze()
            }
            Self::Long(pages) => {
                let rest = pages.as_ref().get(length..).unwrap_or_default();
                *self = Self::Short(BytesMut::from(rest));
                Bytes::from_owner(pages).slice(..length)
            }
        }
    }

    /// All that has arrived.
    pub(super) fn into_bytes(mut self) -> Bytes {
        self.take(self.bytes().len())
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        match self {
            Self::Short(bytes) => bytes.capacity(),
            Self::Long(pages) => pages.capacity(),
        }
    }
}

/// Length of prefix and message, once the prefix is complete.
pub(super) fn expected_length(framed: &[u8]) -> Option<usize> {
    let [_, a, b, c, d, ..] = *framed else { return None };
    Some(PREFIX + u32::from_be_bytes([a, b, c, d]) as usize)
}

fn no_memory(error: impl std::fmt::Display) -> GrpcError {
    GrpcError::new(Code::ResourceExhausted, format!("no memory for a message of this length: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of this length with its prefix.
    fn framed(length: u32) -> Vec<u8> {
        let mut framed = vec![0];
        framed.extend(length.to_be_bytes());
        framed.extend((0..length).map(|i| (i % 251) as u8));
        framed
    }

    #[test]
    fn long_messages_arrive_whole_and_leave_what_follows() {
        for (length, is_long) in [(100, false), (1 << 20, false), (3 << 20, true), (8 << 20, true)] {
            let first = framed(length);
            let both = [first.clone(), framed(70_000)].concat();
            let mut received = Received::new();
            let mut taken = Vec::new();
            for part in both.chunks(16 << 10) {
                received.append(part).unwrap();
                if let Some(length) = expected_length(received.bytes())
                    && received.bytes().len() >= length
                {
                    assert_eq!(
                        matches!(received, Received::Long(_)),
                        taken.is_empty() && is_long,
                        "{length}"
                    );
                    taken.push(received.take(length));
                }
            }
            assert_eq!(taken.len(), 2, "{length}");
            assert!(taken[0] == first, "{length}");
            assert!(taken[1] == framed(70_000), "{length}");
            assert!(received.into_bytes().is_empty());
        }
    }

    #[test]
    fn pages_are_for_what_arrived() {
        let mut received = Received::new();
        received.append(&framed(8 << 20)[..GOOD_PART - 1]).unwrap();
        assert!(matches!(received, Received::Short(_)), "a claim reserves nothing");
    }
}
