//! Servers of policies: what their clients cause them to answer, and connections that take longer than a call may.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mixer_proxy::server::DrainOptions;

use crate::client::Client;
use crate::host::Host;
use crate::peers;
use crate::proxy::{Proxy, free_ports, wait_for};

struct Scene {
    proxy: Proxy,
    /// With the Mixer filter, which lets requests pass while no Mixer answers.
    open: u16,
    /// With rate limits, of which a server says that all are exceeded.
    limited: u16,
    /// Connections to that server.
    relayed: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

/// How long the server of rate limits takes for the first message of a handshake: many times the time limit of a call.
const HANDSHAKE: Duration = Duration::from_millis(200);

fn start(host: &Host) -> Scene {
    let [open, limited, tls, admin] = free_ports();
    let relayed = std::sync::Arc::<std::sync::atomic::AtomicUsize>::default();
    let count = std::sync::Arc::clone(&relayed);
    let slow = peers::serve(move |client, _| {
        count.fetch_add(1, Ordering::Relaxed);
        let Ok(server) = TcpStream::connect(("127.0.0.1", tls)) else { return };
        let _ = server.set_nodelay(true);
        let (mut up, mut down) =
            ((client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client));
        std::thread::spawn(move || std::io::copy(&mut down.0, &mut down.1));
        let mut first = vec![0; 16 << 10];
        let Ok(length @ 1..) = up.0.read(&mut first) else { return };
        std::thread::sleep(HANDSHAKE);
        if up.1.write_all(&first[..length]).is_ok() {
            let _ = std::io::copy(&mut up.0, &mut up.1);
        }
    });
    let issued = rcgen::generate_simple_self_signed(vec!["h".to_owned()]).unwrap();
    let quoted = |text: String| serde_json::to_string(&text).unwrap();
    let mut text = include_str!("policy.yaml").to_owned();
    for (name, value) in [
        ("$OPEN", open.to_string()),
        ("$LIMITED", limited.to_string()),
        ("$TLS", tls.to_string()),
        ("$ADMIN", admin.to_string()),
        ("$HOST", host.port.to_string()),
        ("$SLOW", slow.to_string()),
        ("$CHAIN", quoted(issued.cert.pem())),
        ("$KEY", quoted(issued.signing_key.serialize_pem())),
    ] {
        text = text.replace(name, &value);
    }
    Scene { proxy: Proxy::start(&text, admin, 1, DrainOptions::default()), open, limited, relayed }
}

#[test]
fn a_client_cannot_make_its_check_or_that_of_others_fail_open() {
    let mixer = Host::start(100);
    let scene = start(&mixer);
    let client = Client::connect(scene.open);
    assert_eq!(client.get("/denied").status, 403);
    // A stream that Mixer resets, and an answer whose head is too long: more often than ejects a host.
    for path in ["/evil", "/long"] {
        for _ in 0..4 {
            assert_eq!(client.get(path).status, 500, "{path}");
            assert_eq!(client.get("/denied/others").status, 403, "after {path}");
        }
    }
    assert_eq!(scene.proxy.stat("cluster.policy.outlier_detection.ejections_active"), 0);
    assert_eq!(scene.proxy.stat("http_mixer_filter.total_check_fail_opens"), 0);
    assert_eq!(client.get("/fine").status, 200);
}

#[test]
fn a_connection_may_take_longer_than_the_calls_that_want_it() {
    let host = Host::start(100);
    let scene = start(&host);
    let client = Client::connect(scene.limited);
    assert_eq!(client.get("/fine").status, 200, "passes without an answer in time");
    wait_for("a limit holds", || (client.get("/fine").status == 429).then_some(()));
    for _ in 0..10 {
        // Any may be late; it is not the next one that begins again.
        client.get("/fine");
    }
    assert_eq!(scene.relayed.load(Ordering::Relaxed), 1, "calls share one connection");
    assert_eq!(scene.proxy.stat("cluster.slow.upstream_cx_total"), 1);
}
