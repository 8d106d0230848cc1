//! One stream of a source: requests in, messages out, one after the other.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::exchange::{Answered, Exchange, Reaction};
use super::{Source, TRIGGER};
use crate::account::StreamCharge;
use crate::cache::WatchRequest;
use crate::encode::Dialect;
use crate::grpc::{Arriving, Message, Messages};
use crate::inbox::{Cancelled, Inbox};
use crate::limiter::Limiter;
use crate::message::{RequestResources, Resources};
use crate::reader::is_reader;
use mixer_base::rpc_code;

/// Requests and their sizes, in either protocol.
pub(crate) type Incoming = Arriving<RequestResources>;

/// Completes when the peer is no longer allowed to have the stream, with the status that it gets.
pub(crate) type Revocation = Pin<Box<dyn Future<Output = Status> + Send>>;

/// What ends a stream from this side.
pub(crate) struct Stop {
    /// The server stops.
    pub(crate) server: CancellationToken,
    pub(crate) revoked: Revocation,
    /// How long the peer may take for its first request; `None`: as long as it likes.
    pub(crate) first_request: Option<Duration>,
    /// What the stream takes.
    pub(crate) charge: StreamCharge,
}

impl Stop {
    /// Nothing but the token ends the stream, and nobody charges it.
    pub(crate) fn when(server: CancellationToken) -> Self {
        let revoked = std::future::pending().boxed();
        Self { server, revoked, first_request: None, charge: StreamCharge::default() }
    }

    /// Completes when the first request is late. `since` is when the stream began.
    async fn late(first_request: Option<Duration>, since: Instant) -> Status {
        match first_request {
            None => std::future::pending().await,
            Some(limit) => {
                tokio::time::sleep_until(since + limit).await;
                Status::deadline_exceeded(format!("no request arrived within {limit:?}"))
            }
        }
    }
}

/// A stream of a source. When it is dropped, its watches are cancelled.
pub(crate) struct SourceStream {
    source: Arc<Source>,
    incoming: Incoming,
    exchange: Exchange,
    inbox: Arc<Inbox>,
    requests: Limiter,
    /// A request that waits for the limit.
    delayed: Option<RequestResources>,
    /// By collection, the group that is watched.
    watched: HashMap<Arc<str>, Arc<str>>,
    id: u64,
    peer: String,
    opened: Instant,
    stop: Stop,
    /// Why it ended.
    end: Option<String>,
}

impl Source {
    /// The messages of a stream whose requests these are.
    pub(crate) fn serve(
        self: &Arc<Self>,
        dialect: Dialect,
        incoming: Incoming,
        peer: String,
        stop: Stop,
    ) -> Messages {
        let stream = SourceStream::new(self, dialect, incoming, peer, stop);
        stream.into_messages()
    }

    /// As [`serve`](Self::serve), for a source that is the client: it speaks first, and `incoming` is there when the server has answered.
    pub(crate) fn call(
        self: &Arc<Self>,
        incoming: impl Future<Output = Option<Incoming>> + Send + 'static,
        peer: String,
        stop: Stop,
    ) -> Messages {
        let source = Arc::clone(self);
        let trigger = Resources { collection: TRIGGER.to_owned(), ..Resources::default() };
        let trigger = Message::of(&trigger).map_err(|_| Status::internal("the trigger is too long"));
        let served = futures_util::stream::once(async move {
            match incoming.await {
                Some(incoming) => source.serve(Dialect::Resources, incoming, peer, stop),
                None => futures_util::stream::empty().boxed(),
            }
        });
        futures_util::stream::once(std::future::ready(trigger)).chain(served.flatten()).boxed()
    }
}

/// Why a stream of messages goes on or not.
enum Event {
    Filled,
    Request(Option<Result<(RequestResources, usize), Status>>),
    Admitted,
    Ended(Status),
}

impl SourceStream {
    fn new(source: &Arc<Source>, dialect: Dialect, incoming: Incoming, peer: String, stop: Stop) -> Self {
        let id = source.cache.ledger().opened(&peer);
        source.report.stream_opened();
        let served = source.served(dialect);
        let collections = served.keys().map(|name| &**name).collect::<Vec<_>>().join(" ");
        tracing::info!(
            "MCP: connection {{addr={peer} id={id}}}: NEW (ResourceSource), supported collections: {collections}"
        );
        Self {
            exchange: Exchange::new(dialect, Arc::clone(served), &source.options),
            requests: Limiter::new(source.options.requests),
            source: Arc::clone(source),
            incoming,
            inbox: Arc::default(),
            delayed: None,
            watched: HashMap::new(),
            id,
            peer,
            opened: Instant::now(),
            stop,
            end: None,
        }
    }

