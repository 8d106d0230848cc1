//! A connection to one server, and the session on it.

use std::task::{Context, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use mixer_remote::{Connector, Stream};

use super::wire::{self, Malformed, Message, SessionId};

/// Most bytes of a message of a server. Servers refuse to store nodes of more than 1 MiB, but the names of children have no limit.
pub(super) const MAX_MESSAGE: usize = 16 << 20;
/// Bytes of a reply without its body.
const REPLY_HEAD: usize = 16;

/// Why there is no connection, or none any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Lost {
    /// The server cannot be reached, or has gone.
    #[error("{0}")]
    Gone(String),
    /// The session has ended on the server.
    #[error("the session has expired")]
    Expired,
    /// The credentials are refused.
    #[error(
        "the server refuses the credentials of user `{0}`: correct --zookeeper-user and the file of --zookeeper-password-file"
    )]
    Credentials(String),
}

impl From<Malformed> for Lost {
    fn from(malformed: Malformed) -> Self {
        Lost::Gone(format!("{malformed}: is its port the one of clients?"))
    }
}

/// What a server sent.
#[derive(Debug)]
pub(super) enum Received {
    Message(Message),
    /// A reply of more than [`MAX_MESSAGE`] bytes, which is skipped: its number and its bytes.
    TooLarge(i32, usize),
}

/// How a session begins.
pub(super) struct Opening<'o> {
    /// The timeout that is asked for; the server decides.
    pub(super) timeout: Duration,
    /// A session that is to be resumed.
    pub(super) resume: Option<&'o SessionId>,
    /// The last transaction that was seen: a server that is behind is not good enough.
    pub(super) seen: i64,
    /// A user and his password.
    pub(super) credentials: Option<(&'o str, &'o str)>,
}

/// A session. Dropping it ends it, unless it is [left](Self::leave).
pub(super) struct Session {
    stream: Box<dyn Stream>,
    received: BytesMut,
    /// Bytes of a reply that is too large.
    skipped: usize,
    written: BytesMut,
    id: SessionId,
    user: String,
    timeout: Duration,
    last_sent: Instant,
    last_received: Instant,
    last_number: i32,
    is_left: bool,
}

impl Session {
    /// Connects to a server. Cancel safe. Errors: it does not accept, within the timeout.
    pub(super) async fn open(connector: &Connector, opening: Opening<'_>) -> Result<Self, Lost> {
        let stream = connector.connect().await.map_err(Lost::Gone)?;
        let limit = opening.timeout;
        let now = Instant::now();
        let mut session = Self {
            stream,
            received: BytesMut::new(),
            skipped: 0,
            written: BytesMut::new(),
            id: SessionId { number: 0, password: Bytes::new() },
            user: String::new(),
            timeout: limit,
            last_sent: now,
            last_received: now,
            last_number: 0,
            // There is none yet.
            is_left: true,
        };
        match tokio::time::timeout(limit, session.begin(opening)).await {
            Ok(begun) => begun.map(|()| session),
            Err(_) => Err(Lost::Gone(format!("no answer within {limit:?}"))),
        }
    }

    async fn begin(&mut self, opening: Opening<'_>) -> Result<(), Lost> {
        let timeout_ms = u32::try_from(opening.timeout.as_millis()).unwrap_or(u32::MAX);
        wire::connect(&mut self.written, opening.seen, timeout_ms, opening.resume);
        self.flush().await?;
        let answer = loop {
            match self.buffered()? {
                Some(frame) => break frame,
                None => self.fill().await?,
            }
        };
        let Frame::Whole(answer) = answer else { return Err(Malformed.into()) };
        let connected = wire::connected(answer)?;
        if connected.timeout_ms == 0 {
            return Err(Lost::Expired);
        }
        self.timeout = Duration::from_millis(connected.timeout_ms.into());
        self.id = connected.session;
        self.is_left = false;
        if let Some((user, password)) = opening.credentials {
            user.clone_into(&mut self.user);
            wire::digest(&mut self.written, format!("{user}:{password}").as_bytes());
        }
        self.flush().await
    }

    /// The session, which may be resumed on another connection.
    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    /// The session ends when the server hears nothing for so long.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Leaves the session to be resumed.
    pub(super) fn leave(mut self) {
        self.is_left = true;
    }

    /// Asks for the children of a node, with a watch. Returns the number of the request, which [`flush`](Self::flush) sends.
    pub(super) fn children(&mut self, path: &str) -> i32 {
        let number = self.next_number();
        wire::children(&mut self.written, number, path);
        number
    }

