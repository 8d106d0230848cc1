//! Outages of backends over HTTP and gRPC: a front before a strict collector refuses, hangs, resets, is slow, talks nonsense or shows a wrong
//! certificate until it is mended.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::{Domain, SockRef, Socket, Type};

use crate::certificates::{Authority, Issued, put};
use crate::otlp::{attributes, items, requests, strict};
use crate::outage_load::{Round, Scene, measure};
use crate::outages::{FAULTS, Fault, assert_accounts, configuration, of, tells};
use crate::senders::{count, handler};
use crate::support::cloud::Cloud;
use crate::support::{Collector, DEADLINE, free_port, wait_for};
use crate::vendors::{SECRET, plain};

/// What is before a collector.
pub(crate) struct Front {
    pub(crate) fault: Fault,
    place: Socket,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_well: AtomicBool,
    has_ended: AtomicBool,
    /// Whether something connected.
    is_known: AtomicBool,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Relaxed);
    }
}

impl Front {
    pub(crate) fn new(fault: Fault) -> Self {
        let place = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        place.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        Self { fault, place, state: Arc::default() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.place.local_addr().unwrap().as_socket().unwrap().port()
    }

    /// Listens. With TLS, shows the first certificate until it is mended, and then the second.
    pub(crate) fn listen(&self, collector: u16, tls: Option<[Issued; 2]>) {
        self.place.listen(64).unwrap();
        let listener: TcpListener = self.place.try_clone().unwrap().into();
        listener.set_nonblocking(true).unwrap();
        let tls = tls.map(|both| both.map(|issued| configuration(&issued)));
        let (fault, state) = (self.fault, Arc::clone(&self.state));
        std::thread::spawn(move || {
            while !state.has_ended.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                };
                state.is_known.store(true, Ordering::Relaxed);
                stream.set_nonblocking(false).unwrap();
                let (state, tls) = (Arc::clone(&state), tls.clone());
                std::thread::spawn(move || serve(fault, &state, stream, collector, tls));
            }
        });
    }

    pub(crate) fn mend(&self, collector: u16) {
        self.state.is_well.store(true, Ordering::Relaxed);
        if self.fault == Fault::Refuses {
            self.listen(collector, None);
        }
    }
}

/// Serves a connection until it ends.
fn serve(
    fault: Fault,
    state: &State,
    mut stream: TcpStream,
    collector: u16,
    tls: Option<[Arc<rustls::ServerConfig>; 2]>,
) {
    let is_well = || state.is_well.load(Ordering::Relaxed);
    let goes_on = || !is_well() && !state.has_ended.load(Ordering::Relaxed);
    stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    match fault {
        Fault::ShowsWrongCertificate => {
            let mut config = (*tls.expect("certificates")[usize::from(is_well())]).clone();
            // Of the two, a client of HTTP takes the first that it knows, and gRPC only knows the second.
            config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
            let connection = rustls::ServerConnection::new(config.into()).unwrap();
            pass(state, &mut rustls::StreamOwned::new(connection, stream), collector, false);
        }
        _ if is_well() => pass(state, &mut stream, collector, false),
        Fault::Hangs => {
            while goes_on() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Fault::Resets => {
            let _ = stream.read(&mut [0; 64]);
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
        Fault::TalksNonsense => {
            let _ = stream.write_all(b"220 mail.example.com ESMTP\r\n\r\n");
            // Until the client leaves.
            while goes_on() && !matches!(stream.read(&mut [0; 4096]), Ok(0)) {}
        }
        Fault::IsSlow | Fault::Refuses => pass(state, &mut stream, collector, true),
    }
}

/// Passes bytes on to the collector and back, until a connection ends; slowly until the front is mended.
fn pass(state: &State, client: &mut (impl Read + Write), collector: u16, is_slow: bool) {
    let Ok(mut behind) = TcpStream::connect(("127.0.0.1", collector)) else { return };
    behind.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let mut buffer = vec![0; 1 << 14];
    let goes_on = |read: std::io::Result<usize>, to: &mut dyn Write, buffer: &[u8]| match read {
        Ok(0) => false,
        Ok(length) => to.write_all(&buffer[..length]).and_then(|()| to.flush()).is_ok(),
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    };
    while !state.has_ended.load(Ordering::Relaxed) {
        let most = if is_slow && !state.is_well.load(Ordering::Relaxed) { 64 } else { buffer.len() };
        let read = client.read(&mut buffer[..most]);
        if !goes_on(read, &mut behind, &buffer) {
            return;
        }
        let read = behind.read(&mut buffer);
        if !goes_on(read, client, &buffer) {
            return;
        }
    }
}

/// Spans with the number of what was reported.
const SPAN: &str = r#"
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: span, namespace: istio-system}
spec:
  compiledTemplate: tracespan
  params:
    traceId: '"463ac35c9f6413ad48485a3953bb6124"'
    spanId: '"a2fb4a1d1a96d312"'
    startTime: timestamp("2019-03-01T10:00:00Z")
    endTime: timestamp("2019-03-01T10:00:01Z")
    spanTags: {number: request.size | 0}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: number, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: request.size | 0}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: call, namespace: istio-system}
