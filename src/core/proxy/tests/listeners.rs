//! Listeners that change while they serve: no request fails but those to a listener that was removed.

#![cfg(test)]

#[path = "support/proxy.rs"]
mod proxy;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mixer_proxy::server::DrainOptions;
use proxy::{DEADLINE, Proxy, ask_admin, free_ports, wait_for};

/// Changes of the file.
const UPDATES: u64 = 200;

/// A file of listeners, replaced by rename.
struct File {
    path: PathBuf,
    updates: u64,
    admin: u16,
}

impl File {
    /// Publishes listeners, and waits until they are applied.
    fn publish(&mut self, listeners: &[String]) {
        self.updates += 1;
        let text = match listeners {
            [] => "resources: []\n".to_owned(),
            _ => format!("version_info: '{}'\nresources:\n{}", self.updates, listeners.concat()),
        };
        let next = self.path.with_extension("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(&next, &self.path).unwrap();
        let (admin, updates) = (self.admin, self.updates);
        // The first attempt was that of the start, without a file.
        wait_for("the update is applied", || {
            (proxy::stat(admin, "listener_manager.lds.update_success") == updates).then_some(())
        });
    }
}

/// A listener with one filter chain that answers with a text, and one that never serves.
fn listener(name: &str, port: u16, text: &str, backlog: u64) -> String {
    let manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let chain = |fields: &str, text: &str| {
        format!(
            "  - {{{fields}filters: [{{name: h, typed_config: {{'@type': {manager}, stat_prefix: in, http_filters: [{{name: r, typed_config: {{'@type': {router}}}}}], route_config: {{virtual_hosts: [{{name: v, domains: ['*'], routes: [{{match: {{prefix: /}}, direct_response: {{status: 200, body: {{inline_string: '{text}'}}}}}}]}}]}}}}}}]}}\n"
        )
    };
    format!(
        "- '@type': type.googleapis.com/envoy.config.listener.v3.Listener\n  name: {name}\n  address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}\n  tcp_backlog_size: {backlog}\n  filter_chains:\n{}{}",
        chain("", text),
        chain(
            "filter_chain_match: {source_prefix_ranges: [{address_prefix: 192.0.2.0, prefix_len: 24}]}, ",
            "never"
        ),
    )
}

/// What clients saw.
#[derive(Default)]
struct Counts {
    served: AtomicU64,
    connections: AtomicU64,
    failures: parking_lot::Mutex<Vec<String>>,
}

/// Sends requests one after the other until `stop`, on a connection as long as responses do not end it, and at most so many.
fn send(port: u16, most: u64, counts: &Counts, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        if let Err(why) = send_on_one(port, most, counts, stop) {
            counts.failures.lock().push(why.to_string());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn send_on_one(port: u16, most: u64, counts: &Counts, stop: &AtomicBool) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_nodelay(true)?;
    counts.connections.fetch_add(1, Ordering::Relaxed);
    for _ in 0..most {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let length: usize = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
            .ok_or_else(|| std::io::Error::other(head.clone()))?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        if !head.starts_with("HTTP/1.1 200 OK") || !body.starts_with(b"text ") {
            return Err(std::io::Error::other(format!("{head}{}", String::from_utf8_lossy(&body))));
        }
        counts.served.fetch_add(1, Ordering::Relaxed);
        if head.contains("connection: close") {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

#[test]
fn listeners_that_are_stopped_before_the_workers_start_do_not_serve() {
    // A host whose first health check takes long: until it is answered, no worker starts.
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let checked = host.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = host.accept() {
            std::thread::sleep(Duration::from_millis(1500));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let [admin, port] = free_ports();
    let own = listener("a", port, "text a", 100).replace("\n", "\n  ");
    let own = own.replacen(
        "- '@type': type.googleapis.com/envoy.config.listener.v3.Listener\n    name",
        "- name",
        1,
    );
    let text = format!(
        "admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin}}}}}}}\nstatic_resources:\n  listeners:\n  {own}\n  clusters:\n  - {{name: h, connect_timeout: 5s, health_checks: [{{timeout: 60s, interval: 60s, unhealthy_threshold: 1, healthy_threshold: 1, http_health_check: {{path: /}}}}], load_assignment: {{cluster_name: h, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {checked}}}}}}}}}]}}]}}}}\n"
    );
    let draining = std::thread::spawn(move || {
        for _ in 0..1000 {
            if ask_admin(admin, "POST", "/drain_listeners").is_none() {
                std::thread::sleep(Duration::from_millis(10));
            } else if proxy::stat(admin, "listener_manager.listener_stopped") > 0 {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    });
    let proxy = Proxy::start_within(&text, admin, 2, DrainOptions::default(), 1 << 20);
    assert!(draining.join().unwrap(), "they were stopped");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(proxy.stat("listener_manager.listener_create_success"), 0);
}

fn bootstrap(admin: u16, path: &Path) -> String {
    format!(
        "admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin}}}}}}}\ndynamic_resources: {{lds_config: {{path_config_source: {{path: '{}'}}}}}}\n",
        path.display()
    )
}

#[test]
fn no_request_fails_while_listeners_change() {
    let directory = tempfile::tempdir().unwrap();
    let [admin, port, moving, coming] = free_ports();
    let path = directory.path().join("lds.yaml");
    // Long enough for a client that gets a tenth of a core: its connection is closed only after its next request.
    let drain = DrainOptions { time: Duration::from_secs(20), is_gradual: false };
    let proxy = Proxy::start(&bootstrap(admin, &path), admin, 2, drain);
    let mut file = File { path, updates: 0, admin };
    file.publish(&[listener("a", port, "text 0", 100), listener("b", moving, "text b", 100)]);
    let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new(Counts::default()));
    // Two that keep their connections, two that begin a new one for each request; a fifth asks a listener that comes and goes.
    let clients: Vec<_> = [(port, u64::MAX), (port, 1), (moving, 20), (port, 1)]
        .into_iter()
        .map(|(port, most)| {
            let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
            std::thread::spawn(move || send(port, most, &counts, &stop))
        })
        .collect();
    let removed = Arc::new(Counts::default());
    let fifth = {
        let (stop, counts) = (Arc::clone(&stop), Arc::clone(&removed));
        std::thread::spawn(move || send(coming, 3, &counts, &stop))
    };
    let mut served = 0;
    for update in 1..=UPDATES {
        // A filter chain, or more than that, of either listener.
        let text = format!("text {update}");
        let (a, b) = if update % 2 == 0 { (text.as_str(), "text b") } else { ("text a", text.as_str()) };
        let mut listeners =
            vec![listener("a", port, a, 100 + update / 2 % 3), listener("b", moving, b, 100 + update / 4)];
        if update % 4 < 2 {
            listeners.push(listener("c", coming, &text, 100));
        }
        file.publish(&listeners);
        // Each version serves a request at least.
        wait_for("requests go on", || {
            let now = counts.served.load(Ordering::Relaxed);
            (now > served).then(|| served = now)
        });
    }
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    fifth.join().unwrap();
    let failures = counts.failures.lock().clone();
    assert!(failures.is_empty(), "{} of {served} failed: {:?}", failures.len(), failures.first());
    assert!(served > UPDATES && counts.connections.load(Ordering::Relaxed) > UPDATES / 2);
    // What a listener that is not there does not take is refused; it serves in between.
    assert!(removed.served.load(Ordering::Relaxed) > 0 && !removed.failures.lock().is_empty());
    let others: Vec<String> = removed
        .failures
        .lock()
        .iter()
        .filter(|why| !why.contains("refused") && !why.contains("reset"))
        .cloned()
        .collect();
    assert!(others.iter().all(|why| why.contains("fill whole buffer")), "{others:?}");
    wait_for("all have drained", || {
        let left = ["total_listeners_draining", "total_filter_chains_draining"]
            .map(|name| proxy.stat(&format!("listener_manager.{name}")));
        (left == [0, 0]).then_some(())
    });
    let stat = |name: &str| proxy.stat(&format!("listener_manager.{name}"));
    assert_eq!(stat("lds.update_rejected") + stat("listener_create_failure"), 0);
    assert_eq!(stat("listener_added"), 3 + UPDATES / 4, "the third comes again and again");
    assert_eq!(stat("listener_removed"), UPDATES / 4);
    assert!(stat("listener_modified") > UPDATES && stat("listener_in_place_updated") > 20);
    file.publish(&[]);
    wait_for("all are removed", || {
        let (_, body) = ask_admin(admin, "GET", "/stats").unwrap();
        // Statistics of what is gone are forgotten with the last connection.
        (!body.contains("\nlistener.127") && !body.contains("\nhttp.in.")).then_some(())
    });
    assert_eq!(ask_admin(admin, "GET", "/listeners").unwrap().1, "");
}

#[test]
fn a_refused_update_keeps_the_listener_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let [admin, port, other] = free_ports();
    let path = directory.path().join("lds.yaml");
    let text = format!(
        "{}static_resources:\n  listeners:\n{}",
        bootstrap(admin, &path),
        listener("fixed", other, "text fixed", 100)
            .lines()
            .filter(|line| !line.contains("@type': type.googleapis.com/envoy.config"))
            .map(|line| match line.strip_prefix("  name") {
                Some(rest) => format!("  - name{rest}\n"),
                None => format!("  {line}\n"),
            })
            .collect::<String>()
    );
    let proxy = Proxy::start(&text, admin, 1, DrainOptions::default());
    let mut file = File { path, updates: 0, admin };
    file.publish(&[listener("a", port, "text 1", 100)]);
    let rejected = |count: u64| {
        wait_for("the update is refused", || {
            (proxy.stat("listener_manager.lds.update_rejected") == count).then_some(())
        });
        let (_, text) = ask_admin(admin, "GET", "/config_dump?resource=dynamic_listeners").unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["configs"].clone()
    };
    let write = |listeners: &[String]| {
        let next = directory.path().join("next");
        std::fs::write(&next, format!("version_info: 'bad'\nresources:\n{}", listeners.concat())).unwrap();
        std::fs::rename(&next, &file.path).unwrap();
    };
    for (count, (listeners, name, why)) in (1..).zip([
        (vec![listener("a", port, "text 2", 100).replace("tcp_backlog_size", "freebind")], "a", "lds.yaml:6:3: resources[0].freebind: field `freebind` of Listener is not supported by this version"),
        (vec![listener("a", port, "text 2", 100).replace("tcp_backlog_size: 100", "enable_reuse_port: false")], "a", "Listener a: reuse port cannot be changed during an update"),
        (vec![listener("a", port, "text 1", 100), listener("d", port, "text 2", 100)], "d", "has duplicate address"),
        (vec![listener("a", port, "text 1", 100), listener("fixed", other, "text 2", 100)], "fixed", "a listener named 'fixed' is part of the bootstrap, and stays"),
        (vec![listener("a", port, "text 1", 100), listener("a", port, "text 2", 100)], "a", "duplicate listener a found"),
        (vec![listener("a", port, "text 1", 100), listener("e", admin, "text 2", 100)], "e", "Address already in use"),
    ]) {
        write(&listeners);
        let states = rejected(count);
        let state = states.as_array().unwrap().iter().find(|state| state["name"] == name).unwrap();
        let details = state["error_state"]["details"].as_str().unwrap();
        assert!(details.contains(why), "{details}");
        assert_eq!(state["active_state"]["version_info"].as_str(), (name == "a").then_some("1"));
        let stop = AtomicBool::new(false);
        let counts = Counts::default();
        for port in [port, other] {
            send_on_one(port, 1, &counts, &stop).unwrap();
        }
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("text 1"), "{answer}");
    }
    let (_, stats) = ask_admin(admin, "GET", "/stats?filter=version_text").unwrap();
    assert_eq!(stats, "listener_manager.lds.version_text: \"1\"\n");
    // Listeners stop on demand, of the file and of the bootstrap alike; graceful draining comes first.
    assert_eq!(ask_admin(admin, "POST", "/drain_listeners?skip_exit").unwrap().0, 400);
    assert_eq!(ask_admin(admin, "POST", "/drain_listeners?graceful&skip_exit").unwrap().0, 200);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert_eq!(ask_admin(admin, "POST", "/drain_listeners").unwrap().0, 200);
    wait_for("all are stopped", || {
        [port, other].iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_err()).then_some(())
    });
    assert_eq!(proxy.stat("listener_manager.listener_stopped"), 2);
    // Nor does a file bring a listener that serves then, as with Envoy.
    let updates = proxy.stat("listener_manager.lds.update_success");
    let [new] = free_ports();
    write(&[listener("new", new, "text 1", 100), listener("a", port, "text 3", 100)]);
    wait_for("the file is read", || {
        (proxy.stat("listener_manager.lds.update_success") > updates).then_some(())
    });
    for port in [new, port] {
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{port}");
    }
}

/// A listener with external authorization, whose statistics have a prefix.
fn authorized(port: u16, prefix: &str) -> String {
    let manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let authz = "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";
    let service =
        "transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: services}, timeout: 0.2s}";
    format!(
        "- '@type': type.googleapis.com/envoy.config.listener.v3.Listener\n  name: a\n  address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}\n  filter_chains:\n  - filters: [{{name: h, typed_config: {{'@type': {manager}, stat_prefix: in, http_filters: [{{name: z, typed_config: {{'@type': {authz}, stat_prefix: {prefix}, {service}}}}}, {{name: r, typed_config: {{'@type': {router}}}}}], route_config: {{virtual_hosts: [{{name: v, domains: ['*'], routes: [{{match: {{prefix: /}}, route: {{cluster: services}}}}]}}]}}}}}}]\n"
    )
}

#[test]
fn statistics_of_a_filter_are_forgotten_with_its_listener() {
    let directory = tempfile::tempdir().unwrap();
    let [admin, port, dead] = free_ports();
    let path = directory.path().join("lds.yaml");
    let text = format!(
        "{}static_resources: {{clusters: [{{name: services, http2_protocol_options: {{}}, load_assignment: {{cluster_name: services, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {dead}}}}}}}}}]}}]}}}}]}}\n",
        bootstrap(admin, &path)
    );
    let drain = DrainOptions { time: Duration::ZERO, is_gradual: false };
    let _proxy = Proxy::start(&text, admin, 1, drain);
    let mut file = File { path, updates: 0, admin };
    for update in 0..4 {
        file.publish(&[authorized(port, &format!("z{update}"))]);
        // Those of the one before may stay until the next update, if it takes long to end.
        wait_for("those of earlier ones are forgotten", || {
            let (_, stats) = ask_admin(admin, "GET", "/stats").unwrap();
            let prefixes = ["http.in.ext_authz.z", "cluster.services.ext_authz.z"];
            let of =
                |line: &str| prefixes.iter().find_map(|prefix| line.strip_prefix(prefix)?.chars().next());
            let found: Vec<u32> =
                stats.lines().filter_map(of).filter_map(|digit| digit.to_digit(10)).collect();
            (found.contains(&update) && found.iter().all(|found| found + 1 >= update)).then_some(())
        });
    }
}
