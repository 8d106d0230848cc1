//! Messages as bytes: what is equal for all sinks is encoded once, and what differs stands before it.

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{encode_varint, encoded_len_varint};

use mixer_base::time::Timestamp;

use crate::resource::Resource;

/// Fields of `Resources`, by number.
const VERSION: u32 = 1;
const COLLECTION: u32 = 2;
const RESOURCES: u32 = 3;
const REMOVED: u32 = 4;
const NONCE: u32 = 5;
const INCREMENTAL: u32 = 6;

/// The fields of a message that differ between the protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `Resources`.
    Resources,
    /// `MeshConfigResponse`, of releases 1.0 and 1.1.
    Aggregated,
}

/// What a message says beside its resources.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'h> {
    pub(crate) version: &'h str,
    /// The collection, or its type URL.
    pub(crate) collection: &'h str,
    pub(crate) nonce: &'h str,
    pub(crate) incremental: bool,
    /// Names of removed resources that are not in what sinks share.
    pub(crate) removed: &'h [&'h str],
}

impl Dialect {
    fn resources(self) -> u32 {
        match self {
            Dialect::Resources => RESOURCES,
            Dialect::Aggregated => 2,
        }
    }

    /// The beginning of a message. Fields of a message may stand in any order.
    pub(crate) fn head(self, head: &Head<'_>) -> Bytes {
        let mut out =
            BytesMut::with_capacity(head.version.len() + head.collection.len() + head.nonce.len() + 20);
        let (collection, nonce) = match self {
            Dialect::Resources => (COLLECTION, NONCE),
            Dialect::Aggregated => (3, 4),
        };
        put_text(&mut out, VERSION, head.version);
        put_text(&mut out, collection, head.collection);
        put_text(&mut out, nonce, head.nonce);
        if head.incremental && self == Dialect::Resources {
            put_key(&mut out, INCREMENTAL, 0);
            out.put_u8(1);
            put_removed(&mut out, head.removed.iter().copied());
        }
        out.freeze()
    }

    /// The resources of a message.
    pub(crate) fn resources_of<'r>(self, resources: impl Iterator<Item = &'r Resource> + Clone) -> BytesMut {
        let field = self.resources();
        let size = resources.clone().map(|resource| framed(field, resource_size(resource))).sum();
        let mut out = BytesMut::with_capacity(size);
        for resource in resources {
            put_resource(&mut out, field, resource);
        }
        debug_assert_eq!(out.len(), size, "the sizes are those of what is written");
        out
    }
}

/// Appends names of removed resources.
pub(crate) fn put_removed<'n>(out: &mut BytesMut, names: impl Iterator<Item = &'n str>) {
    for name in names {
        put_key(out, REMOVED, 2);
        put_bytes(out, name.as_bytes());
    }
}

fn put_key(out: &mut BytesMut, field: u32, wire_type: u32) {
    encode_varint(u64::from(field << 3 | wire_type), out);
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    encode_varint(bytes.len() as u64, out);
    out.put_slice(bytes);
}

/// A text, unless it is empty.
fn put_text(out: &mut BytesMut, field: u32, text: &str) {
    if !text.is_empty() {
        put_key(out, field, 2);
        put_bytes(out, text.as_bytes());
    }
}