    fn into_messages(self) -> Messages {
        futures_util::stream::unfold(Some(self), |stream| async move {
            let mut stream = stream?;
            match stream.next().await {
                Some(Ok(message)) => Some((Ok(message), Some(stream))),
                Some(Err(status)) => {
                    stream.end = Some(status.message().to_owned());
                    Some((Err(status), None))
                }
                None => {
                    stream.end = Some("closed by the sink".to_owned());
                    None
                }
            }
        })
        .boxed()
    }

    /// The next message; `None` at the end of the requests, and an error to end the stream.
    async fn next(&mut self) -> Option<Result<Message, Status>> {
        loop {
            match self.send_next() {
                Ok(None) => {}
                Ok(Some(message)) => return Some(Ok(message)),
                Err(status) => return Some(Err(status)),
            }
            let event = tokio::select! {
                () = self.stop.server.cancelled() => Event::Ended(Status::unavailable("the server is stopping")),
                status = &mut self.stop.revoked => Event::Ended(status),
                status = Stop::late(self.stop.first_request, self.opened) => Event::Ended(status),
                () = self.inbox.filled() => Event::Filled,
                () = self.requests.acquire(), if self.delayed.is_some() => Event::Admitted,
                request = self.incoming.next(), if self.delayed.is_none() => Event::Request(request),
            };
            let handled = match event {
                Event::Filled => Ok(()),
                Event::Ended(status) => return Some(Err(status)),
                Event::Request(None) => {
                    tracing::info!("MCP: connection {}: TERMINATED \"EOF\"", self.shown());
                    return None;
                }
                Event::Request(Some(Err(status))) => return Some(Err(self.failed(status))),
                Event::Request(Some(Ok((request, size)))) => {
                    self.source.report.request_size(&request.collection, size);
                    self.stop.first_request = None;
                    self.stop.charge.subscribed();
                    self.stop.charge.keep_versions(request.initial_resource_versions.len(), size);
                    if self.exchange.is_answer(&request) {
                        self.handle(request)
                    } else {
                        self.delayed = Some(request);
                        Ok(())
                    }
                }
                Event::Admitted => self.delayed.take().map_or(Ok(()), |request| self.handle(request)),
            };
            if let Err(status) = handled {
                return Some(Err(status));
            }
        }
    }

    fn shown(&self) -> String {
        format!("{{addr={} id={}}}", self.peer, self.id)
    }

    /// Nothing more can be received.
    fn failed(&self, status: Status) -> Status {
        self.source.report.receive_failed(status.code());
        let error = mixer_remote::grpc_error_text(&status);
        if status.code() == Code::Cancelled {
            tracing::info!("MCP: connection {}: TERMINATED {error}", self.shown());
        } else {
            tracing::error!("MCP: connection {}: TERMINATED with errors: {error}", self.shown());
        }
        status
    }

    /// The message for the next answer in the inbox.
    fn send_next(&mut self) -> Result<Option<Message>, Status> {
        let answer = match self.inbox.take() {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(None),
            Err(Cancelled) => return Err(Status::unavailable("server canceled watch")),
        };
        let collection = &answer.collection;
        let sending = self.exchange.send(&answer, &self.source.encodings).map_err(|length| {
            self.source.report.send_failed(Code::ResourceExhausted);
            Status::resource_exhausted(format!(
                "collection `{}` has {length} bytes, more than fit in one message",
                collection.name()
            ))
        })?;
        // Answered: the watch is gone.
        self.watched.remove(collection.name());
        self.source.cache.ledger().sent(self.id, collection.name(), collection.version(), answer.publication);
        tracing::debug!(
            "MCP: connection {}: SEND collection={} version={} nonce={} inc={}",
            self.shown(),
            collection.name(),
            collection.version(),
            sending.nonce,
            sending.incremental
        );
        Ok(Some(sending.message))
    }

