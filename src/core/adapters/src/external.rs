//! Adapters out of process: every call goes to the server that a handler names, over the protocol of Istio's gRPC adapters.
//!
//! The messages of instances are written by [plans](mixer_engine::template::Plan), compiled when a snapshot is built. A call fails at once
//! while there is no connection, and is never tried again. Calls of a server that hangs are bounded by the pool of the handler.

mod connection;
mod output;
mod session;

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message as _;

use crate::AdapterOptions;
use crate::bypass::{check_result, duration};
use crate::health::Health;
use connection::Connection;
use mixer_attribute::SignedDuration;
use mixer_base::secrets::mask_address;
use mixer_config::message::DecodeError;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Node};
use mixer_engine::adapter::{
    AdapterInfo, Backends, BoundInstance, BuildError, BuildFuture, BuildHandler, CheckPower, CheckResult,
    Commons, DecodeParams, Env, ErasedAdapter, ErasedParams, Generated, HandleCheck, HandleGenerate,
    HandleQuota, HandleReport, Handler, HandlerError, HandlerStatus, Instance, NOT_BUILT, ProbeFuture,
    QuotaCall, QuotaResult, Reply, Verdict, VerdictFuture,
};
use mixer_engine::snapshot::ExternalHandler;
use mixer_engine::template::{Plan, TemplateInfo, Variety, WireType, put_bytes, put_length, put_tag};
use mixer_wire::istio::mixer::adapter::model::v1beta1 as model;
use output::OutputReader;
use session::{Sessions, Validated, Validation};

/// The timeout of a call, unless the handler has one.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The room that the message of an instance usually needs.
const USUAL_MESSAGE: usize = 512;

/// The adapter of all handlers whose adapters are out of process.
#[derive(Debug)]
pub(crate) struct External;

static INFO: AdapterInfo =
    AdapterInfo { name: "external", about: "Calls adapters out of process", templates: &[] };

impl ErasedAdapter for External {
    fn info(&self) -> &'static AdapterInfo {
        &INFO
    }
}

impl DecodeParams for External {
    /// The parameters of such handlers are those of their own adapters: the snapshot decodes them.
    fn decode(&self, _: Option<&Node>, _: FieldPath) -> (ErasedParams, Vec<DecodeError>) {
        (ErasedParams::empty(), Vec::new())
    }

    fn check_power(&self, _: &ErasedParams) -> CheckPower {
        CheckPower::Decides
    }
}

impl BuildHandler for External {
    fn validate(&self, params: &ErasedParams, _: &[BoundInstance], problems: &mut Diagnostics) {
        let Some(handler) = params.get::<ExternalHandler>() else { return };
        if let Err(problem) = connection::check(&handler.connection) {
            let (field, text) = problem;
            let field = FieldPath::root().field("connection").join(&field);
            // Building says the same.
            problems.push(Diagnostic::error(NOT_BUILT, field, text));
            return;
        }
        let field = |name: &str| FieldPath::root().field("connection").field(name);
        if let Some(text) = connection::no_time(&handler.connection) {
            let problem = Diagnostic::error(NOT_BUILT, field("timeout"), text);
            let hint = "leave it out for the default, or write for example `timeout: 1s`";
            problems.push(problem.with_hint(hint).accepted_by_istio());
        }
        if let Some(port) = connection::default_port(&handler.connection) {
            let shown = mask_address(&handler.connection.address);
            let text = format!("the address `{shown}` has no port: {port} is used");
            let problem = Diagnostic::warning("connection-port", field("address"), text);
            problems.push(problem.with_hint("write HOST:PORT").accepted_by_istio());
        }
    }

    fn build(&self, params: &ErasedParams, instances: Vec<BoundInstance>, env: Env) -> BuildFuture {
        let handler = params.get::<ExternalHandler>();
        Box::pin(async move {
            let handler = handler.ok_or_else(|| BuildError::Unconnected("no connection".to_owned()))?;
            let process = Process::build(&handler, instances, &env).await?;
            Ok(Box::new(process) as Box<dyn Handler>)
        })
    }

