//! Prometheus scrapes the prometheus adapter and the self metrics of a server on the sample configuration; queries return what
//! was reported. Alerts and dashboard are checked with promtool.

use std::path::Path;

use crate::support::prometheus::{Prometheus, empty_panels};
use crate::support::{DEADLINE, Server, http, programs, run, sample_configuration, wait_for};

/// Reports `count` requests with this code.
fn report(server: &Server, code: u32, count: u32) {
    let arguments = [
        "report",
        "--mixer",
        &server.address(),
        "--string_attributes",
        "context.protocol=http,source.workload.name=web,destination.service.host=reviews",
        "--int64_attributes",
        &format!("response.code={code},request.size=100"),
        "--duration_attributes",
        "response.duration=30ms",
        "--timestamp_attributes",
        "request.time=2019-01-02T03:04:05Z",
    ]
    .map(str::to_owned);
    for _ in 0..count {
        let done = run(&programs().path("mixc"), &arguments, &[], None, None, DEADLINE).unwrap();
        assert_eq!((done.status, done.stdout.as_str()), (0, "Report RPC returned OK\n"), "{}", done.stderr);
    }
}

#[test]
fn prometheus_scrapes_what_was_reported() {
    let server = Server::on(&sample_configuration()).start();
    report(&server, 200, 3);
    report(&server, 503, 1);
    let prometheus = Prometheus::start(&[("mesh", server.ports.metrics), ("mixer", server.ports.monitoring)]);

    prometheus.expect("up{job=\"mesh\"}", "1");
    prometheus.expect("up{job=\"mixer\"}", "1");
    prometheus.expect("sum(istio_requests_total)", "4");
    prometheus.expect("istio_requests_total{response_code=\"503\"}", "1");
    prometheus.expect("sum(istio_request_duration_seconds_bucket{source_workload=\"web\",le=\"0.05\"})", "4");
    prometheus.expect("sum(istio_request_duration_seconds_bucket{le=\"0.025\"})", "0");
    prometheus.expect("sum(istio_request_duration_seconds_sum)", "0.12");
    prometheus.expect(
        "sum(mixer_runtime_dispatches_total{adapter=\"prometheus\",error=\"false\",handler=\"prometheus-http.istio-system\"})",
        "4",
    );
    prometheus
        .expect("grpc_io_server_completed_rpcs{grpc_server_method=\"istio.mixer.v1.Mixer/Report\"}", "4");

    report(&server, 200, 2);
    prometheus.expect("sum(istio_requests_total{response_code=\"200\"})", "5");
    prometheus.expect("sum(istio_request_bytes_sum{destination_service=\"reviews\"})", "600");
}

/// The samples of the text page that begin so.
fn samples(server: &Server, begin: &str) -> Vec<(String, f64)> {
    let page =
        http("GET", &format!("http://127.0.0.1:{}/metrics", server.ports.monitoring), "").unwrap().body;
    let lines = page.lines().filter_map(|line| line.strip_prefix(begin)?.rsplit_once(' '));
    lines.map(|(labels, value)| (labels.to_owned(), value.parse().unwrap())).collect()
}

/// A scraper that asks for native histograms gets those of latencies, finer than the classic ones and with the same values; the page of
/// others is as it was.
#[test]
fn prometheus_stores_native_histograms() {
    let server = Server::on(&sample_configuration()).start();
    report(&server, 200, 40);
    let prometheus = Prometheus::start_native(&[("mixer", server.ports.monitoring)]);
    prometheus.expect("up", "1");
    let method = "grpc_server_method=\"istio.mixer.v1.Mixer/Report\"";
    let handler = "handler=\"prometheus-http.istio-system\",error=\"false\"";
    prometheus.expect(&format!("grpc_io_server_completed_rpcs{{{method}}}"), "40");
    for (family, labels) in
        [("grpc_io_server_server_latency", method), ("mixer_runtime_dispatch_duration_seconds", handler)]
    {
        let of = |suffix: &str| -> Vec<(String, f64)> {
            let all = samples(&server, &format!("{family}{suffix}"));
            all.into_iter()
                .filter(|(found, _)| labels.split(',').all(|label| found.contains(label)))
                .collect()
        };
        let (classic, sum, count) = (of("_bucket"), of("_sum")[0].1, of("_count")[0].1);
        let series = format!("{family}{{{labels}}}");
        prometheus.expect(&format!("histogram_count({series})"), &count.to_string());
        // While a scrape takes too long there is no value.
        let value = |query: &str| -> f64 {
            wait_for(DEADLINE, || prometheus.query(query).ok()?.parse().ok()).expect("a value")
        };
        let stored = value(&format!("histogram_sum({series})"));
        assert!((stored - sum).abs() <= sum * 1e-9, "{family}: {stored} for {sum}");
        // A native quantile is in the classic bucket of the quantile.
        for quantile in [0.1, 0.5, 0.9, 0.99] {
            let native = value(&format!("histogram_quantile({quantile}, {series})"));
            let upper = |(labels, _): &(String, f64)| -> f64 {
                let (_, bound) = labels.split_once("le=\"").unwrap();
                bound.trim_end_matches("\"}").parse().unwrap()
            };
            let rank = quantile * count;
            let at = classic.iter().position(|(_, total)| *total >= rank).unwrap();
            let lower = at.checked_sub(1).map_or(0.0, |before| upper(&classic[before]));
            assert!(
                native >= lower * 0.84 && native <= upper(&classic[at]) * 1.19,
                "{quantile} of {family}: {native}, {classic:?}"
            );
        }
    }
    // Families without native buckets are as before.
    prometheus.expect(&format!("grpc_io_server_received_bytes_per_rpc_count{{{method}}}"), "40");
}

