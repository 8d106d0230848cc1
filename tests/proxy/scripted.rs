//! A Mixer whose answers tests choose, and which keeps what it is asked and told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use mixer_attribute::GLOBAL_WORDS;
use mixer_wire::google::rpc::Status as RpcStatus;
use mixer_wire::istio::mixer::v1 as wire;
use tonic::{Request, Response, Status};
use wire::check_response::PreconditionResult;
use wire::mixer_server::{Mixer, MixerServer};

use crate::support::{DEADLINE, wait_for};

/// Attributes as text: maps in braces, bytes in brackets, times as `T` and durations as `D`.
pub(crate) type Bag = BTreeMap<String, String>;

/// What answers checks: called with the number of the call and the attributes.
type Script = dyn Fn(usize, &Bag, &wire::CheckRequest) -> Result<wire::CheckResponse, Status> + Send + Sync;

/// What was received.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) checks: Vec<(Bag, wire::CheckRequest)>,
    pub(crate) reports: Vec<Bag>,
    /// Reports of each call.
    pub(crate) batches: Vec<usize>,
    /// `x-istio-attributes` of the last call.
    pub(crate) caller: Option<String>,
}

#[derive(Clone)]
struct Service {
    script: Arc<Script>,
    received: Arc<Mutex<Received>>,
}

#[tonic::async_trait]
impl Mixer for Service {
    async fn check(
        &self,
        request: Request<wire::CheckRequest>,
    ) -> Result<Response<wire::CheckResponse>, Status> {
        let caller = caller(&request);
        let request = request.into_inner();
        let bag = bag(request.attributes.as_ref().unwrap(), &[]);
        let number = {
            let mut received = self.received.lock().unwrap();
            received.caller = caller;
            received.checks.push((bag.clone(), request.clone()));
            received.checks.len() - 1
        };
        (self.script)(number, &bag, &request).map(Response::new)
    }

    async fn report(
        &self,
        request: Request<wire::ReportRequest>,
    ) -> Result<Response<wire::ReportResponse>, Status> {
        let request = request.into_inner();
        assert_eq!(request.repeated_attributes_semantics, 1, "every report is complete");
        let mut received = self.received.lock().unwrap();
        received.batches.push(request.attributes.len());
        received.reports.extend(request.attributes.iter().map(|record| bag(record, &request.default_words)));
        Ok(Response::new(wire::ReportResponse {}))
    }
}

fn caller<T>(request: &Request<T>) -> Option<String> {
    Some(request.metadata().get("x-istio-attributes")?.to_str().unwrap().to_owned())
}

fn bag(message: &wire::CompressedAttributes, default_words: &[bytes::Bytes]) -> Bag {
    let words = if message.words.is_empty() { default_words } else { &message.words };
    let word = |index: &i32| match usize::try_from(*index) {
        Ok(global) => GLOBAL_WORDS[global].to_owned(),
        Err(_) => String::from_utf8_lossy(&words[usize::try_from(!index).unwrap()]).into_owned(),
    };
    let mut bag = Bag::new();
    let mut put = |name: &i32, value: String| assert_eq!(bag.insert(word(name), value), None);
    message.strings.iter().for_each(|(name, value)| put(name, word(value)));
    message.int64s.iter().for_each(|(name, value)| put(name, value.to_string()));
    message.bools.iter().for_each(|(name, value)| put(name, value.to_string()));
    message.timestamps.iter().for_each(|(name, _)| put(name, "T".to_owned()));
    message.durations.iter().for_each(|(name, _)| put(name, "D".to_owned()));
    message.bytes.iter().for_each(|(name, value)| put(name, format!("{:?}", &value[..])));
    for (name, map) in &message.string_maps {
        let mut entries: Vec<_> =
            map.entries.iter().map(|(k, v)| format!("{}={}", word(k), word(v))).collect();
        entries.sort();
        put(name, format!("{{{}}}", entries.join("; ")));
    }
    bag
}

/// A running Mixer, on a thread of its own.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    pub(crate) received: Arc<Mutex<Received>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Scripted {
    pub(crate) fn start(
        script: impl Fn(usize, &Bag, &wire::CheckRequest) -> Result<wire::CheckResponse, Status>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self::at(([127, 0, 0, 1], 0).into(), script)
    }

    /// Starts it at an address, which may be in use for a moment yet.
    pub(crate) fn at(
        address: SocketAddr,
        script: impl Fn(usize, &Bag, &wire::CheckRequest) -> Result<wire::CheckResponse, Status>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self::with_streams(address, None, script)
    }

    /// Starts it with a bound on the calls of a connection.
    pub(crate) fn with_streams(
        address: SocketAddr,
        streams: Option<u32>,
        script: impl Fn(usize, &Bag, &wire::CheckRequest) -> Result<wire::CheckResponse, Status>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let received = Arc::<Mutex<Received>>::default();
        let service = Service { script: Arc::new(script), received: Arc::clone(&received) };
        let listener = wait_for(DEADLINE, || {
            let _inside = runtime.enter();
            let socket = tokio::net::TcpSocket::new_v4().ok()?;
            socket.set_reuseaddr(true).ok()?;
            socket.bind(address).ok()?;
            socket.listen(64).ok()
        });
        let listener = listener.expect("the address is free");
        let address = listener.local_addr().unwrap();
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let builder = tonic::transport::Server::builder().max_concurrent_streams(streams);
        let server = { builder }.add_service(MixerServer::new(service));
        runtime.spawn(server.serve_with_incoming(incoming));
        Self { address, received, runtime: Some(runtime) }
    }

    /// Number of checks.
    pub(crate) fn checks(&self) -> usize {
        self.received.lock().unwrap().checks.len()
    }

    /// Waits for so many reports, and takes them.
    pub(crate) fn reports(&self, count: usize) -> Vec<Bag> {
        let all = wait_for(DEADLINE, || {
            let mut received = self.received.lock().unwrap();
            (received.reports.len() >= count).then(|| std::mem::take(&mut received.reports))
        });
        all.unwrap_or_else(|| panic!("fewer than {count} reports"))
    }

    /// Waits for a report of an event of a connection, and takes it with those before.
    pub(crate) fn report_of(&self, event: &str) -> Bag {
        let found = wait_for(DEADLINE, || {
            let mut received = self.received.lock().unwrap();
            let place = received.reports.iter().position(|report| report["connection.event"] == event)?;
            received.reports.drain(..=place).next_back()
        });
        found.unwrap_or_else(|| panic!("no report of {event}"))
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// An answer with a code, valid for some seconds and uses.
pub(crate) fn answer(code: i32, message: &str, seconds: i64, uses: i32) -> wire::CheckResponse {
    let status = Some(RpcStatus { code, message: message.to_owned(), details: Vec::new() });
    wire::CheckResponse {
        precondition: Some(PreconditionResult {
            status,
            valid_duration: Some(prost_types::Duration { seconds, nanos: 0 }),
            valid_use_count: uses,
            referenced_attributes: Some(wire::ReferencedAttributes::default()),
            route_directive: None,
        }),
        ..wire::CheckResponse::default()
    }
}
