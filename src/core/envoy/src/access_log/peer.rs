//! Workloads of peers, as the peer metadata filters of Istio report them.

use super::super::attributes::{Attributes, Known};
use super::super::identity::{Side, namespace_of, without_scheme};
use super::super::metadata::{Field, field, flat, text};
use super::super::wire::FieldBudget;
use mixer_attribute::DecodeError;

/// Sets the attributes of a peer: an Any with a Struct, or with a BytesValue that holds one.
pub(super) fn set<'a>(
    side: Side,
    any: &'a [u8],
    budget: &FieldBudget,
    out: &mut Attributes<'a>,
) -> Result<(), DecodeError> {
    use Known::*;
    let (url, value) = budget.map_entry(any)?;
    let mut body = value;
    if url.ends_with(b"google.protobuf.BytesValue") {
        budget.each_bytes(value, |number, bytes| {
            if number == 1 {
                body = bytes;
            }
            Ok(())
        })?;
    }
    budget.take_struct(body)?;
    let [name, namespace, workload, workload_namespace, labels, principal, rest] = match side {
        Side::Source => [
            SourceName,
            SourceNamespace,
            SourceWorkloadName,
            SourceWorkloadNamespace,
            SourceLabels,
            SourcePrincipal,
            DownstreamPeer,
        ],
        Side::Destination => [
            DestinationName,
            DestinationNamespace,
            DestinationWorkloadName,
            DestinationWorkloadNamespace,
            DestinationLabels,
            DestinationPrincipal,
            UpstreamPeer,
        ],
    };
    out.some_text(name, text(body, b"name").unwrap_or_default());
    out.some_text(workload, text(body, b"workload").unwrap_or_default());
    if let Some(text) = text(body, b"namespace") {
        out.text(namespace, text);
        out.text(workload_namespace, text);
    }
    if side == Side::Destination {
        out.some_text(DestinationServiceName, text(body, b"service").unwrap_or_default());
    }
    if let Some(identity) = text(body, b"identity")
        && out.get(principal).is_none()
    {
        set_identity(side, without_scheme(identity), out);
    }
    if let Some(Field::Struct(fields)) = field(body, b"labels") {
        let entries = flat(fields, out.arena());
        if !entries.is_empty() {
            out.map(labels, entries);
        }
    }
    let known: &[&[u8]] = match side {
        Side::Source => &[b"name", b"workload", b"namespace", b"identity"],
        Side::Destination => &[b"name", b"workload", b"namespace", b"identity", b"service"],
    };
    let mut others = flat(body, out.arena());
    others.retain(|(key, _)| !known.contains(key));
    if !others.is_empty() {
        out.map(rest, others);
    }
    Ok(())
}

/// Sets a principal; keeps a namespace that is set.
fn set_identity<'a>(side: Side, identity: &'a [u8], out: &mut Attributes<'a>) {
    let has_namespace = out.get(Known::SourceNamespace).is_some();
    match side {
        Side::Source => {
            out.text(Known::SourcePrincipal, identity);
            out.text(Known::SourceUser, identity);
            if let Some(text) = namespace_of(identity).filter(|_| !has_namespace) {
                out.text(Known::SourceNamespace, text);
            }
        }
        Side::Destination => out.text(Known::DestinationPrincipal, identity),
    }
}
