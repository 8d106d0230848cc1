//! The first message of a client, read without a handshake.
//!
//! The reader wants of a ClientHello only what it takes to find its extensions: what else is in it is judged by the TLS stack that serves the
//! connection, which may know more, or older, than this one. Whoever chooses by the server name must never take for plain text what another
//! stack would serve as TLS: bytes that begin as a ClientHello are one that can be read, or [`Hello::Invalid`].
//! Spec: RFC 8446, 4.1.2 and 5.1; RFC 6066, 3; RFC 7301, 3.1.

/// What the first bytes of a connection are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// More bytes are needed.
    Incomplete,
    /// No ClientHello.
    None,
    /// They begin as a ClientHello, and are none.
    Invalid,
    /// A ClientHello.
    Found {
        /// The server name: visible ASCII, at most 255 bytes.
        server_name: Option<String>,
        /// The protocols of ALPN that it offers, in its order; those that are no text are left out. None if their list cannot be read.
        protocols: Vec<String>,
    },
}

/// The byte that records of handshakes begin with.
const HANDSHAKE: u8 = 22;
/// The byte that a ClientHello begins with.
const CLIENT_HELLO: u8 = 1;
/// The major version of all records. Some servers do not look at it; all that do not take it for a version refuse those from 16.
const MAJOR: u8 = 3;
const END_OF_MAJORS: u8 = 16;
/// Longest content of a record, in bytes.
const MAX_CONTENT: usize = 1 << 14;
/// Most records without content that are skipped, as BoringSSL does.
const MAX_EMPTY_RECORDS: usize = 32;
/// The first version of TLS: SSL 3.0 has no extensions.
const TLS_1_0: u16 = 0x0301;
/// Longest id of a session, and longest server name, in bytes.
const MAX_SESSION_ID: usize = 32;
const MAX_SERVER_NAME: usize = 255;
/// Kinds of extensions.
const SERVER_NAME: u16 = 0;
const PROTOCOLS: u16 = 16;

/// Reads a ClientHello from the first bytes of a connection, which may be in several records. Cost: the headers of the records are read each time,
/// and the message once it is complete.
pub fn read_hello(bytes: &[u8]) -> Hello {
    match begins_as_hello(bytes) {
        None => return Hello::Incomplete,
        Some(false) => return Hello::None,
        Some(true) => {}
    }
    let mut header = [0; 4];
    let (mut arrived, mut length) = (0, None);
    for content in Records::of(bytes) {
        let Ok(content) = content else { return Hello::Invalid };
        for (slot, byte) in header.iter_mut().skip(arrived).zip(content) {
            *slot = *byte;
        }
        arrived += content.len();
        if arrived >= header.len() {
            let [_, digits @ ..] = header;
            let body = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
            length = Some(header.len() + body).filter(|length| arrived >= *length);
        }
        if length.is_some() {
            break;
        }
    }
    let Some(length) = length else { return Hello::Incomplete };
    let mut message = Vec::with_capacity(length);
    for content in Records::of(bytes).flatten() {
        message.extend(content.iter().take(length - message.len()));
    }
    match parse(message.get(header.len()..).unwrap_or_default()) {
        Some((server_name, protocols)) => Hello::Found { server_name, protocols },
        None => Hello::Invalid,
    }
}

/// Whether the bytes begin with a record of a handshake whose first message is a ClientHello; `None`: more are needed to tell.
pub fn begins_as_hello(bytes: &[u8]) -> Option<bool> {
    let (first, rest) = bytes.split_first()?;
    if *first != HANDSHAKE {
        return Some(false);
    }
    let major = *rest.first()?;
    if major >= END_OF_MAJORS {
        return Some(false);
    }
    let mut records = Records::of(bytes);
    // An error: it is longer than a record can be, or there are too many without content.
    let Ok(content) = records.next()? else { return Some(major == MAJOR) };
    let (kind, more) = content.split_first()?;
    if *kind != CLIENT_HELLO || major == MAJOR {
        return Some(*kind == CLIENT_HELLO);
    }
    // Nobody's messages are as long as the first byte of the length can say.
    match (more.first(), records.next()) {
        (Some(length), _) | (None, Some(Ok([length, ..]))) => Some(*length == 0),
        (None, Some(_)) => Some(false),
        (None, None) => None,
    }
}

