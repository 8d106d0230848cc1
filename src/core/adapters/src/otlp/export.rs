//! Requests to the collector, and what its answers mean.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use prost::Message as _;

use mixer_base::log::RateLimit;
use mixer_base::metrics::{Family, Metrics};
use mixer_delivery::{AsyncSink, Item, Items as _, List, Tally};
use mixer_engine::adapter::{BuildError, Env};
use mixer_otlp::{AnyValueKind, ExportResponse, Request, Resource, Signal, metric};
use mixer_remote::{
    Answer, Authentication, ClientTlsOptions, Credential, Cut, GrpcCode, GrpcFailure, GrpcTarget,
    HttpOptions, HttpTarget, RemoteError, foreign,
};

use super::log::Record;
use super::metric::Point;
use super::params::{Compression, Params, Protocol};
use super::span::SpanItem;
use crate::outage::Outage;

/// The service of what has none of its own.
const SERVICE: &str = "istio-mixer";

/// What belongs to resources.
#[derive(Clone)]
pub(super) struct Resources {
    own: Resource,
    /// As configured.
    configured: Arc<BTreeMap<String, String>>,
}

impl Resources {
    pub(super) fn new(params: &Params) -> Self {
        // Two servers, or two generations of a handler, never write one series.
        let id = crate::uuid::random();
        let mut all: BTreeMap<&str, &str> = BTreeMap::from([
            ("service.name", SERVICE),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", &id),
        ]);
        all.extend(params.resource_attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let own = Resource::new(all.into_iter().map(|(name, value)| (name, AnyValueKind::from(value))));
        Self { own, configured: Arc::new(params.resource_attributes.clone()) }
    }

    /// That of a service.
    fn of(&self, service: &str) -> Resource {
        let others = self.configured.iter().filter(|(name, _)| *name != "service.name");
        let others = others.map(|(name, value)| (name.as_str(), AnyValueKind::from(value.as_str())));
        Resource::new(std::iter::once(("service.name", service.into())).chain(others))
    }
}

/// What is sent in batches.
pub(super) trait Exported: Item + Sized {
    const SIGNAL: Signal;

    /// The request with a batch.
    fn request(batch: &[Self], resources: &Resources) -> Vec<u8>;
}

impl Exported for Point {
    const SIGNAL: Signal = Signal::Metrics;

    fn request(batch: &[Self], resources: &Resources) -> Vec<u8> {
        let of_metric = |points: &[Point]| {
            let first = points.first()?;
            let encoded: Vec<Vec<u8>> = points.iter().map(Point::encode).collect();
            Some(metric(&first.metric.head, first.metric.shape, encoded.iter().map(Vec::as_slice)))
        };
        let runs = batch.chunk_by(|a, b| Arc::ptr_eq(&a.metric, &b.metric));
        let metrics: Vec<Vec<u8>> = runs.filter_map(of_metric).collect();
        let mut request = Request::default();
        request.add(&resources.own, metrics.iter().map(Vec::as_slice));
        request.into_bytes()
    }
}

impl Exported for Record {
    const SIGNAL: Signal = Signal::Logs;

    fn request(batch: &[Self], resources: &Resources) -> Vec<u8> {
        let mut request = Request::default();
        request.add(&resources.own, batch.iter().map(|record| &*record.0));
        request.into_bytes()
    }
}

impl Exported for SpanItem {
    const SIGNAL: Signal = Signal::Traces;

    fn request(batch: &[Self], resources: &Resources) -> Vec<u8> {
        let mut by_service: BTreeMap<&str, Vec<&[u8]>> = BTreeMap::new();
        for item in batch {
            by_service.entry(&item.service).or_default().push(&item.span);
        }
        let mut request = Request::default();
        for (service, spans) in by_service {
            match service {
                "" => request.add(&resources.own, spans),
                service => request.add(&resources.of(service), spans),
            }
        }
        request.into_bytes()
    }
}

enum Target {
    Grpc(GrpcTarget),
    Http(HttpTarget, HeaderMap),
}

/// Sends the items of one signal.
pub(super) struct Exporter {
    target: Target,
    resources: Resources,
    handler: Arc<str>,
    metrics: Arc<Metrics>,
    outage: Outage,
    warnings: RateLimit,
}

/// What an answer means.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// The collector took the batch, but for so many items.
    Taken { rejected: u64, why: String },
    /// It may take the batch later.
    Again { why: String, after: Duration },
    /// It will never take the batch. `reason` is the label in metrics.
    Refused { reason: String, why: String },
}

