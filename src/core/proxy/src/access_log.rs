//! Access logs: the form of a line, and files that are written in the background.

mod file;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

pub(crate) use file::{AccessLogFile, AccessLogFiles};

use crate::connection_info::ConnectionInfo;
use crate::flags::Flags;
use crate::head::Head;

/// The default form of a line.
const DEFAULT: &str = "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" \"%REQ(X-REQUEST-ID)%\" \"%REQ(:AUTHORITY)%\" \"%UPSTREAM_HOST%\"\n";

/// The form of a line, compiled from a format string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format(Vec<Part>);

/// Why a format string is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatError {
    /// What is wrong; for an operator of Envoy's its name.
    pub text: String,
    /// Whether Envoy has it and this version has not.
    pub unsupported: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Request(Header),
    Response(Header),
    Operator(Operator),
}

/// A header with an alternative and a maximum length.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Header {
    name: String,
    other: Option<String>,
    max: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    StartTime,
    Protocol,
    ResponseCode,
    ResponseCodeDetails,
    ResponseFlags,
    BytesReceived,
    BytesSent,
    Duration,
    UpstreamHost,
    UpstreamCluster,
    RouteName,
    RemoteAddress,
    RemoteHost,
    DirectRemoteAddress,
    LocalAddress,
    PeerSubject,
    PeerUris,
    PeerNames,
    TlsVersion,
    TlsCipher,
    ServerName,
}

const OPERATORS: [(&str, Operator); 21] = [
    ("START_TIME", Operator::StartTime),
    ("PROTOCOL", Operator::Protocol),
    ("RESPONSE_CODE", Operator::ResponseCode),
    ("RESPONSE_CODE_DETAILS", Operator::ResponseCodeDetails),
    ("RESPONSE_FLAGS", Operator::ResponseFlags),
    ("BYTES_RECEIVED", Operator::BytesReceived),
    ("BYTES_SENT", Operator::BytesSent),
    ("DURATION", Operator::Duration),
    ("UPSTREAM_HOST", Operator::UpstreamHost),
    ("UPSTREAM_CLUSTER", Operator::UpstreamCluster),
    ("ROUTE_NAME", Operator::RouteName),
    ("DOWNSTREAM_REMOTE_ADDRESS", Operator::RemoteAddress),
    ("DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", Operator::RemoteHost),
    ("DOWNSTREAM_DIRECT_REMOTE_ADDRESS", Operator::DirectRemoteAddress),
    ("DOWNSTREAM_LOCAL_ADDRESS", Operator::LocalAddress),
    ("DOWNSTREAM_PEER_SUBJECT", Operator::PeerSubject),
    ("DOWNSTREAM_PEER_URI_SAN", Operator::PeerUris),
    ("DOWNSTREAM_PEER_DNS_SAN", Operator::PeerNames),
    ("DOWNSTREAM_TLS_VERSION", Operator::TlsVersion),
    ("DOWNSTREAM_TLS_CIPHER", Operator::TlsCipher),
    ("REQUESTED_SERVER_NAME", Operator::ServerName),
];

/// What a line is about.
#[derive(Debug)]
pub(crate) struct Entry<'e> {
    pub(crate) start: SystemTime,
    pub(crate) duration: Duration,
    /// The name of the protocol; `-` for TCP.
    pub(crate) protocol: &'static str,
    /// The request as it was forwarded; `None` for TCP and for requests that could not be read.
    pub(crate) request: Option<&'e Head>,
    pub(crate) response: Option<&'e Head>,
    /// 0 if there is none.
    pub(crate) status: u16,
    pub(crate) details: &'static str,
    pub(crate) flags: Flags,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) upstream: Option<SocketAddr>,
    pub(crate) cluster: &'e str,
    pub(crate) route: &'e str,
    pub(crate) connection: &'e ConnectionInfo,
    /// The client, if a proxy before says that it is another one than that of the connection.
    pub(crate) client: Option<IpAddr>,
}

