//! The proxy that sends access logs.

use super::attributes::{Attributes, Known};
use super::identity::Side;
use super::metadata::{Field, field, fields, text};
use super::wire::{FieldBudget, FieldValue, each_bytes, each_field, numbered};
use mixer_attribute::DecodeError;

/// Longest text of an identity in bytes. Longer ones are cut: a stream keeps its identity while it is open.
const MAX_TEXT: usize = 1024;
/// Most labels of an identity.
const MAX_LABELS: usize = 64;

/// The identifier of a stream of access logs, from its first message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogIdentity {
    pub(super) log_name: Vec<u8>,
    id: Vec<u8>,
    uid: Vec<u8>,
    name: Vec<u8>,
    namespace: Vec<u8>,
    labels: Vec<(Vec<u8>, Vec<u8>)>,
    workload: Vec<u8>,
    workload_uid: Vec<u8>,
    version: Vec<u8>,
}

impl LogIdentity {
    /// Decodes a `StreamAccessLogsMessage.Identifier`, without the extensions of the proxy.
    ///
    /// Errors: the bytes are no `Identifier`, or it has too many fields.
    pub fn read(body: &[u8]) -> Result<Self, DecodeError> {
        let (mut node, mut log_name, budget) = (&[][..], &[][..], FieldBudget::default());
        budget.each_bytes(body, |number, bytes| {
            match number {
                1 => node = bytes,
                2 => log_name = bytes,
                _ => {}
            }
            Ok(())
        })?;
        let mut identity = Self { log_name: bounded(log_name), ..Self::default() };
        identity.read_node(node, &budget)?;
        Ok(identity)
    }

    fn read_node(&mut self, node: &[u8], budget: &FieldBudget) -> Result<(), DecodeError> {
        let (mut metadata, mut build, mut id) = (&[][..], None, &[][..]);
        budget.each_bytes(node, |number, bytes| {
            match number {
                1 => id = bytes,
                3 => metadata = bytes,
                8 => build = Some(bytes),
                _ => {}
            }
            Ok(())
        })?;
        budget.take_struct(metadata)?;
        self.id = bounded(id);
        self.name = bounded(text(metadata, b"NAME").unwrap_or_default());
        self.namespace = bounded(text(metadata, b"NAMESPACE").unwrap_or_default());
        if self.name.is_empty() && self.namespace.is_empty() {
            self.name_of_id();
        }
        self.uid = match text(metadata, b"NODE_UID") {
            Some(uid) => bounded(uid),
            None if self.name.is_empty() || self.namespace.is_empty() => Vec::new(),
            None => [b"kubernetes://", &*self.name, b".", &*self.namespace].concat(),
        };
        if let Some(Field::Struct(labels)) = field(metadata, b"LABELS") {
            self.labels = fields(labels)
                .filter_map(|(key, value)| match value {
                    Field::Text(text) => Some((bounded(key), bounded(text))),
                    _ => None,
                })
                .take(MAX_LABELS)
                .collect();
        }
        if let Some(workload) = text(metadata, b"WORKLOAD_NAME") {
            self.workload = bounded(workload);
            self.workload_uid = [b"istio://", &*self.namespace, b"/workloads/", &self.workload].concat();
        }
        self.version = match (text(metadata, b"ISTIO_VERSION"), build) {
            (Some(version), _) => bounded(version),
            (None, Some(build)) => build_version(build)?,
            (None, None) => Vec::new(),
        };
        Ok(())
    }

