//! The PROXY protocol, versions 1 and 2: who a connection comes from, and where it wanted to go.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::Refused;
use super::peek::Peeked;
use crate::connection_info::ConnectionInfo;
use crate::stats::{Block, ProxyProtocolStat};

/// What version 1 begins with, and its longest header.
const V1: &[u8] = b"PROXY ";
const MAX_V1: usize = 107;
/// What version 1 says of a connection of which nothing is known.
const UNKNOWN: &[u8] = b"PROXY UNKNOWN";
/// What version 2 begins with, and the length of what is always there.
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const FIXED_V2: usize = 16;

/// What the first bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Header {
    Incomplete,
    /// No header.
    None,
    /// A header that is not valid.
    Invalid(u8),
    /// A header of so many bytes, with source and destination unless it says nothing of them. The last `extensions` bytes are TLVs.
    Found {
        version: u8,
        length: usize,
        addresses: Option<(SocketAddr, SocketAddr)>,
        extensions: usize,
    },
}

/// Takes the header.
///
/// Errors: there is none and one is needed, it is not valid, or the connection ends.
pub(super) async fn look(
    stream: &mut TcpStream,
    info: &mut ConnectionInfo,
    is_optional: bool,
    stats: &Block<ProxyProtocolStat>,
) -> Result<(), Refused> {
    let mut peeked = Peeked::new();
    loop {
        if !peeked.more(stream).await? {
            return Err(Refused::Gone);
        }
        match read(peeked.bytes()) {
            Header::Incomplete => {}
            Header::None if is_optional => {
                stats.increment(ProxyProtocolStat::NotFoundAllowed);
                return Ok(());
            }
            Header::None => {
                stats.increment(ProxyProtocolStat::NotFoundDisallowed);
                return Err(Refused::Invalid);
            }
            Header::Invalid(version) => {
                stats.increment(match version {
                    1 => ProxyProtocolStat::V1Error,
                    _ => ProxyProtocolStat::V2Error,
                });
                return Err(Refused::Invalid);
            }
            Header::Found { version, length, addresses, extensions } => {
                take(stream, length - extensions, |_| ()).await?;
                let mut read = Extensions::default();
                take(stream, extensions, |piece| read.add(piece)).await?;
                if !read.is_complete() {
                    stats.increment(ProxyProtocolStat::V2Error);
                    return Err(Refused::Invalid);
                }
                stats.increment(match version {
                    1 => ProxyProtocolStat::V1Found,
                    _ => ProxyProtocolStat::V2Found,
                });
                if let Some((source, destination)) = addresses {
                    info.remote = source;
                    info.is_local_restored = true;
                    info.local = destination;
                }
                return Ok(());
            }
        }
    }
}

/// Takes so many bytes.
async fn take(stream: &mut TcpStream, mut length: usize, mut see: impl FnMut(&[u8])) -> std::io::Result<()> {
    let mut piece = [0; 512];
    while length > 0 {
        let count = length.min(piece.len());
        let Some(piece) = piece.get_mut(..count) else { return Ok(()) };
        stream.read_exact(piece).await?;
        see(piece);
        length -= count;
    }
    Ok(())
}

/// The extensions of version 2, as far as they were read: each has a type, a length of two bytes and a value. What they say has no effect.
#[derive(Debug, Default)]
struct Extensions {
    /// Bytes of the next type and length, of which the last two are the length.
    begun: usize,
    length: [u8; 2],
    /// Bytes of the value that are to come.
    value: usize,
}

impl Extensions {
    fn add(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.value > 0 {
                let count = self.value.min(bytes.len());
                self.value -= count;
                bytes = bytes.get(count..).unwrap_or_default();
                continue;
            }
            if let Some(place) = self.begun.checked_sub(1).and_then(|place| self.length.get_mut(place)) {
                *place = *first;
            }
            self.begun = (self.begun + 1) % 3;
            if self.begun == 0 {
                self.value = usize::from(u16::from_be_bytes(self.length));
            }
            bytes = rest;
        }
    }

    /// Whether the last one has ended.
    fn is_complete(&self) -> bool {
        self.begun == 0 && self.value == 0
    }
}

/// Whether an address may be one end of a connection.
fn is_unicast(address: IpAddr) -> bool {
    let is_broadcast = address == Ipv4Addr::BROADCAST;
    !address.is_multicast() && !address.is_unspecified() && !is_broadcast
}

fn read(bytes: &[u8]) -> Header {
    if bytes.starts_with(V2) {
        return read_v2(bytes);
    }
    if bytes.starts_with(V1) {
        return read_v1(bytes);
    }
    match V2.starts_with(bytes) || V1.starts_with(bytes) {
        true => Header::Incomplete,
        false => Header::None,
    }
}

