//! Names, hosts, addresses and other texts: what is valid, and what Istio says about the rest.

use std::net::{IpAddr, Ipv4Addr};

use mixer_base::quote::quoted;

/// The longest label, in bytes.
const MAX_LABEL: usize = 63;
/// The longest DNS name, in bytes.
const MAX_DOMAIN: usize = 255;
/// The longest DNS prefix of the key of a label, in bytes.
const MAX_PREFIX: usize = 253;

/// Whether a text has only letters, digits and what `inner` lists, and letters or digits at its ends.
fn is_word(text: &str, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || inner.contains(byte))
}

/// Whether a text is a label of a DNS name.
pub(super) fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && is_word(text, b"-")
}

/// Whether a text is a label, `*`, or `*` or `*-` before a label.
fn is_wildcard_label(text: &str) -> bool {
    if text.len() > MAX_LABEL {
        return false;
    }
    let Some(rest) = text.strip_prefix('*') else { return is_word(text, b"-") };
    rest.is_empty() || is_word(rest.strip_prefix('-').unwrap_or(rest), b"-")
}

/// Whether a fully qualified domain name is valid.
pub(super) fn domain(name: &str) -> Result<(), String> {
    has_domain_length(name)?;
    are_labels(name)
}

/// As [`domain`]; the first label may be a wildcard.
pub(super) fn wildcard_domain(name: &str) -> Result<(), String> {
    has_domain_length(name)?;
    let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
    if !is_wildcard_label(first) {
        return Err(invalid_label(name, first));
    }
    rest.map_or(Ok(()), are_labels)
}

fn has_domain_length(name: &str) -> Result<(), String> {
    match name.len() {
        0 => Err("empty domain name not allowed".to_owned()),
        length if length > MAX_DOMAIN => Err(format!("domain name {} too long (max 255)", quoted(name))),
        _ => Ok(()),
    }
}

fn invalid_label(name: &str, label: &str) -> String {
    format!("domain name {} invalid (label {} invalid)", quoted(name), quoted(label))
}

fn are_labels(name: &str) -> Result<(), String> {
    let top = name.rsplit('.').next().unwrap_or(name);
    if top.parse::<i64>().is_ok() {
        return Err(format!(
            "domain name {} invalid (top level domain {} cannot be all-numeric)",
            quoted(name),
            quoted(top)
        ));
    }
    let mut labels = name.split('.').peekable();
    while let Some(label) = labels.next() {
        let is_last = labels.peek().is_none();
        if !(is_label(label) || is_last && label.is_empty()) {
            return Err(invalid_label(name, label));
        }
    }
    Ok(())
}

/// Whether a text is an IP address.
pub(super) fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Whether an address is one of IPv4, also as IPv6.
fn is_version_4(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => address.to_ipv4_mapped().is_some(),
    }
}

/// Whether a text is an IPv4 address.
pub(super) fn ipv4(text: &str) -> Result<(), String> {
    match text.parse::<IpAddr>() {
        Err(_) => Err(format!("{text} is not a valid IP")),
        Ok(address) if !is_version_4(address) => Err(format!("{text} is not a valid IPv4 address")),
        Ok(_) => Ok(()),
    }
}

/// Whether a text is an IPv4 address or network.
pub(super) fn ipv4_subnet(text: &str) -> Result<(), String> {
    let Some((address, bits)) = text.split_once('/').filter(|(_, bits)| !bits.contains('/')) else {
        return ipv4(text);
    };
    let address = address.parse::<IpAddr>().ok().filter(|address| {
        let most = if address.is_ipv4() { Ipv4Addr::BITS } else { 128 };
        let are_digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        are_digits && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
    });
    match address {
        None => Err(format!("{text} is not a valid CIDR block")),
        Some(address) if !is_version_4(address) => Err(format!("{text} is not a valid IPv4 address")),
        Some(_) => Ok(()),
    }
}

/// Whether a text is the path of a Unix domain socket, or an abstract name.
pub(super) fn unix_path(text: &str) -> Result<(), String> {
    match text {
        "" => Err("unix address must not be empty".to_owned()),
        text if text.starts_with('@') || text.starts_with('/') && !text.ends_with('/') => Ok(()),
        text => Err(format!("{text} is not an absolute path to a file")),
    }
}

/// Whether a number is a port.
pub(super) fn port(number: i64) -> Result<(), String> {
    match number {
        1..=65535 => Ok(()),
        _ => Err(format!("port number {number} must be in the range 1..65535")),
    }
}

/// Whether a label, with its value, may be on a workload.
pub fn is_workload_label(key: &str, value: &str) -> bool {
    label_key(key).is_ok() && label_value(value).is_ok() && value.len() <= MAX_LABEL
}

/// Whether a text is the key of a label.
pub(super) fn label_key(key: &str) -> Result<(), String> {
    let invalid = |why: &str| Err(format!("invalid tag key: {}{why}", quoted(key)));
    let (prefix, name) = match key.rsplit_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_prefix = |prefix: &str| prefix.split('.').all(|label| is_word(label, b"-"));
    if !is_word(name, b"-_.") || !prefix.is_none_or(is_prefix) {
        return invalid("");
    }
    if prefix.is_some_and(|prefix| prefix.len() > MAX_PREFIX) {
        return invalid(" (DNS prefix is too long)");
    }
    if name.len() > MAX_LABEL {
        return invalid(" (name is too long)");
    }
    Ok(())
}

