//! Forwards every call to a gRPC backend, without TLS, over the protocol of out-of-process adapters.
//!
//! With `sessionBased`, parameters are sent once, when the handler is built; otherwise with every call. An unavailable backend
//! fails calls, not the build. [`CALL_TIMEOUT`] bounds each call.

mod convert;

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

use super::any::AnyField;
use super::health::Health;
use mixer_base::secrets::mask_address;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BackendAddress, Backends, BoundInstance, BuildError, CheckResult, Env, HandleCheck,
    HandleQuota, HandleReport, Handler, HandlerError, HandlerStatus, Instance, QuotaCall, QuotaResult, Reply,
};
use mixer_wire::istio::mixer::adapter::model::v1beta1 as model;
use mixer_wire::{checknothing, metric, quota, reportnothing};

pub(crate) use convert::{check_result, duration};
use convert::{error_text, gather};
use model::infrastructure_backend_client::InfrastructureBackendClient;

mixer_config::message! {
    /// Parameters of bypass.
    pub struct Params: "adapter.bypass.config.Params" {
        /// `host:port` of the backend.
        1 backend_address: String = String::new();
        /// Configuration of the backend: any message, with `@type`.
        2 params: AnyField = AnyField::default();
        /// Send `params` once instead of with every call.
        3 session_based: bool = false;
    }
}

/// Timeout of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The adapter, which is also its handler.
pub(crate) struct Bypass {
    /// An error fails every call.
    channel: Result<Channel, String>,
    /// Sent with every call; `None` in a session.
    adapter_config: Option<prost_types::Any>,
    session: Option<String>,
    instances: Vec<BoundInstance>,
    ids: DeduplicationIds,
    call_timeout: Duration,
    health: Arc<Health>,
}

impl Adapter for Bypass {
    const INFO: AdapterInfo = AdapterInfo {
        name: "bypass",
        about: "Calls gRPC backends via the inline adapter model (useful for testing)",
        templates: &["checknothing", "reportnothing", "metric", "quota"],
    };
    type Params = Params;

    fn validate(params: &Params, _: &[BoundInstance], problems: &mut Diagnostics) {
        if let Err(why) = endpoint(&params.backend_address) {
            let path = FieldPath::root().field("backendAddress");
            let shown = mask_address(&params.backend_address);
            let text = format!("backend_address: `{shown}` cannot be called: {why}");
            let hint = "write `host:port`; as it is, every call fails";
            problems.push(Diagnostic::warning("adapter-config", path, text).with_hint(hint));
        }
    }

    fn backends(params: &Params) -> Backends {
        let address = params.backend_address.as_str();
        let address = address.strip_prefix("dns:///").or(address.strip_prefix("passthrough:///"));
        let address = address.unwrap_or(&params.backend_address);
        Backends::Addresses(vec![match address.strip_prefix("unix:") {
            Some(path) => BackendAddress::Unix(path.strip_prefix("//").unwrap_or(path).to_owned()),
            None => BackendAddress::Tcp(crate::address::dialed(address)),
        }])
    }

    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        _: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(Bypass::connect(params, instances, CALL_TIMEOUT).await?))
    }
}

/// Parses `host:port`, `:port` on localhost, or `unix:///path`.
fn endpoint(address: &str) -> Result<Endpoint, String> {
    let address =
        address.strip_prefix("dns:///").or(address.strip_prefix("passthrough:///")).unwrap_or(address);
    let uri = match address {
        "" => return Err("no address".to_owned()),
        port if port.starts_with(':') => format!("http://localhost{port}"),
        socket if socket.starts_with("unix:") => socket.to_owned(),
        other => format!("http://{other}"),
    };
    let endpoint = Endpoint::from_shared(uri).map_err(|e| e.to_string())?;
    Ok(endpoint.connect_timeout(CONNECT_TIMEOUT))
}

