//! Where connections come from, beside Envoy: which filter chain takes them, and which headers of the PROXY protocol are valid.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};

use crate::pair::{Directory, Pair};
use crate::proxy::{DEADLINE, wait_for};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const PROXY: &str = "type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol";

/// A filter chain that answers with a name.
fn chain(matching: &str, name: &str) -> String {
    format!(
        r#"
    - filter_chain_match: {{{matching}}}
      filters:
      - name: hcm
        typed_config:
          '@type': {MANAGER}
          stat_prefix: {name}
          http_filters: [{{name: router, typed_config: {{'@type': {ROUTER}}}}}]
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:
              - {{match: {{prefix: /}}, direct_response: {{status: 200, body: {{inline_string: {name}}}}}}}"#
    )
}

fn listener(name: &str, address: &str, port: &str, filters: &str, chains: &[String]) -> String {
    format!(
        "\n  - name: {name}\n    address: {{socket_address: {{address: {address}, port_value: {port}}}}}\n    listener_filters: [{filters}]\n    filter_chains:{}",
        chains.concat()
    )
}

fn bootstrap() -> String {
    let sources =
        [chain("source_type: SAME_IP_OR_LOOPBACK", "local"), chain("source_type: EXTERNAL", "external")];
    let header = format!("{{name: header, typed_config: {{'@type': {PROXY}}}}}");
    let listeners = [
        listener("any", "0.0.0.0", "$HTTP", "", &sources),
        listener("six", "'::1'", "$TLS", "", &sources),
        listener("header", "127.0.0.1", "$SOURCES", &header, &sources),
    ];
    format!(
        "admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: $ADMIN}}}}}}\nstatic_resources:\n  listeners:{}\n",
        listeners.concat()
    )
}

/// Sends bytes from an address to another; shows the body of the answer, or that there is none.
fn ask_from(from: &str, to: (&str, u16), bytes: &[u8]) -> String {
    let to = SocketAddr::new(to.0.parse().unwrap(), to.1);
    let socket = socket2::Socket::new(socket2::Domain::for_address(to), socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(from.parse().unwrap(), 0).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // It may be refused before all was sent.
    let _ = stream.write_all(bytes);
    let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        if let Some(body) = body.filter(|body| ["local", "external"].contains(&body.as_str())) {
            return body;
        }
        // Closed, or reset because not all was read.
        match stream.read(&mut piece) {
            Ok(count @ 1..) => answer.extend_from_slice(&piece[..count]),
            _ => return format!("closed {text}"),
        }
    }
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// A header of version 2.
fn v2(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, content].concat()
}

/// The addresses of version 2, and its family.
fn ends(from: IpAddr, to: IpAddr) -> (u8, Vec<u8>) {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    (if from.is_ipv4() { 0x11 } else { 0x21 }, [octets(from), octets(to), vec![0, 1, 0, 2]].concat())
}

