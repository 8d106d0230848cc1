//! A sink that is the server: sources call it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tonic::Status;

use super::{Sink, Updater};
use crate::grpc::{Arriving, Message, Messages};
use crate::limiter::{Limiter, Rate};
use crate::message::{RequestResources, Resources};
use crate::source::Stop;

/// New streams of all sources.
const STREAMS: Rate = Rate { every: Duration::from_secs(1), burst: 100 };

/// A sink on a server. It takes one source at a time, since what it has is that of one source; others wait with an open stream.
pub(crate) struct SinkService {
    sink: Arc<Sink>,
    updater: Arc<Mutex<Box<dyn Updater>>>,
    pub(crate) streams: Limiter,
}

/// A stream of a source.
struct Session {
    service: Arc<SinkService>,
    incoming: Arriving<Resources>,
    peer: String,
    stop: Stop,
    initial: VecDeque<RequestResources>,
    /// While it is the turn of this source.
    updater: Option<OwnedMutexGuard<Box<dyn Updater>>>,
}

impl SinkService {
    pub(crate) fn new(sink: Arc<Sink>, updater: Box<dyn Updater>) -> Self {
        Self { sink, updater: Arc::new(Mutex::new(updater)), streams: Limiter::new(STREAMS) }
    }

    pub(crate) fn max_message(&self) -> usize {
        self.sink.options.max_message
    }

    /// The requests of a stream whose messages these are.
    pub(crate) fn serve(
        self: Arc<Self>,
        incoming: Arriving<Resources>,
        peer: String,
        stop: Stop,
    ) -> Messages {
        let session =
            Session { service: self, incoming, peer, stop, initial: VecDeque::new(), updater: None };
        futures_util::stream::unfold(Some(session), |session| async move {
            let mut session = session?;
            match session.next().await {
                Some(Ok(request)) => {
                    let message =
                        Message::of(&request).map_err(|_| Status::internal("the request is too long"));
                    Some((message, Some(session)))
                }
                Some(Err(status)) => {
                    session.service.sink.state.lock().error = Some(status.message().to_owned());
                    Some((Err(status), None))
                }
                None => None,
            }
        })
        .boxed()
    }
}

impl Session {
    /// The next request; `None` at the end of the messages, and an error to end the stream.
    async fn next(&mut self) -> Option<Result<RequestResources, Status>> {
        if self.updater.is_none()
            && let Err(status) = self.begin().await
        {
            return Some(Err(status));
        }
        if let Some(request) = self.initial.pop_front() {
            return Some(Ok(request));
        }
        let message = tokio::select! {
            message = self.incoming.next() => message?,
            status = ended(&mut self.stop) => return Some(Err(status)),
        };
        let sink = &self.service.sink;
        match (message, &mut self.updater) {
            (Ok((message, _)), Some(updater)) => Some(Ok(sink.handle(message, &mut ***updater))),
            (Ok(_), None) => None,
            (Err(status), _) => {
                sink.report.receive_failed(status.code());
                let error = mixer_remote::grpc_error_text(&status);
                tracing::info!(source = self.peer, "MCP sink stream ended: {error}");
                Some(Err(status))
            }
        }
    }

    /// Waits until it is the turn of this source. Errors: the stream ends before.
    async fn begin(&mut self) -> Result<(), Status> {
        let turn = Arc::clone(&self.service.updater).lock_owned();
        let mut turn = std::pin::pin!(turn);
        let updater = match futures_util::poll!(turn.as_mut()) {
            std::task::Poll::Ready(updater) => updater,
            std::task::Poll::Pending => {
                tracing::warn!(
                    source = self.peer,
                    "another source is connected to this sink; this one waits until that has gone"
                );
                tokio::select! {
                    updater = turn.as_mut() => updater,
                    status = ended(&mut self.stop) => return Err(status),
                }
            }
        };
        let updater = self.updater.insert(updater);
        updater.begin();
        let sink = &self.service.sink;
        tracing::info!(source = self.peer, "New MCP sink stream created");
        let mut state = sink.state.lock();
        (state.source, state.error) = (Some(self.peer.clone()), None);
        self.initial = state.initial_requests(&sink.options.node).into();
        sink.report.stream_opened();
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.updater.is_some() {
            self.service.sink.state.lock().source = None;
            self.service.sink.report.stream_closed();
        }
    }
}

/// The stream is ended from this side.
async fn ended(stop: &mut Stop) -> Status {
    tokio::select! {
        () = stop.server.cancelled() => Status::unavailable("the server is stopping"),
        status = &mut stop.revoked => status,
    }
}
