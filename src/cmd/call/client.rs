//! Runs calls against a server, or against a configuration in this process.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;

use super::connection::MixerConnection;
use super::flags::CallFlags;
use super::status::RpcError;
use super::trace::CallTracer;
use crate::cmd::attributes::AttributeSet;
use crate::cmd::exit::{Exit, Failure, Stop};
use crate::cmd::io::Io;
use crate::cmd::personality::Personality;
use crate::cmd::source::{self, Remark};
use mixer_api::grpc::GrpcError;
use mixer_api::{CallInfo, MixerService};
use mixer_attribute::Vocabulary;
use mixer_base::metrics::Metrics;
use mixer_config::message::suggestion;
use mixer_config::store::{self, ConfigStore, EMBEDDED_SAMPLE, MemoryStore};
use mixer_engine::adapter::{Commons, SystemClock};
use mixer_engine::dispatch::LastKnownAnswers;
use mixer_engine::explain::{
    Explanation, PAGE_HEADER, QuotaExplanation, QuotaExplanations, WithoutNamespace,
};
use mixer_engine::handler::HandlerEnvironment;
use mixer_engine::runtime::{ConfigPolicy, Configurator, ConfiguratorOptions, Runtime};
use mixer_engine::snapshot::{Snapshot, SnapshotBuilder, SnapshotOptions};
use mixer_engine::template::Variety;
use mixer_wire::istio::mixer::v1::{CheckRequest, CheckResponse, ReportRequest};

/// Timeout of building one handler.
const BUILD_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of flushing and closing handlers.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The header that names the page of rules of an explanation.
const PAGE: http::HeaderName = http::HeaderName::from_static(PAGE_HEADER);
/// Length of the prefix of a gRPC message.
const GRPC_PREFIX_LEN: usize = 5;

/// A target of calls. Clones share it.
#[derive(Clone)]
pub(crate) enum Client {
    /// A server.
    Remote(Box<MixerConnection>),
    /// A configuration in this process.
    InProcess(Rc<InProcess>),
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Client::Remote(_) => "Remote",
            Client::InProcess(_) => "InProcess",
        })
    }
}

impl Client {
    /// Opens the target of the flags: reads a configuration and starts its handlers, or prepares a connection that the first call
    /// opens. Must run inside a tokio runtime.
    pub(crate) async fn open(
        flags: &CallFlags,
        calls: Option<CallTracer>,
        personality: Personality,
        io: &mut Io,
    ) -> Result<Client, Stop> {
        match flags.config.as_slice() {
            [] => {
                let tls = flags.tls.load(&flags.server)?;
                let connection =
                    MixerConnection::new(&flags.server.target, flags.timeout(), tls).traced(calls);
                // Istio's client does not look again.
                let connection = if personality.is_legacy() { connection } else { connection.explaining() };
                if flags.load.wait_for_ready {
                    connection.wait_for_ready().await.map_err(|error| {
                        let hint = "see that the address is right and the server runs; --timeout says how long to wait";
                        Failure::new(Exit::Deadline, "the server is not ready").cause(error.message).hint(hint)
                    })?;
                }
                // It waits for ever.
                let connection = if personality.is_legacy() { connection } else { connection.patient() };
                Ok(Client::Remote(Box::new(connection)))
            }
            sources => {
                Ok(Client::InProcess(Rc::new(InProcess::open(sources, flags, personality, io).await?)))
            }
        }
    }

