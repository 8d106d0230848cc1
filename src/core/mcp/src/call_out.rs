//! A source that calls a server of sinks.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::client::{ClientOptions, LazyClient};
use crate::grpc::Messages;
use crate::message::RequestResources;
use crate::source::{Incoming, Source, Stop};
use crate::transport;

/// The pause before the next attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// A source that calls a server of sinks.
#[derive(Debug)]
pub struct CallOut {
    source: Arc<Source>,
    options: ClientOptions,
}

impl CallOut {
    /// Connects when it runs.
    pub fn new(source: Arc<Source>, options: ClientOptions) -> Self {
        Self { source, options }
    }

    /// Where it calls.
    pub fn address(&self) -> &str {
        &self.options.address
    }

    /// Serves the source on a stream to the server until `stop`, and on another one a second after it ended or could not be opened. A task
    /// of its own, supervised by the caller.
    pub async fn run(&self, stop: CancellationToken) {
        let mut client = LazyClient::default();
        loop {
            tokio::select! {
                ended = self.serve_once(&mut client, &stop) => {
                    let error = mixer_remote::grpc_error_text(&ended);
                    match ended.code() {
                        Code::Ok => tracing::info!(sink = self.options.address, "the sink has ended the stream"),
                        _ => mixer_base::warn_limited!(1, sink = self.options.address, "the stream to the sink: {error}"),
                    }
                }
                () = stop.cancelled() => return,
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// One stream, to its end: its status.
    async fn serve_once(&self, client: &mut LazyClient, stop: &CancellationToken) -> Status {
        match self.try_serve(client, stop).await {
            Ok(status) | Err(status) => status,
        }
    }

    async fn try_serve(&self, client: &mut LazyClient, stop: &CancellationToken) -> Result<Status, Status> {
        let client = client.get(&self.options).await?;
        let source = &self.source;
        let (incoming, arrives) = oneshot::channel::<Incoming>();
        let (ended, end) = oneshot::channel::<Status>();
        let stop = Stop::when(stop.clone());
        let messages = source.call(arrives.map(Result::ok), self.options.address.clone(), stop);
        let messages = until_end(messages, ended);
        let max_request = source.options().max_request;
        let opened = client.open::<RequestResources>(transport::SINK, messages, max_request).await?;
        source.report.reconnected();
        tracing::info!(sink = self.options.address, "the stream to the sink is open");
        // If the stream has ended meanwhile, so has its end.
        let _ = incoming.send(opened.messages);
        let status = end.await.unwrap_or_else(|_| Status::unavailable("the connection was lost"));
        drop(opened.link);
        Ok(status)
    }
}

/// The messages, whose end is told.
fn until_end(messages: Messages, ended: oneshot::Sender<Status>) -> Messages {
    let state = Some((messages, ended));
    futures_util::stream::unfold(state, |state| async move {
        let (mut messages, ended) = state?;
        match messages.next().await {
            Some(Ok(message)) => Some((Ok(message), Some((messages, ended)))),
            Some(Err(status)) => {
                // Nobody waits if the call was given up.
                let _ = ended.send(status.clone());
                Some((Err(status), None))
            }
            None => {
                let _ = ended.send(Status::new(Code::Ok, ""));
                None
            }
        }
    })
    .boxed()
}
