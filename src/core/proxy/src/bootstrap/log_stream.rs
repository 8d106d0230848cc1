//! Access logs that are sent to a server: `HttpGrpcAccessLogConfig` and `TcpGrpcAccessLogConfig`.

use std::time::Duration;

use super::grpc_service::{self, GrpcServiceConfig};
use super::reader::{Fields, Message, Value};

static HTTP: Message = Message { name: "HttpGrpcAccessLogConfig", unsupported: &[] };
static TCP: Message = Message { name: "TcpGrpcAccessLogConfig", unsupported: &[] };
static COMMON: Message = Message {
    name: "CommonGrpcAccessLogConfig",
    unsupported: &["filter_state_objects_to_log", "grpc_stream_retry_policy", "custom_tags"],
};

/// Bytes of entries after which they are sent, and the most that can be configured.
const BUFFER: u64 = 16 << 10;
const MAX_BUFFER: u64 = 16 << 20;

/// A server of access logs, and what it is sent.
#[derive(Debug, Clone)]
pub struct LogStreamConfig {
    /// Whether entries are of requests, and not of connections.
    pub is_http: bool,
    /// The name of the log.
    pub name: String,
    /// The server.
    pub service: GrpcServiceConfig,
    /// Time after which an entry is sent.
    pub interval: Duration,
    /// Bytes of entries after which they are sent.
    pub buffer: usize,
    /// Headers of requests, in lower case.
    pub request_headers: Vec<String>,
    /// Headers of responses, in lower case.
    pub response_headers: Vec<String>,
}

/// Reads the configuration of an access log of requests, or of connections.
pub(super) fn read(value: &Value<'_>, is_http: bool) -> Option<LogStreamConfig> {
    let config = value.message(if is_http { &HTTP } else { &TCP })?;
    let headers = |name: &str| -> Vec<String> {
        let names = config.get(name).map(|names| names.texts()).unwrap_or_default();
        names.into_iter().map(str::to_ascii_lowercase).collect()
    };
    let mut read = match config.message("common_config", &COMMON) {
        Some(common) => read_common(common),
        None => {
            let message = if is_http { HTTP.name } else { TCP.name };
            config.required(format!("{message}ValidationError.CommonConfig: value is required"));
            None
        }
    };
    if is_http {
        let (request, response) =
            (headers("additional_request_headers_to_log"), headers("additional_response_headers_to_log"));
        if let Some(read) = &mut read {
            (read.request_headers, read.response_headers) = (request, response);
        }
        let trailers = config.get("additional_response_trailers_to_log");
        if let Some(trailers) = trailers.filter(|trailers| !trailers.items().is_empty()) {
            trailers.unsupported("a trailer in an access log");
        }
    }
    config.finish();
    Some(LogStreamConfig { is_http, ..read? })
}

fn read_common(common: Fields<'_>) -> Option<LogStreamConfig> {
    let message = COMMON.name;
    let name = match common.get("log_name") {
        Some(name) => name.nonempty(message, "LogName").map(str::to_owned),
        None => {
            common.required(format!(
                "{message}ValidationError.LogName: value length must be at least 1 characters"
            ));
            None
        }
    };
    let service = grpc_service::read(&common, message);
    grpc_service::read_version(&common);
    let interval = match common.get("buffer_flush_interval").map(|value| (value.duration(), value)) {
        None => Some(Duration::from_secs(1)),
        Some((Some(Duration::ZERO), value)) => {
            value.invalid(format!(
                "{message}ValidationError.BufferFlushInterval: value must be greater than 0s"
            ));
            None
        }
        Some((interval, _)) => interval,
    };
    let buffer = match common.get("buffer_size_bytes") {
        Some(size) => size.number(MAX_BUFFER),
        None => Some(BUFFER),
    };
    common.finish();
    Some(LogStreamConfig {
        is_http: true,
        name: name?,
        service: service?,
        interval: interval?,
        buffer: usize::try_from(buffer?).ok()?,
        request_headers: Vec::new(),
        response_headers: Vec::new(),
    })
}
