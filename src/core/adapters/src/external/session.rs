//! The sessions of an adapter that does not take its parameters with every call: the service `InfrastructureBackend`.
//!
//! A session belongs to the connection on which it was opened. The process at the other end of a new connection may be another one, such as
//! the next one after a restart or another replica: every connection begins with a session, and calls use it after that.

use std::collections::BTreeMap;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::future::join_all;
use http::uri::PathAndQuery;
use parking_lot::Mutex;
use prost::Message;

use super::connection::{Single, is_unimplemented, shortened};
use mixer_engine::adapter::{BoundInstance, BuildError, join_errors};
use mixer_engine::snapshot::ExternalHandler;
use mixer_wire::istio::mixer::adapter::model::v1beta1 as model;

const VALIDATE: &str = "/istio.mixer.adapter.model.v1beta1.InfrastructureBackend/Validate";
const CREATE: &str = "/istio.mixer.adapter.model.v1beta1.InfrastructureBackend/CreateSession";
const CLOSE: &str = "/istio.mixer.adapter.model.v1beta1.InfrastructureBackend/CloseSession";

/// The sessions of a handler.
pub(super) struct Sessions {
    /// What each of them is opened with.
    settings: Validated,
    /// The limit of a call.
    timeout: Duration,
    open: Mutex<Vec<Session>>,
    /// Why the last one was not opened.
    trouble: ArcSwapOption<String>,
}

/// An open session.
struct Session {
    connection: Single,
    id: String,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unopened {
    /// The parameters are not valid, or the adapter does not say whether they are.
    #[error("no session: {0}")]
    Invalid(String),
    /// It opens none.
    #[error("no session: {0}")]
    Refused(String),
}

impl From<Unopened> for BuildError {
    fn from(why: Unopened) -> Self {
        match why {
            Unopened::Invalid(text) => BuildError::Invalid(vec![text]),
            Unopened::Refused(_) => BuildError::Refused(why.to_string()),
        }
    }
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
#[derive(Clone)]
pub(super) struct Validated {
    config: Option<prost_types::Any>,
    types: BTreeMap<String, prost_types::Any>,
}

impl Validated {
    pub(super) fn new(handler: &ExternalHandler, instances: &[BoundInstance]) -> Self {
        let config = handler.config.as_ref();
        let config =
            config.map(|any| prost_types::Any { type_url: any.type_url.clone(), value: any.value.clone() });
        Self { config, types: inferred_types(instances) }
    }
}

/// Has the adapter validate its parameters and the types of its instances.
pub(super) async fn validate(connection: &Single, settings: &Validated, timeout: Duration) -> Validation {
    let Validated { config, types } = settings.clone();
    let request = model::ValidateRequest { adapter_config: config, inferred_types: types };
    let answer: model::ValidateResponse = match call(connection, VALIDATE, &request, timeout).await {
        Ok(answer) => answer,
        Err(text) if is_unimplemented(&text) => return Validation::NoSessions,
        Err(text) => return Validation::NoAnswer(text),
    };
    let status = answer.status.unwrap_or_default();
    match status.code {
        0 => Validation::Passed,
        _ => Validation::Rejected(refusal(status.code, &status.message)),
    }
}

impl Sessions {
    pub(super) fn new(settings: Validated, timeout: Duration) -> Self {
        Self { settings, timeout, open: Mutex::default(), trouble: ArcSwapOption::empty() }
    }

    /// Has the adapter validate its parameters, and opens a session on a connection. Returns whether it opens any: one that does not implement
    /// sessions, which Istio Mixer never opened, is called without.
    pub(super) async fn open(&self, connection: Single) -> Result<bool, Unopened> {
        let opened = self.create(&connection).await;
        self.trouble.store(opened.as_ref().err().map(|why| why.to_string().into()));
        let Some(id) = opened? else { return Ok(false) };
        let mut open = self.open.lock();
        open.retain(|session| session.connection.is_open());
        open.push(Session { connection, id });
        Ok(true)
    }

    async fn create(&self, connection: &Single) -> Result<Option<String>, Unopened> {
        match validate(connection, &self.settings, self.timeout).await {
            Validation::Passed => {}
            Validation::NoSessions => return Ok(None),
            Validation::Rejected(why) => {
                return Err(Unopened::Invalid(format!("params: validation error: {why}")));
            }
            Validation::NoAnswer(why) => return Err(Self::no_answer(&why)),
        }
        let Validated { config, types } = self.settings.clone();
        let request = model::CreateSessionRequest { adapter_config: config, inferred_types: types };
        let answer: model::CreateSessionResponse =
            call(connection, CREATE, &request, self.timeout).await.map_err(Unopened::Refused)?;
        let status = answer.status.unwrap_or_default();
        if status.code != 0 {
            return Err(Unopened::Refused(refusal(status.code, &status.message)));
        }
        Ok(Some(answer.session_id))
    }

    /// The adapter does not say whether its parameters are valid.
    pub(super) fn no_answer(why: &str) -> Unopened {
        Unopened::Invalid(format!("params: error during validation: {why}"))
    }

    /// Why calls on new connections fail. Takes no lock.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.load().as_deref().cloned()
    }

    /// The ids of the sessions, each once, as they are shown.
    pub(super) fn ids(&self) -> Vec<String> {
        let open = self.open.lock();
        let live = open.iter().filter(|session| session.connection.is_open());
        let mut ids: Vec<String> = live.map(|session| shortened(session.id.clone())).collect();
        ids.sort();
        ids.dedup();
        ids
    }

    /// Ends the sessions; those whose connections have ended have ended with them. Errors: the adapter did not answer.
    pub(super) async fn close(&self, deadline: Duration) -> Result<(), String> {
        let mut open = std::mem::take(&mut *self.open.lock());
        open.retain(|session| session.connection.is_open());
        let closing = open.into_iter().map(|session| async move {
            let request = model::CloseSessionRequest { session_id: session.id };
            call::<model::CloseSessionResponse>(&session.connection, CLOSE, &request, deadline).await.err()
        });
        let mut failed: Vec<String> = join_all(closing).await.into_iter().flatten().collect();
        failed.dedup();
        match failed.as_slice() {
            [] => Ok(()),
            [only] => Err(only.clone()),
            several => Err(join_errors(several)),
        }
    }
}

/// Why an adapter does not do what it was asked for.
pub(super) fn refusal(code: i32, message: &str) -> String {
    shortened(format!("{code}/{message}"))
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
    connection: &Single,
    path: &'static str,
    request: &impl Message,
    timeout: Duration,
) -> Result<T, String> {
    let path = PathAndQuery::from_static(path);
    let answer = connection.call(path, &request.encode_to_vec(), timeout).await?;
    T::decode(answer).map_err(|error| super::undecodable(&error))
}