spec: {compiledTemplate: servicecontrolreport, params: {apiService: '"books"', apiOperation: '"GET"', apiKey: '"KEY"'}}
"#;

/// How items are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Grpc,
    Http,
    Zipkin,
    AppOptics,
    /// Added up before it is sent, as with the next one.
    Circonus,
    SignalFx,
    CloudWatchMetrics,
    CloudWatchLogs,
    Stackdriver,
    ServiceControl,
}

/// What is behind fronts, and prints what it receives.
enum Backend {
    Collector(Collector),
    Cloud(Cloud),
}

impl Backend {
    /// The requests that it received, or those with an outcome.
    fn requests(&self, outcome: &str) -> Vec<Value> {
        match self {
            Backend::Collector(collector) => requests(collector, outcome),
            Backend::Cloud(cloud) => {
                let mut all = cloud.requests().unwrap_or_else(|error| panic!("{error}"));
                all.retain(|request| outcome.is_empty() || request["outcome"] == outcome);
                all
            }
        }
    }

    /// A file of a cloud.
    fn file(&self, name: &str) -> String {
        match self {
            Backend::Collector(_) => String::new(),
            Backend::Cloud(cloud) => cloud.file(name),
        }
    }
}

impl Sent {
    /// The handler of a front.
    fn handler(self, front: &Front, root: &str, backend: &Backend) -> String {
        let (name, port) = (front.fault.name(), front.port());
        // Of the services that have no front: tokens.
        let account = backend.file("sa.json");
        let is_secure = front.fault == Fault::ShowsWrongCertificate;
        let scheme = if is_secure { "https" } else { "http" };
        // A slow front gets the time it needs.
        let timeout = if front.fault == Fault::IsSlow { "60s" } else { crate::outage_load::timeout() };
        let of_otlp = |protocol: &str| {
            let tls = if is_secure { format!(", tls: {{caFile: '{root}'}}") } else { String::new() };
            let params = format!(
                "endpoint: '{scheme}://localhost:{port}', protocol: {protocol}, timeout: {timeout}, queueKilobytes: 64, \
                 resourceAttributes: {{front: {name}}}{tls}"
            );
            handler(&name, "entry", "otlp", &params)
        };
        match self {
            Sent::Grpc => of_otlp("GRPC"),
            Sent::Http => of_otlp("HTTP_PROTOBUF"),
            Sent::Zipkin => {
                let params = format!(
                    "url: '{scheme}://localhost:{port}/api/v2/spans?front={name}', sampleProbability: 1, queueKilobytes: 64, \
                     caFile: '{root}'"
                );
                handler(&name, "span", "zipkin", &params)
            }
            Sent::AppOptics => {
                let params = format!(
                    "appopticsAccessToken: {SECRET}, appopticsUrl: '{scheme}://localhost:{port}/front-{name}/v1/measurements', \
                     queueKilobytes: 64, caFile: '{root}', metrics: {{number.instance.istio-system: {{}}}}"
                );
                handler(&name, "number", "solarwinds", &params)
            }
            Sent::Circonus => {
                let params = format!(
                    "submissionUrl: '{scheme}://localhost:{port}/front-{name}/module/httptrap/check/{SECRET}', caFile: '{root}', \
                     submissionInterval: 1s, metrics: [{{name: hits.instance.istio-system, type: COUNTER}}]"
                );
                handler(&name, "hits", "circonus", &params)
            }
            Sent::SignalFx => {
                let params = format!(
                    "accessToken: {SECRET}, ingestUrl: '{scheme}://localhost:{port}/front-{name}', caFile: '{root}', \
                     queueKilobytes: 64, datapointInterval: 1s, metrics: [{{name: hits.instance.istio-system, type: COUNTER}}]"
                );
                handler(&name, "hits", "signalfx", &params)
            }
            Sent::CloudWatchMetrics | Sent::CloudWatchLogs => {
                let (instance, what) = match self {
                    Sent::CloudWatchMetrics => {
                        ("number", "metricInfo: {number.instance.istio-system: {unit: Count}}".to_owned())
                    }
                    _ => {
                        let logs = "logs: {entry.instance.istio-system: {payloadTemplate: '{{.number}}'}}";
                        ("entry", format!("logGroupName: {name}, logStreamName: st, {logs}"))
                    }
                };
                let here = format!("'{scheme}://localhost:{port}'");
                let params = format!(
                    "namespace: {name}, region: us-east-1, metricsEndpoint: {here}, logsEndpoint: {here}, caFile: '{root}', \
                     timeout: {timeout}, wait: 20ms, queueKilobytes: 64, {what}"
                );
                handler(&name, instance, "cloudwatch", &params)
            }
            Sent::Stackdriver => {
                let params = format!(
                    "endpoint: '{scheme}://localhost:{port}', projectId: {name}, serviceAccountPath: '{account}', caFile: '{root}', \
                     timeout: {timeout}, queueKilobytes: 64, logInfo: {{entry.instance.istio-system: {{labelNames: [number]}}}}"
                );
                handler(&name, "entry", "stackdriver", &params)
            }
            Sent::ServiceControl => {
                let params = format!(
                    "endpoint: '{scheme}://localhost:{port}', credentialPath: '{account}', caFile: '{root}', timeout: {timeout}, \
                     queueKilobytes: 64, runtimeConfig: {{checkCacheSize: 10, checkResultExpiration: 600s}}, \
                     serviceConfigs: [{{meshServiceName: books, googleServiceName: {name}}}]"
                );
                handler(&name, "call", "servicecontrol", &params)
            }
        }
    }

