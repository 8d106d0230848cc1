//! The monitoring endpoint: `/metrics`, `/version` and optionally `/debug/pprof/`, and what `/healthz` and `/readyz` are answered with.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::any;
use http::{HeaderMap, StatusCode, header};

use crate::pprof;
use mixer_base::degradation::{Degradation, Degradations};
use mixer_base::exposition::Format;
use mixer_base::load::Progress;
use mixer_base::metrics::Metrics;
use mixer_base::probe::Availability;
use mixer_base::time::Timestamp;
use mixer_net::http::{ClientAddress, LargeAnswers, Places, answer, compressible, has_known_host};

/// Content type of `/version`.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Returns the number of the published snapshot.
pub type SnapshotNumber = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Who gets profiles and the command line, below `/debug/pprof/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profiles {
    /// Nobody.
    Off,
    /// Clients on this host.
    Local,
    /// Whoever reaches the port.
    Anyone,
}

/// The refusal of what is for clients on this host.
const NOT_LOCAL: &str = "profiles are for clients on this host; with --monitoring-address whoever reaches that address gets them\n";

/// The refusal of what asks by another name.
const NOT_BY_NAME: &str = "profiles are for clients that ask for localhost or an IP address\n";

/// Refuses clients on other hosts, and those that ask by the name of another site.
async fn local_only(request: Request, next: Next) -> Response {
    if !is_on_this_host(request.extensions()) {
        return answer(StatusCode::FORBIDDEN, PLAIN, NOT_LOCAL);
    }
    if !asks_for_this_host(request.headers()) {
        return answer(StatusCode::MISDIRECTED_REQUEST, PLAIN, NOT_BY_NAME);
    }
    next.run(request).await
}

/// Whether the client of a request is on this host, and asks for it by no name of another site.
pub fn is_local(request: &http::request::Parts) -> bool {
    is_on_this_host(&request.extensions) && asks_for_this_host(&request.headers)
}

fn is_on_this_host(extensions: &http::Extensions) -> bool {
    let client = extensions.get::<ClientAddress>();
    client.is_none_or(|ClientAddress(client)| client.ip().to_canonical().is_loopback())
}

/// A browser on this host may have been given its address by the name of another site. Other clients may send no name.
fn asks_for_this_host(headers: &HeaderMap) -> bool {
    !headers.contains_key(header::HOST) || has_known_host(headers, &[])
}

/// The routes that every server has. `version` is the short form without a newline; `profiles` adds `/debug/pprof/`; `legacy` adds
/// the metrics under their Mixer 1.0 names.
pub fn routes(
    metrics: Arc<Metrics>,
    version: &str,
    profiles: Profiles,
    legacy: Option<SnapshotNumber>,
    answers: Arc<LargeAnswers>,
) -> Router {
    let version: Arc<str> = version.into();
    let writing = Places::new(WRITING);
    let text =
        async move |headers: HeaderMap| metrics_page(metrics, legacy, &answers, &writing, headers).await;
    let routes = Router::new()
        .route("/metrics", any(text))
        .route("/version", any(async move || answer(StatusCode::OK, PLAIN, version.to_string())));
    match profiles {
        Profiles::Off => routes,
        Profiles::Local => routes.merge(local_profiles()),
        Profiles::Anyone => routes.merge(pprof::routes()),
    }
}

/// The routes below `/debug/pprof/`, for clients on this host.
pub fn local_profiles() -> Router {
    pprof::routes().layer(axum::middleware::from_fn(local_only))
}

/// Pages of metrics that are written at the same time. Each has a thread, whose allocator reserves address space.
const WRITING: usize = 2;

/// The metrics, in the format that the scraper prefers. They are written on another thread, because many of them would keep the readiness probe waiting.
async fn metrics_page(
    metrics: Arc<Metrics>,
    legacy: Option<SnapshotNumber>,
    answers: &LargeAnswers,
    writing: &Places,
    request: HeaderMap,
) -> Response {
    let accepted = request.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(accepted);
    let written = writing.run(move || metrics.page(format, legacy.map(|snapshot| snapshot())));
    match written.await {
        Ok(page) if LargeAnswers::is_large(page.len()) => {
            answers.answer_with(&request, answer(StatusCode::OK, format.content_type(), ""), page.into())
        }
        Ok(page) => compressible(&request, format.content_type(), page),
        Err(_) => answer(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, "cannot write the metrics\n"),
    }
}

/// Whether a query has the parameter `verbose`, with any value.
pub fn is_verbose(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.split('&').any(|pair| pair.split('=').next() == Some("verbose")))
}

/// The JSON of an availability: 200 or 503, with the status of every emitter as `shown`, and `more` members.
pub fn health_report(
    probe: &str,
    availability: &Availability,
    shown: impl Fn(&str, String) -> String,
    more: impl Iterator<Item = (&'static str, serde_json::Value)>,
) -> Response {
    let emitters: serde_json::Map<String, serde_json::Value> = availability
        .emitters()
        .into_iter()
        .map(|(name, status)| {
            let status = status.err().map_or_else(|| "available".to_owned(), |why| shown(&name, why));
            (name, status.into())
        })
        .collect();
    let available = availability.status().is_ok();
    let mut body = serde_json::json!({ "probe": probe, "available": available, "emitters": emitters });
    if let Some(members) = body.as_object_mut() {
        members.extend(more.map(|(name, value)| (name.to_owned(), value)));
    }
    let status = if available { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, "application/json; charset=utf-8", format!("{body:#}\n"))
}

/// The loads that take longer than a second: how far they are.
pub fn loads() -> serde_json::Value {
    mixer_base::load::list().iter().map(Progress::to_json).collect()
}

/// The degraded components, by name: `{"why", "since"}`.
pub fn degraded(degradations: &Degradations) -> serde_json::Value {
    let one = |(name, degradation): (&str, Degradation)| {
        let since = Timestamp::from_system_time(degradation.since.time()).rfc3339_micros().to_string();
        (name.to_owned(), serde_json::json!({ "why": degradation.why, "since": since }))
    };
    serde_json::Value::Object(degradations.list().into_iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use mixer_base::budget::Share;
    use mixer_base::metrics::Family;

    fn answers() -> Arc<LargeAnswers> {
        Arc::new(LargeAnswers::new(&Arc::new(Share::new(8 << 20))))
    }

    async fn get(routes: &Router, path: &str) -> (u16, String, String) {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let response = routes.clone().oneshot(request).await.unwrap();
        let kind = response.headers().get("content-type").map(|v| v.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, kind.unwrap_or_default(), String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn paths_answer() {
        let metrics = Arc::new(Metrics::new());
        metrics.gauge(Family::ConfigRules, &[]).set(7_u64);
        let with_profile = routes(Arc::clone(&metrics), "a@b-c-d-e-f", Profiles::Anyone, None, answers())
            .fallback(async || mixer_net::http::not_found());
        let (status, kind, body) = get(&with_profile, "/metrics").await;
        assert_eq!((status, kind.as_str()), (200, "text/plain; version=0.0.4; charset=utf-8"));
        assert!(body.contains("\nmixer_config_rule_configs_total 7\n"), "{body}");
        let plain = "text/plain; charset=utf-8".to_owned();
        assert_eq!(get(&with_profile, "/version").await, (200, plain.clone(), "a@b-c-d-e-f".to_owned()));
        assert_eq!(get(&with_profile, "/debug/pprof/").await.0, 200);
        assert_eq!(get(&with_profile, "/debug/pprof/cmdline").await.0, 200);
        let (status, _, text) = get(&with_profile, "/debug/pprof/mutex").await;
        assert_eq!(status, 501);
        assert!(text.starts_with("there is no profile `mutex`: "), "{text}");
        for path in ["/", "/metrics/", "/healthz", "/debug/pprof/nosuch"] {
            assert_eq!(
                get(&with_profile, path).await,
                (404, plain.clone(), "404 page not found\n".to_owned())
            );
        }
        let without = routes(metrics, "v", Profiles::Off, None, answers());
        assert_eq!(get(&without, "/debug/pprof/").await.0, 404);
    }

    #[tokio::test]
    async fn scrapers_that_ask_get_protobuf() {
        let metrics = Arc::new(Metrics::new());
        metrics.rpc("istio.mixer.v1.Mixer/Check").record(0, Duration::from_millis(1), 10, 10);
        let routes = routes(Arc::clone(&metrics), "v", Profiles::Off, None, answers());
        let asks = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,text/plain;q=0.5";
        let request = Request::builder().uri("/metrics").header("accept", asks).body(Body::empty()).unwrap();
        let response = routes.oneshot(request).await.unwrap();
        assert_eq!(
            response.headers()["content-type"],
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
        );
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let name = b"\x0a\x1dgrpc_io_server_server_latency\x12";
        assert!(body.windows(name.len()).any(|part| part == name), "{body:?}");
        assert!(!body.windows(6).any(|part| part == b"# HELP"), "{body:?}");
    }

    #[tokio::test]
    async fn profiles_are_for_clients_on_this_host() {
        let routes = routes(Arc::new(Metrics::new()), "v", Profiles::Local, None, answers());
        for (client, status) in [("127.0.0.1:5", 200), ("[::ffff:127.0.0.1]:5", 200), ("10.0.0.7:5", 403)] {
            for path in ["/debug/pprof/", "/debug/pprof/cmdline"] {
                let mut request = Request::builder().uri(path).body(Body::empty()).unwrap();
                request.extensions_mut().insert(ClientAddress(client.parse().unwrap()));
                let answered = routes.clone().oneshot(request).await.unwrap().status().as_u16();
                assert_eq!(answered, status, "{path} for {client}");
            }
            // A page of another site may name this host as its own.
            for (host, expected) in
                [("evil.example", 421), ("localhost:15014", status), ("127.0.0.1", status)]
            {
                let request = Request::builder().uri("/debug/pprof/cmdline").header("host", host);
                let mut request = request.body(Body::empty()).unwrap();
                request.extensions_mut().insert(ClientAddress(client.parse().unwrap()));
                let answered = routes.clone().oneshot(request).await.unwrap().status().as_u16();
                assert_eq!(answered, if status == 200 { expected } else { status }, "{host} for {client}");
            }
            let mut request = Request::builder().uri("/metrics").body(Body::empty()).unwrap();
            request.extensions_mut().insert(ClientAddress(client.parse().unwrap()));
            assert_eq!(routes.clone().oneshot(request).await.unwrap().status().as_u16(), 200, "for scrapers");
        }
    }

    #[cfg(feature = "profiling")]
    #[tokio::test]
    async fn a_bad_profile_length_is_refused() {
        let routes = routes(Arc::new(Metrics::new()), "v", Profiles::Anyone, None, answers());
        assert_eq!(get(&routes, "/debug/pprof/profile?seconds=x").await.0, 400);
    }

    #[cfg(not(feature = "profiling"))]
    #[tokio::test]
    async fn a_build_without_profiler_answers_501() {
        let routes = routes(Arc::new(Metrics::new()), "v", Profiles::Anyone, None, answers());
        let text = "this build has no profiler; build it with `cargo build --release --features profiling`\n";
        let expected = (501, "text/plain; charset=utf-8".to_owned(), text.to_owned());
        assert_eq!(get(&routes, "/debug/pprof/profile?seconds=1").await, expected);
        assert_eq!(get(&routes, "/debug/pprof/heap").await, expected);
    }

    #[tokio::test]
    async fn it_serves_until_stopped() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = tokio_util::sync::CancellationToken::new();
        let router = routes(Arc::new(Metrics::new()), "v", Profiles::Off, None, answers());
        let served = mixer_net::http::serve(
            mixer_base::task::Task::restarted("test"),
            listener,
            router,
            mixer_net::http::HttpLimits::for_operators(4),
            stop.clone(),
            Duration::from_secs(5),
        );
        let answer = tokio::task::spawn_blocking(move || {
            use std::io::{Read as _, Write as _};
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        });
        assert!(answer.await.unwrap().ends_with("\r\n\r\nv"));
        stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), served).await.unwrap().unwrap();
    }
}
