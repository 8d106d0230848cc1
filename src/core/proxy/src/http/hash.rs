//! The hash of a request, by which consistent hashing chooses a host.

use std::net::IpAddr;

use crate::bootstrap::HashPolicy;
use crate::cluster::{xx_hash, xx_hash_from};
use crate::connection_info::ConnectionInfo;
use crate::head::Head;

/// The hash of a request of a client, as Envoy computes it; `None` if no policy finds anything.
pub(super) fn of(policies: &[(HashPolicy, bool)], head: &Head, client: IpAddr) -> Option<u64> {
    let mut hash: Option<u64> = None;
    for (policy, is_terminal) in policies {
        if let Some(next) = one(policy, head, client) {
            hash = Some(hash.map_or(next, |before| before.rotate_left(1) ^ next));
        }
        if *is_terminal && hash.is_some() {
            break;
        }
    }
    hash
}

/// The address of the client of a request: with `use_remote_address` that of the connection, otherwise the last one of `x-forwarded-for`, if
/// there is one.
pub(super) fn client(head: &Head, info: &ConnectionInfo, use_remote_address: bool) -> IpAddr {
    told_client(head, use_remote_address).unwrap_or_else(|| info.remote.ip())
}

/// The client that a proxy before tells; `None` if it tells none that is an address, or is not believed.
pub(super) fn told_client(head: &Head, use_remote_address: bool) -> Option<IpAddr> {
    let told = if use_remote_address { None } else { head.elements("x-forwarded-for").last() };
    told.and_then(|text| std::str::from_utf8(text).ok()?.trim().parse().ok())
}

fn one(policy: &HashPolicy, head: &Head, client: IpAddr) -> Option<u64> {
    match policy {
        HashPolicy::Header(name) => {
            let mut values: Vec<&[u8]> = head.values(name).collect();
            // In an order of their own, whatever that of the fields is.
            values.sort_unstable();
            (!values.is_empty()).then(|| values.iter().fold(0, |seed, value| xx_hash_from(seed, value)))
        }
        HashPolicy::Cookie(name) => {
            let fields = head.fields().filter(|(known, _)| *known == b"cookie");
            let cookies = fields.flat_map(|(_, value)| value.split(|byte| *byte == b';'));
            let mut pairs = cookies.filter_map(|pair| pair.trim_ascii().split_once_str(b'='));
            let (_, value) = pairs.find(|(known, _)| *known == name.as_bytes())?;
            let inner = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
            Some(xx_hash(inner.unwrap_or(value)))
        }
        HashPolicy::SourceAddress => Some(xx_hash(client.to_string().as_bytes())),
        HashPolicy::Query(name) => {
            let path = head.path();
            let query = path.get(head.path_without_query().len() + 1..)?;
            let pairs = query.split(|byte| *byte == b'&');
            let mut pairs = pairs.map(|pair| pair.split_once_str(b'=').unwrap_or((pair, b"")));
            pairs.find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| xx_hash(value))
        }
    }
}

/// `split_once` of bytes.
trait SplitOnce {
    fn split_once_str(&self, separator: u8) -> Option<(&[u8], &[u8])>;
}

impl SplitOnce for [u8] {
    fn split_once_str(&self, separator: u8) -> Option<(&[u8], &[u8])> {
        let at = memchr::memchr(separator, self)?;
        Some((self.get(..at)?, self.get(at + 1..)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_combined_in_order() {
        let mut head = Head::default();
        let text =
            b"GET /a?x=1&user=7&none HTTP/1.1\r\nhost: h\r\nx-b: 2\r\nx-b: 1\r\ncookie: a=b\r\ncookie: c=d; user=\"9\"\r\nx-forwarded-for: 10.0.0.8, 10.0.0.9\r\n\r\n";
        head.read_request(text, 100).unwrap();
        let info = ConnectionInfo::new(([10, 0, 0, 1], 5).into(), ([10, 0, 0, 2], 6).into());
        let name = |name: &str| name.to_owned();
        let hash = |policies: &[HashPolicy]| {
            of(
                &policies.iter().cloned().map(|policy| (policy, false)).collect::<Vec<_>>(),
                &head,
                info.remote.ip(),
            )
        };
        assert_eq!(hash(&[HashPolicy::Header(name("x-b"))]), Some(xx_hash_from(xx_hash(b"1"), b"2")));
        assert_eq!(hash(&[HashPolicy::Header(name("x-c"))]), None);
        assert_eq!(hash(&[HashPolicy::Cookie(name("user"))]), Some(xx_hash(b"9")));
        assert_eq!(hash(&[HashPolicy::Query(name("user"))]), Some(xx_hash(b"7")));
        assert_eq!(hash(&[HashPolicy::SourceAddress]), Some(xx_hash(b"10.0.0.1")));
        let both = [HashPolicy::Query(name("user")), HashPolicy::Cookie(name("user"))];
        assert_eq!(hash(&both), Some(xx_hash(b"7").rotate_left(1) ^ xx_hash(b"9")));
        let terminal = [(both[0].clone(), true), (both[1].clone(), false)];
        assert_eq!(of(&terminal, &head, info.remote.ip()), Some(xx_hash(b"7")));
        assert_eq!(hash(&[HashPolicy::Query(name("none"))]), Some(xx_hash(b"")));
        let told: IpAddr = [10, 0, 0, 9].into();
        assert_eq!((client(&head, &info, false), client(&head, &info, true)), (told, info.remote.ip()));
    }
}
