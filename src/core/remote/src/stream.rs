//! Bytes over TCP, also with TLS.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio_rustls::TlsConnector;

use mixer_base::dial::dial;
use mixer_base::secrets::mask_address;
use mixer_net::tls::ClientTlsOptions;

use crate::RemoteError;
use crate::answer::Answer;
use crate::tls::ReloadedTls;

/// How to reach a backend over TCP.
#[derive(Debug, Clone)]
pub struct StreamOptions {
    /// `HOST:PORT`; the name is resolved for every connection, and each of its addresses is tried.
    pub address: String,
    /// The limit of resolving, connecting and the TLS handshake.
    pub connect_timeout: Duration,
    /// The limit of writing, and of waiting for an answer.
    pub timeout: Duration,
    /// TLS; `None`: plain text.
    pub tls: Option<ClientTlsOptions>,
}

impl StreamOptions {
    /// The defaults for an address: plain text, 5 seconds to connect, 10 for everything else.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
            tls: None,
        }
    }
}

/// What both ends say when a connection opens, before anything else.
pub trait Handshake: Send {
    /// A connection opens.
    fn begin(&mut self);

    /// What follows, after the backend has sent so much since the last step.
    ///
    /// Errors: why the backend cannot be used, for operators.
    fn step(&mut self, received: &[u8]) -> Result<HandshakeStep, String>;
}

/// What follows in a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeStep {
    /// The backend has more to say.
    More,
    /// This is sent, and the backend answers.
    Send(Vec<u8>),
    /// The handshake has ended.
    Done,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// The reason, for operators.
    pub why: String,
    /// What had come of the answer by then.
    pub received: Vec<u8>,
}

trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> Connection for C {}

/// A backend that takes bytes over TCP. The connection is kept, and opened again when it fails, with the certificates that are there then.
pub struct StreamTarget {
    options: StreamOptions,
    tls: Option<ReloadedTls>,
    connection: Option<Box<dyn Connection>>,
    handshake: Option<Box<dyn Handshake>>,
}

impl std::fmt::Debug for StreamTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamTarget")
            .field("address", &mask_address(&self.options.address))
            .finish_non_exhaustive()
    }
}

/// The host of `HOST:PORT`, without brackets, and the port.
pub(crate) fn host_and_port(address: &str) -> Result<(&str, u16), RemoteError> {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match port.parse() {
        Ok(port) if port > 0 && !host.is_empty() => Ok((host, port)),
        _ => {
            let shown = mask_address(address);
            Err(RemoteError::Invalid(format!("invalid address `{shown}`: it must be HOST:PORT")))
        }
    }
}

impl StreamTarget {
    /// Checks the address and loads the certificates; opens no connection.
    ///
    /// Errors: an invalid address; a certificate that cannot be used.
    pub fn new(options: StreamOptions) -> Result<Self, RemoteError> {
        let (host, _) = host_and_port(&options.address)?;
        let tls = options.tls.as_ref().map(|tls| ReloadedTls::load(tls, host, &[])).transpose()?;
        Ok(Self { options, tls, connection: None, handshake: None })
    }

    /// Begins every connection with a handshake, within the limit of connecting.
    #[must_use]
    pub fn with_handshake(self, handshake: impl Handshake + 'static) -> Self {
        Self { handshake: Some(Box::new(handshake)), ..self }
    }

    /// Writes all bytes. A backend that ended the connection before is noticed first; one that ends it meanwhile may have taken a
    /// part, which is sent again with the rest.
    pub async fn send(&mut self, bytes: &[u8]) -> Answer {
        match self.send_all(bytes).await {
            Ok(()) => Answer::Delivered,
            Err(why) => Answer::retry(why),
        }
    }

