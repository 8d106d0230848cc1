//! Calls of Google's services.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use prost::Message as _;

use mixer_delivery::{AsyncSink, Item, Items as _, List, Tally};
use mixer_remote::{
    ClientTlsOptions, GoogleTokens, GrpcCode, GrpcFailure, GrpcTarget, HttpOptions, RemoteError,
};

use super::entry::Logged;
use super::graph::Assertion;
use super::params::Params;
use super::series::Pushed;
use super::span::SpanItem;
use super::wire::{AssertBatch, BatchWriteSpans, CreateTimeSeries, Resource, WriteLogEntries};
use crate::outage::Outage;

/// A method of a service.
pub(super) struct Method {
    target: GrpcTarget,
    tokens: Arc<GoogleTokens>,
    /// What requests are about, for the routing of Google.
    routing: Option<HeaderValue>,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: Option<GrpcCode>,
    pub(super) why: String,
    /// Whether the same request can succeed later, and the pause that Google asked for.
    pub(super) again: Option<Duration>,
}

impl Method {
    /// `host`: that of the service, unless the parameters have another; `path`: that of the method; `routed`: the resource that requests are
    /// about.
    pub(super) fn new(
        params: &Params,
        tokens: &Arc<GoogleTokens>,
        (host, path): (&str, &str),
        routed: Option<&str>,
    ) -> Result<Self, RemoteError> {
        let base = match params.endpoint.as_str() {
            "" => format!("https://{host}.googleapis.com"),
            endpoint if endpoint.contains("://") => endpoint.trim_end_matches('/').to_owned(),
            address => format!("https://{address}"),
        };
        let timeout = params.timeout.to_std_or_zero();
        let defaults = HttpOptions::new(format!("{base}/{path}"));
        let agent = HeaderValue::from_static(concat!("mixer/", env!("CARGO_PKG_VERSION")));
        let target = GrpcTarget::new(HttpOptions {
            timeout,
            connect_timeout: defaults.connect_timeout.min(timeout),
            tls: ClientTlsOptions { ca_file: PathBuf::from(&params.ca_file), ..ClientTlsOptions::default() },
            headers: HeaderMap::from_iter([(header::USER_AGENT, agent)]),
            ..defaults
        })?;
        let routing = routed.map(|name| format!("name={}", name.replace('/', "%2F")));
        let routing = routing.and_then(|routing| HeaderValue::try_from(routing).ok());
        Ok(Self { target, tokens: Arc::clone(tokens), routing })
    }

    /// Sends a request.
    pub(super) async fn call(&self, request: &[u8]) -> Result<Bytes, Failure> {
        let authorization = self.tokens.authorization().await;
        let authorization =
            authorization.map_err(|why| Failure { code: None, why, again: Some(Duration::ZERO) })?;
        let mut metadata = HeaderMap::from_iter([(header::AUTHORIZATION, authorization.clone())]);
        if let Some(routing) = &self.routing {
            metadata.insert(HeaderName::from_static("x-goog-request-params"), routing.clone());
        }
        let failure = match self.target.call_with(&metadata, request).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        let failure = understood(failure);
        if failure.code == Some(GrpcCode::Unauthenticated) {
            self.tokens.refused(&authorization);
        }
        Err(failure)
    }
}

fn understood(failure: GrpcFailure) -> Failure {
    match failure {
        GrpcFailure::NoAnswer(why) => Failure { code: None, why, again: Some(Duration::ZERO) },
        GrpcFailure::Status { code, message, retry_after } => {
            let is_transient = match code {
                GrpcCode::Cancelled
                | GrpcCode::DeadlineExceeded
                | GrpcCode::ResourceExhausted
                | GrpcCode::Aborted
                | GrpcCode::Internal
                | GrpcCode::Unavailable
                // Credentials and rights may be mended.
                | GrpcCode::Unauthenticated
                | GrpcCode::PermissionDenied => true,
                _ => false,
            };
            let why = format!("{code:?}: {message}");
            Failure { code: Some(code), why, again: is_transient.then(|| retry_after.unwrap_or_default()) }
        }
    }
}

/// What is sent in batches.
pub(super) trait Sent: Item + Sized + Sync {
    /// What requests need besides the items.
    type Context: Send + Sync + 'static;

    /// A request with the first items of a batch, and how many these are.
    fn request(items: &[Self], context: &Self::Context) -> (Vec<u8>, usize);

    /// What a failed request is called.
    const FAILED: &'static str;
}

impl Sent for Pushed {
    /// The name of the project.
    type Context = String;

    fn request(items: &[Self], project: &String) -> (Vec<u8>, usize) {
        let time_series = items.iter().map(|pushed| pushed.0.clone()).collect();
        (CreateTimeSeries { name: project.clone(), time_series }.encode_to_vec(), items.len())
    }

    const FAILED: &'static str = "time series were sent and Stackdriver returned";
}

impl Sent for Logged {
    /// The resource of entries without one.
    type Context = Resource;

    fn request(items: &[Self], resource: &Resource) -> (Vec<u8>, usize) {
        let log = items.first().map(|first| Arc::clone(&first.log)).unwrap_or_default();
        // A request is about one log.
        let of_log: Vec<&Self> = items.iter().take_while(|item| item.log == log).collect();
        let request = WriteLogEntries {
            log_name: log.to_string(),
            resource: Some(resource.clone()),
            entries: of_log.iter().map(|item| item.entry.clone()).collect(),
        };
        (request.encode_to_vec(), of_log.len())
    }

    const FAILED: &'static str = "Stackdriver logger failed with";
}

impl Sent for SpanItem {
    /// The name of the project.
    type Context = String;

    fn request(items: &[Self], project: &String) -> (Vec<u8>, usize) {
        let spans = items.iter().map(|item| item.0.clone()).collect();
        (BatchWriteSpans { name: project.clone(), spans }.encode_to_vec(), items.len())
    }

    const FAILED: &'static str = "spans were sent and Stackdriver returned";
}

impl Sent for Assertion {
    type Context = ();

    fn request(items: &[Self], _: &()) -> (Vec<u8>, usize) {
        let mut batch = AssertBatch::default();
        for item in items {
            match item {
                Assertion::Entity(entity) => batch.entities.push(entity.clone()),
                Assertion::Edge(edge) => batch.relationships.push(edge.clone()),
            }
        }
        (batch.encode_to_vec(), items.len())
    }

    const FAILED: &'static str = "sending context graph batch failed";
}

/// Sends the items of one kind.
pub(super) struct Sender<T: Sent> {
    method: Method,
    context: T::Context,
    outage: Outage,
}

impl<T: Sent> Sender<T> {
    pub(super) fn new(method: Method, context: T::Context, outage: Outage) -> Self {
        Self { method, context, outage }
    }
}

impl<T: Sent> AsyncSink<List<T>> for Sender<T> {
    async fn deliver(&mut self, batch: &mut List<T>, tally: &mut Tally) {
        let mut lost = None;
        while !batch.is_empty() {
            let (request, items) = T::request(batch.as_slice(), &self.context);
            match self.method.call(&request).await {
                Ok(_) => tally.delivered(items),
                Err(Failure { why, again, .. }) => {
                    let why = format!("{}: {why}", T::FAILED);
                    self.outage.failed(&why);
                    if let Some(after) = again {
                        tally.try_again_after(why, after);
                        return;
                    }
                    lost = Some(why);
                }
            }
            for _ in 0..items.max(1) {
                batch.pop();
            }
        }
        match lost {
            Some(why) => tally.give_up(why),
            None => self.outage.ended(),
        }
    }
}
