//! Sessions: of whom, how many, how they end.

use tokio::task::LocalSet;

use super::*;
use crate::bootstrap::read;
use crate::cluster::{Cluster, Health};
use crate::context::Shared;
use crate::node::NodeIdentity;
use crate::stats::{ClusterStat, Scope, Stats};

/// How long a test waits for a datagram.
const DEADLINE: Duration = Duration::from_secs(60);

/// A UDP proxy on a worker, before a cluster `c`.
struct Scene {
    address: SocketAddr,
    stats: Arc<Block<UdpStat>>,
    udp: Arc<Block<ClusterUdpStat>>,
    cluster: Arc<Cluster>,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

impl Scene {
    /// Starts one, with these fields of the cluster.
    fn start(hosts: &[SocketAddr], fields: &str, idle_timeout: Duration) -> Self {
        let endpoints: Vec<String> = hosts
            .iter()
            .map(|host| {
                let (address, port) = (host.ip(), host.port());
                format!("{{endpoint: {{address: {{socket_address: {{address: '{address}', port_value: {port}}}}}}}}}")
            })
            .collect();
        let text = format!(
            "static_resources:\n  clusters:\n  - {{name: c, {fields}load_assignment: {{cluster_name: c, endpoints: [{{lb_endpoints: [{}]}}]}}}}\n",
            endpoints.join(", ")
        );
        let (bootstrap, _) = read(&text, "b.yaml").unwrap();
        let stats = Stats::default();
        let cluster = Cluster::new(bootstrap.clusters[0].clone(), &stats);
        let shared = Shared {
            clusters: vec![Arc::clone(&cluster)],
            node: NodeIdentity::default(),
            draining: false.into(),
            connections: 0.into(),
            bodies: crate::bodies::Budget::new(0),
        };
        let context = Rc::new(WorkerContext::new(Arc::new(shared)));
        let udp = stats.block(&Scope::Cluster("c".to_owned()));
        let proxy = Arc::new(UdpProxy {
            cluster: Some((0, Arc::clone(&udp))),
            idle_timeout,
            hash: None,
            max_datagram: 1500,
            max_reply: 1500,
            stats: stats.block(&Scope::Udp("p".to_owned())),
            listener_stats: stats.block(&Scope::Listener("l".to_owned())),
        });
        let socket = bound();
        let address = socket.local_addr().unwrap();
        let (counted, stop) = (Arc::clone(&proxy.stats), CancellationToken::new());
        let until = stop.clone();
        let served = tokio::task::spawn_local(async move { proxy.serve(socket, &context, &until).await });
        Self { address, stats: counted, udp, cluster, stop, served }
    }

    fn client(&self) -> UdpSocket {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.address).unwrap();
        socket.set_nonblocking(true).unwrap();
        UdpSocket::from_std(socket).unwrap()
    }

    fn active(&self) -> u64 {
        self.stats.get(UdpStat::DownstreamSessActive)
    }
}

fn bound() -> UdpSocket {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    UdpSocket::from_std(socket).unwrap()
}

/// A host that answers with its name and what it was sent.
fn host(name: &'static str) -> SocketAddr {
    let socket = bound();
    let address = socket.local_addr().unwrap();
    tokio::task::spawn_local(async move {
        let mut bytes = [0; 2000];
        while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
            let answer = [name.as_bytes(), &bytes[..length]].concat();
            socket.send_to(&answer, from).await.unwrap();
        }
    });
    address
}