    /// What the configuration in this process does not know of a request, one line each: undeclared attributes, those that are given twice or with values of another
    /// type unless it is a request of `mixc`, and quotas that no rule allocates. Of a server only
    /// [`unallocated_quotas`](Self::unallocated_quotas) are known, after a call, and which attributes are [unusual](Self::unusual).
    pub(crate) fn remarks<'n>(
        &self,
        attributes: &'n AttributeSet,
        quotas: impl Iterator<Item = &'n str>,
        personality: Personality,
    ) -> Vec<String> {
        let vocabulary = match self {
            Client::Remote(_) if attributes.is_empty() => None,
            Client::Remote(_) => usual_vocabulary(),
            Client::InProcess(local) => Some(Arc::clone(&local.snapshot.vocabulary)),
        };
        let Some(vocabulary) = vocabulary else { return Vec::new() };
        let mut remarks = self.unknown_names(&vocabulary, attributes, quotas);
        if !personality.is_legacy() {
            remarks.extend(attributes.repetitions());
            remarks.extend(attributes.mistyped(&vocabulary));
        }
        remarks
    }

    fn unknown_names<'n>(
        &self,
        vocabulary: &Vocabulary,
        attributes: &'n AttributeSet,
        quotas: impl Iterator<Item = &'n str>,
    ) -> Vec<String> {
        let Client::InProcess(local) = self else { return Vec::new() };
        let is_known = |name: &str| vocabulary.slot(name.as_bytes()).is_some();
        let hint = |name: &str, known: Vec<&str>| {
            suggestion(name, known).map_or_else(String::new, |near| format!("; {near}"))
        };
        let names = attributes.iter().map(|(name, _)| name);
        let undeclared = names.filter(|name| !is_known(name)).map(|name| {
            let hint = hint_of(name, attributes, vocabulary);
            format!("the attribute `{name}` is not declared: no rule can use it{hint}")
        });
        let mut unknown: Vec<String> = undeclared.collect();
        let actions = local.snapshot.rules.iter().flat_map(|rule| &rule.actions);
        let instances = actions.flat_map(|action| &action.instances);
        let allocated: Vec<&str> = instances
            .filter(|instance| instance.template().variety == Variety::Quota)
            .map(|instance| &*instance.key.name)
            .collect();
        let unallocated = quotas.filter(|name| !allocated.contains(name));
        unknown.extend(unallocated.map(|name| {
            format!("no rule allocates the quota `{name}`: it is granted{}", hint(name, allocated.clone()))
        }));
        unknown
    }

    /// The attributes of a request to a server that are none of the usual ones, with what is to be said if the server does not read them.
    pub(crate) fn unusual<'n>(&self, attributes: &'n AttributeSet) -> Vec<(&'n str, String)> {
        let vocabulary = if self.is_remote() && !attributes.is_empty() { usual_vocabulary() } else { None };
        vocabulary.map_or_else(Vec::new, |usual| unusual_names(&usual, attributes))
    }

    /// The quotas of a request that no rule of the server allocates, one line each. Asks the server, which allocates nothing for it; empty if
    /// it does not tell: an older one, Istio's, one on another machine.
    pub(crate) async fn unallocated_quotas(&mut self, request: CheckRequest) -> Vec<String> {
        let Client::Remote(connection) = self else { return Vec::new() };
        let Ok(response) = connection.explain_quotas(request).await else { return Vec::new() };
        serde_json::from_str(&response.json).map_or_else(|_| Vec::new(), |found| unallocated(&found))
    }

    /// What Envoy gets instead of the answer of the configuration in this process, for a request that names no namespace.
    pub(crate) fn without_namespace(&self) -> Option<WithoutNamespace> {
        match self {
            Client::Remote(_) => None,
            Client::InProcess(local) => local.without_namespace.clone(),
        }
    }

    /// Why a server would not answer with the configuration in this process; `None` if it would.
    pub(crate) fn unserved(&self) -> Option<Remark> {
        match self {
            Client::Remote(_) => None,
            Client::InProcess(local) => local.unserved.clone(),
        }
    }

    /// Whether the calls go to a server.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Client::Remote(_))
    }

    /// Flushes and closes handlers.
    pub(crate) async fn close(self) {
        if let Client::InProcess(local) = self
            && let Some(local) = Rc::into_inner(local)
        {
            local.configurator.close(CLOSE_TIMEOUT).await;
        }
    }

    /// Calls Check.
    pub(crate) async fn check(&mut self, request: CheckRequest) -> Result<CheckResponse, RpcError> {
        match self {
            Client::Remote(connection) => connection.check(request).await,
            Client::InProcess(local) => {
                let answer = local.service.check(request.encode_to_vec().into(), local.deadline()).await;
                message(answer)
            }
        }
    }

    /// Calls Report.
    pub(crate) async fn report(&mut self, request: ReportRequest) -> Result<(), RpcError> {
        match self {
            Client::Remote(connection) => connection.report(request).await,
            Client::InProcess(local) => {
                let answer = local.service.report(request.encode_to_vec().into(), local.deadline()).await;
                answer.map(drop).map_err(failed)
            }
        }
    }

    /// Explains the result of a check. `page` is the page of rules, from 1.
    pub(crate) async fn explain(
        &mut self,
        request: CheckRequest,
        page: u64,
    ) -> Result<Explanation, RpcError> {
        let response = match self {
            Client::Remote(connection) => connection.explain(request, page).await?,
            Client::InProcess(local) => {
                let headers: http::HeaderMap = [(PAGE, page.into())].into_iter().collect();
                let call = CallInfo { headers: Some(&headers), ..CallInfo::default() };
                message(local.service.explain(request.encode_to_vec().into(), call).await)?
            }
        };
        serde_json::from_str(&response.json)
            .map_err(|error| RpcError::new(tonic::Code::Internal, format!("invalid explanation: {error}")))
    }
}

/// What a server tells of the quotas of a request that no rule of it allocates, one line each.
fn unallocated(found: &QuotaExplanations) -> Vec<String> {
    let line = |quota: &QuotaExplanation| {
        let for_this = if quota.known { " for this request" } else { "" };
        let hint = quota.hint.as_ref().map_or_else(String::new, |near| format!("; {near}"));
        format!(
            "no rule of the server allocates the quota `{}`{for_this}: what no rule allocates is granted{hint}",
            quota.name
        )
    };
    found.quotas.iter().filter(|quota| !quota.allocated).map(line).collect()
}