/// The bytes are no record of a handshake.
#[derive(Debug, Clone, Copy)]
struct NoRecord;

/// The contents of records of handshakes, as far as they have arrived, without the empty ones.
struct Records<'b> {
    rest: &'b [u8],
    empty: usize,
}

impl<'b> Records<'b> {
    fn of(bytes: &'b [u8]) -> Self {
        Self { rest: bytes, empty: 0 }
    }
}

impl<'b> Iterator for Records<'b> {
    type Item = Result<&'b [u8], NoRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let ([kind, major, _, high, low], rest) = self.rest.split_first_chunk()?;
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            self.empty += usize::from(length == 0);
            if *kind != HANDSHAKE
                || *major >= END_OF_MAJORS
                || length > MAX_CONTENT
                || self.empty > MAX_EMPTY_RECORDS
            {
                self.rest = &[];
                return Some(Err(NoRecord));
            }
            let (content, rest) = rest.split_at(length.min(rest.len()));
            self.rest = rest;
            if !content.is_empty() {
                return Some(Ok(content));
            }
            if length > 0 {
                return None;
            }
        }
    }
}

/// The server name and the protocols in a ClientHello.
fn parse(body: &[u8]) -> Option<(Option<String>, Vec<String>)> {
    let mut hello = Reader(body);
    let version = hello.number()?;
    let _random = hello.take(32)?;
    let session = hello.short()?;
    let ciphers = hello.long()?;
    let compressions = hello.short()?;
    let is_valid = version >= TLS_1_0
        && session.len() <= MAX_SESSION_ID
        && !ciphers.is_empty()
        && ciphers.len() % 2 == 0
        && !compressions.is_empty();
    if !is_valid {
        return None;
    }
    let (mut server_name, mut protocols) = (None, Vec::new());
    if hello.0.is_empty() {
        return Some((server_name, protocols));
    }
    let mut extensions = Reader(hello.long()?);
    if !hello.0.is_empty() {
        return None;
    }
    let mut kinds = Vec::new();
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let content = extensions.long()?;
        kinds.push(kind);
        match kind {
            SERVER_NAME => server_name = Some(name(content)?),
            // Whoever serves the connection judges it.
            PROTOCOLS => protocols = offered(content).unwrap_or_default(),
            _ => {}
        }
    }
    // Of two names one would be chosen by, and the other served.
    kinds.sort_unstable();
    let is_unique = kinds.iter().zip(kinds.iter().skip(1)).all(|(kind, next)| kind != next);
    is_unique.then_some((server_name, protocols))
}

/// The only name of the extension with it.
fn name(content: &[u8]) -> Option<String> {
    let mut content = Reader(content);
    let mut names = Reader(content.long()?);
    let (kind, name) = (names.byte()?, names.long()?);
    let is_valid = kind == 0
        && names.0.is_empty()
        && content.0.is_empty()
        && (1..=MAX_SERVER_NAME).contains(&name.len())
        && name.iter().all(u8::is_ascii_graphic);
    is_valid.then(|| name.iter().copied().map(char::from).collect())
}

/// The protocols of ALPN that are texts.
fn offered(content: &[u8]) -> Option<Vec<String>> {
    let mut content = Reader(content);
    let mut names = Reader(content.long()?);
    let mut found = Vec::new();
    while !names.0.is_empty() {
        let name = names.short().filter(|name| !name.is_empty())?;
        found.extend(std::str::from_utf8(name).ok().map(str::to_owned));
    }
    content.0.is_empty().then_some(found)
}

/// What has not been read yet.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u16> {
        let (digits, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*digits))
    }

    /// Bytes after a length of one byte.
    fn short(&mut self) -> Option<&'b [u8]> {
        let length = self.byte()?;
        self.take(length.into())
    }

    /// Bytes after a length of two bytes.
    fn long(&mut self) -> Option<&'b [u8]> {
        let length = self.number()?;
        self.take(length.into())
    }
}

#[cfg(test)]
mod tests;
