//! Entries of access logs as attributes. See docs/envoy.md.

mod check_result;
mod codes;
mod common;
mod http;
mod message;
mod peer;
mod tcp;
mod tls;

use super::attributes::{Attributes, Known, set_default_namespace, set_static};
use super::convert::set_all_by_key;
use super::identity::Side;
use super::mapping::{MappingSources, set_mapped};
use super::metadata::set_metadata;
use super::node::LogIdentity;
use super::wire::{FieldBudget, FieldValue, numbered};
use crate::config::{EnvoyConfig, ReporterKind};
use mixer_attribute::DecodeError;

pub use message::{LogEntries, LogKind, LogMessage, LogScan};
pub use tcp::ConnectionCounters;

/// The outcome of setting the attributes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryOutcome {
    /// The attributes are set.
    Set {
        /// Number of values that could not be converted.
        unconvertible: u32,
    },
    /// The configuration does not report entries of this access log type.
    Ignored,
}

/// Sets the attributes of an entry.
///
/// Errors: the bytes are no entry of this kind, or it has too many fields.
pub fn set_entry<'a>(
    (kind, body): (LogKind, &'a [u8]),
    identity: &'a LogIdentity,
    config: &'a EnvoyConfig,
    counters: &mut ConnectionCounters,
    out: &mut Attributes<'a>,
) -> Result<EntryOutcome, DecodeError> {
    let mut parts: [Option<&[u8]>; 4] = [None; 4];
    let (mut protocol, budget) = (0, FieldBudget::default());
    budget.each_field(body, |number, value| {
        match value {
            FieldValue::Bytes(bytes) => {
                if let Some(part) = numbered(number, &mut parts) {
                    *part = Some(bytes);
                }
            }
            FieldValue::Varint(value) if number == 2 => protocol = value,
            _ => {}
        }
        Ok(())
    })?;
    let [common, connection, request, response] = parts;
    let common = common::read(common.unwrap_or_default(), &budget, out)?;
    if common.kind < 64 && config.access_log_types >> common.kind & 1 == 0 {
        return Ok(EntryOutcome::Ignored);
    }
    let log = std::str::from_utf8(&identity.log_name).ok().and_then(|name| config.log_names.get(name));
    let outbound = match log.and_then(|log| log.reporter_kind) {
        Some(kind) => kind == ReporterKind::Outbound,
        None => common.cluster.starts_with(b"outbound|") || common.cluster == b"PassthroughCluster",
    };
    if let Some(log) = log {
        set_static(&log.static_attributes, out);
    }
    out.text(Known::ReporterKind, if outbound { b"outbound" } else { b"inbound" });
    let side = if outbound { Side::Source } else { Side::Destination };
    identity.set(side, out);
    out.some_text(Known::AccessLogName, &identity.log_name);
    let certificate = common::set(&common, outbound, config, &budget, out)?;
    let mut sources = MappingSources {
        metadata: common.metadata,
        logged_certificate: certificate,
        ..MappingSources::default()
    };
    let code = match kind {
        LogKind::Http => {
            let messages = (request.unwrap_or_default(), response.unwrap_or_default());
            let entry = http::read(protocol, messages, &budget, out)?;
            http::set(&entry, &common, out);
            sources.request_headers = entry.request_headers;
            sources.response_headers = entry.response_headers;
            sources.path = entry.path();
            Some((entry.status(), entry.details))
        }
        LogKind::Tcp => {
            tcp::set(connection.unwrap_or_default(), &common, counters, out)?;
            None
        }
    };
    let mut unconvertible = set_metadata(common.metadata, out)?;
    check_result::set(common.metadata, common.flags, code, out)?;
    let tags = common.custom_tags.as_deref().unwrap_or_default();
    unconvertible += set_all_by_key(tags, Known::CustomTags, out);
    if !config.mappings.is_empty() {
        sources.extensions = out.arena().alloc_slice_copy(tags);
        unconvertible += set_mapped(&config.mappings, &sources, out);
    }
    set_default_namespace(config, out);
    Ok(EntryOutcome::Set { unconvertible })
}
