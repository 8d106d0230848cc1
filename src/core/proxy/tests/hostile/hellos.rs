//! ClientHellos that another TLS stack would serve, and that name a server: no other filter chain takes them.

use std::io::{Read as _, Write as _};

use mixer_proxy::server::DrainOptions;

use crate::proxy::{Proxy, free_ports, wait_for};
use crate::scene::{connect, read_all, serve};

/// A host that answers the first bytes with its name.
fn host(name: &'static str) -> u16 {
    serve(move |mut stream, _| {
        let mut first = [0; 4096];
        if stream.read(&mut first).is_ok() {
            let _ = stream.write_all(name.as_bytes());
        }
    })
}

/// A ClientHello for `secret.test` with these versions of the record and of the client, and more extensions.
fn hello(record: [u8; 2], version: [u8; 2], more: &[u8]) -> Vec<u8> {
    let name = b"\0\0\0\x10\0\x0e\0\0\x0bsecret.test";
    let extensions = [&name[..], more].concat();
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_be_bytes();
    let parts = [&version[..], &[5; 32], b"\0\0\x02\xc0\x2f\x01\0", &length(&extensions), &extensions];
    let body = parts.concat();
    let message = [b"\x01\0", &length(&body)[..], &body].concat();
    [&[22], &record[..], &length(&message), &message].concat()
}

#[test]
fn a_server_name_is_seen_whatever_else_a_hello_has() {
    let [tcp, admin] = free_ports();
    let mut text = include_str!("hellos.yaml").to_owned();
    let (named, others) = (host("named"), host("others"));
    for (name, port) in [("$TCP", tcp), ("$ADMIN", admin), ("$NAMED", named), ("$OTHERS", others)] {
        text = text.replace(name, &port.to_string());
    }
    let proxy = Proxy::start(&text, admin, 1, DrainOptions::default());
    let ask = |pieces: &[&[u8]]| {
        let mut client = connect(tcp);
        for piece in pieces {
            client.write_all(piece).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // What is closed before everything was read is reset.
        read_all(&mut client).unwrap_or_default()
    };
    let usual = hello([3, 1], [3, 3], b"");
    assert_eq!(ask(&[&usual]), "named", "no signature algorithms");
    assert_eq!(ask(&usual.chunks(9).collect::<Vec<_>>()), "named", "in pieces");
    assert_eq!(ask(&[&hello([3, 1], [3, 2], b"")]), "named", "TLS 1.1");
    assert_eq!(ask(&[&hello([3, 1], [3, 1], b"")]), "named", "TLS 1.0");
    let groups = b"\0\x0a\0\x02\0\0";
    assert_eq!(ask(&[&hello([3, 3], [3, 3], groups)]), "named", "no groups");
    let versions = b"\0\x2b\0\x02\x03\x01";
    assert_eq!(ask(&[&hello([3, 3], [3, 3], versions)]), "named", "odd versions");
    let protocols = b"\0\x10\0\x04\0\x03\x02h";
    assert_eq!(ask(&[&hello([3, 3], [3, 3], protocols)]), "named", "odd protocols");
    assert_eq!(ask(&[&hello([5, 0], [3, 3], b"")]), "named", "a record of no version");
    assert_eq!(ask(&[&hello([3, 0], [3, 0], b"")]), "", "SSL 3.0");
    let second = b"\0\0\0\x06\0\x04\0\0\x01a";
    assert_eq!(ask(&[&hello([3, 1], [3, 3], second)]), "", "two server names");
    let refused = format!("listener.127.0.0.1_{tcp}.downstream_listener_filter_error");
    assert_eq!(proxy.stat(&refused), 2);
    assert_eq!(ask(&[&usual[..60]]), "", "half a ClientHello, and the time is over");
    assert_eq!(ask(&[b"GET / HTTP/1.1\r\n"]), "others");
    assert_eq!(ask(&[b"\x16"]), "others", "which may be anything, and the time is over");
    wait_for("8 ClientHellos", || (proxy.stat("tls_inspector.sni_found") == 8).then_some(()));
    assert_eq!(proxy.stat("tls_inspector.tls_not_found"), 1);
}
