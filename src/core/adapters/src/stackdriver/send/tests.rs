use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;

use axum::body::{Body, to_bytes};
use base64::Engine as _;
use http::{Request, Response};
use mixer_delivery::{Batching, Delivery, DeliveryStatus, Retry, Settings};
use mixer_remote::{GoogleMetadata, GoogleOptions};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::stackdriver::wire::{LogEntry, RpcStatus};

/// The code of a status, and the type and the message of a detail.
type Answer = (i32, Option<(&'static str, Vec<u8>)>);

const OK: Answer = (0, None);
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone, PartialEq, prost::Message)]
struct Details {
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// Google: gives tokens, and answers calls with these, one after the other; then it takes everything.
struct Google {
    port: u16,
    calls: UnboundedReceiver<Vec<u8>>,
    directory: tempfile::TempDir,
}

fn response(answer: Answer) -> Response<Body> {
    let (code, detail) = answer;
    let response = Response::builder().header("content-type", "application/grpc");
    let response = response.header("grpc-status", code.to_string());
    let response = match detail {
        None => response,
        Some((kind, value)) => {
            let type_url = format!("type.googleapis.com/{kind}");
            let details = Details { details: vec![prost_types::Any { type_url, value }] }.encode_to_vec();
            let encoded = base64::engine::general_purpose::STANDARD_NO_PAD.encode(details);
            response.header("grpc-status-details-bin", encoded)
        }
    };
    response.body(Body::empty()).unwrap()
}

impl Google {
    async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, calls) = unbounded_channel();
        let answers: Arc<Mutex<VecDeque<Answer>>> = Arc::new(Mutex::new(answers.into_iter().collect()));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (answers, sender) = (Arc::clone(&answers), sender.clone());
                let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
                    let (answers, sender) = (Arc::clone(&answers), sender.clone());
                    async move {
                        if request.uri().path() == "/token" {
                            let token = r#"{"access_token": "t", "expires_in": 3600}"#;
                            return Ok::<_, Infallible>(Response::new(Body::from(token)));
                        }
                        let body = to_bytes(Body::new(request.into_body()), 1 << 20).await.unwrap();
                        sender.send(body[5..].to_vec()).unwrap();
                        let answer = answers.lock().pop_front();
                        Ok(response(answer.unwrap_or(OK)))
                    }
                });
                tokio::spawn(async move {
                    let builder =
                        hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
                    let _ = builder.serve_connection(hyper_util::rt::TokioIo::new(stream), service).await;
                });
            }
        });
        Self { port, calls, directory: tempfile::tempdir().unwrap() }
    }

    /// A delivery of these items, which are a batch.
    fn deliver<T: Sent>(&self, context: T::Context, items: Vec<T>) -> Delivery<List<T>> {
        let key_file = self.directory.path().join("user.json");
        let text =
            r#"{"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}"#;
        std::fs::write(&key_file, text).unwrap();
        let here = format!("http://127.0.0.1:{}", self.port);
        let token_endpoint = format!("{here}/token");
        let tokens =
            GoogleTokens::new(GoogleOptions { key_file, token_endpoint, ..GoogleOptions::default() });
        let params = Params { endpoint: here, ..Params::default() };
        let method = Method::new(&params, &Arc::new(tokens.unwrap()), ("monitoring", "a.B/C"), None).unwrap();
        let settings = Settings {
            batching: Batching { wait: Duration::from_millis(50), ..Batching::default() },
            retry: Retry {
                first_pause: Duration::from_millis(1),
                longest_pause: Duration::from_millis(2),
                budget: Duration::MAX,
                breaker_failures: 0,
            },
            ..Settings::default()
        };
        let sender = Sender::<T>::new(method, context, Outage::new(&"h".into()));
        let delivery = Delivery::in_task("stackdriver test", "h", settings, sender);
        assert_eq!(delivery.accept_each(items), 0);
        delivery
    }

    /// The next call.
    async fn call<M: prost::Message + Default>(&mut self) -> M {
        let call = tokio::time::timeout(LIMIT, self.calls.recv()).await.expect("a call").unwrap();
        M::decode(&*call).unwrap()
    }
}

/// Waits until nothing waits.
async fn settled<T: Sent>(delivery: &Delivery<List<T>>) -> DeliveryStatus {
    let settled = async {
        while delivery.status().waiting() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LIMIT, settled).await.expect("nothing waits");
    let status = delivery.status();
    assert!(status.adds_up(), "{status:?}");
    status
}

fn series(name: &str) -> TimeSeries {
    let metric = Metric { kind: name.to_owned(), labels: BTreeMap::new() };
    TimeSeries { metric: Some(metric), ..TimeSeries::default() }
}

fn pushed(names: &[&str]) -> Vec<Pushed> {
    names.iter().map(|name| Pushed::new(series(name))).collect()
}

fn names(request: &CreateTimeSeries) -> Vec<&str> {
    request.time_series.iter().map(|series| series.metric.as_ref().unwrap().kind.as_str()).collect()
}

