//! Every kind of outage at once: backends that refuse, hang, reset, are slow, talk nonsense or show a wrong certificate. No report fails and no
//! check waits, every item is counted, and what waits is delivered once the backend works, without a restart.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use socket2::{Domain, SockRef, Socket, Type};

use crate::certificates::{Authority, Issued, put};
use crate::outage_load::{Round, Scene, measure, timeout};
use crate::senders::{FluentServer, acknowledgement, count, deliveries, handler, report};
use crate::support::{DEADLINE, Server, free_port, wait_for};

/// Bytes of each queue: less than all entries take.
const QUEUE: u64 = 64 << 10;

/// What is wrong with a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Refuses,
    Hangs,
    Resets,
    /// Takes everything, a few bytes at a time.
    IsSlow,
    TalksNonsense,
    ShowsWrongCertificate,
}

pub(crate) const FAULTS: [Fault; 6] = [
    Fault::Refuses,
    Fault::Hangs,
    Fault::Resets,
    Fault::IsSlow,
    Fault::TalksNonsense,
    Fault::ShowsWrongCertificate,
];

impl Fault {
    /// The name of its handler.
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// A server of the forward protocol that has a fault until it is mended.
struct Backend {
    fault: Fault,
    place: Socket,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_well: AtomicBool,
    has_ended: AtomicBool,
    /// Numbers of the entries that it has acknowledged, or begun to.
    numbers: Mutex<BTreeSet<i64>>,
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Relaxed);
    }
}

impl Backend {
    fn new(fault: Fault) -> Self {
        let place = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        place.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        Self { fault, place, state: Arc::default() }
    }

    fn port(&self) -> u16 {
        self.place.local_addr().unwrap().as_socket().unwrap().port()
    }

    /// Listens. With TLS, shows the first certificate until it is mended, and then the second.
    fn listen(&self, tls: Option<[Issued; 2]>) {
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
                stream.set_nonblocking(false).unwrap();
                stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                let (state, tls) = (Arc::clone(&state), tls.clone());
                std::thread::spawn(move || serve(fault, &state, stream, tls));
            }
        });
    }

    fn mend(&self) {
        self.state.is_well.store(true, Ordering::Relaxed);
        if self.fault == Fault::Refuses {
            self.listen(None);
        }
    }

    fn numbers(&self) -> usize {
        self.state.numbers.lock().unwrap().len()
    }
}

pub(crate) fn configuration(issued: &Issued) -> Arc<rustls::ServerConfig> {
    mixer_net::tls::install_crypto_provider();
    let chain = vec![CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    Arc::new(rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap())
}

/// Serves a connection until it ends.
fn serve(fault: Fault, state: &State, mut stream: TcpStream, tls: Option<[Arc<rustls::ServerConfig>; 2]>) {
    let is_well = || state.is_well.load(Ordering::Relaxed);
    let goes_on = || !is_well() && !state.has_ended.load(Ordering::Relaxed);
    match fault {
        Fault::ShowsWrongCertificate => {
            let config = tls.expect("certificates")[usize::from(is_well())].clone();
            let connection = rustls::ServerConnection::new(config).unwrap();
            acknowledge(state, &mut rustls::StreamOwned::new(connection, stream));
        }
        _ if is_well() => acknowledge(state, &mut stream),
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
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
            // Until the client leaves.
            while goes_on() && !matches!(stream.read(&mut [0; 4096]), Ok(0)) {}
        }
        Fault::IsSlow | Fault::Refuses => acknowledge(state, &mut Throttled { stream, is_well: &is_well }),
    }
}

/// A stream that is read slowly until the backend is mended.
struct Throttled<'s, F> {
    stream: TcpStream,
    is_well: &'s F,
}

impl<F: Fn() -> bool> Read for Throttled<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if (self.is_well)() {
            return self.stream.read(buffer);
        }
        // The fault itself.
        std::thread::sleep(Duration::from_millis(1));
        self.stream.read(&mut buffer[..16])
    }
}

impl<F> Write for Throttled<'_, F> {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

