//! Outages of the backends of adapters that send, each behind a [front](crate::fronts) with a fault of its own: no report and no check waits,
//! every item is counted, and what waits is delivered once the front is mended, without a restart.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::Value;

use crate::certificates::{Authority, put};
use crate::fronts::Front;
use crate::outage_load::{Round, Scene, measure, timeout};
use crate::outages::{FAULTS, Fault, assert_accounts, of, tells};
use crate::senders::{count, handler, report};
use crate::sent::{self, Arrived, Backend, INSTANCES, Place, Sent};
use crate::support::{DEADLINE, wait_for};

impl Sent {
    /// The handler of a front.
    fn handler(&self, front: &Front, root: &str, backend: &Backend) -> String {
        let (name, account) = (front.fault.name(), backend.account());
        let place = Place {
            name: &name,
            port: front.port(),
            is_secure: front.fault == Fault::ShowsWrongCertificate,
            root,
            account: &account,
            // A slow front gets the time it needs.
            timeout: if front.fault == Fault::IsSlow { "60s" } else { timeout() },
        };
        handler(&name, self.instance, self.adapter, &(self.params)(&place))
    }

    /// Whether the sender notices that a front takes nothing.
    fn notices(&self, fault: Fault) -> bool {
        match self.arrived {
            Arrived::Unacknowledged(_) => matches!(fault, Fault::Refuses | Fault::ShowsWrongCertificate),
            _ => fault != Fault::IsSlow,
        }
    }

    /// Whether all that counts as delivered has arrived.
    fn is_exact(&self, fault: Fault) -> bool {
        self.notices(fault) || fault == Fault::IsSlow
    }

    /// What tells apart the items that arrived; none of what is added up.
    fn numbers(&self, backend: &Backend, name: &str) -> BTreeSet<String> {
        match self.arrived {
            Arrived::Numbers(of) | Arrived::Unacknowledged(of) => {
                of(&backend.requests(""), name).into_iter().collect()
            }
            Arrived::Total(..) => BTreeSet::new(),
        }
    }
}

/// An outage of every kind, each of a handler of its own, and what followed.
fn outages_end(sent: &Sent) -> Round {
    let backend = &(sent.backend)();
    let files = tempfile::tempdir().unwrap();
    let [trusted, other] = [Authority::new(), Authority::new()];
    let root = put(files.path(), "root.pem", &format!("{}{}", trusted.certificate, backend.root));
    let fronts = FAULTS.map(Front::new);
    let mut handlers = INSTANCES.to_owned();
    for front in &fronts {
        handlers += &sent.handler(front, &root, backend);
        match front.fault {
            Fault::Refuses => {}
            Fault::ShowsWrongCertificate => {
                let both = [&other, &trusted].map(|authority| authority.issue(&["localhost"]));
                front.listen(backend.decrypted, Some(both));
            }
            _ => front.listen(backend.port, None),
        }
    }
    let none = files.path().join("none").display().to_string();
    let environment = [
        ("AWS_ACCESS_KEY_ID", "AKIDLAB"),
        ("AWS_SECRET_ACCESS_KEY", "labsecret"),
        // No service of Google is asked where the server runs.
        ("GCE_METADATA_HOST", "127.0.0.1:1"),
        ("AWS_CONFIG_FILE", &none),
    ];
    let mut scene = Scene::start(&handlers, &environment);
    scene.path = sent.path;
    let outage = scene.turn();
    let server = &scene.server;
    for front in &fronts {
        let name = front.fault.name();
        let shown = wait_for(DEADLINE, || {
            let delivery = of(server, &name);
            assert_accounts(&delivery);
            let fails = delivery["state"] == "failing" || delivery["state"] == "paused";
            let shows = match sent.notices(front.fault) {
                true => fails && tells(server, &name, "the backend takes nothing: "),
                false => front.is_known(),
            };
            shows.then_some(())
        });
        assert!(shown.is_some(), "{name} shows: {}\n{}", of(server, &name), server.log());
    }
    let mended = Instant::now();
    fronts.iter().for_each(|front| front.mend(backend.port));
    for front in fronts.iter().filter(|front| !sent.is_exact(front.fault)) {
        scene.reported = is_reached(&scene, sent, backend, &front.fault.name());
    }
    let (server, entries) = (&scene.server, scene.reported as u64);
    let settled: Vec<Value> = fronts
        .iter()
        .map(|front| {
            let name = front.fault.name();
            let settled = match sent.arrived {
                Arrived::Total(total, of_each) => {
                    let total = || total(&backend.requests("taken"), &name);
                    has_total(&scene, &name, total, entries / of_each.unsigned_abs())
                }
                _ => {
                    let settled = has_settled(&scene, sent, backend, &name, sent.is_exact(front.fault));
                    assert_eq!(count(&settled, "accepted"), entries, "{settled}");
                    settled
                }
            };
            let is_told = || tells(server, &name, "the backend takes everything again");
            assert!(!sent.notices(front.fault) || is_told(), "{}", server.log());
            settled
        })
        .collect();
    let recovery = mended.elapsed();
    scene.round(outage, recovery, &settled)
}