fn read_v1(bytes: &[u8]) -> Header {
    let Some(end) = memchr::memchr(b'\n', bytes.get(..MAX_V1.min(bytes.len())).unwrap_or_default()) else {
        return if bytes.len() >= MAX_V1 { Header::Invalid(1) } else { Header::Incomplete };
    };
    let line = bytes.get(..end).and_then(|line| line.strip_suffix(b"\r"));
    // Whatever follows is to be ignored.
    let is_unknown = |line: &[u8]| matches!(line.strip_prefix(UNKNOWN), Some([] | [b' ', ..]));
    if line.is_some_and(is_unknown) {
        return Header::Found { version: 1, length: end + 1, addresses: None, extensions: 0 };
    }
    let Some(text) = line.and_then(|line| std::str::from_utf8(line).ok()) else { return Header::Invalid(1) };
    let parts: Vec<&str> = text.split(' ').collect();
    let addresses = match parts.as_slice() {
        ["PROXY", family @ ("TCP4" | "TCP6"), source, destination, from, to] => {
            let address = |address: &str, port: &str| {
                let address: IpAddr = address.parse().ok().filter(|address| is_unicast(*address))?;
                let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
                let port = port.parse().ok().filter(|_| is_port)?;
                (address.is_ipv4() == (*family == "TCP4")).then(|| SocketAddr::new(address, port))
            };
            match (address(source, from), address(destination, to)) {
                (Some(source), Some(destination)) => (source, destination),
                _ => return Header::Invalid(1),
            }
        }
        _ => return Header::Invalid(1),
    };
    Header::Found { version: 1, length: end + 1, addresses: Some(addresses), extensions: 0 }
}