    /// Handles a request. Errors: the stream ends.
    fn handle(&mut self, request: RequestResources) -> Result<(), Status> {
        let node = request.sink_node.clone().unwrap_or_default();
        let (asked, nonce, incremental) =
            (request.collection.clone(), request.response_nonce.clone(), request.incremental);
        let error = request.error_detail.clone();
        match self.exchange.request(request) {
            Reaction::Ignored => {}
            Reaction::Unsupported => {
                let name = mixer_base::quote::quoted(&asked);
                return Err(Status::invalid_argument(format!("unsupported collection {name}")));
            }
            Reaction::Stale { collection, expected } => {
                let what = self.count(&collection, error.as_ref().map(|error| error.code));
                let error = error.map(|error| format!(" error={:?}", error.message)).unwrap_or_default();
                mixer_base::warn_limited!(
                    10,
                    "MCP: connection {}: STALE {what} collection={collection} with nonce={nonce:?} (expected nonce={expected:?}){error} inc={incremental}",
                    self.shown()
                );
            }
            Reaction::Watch { collection, from, answered } => {
                if let Some((answered, error)) = answered {
                    self.answered(&collection, &answered, &nonce, error, incremental);
                } else {
                    tracing::info!(
                        "MCP: connection {}: inc={incremental} WATCH for {collection}",
                        self.shown()
                    );
                }
                self.watch(&collection, &from, &node, incremental);
            }
        }
        Ok(())
    }

    /// Counts an ACK, or a NACK with this code. Returns which of them.
    fn count(&self, collection: &str, error: Option<i32>) -> &'static str {
        match error {
            None => {
                self.source.report.acknowledged(collection);
                "ACK"
            }
            Some(code) => {
                self.source.report.refused(collection, code);
                "NACK"
            }
        }
    }

    fn answered(
        &self,
        collection: &Arc<str>,
        answered: &Answered,
        nonce: &str,
        error: Option<crate::message::google::rpc::Status>,
        incremental: bool,
    ) {
        let ledger = self.source.cache.ledger();
        let Answered { version, publication } = answered;
        self.count(collection, error.as_ref().map(|error| error.code));
        self.stop.charge.answered();
        match error {
            None => {
                ledger.acknowledged(self.id, collection, version, *publication);
                tracing::info!(
                    "MCP: connection {} ACK collection={collection} with version={version:?} nonce={nonce:?} inc={incremental}",
                    self.shown()
                );
            }
            Some(error) => {
                let text = refusal_text(&error.message);
                ledger.refused(self.id, collection, (version, *publication), error.code, &text);
                let code = rpc_code::camel_name(error.code).unwrap_or("Unknown");
                tracing::warn!(
                    "MCP: connection {}: NACK collection={collection} version={version:?} with nonce={nonce:?} error={code}: {text:?} inc={incremental}",
                    self.shown()
                );
            }
        }
    }

    /// Opens the watch of a collection; an earlier one is cancelled.
    fn watch(
        &mut self,
        collection: &Arc<str>,
        from: &Arc<str>,
        node: &crate::message::SinkNode,
        incremental: bool,
    ) {
        let cache = &self.source.cache;
        let group = cache.group_of(collection, node);
        if let Some(group) = self.watched.insert(Arc::clone(collection), Arc::clone(&group)) {
            cache.cancel(&group, collection, self.id);
        }
        let name = mixer_remote::foreign(&node.id);
        cache.ledger().requested(self.id, (&name, is_reader(node)), &group, collection, from);
        cache.watch(&WatchRequest {
            stream: self.id,
            inbox: &self.inbox,
            group: &group,
            collection,
            from,
            incremental,
        });
    }
}

impl Drop for SourceStream {
    fn drop(&mut self) {
        for (collection, group) in &self.watched {
            self.source.cache.cancel(group, collection, self.id);
        }
        let end = self.end.as_deref().unwrap_or("the connection was lost");
        self.source.cache.ledger().ended(self.id, end);
        self.source.report.stream_closed();
        tracing::info!("MCP: connection {}: CLOSED", self.shown());
    }
}

/// The text of a refusal, for operators: its first lines, each cut and without what is secret or controls a terminal.
fn refusal_text(message: &str) -> String {
    const MOST_LINES: usize = 8;
    let lines: Vec<String> = message.lines().take(MOST_LINES).map(mixer_remote::foreign).collect();
    lines.join("\n")
}