/// Whether a text is the value of a label.
pub(super) fn label_value(value: &str) -> Result<(), String> {
    let valid = value.is_empty() || is_word(value, b"-_.");
    if valid { Ok(()) } else { Err(format!("invalid tag value: {}", quoted(value))) }
}

/// A protocol that proxies know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Tls,
    Other,
}

/// The protocol of a port by its name, in any case.
pub(super) fn protocol(name: &str) -> Option<Protocol> {
    match name.to_ascii_lowercase().as_str() {
        "http" | "http2" | "grpc" | "grpc-web" => Some(Protocol::Http),
        "https" | "tls" => Some(Protocol::Tls),
        "tcp" | "udp" | "mongo" | "redis" | "mysql" => Some(Protocol::Other),
        _ => None,
    }
}

/// What a host with a leading `*` ends with; `None` for a host without.
fn wildcard(host: &str) -> Option<&str> {
    host.strip_prefix('*')
}

/// Whether two hosts have a name in common.
pub(super) fn hosts_overlap(a: &str, b: &str) -> bool {
    match (wildcard(a), wildcard(b)) {
        (Some(x), Some(y)) if a.len() < b.len() => y.ends_with(x),
        (Some(x), Some(y)) => x.ends_with(y),
        (Some(x), None) => b.ends_with(x),
        (None, Some(y)) => a.ends_with(y),
        (None, None) => a == b,
    }
}

/// Whether all names of the host `a` are names of `b`.
pub(super) fn is_subset_of_host(a: &str, b: &str) -> bool {
    match (wildcard(a), wildcard(b)) {
        (Some(x), Some(y)) => a.len() >= b.len() && x.ends_with(y),
        (Some(_), None) => false,
        (None, Some(y)) => a.ends_with(y),
        (None, None) => a == b,
    }
}

/// Go's text for a text that is no number.
pub(super) fn not_a_number(text: &str) -> String {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let why = if is_number { "value out of range" } else { "invalid syntax" };
    format!("strconv.Atoi: parsing {}: {why}", quoted(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains() {
        for name in ["a", "a.b", "a.b.", "A-1.b", "x.1a"] {
            assert_eq!(domain(name), Ok(()), "{name}");
        }
        for (name, why) in [
            ("", "empty domain name not allowed"),
            ("a_b", "domain name \"a_b\" invalid (label \"a_b\" invalid)"),
            ("a..b", "domain name \"a..b\" invalid (label \"\" invalid)"),
            ("a.1", "domain name \"a.1\" invalid (top level domain \"1\" cannot be all-numeric)"),
            ("*.a", "domain name \"*.a\" invalid (label \"*\" invalid)"),
        ] {
            assert_eq!(domain(name), Err(why.to_owned()));
        }
        for name in ["*", "*.a", "*a.b", "*-a.b", "a"] {
            assert_eq!(wildcard_domain(name), Ok(()), "{name}");
        }
        assert!(wildcard_domain("a.*").is_err() && wildcard_domain("**.a").is_err());
        assert!(domain(&"a".repeat(64)).is_err() && domain(&"a.".repeat(128)).is_err());
    }

    #[test]
    fn addresses() {
        assert!(ipv4_subnet("10.0.0.0/8").is_ok() && ipv4_subnet("::ffff:10.0.0.1").is_ok());
        assert_eq!(ipv4_subnet("10.0.0.0/33").unwrap_err(), "10.0.0.0/33 is not a valid CIDR block");
        assert_eq!(ipv4_subnet("::/8").unwrap_err(), "::/8 is not a valid IPv4 address");
        assert_eq!(ipv4_subnet("1/2/3").unwrap_err(), "1/2/3 is not a valid IP");
        assert!(unix_path("@a").is_ok() && unix_path("/a").is_ok() && unix_path("/a/").is_err());
    }

    #[test]
    fn labels() {
        assert!(label_key("a.b/c_d").is_ok() && label_key("").is_err() && label_key("a/b/c").is_err());
        assert!(
            label_key(&format!("{}/b", "a".repeat(254))).unwrap_err().ends_with("(DNS prefix is too long)")
        );
        assert!(label_key(&"a".repeat(64)).unwrap_err().ends_with("(name is too long)"));
        assert!(label_value("").is_ok() && label_value("a b").is_err());
    }

    #[test]
    fn hosts() {
        assert!(hosts_overlap("*.a.com", "b.a.com") && hosts_overlap("*", "*.com"));
        assert!(!hosts_overlap("*.a.com", "a.com") && hosts_overlap("a", "a"));
        assert!(is_subset_of_host("b.a", "*.a") && !is_subset_of_host("*.a", "b.a"));
        assert!(is_subset_of_host("*.b.a", "*.a") && !is_subset_of_host("*.a", "*.b.a"));
    }
}
