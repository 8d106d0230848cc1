//! A message of a source as it arrived. What stands beside its resources is decoded; the resources are read one at a time, so that a message
//! never takes much more than its bytes, whatever it consists of.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost::{DecodeError, Message as _};

use super::Refusal;
use crate::grpc::Receivable;
use crate::message;
use crate::resource::Resource;

/// Maximum size of a resource, in bytes as encoded. etcd keeps objects of 1.5 MiB.
const MAX_RESOURCE: usize = 2 << 20;
/// Maximum size of the labels and annotations of a resource, in bytes: as encoded, and [`BYTES_PER_LABEL`] for each. Kubernetes takes
/// annotations of 256 KiB.
const MAX_LABELS: usize = 1 << 20;
/// What a label or an annotation takes beside its text while its resource is read.
const BYTES_PER_LABEL: usize = 128;
/// Maximum size of version, collection and nonce of a message, in bytes: the last requests are kept, which repeat them.
const MAX_HEAD: usize = 64 << 10;
/// Characters of a name that a refusal repeats.
const MAX_SHOWN: usize = 256;
/// Maximum number of names of removed resources in a message.
const MAX_REMOVED: usize = 1 << 20;

/// Field numbers of `Resources`, `Resource` and `Metadata`.
const RESOURCES: u32 = 3;
const REMOVED: u32 = 4;
const METADATA: u32 = 1;
const LABELS: u32 = 4;
const ANNOTATIONS: u32 = 5;

/// What stands beside the resources.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Head {
    #[prost(string, tag = "1")]
    pub(crate) system_version_info: String,
    #[prost(string, tag = "2")]
    pub(crate) collection: String,
    #[prost(string, tag = "5")]
    pub(crate) nonce: String,
    #[prost(bool, tag = "6")]
    pub(crate) incremental: bool,
}

/// What is looked at of every resource before any is read.
#[derive(Clone, PartialEq, prost::Message)]
struct Shape {
    #[prost(message, optional, tag = "1")]
    metadata: Option<MetadataShape>,
    #[prost(message, optional, tag = "2")]
    body: Option<BodyShape>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MetadataShape {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct BodyShape {
    #[prost(string, tag = "1")]
    type_url: String,
}

/// A message of a source.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) head: Head,
    bytes: Bytes,
}

impl Receivable for Arrived {
    fn receive(bytes: Bytes) -> Result<Self, String> {
        let head = Head::decode(bytes.clone()).map_err(|error| error.to_string())?;
        let size = head.system_version_info.len() + head.collection.len() + head.nonce.len();
        match size <= MAX_HEAD {
            true => Ok(Self { head, bytes }),
            false => Err(format!("version, collection and nonce have {size} bytes, more than {MAX_HEAD}")),
        }
    }
}

#[cfg(test)]
impl From<message::Resources> for Arrived {
    fn from(message: message::Resources) -> Self {
        Self::receive(message.encode_to_vec().into()).expect("it is encoded right")
    }
}

impl Arrived {
    /// The names that it removes. Errors: they cannot be decoded, or are too many.
    pub(super) fn removed(&self) -> Result<Vec<String>, Refusal> {
        let mut names = Vec::new();
        for name in Values::of(self.bytes.clone(), REMOVED) {
            let name = name.ok().and_then(|name| String::from_utf8(name.to_vec()).ok());
            names.push(
                name.ok_or_else(|| Refusal::undecodable("the names of removed resources are no texts"))?,
            );
            if names.len() > MAX_REMOVED {
                let message =
                    format!("the message removes more than {MAX_REMOVED} resources: send all that are left");
                return Err(message.into());
            }
        }
        Ok(names)
    }

