//! The proxy and `mixer server` together.

use crate::fixture::{Setup, header, read_answer};
use crate::support::{Server, put};

/// Denies `/closed`, changes headers of `/beta`, and limits everybody to ten requests.
const POLICY: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec:
  attributes:
    request.path: {valueType: STRING}
    request.headers: {valueType: STRING_MAP}
    source.namespace: {valueType: STRING}
    destination.namespace: {valueType: STRING}
    context.reporter.kind: {valueType: STRING}
    context.protocol: {valueType: STRING}
    response.code: {valueType: INT64}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: requests, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {path: request.path}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: seen, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: "1", dimensions: {path: request.path, code: response.code | 0}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: deny, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7, message: closed}, validDuration: 60s, validUseCount: 100}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: limit, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: requests.instance.istio-system, maxAmount: 10, validDuration: 3600s}]}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: count, namespace: istio-system}
spec:
  compiledAdapter: prometheus
  params: {metrics: [{name: seen_total, instanceName: seen.instance.istio-system, kind: COUNTER, labelNames: [path, code]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: closed, namespace: istio-system}
spec: {match: request.path == "/closed", actions: [{handler: deny, instances: [nothing]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: beta, namespace: istio-system}
spec:
  match: (request.headers["x-beta"] | "") == "yes"
  requestHeaderOperations: [{name: x-told, values: ['"by mixer"'], operation: REPLACE}]
  responseHeaderOperations: [{name: x-answered, values: ['"beta"'], operation: APPEND}]
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: limited, namespace: istio-system}
spec: {actions: [{handler: limit, instances: [requests]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: counted, namespace: istio-system}
spec: {match: context.protocol == "http", actions: [{handler: count, instances: [seen]}]}
"#;

#[test]
fn policies_quotas_and_reports_of_a_server() {
    let directory = tempfile::tempdir().unwrap();
    put(&directory.path().join("policy.yaml"), POLICY);
    let server = Server::on(directory.path()).start();
    let filter = "{default_destination_service: all, service_configs: {all: {quota_spec: [{rules: [\
        {match: [{clause: {request.path: {exact: /limited}}}], quotas: [{quota: requests, charge: 1}]}]}]}}}";
    let address = server.address().parse().unwrap();
    let proxy = Setup { filter, ..Setup::to(address) }.http();
    for _ in 0..5 {
        let refused = proxy.get("/closed", &[]);
        assert_eq!(refused.status, 403);
        assert!(
            refused.body.starts_with("PERMISSION_DENIED:") && refused.body.ends_with("closed"),
            "{}",
            refused.body
        );
    }
    let of = |name: &str| proxy.stat(&format!("http_mixer_filter.total_{name}"));
    assert_eq!((of("check_calls"), of("remote_check_calls"), of("check_cache_hit_denies")), (5, 1, 4));
    let beta = proxy.get("/open", &[("x-beta", "yes")]);
    assert_eq!((beta.status, header(&beta, "x-answered")), (200, Some("beta")));
    assert!(proxy.host.last_head().contains("x-told: by mixer\r\n"));
    let plain = proxy.get("/open", &[]);
    assert_eq!((plain.status, header(&plain, "x-answered")), (200, None));
    let passed = (0..20).filter(|_| proxy.get("/limited", &[]).status == 200).count();
    assert!((7..=13).contains(&passed), "{passed}");
    proxy.assert_identities("http");
    proxy.stop();
    // The last batch is sent at the end.
    let seen = crate::support::wait_for(crate::support::DEADLINE, || {
        let metrics =
            crate::support::http("GET", &format!("http://127.0.0.1:{}/metrics", server.ports.metrics), "");
        let sum: f64 = metrics
            .ok()?
            .body
            .lines()
            .filter(|line| line.contains("seen_total{"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        (sum >= 27.0).then_some(sum)
    });
    assert_eq!(seen, Some(27.0), "every request is reported once");
}

#[test]
fn a_server_takes_what_the_filter_lets_through() {
    let directory = tempfile::tempdir().unwrap();
    put(&directory.path().join("policy.yaml"), POLICY);
    let server = Server::on(directory.path()).start();
    let manager = "common_http_protocol_options: {max_headers_count: 1000}";
    let address = server.address().parse().unwrap();
    let proxy = Setup { manager, ..Setup::to(address) }.http();
    let parameters: String = (0..1000).map(|number| format!("&name{number}=value{number}")).collect();
    let headers: String = (0..280).map(|number| format!("header{number}: text{number}\r\n")).collect();
    let head = |path: &str| format!("GET {path}?{} HTTP/1.1\r\nhost: a\r\n{headers}\r\n", &parameters[1..]);
    assert_eq!(read_answer(&mut proxy.send(&head("/open"))).0, 200);
    assert_eq!(read_answer(&mut proxy.send(&head("/closed"))).0, 200, "request.path has the query");
    assert_eq!(proxy.stat("http_mixer_filter.total_remote_check_accepts"), 2);
    assert_eq!(proxy.stat("http_mixer_filter.total_check_oversized"), 0);
    assert_eq!(proxy.stat("http_mixer_filter.total_remote_call_other_errors"), 0);
    let reported = || (proxy.stat("http_mixer_filter.total_remote_report_successes") >= 1).then_some(());
    crate::support::wait_for(crate::support::DEADLINE, reported).expect("reports are taken as well");
    assert_eq!(proxy.stat("http_mixer_filter.total_remote_report_other_errors"), 0);
}
