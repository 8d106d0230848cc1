//! The gRPC backend of the bypass cases: returns configured answers and records requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64_text as base64;
use mixer_attribute::SignedDuration;
use mixer_config::{Node, NodeKind};
use mixer_wire::google::rpc::Status as RpcStatus;
use mixer_wire::istio::mixer::adapter::model::v1beta1 as model;
use mixer_wire::istio::policy::v1beta1 as policy;
use mixer_wire::{checknothing, metric, quota, reportnothing};
use parking_lot::Mutex;
use prost::Message;
use serde_json::{Map, Value as Json, json};
use tonic::{Request, Response, Status};

use checknothing::handle_check_nothing_service_server as check_server;
use metric::handle_metric_service_server as metric_server;
use model::infrastructure_backend_server as infrastructure_server;
use quota::handle_quota_service_server as quota_server;
use reportnothing::handle_report_nothing_service_server as report_server;

/// A running backend.
pub(super) struct Backend {
    pub(super) address: String,
    calls: Calls,
}

type Calls = Arc<Mutex<Vec<Json>>>;

impl Backend {
    /// Starts a backend with the answers of `node`.
    pub(super) async fn start(node: &Node) -> Result<Self, String> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(|e| e.to_string())?;
        let address = listener.local_addr().map_err(|e| e.to_string())?.to_string();
        let calls = Calls::default();
        let service = Service { calls: calls.clone(), node: Arc::new(node.clone()) };
        let server = tonic::transport::Server::builder()
            .add_service(check_server::HandleCheckNothingServiceServer::new(service.clone()))
            .add_service(report_server::HandleReportNothingServiceServer::new(service.clone()))
            .add_service(metric_server::HandleMetricServiceServer::new(service.clone()))
            .add_service(quota_server::HandleQuotaServiceServer::new(service.clone()))
            .add_service(infrastructure_server::InfrastructureBackendServer::new(service));
        tokio::spawn(server.serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)));
        Ok(Self { address, calls })
    }

    /// The requests since the last call.
    pub(super) fn take_calls(&self) -> Json {
        let calls = std::mem::take(&mut *self.calls.lock());
        json!({"calls": calls})
    }
}

#[derive(Clone)]
struct Service {
    calls: Calls,
    node: Arc<Node>,
}

impl Service {
    fn record(&self, method: &str, request: Map<String, Json>) {
        self.push(json!({"method": method, "request": request}));
    }

    fn push(&self, call: Json) {
        self.calls.lock().push(call);
    }

    fn refuse_if_told(&self) -> Result<(), Status> {
        let fail = self.node.get("fail").is_some_and(|n| n.kind == NodeKind::Bool(true));
        if fail { Err(Status::unknown("backend says no")) } else { Ok(()) }
    }

    fn int(&self, path: &[&str]) -> i64 {
        match self.at(path).map(|n| n.kind) {
            Some(NodeKind::Int(value)) => value,
            _ => 0,
        }
    }

    fn text(&self, path: &[&str]) -> String {
        self.at(path).and_then(|n| n.as_str().map(str::to_owned)).unwrap_or_default()
    }

    fn duration(&self, path: &[&str]) -> Option<prost_types::Duration> {
        let nanos = SignedDuration::parse(&self.text(path)).ok()?.nanos;
        Some(prost_types::Duration { seconds: nanos / 1_000_000_000, nanos: (nanos % 1_000_000_000) as i32 })
    }

    fn at(&self, path: &[&str]) -> Option<Node> {
        path.iter().try_fold((*self.node).clone(), |node, key| node.get(key).cloned())
    }

    fn record_life(&self, method: &str, config: bool, types: &BTreeMap<String, prost_types::Any>) {
        let urls: Map<String, Json> = types.iter().map(|(k, v)| (k.clone(), json!(v.type_url))).collect();
        self.push(json!({"method": method, "hasAdapterConfig": config, "inferredTypeUrls": urls}));
    }
}

#[tonic::async_trait]
impl check_server::HandleCheckNothingService for Service {
    async fn handle_check_nothing(
        &self,
        request: Request<checknothing::HandleCheckNothingRequest>,
    ) -> Result<Response<model::CheckResult>, Status> {
        let request = request.into_inner();
        let mut shown = common(request.adapter_config, request.dedup_id);
        if let Some(instance) = request.instance {
            shown.insert("instance".into(), Json::Object(named(instance.name)));
        }
        self.record("HandleCheckNothing", shown);
        self.refuse_if_told()?;
        Ok(Response::new(model::CheckResult {
            status: Some(RpcStatus {
                code: self.int(&["check", "code"]) as i32,
                message: self.text(&["check", "message"]),
                details: vec![],
            }),
            valid_duration: self.duration(&["check", "validDuration"]),
            valid_use_count: self.int(&["check", "validUseCount"]) as i32,
        }))
    }
}

