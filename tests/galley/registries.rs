//! Registries of services as sources: what operators see of them.

use crate::RULE;
use crate::support::galley::Galley;
use crate::support::zookeeper::Zookeeper;
use crate::support::{DEADLINE, free_port, http, wait_for};

const ENTRIES: &str = "istio/networking/v1alpha3/serviceentries";

/// A provider of a service of Dubbo.
fn provider(port: u16) -> String {
    format!("/dubbo/org.foo.Bar/providers/dubbo%3A%2F%2F10.0.0.1%3A{port}%2Forg.foo.Bar%3Fversion%3D1.0")
}

/// The names of the published service entries.
pub(crate) fn entries(galley: &Galley) -> Vec<String> {
    let groups = galley.document("/configj/?group=default");
    let all = groups["Snapshots"].as_array().into_iter().flatten();
    let entries = all.filter(|entry| entry["Collection"] == ENTRIES);
    let names = entries.flat_map(|entry| entry["Names"].as_array().cloned().unwrap_or_default());
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

#[test]
fn a_registry_is_served_beside_files_and_its_outage_is_shown() {
    let mut server = Zookeeper::start(free_port);
    server.writer().create(&provider(20880));
    let address = format!("--zookeeper-address={}", server.address());
    let galley = Galley::of_files(&[("rule.yaml", RULE)], &[&address, "--zookeeper-session-timeout=4s"]);
    galley.synced();
    assert_eq!(entries(&galley), ["dubbo/org.foo.bar-1.0"]);
    let source = format!("zookeeper {}/dubbo", server.address());
    let sample = |family: &str, value: &str| format!("{family}{{source=\"{source}\"}} {value}");
    let metrics = galley.metrics();
    for sample in [sample("galley_source_connected", "1"), sample("galley_source_outages_total", "0")] {
        assert!(metrics.contains(&sample), "{sample} in {metrics}");
    }
    server.kill();
    let shown = wait_for(DEADLINE, || {
        let metrics = galley.metrics();
        let is_shown = metrics.contains(&sample("galley_source_connected", "0"))
            && metrics.contains("mixer_component_degraded{component=\"sources\"} 1");
        is_shown.then_some(())
    });
    assert!(shown.is_some(), "{}", galley.metrics());
    let status = galley.ask(&["status"]);
    assert!(status.stdout.contains("not connected") && status.stdout.contains(&source), "{}", status.stdout);
    let page = http("GET", &format!("http://{}/sourcez/", galley.address()), "").expect("an answer").body;
    assert!(page.contains("not connected") && page.contains("outages: 1"), "{page}");
    assert_eq!(entries(&galley), ["dubbo/org.foo.bar-1.0"], "what was read before is served");
    let ready = format!("http://127.0.0.1:{}/readyz", galley.monitoring);
    assert_eq!(http("GET", &ready, "").expect("an answer").status, 200);
    server.restart();
    let mut writer = server.writer();
    writer.create("/dubbo/org.foo.Bar/providers/dubbo%3A%2F%2F10.0.0.2%3A1%2Forg.foo.Bar");
    writer.delete(&provider(20880));
    let followed = wait_for(DEADLINE, || (entries(&galley) == ["dubbo/org.foo.bar"]).then_some(()));
    assert!(followed.is_some(), "{:?} {}", entries(&galley), galley.log());
    let works = wait_for(DEADLINE, || {
        galley.metrics().contains("mixer_component_degraded{component=\"sources\"} 0").then_some(())
    });
    assert!(works.is_some(), "{}", galley.metrics());
}

#[test]
fn a_registry_that_is_never_reached_holds_up_the_first_publication_and_is_named() {
    let nobody = free_port();
    let address = format!("--eureka-address=http://127.0.0.1:{nobody}/eureka");
    let galley = Galley::of_files(&[("rule.yaml", RULE)], &[&address]);
    let url = format!("http://127.0.0.1:{}/readyz", galley.monitoring);
    let wanted =
        format!("eureka http://127.0.0.1:{nobody}/eureka: server `http://127.0.0.1:{nobody}/eureka`: ");
    let told = wait_for(DEADLINE, || {
        let answer = http("GET", &url, "").ok()?;
        (answer.status == 503 && answer.body.contains(&wanted)).then_some(())
    });
    assert!(told.is_some(), "{:?}", http("GET", &url, "").map(|answer| answer.body));
    let status = galley.ask(&["status"]);
    let waits = format!(
        "not published: eureka http://127.0.0.1:{nobody}/eureka: not everything was read yet: server "
    );
    for text in ["not connected", "not synced", "not everything was published yet", "at least ", &waits] {
        assert!(status.stdout.contains(text), "{text}: {}", status.stdout);
    }
    assert_eq!(galley.document("/statusj/")["isSynced"], false);
}
