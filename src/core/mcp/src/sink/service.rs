//! A sink that is the server: sources call it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use super::{Arrived, Sink, Updater};
use crate::grpc::{Arriving, Message, Messages};
use crate::limiter::{Limiter, Rate};
use crate::message::RequestResources;
use crate::source::Stop;

/// New streams of all sources.
const STREAMS: Rate = Rate { every: Duration::from_secs(1), burst: 100 };

/// Streams of sources at a time: one that is followed, and some that wait until it has gone.
const PLACES: usize = 5;

/// A sink on a server. It takes one source at a time, since what it has is that of one source; a few others wait with an open stream.
pub(crate) struct SinkService {
    sink: Arc<Sink>,
    updater: Arc<Mutex<Box<dyn Updater>>>,
    places: Arc<Semaphore>,
    pub(crate) streams: Limiter,
}

/// A stream of a source.
struct Session {
    service: Arc<SinkService>,
    incoming: Arriving<Arrived>,
    peer: String,
    stop: Stop,
    _place: OwnedSemaphorePermit,
    /// Requests that begin a collection and are not sent yet.
    initial: VecDeque<RequestResources>,
    /// While it is the turn of this source.
    updater: Option<OwnedMutexGuard<Box<dyn Updater>>>,
}

impl SinkService {
    pub(crate) fn new(sink: Arc<Sink>, updater: Box<dyn Updater>) -> Self {
        let (updater, places) = (Arc::new(Mutex::new(updater)), Arc::new(Semaphore::new(PLACES)));
        Self { sink, updater, places, streams: Limiter::new(STREAMS) }
    }

    pub(crate) fn max_message(&self) -> usize {
        self.sink.options.max_message
    }

    /// The place of a stream. Errors: too many sources are there.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let waiting = PLACES - 1;
            Status::unavailable(format!(
                "another source is connected to this sink, and {waiting} wait until it has gone; try again later"
            ))
        })
    }

    /// The requests of a stream whose messages these are.
    pub(crate) fn serve(
        self: Arc<Self>,
        incoming: Arriving<Arrived>,
        peer: String,
        stop: Stop,
        place: OwnedSemaphorePermit,
    ) -> Messages {
        let initial = VecDeque::new();
        let session = Session { service: self, incoming, peer, stop, _place: place, initial, updater: None };
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
            (Ok((message, _)), Some(updater)) => {
                let answer = sink.take(message, &mut ***updater).await;
                self.initial.extend(sink.state.lock().later_requests(&sink.options.node));
                Some(Ok(answer))
            }
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
        self.stop.charge.answered();
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
