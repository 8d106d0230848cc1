//! clap value parsers: the Go syntax of numbers and durations, plus units and human-readable durations.

use std::path::PathBuf;

use mixer_attribute::SignedDuration;
use mixer_server::LoadSheddingMode;

use super::go_syntax::{NumberError, go_bool, go_float, go_int, go_uint};

/// Calls per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PerSecond(pub(crate) f64);

impl std::fmt::Display for PerSecond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.abs() >= 1e21 { write!(f, "{:e}", self.0) } else { write!(f, "{}", self.0) }
    }
}

fn explain<T>(result: Result<T, NumberError>, expected: &str) -> Result<T, String> {
    result.map_err(|error| match error {
        NumberError::Syntax => format!("expected {expected}"),
        NumberError::Range => format!("out of range; expected {expected}"),
    })
}

/// clap: a signed number.
pub(crate) fn int(text: &str) -> Result<i64, String> {
    explain(go_int(text), "a whole number, for example 10")
}

/// clap: a signed number of 32 bits.
pub(crate) fn int32(text: &str) -> Result<i32, String> {
    let narrow = go_int(text).and_then(|n| i32::try_from(n).map_err(|_| NumberError::Range));
    explain(narrow, "a whole number up to 2147483647")
}

/// clap: an unsigned number of 32 bits.
pub(crate) fn uint32(text: &str) -> Result<u32, String> {
    let narrow = go_uint(text).and_then(|n| u32::try_from(n).map_err(|_| NumberError::Range));
    explain(narrow, "a whole number, 0 or greater")
}

/// clap: an unsigned number.
pub(crate) fn uint(text: &str) -> Result<u64, String> {
    explain(go_uint(text), "a whole number, 0 or greater")
}

/// clap: a TCP port.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    let narrow = go_uint(text).and_then(|n| u16::try_from(n).map_err(|_| NumberError::Range));
    explain(narrow, "a port from 0 to 65535")
}

/// clap: the URL of a configuration store. An empty one is a variable that is not set rather than a wish for the default.
pub(crate) fn store_url(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        let why = "the URL is empty, for example because a variable is not set; use fs://DIR, or leave the setting out to serve \
                   the embedded sample";
        return Err(why.to_owned());
    }
    // As all other commands take it: what names no scheme is a path.
    let is_path = !text.contains("://") && (text.contains(['/', '.']) || !text.contains(':'));
    Ok(if is_path { format!("fs://{text}") } else { text.to_owned() })
}

/// The port of the API.
const API_PORT: u16 = 9091;
/// The port of ControlZ.
const INTROSPECTION_PORT: u16 = 9876;

/// The address of a server's API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiAddress {
    /// A gRPC target.
    pub(crate) target: String,
    /// Whether the address itself says TLS: `https://HOST:PORT`.
    pub(crate) is_tls: bool,
}

impl std::fmt::Display for ApiAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.target)
    }
}

/// clap: a gRPC target as Istio's programs take it.
pub(crate) fn target(text: &str) -> Result<ApiAddress, String> {
    Ok(ApiAddress { target: text.to_owned(), is_tls: false })
}

/// clap: the address of a server's API: a gRPC target or a URL without a path, whose port may be left out.
pub(crate) fn api_address(text: &str) -> Result<ApiAddress, String> {
    let plain = |target: String| ApiAddress { target, is_tls: false };
    if text.starts_with("unix:") || text.starts_with("dns:///") {
        return Ok(plain(with_port(text, API_PORT)));
    }
    let (is_tls, rest) = match text.split_once("://") {
        None => (false, text),
        Some((scheme, rest)) => match scheme.to_ascii_lowercase().as_str() {
            "http" | "grpc" | "tcp" => (false, rest),
            "https" | "grpcs" => (true, rest),
            other => {
                return Err(format!(
                    "`{other}://` is no scheme of an address: write HOST:PORT, https://HOST:PORT for TLS, or unix:///PATH"
                ));
            }
        },
    };
    let written = |host: &str| if is_tls { format!("https://{host}") } else { host.to_owned() };
    let host = authority(rest, "the API", &written)?;
    Ok(ApiAddress { target: with_port(host, API_PORT), is_tls })
}

