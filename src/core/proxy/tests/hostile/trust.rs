//! Clients that say what is not theirs to say, ask the admin interface through a browser, or leave.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::proxy::{ask_admin, wait_for};
use crate::scene::{Scene, connect, read_all, read_head, serve, status};

/// A host that answers every request with its head.
fn mirror() -> u16 {
    serve(|mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            if write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len()).is_err() {
                return;
            }
        }
    })
}

/// Sends a request with these fields, and reads a head of a response; empty if there is none.
fn ask(scene: &Scene, fields: &str) -> String {
    let mut stream = scene.connect();
    write!(stream, "GET /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n").unwrap();
    read_head(&mut stream).unwrap_or_default()
}

#[test]
fn what_proxies_say_cannot_be_removed_by_naming_it() {
    let scene = Scene::start(mirror());
    let names = [
        "host",
        ":path",
        "x-forwarded-for",
        "X-Forwarded-Proto",
        "x-forwarded-client-cert",
        "forwarded",
        "x-istio-attributes",
        "x-envoy-original-path",
        "x-request-id",
        "authorization",
        "Cookie",
    ];
    for name in names {
        for connection in
            [name.to_owned(), format!("close, {name}"), format!("keep-alive\r\nConnection: x,{name}")]
        {
            let response = ask(&scene, &format!("Connection: {connection}\r\n"));
            assert_eq!(status(&response), 400, "{connection}: {response}");
            let upgrade = format!("Connection: Upgrade, {connection}\r\nUpgrade: websocket\r\n");
            let response = ask(&scene, &upgrade);
            assert_eq!(status(&response), 400, "an upgrade, {connection}: {response}");
        }
    }
    // As with Envoy, which takes fewer than ten.
    let many = |count: usize| (0..count).map(|index| format!("x-{index}")).collect::<Vec<_>>().join(",");
    for (connection, expected) in [(format!("{},,,", many(9)), "200"), (many(10), "400")] {
        let response = ask(&scene, &format!("Connection: {connection}\r\n"));
        assert_eq!(status(&response).to_string(), expected, "{connection}");
    }
    scene.wait_for_rest();
}

#[test]
fn hosts_are_told_of_an_upgrade_and_of_no_other_name() {
    let scene = Scene::start(mirror());
    let text = "GET /a HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nX-B: 2\r\nConnection: x-a, Upgrade, close\r\nUpgrade: websocket\r\n\r\n";
    let mut stream = scene.connect();
    stream.write_all(text.as_bytes()).unwrap();
    let response = read_all(&mut stream).unwrap();
    assert_eq!(status(&response), 200, "{response}");
    assert!(response.contains("\r\nconnection: Upgrade\r\n"), "{response}");
    assert!(response.contains("\r\nx-b: 2\r\n") && !response.contains("x-a: 1"), "{response}");
    assert!(!response.to_ascii_lowercase().contains("connection: x-a"), "{response}");
    scene.wait_for_rest();
}

#[test]
fn who_leaves_does_not_wait_for_a_connection() {
    let is_held = Arc::new(AtomicBool::new(true));
    let held = Arc::clone(&is_held);
    let port = serve(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            if head.contains("/narrow/slow") {
                wait_for("the test goes on", || (!held.load(Ordering::Relaxed)).then_some(()));
            }
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    });
    let scene = Scene::start(port);
    let begin = |path: &str, body: usize| -> TcpStream {
        let mut stream = scene.connect();
        write!(stream, "POST /narrow/{path} HTTP/1.1\r\nHost: h\r\nContent-Length: {body}\r\n\r\n").unwrap();
        stream
    };
    let pending = |count: u64| {
        wait_for("so many wait", || {
            (scene.proxy.stat("cluster.narrow.upstream_rq_pending_active") == count).then_some(())
        });
    };
    let mut slow = begin("slow", 0);
    wait_for("it has the connection", || {
        (scene.proxy.stat("cluster.narrow.upstream_rq_active") == 1).then_some(())
    });
    // Two may wait: with a body that does not come, and with more of it than is read.
    let empty = begin("gone", 0);
    let mut long = begin("gone", 1 << 30);
    long.set_write_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    while long.write_all(&[b'x'; 65536]).is_ok() {}
    pending(2);
    assert_eq!(status(&read_head(&mut begin("refused", 0)).unwrap()), 503, "no place is left");
    drop(empty);
    pending(1);
    crate::scene::reset(long);
    pending(0);
    assert_eq!(scene.proxy.stat("cluster.narrow.upstream_rq_cancelled"), 2);
    assert_eq!(scene.proxy.stat("cluster.narrow.upstream_rq_active"), 1, "the slow one is still there");
    let mut last = begin("last", 0);
    pending(1);
    is_held.store(false, Ordering::Relaxed);
    assert_eq!(status(&read_head(&mut slow).unwrap()), 200);
    assert_eq!(status(&read_head(&mut last).unwrap()), 200);
    assert_eq!(scene.proxy.stat("cluster.narrow.upstream_rq_total"), 2, "who left was not forwarded");
}

/// Asks the admin interface: the status, and the body.
fn admin(port: u16, method: &str, path: &str, fields: &str) -> String {
    let mut stream = connect(port);
    write!(stream, "{method} {path} HTTP/1.1\r\n{fields}Connection: close\r\nContent-Length: 0\r\n\r\n")
        .unwrap();
    read_all(&mut stream).unwrap_or_else(|| "reset".to_owned())
}

#[test]
fn the_admin_interface_is_not_for_pages_of_others() {
    let scene = Scene::start(mirror());
    let port = scene.proxy.admin;
    let pages = ["/", "/config_dump", "/stats", "/clusters", "/server_info", "/nowhere"];
    for host in ["evil.example", "evil.example:9901", "localhost.evil.example", "127.0.0.1.evil.example:80"] {
        for path in pages {
            let answered = admin(port, "GET", path, &format!("Host: {host}\r\n"));
            assert_eq!(status(&answered), 421, "{host} {path}: {answered}");
        }
        let answered = admin(port, "POST", "/quitquitquit", &format!("Host: {host}\r\n"));
        assert_eq!(status(&answered), 421, "{host}: {answered}");
        let answered = admin(port, "GET", "/ready", &format!("Host: {host}\r\n"));
        assert!(answered.ends_with("LIVE\n"), "a probe by any name: {answered}");
    }
    for host in ["localhost", "127.0.0.1", "[::1]:9901", "10.0.0.7:15000"] {
        for path in ["/server_info", "/stats"] {
            let answered = admin(port, "GET", path, &format!("Host: {host}\r\n"));
            assert_eq!(status(&answered), 200, "{host} {path}: {answered}");
        }
    }
    for foreign in [
        "Origin: http://evil.example",
        "Origin: null",
        "Origin: http://localhost:1",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Referer: http://evil.example/a",
    ] {
        for path in
            ["/quitquitquit", "/healthcheck/fail", "/logging?level=trace", "/drain_listeners", "/reopen_logs"]
        {
            let answered = admin(port, "POST", path, &format!("Host: localhost\r\n{foreign}\r\n"));
            assert_eq!(status(&answered), 403, "{foreign} {path}: {answered}");
        }
    }
    let own = format!(
        "Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\nSec-Fetch-Site: same-origin\r\n"
    );
    assert_eq!(status(&admin(port, "POST", "/reopen_logs", &own)), 200, "a page of its own");
    assert_eq!(status(&admin(port, "POST", "/reopen_logs", "Host: localhost\r\n")), 200, "a program");
    assert_eq!(ask_admin(port, "GET", "/ready"), Some((200, "LIVE\n".to_owned())), "nothing has changed");
}
