//! Messages of the ZooKeeper protocol: those that reading and watching a tree takes. Each has a length of 4 bytes before it; numbers are
//! big-endian, texts and buffers have a length of 4 bytes, which is -1 for none.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The number of notifications.
const NOTIFICATION: i32 = -1;
/// The number of pings.
const PING: i32 = -2;
/// The number of credentials.
const AUTH: i32 = -4;

/// A session that a server knows.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SessionId {
    pub(super) number: i64,
    /// Whoever has it may take the session over.
    pub(super) password: Bytes,
}

/// What a server answers to the first message of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Connected {
    /// The session ends when the server hears nothing for so many milliseconds. 0: it has ended.
    pub(super) timeout_ms: u32,
    pub(super) session: SessionId,
}

impl std::fmt::Debug for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "0x{:x}", self.number)
    }
}

/// What a server sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// A node for which there is a watch has changed: its path.
    Notification(String),
    /// The answer to a ping.
    Pong,
    /// The answer to credentials: an error, or 0.
    Auth(i32),
    /// The answer to a request.
    Reply {
        /// The number of the request.
        number: i32,
        /// The last transaction that the server has seen.
        zxid: i64,
        /// Errors: the code.
        body: Result<Bytes, i32>,
    },
}

/// A message has a form that no server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server sends what is not the ZooKeeper protocol")]
pub(super) struct Malformed;

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    NoNode,
    NoAuth,
    Other(i32),
}

impl From<i32> for Code {
    fn from(code: i32) -> Self {
        match code {
            -101 => Code::NoNode,
            -102 => Code::NoAuth,
            other => Code::Other(other),
        }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Code::NoNode => "NoNode",
            Code::NoAuth => "NoAuth",
            Code::Other(-1) => "SystemError",
            Code::Other(-4) => "ConnectionLoss",
            Code::Other(-6) => "Unimplemented",
            Code::Other(-8) => "BadArguments",
            Code::Other(-112) => "SessionExpired",
            Code::Other(-118) => "SessionMoved",
            Code::Other(-124) => "SessionClosedRequireSaslAuth",
            Code::Other(code) => return write!(f, "error {code}"),
        };
        f.write_str(name)
    }
}

