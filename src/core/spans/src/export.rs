//! Exports spans to collectors.

mod jaeger;
mod otlp;
mod thrift;
mod zipkin;

use std::time::Duration;

use super::context::uber_text;
use super::{Span, TracingError, TracingOptions};
use mixer_base::secrets::mask_address;
use mixer_net::tls::{ClientPem, install_crypto_provider};

/// Timeout of a request to a collector.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A collector did not accept spans.
#[derive(Debug, thiserror::Error)]
#[error("{url}: {cause}")]
pub(super) struct ExportError {
    url: String,
    cause: String,
}

/// The format of a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// Zipkin v1 in Thrift.
    ZipkinThrift,
    /// Zipkin v2 in JSON.
    ZipkinJson,
    /// Jaeger batches in Thrift.
    JaegerThrift,
    /// OTLP in protobuf.
    Otlp,
}

impl Encoding {
    fn content_type(self) -> &'static str {
        match self {
            Encoding::ZipkinThrift | Encoding::JaegerThrift => "application/x-thrift",
            Encoding::ZipkinJson => "application/json",
            Encoding::Otlp => "application/x-protobuf",
        }
    }

    fn encode(self, spans: &[Span], service: &str) -> Vec<u8> {
        match self {
            Encoding::ZipkinThrift => zipkin::thrift(spans, service),
            Encoding::ZipkinJson => zipkin::json(spans, service),
            Encoding::JaegerThrift => jaeger::thrift(spans, service),
            Encoding::Otlp => otlp::protobuf(spans, service),
        }
    }
}

/// Exports spans to every configured collector.
pub(super) struct Exporter {
    service: &'static str,
    log: bool,
    client: reqwest::Client,
    collectors: Vec<(String, Encoding)>,
}

impl Exporter {
    pub(super) fn new(options: &TracingOptions, service: &'static str) -> Result<Self, TracingError> {
        install_crypto_provider();
        let mut builder = reqwest::Client::builder().timeout(TIMEOUT);
        // Without roots of the system, HTTPS fails as it does by default.
        if let Ok(config) = ClientPem::default().config(&[b"h2", b"http/1.1"]) {
            builder = builder.tls_backend_preconfigured(config);
        }
        let client =
            builder.build().map_err(|error| TracingError(format!("cannot call collectors: {error}")))?;
        let zipkin = if options.zipkin_url.contains("/api/v2/") {
            Encoding::ZipkinJson
        } else {
            Encoding::ZipkinThrift
        };
        let collectors = [
            (&options.zipkin_url, zipkin),
            (&options.jaeger_url, Encoding::JaegerThrift),
            (&options.otlp_url, Encoding::Otlp),
        ]
        .into_iter()
        .filter(|(url, _)| !url.is_empty())
        .map(|(url, encoding)| (url.clone(), encoding))
        .collect();
        Ok(Self { service, log: options.log_spans, client, collectors })
    }

    /// Exports a batch to every collector. Errors: the first collector that did not accept it.
    pub(super) async fn export(&self, spans: &[Span]) -> Result<(), ExportError> {
        if self.log {
            for span in spans {
                tracing::info!(operation = span.name, span = uber_text(&span.context), "Reporting span");
            }
        }
        let mut outcome = Ok(());
        for (url, encoding) in &self.collectors {
            let sent = self.post(url, *encoding, encoding.encode(spans, self.service)).await;
            outcome =
                outcome.and(sent.map_err(|cause| ExportError { url: mask_address(url).into_owned(), cause }));
        }
        outcome
    }

    async fn post(&self, url: &str, encoding: Encoding, body: Vec<u8>) -> Result<(), String> {
        let request = self.client.post(url).header("content-type", encoding.content_type()).body(body);
        let response = request.send().await.map_err(|error| innermost(&error))?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(format!("HTTP status {status}")) }
    }
}

/// The innermost cause of an error.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