#[tonic::async_trait]
impl report_server::HandleReportNothingService for Service {
    async fn handle_report_nothing(
        &self,
        request: Request<reportnothing::HandleReportNothingRequest>,
    ) -> Result<Response<model::ReportResult>, Status> {
        let request = request.into_inner();
        let mut shown = common(request.adapter_config, request.dedup_id);
        let instances: Vec<Json> = request.instances.into_iter().map(|i| named(i.name).into()).collect();
        shown.insert("instances".into(), instances.into());
        self.record("HandleReportNothing", shown);
        self.refuse_if_told()?;
        Ok(Response::new(model::ReportResult {}))
    }
}

#[tonic::async_trait]
impl metric_server::HandleMetricService for Service {
    async fn handle_metric(
        &self,
        request: Request<metric::HandleMetricRequest>,
    ) -> Result<Response<model::ReportResult>, Status> {
        let request = request.into_inner();
        let mut shown = common(request.adapter_config, request.dedup_id);
        let instance = |i: metric::InstanceMsg| {
            let mut shown = named(i.name);
            shown.extend(i.value.map(|v| ("value".to_owned(), value(v))));
            insert_map(&mut shown, "dimensions", i.dimensions);
            if !i.monitored_resource_type.is_empty() {
                shown.insert("monitored_resource_type".into(), i.monitored_resource_type.into());
            }
            insert_map(&mut shown, "monitored_resource_dimensions", i.monitored_resource_dimensions);
            Json::Object(shown)
        };
        shown.insert("instances".into(), request.instances.into_iter().map(instance).collect());
        self.record("HandleMetric", shown);
        self.refuse_if_told()?;
        Ok(Response::new(model::ReportResult {}))
    }
}

#[tonic::async_trait]
impl quota_server::HandleQuotaService for Service {
    async fn handle_quota(
        &self,
        request: Request<quota::HandleQuotaRequest>,
    ) -> Result<Response<model::QuotaResult>, Status> {
        let request = request.into_inner();
        let mut shown = common(request.adapter_config, request.dedup_id);
        let mut name = String::new();
        if let Some(instance) = request.instance {
            name.clone_from(&instance.name);
            let mut inner = named(instance.name);
            insert_map(&mut inner, "dimensions", instance.dimensions);
            shown.insert("instance".into(), inner.into());
        }
        if let Some(asked) = request.quota_request {
            let one = |(name, p): (String, model::quota_request::QuotaParams)| {
                let mut shown = Map::new();
                if p.amount != 0 {
                    shown.insert("amount".into(), p.amount.to_string().into());
                }
                if p.best_effort {
                    shown.insert("best_effort".into(), true.into());
                }
                (name, Json::Object(shown))
            };
            let quotas: Map<String, Json> = asked.quotas.into_iter().map(one).collect();
            shown.insert("quota_request".into(), json!({"quotas": quotas}));
        }
        self.record("HandleQuota", shown);
        self.refuse_if_told()?;
        let filed = self.text(&["quota", "name"]);
        let result = model::quota_result::Result {
            valid_duration: self.duration(&["quota", "validDuration"]),
            granted_amount: self.int(&["quota", "granted"]),
            status: None,
        };
        let name = if filed.is_empty() { name } else { filed };
        Ok(Response::new(model::QuotaResult { quotas: [(name, result)].into() }))
    }
}

#[tonic::async_trait]
impl infrastructure_server::InfrastructureBackend for Service {
    async fn validate(
        &self,
        request: Request<model::ValidateRequest>,
    ) -> Result<Response<model::ValidateResponse>, Status> {
        let request = request.into_inner();
        self.record_life("Validate", request.adapter_config.is_some(), &request.inferred_types);
        let status = RpcStatus {
            code: self.int(&["validateCode"]) as i32,
            message: self.text(&["validateMessage"]),
            details: vec![],
        };
        Ok(Response::new(model::ValidateResponse { status: Some(status) }))
    }

    async fn create_session(
        &self,
        request: Request<model::CreateSessionRequest>,
    ) -> Result<Response<model::CreateSessionResponse>, Status> {
        let request = request.into_inner();
        self.record_life("CreateSession", request.adapter_config.is_some(), &request.inferred_types);
        Ok(Response::new(model::CreateSessionResponse {
            session_id: self.text(&["sessionId"]),
            status: None,
        }))
    }

    async fn close_session(
        &self,
        request: Request<model::CloseSessionRequest>,
    ) -> Result<Response<model::CloseSessionResponse>, Status> {
        let session = request.into_inner().session_id;
        let request =
            Map::from_iter((!session.is_empty()).then(|| ("session_id".to_owned(), session.into())));
        self.record("CloseSession", request);
        Ok(Response::new(model::CloseSessionResponse { status: None }))
    }
}

fn named(name: String) -> Map<String, Json> {
    Map::from_iter([("name".to_owned(), name.into())])
}

/// The common fields of requests.
fn common(config: Option<prost_types::Any>, dedup_id: String) -> Map<String, Json> {
    let mut shown = Map::new();
    shown.extend(config.map(|c| ("adapter_config".to_owned(), any(&c))));
    if !dedup_id.is_empty() {
        shown.insert("dedup_id".into(), dedup_id.into());
    }
    shown
}

