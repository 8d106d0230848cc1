//! Calls of Google's services.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use prost::Message as _;

use mixer_delivery::{AsyncSink, Item, Items as _, List, Tally};
use mixer_remote::{
    ClientTlsOptions, GoogleTokens, GrpcCode, GrpcDetail, GrpcFailure, GrpcTarget, HttpOptions, RemoteError,
};

use super::entry::Logged;
use super::graph::Assertion;
use super::params::Params;
use super::place::Whereabouts;
use super::series::Pushed;
use super::span::SpanItem;
use super::wire::{
    AssertBatch, BatchWriteSpans, CreateTimeSeries, LogErrors, Metric, Resource, SeriesError, SeriesSummary,
    TimeSeries, WriteLogEntries,
};
use crate::outage::Outage;

/// How often a series is sent that Google does not take although it takes others of the request, as by Istio Mixer.
const SENDS: u32 = 4;
/// Details of failures that are about a part of a request.
const SERIES_ERROR: &str = "google.monitoring.v3.CreateTimeSeriesError";
const SERIES_SUMMARY: &str = "google.monitoring.v3.CreateTimeSeriesSummary";
const LOG_ERRORS: &str = "google.logging.v2.WriteLogEntriesPartialErrors";

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
    details: Vec<GrpcDetail>,
}

impl Failure {
    /// Without an answer of the service.
    fn of(why: String) -> Self {
        Self { code: None, why, again: Some(Duration::ZERO), details: Vec::new() }
    }

    /// The details of a type, as far as they can be read.
    fn details<M: prost::Message + Default>(&self, kind: &str) -> impl Iterator<Item = M> {
        let of_kind = self.details.iter().filter(move |detail| detail.kind == kind);
        of_kind.filter_map(|detail| M::decode(&*detail.message).ok())
    }
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
        let authorization = authorization.map_err(Failure::of)?;
        let mut metadata = HeaderMap::from_iter([(header::AUTHORIZATION, authorization.clone())]);
        if let Some(routing) = &self.routing {
            metadata.insert(HeaderName::from_static("x-goog-request-params"), routing.clone());
        }
        let failure = match self.target.call_with(&metadata, request).await {
            Ok(answer) => return Ok(answer),
            // Nobody reads more of it than that it is one.
            Err(GrpcFailure::TooLong) => return Ok(Bytes::new()),
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
        GrpcFailure::NoAnswer(why) => Failure::of(why),
        GrpcFailure::TooLong => Failure::of("the answer is too long".to_owned()),
        GrpcFailure::Status { code, message, retry_after, details } => {
            // Credentials and rights may be mended.
            let may_be_mended = matches!(code, GrpcCode::Unauthenticated | GrpcCode::PermissionDenied);
            let again = (may_be_mended || is_transient(code)).then(|| retry_after.unwrap_or_default());
            Failure { code: Some(code), why: format!("{code:?}: {message}"), again, details }
        }
    }
}

fn is_transient(code: GrpcCode) -> bool {
    matches!(
        code,
        GrpcCode::Cancelled
            | GrpcCode::DeadlineExceeded
            | GrpcCode::ResourceExhausted
            | GrpcCode::Aborted
            | GrpcCode::Internal
            | GrpcCode::Unavailable
    )
}

/// What became of an item of a request that failed in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Taken,
    /// Google may take it later.
    Again,
    Refused,
}

/// What is sent in batches.
pub(super) trait Sent: Item + Sized + Sync {
    /// What requests need besides the items.
    type Context: Send + Sync + 'static;

    /// A request with the first items of a batch, and how many these are.
    fn request(items: &[Self], context: &Self::Context) -> (Vec<u8>, usize);

    /// What a failed request is called.
    const FAILED: &'static str;

    /// What a failure says about each item of its request; `None`: it is about all of them.
    fn fates(_: &[Self], _: &Failure) -> Option<Vec<Fate>> {
        None
    }

    /// Google did not take the item although it took others. Returns whether it is sent again.
    fn is_sent_again(&mut self) -> bool {
        false
    }
}

impl Sent for Pushed {
    /// The name of the project.
    type Context = String;

    fn request(items: &[Self], project: &String) -> (Vec<u8>, usize) {
        // A request has one point of a series: Google refuses all of one with more.
        let mut known = HashSet::new();
        let is_new = |pushed: &&Self| {
            let TimeSeries { metric, resource, .. } = &pushed.series;
            let key =
                (metric.as_ref().map(Metric::encode_to_vec), resource.as_ref().map(Resource::encode_to_vec));
            known.insert(key)
        };
        let time_series: Vec<_> =
            items.iter().take_while(is_new).map(|pushed| pushed.series.clone()).collect();
        let taken = time_series.len();
        (CreateTimeSeries { name: project.clone(), time_series }.encode_to_vec(), taken)
    }

