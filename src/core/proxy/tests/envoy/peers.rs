//! Hosts of HTTP/2 that end streams and connections, beside Envoy: how it counts.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::authz::bootstrap_of;
use crate::ends::same_stats;
use crate::pair::{Directory, Pair, ask};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const AUTHZ: &str = "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";

fn frame(kind: u8, flags: u8, stream: &[u8], payload: &[u8]) -> Vec<u8> {
    [&[0, 0, u8::try_from(payload.len()).unwrap(), kind, flags][..], stream, payload].concat()
}

/// `:status: 200` and a body.
fn answer(id: &[u8]) -> Vec<u8> {
    [frame(1, 4, id, &[0x88]), frame(0, 1, id, b"ok")].concat()
}

fn goaway(last: &[u8], code: u8) -> Vec<u8> {
    frame(7, 0, &[0; 4], &[last, &[0, 0, 0, code]].concat())
}

/// What a host does with a request: what it sends, and whether it ends the connection then.
struct Manner {
    name: &'static str,
    sends: fn(&[u8]) -> Vec<u8>,
    ends: bool,
}

const MANNERS: [Manner; 9] = [
    Manner { name: "fine", sends: answer, ends: false },
    // The answer, and a GOAWAY behind it.
    Manner { name: "stay", sends: |id| [answer(id), goaway(id, 0)].concat(), ends: false },
    Manner { name: "left-out", sends: |_| goaway(&[0; 4], 0), ends: false },
    Manner { name: "calm", sends: |_| goaway(&[0; 4], 11), ends: false },
    Manner { name: "error-first", sends: |id| [goaway(id, 2), answer(id)].concat(), ends: false },
    Manner { name: "gone", sends: |_| Vec::new(), ends: true },
    Manner { name: "refused", sends: |id| frame(3, 0, id, &[0, 0, 0, 7]), ends: false },
    Manner { name: "reset", sends: |id| frame(3, 0, id, &[0, 0, 0, 2]), ends: false },
    Manner { name: "silent", sends: |_| Vec::new(), ends: false },
];

fn host(manner: &'static Manner) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream, manner));
        }
    });
    port
}

fn serve(mut stream: TcpStream, manner: &Manner) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    stream.read_exact(&mut [0; 24]).ok()?;
    stream.write_all(&frame(4, 0, &[0; 4], b"")).ok()?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let [a, b, c, kind, flags, id @ ..] = head;
        let mut payload = vec![0; usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)];
        stream.read_exact(&mut payload).ok()?;
        match kind {
            1 => {
                // Its settings are there before, so that the connection is established.
                std::thread::sleep(Duration::from_millis(50));
                stream.write_all(&(manner.sends)(&id)).ok()?;
                if manner.ends {
                    return None;
                }
            }
            4 if flags & 1 == 0 => stream.write_all(&frame(4, 1, &[0; 4], b"")).ok()?,
            6 if flags & 1 == 0 => stream.write_all(&frame(6, 1, &[0; 4], &payload)).ok()?,
            _ => {}
        }
    }
}

fn bootstrap(hosts: &[(&str, String)]) -> String {
    let listener = |name: &str, port: &str, filters: &str| {
        let routes: String = MANNERS
            .iter()
            .map(|Manner { name, .. }| {
                format!("\n              - {{match: {{prefix: /{name}/}}, route: {{cluster: {name}, timeout: 0.5s}}}}")
            })
            .collect();
        format!(
            r#"
  - name: {name}
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          '@type': {MANAGER}
          stat_prefix: {name}
          http_filters:
          {filters}
          - {{name: router, typed_config: {{'@type': {ROUTER}}}}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:{routes}
              - {{match: {{prefix: /}}, route: {{cluster: backend}}}}"#
        )
    };
    let authz = |cluster: &str| {
        format!(
            "- {{name: authz, typed_config: {{'@type': {AUTHZ}, transport_api_version: V3, grpc_service: {{envoy_grpc: {{cluster_name: {cluster}}}, timeout: 0.5s}}}}}}"
        )
    };
    let listeners = [
        listener("in", "$HTTP", ""),
        listener("of-gone", "$TLS", &authz("called-gone")),
        listener("of-silent", "$REQUIRED", &authz("called-silent")),
    ];
    bootstrap_of(&listeners.concat(), hosts)
}

#[test]
fn ends_of_streams_and_connections_of_hosts_count_as_with_envoy() {
    let mut hosts: Vec<(&str, String)> =
        MANNERS.iter().map(|manner| (manner.name, host(manner).to_string())).collect();
    for (name, manner) in [("called-gone", 5), ("called-silent", 8)] {
        hosts.push((name, host(&MANNERS[manner]).to_string()));
    }
    let pair = Pair::start_alone(Directory::new(), &bootstrap(&hosts), 1);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    for Manner { name, .. } in &MANNERS {
        for round in 0..3 {
            let [ours, envoys] = pair
                .ask(&[&get(&format!("/{name}/{round}"))])
                .map(|answer| answer.lines().next().unwrap_or_default().to_owned());
            assert_eq!(ours, envoys, "{name}");
        }
    }
    for port in ["$TLS", "$REQUIRED"] {
        for _ in 0..3 {
            let [ours, envoys] = pair.ports(port).map(|port| ask(port, &[&get("/ok")]));
            assert!(
                ours.starts_with("HTTP/1.1 403") && envoys.starts_with("HTTP/1.1 403"),
                "{ours} {envoys}"
            );
        }
    }
    let names: Vec<String> = MANNERS
        .iter()
        .map(|manner| manner.name)
        .chain(["called-silent"])
        .flat_map(|cluster| {
            [
                "upstream_cx_total",
                "upstream_cx_destroy",
                "upstream_cx_destroy_local",
                "upstream_cx_destroy_remote",
                "upstream_cx_destroy_with_active_rq",
                "upstream_cx_destroy_local_with_active_rq",
                "upstream_cx_destroy_remote_with_active_rq",
                "upstream_rq_rx_reset",
                "upstream_rq_tx_reset",
                "upstream_rq_cancelled",
                "upstream_rq_pending_failure_eject",
                "http2.rx_reset",
                "http2.tx_reset",
            ]
            .map(|name| format!("cluster.{cluster}.{name}"))
        })
        .collect();
    same_stats(&pair, &names.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, count) in [
        ("cluster.refused.http2.rx_reset", 3),
        ("cluster.left-out.http2.rx_reset", 0),
        ("cluster.gone.upstream_cx_destroy_remote_with_active_rq", 3),
        ("cluster.gone.upstream_rq_pending_failure_eject", 3),
        ("cluster.called-silent.http2.tx_reset", 3),
    ] {
        assert_eq!(pair.stat(name).1, count, "{name}");
    }
    // A call of which nothing was heard is made once more, other than with Envoy.
    let of_called = |what: &str| pair.stat(&format!("cluster.called-gone.upstream_cx_{what}")).1;
    let total = of_called("total");
    assert!(total >= 3, "{total}");
    for what in ["destroy_remote", "destroy_remote_with_active_rq", "destroy_with_active_rq"] {
        assert_eq!(of_called(what), total, "{what}");
    }
}
