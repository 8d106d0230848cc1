//! Tools that read once what a source has, and serve none of it.
//!
//! Their node says so, in an annotation. A source serves them as any sink; who waits for sinks does not wait for them, and they are not
//! remembered once they have gone.

use std::collections::BTreeMap;

use crate::message::SinkNode;

/// The annotation of the node of a reader.
const READER: &str = "mixer.dev/reader";

/// The node of a reader of this name, for example `mixer doctor`.
pub fn reader(name: &str) -> SinkNode {
    SinkNode { id: name.to_owned(), annotations: BTreeMap::from([(READER.to_owned(), "true".to_owned())]) }
}

pub(crate) fn is_reader(node: &SinkNode) -> bool {
    node.annotations.get(READER).is_some_and(|value| value == "true")
}
