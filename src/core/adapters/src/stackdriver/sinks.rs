//! Sinks, to which Google exports log entries.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use prost::Message as _;
use prost_types::FieldMask;

use mixer_remote::{GoogleTokens, GrpcCode, RemoteError};

use super::params::{Params, SinkInfo};
use super::send::{Failure, Method};
use super::wire::{CreateSink, LogSink, UpdateSink};

const CREATE: (&str, &str) = ("logging", "google.logging.v2.ConfigServiceV2/CreateSink");
const UPDATE: (&str, &str) = ("logging", "google.logging.v2.ConfigServiceV2/UpdateSink");

/// The pause before a sink is tried again; it doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Creates the sinks of a handler, or updates those that there are.
pub(super) struct Sinks {
    create: Method,
    update: Method,
    project: String,
    sinks: Vec<SinkInfo>,
}

impl Sinks {
    /// `None`: there is nothing to do. Errors: the services cannot be called.
    pub(super) fn new(
        params: &Params,
        tokens: &Arc<GoogleTokens>,
        project: &str,
        sinks: Vec<SinkInfo>,
    ) -> Result<Option<Self>, RemoteError> {
        if sinks.is_empty() {
            return Ok(None);
        }
        let create = Method::new(params, tokens, CREATE, None)?;
        let update = Method::new(params, tokens, UPDATE, None)?;
        Ok(Some(Self { create, update, project: project.to_owned(), sinks }))
    }

    /// Does it, as often as it takes, and then waits for ever. The log tells of each that fails, once.
    pub(super) async fn put(&self, handler: &str) {
        join_all(self.sinks.iter().map(|info| self.put_when_possible(handler, info))).await;
        std::future::pending().await
    }

    async fn put_when_possible(&self, handler: &str, info: &SinkInfo) {
        let sink = &*info.id;
        let (mut pause, mut has_failed) = (FIRST_PAUSE, false);
        while let Err(Failure { why, again, .. }) = self.put_one(info).await {
            if !has_failed {
                tracing::warn!(handler, sink, "failed to create/update stackdriver logging sink: {why}");
            }
            let Some(after) = again else { return };
            // Servers that failed together do not come back together.
            tokio::time::sleep(pause.mul_f64(1.0 - fastrand::f64() / 2.0).max(after)).await;
            (pause, has_failed) = ((pause * 2).min(LONGEST_PAUSE), true);
        }
        if has_failed {
            tracing::info!(handler, sink, "the stackdriver logging sink is there");
        }
    }

    async fn put_one(&self, info: &SinkInfo) -> Result<(), Failure> {
        let sink = LogSink {
            name: info.id.clone(),
            destination: info.destination.clone(),
            filter: info.filter.clone(),
        };
        let create = CreateSink {
            parent: format!("projects/{}", self.project),
            sink: Some(sink.clone()),
            unique_writer_identity: info.unique_writer_identity,
        };
        match self.create.call(&create.encode_to_vec()).await {
            Ok(_) => return Ok(()),
            Err(failure) if failure.code == Some(GrpcCode::AlreadyExists) => {}
            Err(failure) => return Err(failure),
        }
        let paths = [
            (info.update_destination, "destination"),
            (info.update_filter, "filter"),
            (info.update_include_children, "include_children"),
        ];
        let paths = paths.into_iter().filter(|(updates, _)| *updates).map(|(_, path)| path.to_owned());
        let update = UpdateSink {
            sink_name: format!("projects/{}/sinks/{}", self.project, info.id),
            sink: Some(sink),
            unique_writer_identity: info.unique_writer_identity,
            update_mask: Some(FieldMask { paths: paths.collect() }),
        };
        self.update.call(&update.encode_to_vec()).await.map(drop)
    }
}