/// Acknowledges chunks until the connection ends.
fn acknowledge(state: &State, stream: &mut (impl Read + Write)) {
    let mut pending = Vec::new();
    let mut buffer = [0; 1 << 14];
    while !state.has_ended.load(Ordering::Relaxed) {
        while let Some((numbers, id)) = FluentServer::first_chunk(&mut pending) {
            state.numbers.lock().unwrap().extend(numbers);
            if stream.write_all(&acknowledgement(&id)).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => pending.extend_from_slice(&buffer[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

/// The delivery of a handler.
pub(crate) fn of(server: &Server, name: &str) -> serde_json::Value {
    let all = deliveries(server);
    let detail = format!("{name}.istio-system");
    let found = all.as_array().unwrap().iter().find(|of| of["detail"] == detail.as_str());
    found.cloned().unwrap_or_else(|| panic!("no delivery of {name}: {all}"))
}

/// Every item is counted once, and the queue is within its bound.
pub(crate) fn assert_accounts(delivery: &serde_json::Value) {
    assert_adds_up(delivery);
    assert!(count(delivery, "queuedBytes") <= QUEUE, "{delivery}");
}

/// Every item is counted once.
pub(crate) fn assert_adds_up(delivery: &serde_json::Value) {
    let of = |key: &str| count(delivery, key);
    let dropped: u64 =
        ["full", "failed", "closed"].iter().map(|reason| count(&delivery["dropped"], reason)).sum();
    let known = of("delivered") + dropped + of("queued") + of("inFlight") + of("spilled");
    assert_eq!(of("accepted"), known, "{delivery}");
}

/// Waits until the log has a text about a handler.
pub(crate) fn tells(server: &Server, name: &str, text: &str) -> bool {
    let handler = format!("\"handler\": \"{name}.istio-system\"");
    let is_told = || server.log().lines().any(|line| line.contains(text) && line.contains(&handler));
    wait_for(DEADLINE, || is_told().then_some(())).is_some()
}

#[test]
fn outages_of_backends_hold_up_nothing_and_end_without_a_restart() {
    measure("fluentd, statsd, dogstatsd, solarwinds over UDP", outages);
}

fn outages() -> Round {
    let files = tempfile::tempdir().unwrap();
    let [trusted, other] = [Authority::new(), Authority::new()];
    let root = put(files.path(), "root.pem", &trusted.certificate);
    let backends = FAULTS.map(Backend::new);
    let mut handlers = String::new();
    for backend in &backends {
        // A slow backend gets the time it needs.
        let limit = if backend.fault == Fault::IsSlow { "60s" } else { timeout() };
        let tls = match backend.fault {
            Fault::ShowsWrongCertificate => format!(", tls: {{caFile: '{root}', serverName: localhost}}"),
            _ => String::new(),
        };
        let params = format!(
            "address: '127.0.0.1:{}', pushIntervalDuration: 10ms, pushTimeoutDuration: {limit}, acknowledge: true, \
             instanceBufferSize: 100, queueKilobytes: {}, whenFull: DROP_OLDEST{tls}",
            backend.port(),
            QUEUE >> 10
        );
        handlers += &handler(&backend.fault.name(), "entry", "fluentd", &params);
        match backend.fault {
            Fault::Refuses => {}
            Fault::ShowsWrongCertificate => {
                backend.listen(Some([&other, &trusted].map(|authority| authority.issue(&["localhost"]))));
            }
            _ => backend.listen(None),
        }
    }
    // Nobody listens, nobody reads, and every datagram is answered with nonsense.
    let [unread, nonsense] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let refusing = free_port();
    let ports = [refusing, unread.local_addr().unwrap().port(), nonsense.local_addr().unwrap().port()];
    for (fault, port) in ["refusing", "unread", "nonsense"].iter().zip(ports) {
        let params = |more: &str| {
            format!(
                "address: '127.0.0.1:{port}', queueKilobytes: {}, metrics: {{hits.instance.istio-system: {{type: COUNTER{more}}}}}",
                QUEUE >> 10
            )
        };
        handlers += &handler(&format!("statsd-{fault}"), "hits", "statsd", &params(""));
        handlers += &handler(&format!("dog-{fault}"), "hits", "dogstatsd", &params(", name: hits"));
        let params = format!(
            "papertrailAddress: '127.0.0.1:{port}', queueKilobytes: {}, logs: {{entry.instance.istio-system: {{payloadTemplate: 'x'}}}}",
            QUEUE >> 10
        );
        handlers += &handler(&format!("syslog-{fault}"), "entry", "solarwinds", &params);
    }
    let answering = Arc::new(AtomicBool::new(true));
    let answers = Arc::clone(&answering);
    nonsense.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let talking = std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        while answers.load(Ordering::Relaxed) {
            if let Ok((_, from)) = nonsense.recv_from(&mut buffer) {
                let _ = nonsense.send_to(&[0xff; 1000], from);
            }
        }
    });
    let mut scene = Scene::start(&handlers, &[]);
    let outage = scene.turn();
    let (server, entries) = (&scene.server, scene.reported as u64);
    for backend in &backends {
        let name = backend.fault.name();
        let fails = |of: &serde_json::Value| of["state"] == "failing" || of["state"] == "paused";
        let shown = wait_for(DEADLINE, || {
            let delivery = of(server, &name);
            assert_accounts(&delivery);
            let shows = match backend.fault {
                Fault::IsSlow => backend.numbers() > 0,
                _ => fails(&delivery),
            };
            shows.then_some(())
        });
        assert!(shown.is_some(), "{name} shows: {}\n{}", of(server, &name), server.log());
    }
    for backend in backends.iter().filter(|backend| backend.fault != Fault::IsSlow) {
        let name = backend.fault.name();
        assert!(tells(server, &name, "the backend takes nothing: "), "{name}\n{}", server.log());
    }
    let mended = Instant::now();
    backends.iter().for_each(Backend::mend);
    let receiver = UdpSocket::bind(("127.0.0.1", refusing)).unwrap();
    for backend in &backends {
        let name = backend.fault.name();
        let settled = wait_for(2 * DEADLINE, || {
            let delivery = of(server, &name);
            assert_accounts(&delivery);
            let waits = count(&delivery, "queued") + count(&delivery, "inFlight");
            (waits == 0 && delivery["state"] == "delivering").then_some(delivery)
        });
        let settled = settled.unwrap_or_else(|| panic!("{name}: {}\n{}", of(server, &name), server.log()));
        assert_eq!(count(&settled, "accepted"), entries, "{settled}");
        assert_eq!(count(&settled, "delivered"), backend.numbers() as u64, "{settled}");
        assert!(backend.numbers() > 0 && count(&settled["dropped"], "failed") == 0, "{settled}");
        if backend.fault != Fault::IsSlow {
            assert!(tells(server, &name, "the backend takes everything again"), "{}", server.log());
        }
    }
    let recovery = mended.elapsed();
    let senders = ["statsd", "dog", "syslog"];
    let faults = ["refusing", "unread", "nonsense"];
    let of_datagrams = senders.iter().flat_map(|sender| faults.map(|fault| format!("{sender}-{fault}")));
    for name in &of_datagrams.collect::<Vec<_>>() {
        let settled = wait_for(DEADLINE, || {
            let delivery = of(server, name);
            assert_accounts(&delivery);
            (count(&delivery, "queued") + count(&delivery, "inFlight") == 0).then_some(delivery)
        });
        let settled = settled.unwrap_or_else(|| panic!("{name}: {}", of(server, name)));
        assert_eq!(count(&settled, "accepted"), entries, "{settled}");
    }
    // New metrics and messages arrive at the port that refused.
    report(server, scene.reported..scene.reported + 1, "/");
    receiver.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut awaited = vec!["hits", "istio.hits", "<6>"];
    while !awaited.is_empty() {
        let mut buffer = [0; 2000];
        let length = receiver.recv(&mut buffer).unwrap_or_else(|error| panic!("{awaited:?}: {error}"));
        awaited.retain(|start| !buffer[..length].starts_with(start.as_bytes()));
    }
    let all: Vec<_> = deliveries(server).as_array().unwrap().clone();
    all.iter().for_each(assert_accounts);
    scene.reported += 1;
    let round = scene.round(outage, recovery, &all);
    answering.store(false, Ordering::Relaxed);
    talking.join().unwrap();
    drop(unread);
    round
}
