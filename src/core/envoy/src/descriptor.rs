//! `envoy.service.ratelimit.v3.RateLimitRequest`. See docs/envoy.md.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

use super::attributes::{Attributes, Known, set_default_namespace};
use super::convert::set_by_key;
use super::identity::set_service;
use super::mapping::{MappingSources, set_mapped};
use super::wire::{FieldBudget, FieldValue, each_field, ip, ip_bytes, wrapped};
use crate::config::{EnvoyConfig, Unit};
use mixer_attribute::{DecodeError, Value};

/// A limit that the request overrides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitOverride {
    /// Requests in a window.
    pub requests_per_unit: u32,
    /// The unit.
    pub unit: Unit,
    /// Length of a window in units.
    pub multiplier: u32,
}

/// One descriptor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Descriptor<'a> {
    /// Keys and values, in order.
    pub entries: &'a [(&'a [u8], &'a [u8])],
    /// Overrides the configured limit.
    pub limit: Option<LimitOverride>,
    /// The number of hits; 0 reads the counter, a negative number returns hits.
    pub charge: i64,
}

/// A decoded request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimitRequest<'a> {
    /// The domain.
    pub domain: &'a [u8],
    /// The descriptors, in order.
    pub descriptors: &'a [Descriptor<'a>],
}

impl<'a> RateLimitRequest<'a> {
    /// The number of descriptors, none of which is decoded. Errors: the bytes are no RateLimitRequest, or it has too many fields.
    pub fn count(body: &[u8]) -> Result<usize, DecodeError> {
        let mut count = 0;
        FieldBudget::default().each_bytes(body, |number, _| {
            count += usize::from(number == 2);
            Ok(())
        })?;
        Ok(count)
    }

    /// Decodes a request into the arena. Errors: the bytes are no RateLimitRequest, or it has too many fields.
    pub fn read(body: &'a [u8], arena: &'a Bump) -> Result<Self, DecodeError> {
        let (mut domain, mut addend, budget) = (&[][..], 0, FieldBudget::default());
        let mut bodies = ArenaVec::new_in(arena);
        budget.each_field(body, |number, value| {
            match (number, value) {
                (1, FieldValue::Bytes(bytes)) => domain = bytes,
                (2, FieldValue::Bytes(bytes)) => bodies.push(bytes),
                (3, FieldValue::Varint(number)) => addend = u32::try_from(number).unwrap_or(u32::MAX),
                _ => {}
            }
            Ok(())
        })?;
        let mut descriptors = ArenaVec::with_capacity_in(bodies.len(), arena);
        for body in bodies {
            descriptors.push(read_descriptor(body, i64::from(addend.max(1)), &budget, arena)?);
        }
        Ok(Self { domain, descriptors: descriptors.into_bump_slice() })
    }
}

fn read_descriptor<'a>(
    body: &'a [u8],
    addend: i64,
    budget: &FieldBudget,
    arena: &'a Bump,
) -> Result<Descriptor<'a>, DecodeError> {
    let mut entries = ArenaVec::new_in(arena);
    let (mut limit, mut own, mut negative) = (None, None, false);
    budget.each_field(body, |number, value| {
        match (number, value) {
            (1, FieldValue::Bytes(entry)) => entries.push(budget.map_entry(entry)?),
            (2, FieldValue::Bytes(bytes)) => limit = read_limit(bytes)?,
            (3, FieldValue::Bytes(bytes)) => own = Some(i64::try_from(wrapped(bytes)).unwrap_or(i64::MAX)),
            (4, FieldValue::Varint(flag)) => negative = flag != 0,
            _ => {}
        }
        Ok(())
    })?;
    let amount = own.unwrap_or(addend);
    let charge = if negative { -amount } else { amount };
    Ok(Descriptor { entries: entries.into_bump_slice(), limit, charge })
}

fn read_limit(body: &[u8]) -> Result<Option<LimitOverride>, DecodeError> {
    let (mut requests_per_unit, mut unit, mut multiplier) = (0, 0, 0);
    each_field(body, |number, value| match (number, value) {
        (1, FieldValue::Varint(number)) => requests_per_unit = u32::try_from(number).unwrap_or(u32::MAX),
        (2, FieldValue::Varint(number)) => unit = number,
        (3, FieldValue::Varint(number)) => multiplier = u32::try_from(number).unwrap_or(u32::MAX),
        (3, FieldValue::Bytes(bytes)) => multiplier = u32::try_from(wrapped(bytes)).unwrap_or(u32::MAX),
        _ => {}
    })?;
    let unit = Unit::from_number(unit);
    Ok(unit.map(|unit| LimitOverride { requests_per_unit, unit, multiplier: multiplier.max(1) }))
}

/// Sets the attributes of one descriptor.
pub fn set_descriptor<'a>(
    domain: &'a [u8],
    descriptor: &Descriptor<'a>,
    config: &'a EnvoyConfig,
    out: &mut Attributes<'a>,
) {
    let arena = out.arena();
    out.text(Known::ContextProtocol, b"ratelimit");
    out.text(Known::RatelimitDomain, domain);
    let mut entries = ArenaVec::with_capacity_in(descriptor.entries.len(), arena);
    entries.extend_from_slice(descriptor.entries);
    out.map(Known::RatelimitDescriptor, entries);
    let mut key = ArenaVec::new_in(arena);
    for (index, (name, value)) in descriptor.entries.iter().enumerate() {
        if index > 0 {
            key.push(b'.');
        }
        key.extend_from_slice(name);
        match *name {
            b"remote_address" => {
                if let Some(address) = ip(value) {
                    let bytes = ip_bytes(address, arena);
                    out.set(Known::SourceIp, Value::Bytes(bytes));
                    out.set(Known::OriginIp, Value::Bytes(bytes));
                }
            }
            b"destination_cluster" => {
                out.text(Known::UpstreamCluster, value);
                set_service(value, out);
            }
            b"source_cluster" => out.text(Known::SourceCluster, value),
            // Other entries are in the map only.
            _ => drop(set_by_key(name, value, out)),
        }
    }
    out.text(Known::RatelimitKey, key.into_bump_slice());
    if !config.mappings.is_empty() {
        let sources = MappingSources { extensions: descriptor.entries, ..MappingSources::default() };
        let _ = set_mapped(&config.mappings, &sources, out);
    }
    set_default_namespace(config, out);
}