/// clap: the address of a server's ControlZ endpoint: host, host:port or a URL. Behind a proxy it may have a path.
pub(crate) fn introspection_address(text: &str) -> Result<String, String> {
    if text.starts_with("unix:") {
        return Err("ControlZ has no unix socket: write HOST:PORT".to_owned());
    }
    let (scheme, rest) = match text.split_once("://") {
        None => (None, text),
        Some((scheme, rest)) => (Some(scheme.to_ascii_lowercase()), rest),
    };
    if rest.contains(['?', '#']) {
        let scheme = scheme.map_or_else(String::new, |scheme| format!("{scheme}://"));
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // Without a user and its password.
        let host = host.rsplit('@').next().unwrap_or_default();
        return Err(format!("an address has no query: write `{scheme}{host}`"));
    }
    let rest = rest.trim_end_matches('/');
    match scheme.as_deref() {
        None | Some("tcp") => Ok(with_port(rest, INTROSPECTION_PORT)),
        Some(scheme @ ("http" | "https")) if !rest.is_empty() => Ok(format!("{scheme}://{rest}")),
        Some("http" | "https") => Err("the address has no host: write HOST:PORT".to_owned()),
        Some(other) => Err(format!(
            "`{other}://` is no scheme of ControlZ: write HOST:PORT, or https://HOST:PORT for TLS"
        )),
    }
}

/// Host and port of an address that has nothing else; `written` is how it is written alone.
fn authority<'a>(text: &'a str, what: &str, written: &dyn Fn(&str) -> String) -> Result<&'a str, String> {
    let (host, rest) = text.split_at(text.find(['/', '?', '#']).unwrap_or(text.len()));
    if host.contains('@') {
        return Err(format!("an address of {what} has no user: write HOST:PORT"));
    }
    match rest {
        "" | "/" => Ok(host),
        _ if host.is_empty() => {
            Err("the address has no host: write HOST:PORT, or unix:///PATH for a socket".to_owned())
        }
        _ => Err(format!("an address of {what} has no path: write `{}`", written(host))),
    }
}

/// A host with a port; what has one, or is no host, as it is.
fn with_port(text: &str, port: u16) -> String {
    let host = text.strip_prefix("dns:///").unwrap_or(text);
    let bare_ipv6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    let has_port = !bare_ipv6 && host.rsplit_once(']').map_or(host, |(_, rest)| rest).contains(':');
    match host {
        _ if host.is_empty() || has_port || host.contains('/') => text.to_owned(),
        _ if bare_ipv6 => format!("[{text}]:{port}"),
        _ => format!("{text}:{port}"),
    }
}

/// clap: a number of bytes, plain or with a unit (`4MiB`, `1GB`, `2T`).
pub(crate) fn size(text: &str) -> Result<u64, String> {
    if let Ok(bytes) = go_uint(text) {
        return Ok(bytes);
    }
    let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text.get(number.len()..).unwrap_or_default().trim_start();
    let bytes = bytes_of(unit).and_then(|factor| number.parse::<u64>().ok()?.checked_mul(factor));
    bytes.ok_or_else(|| "expected a number of bytes, for example 1048576, 4MiB or 1TiB".to_owned())
}

/// The bytes of a unit: `B`, or one of `K`, `M`, `G` and `T` with `B`, with `i` for powers of 1024, or with both. Letter case makes no
/// difference.
fn bytes_of(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let prefix = unit.strip_suffix('b').unwrap_or(&unit);
    let (prefix, base) = match prefix.strip_suffix('i') {
        Some(prefix) => (prefix, 1024_u64),
        None => (prefix, 1000),
    };
    let exponent = match prefix {
        "" if unit == "b" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    base.checked_pow(exponent)
}

/// clap: a size in MiB: a plain number of MiB, or a size with a unit, rounded up.
pub(crate) fn mebibytes(text: &str) -> Result<i64, String> {
    if let Ok(number) = go_int(text) {
        return Ok(number);
    }
    let bytes = size(text).map_err(|_| "expected a number of MiB, or a size, for example 100MiB or 1GiB")?;
    i64::try_from(bytes.div_ceil(1 << 20)).map_err(|_| "out of range".to_owned())
}

/// clap: a floating point number.
pub(crate) fn float(text: &str) -> Result<f64, String> {
    explain(go_float(text), "a number, for example 0.5")
}

/// clap: a rate.
pub(crate) fn per_second(text: &str) -> Result<PerSecond, String> {
    explain(go_float(text), "a number per second, for example 100").map(PerSecond)
}

/// clap: a Boolean.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    explain(go_bool(text), "true or false")
}

/// clap: a duration in Go syntax (`1h30m`, `1.5s`) or with spaces and longer units (`1h 30m`, `2days`).
pub(crate) fn duration(text: &str) -> Result<SignedDuration, String> {
    SignedDuration::parse(text)
        .ok()
        .or_else(|| {
            let duration = humantime::parse_duration(text).ok()?;
            i64::try_from(duration.as_nanos()).ok().map(SignedDuration::from_nanos)
        })
        .ok_or_else(|| "expected a duration with a unit, for example 5s or 1h30m".to_owned())
}

/// clap: a fraction from 0 to 1.
pub(crate) fn fraction(text: &str) -> Result<f64, String> {
    let fraction = float(text)?;
    if (0.0..=1.0).contains(&fraction) {
        Ok(fraction)
    } else {
        Err("expected a number from 0 to 1".to_owned())
    }
}

