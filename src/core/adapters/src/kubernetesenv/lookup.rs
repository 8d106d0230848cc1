//! Which pod a request names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mixer_attribute::Value;

/// What stands before the names of pods.
const PREFIX: &str = "kubernetes://";

/// A pod that is looked for: by its address, and then by its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Wanted {
    pub(super) ip: Option<IpAddr>,
    /// `NAMESPACE/NAME`
    pub(super) key: Option<String>,
    /// Whether its service is looked for, and that of an address of no pod.
    pub(super) service: bool,
}

impl Wanted {
    /// By an identifier, if it is not empty, or else by an address. `None`: nothing is looked for.
    pub(super) fn of(uid: Option<Value<'_>>, ip: Option<Value<'_>>) -> Option<Self> {
        match uid {
            Some(Value::String(uid)) if !uid.is_empty() => Some(Self::of_uid(uid)),
            _ => Self::of_ip(ip?),
        }
    }

    /// With its service, if that is looked for.
    pub(super) fn with_service(self, service: bool) -> Self {
        Self { service, ..self }
    }

    fn of_uid(uid: &[u8]) -> Self {
        // No name of a pod has other characters.
        let Ok(uid) = std::str::from_utf8(uid) else { return Self::default() };
        if let Ok(ip) = uid.parse() {
            return Self { ip: Some(ip), ..Self::default() };
        }
        let name = uid.strip_prefix(PREFIX).unwrap_or(uid);
        let mut parts = name.split('.');
        let key = match (parts.next(), parts.next(), parts.next()) {
            (Some(name), Some(namespace), None) => format!("{namespace}/{name}"),
            _ => name.to_owned(),
        };
        Self { ip: key.parse().ok(), key: Some(key), ..Self::default() }
    }

    fn of_ip(ip: Value<'_>) -> Option<Self> {
        let Value::Bytes(bytes) = ip else { return None };
        let ip = match *bytes {
            [a, b, c, d] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            [] => return None,
            _ => match <[u8; 16]>::try_from(bytes) {
                Ok(octets) => Ipv6Addr::from(octets).to_canonical(),
                // It is no address, and no pod has it.
                Err(_) => return Some(Self::default()),
            },
        };
        (!ip.is_unspecified()).then_some(Self { ip: Some(ip), ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_names_or_addresses() {
        let name = |key: &str| Wanted { key: Some(key.to_owned()), ..Wanted::default() };
        for (uid, expected) in [
            ("kubernetes://db-0.data", name("data/db-0")),
            ("db-0.data", name("data/db-0")),
            ("data/db-0", name("data/db-0")),
            ("kubernetes://data/db-0", name("data/db-0")),
            ("kubernetes://a.b.c", name("a.b.c")),
            ("KUBERNETES://db-0.data", name("data/KUBERNETES://db-0")),
            ("kubernetes://", name("")),
            ("10.9.2.1", Wanted { ip: "10.9.2.1".parse().ok(), ..Wanted::default() }),
            ("kubernetes://10.9.2.1", Wanted { ip: "10.9.2.1".parse().ok(), ..name("10.9.2.1") }),
            ("fd00::7", Wanted { ip: "fd00::7".parse().ok(), ..Wanted::default() }),
        ] {
            assert_eq!(Wanted::of_uid(uid.as_bytes()), expected, "{uid}");
        }
        assert_eq!(Wanted::of_uid(b"a\xff.b"), Wanted::default());
    }

    #[test]
    fn an_identifier_goes_before_the_address() {
        let ip = |bytes: &'static [u8]| Some(Value::Bytes(bytes));
        let uid = |text: &'static str| Some(Value::String(text.as_bytes()));
        let v4 = Wanted { ip: "10.9.2.1".parse().ok(), ..Wanted::default() };
        assert_eq!(Wanted::of(uid(""), ip(&[10, 9, 2, 1])), Some(v4.clone()));
        let mapped = ip(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 2, 1]);
        assert_eq!(Wanted::of(None, mapped), Some(v4));
        assert_eq!(Wanted::of(uid("a/b"), mapped).unwrap().ip, None, "a name that is unknown stays unknown");
        for nothing in [None, ip(&[]), ip(&[0; 4]), ip(&[0; 16])] {
            assert_eq!(Wanted::of(uid(""), nothing), None);
        }
        assert_eq!(Wanted::of(None, ip(&[1, 2, 3])), Some(Wanted::default()));
    }
}
