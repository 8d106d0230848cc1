//! What can be probed, and how.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::super::call::Connection;
use mixer_attribute::SignedDuration;
use mixer_base::probe::{self, Inspection};

/// Path of the method that answers once.
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// Bytes of an HTTP answer that are looked at.
const MOST_OF_BODY: usize = 300;

/// Something that is available or not.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// A file that must be younger than this.
    File { path: PathBuf, interval: Duration },
    /// A gRPC health service.
    Grpc { address: String, service: String, connection: Box<Connection> },
    /// A URL that must answer with a status of success.
    Http { url: String, client: reqwest::Client },
}

impl Target {
    /// For example `file`.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Target::File { .. } => "file",
            Target::Grpc { .. } => "grpc",
            Target::Http { .. } => "http",
        }
    }

    /// Path, address or URL.
    pub(super) fn name(&self) -> String {
        match self {
            Target::File { path, .. } => path.display().to_string(),
            Target::Grpc { address, service, .. } if service.is_empty() => address.clone(),
            Target::Grpc { address, service, .. } => format!("{address} {service}"),
            Target::Http { url, .. } => url.clone(),
        }
    }

    /// Whether it is available. Errors: why not.
    pub(super) async fn look(&self) -> Result<(), String> {
        match self {
            Target::File { path, interval } => {
                let inspection = probe::inspect(path, *interval, SystemTime::now());
                problem(&path.display().to_string(), *interval, &inspection).map_or(Ok(()), Err)
            }
            Target::Grpc { service, connection, .. } => ask(Connection::clone(connection), service).await,
            Target::Http { url, client } => get(client, url).await,
        }
    }
}

async fn ask(mut connection: Connection, service: &str) -> Result<(), String> {
    let request = HealthCheckRequest { service: service.to_owned() };
    let answer: HealthCheckResponse = connection
        .unary(request, HEALTH_CHECK)
        .await
        .map_err(|e| format!("{}: {}", tonic::Code::from(e.code).description(), e.message))?;
    match answer.status() {
        ServingStatus::Serving => Ok(()),
        other => Err(format!("it answers {}", other.as_str_name())),
    }
}

async fn get(client: &reqwest::Client, url: &str) -> Result<(), String> {
    let answer = client.get(url).send().await.map_err(|e| deepest(&e))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let body = answer.text().await.unwrap_or_default();
    let body: String = body.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = body.chars().take(MOST_OF_BODY).collect();
    Err(format!("it answers {status}: {shown}"))
}

/// The innermost reason, which says most.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut reason = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}

/// Why a look at a file says no, if it does.
fn problem(path: &str, interval: Duration, inspection: &Inspection) -> Option<String> {
    match inspection {
        Inspection::Fresh => None,
        Inspection::Unreadable(error) => Some(format!("stat {path}: {error}")),
        Inspection::Stale(modified) => {
            let limit = interval + probe::TOLERANCE;
            let limit = SignedDuration::from_nanos(i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX));
            let time = local_time(*modified);
            Some(format!("file {path} is too old (last modified time {time}, should be within {limit})"))
        }
    }
}

/// A time in the zone of this process, as Go prints it: `2020-01-02 03:04:05 +0000 UTC`.
fn local_time(time: SystemTime) -> String {
    let Ok(timestamp) = jiff::Timestamp::try_from(time) else { return String::from("unknown") };
    let zoned = timestamp.to_zoned(jiff::tz::TimeZone::system());
    zoned.strftime("%Y-%m-%d %H:%M:%S%.f %z %Z").to_string()
}