impl Exporter {
    /// Checks the settings and loads files; opens no connection.
    pub(super) fn new(
        params: &Params,
        signal: Signal,
        resources: Resources,
        env: &Env,
    ) -> Result<Self, BuildError> {
        let refused = |error: RemoteError| BuildError::Refused(error.to_string());
        let path = match params.protocol {
            Protocol::Grpc => signal.method(),
            Protocol::HttpProtobuf => signal.path(),
        };
        let options = options(params, path).map_err(refused)?;
        let target = match params.protocol {
            Protocol::Grpc => Target::Grpc(GrpcTarget::new(options).map_err(refused)?),
            Protocol::HttpProtobuf => {
                let kind = HeaderValue::from_static("application/x-protobuf");
                let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
                Target::Http(HttpTarget::new(options).map_err(refused)?, headers)
            }
        };
        Ok(Self {
            target,
            resources,
            handler: Arc::clone(&env.handler_name),
            metrics: Arc::clone(&env.metrics),
            outage: Outage::new(&env.handler_name),
            warnings: RateLimit::new(1),
        })
    }

    async fn send(&self, request: Vec<u8>) -> Outcome {
        match &self.target {
            Target::Grpc(target) => of_call(target.call(&request).await),
            Target::Http(target, headers) => {
                let reply = target.post(headers, request.into()).await;
                match reply.taken_unread() {
                    Some(cut) => unread(cut),
                    None => of_reply(reply.status, reply.answer, &reply.body),
                }
            }
        }
    }

    /// Counts and logs items that the collector did not take.
    fn lost(&self, signal: Signal, items: u64, reason: &str, why: &str) {
        let labels = [&*self.handler, reason, signal.name()];
        self.metrics.counter(Family::OtlpRejected, &labels).add(items);
        if let Some(suppressed) = self.warnings.admit() {
            let (handler, signal) = (&*self.handler, signal.name());
            tracing::warn!(handler, signal, items, suppressed, "the collector rejected items: {why}");
        }
    }
}

fn options(params: &Params, path: &str) -> Result<HttpOptions, RemoteError> {
    let invalid = |what: &str| RemoteError::Invalid(format!("invalid header `{what}`"));
    let mut headers = HeaderMap::new();
    let agent = HeaderValue::from_static(concat!("mixer/", env!("CARGO_PKG_VERSION")));
    headers.insert(header::USER_AGENT, agent);
    for (name, value) in &params.headers {
        let parsed = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str()));
        let (Ok(key), Ok(mut value)) = parsed else { return Err(invalid(name)) };
        // Users put keys here all the same.
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    let authentication = match &params.authentication {
        None => Authentication::None,
        Some(of) => {
            let token = match of.token_file.as_str() {
                "" => Credential::from_environment(&of.token_environment)?,
                file => Credential::from_file(file)?,
            };
            match of.header.as_str() {
                "" => Authentication::Bearer(token),
                name => Authentication::Header(name.try_into().map_err(|_| invalid(name))?, token),
            }
        }
    };
    let tls = params.tls.as_ref().map(|tls| ClientTlsOptions {
        ca_file: (&tls.ca_file).into(),
        cert_file: (&tls.cert_file).into(),
        key_file: (&tls.key_file).into(),
        ..ClientTlsOptions::default()
    });
    let timeout = params.timeout.to_std_or_zero();
    let defaults = HttpOptions::new(format!("{}{path}", params.base()));
    Ok(HttpOptions {
        timeout,
        connect_timeout: defaults.connect_timeout.min(timeout),
        tls: tls.unwrap_or_default(),
        authentication,
        headers,
        gzip: params.compression == Compression::Gzip,
        ..defaults
    })
}

/// The message of a successful answer.
fn taken(response: &ExportResponse) -> Outcome {
    let partial = response.partial_success.clone().unwrap_or_default();
    let rejected = u64::try_from(partial.rejected).unwrap_or(0);
    Outcome::Taken { rejected, why: foreign(&partial.error_message) }
}

/// A successful answer that is not whole: the collector has the batch.
fn unread(cut: Cut) -> Outcome {
    Outcome::Taken { rejected: 0, why: cut.describe().to_owned() }
}

/// The same of JSON, with which some collectors answer whatever they were sent. `None`: it is no object.
fn taken_by_json(body: &[u8]) -> Option<Outcome> {
    let document: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body).ok()?;
    let partial = document.get("partialSuccess");
    let counts = ["rejectedSpans", "rejectedDataPoints", "rejectedLogRecords"];
    // Numbers of 64 bits are texts.
    let number = |value: &serde_json::Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let rejected = partial.and_then(|partial| counts.iter().find_map(|count| number(partial.get(count)?)));
    let why = partial.and_then(|partial| partial.get("errorMessage")?.as_str()).unwrap_or_default();
    Some(Outcome::Taken { rejected: rejected.unwrap_or(0), why: foreign(why) })
}

