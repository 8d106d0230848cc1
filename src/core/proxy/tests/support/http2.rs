//! A client of HTTP/2.

use std::sync::LazyLock;

use bytes::Bytes;
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use http::{HeaderMap, Request, Response};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::proxy::DEADLINE;

/// Runs connections while tests wait for something else.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
});

/// Waits, within the deadline of tests.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(async { tokio::time::timeout(DEADLINE, future).await.expect("in time") })
}

/// A connection.
#[derive(Clone)]
pub(crate) struct Client {
    sender: SendRequest<Bytes>,
}

/// A request that was sent.
pub(crate) struct Call {
    pub(crate) response: ResponseFuture,
    pub(crate) body: SendStream<Bytes>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
}

/// A request with a method and a path.
pub(crate) fn request(method: &str, path: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("http://h{path}")).body(()).unwrap()
}

impl Client {
    /// Connects with prior knowledge.
    pub(crate) fn connect(port: u16) -> Self {
        Self::connect_with(port, &h2::client::Builder::new())
    }

    /// Connects with prior knowledge and settings.
    pub(crate) fn connect_with(port: u16, settings: &h2::client::Builder) -> Self {
        let sender = wait(async {
            let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (sender, connection) = settings.handshake(stream).await.unwrap();
            // How it ends is seen by its requests.
            tokio::spawn(async move { drop(connection.await) });
            sender
        });
        Self { sender }
    }

    /// Sends the head of a request, once the server takes one.
    pub(crate) fn send(&self, request: Request<()>, is_end: bool) -> Result<Call, h2::Error> {
        let mut sender = wait(self.sender.clone().ready())?;
        let (response, body) = sender.send_request(request, is_end)?;
        Ok(Call { response, body })
    }

    /// The response to a request without a body.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(request("GET", path), true).unwrap().answer().unwrap()
    }

    /// The response to a request with a body and trailers.
    pub(crate) fn ask(
        &self,
        request: Request<()>,
        body: Option<&[u8]>,
        trailers: Option<HeaderMap>,
    ) -> Result<Answer, h2::Error> {
        let mut call = self.send(request, body.is_none() && trailers.is_none())?;
        if let Some(body) = body {
            // The server may have reset the stream: its response tells.
            let _ = call.body.send_data(Bytes::copy_from_slice(body), trailers.is_none());
        }
        if let Some(trailers) = trailers {
            let _ = call.body.send_trailers(trailers);
        }
        call.answer()
    }
}

impl Call {
    /// The response.
    pub(crate) fn answer(self) -> Result<Answer, h2::Error> {
        wait(async {
            let response = self.response.await?;
            read(response).await
        })
    }
}

/// Reads a response to its end.
async fn read(response: Response<h2::RecvStream>) -> Result<Answer, h2::Error> {
    let (parts, mut stream) = response.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        body.extend_from_slice(&data);
        let _ = stream.flow_control().release_capacity(data.len());
    }
    let trailers = stream.trailers().await?;
    Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body, trailers })
}

impl Answer {
    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}