impl Entry<'_> {
    /// The client: without a port if only a proxy before knows it.
    pub(crate) fn remote(&self) -> SocketAddr {
        self.client.map_or(self.connection.remote, |client| SocketAddr::new(client, 0))
    }
}

impl Format {
    /// Envoy's default format.
    pub fn default_http() -> Self {
        Self::compile(DEFAULT).unwrap_or(Self(Vec::new()))
    }

    /// Compiles a format string.
    ///
    /// Errors: an operator that is not closed, or not known.
    pub fn compile(text: &str) -> Result<Self, FormatError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            literal.push_str(before);
            if let Some(after) = after.strip_prefix('%') {
                literal.push('%');
                rest = after;
                continue;
            }
            let Some((operator, after)) = after.split_once('%') else {
                let text = format!("the command operator `%{after}` is not closed by `%`");
                return Err(FormatError { text, unsupported: false });
            };
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(operator_of(operator)?);
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self(parts))
    }

    /// Appends a line.
    pub(crate) fn write(&self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Request(header) => header.write(entry.request, out),
                Part::Response(header) => header.write(entry.response, out),
                Part::Operator(operator) => operator.write(entry, out),
            }
        }
    }
}

/// `NAME`, `NAME(ARGUMENT)`, `NAME(ARGUMENT):LENGTH`.
fn operator_of(text: &str) -> Result<Part, FormatError> {
    let unsupported = || FormatError { text: format!("the command operator `%{text}%`"), unsupported: true };
    let (name, argument) = match text.split_once('(') {
        None => (text, None),
        Some((name, argument)) => (name, Some(argument)),
    };
    let Some(argument) = argument else {
        let found = OPERATORS.iter().find(|(known, _)| *known == name);
        return found.map(|(_, operator)| Part::Operator(*operator)).ok_or_else(unsupported);
    };
    if !matches!(name, "REQ" | "RESP") {
        return Err(unsupported());
    }
    let invalid =
        || FormatError { text: format!("`%{text}%` is not a valid command operator"), unsupported: false };
    let (argument, max) = argument.split_once(')').ok_or_else(invalid)?;
    let max = match max.strip_prefix(':') {
        None if max.is_empty() => None,
        Some(max) => Some(max.parse().map_err(|_| invalid())?),
        None => return Err(invalid()),
    };
    let (first, other) = match argument.split_once('?') {
        None => (argument, None),
        Some((first, other)) => (first, Some(other.to_ascii_lowercase())),
    };
    let header = Header { name: first.to_ascii_lowercase(), other, max };
    Ok(if name == "REQ" { Part::Request(header) } else { Part::Response(header) })
}

impl Header {
    fn write(&self, head: Option<&Head>, out: &mut Vec<u8>) {
        let status;
        let value = match head {
            Some(head) if self.name == ":status" && (100..1000).contains(&head.status) => {
                let digits = [head.status / 100, head.status / 10 % 10, head.status % 10];
                status = digits.map(|digit| b'0' + u8::try_from(digit).unwrap_or(0));
                Some(&status[..])
            }
            Some(head) => {
                head.pseudo_or_field(&self.name).or_else(|| head.pseudo_or_field(self.other.as_deref()?))
            }
            None => None,
        };
        let value = value.unwrap_or(b"-");
        let value = value.get(..self.max.unwrap_or(usize::MAX)).unwrap_or(value);
        // A value never has CR or LF; a quote could end a quoted part early, and Envoy writes it as it is.
        out.extend_from_slice(value);
    }
}