    const FAILED: &'static str = "time series were sent and Stackdriver returned";

    fn fates(items: &[Self], failure: &Failure) -> Option<Vec<Fate>> {
        let errors: Vec<SeriesError> = failure.details(SERIES_ERROR).collect();
        let of = |pushed: &Self| {
            let of_series = |error: &&SeriesError| error.series.as_ref().is_some_and(|of| pushed.is_of(of));
            let code = errors.iter().find(of_series)?.status.as_ref().map_or(0, |status| status.code);
            Some(if is_transient(code.into()) { Fate::Again } else { Fate::Refused })
        };
        let found: Vec<Option<Fate>> = items.iter().map(of).collect();
        if found.iter().flatten().count() == errors.len() && !errors.is_empty() {
            return Some(found.into_iter().map(|fate| fate.unwrap_or(Fate::Taken)).collect());
        }
        // Not which ones were written, but how many.
        let summary = failure.details::<SeriesSummary>(SERIES_SUMMARY).next()?;
        let written = usize::try_from(summary.written).unwrap_or(0).min(items.len());
        if written == 0 {
            return None;
        }
        let fate = |index| if index < written { Fate::Taken } else { Fate::Refused };
        Some((0..items.len()).map(fate).collect())
    }

    fn is_sent_again(&mut self) -> bool {
        self.refusals += 1;
        self.refusals < SENDS
    }
}

impl Sent for Logged {
    /// For the resource of entries without one.
    type Context = Arc<Whereabouts>;

    fn request(items: &[Self], whereabouts: &Arc<Whereabouts>) -> (Vec<u8>, usize) {
        let log = items.first().map(|first| Arc::clone(&first.log)).unwrap_or_default();
        // A request is about one log.
        let of_log: Vec<&Self> = items.iter().take_while(|item| item.log == log).collect();
        let request = WriteLogEntries {
            log_name: log.to_string(),
            resource: Some(whereabouts.site().of_logs.clone()),
            entries: of_log.iter().map(|item| item.entry.clone()).collect(),
            // One entry that Google does not take costs no others.
            partial_success: true,
        };
        (request.encode_to_vec(), of_log.len())
    }

    const FAILED: &'static str = "Stackdriver logger failed with";

    fn fates(items: &[Self], failure: &Failure) -> Option<Vec<Fate>> {
        let LogErrors { errors } = failure.details(LOG_ERRORS).next()?;
        let is_refused = |index: usize| i32::try_from(index).is_ok_and(|index| errors.contains_key(&index));
        let fate = |index| if is_refused(index) { Fate::Refused } else { Fate::Taken };
        (!errors.is_empty()).then(|| (0..items.len()).map(fate).collect())
    }
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
        // Items that Google did not take although it took others.
        let mut again = Vec::new();
        let mut retry: Option<(String, Duration)> = None;
        while !batch.is_empty() {
            let (request, items) = T::request(batch.as_slice(), &self.context);
            let items = items.clamp(1, batch.len());
            let failure = match self.method.call(&request).await {
                Ok(_) => {
                    tally.delivered(items);
                    remove(batch, items);
                    continue;
                }
                Err(failure) => failure,
            };
            let why = format!("{}: {}", T::FAILED, failure.why);
            self.outage.failed(&why);
            let fates = T::fates(batch.as_slice().get(..items).unwrap_or_default(), &failure);
            match (fates, failure.again) {
                (Some(fates), _) => {
                    for fate in fates {
                        let Some(mut item) = batch.pop() else { break };
                        match fate {
                            Fate::Taken => tally.delivered(1),
                            Fate::Again if item.is_sent_again() => again.push(item),
                            Fate::Again | Fate::Refused => {}
                        }
                    }
                    match again.is_empty() {
                        true => lost = Some(why),
                        false => retry = Some((why, failure.again.unwrap_or_default())),
                    }
                }
                (None, Some(after)) => {
                    retry = Some((why, after));
                    break;
                }
                (None, None) => {
                    remove(batch, items);
                    lost = Some(why);
                }
            }
        }
        again.into_iter().for_each(|item| batch.push(item));
        match (retry, lost) {
            (Some((why, after)), _) => tally.try_again_after(why, after),
            (None, Some(why)) => tally.give_up(why),
            (None, None) => self.outage.ended(),
        }
    }
}

/// Removes the first items.
fn remove<T: Item>(batch: &mut List<T>, items: usize) {
    for _ in 0..items {
        batch.pop();
    }
}

#[cfg(test)]
mod tests;
