//! Who answers a call: a server, or a configuration run in this process.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;

use super::{CallFlags, CallTracer, Connection, RpcError};
use crate::cmd::source::NamespaceFlags;
use crate::cmd::{Failure, Io, Stop};
use mixer_api::grpc::GrpcError;
use mixer_api::{ExplainResponse, MixerService};
use mixer_base::metrics::Metrics;
use mixer_config::Severity;
use mixer_config::store::{self, ConfigStore, WhenLost};
use mixer_engine::adapter::{Commons, SystemClock};
use mixer_engine::dispatch::LastKnownAnswers;
use mixer_engine::explain::Explanation;
use mixer_engine::handler::HandlerEnvironment;
use mixer_engine::runtime::{Configurator, ConfiguratorOptions, Runtime};
use mixer_engine::snapshot::SnapshotBuilder;
use mixer_wire::istio::mixer::v1::{CheckRequest, CheckResponse, ReportRequest};

/// How long one handler may take to build.
const BUILD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long handlers may take to hand on what they hold, at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of prefix before a gRPC message.
const FRAMING: usize = 5;

/// Answers calls. Clones answer from the same place.
#[derive(Clone)]
pub(crate) enum Caller {
    /// A server.
    Remote(Box<Connection>),
    /// A configuration in this process.
    Local(Rc<Local>),
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Caller::Remote(_) => "Remote",
            Caller::Local(_) => "Local",
        })
    }
}

impl Caller {
    /// Prepares to call what the flags name. A configuration is read and its handlers are started; a server is called first by
    /// the first call. Must run inside a tokio runtime.
    pub(crate) async fn open(
        flags: &CallFlags,
        calls: Option<CallTracer>,
        io: &mut Io,
    ) -> Result<Caller, Stop> {
        match &flags.config {
            None => {
                let tls = flags.secure.load(&flags.mixer)?;
                let connection = Connection::new(&flags.mixer, flags.timeout(), tls).traced(calls);
                if flags.load.wait_for_ready {
                    connection.wait_for_ready().await.map_err(|error| {
                        Failure::new(crate::cmd::Exit::Deadline, "the server is not ready")
                            .cause(error.message)
                    })?;
                }
                Ok(Caller::Remote(Box::new(connection)))
            }
            Some(url) => Ok(Caller::Local(Rc::new(Local::open(url, flags, io).await?))),
        }
    }

    /// Lets handlers hand on what they hold.
    pub(crate) async fn close(self) {
        if let Caller::Local(local) = self
            && let Some(local) = Rc::into_inner(local)
        {
            local.configurator.close(CLOSE_TIMEOUT).await;
        }
    }

    /// Calls Check.
    pub(crate) async fn check(&mut self, request: CheckRequest) -> Result<CheckResponse, RpcError> {
        match self {
            Caller::Remote(connection) => connection.check(request).await,
            Caller::Local(local) => {
                let answer = local.service.check(request.encode_to_vec().into(), local.deadline()).await;
                message(answer)
            }
        }
    }

    /// Calls Report.
    pub(crate) async fn report(&mut self, request: ReportRequest) -> Result<(), RpcError> {
        match self {
            Caller::Remote(connection) => connection.report(request).await,
            Caller::Local(local) => {
                let answer = local.service.report(request.encode_to_vec().into(), local.deadline()).await;
                answer.map(drop).map_err(failed)
            }
        }
    }

    /// Asks why a check is answered as it is.
    pub(crate) async fn explain(&mut self, request: CheckRequest) -> Result<Explanation, RpcError> {
        let response = match self {
            Caller::Remote(connection) => connection.explain(request).await?,
            Caller::Local(local) => message(local.service.explain(request.encode_to_vec().into()).await)?,
        };
        serde_json::from_str(&response.json).map_err(|error| RpcError {
            code: tonic::Code::Internal.into(),
            message: format!("the explanation cannot be read: {error}"),
        })
    }
}

/// A configuration that runs in this process.
pub(crate) struct Local {
    service: MixerService,
    configurator: Configurator,
    timeout: Option<Duration>,
}

impl Local {
    async fn open(url: &str, flags: &CallFlags, io: &mut Io) -> Result<Local, Stop> {
        let refuse = |cause: String| Failure::local(format!("cannot run on `{url}`")).cause(cause);
        let url = if url.contains("://") { url.to_owned() } else { format!("fs://{url}") };
        let store = store::open_with(&url, WhenLost::Keep).map_err(|e| refuse(e.to_string()))?;
        let store: Arc<dyn ConfigStore> = Arc::from(store);
        if let Some(cause) = &store.contents().unavailable {
            return Err(refuse(cause.clone()).into());
        }
        mixer_net::tls::install_crypto_provider();
        let builder = SnapshotBuilder::new(flags.namespace().options());
        let runtime = Arc::new(Runtime::new(builder.empty(), None));
        let metrics = Arc::new(Metrics::new());
        let environment = HandlerEnvironment {
            clock: Arc::new(SystemClock),
            runtime: tokio::runtime::Handle::current(),
            // Any free port: the one of a server on this machine stays its own.
            metrics_port: 0,
            metrics: Arc::clone(&metrics),
            commons: Arc::new(Commons::default()),
            build_timeout: BUILD_TIMEOUT,
        };
        let options = ConfiguratorOptions { store, environment, metrics: Arc::clone(&metrics) };
        let mut configurator = Configurator::new(Arc::clone(&runtime), builder, options);
        configurator.apply().await;
        let errors = runtime.load().diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
        if errors > 0 && !flags.result.quiet {
            writeln!(io.err, "warning: the configuration has {errors} errors; see `mixer validate {url}`")?;
        }
        let service = MixerService::new(runtime, metrics, Arc::new(LastKnownAnswers::default()), None);
        Ok(Local { service, configurator, timeout: flags.timeout() })
    }

    fn deadline(&self) -> Option<Instant> {
        self.timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }
}

/// A framed message as the service gives it.
fn message<M: Message + Default>(answer: Result<Bytes, GrpcError>) -> Result<M, RpcError> {
    let framed = answer.map_err(failed)?;
    M::decode(framed.get(FRAMING..).unwrap_or_default())
        .map_err(|e| RpcError { code: tonic::Code::Internal.into(), message: e.to_string() })
}

fn failed(error: GrpcError) -> RpcError {
    RpcError { code: error.code as i32, message: error.message }
}

impl CallFlags {
    fn namespace(&self) -> &NamespaceFlags {
        &self.namespace
    }
}

impl Connection {
    /// Calls `mixer.introspect.v1.Introspect/Explain`, which servers answer to callers on their own machine.
    async fn explain(&mut self, request: CheckRequest) -> Result<ExplainResponse, RpcError> {
        self.unary(request, "/mixer.introspect.v1.Introspect/Explain").await
    }
}
