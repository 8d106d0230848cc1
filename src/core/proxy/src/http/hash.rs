//! The hash of a request, by which consistent hashing chooses a host.

use crate::accept::ConnectionInfo;
use crate::bootstrap::HashPolicy;
use crate::cluster::xx_hash;
use crate::head::Head;

/// The hash of a request; `None` if no policy finds anything.
pub(super) fn of(policies: &[(HashPolicy, bool)], head: &Head, info: &ConnectionInfo) -> Option<u64> {
    let mut hash: Option<u64> = None;
    for (policy, is_terminal) in policies {
        if let Some(next) = one(policy, head, info) {
            hash = Some(hash.map_or(next, |before| before.rotate_left(1) ^ next));
        }
        if *is_terminal && hash.is_some() {
            break;
        }
    }
    hash
}

fn one(policy: &HashPolicy, head: &Head, info: &ConnectionInfo) -> Option<u64> {
    match policy {
        HashPolicy::Header(name) if name.starts_with(':') => head.pseudo_or_field(name).map(xx_hash),
        HashPolicy::Header(name) => {
            let fields = head.fields().filter(|(known, _)| *known == name.as_bytes());
            let mut values: Vec<&[u8]> = fields.map(|(_, value)| value).collect();
            // In an order of their own, whatever that of the fields is.
            values.sort_unstable();
            (!values.is_empty()).then(|| xx_hash(&values.concat()))
        }
        HashPolicy::Cookie(name) => {
            let cookies = head.get("cookie")?.split(|byte| *byte == b';');
            let mut pairs = cookies.filter_map(|pair| pair.trim_ascii().split_once_str(b'='));
            pairs.find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| xx_hash(value))
        }
        HashPolicy::SourceAddress => Some(xx_hash(info.remote.ip().to_string().as_bytes())),
        HashPolicy::Query(name) => {
            let path = head.path();
            let query = path.get(head.path_without_query().len() + 1..)?;
            let mut pairs = query.split(|byte| *byte == b'&').filter_map(|pair| pair.split_once_str(b'='));
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
            b"GET /a?x=1&user=7 HTTP/1.1\r\nhost: h\r\nx-b: 2\r\nx-b: 1\r\ncookie: a=b; user=9\r\n\r\n";
        head.read_request(text, 100).unwrap();
        let info = ConnectionInfo::new(([10, 0, 0, 1], 5).into(), ([10, 0, 0, 2], 6).into());
        let name = |name: &str| name.to_owned();
        let hash = |policies: &[HashPolicy]| {
            of(&policies.iter().cloned().map(|policy| (policy, false)).collect::<Vec<_>>(), &head, &info)
        };
        assert_eq!(hash(&[HashPolicy::Header(name("x-b"))]), Some(xx_hash(b"12")));
        assert_eq!(hash(&[HashPolicy::Header(name("x-c"))]), None);
        assert_eq!(hash(&[HashPolicy::Cookie(name("user"))]), Some(xx_hash(b"9")));
        assert_eq!(hash(&[HashPolicy::Query(name("user"))]), Some(xx_hash(b"7")));
        assert_eq!(hash(&[HashPolicy::SourceAddress]), Some(xx_hash(b"10.0.0.1")));
        let both = [HashPolicy::Query(name("user")), HashPolicy::Cookie(name("user"))];
        assert_eq!(hash(&both), Some(xx_hash(b"7").rotate_left(1) ^ xx_hash(b"9")));
        let terminal = [(both[0].clone(), true), (both[1].clone(), false)];
        assert_eq!(of(&terminal, &head, &info), Some(xx_hash(b"7")));
    }
}