/// As the OTLP specification says it.
fn of_call(called: Result<Bytes, GrpcFailure>) -> Outcome {
    match called {
        Ok(message) => match ExportResponse::decode(message) {
            Ok(response) => taken(&response),
            Err(_) => Outcome::Again { why: NOT_OTLP.to_owned(), after: Duration::ZERO },
        },
        Err(GrpcFailure::TooLong) => unread(Cut::TooLarge),
        Err(GrpcFailure::NoAnswer(why)) => Outcome::Again { why, after: Duration::ZERO },
        Err(GrpcFailure::Status { code, message, retry_after, .. }) => {
            let name = code_name(code);
            let why = format!("{name}: {message}");
            let is_transient = match code {
                GrpcCode::Cancelled
                | GrpcCode::DeadlineExceeded
                | GrpcCode::Aborted
                | GrpcCode::OutOfRange
                | GrpcCode::Unavailable
                | GrpcCode::DataLoss => true,
                GrpcCode::ResourceExhausted => retry_after.is_some(),
                _ => false,
            };
            match is_transient {
                true => Outcome::Again { why, after: retry_after.unwrap_or_default() },
                false => Outcome::Refused { reason: name.to_owned(), why },
            }
        }
    }
}

/// Why an answer is that of no collector.
const NOT_OTLP: &str = "the answer is none of OTLP: is it the right port and protocol?";

/// As the OTLP specification says it.
fn of_reply(status: Option<StatusCode>, answer: Answer, body: &Bytes) -> Outcome {
    let again = |why: String, after| Outcome::Again { why, after };
    let refused = |why: String| {
        let reason =
            status.map_or_else(|| "request".to_owned(), |status| format!("HTTP {}", status.as_u16()));
        Outcome::Refused { reason, why }
    };
    // A redirect is no answer of a collector.
    let is_transient =
        matches!(status.map(|status| status.as_u16()), None | Some(300..=399 | 429 | 502 | 503 | 504));
    match answer {
        Answer::Delivered => match ExportResponse::decode(&body[..]) {
            Ok(response) => taken(&response),
            Err(_) => taken_by_json(body).unwrap_or_else(|| again(NOT_OTLP.to_owned(), Duration::ZERO)),
        },
        Answer::Retry { why, after } if is_transient => again(why, after),
        Answer::Retry { why, .. } | Answer::Refused(why) => refused(why),
    }
}

fn code_name(code: GrpcCode) -> &'static str {
    match code {
        GrpcCode::Ok => "OK",
        GrpcCode::Cancelled => "CANCELLED",
        GrpcCode::Unknown => "UNKNOWN",
        GrpcCode::InvalidArgument => "INVALID_ARGUMENT",
        GrpcCode::DeadlineExceeded => "DEADLINE_EXCEEDED",
        GrpcCode::NotFound => "NOT_FOUND",
        GrpcCode::AlreadyExists => "ALREADY_EXISTS",
        GrpcCode::PermissionDenied => "PERMISSION_DENIED",
        GrpcCode::ResourceExhausted => "RESOURCE_EXHAUSTED",
        GrpcCode::FailedPrecondition => "FAILED_PRECONDITION",
        GrpcCode::Aborted => "ABORTED",
        GrpcCode::OutOfRange => "OUT_OF_RANGE",
        GrpcCode::Unimplemented => "UNIMPLEMENTED",
        GrpcCode::Internal => "INTERNAL",
        GrpcCode::Unavailable => "UNAVAILABLE",
        GrpcCode::DataLoss => "DATA_LOSS",
        GrpcCode::Unauthenticated => "UNAUTHENTICATED",
    }
}

impl<T: Exported + Sync> AsyncSink<List<T>> for Exporter {
    async fn deliver(&mut self, batch: &mut List<T>, tally: &mut Tally) {
        let items = batch.len();
        let request = T::request(batch.as_slice(), &self.resources);
        match self.send(request).await {
            Outcome::Taken { rejected: 0, why } => {
                self.outage.ended();
                tally.delivered(items);
                if !why.is_empty()
                    && let Some(suppressed) = self.warnings.admit()
                {
                    let handler = &*self.handler;
                    tracing::warn!(handler, suppressed, "the collector warns: {why}");
                }
            }
            Outcome::Taken { rejected, why } => {
                self.outage.ended();
                let rejected = usize::try_from(rejected).unwrap_or(usize::MAX).min(items);
                self.lost(T::SIGNAL, rejected as u64, "partial success", &why);
                tally.delivered(items - rejected);
                tally.give_up(format!("the collector rejected {rejected} of {items} items: {why}"));
            }
            Outcome::Again { why, after } => {
                self.outage.failed(&why);
                tally.try_again_after(why, after);
            }
            Outcome::Refused { reason, why } => {
                self.outage.failed(&why);
                self.lost(T::SIGNAL, items as u64, &reason, &why);
                tally.give_up(why);
            }
        }
    }
}

#[cfg(test)]
mod tests;
