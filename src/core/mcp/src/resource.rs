//! One resource of a collection.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use mixer_base::shared_map::Keyed;
use mixer_base::time::Timestamp;

use crate::message::{self, google::protobuf};

/// One resource. Equal content has an equal version; another version means another content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// `namespace/name`, or `name` without a namespace.
    pub name: Box<str>,
    /// Opaque.
    pub version: Box<str>,
    /// When it was created, if that is known.
    pub create_time: Option<Timestamp>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// `type.googleapis.com/MESSAGE`.
    pub type_url: Arc<str>,
    /// The message, encoded.
    pub body: Bytes,
}

impl Resource {
    /// A resource without creation time, labels and annotations.
    pub fn new(name: &str, version: &str, type_url: impl Into<Arc<str>>, body: impl Into<Bytes>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            create_time: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            type_url: type_url.into(),
            body: body.into(),
        }
    }

    /// Namespace, empty without one, and name: divided at the last `/`.
    pub fn namespace_and_name(&self) -> (&str, &str) {
        self.name.rsplit_once('/').unwrap_or(("", &self.name))
    }
}

impl Resource {
    /// As a message of the protocol.
    pub fn to_message(&self) -> message::Resource {
        let create_time = self.create_time.map(|time| protobuf::Timestamp {
            seconds: time.seconds,
            nanos: i32::try_from(time.nanos).unwrap_or(0),
        });
        let metadata = message::Metadata {
            name: self.name.to_string(),
            create_time,
            version: self.version.to_string(),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
        };
        let body = protobuf::Any { type_url: self.type_url.to_string(), value: self.body.clone() };
        message::Resource { metadata: Some(metadata), body: Some(body) }
    }

    /// Of a message of the protocol. The body is copied: it does not keep the message that it came with.
    ///
    /// Errors: the resource has no body.
    pub fn of_message(resource: message::Resource) -> Result<Self, String> {
        let metadata = resource.metadata.unwrap_or_default();
        let Some(body) = resource.body else {
            return Err(format!("resource `{}` has no body", metadata.name));
        };
        let create_time = metadata.create_time.map(|time| Timestamp {
            seconds: time.seconds,
            nanos: u32::try_from(time.nanos).unwrap_or(0).min(999_999_999),
        });
        Ok(Self {
            name: metadata.name.into(),
            version: metadata.version.into(),
            // compat(1.3): what Go writes for none.
            create_time: create_time.filter(|time| *time != Timestamp::YEAR_ONE),
            labels: metadata.labels,
            annotations: metadata.annotations,
            type_url: body.type_url.into(),
            body: Bytes::copy_from_slice(&body.value),
        })
    }
}

impl Keyed for Resource {
    type Key = str;

    fn key(&self) -> &str {
        &self.name
    }
}
