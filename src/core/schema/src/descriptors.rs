//! Descriptors of the messages that resources have as bodies.

use std::sync::OnceLock;

use prost_reflect::{DescriptorPool, MessageDescriptor};

static DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The descriptor of a message by its full name; `None` for messages that no resource has.
///
/// Cost: the first call decodes the descriptors of all messages.
pub(crate) fn message(name: &str) -> Option<MessageDescriptor> {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    // The descriptors are those that this crate was built from; a test decodes them.
    POOL.get_or_init(|| DescriptorPool::decode(DESCRIPTORS).unwrap_or_default()).get_message_by_name(name)
}

#[cfg(test)]
mod tests {
    use crate::kinds::{analyzed_kinds, kinds};

    #[test]
    fn every_kind_has_a_message() {
        for kind in kinds().iter().chain(analyzed_kinds()) {
            assert!(super::message(kind.message).is_some(), "{}", kind.message);
        }
    }
}
