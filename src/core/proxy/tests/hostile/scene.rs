//! A proxy with a host that a test scripts.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

pub(crate) use crate::peers::{connect, read_exact, read_head, serve};
use crate::proxy::{Proxy, free_ports, wait_for};
use mixer_proxy::server::DrainOptions;

/// The proxy and its ports.
pub(crate) struct Scene {
    pub(crate) proxy: Proxy,
    pub(crate) http: u16,
    pub(crate) tcp: u16,
}

/// The bootstrap, with these ports of hosts, and ports of its own: HTTP, TCP, admin.
pub(crate) fn bootstrap(host: u16, echo: u16) -> (String, [u16; 3]) {
    let ports = free_ports();
    let [http, tcp, admin] = ports;
    let mut text = include_str!("bootstrap.yaml").to_owned();
    for (name, port) in [("$HTTP", http), ("$TCP", tcp), ("$ADMIN", admin), ("$HOST", host), ("$ECHO", echo)]
    {
        text = text.replace(name, &port.to_string());
    }
    (text, ports)
}

/// A host that echoes.
pub(crate) fn echo() -> u16 {
    serve(|mut stream, _| {
        let Ok(mut back) = stream.try_clone() else { return };
        // The proxy may be gone.
        let _ = std::io::copy(&mut stream, &mut back);
        let _ = back.shutdown(std::net::Shutdown::Write);
    })
}

impl Scene {
    /// Starts a proxy before a host; TCP goes to an echo.
    pub(crate) fn start(host: u16) -> Self {
        Self::start_before(host, echo())
    }

    /// Starts a proxy before hosts for HTTP and for TCP.
    pub(crate) fn start_before(host: u16, raw: u16) -> Self {
        let (text, [http, tcp, admin]) = bootstrap(host, raw);
        Self { proxy: Proxy::start(&text, admin, 1, DrainOptions::default()), http, tcp }
    }

    /// A connection of a client.
    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.http)
    }

    /// Waits until no request and no connection of a client is left.
    pub(crate) fn wait_for_rest(&self) {
        let gauges = [
            "http.in.downstream_cx_active",
            "http.in.downstream_rq_active",
            "cluster.host.upstream_rq_active",
            "cluster.host.upstream_rq_pending_active",
            "cluster.echo.upstream_rq_active",
            "cluster.echo.upstream_cx_active",
        ];
        for name in gauges {
            wait_for(name, || (self.proxy.stat(name) == 0).then_some(()));
        }
    }
}

/// Reads to the end; `None` after a reset.
pub(crate) fn read_all(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    read.ok().map(|_| String::from_utf8_lossy(&bytes).into_owned())
}

/// Sends a request that closes the connection, and reads to the end.
pub(crate) fn ask(port: u16, path: &str) -> String {
    let mut stream = connect(port);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    read_all(&mut stream).unwrap_or_else(|| "reset".to_owned())
}

/// The status of a response; 0 if there is none.
pub(crate) fn status(response: &str) -> u16 {
    response.get(9..12).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A short pause, for what must not happen.
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}

/// Resets the connection.
pub(crate) fn reset(stream: TcpStream) {
    let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    drop(stream);
}