    /// The resources, and what `seen` makes of their names and versions. None of them is read yet.
    ///
    /// Errors: one has no body, another type than `expected`, or exceeds a bound.
    pub(super) fn resources(
        &self,
        expected: Option<Arc<str>>,
        mut seen: impl FnMut(String, String),
    ) -> Result<ChangedResources, Refusal> {
        let mut count = 0;
        for resource in Values::of(self.bytes.clone(), RESOURCES) {
            let resource = resource.map_err(|error| undecodable(count, &error))?;
            let shape = Shape::decode(resource.clone()).map_err(|error| undecodable(count, &error))?;
            let MetadataShape { name, version } = shape.metadata.unwrap_or_default();
            let shown = beginning(&name);
            let found = shape.body.map(|body| body.type_url);
            let found =
                found.ok_or_else(|| Refusal::undecodable(format!("resource `{shown}` has no body")))?;
            if let Some(expected) = expected.as_deref().filter(|expected| **expected != *found) {
                let found = beginning(&found);
                let message = format!("resource `{shown}` has type `{found}`; expected is `{expected}`");
                return Err(message.into());
            }
            check_size(shown, &resource).map_err(|error| undecodable(count, &error))??;
            seen(name, version);
            count += 1;
        }
        Ok(ChangedResources {
            count,
            of: Resources::Arrived { bytes: self.bytes.clone(), type_url: expected },
        })
    }
}

/// As much of a text as a refusal repeats.
fn beginning(text: &str) -> &str {
    text.char_indices().nth(MAX_SHOWN).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

fn undecodable(index: usize, error: &DecodeError) -> Refusal {
    Refusal::undecodable(format!("resource {} of the message cannot be decoded: {error}", index + 1))
}

/// Errors: metadata that cannot be decoded; within, a resource that is too large to be read.
fn check_size(name: &str, resource: &Bytes) -> Result<Result<(), Refusal>, DecodeError> {
    if resource.len() > MAX_RESOURCE {
        let (size, limit) = (resource.len(), MAX_RESOURCE >> 20);
        let message =
            format!("resource `{name}` has {size} bytes, more than {limit} MiB: divide it into several");
        return Ok(Err(message.into()));
    }
    let (mut size, mut count) = (0, 0);
    for metadata in Values::of(resource.clone(), METADATA) {
        let metadata = metadata?;
        for field in [LABELS, ANNOTATIONS] {
            for entry in Values::of(metadata.clone(), field) {
                size += entry?.len();
                count += 1;
            }
        }
    }
    size += count * BYTES_PER_LABEL;
    if size <= MAX_LABELS {
        return Ok(Ok(()));
    }
    let limit = MAX_LABELS >> 20;
    Ok(Err(format!(
        "resource `{name}` has {count} labels and annotations that take {size} bytes, of which each counts {BYTES_PER_LABEL} beside its \
         text, more than {limit} MiB: remove those that nothing reads"
    )
    .into()))
}

/// The resources of a change, in the order of their message. They are decoded one at a time, when they are iterated over: an error is one that
/// cannot be.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedResources {
    count: usize,
    of: Resources,
}

#[derive(Debug, Clone, PartialEq)]
enum Resources {
    Read(Vec<Resource>),
    Arrived { bytes: Bytes, type_url: Option<Arc<str>> },
}

impl ChangedResources {
    /// Number of resources.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl From<Vec<Resource>> for ChangedResources {
    fn from(resources: Vec<Resource>) -> Self {
        Self { count: resources.len(), of: Resources::Read(resources) }
    }
}

impl IntoIterator for ChangedResources {
    type Item = Result<Resource, Refusal>;
    type IntoIter = Box<dyn Iterator<Item = Result<Resource, Refusal>> + Send>;

    fn into_iter(self) -> Self::IntoIter {
        match self.of {
            Resources::Read(resources) => Box::new(resources.into_iter().map(Ok)),
            Resources::Arrived { bytes, type_url } => {
                let values = Values::of(bytes, RESOURCES).enumerate();
                Box::new(values.map(move |(index, bytes)| {
                    let message = bytes.and_then(message::Resource::decode);
                    let message = message.map_err(|error| undecodable(index, &error))?;
                    let mut resource = Resource::of_message(message).map_err(Refusal::undecodable)?;
                    if let Some(known) = type_url.as_ref().filter(|known| ***known == *resource.type_url) {
                        resource.type_url = Arc::clone(known);
                    }
                    Ok(resource)
                }))
            }
        }
    }
}

/// The values of a field whose values have a length, of an encoded message. Ends at the first error.
struct Values {
    rest: Bytes,
    field: u32,
}

impl Values {
    fn of(message: Bytes, field: u32) -> Self {
        Self { rest: message, field }
    }

    fn find(&mut self) -> Result<Option<Bytes>, DecodeError> {
        while self.rest.has_remaining() {
            let (field, wire_type) = decode_key(&mut self.rest)?;
            if field != self.field || wire_type != WireType::LengthDelimited {
                skip_field(wire_type, field, &mut self.rest, DecodeContext::default())?;
                continue;
            }
            let mut length = self.rest.clone();
            let size = usize::try_from(decode_varint(&mut length)?).unwrap_or(usize::MAX);
            if size <= length.remaining() {
                self.rest = length;
                return Ok(Some(self.rest.split_to(size)));
            }
            // The error of a value that is cut off.
            skip_field(wire_type, field, &mut self.rest, DecodeContext::default())?;
        }
        Ok(None)
    }
}

impl Iterator for Values {
    type Item = Result<Bytes, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.find();
        if found.is_err() {
            self.rest = Bytes::new();
        }
        found.transpose()
    }
}
