//! Connections of tcp_proxy that one side resets.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::authz::{bootstrap_of, compare_stats};
use crate::pair::{Directory, Pair};
use crate::proxy::{DEADLINE, wait_for};

/// Ends a connection with a reset.
fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// How a connection ends, behind what it brings: `None` in order.
fn end_of(stream: &mut TcpStream) -> Option<ErrorKind> {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).err().map(|error| error.kind())
}

/// Starts a host that answers `e` with a byte and an end, and `r` with a byte and a reset, and that tells how all other connections end.
fn host() -> (u16, Receiver<Option<ErrorKind>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (ends, received) = channel();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut first = [0];
            if stream.read_exact(&mut first).is_err() {
                continue;
            }
            match &first {
                b"e" => stream.write_all(b"x").unwrap(),
                b"r" => {
                    stream.write_all(b"x").unwrap();
                    // It has arrived before the reset.
                    std::thread::sleep(Duration::from_millis(200));
                    reset(stream);
                }
                _ => ends.send(end_of(&mut stream)).unwrap(),
            }
        }
    });
    (port, received)
}

#[test]
fn a_reset_is_passed_on_as_by_envoy() {
    const TCP: &str = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
    let (port, ends) = host();
    let listener = format!(
        r#"
  - name: in
    address: {{socket_address: {{address: 127.0.0.1, port_value: $HTTP}}}}
    filter_chains:
    - filters:
      - name: tcp
        typed_config: {{'@type': {TCP}, stat_prefix: t, cluster: cut}}"#
    );
    let pair =
        Pair::start_with(Directory::new(), &bootstrap_of(&listener, &[("cut", port.to_string())]), &[]);
    let connect = |port: u16, first: &[u8]| {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(first).unwrap();
        client
    };
    for (first, expected) in [(b"e", None), (b"r", Some(ErrorKind::ConnectionReset))] {
        let [ours, envoys] = pair.ports("$HTTP").map(|port| {
            let mut client = connect(port, first);
            end_of(&mut client)
        });
        assert_eq!((ours, envoys), (expected, expected), "the host has {}", String::from_utf8_lossy(first));
    }
    for (resets, expected) in [(false, None), (true, Some(ErrorKind::ConnectionReset))] {
        let [ours, envoys] = pair.ports("$HTTP").map(|port| {
            let client = connect(port, b"c");
            // It has arrived before the reset.
            std::thread::sleep(Duration::from_millis(200));
            if resets {
                reset(client);
            } else {
                drop(client);
            }
            ends.recv_timeout(DEADLINE).unwrap()
        });
        assert_eq!((ours, envoys), (expected, expected), "the client resets: {resets}");
    }
    wait_for("all have ended", || {
        let (_, ours, envoys) = pair.stat("cluster.cut.upstream_cx_destroy");
        (ours == 4 && envoys == 4).then_some(())
    });
    compare_stats(
        &pair,
        &[
            "cluster.cut.upstream_cx_destroy",
            "cluster.cut.upstream_cx_destroy_local",
            "cluster.cut.upstream_cx_destroy_remote",
            "cluster.cut.upstream_cx_destroy_with_active_rq",
            "cluster.cut.upstream_cx_destroy_local_with_active_rq",
            "cluster.cut.upstream_cx_destroy_remote_with_active_rq",
        ],
        4,
    );
}