impl Bypass {
    async fn connect(
        params: Params,
        instances: Vec<BoundInstance>,
        call_timeout: Duration,
    ) -> Result<Self, BuildError> {
        let channel = endpoint(&params.backend_address).map(|e| e.connect_lazy()).map_err(|why| {
            let shown = mask_address(&params.backend_address);
            format!("rpc error: code = Unavailable desc = cannot connect to `{shown}`: {why}")
        });
        let any = params.params.encoded;
        let config = (!any.type_url.is_empty())
            .then_some(prost_types::Any { type_url: any.type_url, value: any.value });
        let mut handler = Bypass {
            channel,
            adapter_config: None,
            session: None,
            instances,
            ids: DeduplicationIds::default(),
            call_timeout,
            health: Arc::default(),
        };
        if params.session_based {
            handler.session = Some(handler.open_session(config).await?);
        } else {
            handler.adapter_config = config;
        }
        Ok(handler)
    }

    /// Has the backend validate the parameters, then opens a session.
    async fn open_session(&self, adapter_config: Option<prost_types::Any>) -> Result<String, BuildError> {
        let invalid = |text: String| BuildError::Invalid(vec![text]);
        let broken = |text: String| invalid(format!("params: error during validation: {text}"));
        let channel = self.channel.clone().map_err(broken)?;
        let mut client = InfrastructureBackendClient::new(channel);
        let inferred_types = convert::inferred_types(&self.instances);
        let request = model::ValidateRequest {
            adapter_config: adapter_config.clone(),
            inferred_types: inferred_types.clone(),
        };
        let response = self.timed(client.validate(request)).await.map_err(broken)?;
        let status = response.status.unwrap_or_default();
        if status.code != 0 {
            return Err(invalid(format!("params: validation error: {}/{}", status.code, status.message)));
        }
        let request = model::CreateSessionRequest { adapter_config, inferred_types };
        let response = self.timed(client.create_session(request)).await.map_err(BuildError::Refused)?;
        Ok(response.session_id)
    }

    fn timed<T>(&self, call: impl Future<Output = RpcResult<T>>) -> impl Future<Output = Result<T, String>> {
        timed(self.call_timeout, call)
    }

    /// The reply of `call` on the channel.
    fn later<T, F>(&self, call: impl FnOnce(Channel) -> F) -> Reply<T>
    where
        T: Send + 'static,
        F: Future<Output = RpcResult<T>> + Send + 'static,
    {
        match &self.channel {
            Ok(channel) => {
                let (call, health) =
                    (timed(self.call_timeout, call(channel.clone())), Arc::clone(&self.health));
                Reply::Later(Box::pin(async move {
                    health.watch(call, String::as_str).await.map_err(HandlerError::new)
                }))
            }
            Err(text) => Reply::Ready(Err(HandlerError::new(text.clone()))),
        }
    }
}

/// The result of a generated client.
type RpcResult<T> = Result<tonic::Response<T>, tonic::Status>;

async fn timed<T>(limit: Duration, call: impl Future<Output = RpcResult<T>>) -> Result<T, String> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(error_text(&status)),
        Err(_) => Err(format!("rpc error: code = DeadlineExceeded desc = no answer within {limit:?}")),
    }
}

impl Handler for Bypass {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn as_quota(&self) -> Option<&dyn HandleQuota> {
        Some(self)
    }

    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let trouble = self.channel.as_ref().err().cloned().or_else(|| self.health.trouble());
        HandlerStatus { trouble, ..HandlerStatus::default() }
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        Box::pin(async move {
            let (Some(session_id), Ok(channel)) = (self.session.clone(), self.channel.clone()) else {
                return Ok(());
            };
            let mut client = InfrastructureBackendClient::new(channel);
            let request = model::CloseSessionRequest { session_id };
            let limit = self.call_timeout.min(deadline);
            timed(limit, client.close_session(request)).await.map(drop).map_err(HandlerError::new)
        })
    }
}

impl HandleCheck for Bypass {
    fn check(&self, instance: &Instance<'_>) -> Reply<CheckResult> {
        let request = checknothing::HandleCheckNothingRequest {
            instance: Some(checknothing::InstanceMsg { name: instance.name.to_owned() }),
            adapter_config: self.adapter_config.clone(),
            dedup_id: self.ids.next(),
        };
        self.later(|channel| async move {
            let mut client =
                checknothing::handle_check_nothing_service_client::HandleCheckNothingServiceClient::new(
                    channel,
                );
            Ok(client.handle_check_nothing(request).await?.map(convert::check_result))
        })
    }
}