#[test]
fn sources_and_their_headers_are_those_of_envoy() {
    let pair = Pair::start_with(Directory::new(), &bootstrap(), &[]);
    let mut differences = Vec::new();
    for (port, from, to, expected) in [
        ("$HTTP", "127.0.0.1", "127.0.0.1", "local"),
        ("$HTTP", "127.0.0.2", "127.0.0.1", "external"),
        ("$HTTP", "127.0.0.2", "127.0.0.2", "local"),
        ("$HTTP", "127.0.0.1", "127.0.0.2", "local"),
        ("$TLS", "::1", "::1", "local"),
    ] {
        let [ours, envoys] = pair.ports(port).map(|port| ask_from(from, (to, port), REQUEST));
        assert_eq!((ours.as_str(), envoys.as_str()), (expected, expected), "{from} {to}");
    }
    let mut headers: Vec<(String, Vec<u8>)> = Vec::new();
    let pairs = [
        ("127.0.0.1", "10.0.0.1"),
        ("127.0.0.9", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.2"),
        ("224.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "239.1.1.1"),
        ("255.255.255.255", "10.0.0.1"),
        ("10.0.0.1", "255.255.255.255"),
        ("0.0.0.0", "10.0.0.1"),
        ("10.0.0.1", "0.0.0.0"),
        ("240.0.0.1", "10.0.0.1"),
        ("10.255.255.255", "10.0.0.1"),
        ("::1", "2001:db8::1"),
        ("::ffff:127.0.0.1", "2001:db8::1"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
        ("::ffff:224.0.0.1", "2001:db8::1"),
        ("2001:db8::1", "2001:db8:0::1"),
        ("ff02::1", "2001:db8::1"),
        ("2001:db8::1", "ff02::1"),
        ("::", "2001:db8::1"),
        ("2001:db8::1", "::"),
        ("fe80::1", "fe80::2"),
    ];
    for (from, to) in pairs {
        let ends = ends(from.parse().unwrap(), to.parse().unwrap());
        let family = if ends.0 == 0x11 { "TCP4" } else { "TCP6" };
        headers.push((format!("1 {from} {to}"), format!("PROXY {family} {from} {to} 1 2\r\n").into()));
        headers.push((format!("2 {from} {to}"), v2(0x21, ends.0, &ends.1)));
    }
    for line in
        ["UNKNOWN", "UNKNOWN ", "UNKNOWN a b c", "UNKNOWNx", "UNKNOWN \u{ff}", "tcp4 10.0.0.1 10.0.0.2 1 2"]
    {
        headers.push((line.to_owned(), format!("PROXY {line}\r\n").into()));
    }
    let (family, plain) = ends([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    for extensions in [
        &[][..],
        &[4, 0, 0],
        &[4, 0, 1, 7],
        &[1, 0, 2, b'h', b'2', 2, 0, 1, b'a'],
        // An odd checksum and an odd TLS: nobody looks at what they say.
        &[3, 0, 4, 1, 2, 3, 4],
        &[0x20, 0, 1, 1],
        &[4],
        &[4, 0],
        &[4, 0, 1],
        &[4, 0, 5, 1, 2],
        &[4, 0, 0, 5],
        &[&[4, 0x0b, 0xb8][..], &[9; 3000]].concat(),
        &[&[4, 0xff, 0xf0][..], &[9; 65_520]].concat(),
    ] {
        let name = format!("extensions {:?}", extensions.get(..12).unwrap_or(extensions));
        headers.push((name.clone(), v2(0x21, family, &[&plain, extensions].concat())));
        headers.push((format!("LOCAL, {name}"), v2(0x20, family, &[&plain, extensions].concat())));
    }
    headers.push(("LOCAL".to_owned(), v2(0x20, 0, b"")));
    headers.push(("LOCAL with anything".to_owned(), v2(0x20, 0, b"anything")));
    headers.push(("without a family".to_owned(), v2(0x21, 0, b"")));
    headers.push(("a socket of a file".to_owned(), v2(0x21, 0x31, &[1; 216])));
    let mut taken = 0;
    for (name, header) in &headers {
        let bytes = [header, REQUEST].concat();
        let [ours, envoys] =
            pair.ports("$SOURCES").map(|port| ask_from("127.0.0.1", ("127.0.0.1", port), &bytes));
        taken += usize::from(!ours.starts_with("closed"));
        if ours != envoys {
            differences.push(format!("{name}: {ours}, with Envoy {envoys}"));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    assert!(taken > 20 && taken < headers.len() - 20, "{taken} of {}", headers.len());
    wait_for("all are counted", || {
        let names = [
            "proxy_proto.versions.v1.found",
            "proxy_proto.versions.v1.error",
            "proxy_proto.versions.v2.found",
            "proxy_proto.versions.v2.error",
            "downstream_cx_proxy_proto_error",
        ];
        names
            .iter()
            .all(|name| {
                let (_, ours, envoys) = pair.stat(name);
                ours == envoys && ours > 0
            })
            .then_some(())
    });
}

#[test]
fn a_tls_inspector_is_there_if_it_is_configured() {
    let chains = [
        chain("server_names: [a.test]", "named"),
        chain("transport_protocol: tls", "secure"),
        chain("", "other"),
    ];
    let text = format!(
        "admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: $ADMIN}}}}}}\nstatic_resources:\n  listeners:{}\n",
        listener("in", "127.0.0.1", "$HTTP", "", &chains)
    );
    let (_, warnings) =
        mixer_proxy::bootstrap::read(&text.replace("$ADMIN", "1").replace("$HTTP", "2"), "b.yaml").unwrap();
    let warned: Vec<String> = warnings.iter().map(|warning| warning.field.to_string()).collect();
    assert_eq!(warned.len(), 2, "{warned:?}");
    let pair = Pair::start_warned(Directory::new(), &text);
    // The beginning of a ClientHello is no request.
    let client = crate::secure::Client { server_name: "a.test", ..crate::secure::Client::default() };
    let shown = pair.ports("$HTTP").map(|port| client.ask(port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_eq!(shown, ["refused", "refused"]);
    for name in
        ["http.named.downstream_cx_total", "http.secure.downstream_cx_total", "tls_inspector.tls_found"]
    {
        assert_eq!(pair.stat(name), (name, 0, 0));
    }
    let (_, ours, envoys) = pair.stat("http.other.downstream_cx_total");
    assert_eq!((ours, envoys), (1, 1), "as plain text");
}
