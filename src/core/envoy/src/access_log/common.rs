//! `AccessLogCommon`: what HTTP and TCP entries share.

use bumpalo::collections::Vec as ArenaVec;

use super::super::attributes::{Attributes, Known};
use super::super::identity::{Side, set_service};
use super::super::mapping::LoggedCertificate;
use super::super::wire::{FieldBudget, FieldValue, address, instant, int64, ip_bytes, length};
use super::{codes, peer, tls};
use crate::config::EnvoyConfig;
use mixer_attribute::{DecodeError, SignedDuration, Timestamp, Value};

/// `AccessLogCommon`.
#[derive(Default)]
pub(super) struct Common<'a> {
    remote: Option<&'a [u8]>,
    direct_remote: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    upstream: Option<&'a [u8]>,
    tls: Option<&'a [u8]>,
    pub(super) start: Option<Timestamp>,
    last_byte: Option<SignedDuration>,
    duration: Option<SignedDuration>,
    pub(super) cluster: &'a [u8],
    pub(super) flags: &'a [u8],
    pub(super) metadata: &'a [u8],
    upstream_failure: &'a [u8],
    downstream_failure: &'a [u8],
    termination: &'a [u8],
    route: &'a [u8],
    pub(super) stream_id: &'a [u8],
    attempts: u64,
    pub(super) kind: u64,
    pub(super) custom_tags: Option<ArenaVec<'a, (&'a [u8], &'a [u8])>>,
    downstream_peer: Option<&'a [u8]>,
    upstream_peer: Option<&'a [u8]>,
}

pub(super) fn read<'a>(
    body: &'a [u8],
    budget: &FieldBudget,
    out: &Attributes<'a>,
) -> Result<Common<'a>, DecodeError> {
    let mut common = Common::default();
    budget.each_field(body, |number, value| {
        match (number, value) {
            (24, FieldValue::Varint(number)) => common.attempts = number,
            (33, FieldValue::Varint(number)) => common.kind = number,
            (number, FieldValue::Bytes(bytes)) => common.take(number, bytes, budget, out)?,
            _ => {}
        }
        Ok(())
    })?;
    budget.take_metadata(common.metadata)?;
    Ok(common)
}

impl<'a> Common<'a> {
    /// Takes a field that is length-delimited.
    fn take(
        &mut self,
        number: u32,
        bytes: &'a [u8],
        budget: &FieldBudget,
        out: &Attributes<'a>,
    ) -> Result<(), DecodeError> {
        match number {
            2 => self.remote = Some(bytes),
            3 => self.local = Some(bytes),
            4 => self.tls = Some(bytes),
            5 => self.start = instant(bytes),
            12 => self.last_byte = length(bytes),
            13 => self.upstream = Some(bytes),
            15 => self.cluster = bytes,
            16 => self.flags = bytes,
            17 => self.metadata = bytes,
            18 => self.upstream_failure = bytes,
            19 => self.route = bytes,
            20 => self.direct_remote = Some(bytes),
            21 => match budget.map_entry(bytes)? {
                (b"downstream_peer", any) => self.downstream_peer = Some(any),
                (b"upstream_peer", any) => self.upstream_peer = Some(any),
                _ => {}
            },
            22 => {
                let tags = self.custom_tags.get_or_insert_with(|| ArenaVec::new_in(out.arena()));
                tags.push(budget.map_entry(bytes)?);
            }
            23 => self.duration = length(bytes),
            25 => self.termination = bytes,
            26 => self.stream_id = bytes,
            28 => self.downstream_failure = bytes,
            _ => {}
        }
        Ok(())
    }
}

impl Common<'_> {
    /// The duration, or else the time to the last byte.
    pub(super) fn took(&self) -> Option<SignedDuration> {
        self.duration.or(self.last_byte)
    }
}

/// Sets the attributes that HTTP and TCP share, except metadata and tags. Returns the certificate of the downstream peer.
pub(super) fn set<'a>(
    common: &Common<'a>,
    outbound: bool,
    config: &EnvoyConfig,
    budget: &FieldBudget,
    out: &mut Attributes<'a>,
) -> Result<LoggedCertificate<'a>, DecodeError> {
    set_addresses(common, outbound, out)?;
    out.some_text(Known::UpstreamCluster, common.cluster);
    set_service(common.cluster, out);
    let certificate = match common.tls {
        Some(tls) => tls::set(tls, config, out)?,
        None => {
            out.set(Known::ConnectionMtls, Value::Bool(false));
            LoggedCertificate::default()
        }
    };
    out.text(Known::ProxyErrorCode, codes::response_flags(common.flags, out.arena())?);
    out.some_text(Known::RouteName, common.route);
    out.some_text(Known::UpstreamFailureReason, common.upstream_failure);
    out.some_text(Known::DownstreamFailureReason, common.downstream_failure);
    out.some_text(Known::TerminationDetails, common.termination);
    if common.attempts > 0 {
        out.number(Known::UpstreamAttempts, int64(common.attempts));
    }
    for (side, any) in [(Side::Source, common.downstream_peer), (Side::Destination, common.upstream_peer)] {
        if let Some(any) = any {
            peer::set(side, any, budget, out)?;
        }
    }
    Ok(certificate)
}

fn set_addresses<'a>(
    common: &Common<'a>,
    outbound: bool,
    out: &mut Attributes<'a>,
) -> Result<(), DecodeError> {
    let arena = out.arena();
    let read = |body: Option<&[u8]>| body.map_or(Ok(None), address);
    let remote = read(common.remote)?;
    if let Some((ip, _)) = remote {
        out.set(Known::OriginIp, Value::Bytes(ip_bytes(ip, arena)));
    }
    let upstream = read(common.upstream)?;
    let local = read(common.local)?;
    for (address, ip, port) in [
        (read(common.direct_remote)?.or(remote), Known::SourceIp, Known::SourcePort),
        (if outbound { upstream.or(local) } else { local }, Known::DestinationIp, Known::DestinationPort),
        (upstream, Known::UpstreamIp, Known::UpstreamPort),
    ] {
        if let Some((address, number)) = address {
            out.set(ip, Value::Bytes(ip_bytes(address, arena)));
            if number != 0 {
                out.number(port, number);
            }
        }
    }
    Ok(())
}