impl HandleQuota for Bypass {
    fn quota(&self, instance: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
        let Some(bound) = self.instances.get(instance.bound) else { return unknown(instance) };
        let dimensions = match gather(bound, instance, "dimensions") {
            Ok(dimensions) => dimensions,
            Err(error) => return Reply::Ready(Err(error)),
        };
        let name = instance.name.to_owned();
        let params = model::quota_request::QuotaParams { amount: call.amount, best_effort: call.best_effort };
        let request = quota::HandleQuotaRequest {
            instance: Some(quota::InstanceMsg { name: name.clone(), dimensions }),
            adapter_config: self.adapter_config.clone(),
            dedup_id: call.deduplication_id.to_owned(),
            quota_request: Some(model::QuotaRequest { quotas: [(name.clone(), params)].into() }),
        };
        self.later(|channel| async move {
            let mut client = quota::handle_quota_service_client::HandleQuotaServiceClient::new(channel);
            Ok(client.handle_quota(request).await?.map(|answer| convert::quota_result(answer, &name)))
        })
    }
}

impl HandleReport for Bypass {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        let Some(first) = instances.first() else { return Reply::Ready(Ok(())) };
        let Some(bound) = self.instances.get(first.bound) else { return unknown(first) };
        if bound.template.name == "reportnothing" {
            self.report_nothing(instances)
        } else {
            self.report_metrics(instances)
        }
    }
}

impl Bypass {
    fn report_nothing(&self, instances: &[Instance<'_>]) -> Reply<()> {
        let named = |i: &Instance<'_>| reportnothing::InstanceMsg { name: i.name.to_owned() };
        let request = reportnothing::HandleReportNothingRequest {
            instances: instances.iter().map(named).collect(),
            adapter_config: self.adapter_config.clone(),
            dedup_id: self.ids.next(),
        };
        self.later(|channel| async move {
            let mut client =
                reportnothing::handle_report_nothing_service_client::HandleReportNothingServiceClient::new(
                    channel,
                );
            Ok(client.handle_report_nothing(request).await?.map(drop))
        })
    }

    fn report_metrics(&self, instances: &[Instance<'_>]) -> Reply<()> {
        let message = |instance: &Instance<'_>| {
            let bound = self.instances.get(instance.bound).ok_or_else(|| convert::not_bound(instance))?;
            Ok(metric::InstanceMsg {
                name: instance.name.to_owned(),
                value: Some(convert::value(bound.position("value").and_then(|at| instance.value(at)))?),
                dimensions: gather(bound, instance, "dimensions")?,
                // compat(1.3): monitored resources are not sent; pinned by bypass/metric-values.
                ..metric::InstanceMsg::default()
            })
        };
        // A value that cannot be sent fails the whole batch.
        let instances = match instances.iter().map(message).collect::<Result<_, HandlerError>>() {
            Ok(instances) => instances,
            Err(error) => return Reply::Ready(Err(error)),
        };
        let request = metric::HandleMetricRequest {
            instances,
            adapter_config: self.adapter_config.clone(),
            dedup_id: self.ids.next(),
        };
        self.later(|channel| async move {
            let mut client = metric::handle_metric_service_client::HandleMetricServiceClient::new(channel);
            Ok(client.handle_metric(request).await?.map(drop))
        })
    }
}

fn unknown<T>(instance: &Instance<'_>) -> Reply<T> {
    Reply::Ready(Err(convert::not_bound(instance)))
}

/// Unique ids of calls: version 4 UUIDs.
#[derive(Debug, Default)]
struct DeduplicationIds {
    /// Randomly seeded.
    random: (std::hash::RandomState, std::hash::RandomState),
    calls: AtomicU64,
}

impl DeduplicationIds {
    fn next(&self) -> String {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let (high, low) = (self.random.0.hash_one(call), self.random.1.hash_one(call));
        let high = high & 0xffff_ffff_ffff_0fff | 0x4000;
        let low = low & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
        let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
        format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
    }
}

#[cfg(test)]
mod tests;