/// Adds a message, which `write` writes, with its length.
fn message(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let at = out.len();
    out.put_i32(0);
    write(out);
    let length = i32::try_from(out.len() - at - 4).unwrap_or(i32::MAX);
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

fn put_buffer(out: &mut BytesMut, bytes: &[u8]) {
    out.put_i32(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
    out.put_slice(bytes);
}

/// Begins a connection: with a session that is to be resumed, or a new one. A server that is behind the transaction refuses.
pub(super) fn connect(out: &mut BytesMut, seen: i64, timeout_ms: u32, session: Option<&SessionId>) {
    message(out, |out| {
        out.put_i32(0);
        out.put_i64(seen);
        out.put_i32(i32::try_from(timeout_ms).unwrap_or(i32::MAX));
        out.put_i64(session.map_or(0, |session| session.number));
        match session {
            Some(session) => put_buffer(out, &session.password),
            None => put_buffer(out, &[0; 16]),
        }
        // A server without quorum is not good enough.
        out.put_u8(0);
    });
}

/// Presents a user and a password, `user:password`.
pub(super) fn digest(out: &mut BytesMut, credentials: &[u8]) {
    message(out, |out| {
        out.put_i32(AUTH);
        out.put_i32(100);
        out.put_i32(0);
        put_buffer(out, b"digest");
        put_buffer(out, credentials);
    });
}

pub(super) fn ping(out: &mut BytesMut) {
    message(out, |out| {
        out.put_i32(PING);
        out.put_i32(11);
    });
}

/// Ends the session.
pub(super) fn close(out: &mut BytesMut) {
    message(out, |out| {
        out.put_i32(0);
        out.put_i32(-11);
    });
}

/// Asks for the names of the children of a node, and for a notification when they change or the node is deleted.
pub(super) fn children(out: &mut BytesMut, number: i32, path: &str) {
    watched(out, number, 8, path);
}

/// Asks whether a node exists, and for a notification when it is created, changed or deleted.
pub(super) fn exists(out: &mut BytesMut, number: i32, path: &str) {
    watched(out, number, 3, path);
}

fn watched(out: &mut BytesMut, number: i32, operation: i32, path: &str) {
    message(out, |out| {
        out.put_i32(number);
        out.put_i32(operation);
        put_buffer(out, path.as_bytes());
        out.put_u8(1);
    });
}

/// Reads the answer to [`connect`].
pub(super) fn connected(mut body: Bytes) -> Result<Connected, Malformed> {
    let version = int(&mut body)?;
    let timeout = int(&mut body)?;
    let number = body.try_get_i64().map_err(|_| Malformed)?;
    let password = buffer(&mut body)?;
    if version != 0 {
        return Err(Malformed);
    }
    let timeout_ms = u32::try_from(timeout).unwrap_or(0);
    Ok(Connected { timeout_ms, session: SessionId { number, password } })
}

/// Reads what follows.
pub(super) fn read(mut body: Bytes) -> Result<Message, Malformed> {
    let number = int(&mut body)?;
    let zxid = body.try_get_i64().map_err(|_| Malformed)?;
    let code = int(&mut body)?;
    Ok(match number {
        NOTIFICATION => {
            let (_kind, _state) = (int(&mut body)?, int(&mut body)?);
            Message::Notification(text(&mut body)?)
        }
        PING => Message::Pong,
        AUTH => Message::Auth(code),
        number => Message::Reply { number, zxid, body: if code == 0 { Ok(body) } else { Err(code) } },
    })
}

/// How many names of children there are, as they say; 0 if they do not.
pub(super) fn count(body: &Bytes) -> usize {
    int(&mut body.clone()).ok().and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

/// Reads the names of children. Names that are no UTF-8 have replacement characters, and are the names of no node.
pub(super) fn names(mut body: Bytes) -> Result<Vec<String>, Malformed> {
    let count = int(&mut body)?;
    let Ok(count) = usize::try_from(count) else { return Ok(Vec::new()) };
    // Each has a length.
    if count > body.len() / 4 {
        return Err(Malformed);
    }
    (0..count).map(|_| text(&mut body)).collect()
}

fn int(body: &mut Bytes) -> Result<i32, Malformed> {
    body.try_get_i32().map_err(|_| Malformed)
}

fn buffer(body: &mut Bytes) -> Result<Bytes, Malformed> {
    let Ok(length) = usize::try_from(int(body)?) else { return Ok(Bytes::new()) };
    if length > body.len() {
        return Err(Malformed);
    }
    Ok(body.split_to(length))
}

fn text(body: &mut Bytes) -> Result<String, Malformed> {
    Ok(String::from_utf8_lossy(&buffer(body)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_form_of_the_protocol() {
        let bytes = |write: &dyn Fn(&mut BytesMut)| {
            let mut out = BytesMut::new();
            write(&mut out);
            out.to_vec()
        };
        assert_eq!(bytes(&|out| ping(out)), b"\0\0\0\x08\xff\xff\xff\xfe\0\0\0\x0b");
        assert_eq!(bytes(&|out| close(out)), b"\0\0\0\x08\0\0\0\0\xff\xff\xff\xf5");
        let expected = b"\0\0\0\x0f\0\0\0\x05\0\0\0\x08\0\0\0\x02/d\x01";
        assert_eq!(bytes(&|out| children(out, 5, "/d")), expected);
        let expected = b"\0\0\0\x1d\xff\xff\xff\xfc\0\0\0\x64\0\0\0\0\0\0\0\x06digest\0\0\0\x03a:b";
        assert_eq!(bytes(&|out| digest(out, b"a:b")), expected);
        let first = bytes(&|out| connect(out, 7, 10_000, None));
        assert_eq!(first.len(), 4 + 45);
        assert_eq!(first[..16], *b"\0\0\0\x2d\0\0\0\0\0\0\0\0\0\0\0\x07");
    }

    #[test]
    fn what_no_server_sends_is_malformed() {
        let of = |bytes: &'static [u8]| Bytes::from_static(bytes);
        assert_eq!(names(of(b"\0\0\0\x02\0\0\0\x01a\0\0\0\0")), Ok(vec!["a".to_owned(), String::new()]));
        assert_eq!(names(of(b"\xff\xff\xff\xff")), Ok(Vec::new()));
        let counts = [&b"\0\0\0\x02\0\0\0\x01a\0\0\0\0"[..], b"\xff\xff\xff\xff", b"\0\0"]
            .map(|body| count(&of(body)));
        assert_eq!(counts, [2, 0, 0]);
        for bad in [&b""[..], b"\0\0\0\x01", b"\x7f\xff\xff\xff\0\0\0\0", b"\0\0\0\x01\0\0\0\x05a"] {
            assert_eq!(names(of(bad)), Err(Malformed), "{bad:?}");
        }
        let frame = of(b"\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\x03\0\0\0\x02/d");
        assert_eq!(read(frame.clone()), Ok(Message::Notification("/d".to_owned())));
        for end in 0..frame.len() {
            assert_eq!(read(frame.slice(..end)), Err(Malformed), "{end}");
        }
        let refused = of(b"\0\0\0\x09\0\0\0\0\0\0\0\x02\xff\xff\xff\x9a");
        assert_eq!(read(refused), Ok(Message::Reply { number: 9, zxid: 2, body: Err(-102) }));
        assert_eq!(Code::from(-102).to_string(), "NoAuth");
    }
}