/// The attributes that are standard or declared by the sample configuration.
fn usual_vocabulary() -> Option<Arc<Vocabulary>> {
    let store = store::open(EMBEDDED_SAMPLE).ok()?;
    let mut builder = SnapshotBuilder::new(SnapshotOptions {
        standard_attributes: true,
        ..SnapshotOptions::new(mixer_server::REGISTRY)
    });
    Some(Arc::clone(&builder.build(&store.load()).vocabulary))
}

/// The attributes that are none of the usual ones, one line each.
fn unusual_names<'n>(usual: &Vocabulary, attributes: &'n AttributeSet) -> Vec<(&'n str, String)> {
    let names = attributes.iter().map(|(name, _)| name);
    let unusual = names.filter(|name| usual.slot(name.as_bytes()).is_none());
    let line = |name: &'n str| {
        let hint = hint_of(name, attributes, usual);
        let text = format!(
            "the attribute `{name}` is none of the usual ones: no rule can use it unless the server declares it{hint}"
        );
        (name, text)
    };
    unusual.map(line).collect()
}

/// What was probably meant by the name of an attribute that is not known; empty if nobody knows.
fn hint_of(name: &str, attributes: &AttributeSet, known: &Vocabulary) -> String {
    let near = || suggestion(name, known.typed().map(|(name, _)| name));
    let hint = attributes.as_entry(name, known).or_else(near);
    hint.map_or_else(String::new, |hint| format!("; {hint}"))
}

/// A configuration that runs in this process.
pub(crate) struct InProcess {
    service: MixerService,
    configurator: Configurator,
    snapshot: Arc<Snapshot>,
    without_namespace: Option<WithoutNamespace>,
    /// Why a server would not answer with it.
    unserved: Option<Remark>,
    timeout: Option<Duration>,
}

impl InProcess {
    async fn open(
        sources: &[String],
        flags: &CallFlags,
        personality: Personality,
        io: &mut Io,
    ) -> Result<InProcess, Stop> {
        let contents = Arc::new(source::read(sources, io)?);
        let url = sources.join(" ");
        let store: Arc<dyn ConfigStore> = Arc::new(MemoryStore::holding(&url, Arc::clone(&contents)));
        mixer_net::tls::install_crypto_provider();
        let builder = SnapshotBuilder::new(flags.namespace.options());
        let runtime = Arc::new(Runtime::new(builder.empty(), None));
        let metrics = Arc::new(Metrics::new());
        let environment = HandlerEnvironment {
            clock: Arc::new(SystemClock),
            runtime: tokio::runtime::Handle::current(),
            // Any free port: a server on this machine may use the default one.
            metrics_port: 0,
            metrics: Arc::clone(&metrics),
            // Files and directories belong to a server with this configuration.
            commons: Arc::new(Commons::of_rehearsal()),
            build_timeout: BUILD_TIMEOUT,
        };
        let policy = ConfigPolicy::serve_valid();
        let options = ConfiguratorOptions { store, environment, metrics: Arc::clone(&metrics), policy };
        let mut configurator = Configurator::new(Arc::clone(&runtime), builder, options);
        configurator.apply().await;
        let snapshot = Arc::clone(runtime.load().routes.snapshot());
        let diagnostics = &runtime.load().diagnostics;
        let unserved = source::remark(&url, &flags.namespace, (&contents, &snapshot), diagnostics);
        // Otherwise the end tells it.
        let is_meant = |note: &&Remark| !flags.refuses(personality, note.why);
        if let Some(note) = unserved.as_ref().filter(is_meant).filter(|_| !flags.result.quiet) {
            io.warn(&note.text())?;
        }
        let without_namespace = WithoutNamespace::of(&runtime.load().routes);
        let service = MixerService::new(runtime, metrics, Arc::new(LastKnownAnswers::default()), None);
        let timeout = flags.timeout();
        Ok(InProcess { service, configurator, snapshot, without_namespace, unserved, timeout })
    }

    fn deadline(&self) -> Option<Instant> {
        self.timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }
}

/// Decodes a response of the service.
fn message<M: Message + Default>(answer: Result<Bytes, GrpcError>) -> Result<M, RpcError> {
    let framed = answer.map_err(failed)?;
    M::decode(framed.get(GRPC_PREFIX_LEN..).unwrap_or_default())
        .map_err(|e| RpcError::new(tonic::Code::Internal, e.to_string()))
}

fn failed(error: GrpcError) -> RpcError {
    RpcError::new(error.code as i32, error.message)
}
