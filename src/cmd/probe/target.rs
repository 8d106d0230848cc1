//! Probe targets.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::cmd::call::MixerConnection;
use crate::cmd::endpoint::{self, Endpoint};
use crate::cmd::exit::innermost_cause;
use mixer_attribute::SignedDuration;
use mixer_base::probe::{self, Inspection};
use mixer_base::secrets::mask_address;

/// Path of the unary health check.
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// Maximum characters of an HTTP response body in an error.
const MAX_BODY_CHARS: usize = 300;

/// A probe target.
#[derive(Debug, Clone)]
pub(super) enum ProbeTarget {
    /// A probe file that must be younger than `interval`. `as_istio`: with the texts of Istio's programs.
    File { path: PathBuf, interval: Duration, as_istio: bool },
    /// A gRPC health service.
    Grpc { address: String, service: String, connection: Box<MixerConnection> },
    /// A URL that must return a 2xx status.
    Http { url: String, client: reqwest::Client },
}

impl ProbeTarget {
    /// For example `file`.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            ProbeTarget::File { .. } => "file",
            ProbeTarget::Grpc { .. } => "grpc",
            ProbeTarget::Http { .. } => "http",
        }
    }

    /// Path, address or URL, without what is secret in an address.
    pub(super) fn name(&self) -> String {
        match self {
            ProbeTarget::File { path, .. } => path.display().to_string(),
            ProbeTarget::Grpc { address, service, .. } if service.is_empty() => {
                mask_address(address).into_owned()
            }
            ProbeTarget::Grpc { address, service, .. } => format!("{} {service}", mask_address(address)),
            ProbeTarget::Http { url, .. } => mask_address(url).into_owned(),
        }
    }

    /// Probes the target.
    pub(super) async fn probe(&self) -> Result<(), Unavailable> {
        match self {
            ProbeTarget::File { path, interval, as_istio } => {
                let inspection = probe::inspect(path, *interval, SystemTime::now());
                let path = path.display().to_string();
                let problem = file_problem(&path, *interval, &inspection, *as_istio);
                problem.map_or(Ok(()), |cause| Err(Unavailable { cause, hint: None }))
            }
            ProbeTarget::Grpc { service, connection, .. } => {
                check_health(MixerConnection::clone(connection), service).await
            }
            ProbeTarget::Http { url, client } => fetch(client, url).await,
        }
    }
}

/// Why a target is unavailable.
#[derive(Debug)]
pub(super) struct Unavailable {
    pub(super) cause: String,
    /// What helps.
    pub(super) hint: Option<String>,
}

async fn check_health(mut connection: MixerConnection, service: &str) -> Result<(), Unavailable> {
    let request = HealthCheckRequest { service: service.to_owned() };
    let answer: HealthCheckResponse = connection.unary(request, HEALTH_CHECK).await.map_err(|e| {
        let cause = format!("{}: {}", tonic::Code::from(e.code).description(), e.why());
        // Of what is found at the address: what helps if nobody answers is for calls.
        Unavailable { cause, hint: e.hint().filter(|_| e.is_garbled).map(str::to_owned) }
    })?;
    match answer.status() {
        ServingStatus::Serving => Ok(()),
        other => {
            Err(Unavailable { cause: format!("the service returned {}", other.as_str_name()), hint: None })
        }
    }
}

async fn fetch(client: &reqwest::Client, url: &str) -> Result<(), Unavailable> {
    let answer = match client.get(url).send().await {
        Ok(answer) => answer,
        Err(error) => {
            let cause = innermost_cause(&error);
            return Err(Unavailable { cause, hint: hint(url, endpoint_of(url).await) });
        }
    };
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let body = answer.text().await.unwrap_or_default();
    let body: String = body.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = body.chars().take(MAX_BODY_CHARS).collect();
    let found = if status == http::StatusCode::NOT_FOUND { endpoint_of(url).await } else { None };
    Err(Unavailable { cause: format!("the server returned {status}: {shown}"), hint: hint(url, found) })
}

/// What answers at the host of a URL.
async fn endpoint_of(url: &str) -> Option<Endpoint> {
    let url = reqwest::Url::parse(url).ok()?;
    endpoint::identify(&format!("{}:{}", url.host_str()?, url.port_or_known_default()?)).await
}

/// What helps if this is found at the host of a URL.
fn hint(url: &str, found: Option<Endpoint>) -> Option<String> {
    let health = "http://HOST:15014/readyz, unless --monitoring-port of the server says otherwise";
    let is_tls = url.starts_with("https:");
    match found? {
        Endpoint::Grpc => {
            Some(format!("gRPC answers there: probe it with --server HOST:PORT; over HTTP, probe {health}"))
        }
        Endpoint::Controlz(_) => Some(format!("ControlZ answers there, which has no health: probe {health}")),
        Endpoint::Metrics => Some("health is at the paths /readyz and /healthz".to_owned()),
        Endpoint::Tls if !is_tls => Some("the server speaks TLS there: write https://".to_owned()),
        Endpoint::Http if is_tls => Some("no TLS is spoken there: write http://".to_owned()),
        Endpoint::Tls | Endpoint::Http => None,
    }
}

/// Why a probe file is unavailable; `None` if it is fresh.
fn file_problem(path: &str, interval: Duration, inspection: &Inspection, as_istio: bool) -> Option<String> {
    match inspection {
        Inspection::Fresh => None,
        Inspection::Unreadable(error) => {
            let verb = if as_istio { "stat" } else { "cannot read" };
            Some(format!("{verb} {path}: {error}"))
        }
        Inspection::Stale(modified) => {
            let limit = interval + probe::TOLERANCE;
            let limit = SignedDuration::from_nanos(i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX));
            let time = local_time(*modified);
            Some(format!("file {path} is too old (last modified time {time}, should be within {limit})"))
        }
    }
}

/// A time in the local time zone, as Go prints it: `2020-01-02 03:04:05 +0000 UTC`.
fn local_time(time: SystemTime) -> String {
    let Ok(timestamp) = jiff::Timestamp::try_from(time) else { return String::from("unknown") };
    let zoned = timestamp.to_zoned(jiff::tz::TimeZone::system());
    zoned.strftime("%Y-%m-%d %H:%M:%S%.f %z %Z").to_string()
}