/// A file mode; `None` for an empty flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ModeBits(pub(crate) Option<u32>);

/// clap: a file mode in octal, for example `0660`; may be empty.
pub(crate) fn mode_bits(text: &str) -> Result<ModeBits, String> {
    if text.is_empty() {
        return Ok(ModeBits(None));
    }
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o777);
    bits.map(|bits| ModeBits(Some(bits)))
        .ok_or_else(|| "expected an octal file mode from 0 to 0777".to_owned())
}

/// clap: a path; may be empty.
pub(crate) fn path(text: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(text))
}

/// clap: a load shedding mode.
pub(crate) fn load_shedding_mode(text: &str) -> Result<LoadSheddingMode, String> {
    LoadSheddingMode::ALL
        .iter()
        .find(|(_, name)| *name == text)
        .map(|(mode, _)| *mode)
        .ok_or_else(|| "expected disabled, logonly or enforce".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_port_of_what_is_asked() {
        for (text, expected) in [
            ("localhost", "localhost:9091"),
            ("mixer.istio-system:7", "mixer.istio-system:7"),
            ("127.0.0.1", "127.0.0.1:9091"),
            ("::1", "[::1]:9091"),
            ("[::1]", "[::1]:9091"),
            ("[::1]:7", "[::1]:7"),
            (":9091", ":9091"),
            ("dns:///mixer", "dns:///mixer:9091"),
            ("unix:///run/mixer.sock", "unix:///run/mixer.sock"),
            ("unix:run/mixer.sock", "unix:run/mixer.sock"),
            ("", ""),
        ] {
            assert_eq!(api_address(text).unwrap().to_string(), expected, "{text}");
        }
        for (text, target, is_tls) in [
            ("http://ops:7", "ops:7", false),
            ("http://ops/", "ops:9091", false),
            ("HTTP://[::1]:7/", "[::1]:7", false),
            ("tcp://127.0.0.1:7", "127.0.0.1:7", false),
            ("grpc://ops", "ops:9091", false),
            ("https://ops", "ops:9091", true),
            ("https://ops:443/", "ops:443", true),
            ("grpcs://ops:7", "ops:7", true),
        ] {
            let expected = ApiAddress { target: target.to_owned(), is_tls };
            assert_eq!(api_address(text), Ok(expected), "{text}");
        }
        for (text, why) in [
            ("http://ops:7/check", "write `ops:7`"),
            ("https://ops:7/?a", "write `https://ops:7`"),
            ("ops:7/x", "write `ops:7`"),
            ("ftp://ops", "`ftp://` is no scheme"),
            ("https://ann:secret@ops", "has no user"),
            ("/run/mixer.sock", "unix:///PATH"),
        ] {
            let error = api_address(text).unwrap_err();
            assert!(error.contains(why) && !error.contains("secret"), "{text}: {error}");
        }
        for (text, expected) in [
            ("ops", "ops:9876"),
            ("http://ops", "http://ops"),
            ("https://ops/mixer", "https://ops/mixer"),
            ("http://ops:7/", "http://ops:7"),
            ("tcp://ops:7", "ops:7"),
            ("tcp://ops", "ops:9876"),
            ("ops:7/", "ops:7"),
        ] {
            assert_eq!(introspection_address(text).unwrap(), expected, "{text}");
        }
        for (text, why) in [
            ("unix:///run/x", "write HOST:PORT"),
            ("ftp://ops", "`ftp://` is no scheme"),
            ("http://ops:7/rulez/?q=a", "write `http://ops:7`"),
            ("http://", "has no host"),
        ] {
            let error = introspection_address(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("4MiB"), Ok(4 << 20));
        assert_eq!(size("1GB"), Ok(1_000_000_000));
        assert_eq!(size("1048576"), Ok(1 << 20));
        for (text, bytes) in [
            ("7b", 7),
            ("2k", 2_000),
            ("2 KiB", 2048),
            ("3g", 3_000_000_000),
            ("3Gi", 3 << 30),
            ("1T", 1_000_000_000_000),
            ("1tb", 1_000_000_000_000),
            ("1TiB", 1 << 40),
            ("16Ti", 16 << 40),
            ("16777215TiB", 16_777_215 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "many",
            "99999999999GiB",
            "16777216TiB",
            "1i",
            "1ib",
            "1 PiB",
            "KiB",
            "-1KiB",
            "1.5GiB",
            "1ä",
            "",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_plain_number_of_mebibytes_needs_no_unit() {
        assert_eq!(mebibytes("100"), Ok(100));
        assert_eq!(mebibytes("1GiB"), Ok(1024));
        assert_eq!(mebibytes("1KiB"), Ok(1));
        assert!(mebibytes("many").is_err());
    }
}