/// The size of a field of `length` bytes; all numbers of fields here take one byte.
fn framed(_field: u32, length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

fn text_size(field: u32, text: &str) -> usize {
    if text.is_empty() { 0 } else { framed(field, text.len()) }
}

fn entry_size(key: &str, value: &str) -> usize {
    text_size(1, key) + text_size(2, value)
}

fn number_size(value: i64) -> usize {
    // Negative numbers take ten bytes.
    if value == 0 { 0 } else { 1 + encoded_len_varint(value.cast_unsigned()) }
}

fn time_size(time: Timestamp) -> usize {
    number_size(time.seconds) + number_size(i64::from(time.nanos))
}

fn metadata_size(resource: &Resource) -> usize {
    let maps = [(4, &resource.labels), (5, &resource.annotations)].map(|(field, map)| {
        map.iter().map(|(key, value)| framed(field, entry_size(key, value))).sum::<usize>()
    });
    text_size(1, &resource.name)
        + resource.create_time.map_or(0, |time| framed(2, time_size(time)))
        + text_size(3, &resource.version)
        + maps.iter().sum::<usize>()
}

fn body_size(resource: &Resource) -> usize {
    let value = if resource.body.is_empty() { 0 } else { framed(2, resource.body.len()) };
    text_size(1, &resource.type_url) + value
}

fn resource_size(resource: &Resource) -> usize {
    framed(1, metadata_size(resource)) + framed(2, body_size(resource))
}

fn put_resource(out: &mut BytesMut, field: u32, resource: &Resource) {
    put_key(out, field, 2);
    encode_varint(resource_size(resource) as u64, out);
    put_key(out, 1, 2);
    encode_varint(metadata_size(resource) as u64, out);
    put_text(out, 1, &resource.name);
    if let Some(time) = resource.create_time {
        put_key(out, 2, 2);
        encode_varint(time_size(time) as u64, out);
        put_number(out, 1, time.seconds);
        put_number(out, 2, i64::from(time.nanos));
    }
    put_text(out, 3, &resource.version);
    for (field, map) in [(4, &resource.labels), (5, &resource.annotations)] {
        for (key, value) in map {
            put_key(out, field, 2);
            encode_varint(entry_size(key, value) as u64, out);
            put_text(out, 1, key);
            put_text(out, 2, value);
        }
    }
    put_key(out, 2, 2);
    encode_varint(body_size(resource) as u64, out);
    put_text(out, 1, &resource.type_url);
    if !resource.body.is_empty() {
        put_key(out, 2, 2);
        put_bytes(out, &resource.body);
    }
}

fn put_number(out: &mut BytesMut, field: u32, value: i64) {
    if value != 0 {
        put_key(out, field, 0);
        encode_varint(value.cast_unsigned(), out);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prost::Message as _;

    use super::*;
    use crate::message::{self, MeshConfigResponse, Resources};

    fn resource() -> Resource {
        Resource {
            create_time: Some(Timestamp { seconds: -5, nanos: 7 }),
            labels: BTreeMap::from([("a".to_owned(), "b".to_owned()), ("empty".to_owned(), String::new())]),
            annotations: BTreeMap::from([(String::new(), "x".repeat(300))]),
            ..Resource::new("ns/one", "v1", "type.googleapis.com/a.B", vec![1_u8; 200])
        }
    }

    #[test]
    fn messages_are_those_of_the_generated_types() {
        let plain = Resource::new("two", "", "t", "");
        let all = [resource(), plain.clone()];
        let head = Head { version: "7", collection: "c", nonce: "1", incremental: true, removed: &["gone"] };
        let mut bytes = BytesMut::from(&*Dialect::Resources.head(&head));
        bytes.extend_from_slice(&Dialect::Resources.resources_of(all.iter()));
        put_removed(&mut bytes, ["x", ""].into_iter());
        let decoded = Resources::decode(bytes.freeze()).unwrap();
        let expected = Resources {
            system_version_info: "7".to_owned(),
            collection: "c".to_owned(),
            resources: all.iter().map(Resource::to_message).collect(),
            removed_resources: vec!["gone".to_owned(), "x".to_owned(), String::new()],
            nonce: "1".to_owned(),
            incremental: true,
        };
        assert_eq!(decoded, expected);
        let back: Vec<_> = decoded.resources.into_iter().map(|r| Resource::of_message(r).unwrap()).collect();
        assert_eq!(back, all);
    }

    #[test]
    fn messages_of_the_aggregated_service_have_other_numbers() {
        let head = Head { version: "7", collection: "t", nonce: "1", incremental: false, removed: &[] };
        let mut bytes = BytesMut::from(&*Dialect::Aggregated.head(&head));
        bytes.extend_from_slice(&Dialect::Aggregated.resources_of([resource()].iter()));
        let decoded = MeshConfigResponse::decode(bytes.freeze()).unwrap();
        assert_eq!((decoded.type_url.as_str(), decoded.version_info.as_str()), ("t", "7"));
        assert_eq!((decoded.nonce.as_str(), decoded.resources), ("1", vec![resource().to_message()]));
    }

    #[test]
    fn the_year_one_is_no_time() {
        let mut message = resource().to_message();
        let year_one = message::google::protobuf::Timestamp { seconds: -62_135_596_800, nanos: 0 };
        message.metadata.as_mut().unwrap().create_time = Some(year_one);
        assert_eq!(Resource::of_message(message).unwrap().create_time, None);
    }
}