    /// Whether values are added up in the server.
    fn is_total(self) -> bool {
        matches!(self, Sent::Circonus | Sent::SignalFx)
    }

    /// What tells apart the items of a handler that the backend took.
    fn numbers(self, backend: &Backend, name: &str) -> BTreeSet<String> {
        let all = backend.requests("");
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned();
        let of = |value: &Value, pointer: &str| {
            value.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let each = |belongs: &dyn Fn(&Value) -> bool, pointer: &str, number: &dyn Fn(&Value) -> String| {
            let items =
                all.iter().filter(|request| belongs(request)).flat_map(|request| of(request, pointer));
            items.map(|item| number(&item)).collect()
        };
        match self {
            Sent::Zipkin => {
                each(&|request| request["front"] == name, "/spans", &|span| text(&span["tags"]["number"]))
            }
            Sent::AppOptics => {
                let start = format!("/front-{name}/");
                let belongs = |request: &Value| request["path"].as_str().unwrap().starts_with(&start);
                each(&belongs, "/items", &|item| item["value"].to_string())
            }
            Sent::CloudWatchMetrics => {
                let belongs = |request: &Value| request["form"]["Namespace"] == name;
                each(&belongs, "/form/MetricData", &|datum| text(&datum["Value"]))
            }
            Sent::CloudWatchLogs => {
                let belongs = |request: &Value| request["json"]["logGroupName"] == name;
                each(&belongs, "/json/logEvents", &|event| text(&event["message"]))
            }
            Sent::Stackdriver => {
                let start = format!("projects/{name}/");
                let belongs = |request: &Value| text(&request["request"]["log_name"]).starts_with(&start);
                each(&belongs, "/request/entries", &|entry| text(&entry["labels"]["number"]))
            }
            Sent::ServiceControl => {
                let path = format!("/v1/services/{name}:report");
                let belongs = |request: &Value| text(&request["path"]).starts_with(&path);
                each(&belongs, "/json/operations", &|operation| text(&operation["operationId"]))
            }
            Sent::Grpc | Sent::Http | Sent::Circonus | Sent::SignalFx => {
                let records =
                    items(&all, "logs").into_iter().filter(|(resource, _)| resource["front"] == name);
                records.map(|(_, record)| text(&attributes(&record)["number"])).collect()
            }
        }
    }
}

impl Sent {
    /// The items of all requests over a front.
    fn items_of(all: &[Value], name: &str) -> impl Iterator<Item = Value> {
        let start = format!("/front-{name}/");
        let of_front =
            all.iter().filter(move |request| request["path"].as_str().unwrap().starts_with(&start));
        of_front
            .flat_map(|request| request["items"].as_array().unwrap().clone())
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The sum of what was added up for a front.
    fn total(self, backend: &Backend, name: &str) -> u64 {
        let all = backend.requests("taken");
        let items = Self::items_of(&all, name);
        match self {
            Sent::Circonus => items.map(|item| item["_value"].as_u64().unwrap()).sum(),
            // It is cumulative.
            _ => items
                .map(|item| item["value"]["intValue"].as_str().unwrap().parse().unwrap())
                .max()
                .unwrap_or(0),
        }
    }
}

/// An outage of every kind, each of a handler of its own, and what followed. `port` is that of the backend.
fn outages_end(sent: Sent, backend: &Backend, port: u16) -> Round {
    let files = tempfile::tempdir().unwrap();
    let [trusted, other] = [Authority::new(), Authority::new()];
    let root = put(files.path(), "root.pem", &trusted.certificate);
    let fronts = FAULTS.map(Front::new);
    let mut handlers = SPAN.to_owned();
    for front in &fronts {
        handlers += &sent.handler(front, &root, backend);
        match front.fault {
            Fault::Refuses => {}
            Fault::ShowsWrongCertificate => {
                let both = [&other, &trusted].map(|authority| authority.issue(&["localhost"]));
                front.listen(port, Some(both));
            }
            _ => front.listen(port, None),
        }
    }
    let none = files.path().join("none").display().to_string();
    let environment = [
        ("AWS_ACCESS_KEY_ID", "AKIDLAB"),
        ("AWS_SECRET_ACCESS_KEY", "labsecret"),
        // No service of Google is asked where the server runs.
        ("GCE_METADATA_HOST", "127.0.0.1:1"),
        ("AWS_CONFIG_FILE", &none),
    ];
    let mut scene = Scene::start(&handlers, &environment);
    let outage = scene.turn();
    let (server, entries) = (&scene.server, scene.reported as u64);
    for front in &fronts {
        let name = front.fault.name();
        let shown = wait_for(DEADLINE, || {
            let delivery = of(server, &name);
            assert_accounts(&delivery);
            let fails = delivery["state"] == "failing" || delivery["state"] == "paused";
            let shows = match front.fault {
                Fault::IsSlow => front.state.is_known.load(Ordering::Relaxed),
                _ => fails && tells(server, &name, "the backend takes nothing: "),
            };
            shows.then_some(())
        });
        assert!(shown.is_some(), "{name} shows: {}\n{}", of(server, &name), server.log());
    }
    let mended = Instant::now();
    fronts.iter().for_each(|front| front.mend(port));
    let settled: Vec<Value> = fronts
        .iter()
        .map(|front| {
            let name = front.fault.name();
            let settled = match sent.is_total() {
                true => has_total(&scene, sent, backend, &name),
                false => has_numbers(&scene, sent, backend, &name),
            };
            let is_told = || tells(server, &name, "the backend takes everything again");
            assert!(front.fault == Fault::IsSlow || is_told(), "{}", server.log());
            settled
        })
        .collect();
    assert!(sent.is_total() || settled.iter().all(|of| count(of, "accepted") == entries), "{settled:?}");
    let recovery = mended.elapsed();
    scene.round(outage, recovery, &settled)
}

/// Waits until everything that was added up has arrived.
fn has_total(scene: &Scene, sent: Sent, backend: &Backend, name: &str) -> Value {
    let server = &scene.server;
    let arrived = wait_for(4 * DEADLINE, || {
        let delivery = of(server, name);
        assert_accounts(&delivery);
        (sent.total(backend, name) == scene.reported as u64).then_some(delivery)
    });
    let total = || sent.total(backend, name);
    arrived.unwrap_or_else(|| panic!("{name}: {}: {}\n{}", total(), of(server, name), server.log()))
}

/// Waits until everything is settled; what counts as delivered has arrived.
fn has_numbers(scene: &Scene, sent: Sent, backend: &Backend, name: &str) -> Value {
    let server = &scene.server;
    let settled = wait_for(4 * DEADLINE, || {
        let delivery = of(server, name);
        assert_accounts(&delivery);
        let waits = count(&delivery, "queued") + count(&delivery, "inFlight");
        (waits == 0 && delivery["state"] == "delivering").then_some(delivery)
    });
    let settled = settled.unwrap_or_else(|| panic!("{name}: {}\n{}", of(server, name), server.log()));
    let arrived = sent.numbers(backend, name).len() as u64;
    assert_eq!(
        (count(&settled, "delivered"), count(&settled["dropped"], "failed")),
        (arrived, 0),
        "{settled}"
    );
    assert!(arrived > 0, "{settled}");
    settled
}

#[test]
fn outages_of_a_collector_over_grpc_end_without_a_restart() {
    measure("otlp, gRPC", || {
        let ports = [free_port(), free_port()];
        outages_end(Sent::Grpc, &Backend::Collector(strict(ports, &[])), ports[0])
    });
}

#[test]
fn outages_of_a_collector_over_http_end_without_a_restart() {
    measure("otlp, HTTP", || {
        let ports = [free_port(), free_port()];
        outages_end(Sent::Http, &Backend::Collector(strict(ports, &[])), ports[1])
    });
}

#[test]
fn outages_of_zipkin_end_without_a_restart() {
    measure("zipkin", || {
        let ports = [free_port(), free_port()];
        outages_end(Sent::Zipkin, &Backend::Collector(strict(ports, &[])), ports[1])
    });
}

#[test]
fn outages_of_paid_services_end_without_a_restart() {
    for (sent, name, sender) in [
        (Sent::AppOptics, "appoptics", "solarwinds, metrics"),
        (Sent::Circonus, "circonus", "circonus"),
        (Sent::SignalFx, "signalfx", "signalfx, metrics"),
    ] {
        measure(sender, || {
            let collector = plain(name);
            let port = collector.port;
            outages_end(sent, &Backend::Collector(collector), port)
        });
    }
}

#[test]
fn outages_of_cloudwatch_end_without_a_restart() {
    for (sent, sender) in
        [(Sent::CloudWatchMetrics, "cloudwatch, metrics"), (Sent::CloudWatchLogs, "cloudwatch, logs")]
    {
        measure(sender, || {
            let cloud = Cloud::start("aws", &["AKIDLAB", "labsecret"]).unwrap();
            let port = cloud.port;
            outages_end(sent, &Backend::Cloud(cloud), port)
        });
    }
}

#[test]
fn outages_of_stackdriver_end_without_a_restart() {
    measure("stackdriver, logs", || {
        let port = free_port();
        let cloud = Cloud::start("gcp", &[&format!("plain={port}")]).unwrap();
        outages_end(Sent::Stackdriver, &Backend::Cloud(cloud), port)
    });
}

#[test]
fn outages_of_servicecontrol_end_without_a_restart() {
    measure("servicecontrol, reports", || {
        let cloud = Cloud::start("gcp", &[]).unwrap();
        let port = cloud.port;
        outages_end(Sent::ServiceControl, &Backend::Cloud(cloud), port)
    });
}
