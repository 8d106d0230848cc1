//! Replies of Redis within bounds: the parser of the client keeps a reply until it is complete, however long it becomes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Longest reply in bytes. The longest expected one has the slots of a cluster: 1 000 nodes take 100 KB.
const MAX_REPLY: u64 = 1 << 20;
/// Most values of a reply: the shortest takes four bytes.
const MAX_VALUES: u64 = MAX_REPLY / 4;

/// A connection to Redis that fails when a reply is longer than 1 MiB, or says that it will be.
///
/// It follows RESP 2 and 3 as far as needed to know where a reply ends. What is no RESP is left to the parser, within the same bound.
#[derive(Debug)]
pub(super) struct BoundedReplies<S> {
    socket: S,
    reply: Reply,
}

impl<S> BoundedReplies<S> {
    pub(super) fn new(socket: S) -> Self {
        Self { socket, reply: Reply::default() }
    }
}

/// The reply that is arriving.
#[derive(Debug, Default)]
struct Reply {
    /// Its bytes so far.
    bytes: u64,
    /// Values that are not complete; 0 between two replies.
    missing: u64,
    /// Bytes of a string that have not arrived, with its end of line.
    string: u64,
    line: Line,
}

/// The line that is arriving.
#[derive(Debug, Default)]
struct Line {
    /// The type of its value; `None` before it.
    kind: Option<u8>,
    is_negative: bool,
    number: u64,
    /// Whether the last byte was a carriage return.
    is_ending: bool,
}

impl Reply {
    /// Bytes have arrived. Errors: the reply is too long.
    fn arrived(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Some((first, rest)) = bytes.split_first() {
            if self.string > 0 {
                let now = self.string.min(bytes.len() as u64);
                self.count(now)?;
                self.string -= now;
                if self.string == 0 {
                    self.complete();
                }
                bytes = usize::try_from(now).ok().and_then(|now| bytes.get(now..)).unwrap_or_default();
                continue;
            }
            bytes = rest;
            self.count(1)?;
            let Some(kind) = self.line.kind else {
                self.line.kind = Some(*first);
                self.missing = self.missing.max(1);
                continue;
            };
            match first {
                b'\n' if self.line.is_ending => {
                    let line = std::mem::take(&mut self.line);
                    self.line_ended(kind, if line.is_negative { 0 } else { line.number }, line.is_negative)?;
                }
                b'-' => self.line.is_negative = true,
                digit @ b'0'..=b'9' => {
                    let number = self.line.number.saturating_mul(10);
                    self.line.number = number.saturating_add(u64::from(digit - b'0'));
                }
                _ => {}
            }
            self.line.is_ending = *first == b'\r';
        }
        Ok(())
    }

    fn line_ended(&mut self, kind: u8, number: u64, is_null: bool) -> io::Result<()> {
        let values = match kind {
            b'*' | b'~' | b'>' => number,
            b'%' => number.saturating_mul(2),
            // Stands before the value that it describes.
            b'|' => number.saturating_mul(2).saturating_add(1),
            b'$' | b'=' | b'!' if !is_null => {
                if number > MAX_REPLY {
                    return Err(too_long(&format!("a string of {number} bytes")));
                }
                self.string = number + 2;
                return Ok(());
            }
            _ => 0,
        };
        self.missing = self.missing.saturating_add(values);
        if self.missing > MAX_VALUES {
            // The list itself is one of them.
            return Err(too_long(&format!("{} values", self.missing.saturating_sub(1))));
        }
        self.complete();
        Ok(())
    }

    fn count(&mut self, bytes: u64) -> io::Result<()> {
        self.bytes += bytes;
        if self.bytes > MAX_REPLY { Err(too_long(&format!("more than {MAX_REPLY} bytes"))) } else { Ok(()) }
    }

    /// A value is complete.
    fn complete(&mut self) {
        self.missing = self.missing.saturating_sub(1);
        if self.missing == 0 {
            self.bytes = 0;
        }
    }
}

fn too_long(what: &str) -> io::Error {
    let text = format!("a reply has {what}, which no reply to this handler has; is this a Redis?");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedReplies<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        if let Poll::Ready(Ok(())) = read {
            self.reply.arrived(buffer.filled().get(before..).unwrap_or_default())?;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedReplies<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state after these bytes, in one piece and byte by byte.
    fn read(bytes: &[u8]) -> Result<(u64, u64), String> {
        let (mut whole, mut single) = (Reply::default(), Reply::default());
        let at_once = whole.arrived(bytes).map_err(|error| error.to_string());
        let one_by_one = bytes.iter().try_for_each(|byte| single.arrived(&[*byte]));
        assert_eq!(at_once.is_ok(), one_by_one.is_ok());
        assert!(at_once.is_err() || (whole.bytes, whole.missing) == (single.bytes, single.missing));
        at_once.map(|()| (whole.bytes, whole.missing))
    }

    #[test]
    fn a_reply_ends_where_it_does() {
        let complete: [&[u8]; 14] = [
            b"",
            b"+OK\r\n",
            b"-ERR a\nb\r\n",
            b":-12\r\n",
            b"$-1\r\n",
            b"$0\r\n\r\n",
            b"$7\r\n*9\r\n+5\r\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
            b"%1\r\n+a\r\n~2\r\n:1\r\n,1.5\r\n",
            b"|1\r\n+a\r\n:1\r\n+OK\r\n",
            b">2\r\n+message\r\n=5\r\ntxt:a\r\n",
            b"!3\r\nERR\r\n_\r\n#t\r\n(12345678901234567890123\r\n",
        ];
        for bytes in complete {
            assert_eq!(read(bytes), Ok((0, 0)), "{}", bytes.escape_ascii());
            for end in 1..bytes.len() {
                assert!(read(&bytes[..end]).is_ok());
            }
        }
        assert_eq!(read(b"*2\r\n:1\r\n").unwrap(), (8, 1));
        assert_eq!(read(&b"*1\r\n".repeat(20)).unwrap(), (80, 1));
        let many = b"$5\r\nhello\r\n".repeat(1 << 18);
        assert_eq!(read(&many), Ok((0, 0)), "each is short");
    }

    #[test]
    fn a_reply_that_is_too_long_is_refused_where_that_is_known() {
        let refused = |bytes: &[u8]| read(bytes).unwrap_err();
        assert!(refused(b"$1000000000\r\n").starts_with("a reply has a string of 1000000000 bytes, "));
        assert!(refused(b"*1000000000\r\n").starts_with("a reply has 1000000000 values, "));
        assert!(refused(b"%99999999999999999999999\r\n").contains(" values, "));
        assert!(refused(&b"*100000\r\n".repeat(3)).contains(" values, "));
        for first in [&b"+"[..], b"-", b":", b"x", b"*", b"$", b"\r\n"] {
            let mut line = first.to_vec();
            line.resize(2 << 20, b'a');
            assert!(refused(&line).starts_with("a reply has more than 1048576 bytes, "));
        }
        let strings = [&b"*30\r\n"[..], &[&b"$50000\r\n"[..], &[b'x'; 50_000], b"\r\n"].concat().repeat(30)];
        assert!(refused(&strings.concat()).starts_with("a reply has more than 1048576 bytes, "));
    }
}