/// Sends a text and returns the answer.
async fn ask(client: &UdpSocket, text: &str) -> String {
    client.send(text.as_bytes()).await.unwrap();
    let mut bytes = [0; 2000];
    let length = tokio::time::timeout(DEADLINE, client.recv(&mut bytes)).await.unwrap().unwrap();
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

/// Waits for a condition.
async fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed() < DEADLINE, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

#[test]
fn each_client_has_a_session_until_the_listener_stops() {
    run(async {
        let scene = Scene::start(&[host("h:")], "", DEADLINE);
        let clients = [scene.client(), scene.client()];
        for (client, text) in [(0, "a"), (1, "b"), (0, "c"), (1, "")] {
            assert_eq!(ask(&clients[client], text).await, format!("h:{text}"));
        }
        assert_eq!(scene.active(), 2);
        let counted = |stat| scene.stats.get(stat);
        assert_eq!(counted(UdpStat::DownstreamSessTotal), 2);
        assert_eq!(counted(UdpStat::DownstreamSessRxDatagrams), 4);
        assert_eq!(counted(UdpStat::DownstreamSessRxBytes), 3);
        assert_eq!(counted(UdpStat::DownstreamSessTxBytes), 3 + 4 * 2);
        assert_eq!(scene.udp.get(ClusterUdpStat::TxDatagrams), 4);
        scene.stop.cancel();
        scene.served.await.unwrap();
        assert_eq!(scene.stats.get(UdpStat::DownstreamSessActive), 0);
        assert_eq!(scene.stats.get(UdpStat::IdleTimeout), 0);
        assert_eq!(scene.cluster.remaining(crate::cluster::Kind::Connection), 1024);
    });
}

#[test]
fn a_session_ends_when_it_is_idle_and_gives_back_its_place() {
    run(async {
        let thresholds = "circuit_breakers: {thresholds: [{max_connections: 2}]}, ";
        let scene = Scene::start(&[host("h:")], thresholds, Duration::from_millis(1500));
        let clients = [scene.client(), scene.client(), scene.client()];
        for client in &clients[..2] {
            ask(client, "x").await;
        }
        clients[2].send(b"too many").await.unwrap();
        let overflow = || scene.cluster.stats.block.get(ClusterStat::UpstreamCxOverflow);
        wait_for("there is no place", || overflow() == 1).await;
        assert_eq!(scene.active(), 2);
        // The one that goes on stays, beyond the idle time of the others.
        wait_for("the others are idle", || {
            let _ = clients[0].try_send(b"on");
            scene.active() == 1
        })
        .await;
        assert_eq!(scene.stats.get(UdpStat::IdleTimeout), 1);
        assert_eq!(ask(&clients[2], "y").await, "h:y");
        wait_for("all are idle", || scene.active() == 0).await;
        assert_eq!(scene.stats.get(UdpStat::IdleTimeout), 3);
        assert_eq!(scene.stats.get(UdpStat::DownstreamSessTotal), 4, "the one that was refused is counted");
    });
}

#[test]
fn a_session_leaves_an_unhealthy_host_if_there_is_a_better_one() {
    run(async {
        let panic = "common_lb_config: {healthy_panic_threshold: {value: 0}}, ";
        let scene = Scene::start(&[host("a:"), host("b:")], panic, DEADLINE);
        let client = scene.client();
        let first = ask(&client, "1").await;
        let hosts = scene.cluster.hosts();
        let (own, other) = if first == "a:1" { (0, 1) } else { (1, 0) };
        scene.cluster.set_health(&hosts[own], Health::FailedActive, true);
        let second = ask(&client, "2").await;
        assert_ne!(first[..2], second[..2]);
        assert_eq!((scene.active(), scene.stats.get(UdpStat::DownstreamSessTotal)), (1, 2));
        scene.cluster.set_health(&hosts[other], Health::FailedActive, true);
        assert_eq!(ask(&client, "3").await, format!("{}3", &second[..2]), "there is no better one");
        let stranger = scene.client();
        stranger.send(b"x").await.unwrap();
        let none = || scene.cluster.stats.block.get(ClusterStat::UpstreamCxNoneHealthy);
        wait_for("no host for a new session", || none() == 1).await;
        assert_eq!((scene.active(), scene.stats.get(UdpStat::DownstreamSessTotal)), (1, 2));
    });
}

#[test]
fn a_session_whose_host_is_gone_ends() {
    run(async {
        let scene = Scene::start(&[host("a:"), host("b:")], "", DEADLINE);
        let clients = [scene.client(), scene.client()];
        let answers = [ask(&clients[0], "1").await, ask(&clients[1], "1").await];
        assert_ne!(answers[0], answers[1], "hosts have their turn");
        let kept = scene.cluster.hosts()[0].address;
        scene.cluster.replace_hosts(&[(kept, "", 1)]);
        wait_for("one session ends", || scene.active() == 1).await;
        assert_eq!(scene.stats.get(UdpStat::IdleTimeout), 0);
        for client in &clients {
            assert_eq!(ask(client, "2").await, "a:2");
        }
        assert_eq!((scene.active(), scene.stats.get(UdpStat::DownstreamSessTotal)), (2, 3));
    });
}

#[test]
fn a_host_at_whose_port_nothing_listens_is_counted_and_no_end() {
    run(async {
        let closed = bound();
        let address = closed.local_addr().unwrap();
        drop(closed);
        let scene = Scene::start(&[address], "", DEADLINE);
        let client = scene.client();
        for count in 1..=3 {
            client.send(b"x").await.unwrap();
            wait_for("the error is told", || scene.udp.get(ClusterUdpStat::RxErrors) == count).await;
        }
        assert_eq!(scene.udp.get(ClusterUdpStat::TxDatagrams), 3);
        assert_eq!((scene.active(), scene.stats.get(UdpStat::DownstreamSessTotal)), (1, 1));
    });
}
