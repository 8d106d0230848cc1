//! Outages of collectors of the server's own spans: no call waits for one, every span is counted, and those after the outage arrive, without
//! a restart. A batch that a collector does not take is given up.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::Value;

use crate::certificates::{Authority, put};
use crate::fronts::Front;
use crate::otlp::{items, requests, strict};
use crate::outage_load::{Round, Scene, measure_all};
use crate::outages::{FAULTS, Fault, assert_adds_up};
use crate::senders::count;
use crate::support::policy::check;
use crate::support::rpc::Client;
use crate::support::sending::delivery;
use crate::support::{Collector, DEADLINE, free_port, wait_for};
use crate::tracing::{decoded, decoding};

/// A format of spans.
struct Format {
    title: &'static str,
    flag: &'static str,
    path: &'static str,
    /// It and its port.
    collector: fn() -> (Collector, u16),
    /// Identifies the spans that arrived.
    arrived: fn(&Collector) -> BTreeSet<String>,
}

fn of_definitions() -> (Collector, u16) {
    let collector = decoding();
    let port = collector.port;
    (collector, port)
}

fn ids_of_decoded(collector: &Collector) -> BTreeSet<String> {
    decoded(collector)
        .iter()
        .map(|span| format!("{} {} {}", span["traceId"], span["id"], span["kind"]))
        .collect()
}

const FORMATS: [Format; 3] = [
    Format {
        title: "spans of the server, OTLP",
        flag: "--trace-otlp-url",
        path: "v1/traces",
        collector: || {
            let ports = [free_port(), free_port()];
            (strict(ports, &[]), ports[1])
        },
        arrived: |collector| {
            let all = items(&requests(collector, ""), "traces");
            all.iter().map(|(_, span)| format!("{} {}", span["trace_id"], span["span_id"])).collect()
        },
    },
    Format {
        title: "spans of the server, Zipkin",
        flag: "--trace-zipkin-url",
        path: "api/v2/spans",
        collector: of_definitions,
        arrived: ids_of_decoded,
    },
    Format {
        title: "spans of the server, Jaeger",
        flag: "--trace-jaeger-url",
        path: "api/traces?format=jaeger.thrift",
        collector: of_definitions,
        arrived: ids_of_decoded,
    },
];

/// An outage, and what followed.
fn outage_ends(format: &Format, fault: Fault) -> Round {
    let (collector, port) = (format.collector)();
    let files = tempfile::tempdir().unwrap();
    let [trusted, other] = [Authority::new(), Authority::new()];
    let root = put(files.path(), "root.pem", &trusted.certificate);
    let front = Front::new(fault);
    let scheme = match fault {
        Fault::ShowsWrongCertificate => {
            let both = [&other, &trusted].map(|authority| authority.issue(&["localhost"]));
            front.listen(port, Some(both));
            "https"
        }
        Fault::Refuses => "http",
        _ => {
            front.listen(port, None);
            "http"
        }
    };
    let flag = format!("{}={scheme}://localhost:{}/{}", format.flag, front.port(), format.path);
    let mut scene = Scene::start_with("", &[("SSL_CERT_FILE", &root)], &[&flag, "--trace-sampling-rate=1"]);
    let outage = scene.turn();
    let shown = || -> Value {
        let delivery = delivery(&scene.server, "span export");
        assert_adds_up(&delivery);
        delivery
    };
    let fails = |of: &Value| of["state"] == "failing" || of["state"] == "paused";
    let is_told = || scene.server.log().contains("spans lost: export to the collector failed");
    let noticed = wait_for(DEADLINE, || match fault {
        Fault::IsSlow => front.is_known().then_some(()),
        _ => (fails(&shown()) && is_told()).then_some(()),
    });
    assert!(noticed.is_some(), "{fault:?}: {}\n{}", shown(), scene.server.log());
    let before = (format.arrived)(&collector).len();
    let mended = Instant::now();
    front.mend(port);
    let mut client = Client::new(&scene.server.address()).unwrap();
    let again = wait_for(DEADLINE, || {
        client.check(&check("ann"), None).unwrap();
        ((format.arrived)(&collector).len() > before).then_some(())
    });
    assert!(again.is_some(), "{fault:?}: {}\n{}", shown(), scene.server.log());
    let settled = wait_for(DEADLINE, || {
        let of = shown();
        let waits = count(&of, "queued") + count(&of, "inFlight");
        (waits == 0 && of["state"] == "delivering").then_some(of)
    });
    let settled = settled.unwrap_or_else(|| panic!("{fault:?}: {}\n{}", shown(), scene.server.log()));
    let recovery = mended.elapsed();
    let (delivered, arrived) = (count(&settled, "delivered"), (format.arrived)(&collector).len() as u64);
    // The answer to a batch that took too long may have been too late.
    assert!(delivered == arrived || fault == Fault::IsSlow && delivered < arrived, "{arrived}: {settled}");
    scene.round(outage, recovery, &[settled])
}

#[test]
fn outages_of_collectors_of_spans_hold_up_no_call_and_end_without_a_restart() {
    for format in &FORMATS {
        measure_all(format.title, || FAULTS.iter().map(|fault| outage_ends(format, *fault)).collect());
    }
}