fn read_v2(bytes: &[u8]) -> Header {
    let Some([command, family, high, low]) = bytes.get(V2.len()..FIXED_V2) else { return Header::Incomplete };
    let content = usize::from(u16::from_be_bytes([*high, *low]));
    let length = FIXED_V2 + content;
    match command {
        // LOCAL: a connection of the balancer itself.
        0x20 => return Header::Found { version: 2, length, addresses: None, extensions: 0 },
        0x21 => {}
        _ => return Header::Invalid(2),
    }
    let size: usize = match family {
        0x11 | 0x12 => 4,
        0x21 | 0x22 => 16,
        _ => return Header::Invalid(2),
    };
    let needed = 2 * size + 4;
    if content < needed {
        return Header::Invalid(2);
    }
    let Some(fields) = bytes.get(FIXED_V2..FIXED_V2 + needed) else { return Header::Incomplete };
    let address = |at: usize| -> Option<IpAddr> {
        let octets = fields.get(at..at + size)?;
        match size {
            4 => <[u8; 4]>::try_from(octets).ok().map(IpAddr::from),
            _ => <[u8; 16]>::try_from(octets).ok().map(IpAddr::from),
        }
    };
    let port = |at: usize| Some(u16::from_be_bytes(fields.get(at..at + 2)?.try_into().ok()?));
    let ends = || {
        let source = SocketAddr::new(address(0)?, port(2 * size)?);
        let destination = SocketAddr::new(address(size)?, port(2 * size + 2)?);
        Some((source, destination))
    };
    match ends().filter(|(source, destination)| is_unicast(source.ip()) && is_unicast(destination.ip())) {
        Some(addresses) => {
            Header::Found { version: 2, length, addresses: Some(addresses), extensions: content - needed }
        }
        None => Header::Invalid(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
        let mut out = V2.to_vec();
        out.extend([command, family]);
        out.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
        out.extend(content);
        out
    }

    #[test]
    fn headers_are_read() {
        let addresses =
            |source: &str, destination: &str| Some((source.parse().unwrap(), destination.parse().unwrap()));
        let text = b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 443\r\nGET";
        let found = Header::Found {
            version: 1,
            length: text.len() - 3,
            addresses: addresses("192.0.2.1:1000", "192.0.2.2:443"),
            extensions: 0,
        };
        assert_eq!(read(text), found);
        let text = b"PROXY TCP6 ::1 2001:db8::1 1 2\r\n";
        assert_eq!(
            read(text),
            Header::Found {
                version: 1,
                length: text.len(),
                addresses: addresses("[::1]:1", "[2001:db8::1]:2"),
                extensions: 0,
            }
        );
        for text in [&b"PROXY UNKNOWN whatever\r\n"[..], b"PROXY UNKNOWN\r\n", b"PROXY UNKNOWN \xff \r \r\n"]
        {
            let length = text.len();
            assert_eq!(read(text), Header::Found { version: 1, length, addresses: None, extensions: 0 });
        }
        let content = [192, 0, 2, 1, 192, 0, 2, 2, 3, 232, 1, 187, 4, 0, 1, 9];
        let header = v2(0x21, 0x11, &content);
        let found = Header::Found {
            version: 2,
            length: header.len(),
            addresses: addresses("192.0.2.1:1000", "192.0.2.2:443"),
            extensions: 4,
        };
        assert_eq!(read(&header), found);
        for (content, length) in [(&[][..], 16), (b"any", 19)] {
            let found = Header::Found { version: 2, length, addresses: None, extensions: 0 };
            assert_eq!(read(&v2(0x20, 0, content)), found);
        }
    }

    #[test]
    fn extensions_end_where_the_header_does() {
        for (bytes, is_whole) in [
            (&[][..], true),
            (&[4, 0, 0], true),
            (&[4, 0, 2, 1, 2], true),
            (&[4, 0, 2, 1, 2, 3, 0, 0, 5, 0, 1, 9], true),
            (&[4], false),
            (&[4, 0], false),
            (&[4, 0, 1], false),
            (&[4, 0, 2, 1], false),
            (&[4, 1, 0, 1, 2], false),
            (&[4, 0, 0, 5], false),
        ] {
            for size in 1..=bytes.len().max(1) {
                let mut extensions = Extensions::default();
                bytes.chunks(size).for_each(|piece| extensions.add(piece));
                assert_eq!(extensions.is_complete(), is_whole, "{bytes:?} {size}");
            }
        }
        let mut extensions = Extensions::default();
        extensions.add(&[[4, 0xff, 0xff].as_slice(), &[0; 0xffff]].concat());
        assert!(extensions.is_complete());
    }

    #[test]
    fn addresses_are_those_of_connections() {
        for (address, is) in [
            ("224.0.0.1", false),
            ("239.255.255.255", false),
            ("255.255.255.255", false),
            ("0.0.0.0", false),
            ("240.0.0.1", true),
            ("10.255.255.255", true),
            ("127.0.0.1", true),
            ("ff02::1", false),
            ("::", false),
            ("::1", true),
            ("fe80::1", true),
            ("::ffff:224.0.0.1", true),
        ] {
            let address: IpAddr = address.parse().unwrap();
            let family = if address.is_ipv4() { "TCP4" } else { "TCP6" };
            let other: IpAddr = if address.is_ipv4() { [10, 0, 0, 1].into() } else { [7; 8].into() };
            for (from, to) in [(address, other), (other, address)] {
                let text = format!("PROXY {family} {from} {to} 1 2\r\n");
                assert_eq!(read(text.as_bytes()) != Header::Invalid(1), is, "{text}");
                let octets = |address: IpAddr| match address {
                    IpAddr::V4(address) => address.octets().to_vec(),
                    IpAddr::V6(address) => address.octets().to_vec(),
                };
                let content = [octets(from), octets(to), vec![0, 1, 0, 2]].concat();
                let header = v2(0x21, if address.is_ipv4() { 0x11 } else { 0x21 }, &content);
                assert_eq!(read(&header) != Header::Invalid(2), is, "{from} {to}");
            }
        }
    }

    #[test]
    fn parts_are_incomplete_and_others_refused() {
        for whole in [&b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 443\r\n"[..], &v2(0x21, 0x21, &[1; 36])] {
            for length in 0..whole.len() {
                assert_eq!(read(&whole[..length]), Header::Incomplete, "{length}");
            }
        }
        assert_eq!(read(b"GET / HTTP/1.1\r\n"), Header::None);
        assert_eq!(read(b"\x16\x03"), Header::None);
        for bad in [
            &b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 70000\r\n"[..],
            b"PROXY TCP4 ::1 ::1 1 2\r\n",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
            b"PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n",
            &[b"PROXY ".to_vec(), vec![b'a'; 200]].concat(),
        ] {
            assert_eq!(read(bad), Header::Invalid(1), "{}", String::from_utf8_lossy(bad));
        }
        for bad in [
            v2(0x22, 0x11, &[0; 12]),
            v2(0x11, 0x11, &[0; 12]),
            v2(0x21, 0x31, &[0; 216]),
            v2(0x21, 0x11, &[0; 11]),
            v2(0x21, 0, &[]),
        ] {
            assert_eq!(read(&bad), Header::Invalid(2), "{bad:?}");
        }
    }
}
