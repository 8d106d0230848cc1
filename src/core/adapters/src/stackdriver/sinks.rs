//! Sinks, to which Google exports log entries.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use prost_types::FieldMask;

use mixer_remote::{GoogleTokens, GrpcCode, RemoteError};

use super::params::{Params, SinkInfo};
use super::send::{Failure, Method};
use super::wire::{CreateSink, LogSink, UpdateSink};

const CREATE: (&str, &str) = ("logging", "google.logging.v2.ConfigServiceV2/CreateSink");
const UPDATE: (&str, &str) = ("logging", "google.logging.v2.ConfigServiceV2/UpdateSink");

/// How often a sink is tried, and the pause before the second time, which doubles. All of it is shorter than a build waits.
const ATTEMPTS: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

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

    /// Does it. The log tells of each that fails.
    pub(super) async fn put(&self, handler: &str) {
        for info in &self.sinks {
            if let Err(why) = self.put_one(info).await {
                let sink = &*info.id;
                tracing::warn!(handler, sink, "failed to create/update stackdriver logging sink: {why}");
            }
        }
    }

    async fn put_one(&self, info: &SinkInfo) -> Result<(), String> {
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
        match call(&self.create, &create.encode_to_vec()).await {
            Ok(()) => return Ok(()),
            Err(failure) if failure.code == Some(GrpcCode::AlreadyExists) => {}
            Err(failure) => return Err(failure.why),
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
        call(&self.update, &update.encode_to_vec()).await.map_err(|failure| failure.why)
    }
}

/// Calls a method, several times if that may help.
async fn call(method: &Method, request: &[u8]) -> Result<(), Failure> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match method.call(request).await {
            Err(Failure { again: Some(_), .. }) => tokio::time::sleep(pause).await,
            other => return other.map(drop),
        }
        pause *= 2;
    }
    method.call(request).await.map(drop)
}
