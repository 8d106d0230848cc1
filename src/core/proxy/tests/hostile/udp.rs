//! Floods of datagrams: from more clients than there may be sessions, and of a host that sends without end, beside a client of TCP.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mixer_proxy::server::DrainOptions;

use crate::proxy::{DEADLINE, Proxy, free_ports, wait_for};
use crate::scene::{connect, echo};

const PROXY: &str = "type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig";
const TCP: &str = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";

/// Sessions that the cluster allows.
const SESSIONS: u64 = 100;
/// How long a flood takes.
const FLOOD: Duration = Duration::from_secs(2);
/// Most datagrams of a flood.
const DATAGRAMS: u64 = 400_000;

/// A proxy with one worker, and its ports of TCP and of UDP.
struct Scene {
    proxy: Proxy,
    tcp: u16,
    udp: u16,
}

impl Scene {
    fn start(host: u16) -> Self {
        let [tcp, udp, admin] = free_ports();
        let endpoint = |port: u16| {
            format!(
                "endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}]}}]"
            )
        };
        let text = format!(
            "admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin}}}}}}}\nstatic_resources:\n  listeners:\n  - name: t\n    address: {{socket_address: {{address: 127.0.0.1, port_value: {tcp}}}}}\n    filter_chains: [{{filters: [{{name: t, typed_config: {{'@type': {TCP}, stat_prefix: t, cluster: echo}}}}]}}]\n  - name: u\n    address: {{socket_address: {{protocol: UDP, address: 0.0.0.0, port_value: {udp}}}}}\n    listener_filters: [{{name: u, typed_config: {{'@type': {PROXY}, stat_prefix: u, cluster: host, idle_timeout: 3s}}}}]\n  clusters:\n  - {{name: echo, load_assignment: {{cluster_name: echo, {}}}}}\n  - {{name: host, circuit_breakers: {{thresholds: [{{max_connections: {SESSIONS}}}]}}, load_assignment: {{cluster_name: host, {}}}}}\n",
            endpoint(echo()),
            endpoint(host)
        );
        Self { proxy: Proxy::start(&text, admin, 1, DrainOptions::default()), tcp, udp }
    }

    fn stat(&self, name: &str) -> u64 {
        self.proxy.stat(name)
    }

    /// Round trips of a client of TCP, on a connection for ten of them, until `stop`: how many, and the longest.
    fn good_client(&self, stop: &AtomicBool) -> (u64, Duration) {
        let (mut count, mut longest) = (0, Duration::ZERO);
        while !stop.load(Ordering::Relaxed) {
            let mut stream = connect(self.tcp);
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            for _ in 0..10 {
                let begun = Instant::now();
                stream.write_all(b"hello").unwrap();
                let mut bytes = [0; 5];
                stream.read_exact(&mut bytes).unwrap();
                assert_eq!(&bytes, b"hello");
                longest = longest.max(begun.elapsed());
                count += 1;
            }
        }
        (count, longest)
    }

    /// The good client beside a flood.
    fn beside(&self, flood: impl FnOnce() + Send) -> (u64, Duration) {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let good = scope.spawn(|| self.good_client(&stop));
            flood();
            stop.store(true, Ordering::Relaxed);
            good.join().unwrap()
        })
    }
}

/// A host that answers.
fn host() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        loop {
            if let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..length], from);
            }
        }
    });
    port
}

#[test]
fn a_flood_from_many_clients_takes_the_sessions_there_are_and_no_more() {
    let scene = Scene::start(host());
    let to = SocketAddr::from(([127, 0, 0, 1], scene.udp));
    let sent = AtomicU64::new(0);
    let most = AtomicU64::new(0);
    let (trips, longest) = scene.beside(|| {
        // 1 000 clients of 50 addresses, who never read.
        let clients: Vec<UdpSocket> = (0..1000)
            .map(|number| UdpSocket::bind((Ipv4Addr::new(127, 0, 2, number as u8 % 50), 0)).unwrap())
            .collect();
        let begun = Instant::now();
        while begun.elapsed() < FLOOD {
            for client in &clients {
                if sent.load(Ordering::Relaxed) < DATAGRAMS && client.send_to(&[b'x'; 100], to).is_ok() {
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            }
            most.fetch_max(scene.stat("udp.u.downstream_sess_active"), Ordering::Relaxed);
        }
    });
    let (sent, most) = (sent.into_inner(), most.into_inner());
    println!(
        "{sent} datagrams, {most} sessions; beside them {trips} round trips, the longest took {longest:?}"
    );
    assert_eq!(most, SESSIONS);
    assert!(scene.stat("cluster.host.upstream_cx_overflow") > 0);
    assert!(trips >= 50, "{trips} round trips");
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    // A client who comes later has a place, once those of the flood are idle.
    wait_for("the sessions end", || (scene.stat("udp.u.downstream_sess_active") == 0).then_some(()));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(to).unwrap();
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    client.send(b"later").unwrap();
    let mut bytes = [0; 16];
    let length = client.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"later");
}

#[test]
fn a_host_that_sends_without_end_does_not_hold_up_others() {
    // It sends to whoever has sent to it, until the test ends.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let scene = Scene::start(socket.local_addr().unwrap().port());
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(("127.0.0.1", scene.udp)).unwrap();
    client.send(b"begin").unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let (_, session) = socket.recv_from(&mut [0; 16]).unwrap();
    let (trips, longest) = scene.beside(|| {
        let begun = Instant::now();
        let mut sent = 0;
        while begun.elapsed() < FLOOD && sent < DATAGRAMS {
            // What the session has no room for is dropped.
            let _ = socket.send_to(&[b'x'; 1400], session);
            sent += 1;
        }
        while begun.elapsed() < FLOOD {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    println!("{trips} round trips, the longest took {longest:?}");
    assert!(trips >= 50, "{trips} round trips");
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    assert!(scene.stat("cluster.host.udp.sess_rx_datagrams") > 0);
    assert_eq!(scene.stat("udp.u.downstream_sess_active"), 1);
}