    fn backends(&self, _: &ErasedParams) -> Backends {
        Backends::AskHandler
    }

    /// An adapter with sessions validates its instances.
    fn ask_backend(
        &self,
        params: &ErasedParams,
        instances: Vec<BoundInstance>,
        commons: &Commons,
    ) -> Option<VerdictFuture> {
        let as_istio_mixer = commons.get::<AdapterOptions>().as_istio_mixer;
        let handler =
            params.get::<ExternalHandler>().filter(|handler| opens_session(handler, as_istio_mixer))?;
        Some(Box::pin(async move {
            let Ok(connection) = Connection::open(&handler.connection, as_istio_mixer).await else {
                return Verdict::NoAnswer;
            };
            let Ok(connection) = connection.connect().await else { return Verdict::NoAnswer };
            let timeout = timeout(&handler, as_istio_mixer).unwrap_or(CALL_TIMEOUT);
            match session::validate(&connection, &Validated::new(&handler, &instances), timeout).await {
                Validation::Passed | Validation::NoSessions => Verdict::Takes,
                Validation::Rejected(why) => Verdict::Rejects(why),
                Validation::NoAnswer(_) => Verdict::NoAnswer,
            }
        }))
    }
}

/// compat(1.3): Istio Mixer opens none.
fn opens_session(handler: &ExternalHandler, as_istio_mixer: bool) -> bool {
    handler.session_based && !as_istio_mixer
}

/// The limit of a call.
fn timeout(handler: &ExternalHandler, as_istio_mixer: bool) -> Option<Duration> {
    let configured = handler.connection.timeout.map(|timeout| timeout.to_std_or_zero());
    // compat(1.3): without a timeout, only the deadline of the caller bounds a call.
    let default = (!as_istio_mixer).then_some(CALL_TIMEOUT);
    configured.filter(|timeout| !timeout.is_zero()).or(default)
}

/// How instances of one template are sent.
struct Target {
    path: PathAndQuery,
    template: Arc<TemplateInfo>,
    output: Option<OutputReader>,
}

/// An instance that the handler was built with.
struct Bound {
    plan: Arc<Plan>,
    target: Arc<Target>,
}

/// A handler whose adapter is a process.
struct Process {
    connection: Arc<Connection>,
    instances: Vec<Bound>,
    /// The encoded field with the parameters of the adapter; empty if it takes none.
    config: Vec<u8>,
    /// Number of the next call.
    calls: AtomicU64,
    timeout: Option<Duration>,
    as_istio_mixer: bool,
    sessions: Option<Arc<Sessions>>,
    health: Arc<Health>,
}

impl Process {
    async fn build(
        handler: &ExternalHandler,
        instances: Vec<BoundInstance>,
        env: &Env,
    ) -> Result<Self, BuildError> {
        let as_istio_mixer = env.commons.get::<AdapterOptions>().as_istio_mixer;
        let mut connection =
            Connection::open(&handler.connection, as_istio_mixer).await.map_err(BuildError::Unconnected)?;
        let timeout = timeout(handler, as_istio_mixer);
        let mut sessions = None;
        if opens_session(handler, as_istio_mixer) {
            let settings = Validated::new(handler, &instances);
            let opened = Arc::new(Sessions::new(settings, timeout.unwrap_or(CALL_TIMEOUT)));
            // The first one tells whether the adapter takes the parameters.
            let first = connection.connect().await.map_err(|why| Sessions::no_answer(&why))?;
            if !opened.open(first).await? {
                tracing::info!("adapter {} opens no sessions: it gets no parameters", handler.adapter);
            }
            connection = begin_with_session(connection, &opened);
            sessions = Some(opened);
        }
        let connection = Arc::new(connection);
        let mut config = Vec::new();
        if let Some(any) = handler.config.as_ref().filter(|_| !handler.session_based) {
            put_tag(2, WireType::Bytes, &mut config);
            let written: Result<(), std::convert::Infallible> = put_length(&mut config, |out| {
                put_bytes(1, any.type_url.as_bytes(), out);
                if !any.value.is_empty() {
                    put_bytes(2, &any.value, out);
                }
                Ok(())
            });
            debug_assert!(written.is_ok());
        }
        let instances = bind(&instances, as_istio_mixer)?;
        // Ids of several handlers of one adapter do not collide.
        let calls = AtomicU64::new(std::hash::RandomState::new().hash_one(&*env.handler_name) >> 1);
        let health = Arc::default();
        Ok(Self { connection, instances, config, calls, timeout, as_istio_mixer, sessions, health })
    }