impl Operator {
    fn write(self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        use std::io::Write as _;
        let or_dash = |text: &str, out: &mut Vec<u8>| {
            out.write_all(if text.is_empty() { b"-" } else { text.as_bytes() })
        };
        let tls = entry.connection.tls.as_ref();
        let peer = tls.and_then(|tls| tls.peer.as_ref());
        // Writing to memory does not fail.
        let _ = match self {
            Operator::StartTime => match jiff::Timestamp::try_from(entry.start) {
                Ok(time) => write!(out, "{time:.3}"),
                Err(_) => write!(out, "-"),
            },
            Operator::Protocol => out.write_all(entry.protocol.as_bytes()),
            Operator::ResponseCode => write!(out, "{}", entry.status),
            Operator::ResponseCodeDetails => or_dash(entry.details, out),
            Operator::ResponseFlags => {
                entry.flags.write(out);
                Ok(())
            }
            Operator::BytesReceived => write!(out, "{}", entry.received),
            Operator::BytesSent => write!(out, "{}", entry.sent),
            Operator::Duration => write!(out, "{}", entry.duration.as_millis()),
            Operator::UpstreamHost => match entry.upstream {
                Some(host) => write!(out, "{host}"),
                None => write!(out, "-"),
            },
            Operator::UpstreamCluster => or_dash(entry.cluster, out),
            Operator::RouteName => or_dash(entry.route, out),
            Operator::RemoteAddress => write!(out, "{}", entry.remote()),
            Operator::RemoteHost => write!(out, "{}", entry.remote().ip()),
            Operator::DirectRemoteAddress => write!(out, "{}", entry.connection.direct_remote),
            Operator::LocalAddress => write!(out, "{}", entry.connection.local),
            Operator::PeerSubject => or_dash(peer.map_or("", |peer| peer.subject.as_str()), out),
            Operator::PeerUris => or_dash(&peer.map(|peer| peer.uris.join(",")).unwrap_or_default(), out),
            Operator::PeerNames => or_dash(&peer.map(|peer| peer.dns.join(",")).unwrap_or_default(), out),
            Operator::TlsVersion => or_dash(tls.map_or("", |tls| tls.version), out),
            Operator::TlsCipher => or_dash(tls.map_or("", |tls| tls.cipher), out),
            Operator::ServerName => or_dash(&entry.connection.server_name, out),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tcp_line_has_dashes() {
        let entry = Entry {
            start: SystemTime::UNIX_EPOCH,
            duration: Duration::from_millis(7),
            protocol: "-",
            request: None,
            response: None,
            status: 0,
            details: "",
            flags: Flags::default().with(crate::flags::Flag::UF).with(crate::flags::Flag::Urx),
            received: 3,
            sent: 4,
            upstream: None,
            cluster: "c",
            route: "",
            connection: &ConnectionInfo::new(([127, 0, 0, 1], 5).into(), ([127, 0, 0, 1], 6).into()),
            client: None,
        };
        let mut out = Vec::new();
        Format::default_http().write(&entry, &mut out);
        let expected =
            "[1970-01-01T00:00:00.000Z] \"- - -\" 0 UF,URX 3 4 7 - \"-\" \"-\" \"-\" \"-\" \"-\"\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let format =
            Format::compile("100%% %DOWNSTREAM_REMOTE_ADDRESS% %UPSTREAM_CLUSTER% %ROUTE_NAME%").unwrap();
        let mut out = Vec::new();
        format.write(&entry, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "100% 127.0.0.1:5 c -");
        let entry = Entry { client: Some([192, 0, 2, 1].into()), ..entry };
        let format =
            Format::compile("%DOWNSTREAM_REMOTE_ADDRESS% %DOWNSTREAM_DIRECT_REMOTE_ADDRESS%").unwrap();
        let mut out = Vec::new();
        format.write(&entry, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "192.0.2.1:0 127.0.0.1:5");
    }

    #[test]
    fn unknown_operators_are_refused_by_name() {
        let refused = |text| Format::compile(text).unwrap_err();
        assert!(refused("%CEL(x)%").unsupported);
        assert_eq!(refused("%DYNAMIC_METADATA(a:b)%").text, "the command operator `%DYNAMIC_METADATA(a:b)%`");
        assert!(!refused("%REQ(x").unsupported);
        assert!(!refused("%REQ(x):y%").unsupported);
    }
}
