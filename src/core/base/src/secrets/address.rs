//! Addresses that a configuration or a flag names. More of them is masked than of any text: who wrote one knows what is in it.

use std::borrow::Cow;

use super::{MASKED, is_secret, mask_text};

/// Query parameters of addresses that are shown: they say what is read there, not who reads it.
const OPEN_PARAMETERS: [&str; 5] = ["ns", "collections", "db", "version", "api-version"];

/// Schemes of which the rest is a path.
const OF_PATHS: [&str; 4] = ["fs://", "file://", "k8s://", "unix://"];

/// Ends of names of addresses, in lower case.
const NAMES: [&str; 8] = ["address", "addresses", "addr", "url", "urls", "uri", "uris", "endpoint"];

/// Whether a value with this name, of a field or flag, is an address.
pub fn is_address(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES.iter().any(|end| name.ends_with(end))
}

/// An address as it may be shown, or several, with commas or blanks between them: user information is masked, also without a scheme or a
/// password, and so are the values of query parameters, unless they are known to be harmless. Allocates only if there is something to mask.
pub fn mask_address(text: &str) -> Cow<'_, str> {
    if !text.contains(['@', '?']) {
        return mask_text(text);
    }
    let mut masked = String::with_capacity(text.len());
    for part in text.split_inclusive(char::is_whitespace) {
        let all = part.trim_end_matches(char::is_whitespace);
        // A query may have commas.
        let (mut rest, mut addresses) = (all, all.find('?').unwrap_or(all.len()));
        while let Some(comma) = rest.get(..addresses).and_then(|before| before.find(',')) {
            mask_one(rest.get(..comma).unwrap_or_default(), &mut masked);
            masked.push(',');
            rest = rest.get(comma + 1..).unwrap_or_default();
            addresses -= comma + 1;
        }
        mask_one(rest, &mut masked);
        masked.push_str(part.get(all.len()..).unwrap_or_default());
    }
    match masked == text {
        true => mask_text(text),
        false => Cow::Owned(mask_text(&masked).into_owned()),
    }
}

fn mask_one(address: &str, out: &mut String) {
    let (scheme, mut rest) = address.split_at(address.find("://").map_or(0, |at| at + "://".len()));
    out.push_str(scheme);
    // The scheme may be forgotten, `//user:password@host`, or the authority be empty, as in `dns:///host`.
    let slashes = rest.len() - rest.trim_start_matches('/').len();
    let is_path =
        OF_PATHS.iter().any(|known| known.eq_ignore_ascii_case(scheme)) || (scheme.is_empty() && slashes < 2);
    if !is_path {
        let (before, after) = rest.split_at(slashes);
        out.push_str(before);
        rest = after;
    }
    // A password may have a question mark, if whoever wrote it has not escaped it.
    let authority = rest.split('/').next().unwrap_or_default();
    // So may it have a slash: what is no port before that is the beginning of a password, or of what follows a scheme with one slash.
    let is_number = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_port = |port: &str| is_number(port) || port.ends_with(']');
    let is_cut =
        !authority.contains('@') && authority.rsplit_once(':').is_some_and(|(_, port)| !is_port(port));
    if let Some(at) = if is_cut { rest.rfind('@') } else { authority.rfind('@') } {
        out.push_str(MASKED);
        rest = rest.get(at..).unwrap_or_default();
    }
    let Some((before, rest)) = rest.split_once('?') else {
        out.push_str(rest);
        return;
    };
    out.push_str(before);
    out.push('?');
    let (query, fragment) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
    for part in query.split_inclusive(['&', ';']) {
        let parameter = part.trim_end_matches(['&', ';']);
        match parameter.split_once('=') {
            Some((name, value)) if !value.is_empty() && !is_open(name) => {
                out.push_str(name);
                out.push('=');
                out.push_str(MASKED);
            }
            // A query without names may be a token.
            None if !parameter.is_empty() => out.push_str(MASKED),
            _ => out.push_str(parameter),
        }
        out.push_str(part.get(parameter.len()..).unwrap_or_default());
    }
    out.push_str(fragment);
}

fn is_open(name: &str) -> bool {
    OPEN_PARAMETERS.iter().any(|open| open.eq_ignore_ascii_case(name)) && !is_secret(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_parameters_of_addresses_are_masked() {
        for (address, shown) in [
            ("mcp://u:PW@host:1?collections=a,b", "mcp://***@host:1?collections=a,b"),
            ("http://collector/spans?k=SECRET", "http://collector/spans?k=***"),
            ("http://h/?k=SECRET&ns=a;x=y#top", "http://h/?k=***&ns=a;x=***#top"),
            ("http://h/?SECRET", "http://h/?***"),
            ("u:PW@127.0.0.1:1", "***@127.0.0.1:1"),
            ("//u:PW@h:1/x?k=SECRET", "//***@h:1/x?k=***"),
            ("///u:PW@h:1", "///***@h:1"),
            ("dns:///u:PW@h:1", "dns:///***@h:1"),
            ("http:/u:PW@h:1/x", "***@h:1/x"),
            ("TOKEN@host:1,u:PW@other:2/path", "***@host:1,***@other:2/path"),
            ("http://TOKEN@h/eureka http://u:p@w@i/", "http://***@h/eureka http://***@i/"),
            ("http://u:P?W@h/", "http://***@h/"),
            ("redis://u:P/W@h:1", "redis://***@h:1"),
            ("redis://u:PW@h:p:p", "redis://***@h:p:p"),
            ("https://u:PW@[bad", "https://***@[bad"),
            ("mcp://h:1?collections=a,b&k=SECRET", "mcp://h:1?collections=a,b&k=***"),
        ] {
            assert_eq!(mask_address(address), shown);
        }
        for address in [
            "",
            "host:80",
            "fs:///etc/conf",
            "fs:///etc/a@b",
            "/etc/a@b",
            "//etc/a@b",
            "http://h:80/a@b",
            "http://[::1]/a@b",
            "k8s://?ns=a,b",
            "http://h:1/x",
            "unix:///a",
            "http://h/?k=",
        ] {
            assert!(matches!(mask_address(address), Cow::Borrowed(_)), "{address}");
        }
    }

    #[test]
    fn addresses_have_names_that_say_so() {
        for name in ["address", "redisServerUrl", "--zookeeper-address", "providerUrl", "endpoint"] {
            assert!(is_address(name), "{name}");
        }
        assert!(!is_address("name") && !is_address(""));
    }
}
