//! The handler of the zipkin adapter.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};

use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::log::RateLimit;
use mixer_delivery::{
    AsyncSink, Batching, Bounds, Delivery, Holds, Item, Items as _, List, Retry, Settings, Tally,
};
use mixer_engine::adapter::{
    BoundInstance, BuildError, Env, HandleReport, Handler, HandlerError, HandlerStatus, Instance,
    QueueStatus, Reply,
};
use mixer_remote::{Answer, ClientTlsOptions, HttpOptions, HttpTarget};

use super::Params;
use super::span::JsonTemplate;
use crate::full::Handover;
use crate::outage::Outage;
use crate::tracespan::Outcome;

/// Spans of a request at most.
const BATCH: usize = 100;
/// Bytes of a request at most, unless one span has more.
const BATCH_BYTES: usize = 1 << 20;
/// How long a span waits for others.
const WAIT: Duration = Duration::from_secs(1);
/// The limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A batch is sent until the collector takes it, or refuses it.
const RETRY: Retry = Retry {
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(30),
    budget: Duration::MAX,
    breaker_failures: 10,
};

/// A built zipkin adapter.
pub(super) struct ZipkinHandler {
    name: Arc<str>,
    /// One a bound instance.
    templates: Vec<JsonTemplate>,
    /// `None`: nothing is sent.
    delivery: Option<Arc<Delivery<List<Json>>>>,
    queue: usize,
    warnings: RateLimit,
}

/// A span.
pub(super) struct Json(Box<[u8]>);

impl Item for Json {
    fn size(&self) -> usize {
        size_of::<Self>() + self.0.len()
    }
}

impl ZipkinHandler {
    pub(super) fn start(params: &Params, instances: &[BoundInstance], env: &Env) -> Result<Self, BuildError> {
        let sampling = params.sample_probability;
        let queue = (params.queue_kilobytes as usize).saturating_mul(1024);
        let delivery = match sampling > 0.0 {
            true => Some(Arc::new(deliver(params, queue, env)?)),
            false => None,
        };
        Ok(Self {
            name: Arc::clone(&env.handler_name),
            templates: instances.iter().map(|instance| JsonTemplate::new(instance, sampling)).collect(),
            delivery,
            queue,
            warnings: RateLimit::new(1),
        })
    }

    /// Spans that cannot exist are counted as failed.
    fn encode(&self, delivery: &Delivery<List<Json>>, instances: &[Instance<'_>]) -> Vec<Json> {
        let mut spans = Vec::with_capacity(instances.len());
        for instance in instances {
            // All instances are bound when the handler is built.
            let Some(template) = self.templates.get(instance.bound) else { continue };
            match template.span(instance) {
                Outcome::Span(json) => spans.push(Json(json)),
                Outcome::None => {}
                Outcome::Impossible(why) => {
                    delivery.refuse(1);
                    if let Some(suppressed) = self.warnings.admit() {
                        tracing::warn!(handler = &*self.name, suppressed, "a span is dropped: {why}");
                    }
                }
            }
        }
        spans
    }
}

fn deliver(params: &Params, queue: usize, env: &Env) -> Result<Delivery<List<Json>>, BuildError> {
    let target = HttpTarget::new(HttpOptions {
        timeout: TIMEOUT,
        tls: ClientTlsOptions { ca_file: (&params.ca_file).into(), ..ClientTlsOptions::default() },
        ..HttpOptions::new(&params.url)
    });
    let target = target.map_err(|error| BuildError::Refused(error.to_string()))?;
    let memory = env.commons.get::<MemoryBudget>();
    let settings = Settings {
        bounds: Bounds { items: usize::MAX, bytes: queue, takes_larger: true },
        memory: Some(Arc::clone(memory.share(Purpose::Queues))),
        when_full: params.when_full.with(params.hold_timeout),
        batching: Batching { items: BATCH, bytes: BATCH_BYTES.min((queue / 2).max(1)), wait: WAIT },
        retry: RETRY,
        holds: Holds::clone(&env.commons.get::<Holds>()),
        ..Settings::default()
    };
    let headers =
        HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let sink = Collector { target, headers, outage: Outage::new(&env.handler_name) };
    Ok(Delivery::in_task("zipkin sender", &*env.handler_name, settings, sink))
}

/// Sends spans.
struct Collector {
    target: HttpTarget,
    headers: HeaderMap,
    outage: Outage,
}

impl AsyncSink<List<Json>> for Collector {
    async fn deliver(&mut self, batch: &mut List<Json>, tally: &mut Tally) {
        let body = array(batch.as_slice());
        let answer = self.target.post(&self.headers, body).await.answer;
        match &answer {
            Answer::Delivered => self.outage.ended(),
            Answer::Retry { why, .. } | Answer::Refused(why) => self.outage.failed(why),
        }
        answer.settle(batch.len(), tally);
    }
}

/// An array of spans.
fn array(spans: &[Json]) -> Bytes {
    let mut body = Vec::with_capacity(spans.iter().map(|span| span.0.len() + 1).sum::<usize>() + 1);
    for span in spans {
        body.push(if body.is_empty() { b'[' } else { b',' });
        body.extend_from_slice(&span.0);
    }
    body.push(b']');
    body.into()
}

impl Handler for ZipkinHandler {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let Some(delivery) = &self.delivery else { return HandlerStatus::default() };
        let status = delivery.status();
        let queue = QueueStatus {
            name: "bytes to be sent".to_owned(),
            length: status.queued_bytes,
            capacity: self.queue,
            dropped: status.full,
        };
        HandlerStatus { trouble: delivery.trouble(), queues: vec![queue], ..HandlerStatus::default() }
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        Box::pin(async move {
            match &self.delivery {
                Some(delivery) if !delivery.close(deadline).await => {
                    Err(HandlerError::new("spans were not sent before the deadline"))
                }
                _ => Ok(()),
            }
        })
    }
}

impl HandleReport for ZipkinHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        let mut handover = Handover::default();
        if let Some(delivery) = &self.delivery {
            handover.add(delivery.hand_over(self.encode(delivery, instances)));
        }
        // Spans that are dropped are counted.
        handover.reply(|_| Ok(()))
    }
}