    fn bound(&self, instance: &Instance<'_>) -> Result<&Bound, HandlerError> {
        let unbound = || HandlerError::new(format!("instance {} is not bound to the handler", instance.name));
        self.instances.get(instance.bound).ok_or_else(unbound)
    }

    fn write(&self, bound: &Bound, instance: &Instance<'_>, out: &mut Vec<u8>) -> Result<(), HandlerError> {
        put_tag(1, WireType::Bytes, out);
        put_length(out, |out| bound.plan.write(instance.name, instance.values, out))
            .map_err(|error| HandlerError::of_request(format!("instance {}: {error}", instance.name)))
    }

    /// A request with one instance.
    fn request(&self, instance: &Instance<'_>) -> Result<(&Bound, Vec<u8>), HandlerError> {
        let bound = self.bound(instance)?;
        let mut out = Vec::with_capacity(USUAL_MESSAGE + self.config.len());
        self.write(bound, instance, &mut out)?;
        out.extend_from_slice(&self.config);
        Ok((bound, out))
    }

    /// Adds the id of the next call.
    fn put_id(&self, out: &mut Vec<u8>) {
        let id = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut digits = [0_u8; 20];
        let mut at = digits.len();
        let mut left = id;
        loop {
            at -= 1;
            if let Some(digit) = digits.get_mut(at) {
                *digit = b'0' + (left % 10) as u8;
            }
            left /= 10;
            if left == 0 {
                break;
            }
        }
        put_bytes(3, digits.get(at..).unwrap_or_default(), out);
    }

    /// The reply of a call, read by `read`.
    fn call<T: Send + 'static>(
        &self,
        target: &Arc<Target>,
        request: Vec<u8>,
        read: impl FnOnce(Bytes, &Target) -> Result<T, String> + Send + 'static,
    ) -> Reply<T> {
        let (connection, target, health) =
            (Arc::clone(&self.connection), Arc::clone(target), Arc::clone(&self.health));
        let timeout = self.timeout;
        Reply::Later(Box::pin(async move {
            let path = target.path.clone();
            let answer = async {
                let answer = connection.call(path, &request, timeout).await;
                read_by(answer, |answer| read(answer, &target))
            };
            match health.watch(answer, String::as_str).await {
                Ok(result) => Ok(result),
                Err(text) => {
                    let (method, address) = (target.path.as_str(), mask_address(connection.address()));
                    mixer_base::warn_limited!(1, error = %text, "unable to connect to:{method}, {address}");
                    let is_of_request = connection::is_about_request(&text);
                    Err(HandlerError { is_of_request, ..HandlerError::new(text) })
                }
            }
        }))
    }
}

/// What is in an answer. Errors may quote it, shortened as the texts of statuses are.
fn read_by<T>(
    answer: Result<Bytes, String>,
    read: impl FnOnce(Bytes) -> Result<T, String>,
) -> Result<T, String> {
    answer.and_then(read).map_err(connection::shortened)
}

/// Opens a session on every connection, without which no call is sent.
fn begin_with_session(connection: Connection, sessions: &Arc<Sessions>) -> Connection {
    let sessions = Arc::clone(sessions);
    connection.with_setup(move |single| {
        let sessions = Arc::clone(&sessions);
        async move { sessions.open(single).await.map(drop).map_err(|why| why.to_string()) }
    })
}

