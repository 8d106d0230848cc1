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
        let client = client().map_err(|error| TracingError(format!("cannot call collectors: {error}")))?;
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
    pub(super) async fn export(&mut self, spans: &[Span]) -> Result<(), ExportError> {
        if self.log {
            for span in spans {
                tracing::info!(operation = span.name, span = uber_text(&span.context), "Reporting span");
            }
        }
        let mut outcome = Ok(());
        for (url, encoding) in &self.collectors {
            let body = encoding.encode(spans, self.service);
            let sent = post(&mut self.client, url, *encoding, body).await;
            outcome =
                outcome.and(sent.map_err(|cause| ExportError { url: mask_address(url).into_owned(), cause }));
        }
        outcome
    }
}

/// A client that follows no redirects: another host would get the spans or the URL, which may have a token, and a page in their place would
/// count as a collector that took them.
fn client() -> reqwest::Result<reqwest::Client> {
    install_crypto_provider();
    let mut builder = reqwest::Client::builder()
        .timeout(TIMEOUT)
        .connect_timeout(TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false);
    // Without roots of the system, HTTPS fails as it does by default.
    if let Ok(config) = ClientPem::default().config(&[b"h2", b"http/1.1"]) {
        builder = builder.tls_backend_preconfigured(config);
    }
    builder.build()
}

async fn post(
    connections: &mut reqwest::Client,
    url: &str,
    encoding: Encoding,
    body: Vec<u8>,
) -> Result<(), String> {
    let request = connections.post(url).header("content-type", encoding.content_type()).body(body);
    let again = request.try_clone();
    let sent = match (request.send().await, again) {
        // The connection was kept for too long. Spans have ids: a collector that gets some twice knows them.
        (Err(error), Some(again)) if error.is_request() && !error.is_connect() && !error.is_timeout() => {
            again.send().await
        }
        (sent, _) => sent,
    };
    let response = sent.map_err(|error| {
        // HTTP/2 would use a connection that hangs on.
        if let (true, Ok(new)) = (error.is_timeout(), client()) {
            *connections = new;
        }
        innermost(&error)
    })?;
    match response.status() {
        status if status.is_success() => Ok(()),
        status if status.is_redirection() => {
            Err(format!("HTTP status {status}: redirects are not followed, is it the right URL?"))
        }
        status => Err(format!("HTTP status {status}")),
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

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc::channel;

    use super::*;

    /// A collector that gives each connection the next of its answers. Returns its URL, and what it is sent.
    fn collector(answers: Vec<String>) -> (String, std::sync::mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/traces?token=hunter2", listener.local_addr().unwrap());
        let (sender, received) = channel();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let length = stream.read(&mut request).unwrap();
                let _ = sender.send(String::from_utf8_lossy(&request[..length]).into_owned());
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        (url, received)
    }

    #[tokio::test]
    async fn redirects_are_failures_and_tell_nobody_else_the_url() {
        for status in ["302 Found", "307 Temporary Redirect"] {
            let (other, of_other) =
                collector(vec!["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()]);
            let answer = format!("HTTP/1.1 {status}\r\nlocation: {other}\r\ncontent-length: 0\r\n\r\n");
            let (url, received) = collector(vec![answer]);
            let mut connections = client().unwrap();
            let sent = post(&mut connections, &url, Encoding::Otlp, b"spans".to_vec()).await;
            let why = format!("HTTP status {status}: redirects are not followed, is it the right URL?");
            assert_eq!(sent, Err(why));
            assert!(received.recv().unwrap().starts_with("POST /v1/traces"));
            assert!(of_other.try_recv().is_err());
        }
    }

    #[tokio::test]
    async fn a_connection_that_ends_before_the_answer_is_not_the_end_of_the_spans() {
        let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned();
        let (url, received) = collector(vec![String::new(), ok]);
        let mut connections = client().unwrap();
        assert_eq!(post(&mut connections, &url, Encoding::Otlp, b"spans".to_vec()).await, Ok(()));
        assert_eq!(received.iter().take(2).count(), 2);
    }
}
