//! The worker threads and the service that they run.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Start;
use crate::effects::start_workers;
use crate::error::StartError;
use crate::service::ApiService;
use crate::steps::StopStep;
use crate::{discovery, observers};
use mixer_api::grpc::Code;
use mixer_api::load_shedding::LoadShedder;
use mixer_api::worker::MessageLimits;
use mixer_api::{CallLimits, CallPool, Engine, MixerService};
use mixer_base::budget::Purpose;
use mixer_base::metrics::{Collect, Family, Metrics};
use mixer_base::pool::{Pool, PoolCollector};
use mixer_engine::dispatch::LastKnownAnswers;
use mixer_engine::runtime::{OnConfigError, Runtime};
use mixer_envoy::{EndpointContext, EnvoyShared, GrpcEndpoint};
use mixer_net::address::ListenAddress;
use mixer_net::connection::ConnectionLimits;
use mixer_net::workers::WorkerGroup;
use mixer_spans::Tracer;

/// PING interval; a client that does not acknowledge one within it is disconnected.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// Memory of the requests of a connection: two access log messages of the largest size.
const MAX_REQUEST_BYTES: usize = 16 << 20;

/// Arenas of the allocator for the threads beside the workers.
const OTHER_ARENAS: usize = 4;

impl Start<'_> {
    /// Step 14: starts the workers.
    pub(super) fn start_workers(
        &mut self,
        runtime: &Arc<Runtime>,
        metrics: &Arc<Metrics>,
        tracer: Option<Arc<Tracer>>,
        address: &ListenAddress,
    ) -> Result<Arc<WorkerGroup>, StartError> {
        let options = self.options;
        let shedder =
            LoadShedder::new(&options.load_shedding, metrics.counter(Family::LoadSheddingThrottled, &[]))
                .map(Arc::new);
        let count = match options.concurrency {
            _ if options.single_threaded => 1,
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count as usize,
        };
        mixer_base::memory::set_up_allocator(count + OTHER_ARENAS);
        let connection_limits = ConnectionLimits {
            max_concurrent_streams: u32::try_from(options.max_concurrent_streams).unwrap_or(u32::MAX),
            keep_alive_timeout: KEEP_ALIVE_TIMEOUT,
            max_age: Some(options.max_connection_age.to_std_or_zero()).filter(|age| !age.is_zero()),
            max_request_bytes: MAX_REQUEST_BYTES,
            memory: Arc::clone(self.memory.share(Purpose::Connections)),
        };
        let max_message = usize::try_from(options.max_message_size).unwrap_or(usize::MAX);
        let observers =
            observers::start(options, self.effects, &self.memory, metrics, tracer, &mut self.components)?;
        self.decisions = observers.as_ref().and_then(|observers| observers.decisions.clone());
        let stopping = CancellationToken::new();
        let others = discovery::services(&self.health, options.serves_reflection(address), stopping.clone())
            .map_err(|e| StartError::because("unable to describe the services", e))?;
        let engine = Engine {
            runtime: Arc::clone(runtime),
            metrics: Arc::clone(metrics),
            last_known: Arc::new(LastKnownAnswers::new(self.memory.share(Purpose::LastKnown))),
            shedder: shedder.clone(),
            observers,
            limits: MessageLimits {
                quotas: options.max_check_quotas as usize,
                records: options.max_report_records as usize,
            },
            waiting: Arc::clone(self.memory.share(Purpose::WaitingCalls)),
            as_istio_mixer: options.config_on_error == OnConfigError::ServeValid,
        };
        let pool = Pool::new(options.api_pool());
        let adapters = Arc::clone(&self.adapter_pools);
        let collector = PoolCollector { api: Arc::clone(&pool), adapters };
        let limits = CallLimits {
            pool: CallPool::new(pool),
            shedder,
            max_message,
            receive_timeout: options.receive_timeout.to_std_or_zero(),
        };
        let envoy = options.envoy_bridge.then(|| EndpointContext {
            shared: Arc::new(EnvoyShared::new(engine.clone(), &self.memory)),
            stopping: stopping.clone(),
            memory: Arc::clone(self.memory.share(Purpose::Connections)),
            pages: Arc::clone(self.memory.share(Purpose::Pages)),
            limits: CallLimits {
                pool: limits.pool.rejecting_with(Code::ResourceExhausted),
                ..limits.clone()
            },
        });
        if let Some(envoy) = &envoy {
            let cache: Arc<dyn Collect> = Arc::clone(&envoy.shared) as Arc<dyn Collect>;
            metrics.collect_from(Arc::downgrade(&cache));
            self.start_envoy_http(envoy)?;
            self.envoy = Some(Arc::clone(&envoy.shared));
        }
        let (counted, stopped) = (Arc::clone(metrics), stopping.clone());
        let metrics = Arc::clone(metrics);
        let service = move |_| {
            let mixer = MixerService::over(engine.clone());
            let envoy = envoy.clone().map(|context| GrpcEndpoint::new(context, &metrics));
            let others = others.clone();
            ApiService::new(mixer, &metrics, limits.clone(), others, stopped.clone()).with_envoy(envoy)
        };
        let workers = start_workers(self.effects, count, connection_limits, stopping, service)
            .map_err(|e| StartError::because("unable to start workers", e))?;
        let workers = Arc::new(workers);
        let draining = Arc::clone(&workers);
        self.components.started(StopStep::Calls, "calls", async move |timeout| draining.drain(timeout).await);
        let joining = Arc::clone(&workers);
        self.components.started(StopStep::Workers, "workers", async move |_| joining.join().await);
        self.components.collects(StopStep::Workers, "pools", &counted, collector);
        Ok(workers)
    }
}