/// The plans of the instances, and what they are sent to.
fn bind(instances: &[BoundInstance], as_istio_mixer: bool) -> Result<Vec<Bound>, BuildError> {
    let mut targets: Vec<Arc<Target>> = Vec::new();
    let mut bound = Vec::with_capacity(instances.len());
    for instance in instances {
        let refused = |why: &str| BuildError::Refused(format!("instance {}: {why}", instance.name));
        let external =
            instance.template.external.as_ref().ok_or_else(|| refused("its template is built in"))?;
        let plan = instance.plan.clone().ok_or_else(|| refused("it has no plan"))?;
        let known = targets.iter().find(|target| Arc::ptr_eq(&target.template, &instance.template));
        let target = match known {
            Some(target) => Arc::clone(target),
            None => {
                let path =
                    PathAndQuery::from_maybe_shared(Bytes::copy_from_slice(external.method.path.as_bytes()));
                let path = path.map_err(|_| refused("the name of its service is none"))?;
                let output = external.output.map(|message| {
                    OutputReader::new(&instance.template, &external.schema, message, as_istio_mixer)
                });
                let target = Arc::new(Target { path, template: Arc::clone(&instance.template), output });
                targets.push(Arc::clone(&target));
                target
            }
        };
        bound.push(Bound { plan, target });
    }
    Ok(bound)
}

/// The response of a check with output.
#[derive(Clone, PartialEq, prost::Message)]
struct CheckWithOutput {
    #[prost(message, optional, tag = "1")]
    result: Option<model::CheckResult>,
    #[prost(bytes = "bytes", tag = "2")]
    output: Bytes,
}

/// The error of a response that cannot be decoded.
fn undecodable(error: &dyn std::fmt::Display) -> String {
    format!("rpc error: code = Internal desc = grpc: failed to unmarshal the received message {error}")
}

impl HandleCheck for Process {
    fn check(&self, instance: &Instance<'_>) -> Reply<CheckResult> {
        let (bound, mut request) = match self.request(instance) {
            Ok(request) => request,
            Err(error) => return Reply::Ready(Err(error)),
        };
        self.put_id(&mut request);
        self.call(&bound.target, request, |answer, target| {
            if target.template.variety != Variety::CheckWithOutput {
                return model::CheckResult::decode(answer)
                    .map(check_result)
                    .map_err(|error| undecodable(&error));
            }
            let answer = CheckWithOutput::decode(answer).map_err(|error| undecodable(&error))?;
            let mut result = check_result(answer.result.unwrap_or_default());
            if let Some(reader) = target.output.as_ref().filter(|_| result.status.code == 0) {
                result.output = reader.read(&answer.output).map_err(|error| undecodable(&error))?;
            }
            Ok(result)
        })
    }
}

impl HandleReport for Process {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        let Some(first) = instances.first() else { return Reply::Ready(Ok(())) };
        let mut request = Vec::with_capacity(USUAL_MESSAGE * instances.len() + self.config.len());
        let mut errors = Vec::new();
        for instance in instances {
            let start = request.len();
            // One that cannot be written does not stop the others.
            let written = self.bound(instance).and_then(|bound| self.write(bound, instance, &mut request));
            if let Err(error) = written {
                request.truncate(start);
                errors.push(error);
            }
        }
        let target = match (self.bound(first), errors.len() == instances.len()) {
            (Ok(bound), false) => Arc::clone(&bound.target),
            (Err(error), _) => return Reply::Ready(Err(error)),
            (Ok(_), true) => return Reply::Ready(Err(joined(errors, None))),
        };
        request.extend_from_slice(&self.config);
        self.put_id(&mut request);
        let reply = self.call(&target, request, |answer, _| {
            model::ReportResult::decode(answer).map(drop).map_err(|error| undecodable(&error))
        });
        if errors.is_empty() {
            return reply;
        }
        Reply::Later(Box::pin(async move {
            let called = match reply {
                Reply::Ready(result) => result,
                Reply::Later(future) => future.await,
            };
            Err(joined(errors, called.err()))
        }))
    }
}

/// One error of several.
fn joined(mut errors: Vec<HandlerError>, last: Option<HandlerError>) -> HandlerError {
    errors.extend(last);
    let is_of_request = errors.iter().all(|error| error.is_of_request);
    let texts: Vec<String> = errors.into_iter().map(|error| error.message).collect();
    HandlerError { is_of_request, ..HandlerError::new(mixer_engine::adapter::join_errors(&texts)) }
}