    /// The id of the proxy, or else name and namespace of its workload; `None` if it tells neither.
    pub(super) fn node(&self) -> Option<std::borrow::Cow<'_, str>> {
        if !self.id.is_empty() {
            return Some(String::from_utf8_lossy(&self.id));
        }
        let text = String::from_utf8_lossy;
        (!self.name.is_empty()).then(|| format!("{}.{}", text(&self.name), text(&self.namespace)).into())
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        let Self { log_name, id, uid, name, namespace, labels, workload, workload_uid, version } = self;
        let texts = [log_name, id, uid, name, namespace, workload, workload_uid, version];
        let labels =
            labels.iter().map(|(key, value)| size_of::<(Vec<u8>, Vec<u8>)>() + key.len() + value.len());
        size_of::<Self>() + texts.iter().map(|text| text.len()).sum::<usize>() + labels.sum::<usize>()
    }

    /// Takes name and namespace from the third part of an id like `sidecar~10.1.2.3~name.namespace~domain`.
    fn name_of_id(&mut self) {
        let Some(part) = self.id.split(|byte| *byte == b'~').nth(2) else { return };
        if let Some(at) = part.iter().position(|byte| *byte == b'.')
            && let Some((name, namespace)) = part.split_at_checked(at)
        {
            (self.name, self.namespace) = (name.to_vec(), namespace.get(1..).unwrap_or_default().to_vec());
        }
    }

    /// Sets the attributes of the proxy, and of the workload on its side.
    pub(super) fn set<'a>(&'a self, side: Side, out: &mut Attributes<'a>) {
        use Known::*;
        out.some_text(ReporterUid, &self.uid);
        out.some_text(ProxyVersion, &self.version);
        out.some_text(NodeId, &self.id);
        let [uid, name, namespace, workload, workload_namespace, workload_uid, labels] = match side {
            Side::Source => [
                SourceUid,
                SourceName,
                SourceNamespace,
                SourceWorkloadName,
                SourceWorkloadNamespace,
                SourceWorkloadUid,
                SourceLabels,
            ],
            Side::Destination => [
                DestinationUid,
                DestinationName,
                DestinationNamespace,
                DestinationWorkloadName,
                DestinationWorkloadNamespace,
                DestinationWorkloadUid,
                DestinationLabels,
            ],
        };
        out.some_text(uid, &self.uid);
        out.some_text(name, &self.name);
        out.some_text(namespace, &self.namespace);
        out.some_text(workload, &self.workload);
        if !self.workload.is_empty() {
            out.some_text(workload_namespace, &self.namespace);
        }
        out.some_text(workload_uid, &self.workload_uid);
        if !self.labels.is_empty() {
            let mut entries = bumpalo::collections::Vec::with_capacity_in(self.labels.len(), out.arena());
            entries.extend(self.labels.iter().map(|(key, value)| (&**key, &**value)));
            out.map(labels, entries);
        }
    }
}

/// A copy of a text, cut between two characters if it is too long.
fn bounded(text: &[u8]) -> Vec<u8> {
    if text.len() <= MAX_TEXT {
        return text.to_vec();
    }
    let is_boundary = |at: &usize| text.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    let end = (0..=MAX_TEXT).rev().find(is_boundary).unwrap_or(0);
    text.get(..end).unwrap_or_default().to_vec()
}

/// `major.minor.patch` of a `BuildVersion`.
fn build_version(build: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut version = None;
    each_bytes(build, |number, bytes| {
        if number == 1 {
            version = Some(bytes);
        }
    })?;
    let Some(version) = version else { return Ok(Vec::new()) };
    let mut numbers = [0; 3];
    each_field(version, |number, value| {
        if let FieldValue::Varint(value) = value
            && let Some(part) = numbered(number, &mut numbers)
        {
            *part = value;
        }
    })?;
    let [major, minor, patch] = numbers;
    Ok(format!("{major}.{minor}.{patch}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_wire::envoy::config::core::v3::Node;
    use mixer_wire::envoy::service::accesslog::v3::stream_access_logs_message::Identifier;
    use prost::Message as _;

    #[test]
    fn texts_of_an_identity_are_cut() {
        let id = "é".repeat(4 << 20);
        let node = Node { id: id.clone(), ..Node::default() };
        let identifier = Identifier { node: Some(node), log_name: format!("a{id}") };
        let identity = LogIdentity::read(&identifier.encode_to_vec()).unwrap();
        assert_eq!((identity.id.len(), identity.log_name.len()), (1024, 1023));
        assert!(std::str::from_utf8(&identity.log_name).is_ok(), "cut between characters");
        assert!(identity.bytes() < 4096, "{} bytes", identity.bytes());
        let short = Identifier { log_name: "log".to_owned(), ..Identifier::default() };
        assert_eq!(LogIdentity::read(&short.encode_to_vec()).unwrap().log_name, b"log");
    }
}