/// Reports entries until one arrives: connections from before are lost with what they took. Returns the number of the next one.
fn is_reached(scene: &Scene, sent: &Sent, backend: &Backend, name: &str) -> i64 {
    let server = &scene.server;
    let mut next = scene.reported;
    let reached = wait_for(DEADLINE, || {
        report(server, next..next + 1, "/");
        next += 1;
        let is_new = |number: &String| number.parse::<i64>().unwrap() >= scene.reported;
        sent.numbers(backend, name).iter().any(is_new).then_some(next)
    });
    reached.unwrap_or_else(|| panic!("{name}: {}\n{}", of(server, name), server.log()))
}

/// Waits until everything that was added up has arrived.
fn has_total(scene: &Scene, name: &str, total: impl Fn() -> u64, expected: u64) -> Value {
    let server = &scene.server;
    let arrived = wait_for(4 * DEADLINE, || {
        let delivery = of(server, name);
        assert_accounts(&delivery);
        (total() == expected).then_some(delivery)
    });
    arrived.unwrap_or_else(|| {
        panic!("{name}: {} of {expected}: {}\n{}", total(), of(server, name), server.log())
    })
}

/// Waits until everything is settled; what counts as delivered has arrived, all of it if that `is_exact`.
fn has_settled(scene: &Scene, sent: &Sent, backend: &Backend, name: &str, is_exact: bool) -> Value {
    let server = &scene.server;
    let settled = wait_for(4 * DEADLINE, || {
        let delivery = of(server, name);
        assert_accounts(&delivery);
        let waits = count(&delivery, "queued") + count(&delivery, "inFlight");
        (waits == 0 && delivery["state"] == "delivering").then_some(delivery)
    });
    let settled = settled.unwrap_or_else(|| panic!("{name}: {}\n{}", of(server, name), server.log()));
    let delivered = count(&settled, "delivered");
    let arrived = || sent.numbers(backend, name).len() as u64;
    // What is not acknowledged may still be on its way.
    let is_there = wait_for(DEADLINE, || (!is_exact || arrived() == delivered).then_some(()));
    let arrived = arrived();
    assert!(is_there.is_some() && 0 < arrived && arrived <= delivered, "{arrived} arrived: {settled}");
    assert_eq!(count(&settled["dropped"], "failed"), 0, "{settled}");
    settled
}

fn measure_each(all: &[Sent]) {
    for sent in all {
        measure(sent.title, || outages_end(sent));
    }
}

#[test]
fn outages_of_a_collector_over_grpc_end_without_a_restart() {
    measure_each(&sent::OTLP_OVER_GRPC);
}

#[test]
fn outages_of_a_collector_over_http_end_without_a_restart() {
    measure_each(&sent::OTLP_OVER_HTTP);
}

#[test]
fn outages_of_zipkin_end_without_a_restart() {
    measure_each(&sent::ZIPKIN);
}

#[test]
fn outages_of_syslog_end_without_a_restart() {
    measure_each(&sent::SYSLOG);
}

#[test]
fn outages_of_paid_services_end_without_a_restart() {
    measure_each(&sent::PAID);
}

#[test]
fn outages_of_cloudwatch_end_without_a_restart() {
    measure_each(&sent::CLOUDWATCH);
}

#[test]
fn outages_of_stackdriver_end_without_a_restart() {
    measure_each(&sent::STACKDRIVER);
}

#[test]
fn outages_of_servicecontrol_end_without_a_restart() {
    measure_each(&sent::SERVICE_CONTROL);
}