/// What an answer grants of a quota.
fn granted_of(answer: Bytes, name: &str) -> Result<model::quota_result::Result, String> {
    let mut answer = model::QuotaResult::decode(answer).map_err(|error| undecodable(&error))?;
    answer.quotas.remove(name).ok_or_else(|| {
        let names: Vec<&str> = answer.quotas.keys().map(String::as_str).collect();
        let names = names.join(", ");
        format!("remote server did not respond with the requested quota '{name}'. quotas granted: {names}")
    })
}

impl HandleQuota for Process {
    fn quota(&self, instance: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
        let (bound, mut request) = match self.request(instance) {
            Ok(request) => request,
            Err(error) => return Reply::Ready(Err(error)),
        };
        put_bytes(3, call.deduplication_id.as_bytes(), &mut request);
        let params = model::quota_request::QuotaParams { amount: call.amount, best_effort: call.best_effort };
        let name = instance.name.to_owned();
        let quota = model::QuotaRequest { quotas: [(name.clone(), params)].into() };
        put_bytes(4, &quota.encode_to_vec(), &mut request);
        let (amount, is_bounded) = (call.amount, !self.as_istio_mixer);
        self.call(&bound.target, request, move |answer, _| {
            let granted = granted_of(answer, &name)?;
            let (valid_duration, granted) = (duration(granted.valid_duration), granted.granted_amount);
            Ok(match is_bounded {
                false => QuotaResult { granted, valid_duration },
                // No more than was asked for, and nothing is taken back.
                true => QuotaResult {
                    granted: granted.clamp(amount.min(0), amount.max(0)),
                    valid_duration: valid_duration.max(SignedDuration::ZERO),
                },
            })
        })
    }
}

impl HandleGenerate for Process {
    fn generate(&self, instance: &Instance<'_>) -> Reply<Generated> {
        let (bound, mut request) = match self.request(instance) {
            Ok(request) => request,
            Err(error) => return Reply::Ready(Err(error)),
        };
        self.put_id(&mut request);
        let reply = self.call(&bound.target, request, |answer, target| {
            let values = match &target.output {
                Some(reader) => reader.read(&answer).map_err(|error| undecodable(&error))?,
                None => Vec::new(),
            };
            Ok(Generated { values })
        });
        let failed = |error: HandlerError| HandlerError {
            message: format!("internal: failed to make an RPC to an APA: {}", error.message),
            ..error
        };
        match reply {
            Reply::Ready(result) => Reply::Ready(result.map_err(failed)),
            Reply::Later(future) => Reply::Later(Box::pin(async move { future.await.map_err(failed) })),
        }
    }
}

impl Handler for Process {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn as_quota(&self) -> Option<&dyn HandleQuota> {
        Some(self)
    }

    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn as_generate(&self) -> Option<&dyn HandleGenerate> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let mut notes = vec![("address", mask_address(self.connection.address()).into_owned())];
        if let Some(sessions) = &self.sessions {
            let ids = sessions.ids();
            notes.push(("session", if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }));
        }
        let trouble = self.health.trouble().or_else(|| self.connection.trouble());
        HandlerStatus { trouble, notes, ..HandlerStatus::default() }
    }

    fn degradation(&self) -> Option<String> {
        let token = self.connection.trouble().map(|why| format!("its calls have the last token: {why}"));
        let session = || self.sessions.as_ref()?.trouble();
        token.or_else(session)
    }

    fn probe(&self, limit: Duration) -> ProbeFuture<'_> {
        Box::pin(async move {
            let address = mask_address(self.connection.address());
            match tokio::time::timeout(limit, self.connection.reach()).await {
                Ok(Ok(())) => Ok(format!("{address} can be reached")),
                Ok(Err(why)) => Err(format!("{address}: {why}")),
                Err(_) => Err(format!("{address}: no answer within {limit:?}")),
            }
        })
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        Box::pin(async move {
            match &self.sessions {
                Some(sessions) => sessions.close(deadline).await.map_err(HandlerError::new),
                None => Ok(()),
            }
        })
    }
}

#[cfg(test)]
mod tests;
