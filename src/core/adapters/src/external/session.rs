//! The session of an adapter that takes its parameters once: the service `InfrastructureBackend`.

use std::collections::BTreeMap;
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;

use super::connection::{Connection, is_unimplemented};
use mixer_engine::adapter::{BoundInstance, BuildError};
use mixer_engine::snapshot::ExternalHandler;
use mixer_wire::istio::mixer::adapter::model::v1beta1 as model;

const VALIDATE: &str = "/istio.mixer.adapter.model.v1beta1.InfrastructureBackend/Validate";
const CREATE: &str = "/istio.mixer.adapter.model.v1beta1.InfrastructureBackend/CreateSession";
const CLOSE: &str = "/istio.mixer.adapter.model.v1beta1.InfrastructureBackend/CloseSession";

/// An open session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
}

/// What an adapter says about its parameters and the types of its instances.
pub(super) enum Validation {
    Passed,
    /// It opens no sessions.
    NoSessions,
    /// It does not take them, for this reason.
    Rejected(String),
    /// It does not answer.
    NoAnswer(String),
}

/// Parameters, and the types of instances.
type Validated = (Option<prost_types::Any>, BTreeMap<String, prost_types::Any>);

fn validated(handler: &ExternalHandler, instances: &[BoundInstance]) -> Validated {
    let config = handler.config.as_ref();
    let config =
        config.map(|any| prost_types::Any { type_url: any.type_url.clone(), value: any.value.clone() });
    (config, inferred_types(instances))
}

/// Has the adapter validate its parameters and the types of its instances.
pub(super) async fn validate(
    connection: &Connection,
    handler: &ExternalHandler,
    instances: &[BoundInstance],
    timeout: Duration,
) -> Validation {
    let (adapter_config, inferred_types) = validated(handler, instances);
    let request = model::ValidateRequest { adapter_config, inferred_types };
    let answer: model::ValidateResponse = match call(connection, VALIDATE, &request, timeout).await {
        Ok(answer) => answer,
        Err(text) if is_unimplemented(&text) => return Validation::NoSessions,
        Err(text) => return Validation::NoAnswer(text),
    };
    let status = answer.status.unwrap_or_default();
    match status.code {
        0 => Validation::Passed,
        code => Validation::Rejected(format!("{code}/{}", status.message)),
    }
}

/// Has the adapter validate its parameters, and opens a session. `None` if it does not implement sessions, which Istio Mixer never opened.
pub(super) async fn open(
    connection: &Connection,
    handler: &ExternalHandler,
    instances: &[BoundInstance],
    timeout: Duration,
) -> Result<Option<Session>, BuildError> {
    let invalid = |text: String| BuildError::Invalid(vec![text]);
    match validate(connection, handler, instances, timeout).await {
        Validation::Passed => {}
        Validation::NoSessions => {
            tracing::info!("adapter {} opens no sessions: it gets no parameters", handler.adapter);
            return Ok(None);
        }
        Validation::Rejected(why) => return Err(invalid(format!("params: validation error: {why}"))),
        Validation::NoAnswer(why) => {
            return Err(invalid(format!("params: error during validation: {why}")));
        }
    }
    let (adapter_config, inferred_types) = validated(handler, instances);
    let request = model::CreateSessionRequest { adapter_config, inferred_types };
    let answer: model::CreateSessionResponse =
        call(connection, CREATE, &request, timeout).await.map_err(BuildError::Refused)?;
    let status = answer.status.unwrap_or_default();
    if status.code != 0 {
        return Err(BuildError::Refused(format!("no session: {}/{}", status.code, status.message)));
    }
    Ok(Some(Session { id: answer.session_id }))
}

impl Session {
    /// Ends the session. Errors: the adapter did not answer.
    pub(super) async fn close(&self, connection: &Connection, deadline: Duration) -> Result<(), String> {
        let request = model::CloseSessionRequest { session_id: self.id.clone() };
        call::<model::CloseSessionResponse>(connection, CLOSE, &request, deadline).await.map(drop)
    }
}

/// The inferred types of all instances, by their full names.
fn inferred_types(instances: &[BoundInstance]) -> BTreeMap<String, prost_types::Any> {
    let types = instances.iter().filter_map(|instance| {
        let type_url = format!("{}.Type", instance.template.package);
        let value = instance.plan.as_ref()?.inferred_types();
        Some((instance.name.to_string(), prost_types::Any { type_url, value }))
    });
    types.collect()
}

async fn call<T: Message + Default>(
    connection: &Connection,
    path: &'static str,
    request: &impl Message,
    timeout: Duration,
) -> Result<T, String> {
    let path = PathAndQuery::from_static(path);
    let answer = connection.call(path, &request.encode_to_vec(), Some(timeout)).await?;
    T::decode(answer).map_err(|error| super::undecodable(&error))
}
