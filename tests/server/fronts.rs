//! Outages of backends over HTTP and gRPC: a front before a strict collector refuses, hangs, resets, is slow, talks nonsense or shows a wrong
//! certificate until it is mended.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

use crate::certificates::{Authority, Issued, put};
use crate::otlp::{attributes, items, requests, strict};
use crate::outages::{FAULTS, Fault, assert_accounts, configuration, of, tells};
use crate::senders::{count, handler, report, start};
use crate::support::rpc::{Client, mixer};
use crate::support::{DEADLINE, free_port, wait_for};
use crate::tracing::Collector;
use crate::vendors::{SECRET, plain};

/// Reported entries, fifty a call.
const ENTRIES: i64 = 1000;

/// What is before a collector.
struct Front {
    fault: Fault,
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
    fn new(fault: Fault) -> Self {
        let place = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        place.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        Self { fault, place, state: Arc::default() }
    }

    fn port(&self) -> u16 {
        self.place.local_addr().unwrap().as_socket().unwrap().port()
    }

    /// Listens. With TLS, shows the first certificate until it is mended, and then the second.
    fn listen(&self, collector: u16, tls: Option<[Issued; 2]>) {
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

    fn mend(&self, collector: u16) {
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
}

impl Sent {
    /// The handler of a front.
    fn handler(self, front: &Front, root: &str) -> String {
        let (name, port) = (front.fault.name(), front.port());
        let is_secure = front.fault == Fault::ShowsWrongCertificate;
        let scheme = if is_secure { "https" } else { "http" };
        // A slow front gets the time it needs.
        let timeout = if front.fault == Fault::IsSlow { "60s" } else { "500ms" };
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
        }
    }

    /// The numbers of the items of a handler that the collector took.
    fn numbers(self, collector: &Collector, name: &str) -> BTreeSet<String> {
        let all = requests(collector, "");
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned();
        if self == Sent::Zipkin {
            let of_handler = all.iter().filter(|request| request["front"] == name);
            let spans = of_handler.flat_map(|request| request["spans"].as_array().unwrap());
            return spans.map(|span| text(&span["tags"]["number"])).collect();
        }
        if self == Sent::AppOptics {
            let items = Self::items_of(&all, name);
            return items.map(|item| item["value"].to_string()).collect();
        }
        let records = items(&all, "logs").into_iter().filter(|(resource, _)| resource["front"] == name);
        records.map(|(_, record)| text(&attributes(&record)["number"])).collect()
    }
}

impl Sent {
    /// The items of all requests over a front.
    fn items_of(all: &[serde_json::Value], name: &str) -> impl Iterator<Item = serde_json::Value> {
        let start = format!("/front-{name}/");
        let of_front =
            all.iter().filter(move |request| request["path"].as_str().unwrap().starts_with(&start));
        of_front
            .flat_map(|request| request["items"].as_array().unwrap().clone())
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The sum of what was added up for a front.
    fn total(self, collector: &Collector, name: &str) -> u64 {
        let all = requests(collector, "taken");
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

fn outages_end(sent: Sent, collector: &Collector, port: u16) {
    let directory = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let [trusted, other] = [Authority::new(), Authority::new()];
    let root = put(files.path(), "root.pem", &trusted.certificate);
    let fronts = FAULTS.map(Front::new);
    let mut handlers = SPAN.to_owned();
    for front in &fronts {
        handlers += &sent.handler(front, &root);
        match front.fault {
            Fault::Refuses => {}
            Fault::ShowsWrongCertificate => {
                let both = [&other, &trusted].map(|authority| authority.issue(&["localhost"]));
                front.listen(port, Some(both));
            }
            _ => front.listen(port, None),
        }
    }
    let server = start(directory.path(), &handlers);
    let mut client = Client::new(&server.address()).unwrap();
    for first in (0..ENTRIES).step_by(50) {
        report(&server, first..first + 50, "/");
        client.check(&mixer::CheckRequest::default(), None).unwrap();
    }
    for front in &fronts {
        let name = front.fault.name();
        let shown = wait_for(DEADLINE, || {
            let delivery = of(&server, &name);
            assert_accounts(&delivery);
            let fails = delivery["state"] == "failing" || delivery["state"] == "paused";
            let shows = match front.fault {
                Fault::IsSlow => front.state.is_known.load(Ordering::Relaxed),
                _ => fails && tells(&server, &name, "the backend takes nothing: "),
            };
            shows.then_some(())
        });
        assert!(shown.is_some(), "{name} shows: {}\n{}", of(&server, &name), server.log());
    }
    fronts.iter().for_each(|front| front.mend(port));
    for front in &fronts {
        let name = front.fault.name();
        if matches!(sent, Sent::Circonus | Sent::SignalFx) {
            let arrived = wait_for(4 * DEADLINE, || {
                assert_accounts(&of(&server, &name));
                (sent.total(collector, &name) == ENTRIES as u64).then_some(())
            });
            let total = sent.total(collector, &name);
            assert!(arrived.is_some(), "{name}: {total}: {}\n{}", of(&server, &name), server.log());
            assert!(
                front.fault == Fault::IsSlow || tells(&server, &name, "the backend takes everything again")
            );
            continue;
        }
        let settled = wait_for(4 * DEADLINE, || {
            let delivery = of(&server, &name);
            assert_accounts(&delivery);
            let waits = count(&delivery, "queued") + count(&delivery, "inFlight");
            (waits == 0 && delivery["state"] == "delivering").then_some(delivery)
        });
        let settled = settled.unwrap_or_else(|| panic!("{name}: {}\n{}", of(&server, &name), server.log()));
        let arrived = sent.numbers(collector, &name).len() as u64;
        assert_eq!(count(&settled, "accepted"), ENTRIES as u64, "{settled}");
        assert_eq!(
            (count(&settled, "delivered"), count(&settled["dropped"], "failed")),
            (arrived, 0),
            "{settled}"
        );
        assert!(arrived > 0, "{settled}");
        if front.fault != Fault::IsSlow {
            assert!(tells(&server, &name, "the backend takes everything again"), "{}", server.log());
        }
    }
}

#[test]
fn outages_of_a_collector_over_grpc_end_without_a_restart() {
    let ports = [free_port(), free_port()];
    outages_end(Sent::Grpc, &strict(ports, &[]), ports[0]);
}

#[test]
fn outages_of_a_collector_over_http_end_without_a_restart() {
    let ports = [free_port(), free_port()];
    outages_end(Sent::Http, &strict(ports, &[]), ports[1]);
}

#[test]
fn outages_of_zipkin_end_without_a_restart() {
    let ports = [free_port(), free_port()];
    outages_end(Sent::Zipkin, &strict(ports, &[]), ports[1]);
}

#[test]
fn outages_of_paid_services_end_without_a_restart() {
    for (sent, name) in
        [(Sent::AppOptics, "appoptics"), (Sent::Circonus, "circonus"), (Sent::SignalFx, "signalfx")]
    {
        let collector = plain(name);
        outages_end(sent, &collector, collector.port);
    }
}