fn insert_map(shown: &mut Map<String, Json>, name: &str, values: BTreeMap<String, policy::Value>) {
    if !values.is_empty() {
        let values: Map<String, Json> = values.into_iter().map(|(k, v)| (k, value(v))).collect();
        shown.insert(name.to_owned(), values.into());
    }
}

fn value(value: policy::Value) -> Json {
    use policy::value::Value as Wire;
    match value.value {
        None => json!({}),
        Some(Wire::StringValue(text)) => json!({"string_value": text}),
        Some(Wire::Int64Value(number)) => json!({"int64_value": number.to_string()}),
        Some(Wire::DoubleValue(number)) => json!({"double_value": number}),
        Some(Wire::BoolValue(truth)) => json!({"bool_value": truth}),
        Some(Wire::IpAddressValue(ip)) => json!({"ip_address_value": {"value": base64::encode(&ip.value)}}),
        Some(Wire::TimestampValue(time)) => {
            let time = time.value.unwrap_or_default();
            let seconds =
                mixer_attribute::Timestamp { seconds: time.seconds, nanos: 0 }.rfc3339().to_string();
            let text = format!("{}{}Z", seconds.trim_end_matches('Z'), fraction(time.nanos));
            json!({"timestamp_value": {"value": text}})
        }
        Some(Wire::DurationValue(duration)) => json!({"duration_value": {"value": span(duration.value)}}),
        Some(Wire::EmailAddressValue(v)) => json!({"email_address_value": {"value": v.value}}),
        Some(Wire::DnsNameValue(v)) => json!({"dns_name_value": {"value": v.value}}),
        Some(Wire::UriValue(v)) => json!({"uri_value": {"value": v.value}}),
        Some(Wire::StringMapValue(v)) => json!({"string_map_value": {"value": v.value}}),
    }
}

/// Proto JSON of a duration: `1.500s`.
fn span(duration: Option<prost_types::Duration>) -> String {
    let duration = duration.unwrap_or_default();
    let sign = if duration.seconds < 0 || duration.nanos < 0 { "-" } else { "" };
    format!("{sign}{}{}s", duration.seconds.abs(), fraction(duration.nanos.abs()))
}

/// Empty, or a point and three, six or nine digits.
fn fraction(nanos: i32) -> String {
    match nanos {
        0 => String::new(),
        n if n % 1_000_000 == 0 => format!(".{:03}", n / 1_000_000),
        n if n % 1_000 == 0 => format!(".{:06}", n / 1_000),
        n => format!(".{n:09}"),
    }
}

/// Proto JSON of the messages that cases put into an `Any`.
fn any(any: &prost_types::Any) -> Json {
    let bytes = any.value.as_slice();
    let value = match any.type_url.rsplit('/').next().unwrap_or_default() {
        "google.protobuf.StringValue" => String::decode(bytes).ok().map(Json::from),
        "google.protobuf.BoolValue" => bool::decode(bytes).ok().map(Json::from),
        "google.protobuf.Int32Value" => i32::decode(bytes).ok().map(Json::from),
        "google.protobuf.UInt32Value" => u32::decode(bytes).ok().map(Json::from),
        "google.protobuf.Int64Value" => i64::decode(bytes).ok().map(|v| v.to_string().into()),
        "google.protobuf.UInt64Value" => u64::decode(bytes).ok().map(|v| v.to_string().into()),
        "google.protobuf.DoubleValue" => f64::decode(bytes).ok().map(Json::from),
        "google.protobuf.Duration" => prost_types::Duration::decode(bytes).ok().map(|d| span(Some(d)).into()),
        "google.protobuf.Struct" => prost_types::Struct::decode(bytes).ok().map(structure),
        "google.protobuf.Empty" => Some(json!({})),
        _ => Some(base64::encode(bytes).into()),
    };
    json!({"@type": any.type_url, "value": value})
}

fn structure(value: prost_types::Struct) -> Json {
    value.fields.into_iter().map(|(k, v)| (k, free(v))).collect::<Map<_, _>>().into()
}

fn free(value: prost_types::Value) -> Json {
    use prost_types::value::Kind;
    match value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::NumberValue(number)) => number.into(),
        Some(Kind::StringValue(text)) => text.into(),
        Some(Kind::BoolValue(truth)) => truth.into(),
        Some(Kind::StructValue(inner)) => structure(inner),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(free).collect(),
    }
}

mod base64_text {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    /// Standard base64 with padding.
    pub(super) fn encode(bytes: &[u8]) -> String {
        let mut out = String::new();
        for chunk in bytes.chunks(3) {
            let bits =
                chunk.iter().fold(0_u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
            for i in 0..4 {
                let digit = DIGITS.get((bits >> (18 - 6 * i) & 63) as usize).copied().unwrap_or(b'?');
                out.push(if i <= chunk.len() { char::from(digit) } else { '=' });
            }
        }
        out
    }
}