    async fn send_all(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut connection = self.open().await?;
        write(&mut *connection, bytes, self.options.timeout).await?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Writes all bytes and reads at most `most` bytes of an answer, until `is_complete` says so.
    ///
    /// Errors: why there is none, and what there is of it; the request may have been taken all the same.
    pub async fn exchange(
        &mut self,
        bytes: &[u8],
        most: usize,
        is_complete: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<u8>, Unanswered> {
        let mut answer = Vec::new();
        match self.exchange_into(bytes, most, is_complete, &mut answer).await {
            Ok(()) => Ok(answer),
            Err(why) => Err(Unanswered { why, received: answer }),
        }
    }

    async fn exchange_into(
        &mut self,
        bytes: &[u8],
        most: usize,
        is_complete: impl Fn(&[u8]) -> bool,
        answer: &mut Vec<u8>,
    ) -> Result<(), String> {
        let mut connection = self.open().await?;
        // A backend that takes no more may have answered a part.
        let written = write(&mut *connection, bytes, self.options.timeout).await;
        let reading = async {
            while !is_complete(answer) {
                let room = (most - answer.len()) as u64;
                let read = (&mut connection).take(room).read_buf(answer).await.map_err(text)?;
                if read == 0 {
                    return Err(match room {
                        0 => format!("the answer has more than {most} bytes"),
                        _ => "the connection ended before the answer".to_owned(),
                    });
                }
            }
            Ok(())
        };
        let read = limited(self.options.timeout, reading, "no answer").await;
        written.and(read)?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Ends the connection, whose state is not known any more.
    pub fn disconnect(&mut self) {
        self.connection = None;
    }

    /// The connection, to be kept if all goes well.
    async fn open(&mut self) -> Result<Box<dyn Connection>, String> {
        if let Some(mut kept) = self.connection.take()
            && is_open(&mut *kept).await
        {
            return Ok(kept);
        }
        self.connect().await
    }

    async fn connect(&mut self) -> Result<Box<dyn Connection>, String> {
        if let Some(tls) = &self.tls {
            tls.refresh().await;
        }
        let tls = self.tls.as_ref().map(ReloadedTls::current);
        let limit = self.options.connect_timeout;
        let (host, port) = host_and_port(&self.options.address).map_err(|error| error.to_string())?;
        let connecting = async {
            let stream = dial(host, port, limit).await.map_err(text)?;
            stream.set_nodelay(true).map_err(text)?;
            let Some(tls) = tls else { return Ok(Box::new(stream) as Box<dyn Connection>) };
            let connector = TlsConnector::from(tls.config);
            let stream = connector.connect(tls.name, stream).await.map_err(text)?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        };
        let mut connection = limited(limit, connecting, "not connected").await?;
        if let Some(handshake) = &mut self.handshake {
            limited(limit, greet(&mut **handshake, &mut *connection), "no handshake").await?;
        }
        Ok(connection)
    }
}

async fn write(connection: &mut dyn Connection, bytes: &[u8], limit: Duration) -> Result<(), String> {
    let writing = async {
        connection.write_all(bytes).await.map_err(text)?;
        connection.flush().await.map_err(text)
    };
    limited(limit, writing, "not written").await
}

async fn greet(handshake: &mut dyn Handshake, connection: &mut dyn Connection) -> Result<(), String> {
    handshake.begin();
    let mut received = Vec::new();
    loop {
        match handshake.step(&received)? {
            HandshakeStep::Done => return Ok(()),
            HandshakeStep::Send(bytes) => {
                connection.write_all(&bytes).await.map_err(text)?;
                connection.flush().await.map_err(text)?;
                received.clear();
            }
            HandshakeStep::More => {}
        }
        if connection.read_buf(&mut received).await.map_err(text)? == 0 {
            return Err("the connection ended in the handshake".to_owned());
        }
    }
}

/// As far as it takes no longer than `limit`.
async fn limited<T>(
    limit: Duration,
    what: impl Future<Output = Result<T, String>>,
    failure: &str,
) -> Result<T, String> {
    tokio::time::timeout(limit, what).await.unwrap_or_else(|_| Err(format!("{failure} within {limit:?}")))
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}

/// Whether the peer has not ended a connection that was kept. What it sent meanwhile, such as an answer that nobody waited for, makes it
/// unusable as well.
async fn is_open(connection: &mut dyn Connection) -> bool {
    let mut byte = [0];
    std::future::poll_fn(|cx| {
        let mut buffer = ReadBuf::new(&mut byte);
        Poll::Ready(Pin::new(&mut *connection).poll_read(cx, &mut buffer).is_pending())
    })
    .await
}

#[cfg(test)]
mod tests;
