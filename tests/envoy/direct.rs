//! The services for Envoy called directly: logs, dry run, limits, load shedding, tracing and deadlines apply as to Mixer's API.

#[path = "direct/bounds.rs"]
mod bounds;
#[path = "direct/charges.rs"]
mod charges;
#[path = "direct/failures.rs"]
mod failures;
#[path = "direct/left.rs"]
mod left;
#[path = "direct/overload.rs"]
mod overload;
#[path = "direct/records.rs"]
mod records;
#[path = "direct/tools.rs"]
mod tools;

use mixer_wire::envoy::data::accesslog::v3::{AccessLogCommon, HttpAccessLogEntry, HttpRequestProperties};
use mixer_wire::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
use mixer_wire::envoy::service::accesslog::v3::{StreamAccessLogsMessage, stream_access_logs_message};
use mixer_wire::envoy::service::auth::v3::{
    AttributeContext, CheckRequest, CheckResponse, attribute_context,
};
use mixer_wire::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost::Message as _;
use serde_json::Value;

use crate::support::rpc::Client;
use crate::support::{Server, ServerBuilder};

pub(crate) const AUTHORIZATION: &str = "/envoy.service.auth.v3.Authorization/Check";
pub(crate) const LIMITS: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// `RateLimitResponse.Code`.
const OVER_LIMIT: i32 = 2;
const LOGS: &str = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";

/// A policy in a directory, and a server on it.
pub(crate) struct Setting {
    directory: tempfile::TempDir,
    pub(crate) server: Server,
}

impl Setting {
    fn start(arguments: &[&str]) -> Self {
        Self::on(include_str!("direct.yaml"), arguments)
    }

    pub(crate) fn on(text: &str, arguments: &[&str]) -> Self {
        Self::of(text, arguments, |server| server)
    }

    /// Of a server that is called by its own name.
    pub(crate) fn native(text: &str) -> Self {
        Self::of(text, &[], ServerBuilder::native)
    }

    /// Of a server that is called as `called` makes it.
    pub(crate) fn of(
        text: &str,
        arguments: &[&str],
        called: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let policy = directory.path().join("policy");
        std::fs::create_dir(&policy).expect("it is writable");
        std::fs::write(policy.join("policy.yaml"), text).expect("it is writable");
        let place = directory.path().display().to_string();
        let arguments: Vec<String> = arguments.iter().map(|a| a.replace("$DIRECTORY", &place)).collect();
        let server = called(Server::on(&policy).with(&arguments)).start();
        Self { directory, server }
    }

    /// Writes a file of the policy.
    pub(crate) fn put(&self, file: &str, text: &str) {
        std::fs::write(self.directory.path().join("policy").join(file), text).expect("it is writable");
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.server.address()).expect("a client")
    }

    pub(crate) fn lines(&self, file: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.directory.path().join(file)).expect("it was written");
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

fn check_request(path: &str, user: &str) -> Vec<u8> {
    let headers = [("x-user", user), ("authorization", "Bearer secret")];
    let http = attribute_context::HttpRequest {
        method: "GET".to_owned(),
        path: path.to_owned(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..Default::default()
    };
    let request =
        attribute_context::Request { time: Some(std::time::SystemTime::now().into()), http: Some(http) };
    let attributes = AttributeContext { request: Some(request), ..Default::default() };
    CheckRequest { attributes: Some(attributes) }.encode_to_vec()
}

/// The code of the answer.
pub(crate) fn check(client: &mut Client, path: &str, user: &str) -> Result<i32, tonic::Status> {
    let answer = client.call(AUTHORIZATION, check_request(path, user), None)?;
    Ok(CheckResponse::decode(answer).expect("a response").status.expect("a status").code)
}

fn limit_request(tenant: &str) -> Vec<u8> {
    let entry = rate_limit_descriptor::Entry { key: "tenant".to_owned(), value: tenant.to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
    let request =
        RateLimitRequest { domain: "shop".to_owned(), descriptors: vec![descriptor], hits_addend: 0 };
    request.encode_to_vec()
}

/// Whether the request is within the limit.
pub(crate) fn limit(client: &mut Client, tenant: &str) -> Result<bool, tonic::Status> {
    let answer = client.call(LIMITS, limit_request(tenant), None)?;
    Ok(RateLimitResponse::decode(answer).expect("a response").overall_code == 1)
}

fn log(client: &mut Client, users: &[&str]) -> Result<(), tonic::Status> {
    let entry = |user: &&str| HttpAccessLogEntry {
        common_properties: Some(AccessLogCommon { access_log_type: 6, ..Default::default() }),
        request: Some(HttpRequestProperties {
            request_headers: [("x-user".to_owned(), (*user).to_owned())].into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let entries =
        stream_access_logs_message::HttpAccessLogEntries { log_entry: users.iter().map(entry).collect() };
    let message = StreamAccessLogsMessage {
        identifier: None,
        log_entries: Some(stream_access_logs_message::LogEntries::HttpLogs(entries)),
    };
    client.call(LOGS, message.encode_to_vec(), None).map(drop)
}

/// The policy where every check, and the descriptors of the domain `other`, take a quota.
fn with_quota(quota: &str) -> String {
    include_str!("direct.yaml").replace(
        "spec:\n  ratelimit:\n    quotas:\n",
        &format!(
            "spec:\n  check: {{quotaSpec: [{{rules: [{{quotas: [{{quota: {quota}}}]}}]}}]}}\n  ratelimit:\n    quotas:\n    \
             - {{domain: shop, entries: {{tenant: fails}}, quota: {quota}}}\n"
        ),
    )
}

/// A rule `broken` whose handler fails every check and quota.
const BROKEN: &str = r#"---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: broken, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: ERROR}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: broken, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {path: 'request.path | ""'}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: broken, namespace: istio-system}
spec:
  actions:
  - {handler: broken, instances: [INSTANCE]}
"#;

/// The policy where checks have these settings.
fn with_check(settings: &str) -> String {
    include_str!("direct.yaml")
        .replace("spec:\n  ratelimit:", &format!("spec:\n  check: {settings}\n  ratelimit:"))
}

fn lines_with(text: &str, part: &str) -> String {
    text.lines().filter(|line| line.contains(part)).collect::<Vec<_>>().join("\n")
}