fn error(name: &str, code: GrpcCode) -> (&'static str, Vec<u8>) {
    let status = Some(RpcStatus { code: code as i32, message: String::new() });
    (SERIES_ERROR, SeriesError { series: Some(series(name)), status }.encode_to_vec())
}

#[tokio::test]
async fn a_series_that_google_names_is_sent_again_alone_and_the_others_are_delivered() {
    let detail = error("b", GrpcCode::Internal);
    let mut google = Google::start([(GrpcCode::Internal as i32, Some(detail))]).await;
    let delivery = google.deliver("projects/p".to_owned(), pushed(&["a", "b", "c"]));
    assert_eq!(names(&google.call().await), ["a", "b", "c"]);
    assert_eq!(names(&google.call().await), ["b"]);
    let status = settled(&delivery).await;
    assert_eq!((status.delivered, status.failed), (3, 0));
}

#[tokio::test]
async fn a_series_that_google_refuses_costs_no_others_and_one_that_it_never_takes_is_sent_four_times() {
    let refused = (GrpcCode::InvalidArgument as i32, Some(error("c", GrpcCode::InvalidArgument)));
    let mut google = Google::start([refused]).await;
    let delivery = google.deliver("projects/p".to_owned(), pushed(&["a", "b", "c"]));
    let status = settled(&delivery).await;
    assert_eq!((status.delivered, status.failed), (2, 1));
    assert_eq!(names(&google.call().await), ["a", "b", "c"]);
    assert!(google.calls.try_recv().is_err());
    let never = (GrpcCode::Unavailable as i32, Some(error("b", GrpcCode::Unavailable)));
    let mut google = Google::start(vec![never; 10]).await;
    let delivery = google.deliver("projects/p".to_owned(), pushed(&["a", "b"]));
    let status = settled(&delivery).await;
    assert_eq!((status.delivered, status.failed), (1, 1));
    let mut sends = 0;
    while google.calls.try_recv().is_ok() {
        sends += 1;
    }
    assert_eq!(sends, 4);
}

#[tokio::test]
async fn a_failure_that_says_how_many_points_were_written_counts_them_as_delivered() {
    let summary = SeriesSummary { points: 3, written: 2 }.encode_to_vec();
    let answer = (GrpcCode::InvalidArgument as i32, Some((SERIES_SUMMARY, summary)));
    let google = Google::start([answer]).await;
    let delivery = google.deliver("projects/p".to_owned(), pushed(&["a", "b", "c"]));
    let status = settled(&delivery).await;
    assert_eq!((status.delivered, status.failed), (2, 1));
}

/// Google refuses a request with two points of a series, as after an outage, as a whole.
#[tokio::test]
async fn a_request_has_one_point_of_a_series() {
    let mut google = Google::start([]).await;
    let delivery = google.deliver("projects/p".to_owned(), pushed(&["a", "b", "a", "c"]));
    assert_eq!(names(&google.call().await), ["a", "b"]);
    assert_eq!(names(&google.call().await), ["a", "c"]);
    let status = settled(&delivery).await;
    assert_eq!((status.delivered, status.failed), (4, 0));
}

/// Without a metadata server.
async fn nowhere() -> Arc<Whereabouts> {
    let metadata = GoogleMetadata::new("http://127.0.0.1:1").unwrap();
    Arc::new(Whereabouts::find(metadata, "p").await.unwrap())
}

fn entry(id: &str) -> Logged {
    Logged::of("projects/p/logs/l", LogEntry { insert_id: id.to_owned(), ..LogEntry::default() })
}

#[tokio::test]
async fn an_entry_that_google_refuses_costs_no_others() {
    let status = RpcStatus { code: GrpcCode::InvalidArgument as i32, message: String::new() };
    let errors = LogErrors { errors: BTreeMap::from([(1, status)]) }.encode_to_vec();
    // An error of rights of a whole request would be tried again.
    let answer = (GrpcCode::PermissionDenied as i32, Some((LOG_ERRORS, errors)));
    let mut google = Google::start([answer]).await;
    let delivery = google.deliver(nowhere().await, vec![entry("1"), entry("2"), entry("3")]);
    let status = settled(&delivery).await;
    assert_eq!((status.delivered, status.failed), (2, 1));
    let request: WriteLogEntries = google.call().await;
    assert!(request.partial_success && request.entries.len() == 3, "{request:?}");
    assert_eq!(request.resource.map(|resource| resource.kind).as_deref(), Some("project"));
    assert!(google.calls.try_recv().is_err());
}

#[tokio::test]
async fn an_entry_that_is_sent_again_has_the_id_that_it_had() {
    let mut google = Google::start([(GrpcCode::Unavailable as i32, None)]).await;
    let delivery = google.deliver(nowhere().await, vec![entry("1")]);
    let ids: [WriteLogEntries; 2] = [google.call().await, google.call().await];
    assert_eq!(ids.map(|request| request.entries[0].insert_id.clone()), ["1", "1"]);
    assert_eq!(settled(&delivery).await.delivered, 1);
}