    /// Likewise asks whether a node exists.
    pub(super) fn exists(&mut self, path: &str) -> i32 {
        let number = self.next_number();
        wire::exists(&mut self.written, number, path);
        number
    }

    /// Numbers of requests are positive.
    fn next_number(&mut self) -> i32 {
        self.last_number = self.last_number.checked_add(1).unwrap_or(1);
        self.last_number
    }

    /// Sends what was asked for. Errors: the connection is lost, or the server takes nothing.
    pub(super) async fn flush(&mut self) -> Result<(), Lost> {
        if self.written.is_empty() {
            return Ok(());
        }
        let write = async {
            // What a dropped future has written is not written twice.
            while !self.written.is_empty() {
                if self.stream.write_buf(&mut self.written).await? == 0 {
                    return Err(std::io::ErrorKind::WriteZero.into());
                }
            }
            self.stream.flush().await
        };
        match tokio::time::timeout(self.timeout, write).await {
            Ok(Ok(())) => {
                self.last_sent = Instant::now();
                Ok(())
            }
            Ok(Err(error)) => Err(lost(&error)),
            Err(_) => Err(Lost::Gone(format!("the server takes nothing for {:?}", self.timeout))),
        }
    }

    /// What the server sent, if all of it is here.
    pub(super) fn received(&mut self) -> Result<Option<Received>, Lost> {
        let Some(frame) = self.buffered()? else { return Ok(None) };
        Ok(match frame {
            Frame::Whole(bytes) => match wire::read(bytes)? {
                Message::Auth(code) if code != 0 => return Err(Lost::Credentials(self.user.clone())),
                message => Some(Received::Message(message)),
            },
            Frame::Skipped(head, length) => match wire::read(head)? {
                Message::Reply { number, .. } => Some(Received::TooLarge(number, length)),
                _ => return Err(Malformed.into()),
            },
        })
    }

    /// Waits for bytes of the server, and until then sends pings. Cancel safe. Errors: the connection is lost, or the server is silent.
    pub(super) async fn wait(&mut self) -> Result<(), Lost> {
        loop {
            let silent = self.last_received + self.timeout * 2 / 3;
            let ping = self.last_sent + self.timeout / 3;
            tokio::select! {
                biased;
                filled = self.fill() => return filled,
                () = tokio::time::sleep_until(silent.min(ping)) => {}
            }
            if Instant::now() >= silent {
                return Err(Lost::Gone(format!("no answer within {:?}", self.timeout * 2 / 3)));
            }
            wire::ping(&mut self.written);
            self.flush().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), Lost> {
        self.received.reserve(8 << 10);
        match self.stream.read_buf(&mut self.received).await {
            Ok(0) => Err(Lost::Gone("the server has closed the connection".to_owned())),
            Ok(_) => {
                self.last_received = Instant::now();
                let skipped = self.skipped.min(self.received.len());
                self.received.advance(skipped);
                self.skipped -= skipped;
                Ok(())
            }
            Err(error) => Err(lost(&error)),
        }
    }

    fn buffered(&mut self) -> Result<Option<Frame>, Lost> {
        let Some(length) = self.received.first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| Malformed)?;
        let here = self.received.len() - 4;
        if length > MAX_MESSAGE && here >= REPLY_HEAD {
            self.received.advance(4);
            let head = self.received.split_to(REPLY_HEAD).freeze();
            let rest = length - REPLY_HEAD;
            let skipped = rest.min(self.received.len());
            self.received.advance(skipped);
            self.skipped = rest - skipped;
            return Ok(Some(Frame::Skipped(head, length)));
        }
        if length > MAX_MESSAGE || here < length {
            return Ok(None);
        }
        self.received.advance(4);
        Ok(Some(Frame::Whole(self.received.split_to(length).freeze())))
    }
}

/// A message, without its length.
enum Frame {
    Whole(Bytes),
    /// Its first bytes, and the number of all.
    Skipped(Bytes, usize),
}

fn lost(error: &std::io::Error) -> Lost {
    Lost::Gone(format!("the connection is lost: {error}"))
}

impl Drop for Session {
    /// Ends the session, as far as that takes no time. A server that is not told ends it after its timeout.
    fn drop(&mut self) {
        if self.is_left || !self.written.is_empty() {
            return;
        }
        wire::close(&mut self.written);
        let mut context = Context::from_waker(Waker::noop());
        let _ = std::pin::Pin::new(&mut *self.stream).poll_write(&mut context, &self.written);
        let _ = std::pin::Pin::new(&mut *self.stream).poll_flush(&mut context);
    }
}
