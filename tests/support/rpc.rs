//! A gRPC client that sends given bytes.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

pub(crate) use mixer_wire as proto;
pub(crate) use proto::istio::mixer::v1 as mixer;

/// Timeout of a call.
const DEADLINE: Duration = Duration::from_secs(120);

/// Path of the method Check.
pub(crate) const CHECK: &str = "/istio.mixer.v1.Mixer/Check";
/// Path of the method Report.
pub(crate) const REPORT: &str = "/istio.mixer.v1.Mixer/Report";

/// A codec that passes bytes through.
#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(length)))
    }
}

/// Waits for a condition, and lets other tasks run.
async fn until(mut condition: impl FnMut() -> bool) {
    let met = super::eventually(DEADLINE, || std::future::ready(condition().then_some(()))).await;
    met.expect("the condition is met in time");
}

/// A connection, driven by the calling thread.
#[derive(Debug)]
pub(crate) struct Client {
    runtime: tokio::runtime::Runtime,
    channel: Channel,
}

impl Client {
    /// A client of the API at `host:port`. It connects with the first call.
    pub(crate) fn new(address: &str) -> Result<Self, String> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|e| e.to_string())?;
        let channel = {
            let _inside = runtime.enter();
            endpoint.connect_timeout(DEADLINE).connect_lazy()
        };
        Ok(Self { runtime, channel })
    }

    /// Calls a method with an encoded message.
    pub(crate) fn call(
        &mut self,
        path: &'static str,
        body: Vec<u8>,
        timeout: Option<Duration>,
    ) -> Result<Bytes, Status> {
        let channel = self.channel.clone();
        self.runtime.block_on(async move {
            let mut grpc = tonic::client::Grpc::new(channel);
            grpc.ready().await.map_err(|error| Status::new(Code::Unavailable, error.to_string()))?;
            let mut request = tonic::Request::new(Bytes::from(body));
            if let Some(timeout) = timeout {
                request.set_timeout(timeout);
            }
            let path = http::uri::PathAndQuery::from_static(path);
            match tokio::time::timeout(DEADLINE, grpc.unary(request, path, Raw)).await {
                Ok(answer) => answer.map(tonic::Response::into_inner),
                Err(_) => Err(Status::new(Code::DeadlineExceeded, "no answer to the test")),
            }
        })
    }

    /// Calls a method without telling a time limit, and leaves once `may_leave`. Returns whether there was no answer, once the server is `left`.
    pub(crate) fn leave(
        &mut self,
        path: &'static str,
        body: Vec<u8>,
        may_leave: impl FnMut() -> bool,
        left: impl FnMut() -> bool,
    ) -> bool {
        let channel = self.channel.clone();
        self.runtime.block_on(async move {
            let mut grpc = tonic::client::Grpc::new(channel);
            grpc.ready().await.expect("a connection");
            let path = http::uri::PathAndQuery::from_static(path);
            let call = grpc.unary(tonic::Request::new(Bytes::from(body)), path, Raw);
            let is_left = tokio::select! {
                _ = call => false,
                () = until(may_leave) => true,
            };
            // The stream is reset by the task of the connection, which runs meanwhile.
            until(left).await;
            is_left
        })
    }

    /// Check.
    pub(crate) fn check(
        &mut self,
        request: &mixer::CheckRequest,
        timeout: Option<Duration>,
    ) -> Result<mixer::CheckResponse, Status> {
        let answer = self.call(CHECK, request.encode_to_vec(), timeout)?;
        mixer::CheckResponse::decode(answer)
            .map_err(|error| Status::new(Code::DataLoss, format!("the answer does not decode: {error}")))
    }

    /// Report.
    pub(crate) fn report(
        &mut self,
        request: &mixer::ReportRequest,
        timeout: Option<Duration>,
    ) -> Result<(), Status> {
        self.call(REPORT, request.encode_to_vec(), timeout).map(|_| ())
    }
}

/// `Internal`, `DeadlineExceeded`: the camel case name.
pub(crate) fn camel_code(code: Code) -> String {
    match code {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        other => format!("{other:?}"),
    }
}

/// `INTERNAL`, `DEADLINE_EXCEEDED`: the upper case name.
pub(crate) fn upper_code(code: Code) -> String {
    if code == Code::Ok {
        return "OK".to_owned();
    }
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// The referenced attributes in the form `name[::key] CONDITION`, sorted.
pub(crate) fn referenced(message: Option<&mixer::ReferencedAttributes>) -> Vec<String> {
    let Some(message) = message else { return Vec::new() };
    let word = |index: i32| match usize::try_from(index) {
        Ok(global) => ::mixer_attribute::GLOBAL_WORDS.get(global).map(|word| (*word).to_owned()),
        Err(_) => message
            .words
            .get(index.unsigned_abs() as usize - 1)
            .map(|word| String::from_utf8_lossy(word).into_owned()),
    };
    let shown = |index: i32| word(index).unwrap_or_else(|| format!("<word {index}>"));
    let mut lines: Vec<String> = message
        .attribute_matches
        .iter()
        .map(|found| {
            let condition = match found.condition {
                1 => "ABSENCE".to_owned(),
                2 => "EXACT".to_owned(),
                3 => "REGEX".to_owned(),
                other => format!("CONDITION_{other}"),
            };
            let name = shown(found.name);
            if found.map_key == 0 {
                format!("{name} {condition}")
            } else {
                format!("{name}::{} {condition}", shown(found.map_key))
            }
        })
        .collect();
    lines.sort();
    lines
}