/// Panels that must show the calls of a client of Mixer.
const OF_MIXER: &[&str] = &[
    "Checks a second",
    "Refused a second",
    "Check, 99 %",
    "Calls by method and status",
    "Latency of checks",
    "Refused checks by code",
    "Check cache, share of hits",
    "Calls by handler",
    "Hits by rule",
    "Denials by rule",
];

#[test]
fn every_panel_of_the_dashboard_has_data_of_a_server_without_envoy() {
    let server = Server::on(&sample_configuration()).with(&["--numCheckCacheEntries=1000"]).start();
    let prometheus = Prometheus::start(&[("mixer", server.ports.monitoring)]);
    let check =
        ["check", "--mixer", &server.address(), "-r", "3", "-s", "source.name=web"].map(str::to_owned);
    let refused =
        [&check[..], &["--stringmap_attributes".to_owned(), "request.headers=clnt:abc".to_owned()]].concat();
    let empty = std::thread::scope(|scope| {
        let looking = scope.spawn(|| empty_panels(&prometheus, OF_MIXER));
        while !looking.is_finished() {
            for arguments in [&check[..], &refused] {
                run(&programs().path("mixc"), arguments, &[], None, None, DEADLINE).unwrap();
            }
        }
        looking.join().unwrap()
    });
    assert_eq!(empty, Vec::<String>::new());
}

/// Runs promtool, which must succeed.
fn promtool(arguments: &[&str]) {
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    let done = run(Path::new("promtool"), &arguments, &[], None, None, DEADLINE).unwrap_or_else(|error| {
        panic!("this test needs `promtool` ({error}): install Debian's package `prometheus`")
    });
    assert_eq!(done.status, 0, "{arguments:?}: {}{}", done.stdout, done.stderr);
}

fn deployed(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(path).display().to_string()
}

/// Asserts that the server exports every metric of its own that a query names.
fn assert_known(query: &str) {
    use mixer_base::metrics::FAMILIES;
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    for word in words.filter(|w| {
        ["mixer_", "grpc_io_", "process_", "istio_", "bridge_", "ratelimit_"].iter().any(|p| w.starts_with(p))
    }) {
        let family =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
        let known = FAMILIES.iter().any(|f| f.name == word || f.name == family);
        assert!(known, "`{word}` in {query}");
    }
}

#[test]
fn alerts_are_valid_and_fire() {
    let rules = deployed("prometheus/mixer.rules.yml");
    promtool(&["check", "rules", &rules]);
    promtool(&["test", "rules", &deployed("prometheus/mixer.rules.test.yml")]);
    let text = std::fs::read_to_string(&rules).unwrap();
    let document: serde_json::Value = serde_yaml::from_str(&text).unwrap();
    let operations = include_str!("../../docs/operations.md");
    let tested = include_str!("../../deploy/prometheus/mixer.rules.test.yml");
    for rule in document["groups"][0]["rules"].as_array().unwrap() {
        assert_known(rule["expr"].as_str().unwrap());
        let name = rule["alert"].as_str().unwrap();
        assert!(tested.contains(&format!("alertname: {name}\n")), "{name} is tested");
        assert!(operations.contains(&format!("`{name}`")), "docs/operations.md documents {name}");
    }
}

#[test]
fn queries_of_the_dashboard_are_valid() {
    let text = std::fs::read_to_string(deployed("grafana/mixer.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let targets =
        dashboard["panels"].as_array().unwrap().iter().filter_map(|p| p["targets"].as_array()).flatten();
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    let mut count = 0;
    for query in targets.map(|target| target["expr"].as_str().unwrap()) {
        assert_known(query);
        // Grafana substitutes its variables before Prometheus sees the query.
        let query = query.replace("$__rate_interval", "5m");
        count += 1;
        rules +=
            &format!("  - record: panel:{count}\n    expr: {}\n", serde_json::to_string(&query).unwrap());
    }
    assert!(count > 20);
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        assert_known(variable["query"].as_str().unwrap());
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dashboard.yml");
    std::fs::write(&file, rules).unwrap();
    promtool(&["check", "rules", &file.display().to_string()]);
}
