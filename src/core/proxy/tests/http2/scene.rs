//! A proxy with listeners of all kinds before hosts of HTTP/1.1.

use std::io::Write as _;
use std::net::TcpStream;

use mixer_proxy::server::DrainOptions;

use crate::peers::{read_exact, read_head, serve};
use crate::proxy::{Proxy, free_ports, wait_for};

/// The proxy and its ports.
pub(crate) struct Scene {
    pub(crate) proxy: Proxy,
    /// Either protocol.
    pub(crate) auto: u16,
    /// HTTP/2 only, with 4 streams.
    pub(crate) http2: u16,
    /// HTTP/1.1 only.
    pub(crate) http1: u16,
    /// With the Mixer filter.
    pub(crate) checked: u16,
    pub(crate) admin: u16,
}

impl Scene {
    /// Starts a proxy before a host.
    pub(crate) fn start(host: u16) -> Self {
        Self::start_before(host, host)
    }

    /// Starts a proxy before a host of HTTP/1.1 and one of HTTP/2.
    pub(crate) fn start_before(host: u16, peer: u16) -> Self {
        let [auto, http2, http1, checked, admin] = free_ports();
        let mut text = include_str!("bootstrap.yaml").to_owned();
        let ports = [
            ("$AUTO", auto),
            ("$HTTP2", http2),
            ("$HTTP1", http1),
            ("$CHECKED", checked),
            ("$ADMIN", admin),
            ("$HOST", host),
            ("$PEER", peer),
        ];
        for (name, port) in ports {
            text = text.replace(name, &port.to_string());
        }
        Self {
            proxy: Proxy::start(&text, admin, 1, DrainOptions::default()),
            auto,
            http2,
            http1,
            checked,
            admin,
        }
    }

    /// Waits until no request and no connection of a client is left.
    pub(crate) fn wait_for_rest(&self) {
        let gauges = [
            "http.in.downstream_cx_active",
            "http.in.downstream_cx_http2_active",
            "http.in.downstream_rq_active",
            "http2.streams_active",
            "cluster.host.upstream_rq_active",
            "cluster.host.upstream_rq_pending_active",
            "cluster.peer.upstream_rq_active",
            "cluster.peer.upstream_rq_pending_active",
        ];
        for name in gauges {
            wait_for(name, || (self.proxy.stat(name) == 0).then_some(()));
        }
    }
}

/// Reads the body of a request with this head.
pub(crate) fn read_body(stream: &mut TcpStream, head: &str) -> Vec<u8> {
    if let Some(length) = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()) {
        return read_exact(stream, length);
    }
    let mut body = Vec::new();
    if !head.contains("transfer-encoding: chunked") {
        return body;
    }
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(read_exact(stream, 1));
        }
        let size = usize::from_str_radix(String::from_utf8_lossy(&line).trim(), 16).unwrap();
        body.extend(read_exact(stream, size));
        read_exact(stream, 2);
        if size == 0 {
            return body;
        }
    }
}

/// A host that answers with the head and the body of the request.
pub(crate) fn mirror() -> u16 {
    serve(|mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let body = read_body(&mut stream, &head);
            let length = head.len() + body.len();
            if write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{head}").is_err()
                || stream.write_all(&body).is_err()
            {
                return;
            }
        }
    })
}
