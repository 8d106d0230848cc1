//! Health checks, outlier detection and the panic threshold.

use std::time::Duration;

use super::*;

fn with_cluster(fields: &str) -> String {
    format!("static_resources:\n  clusters:\n  - name: c\n    {fields}\n")
}

fn with_check(fields: &str) -> String {
    with_cluster(&format!(
        "health_checks: [{{timeout: 1s, interval: 2s, unhealthy_threshold: 3, healthy_threshold: 4, {fields}}}]"
    ))
}

fn cluster(text: &str) -> ClusterConfig {
    let (bootstrap, warnings) = read(text, "b.yaml").unwrap();
    assert_eq!(warnings, []);
    bootstrap.clusters[0].clone()
}

#[test]
fn health_checks_are_read() {
    let check = cluster(&with_check("http_health_check: {path: /a}")).health_check.unwrap();
    let seconds = Duration::from_secs;
    assert_eq!((check.timeout, check.interval), (seconds(1), seconds(2)));
    assert_eq!((check.unhealthy_threshold, check.healthy_threshold), (3, 4));
    assert_eq!((check.no_traffic_interval, check.no_traffic_healthy_interval), (seconds(60), seconds(60)));
    assert_eq!((check.unhealthy_interval, check.unhealthy_edge_interval), (seconds(2), seconds(2)));
    assert_eq!((check.healthy_edge_interval, check.reuses_connection, check.port), (seconds(2), true, None));
    let CheckKind::Http(http) = check.kind else { panic!("a request") };
    assert_eq!((http.method.as_str(), http.path.as_str(), http.host), ("GET", "/a", None));
    assert_eq!(http.expected, [(200, 201)]);
    let text = with_check(
        "altPort: 9, unhealthy_interval: 7s, reuse_connection: false, http_health_check: {path: '/a?b', host: 'h:1', method: POST, expected_statuses: [{start: 100, end: 600}], request_headers_to_add: [{header: {key: X-A, value: b}}]}",
    );
    let check = cluster(&text).health_check.unwrap();
    assert_eq!(
        (check.port, check.unhealthy_edge_interval, check.reuses_connection),
        (Some(9), seconds(7), false)
    );
    let CheckKind::Http(http) = &check.kind else { panic!("a request") };
    let mut head = http.request("c").unwrap();
    crate::http::edit_request(&mut head, [&http.edits]);
    let mut written = Vec::new();
    head.write_request(&mut written);
    assert_eq!(
        String::from_utf8(written).unwrap(),
        "POST /a?b HTTP/1.1\r\nhost: h:1\r\nuser-agent: Envoy/HC\r\ncontent-length: 0\r\nx-a: b\r\n"
    );
    let tcp = cluster(&with_check("tcp_health_check: {send: {text: '00fF'}, receive: [{binary: AQI=}]}"));
    let expected = TcpCheck { send: vec![0, 255], receive: vec![vec![1, 2]] };
    assert_eq!(tcp.health_check.unwrap().kind, CheckKind::Tcp(expected));
    let grpc = cluster(&with_check("grpc_health_check: {service_name: s}")).health_check.unwrap();
    assert_eq!(grpc.kind, CheckKind::Grpc(GrpcCheck { service: "s".to_owned(), authority: None }));
}

#[test]
fn outlier_detection_and_the_panic_threshold_are_read() {
    let config = cluster(&with_cluster("outlier_detection: {}"));
    let outlier = config.outlier.unwrap();
    assert_eq!(
        (outlier.interval, outlier.base_ejection_time),
        (Duration::from_secs(10), Duration::from_secs(30))
    );
    assert_eq!((outlier.max_ejection_time, outlier.max_ejection_percent), (Duration::from_secs(300), 10));
    assert_eq!((outlier.enforcing_5xx, outlier.enforcing_gateway_failures), (100, 0));
    assert_eq!((outlier.success_rate_factor, outlier.check_unejects), (1900, true));
    assert!((config.panic_threshold - 50.0).abs() < 1e-9);
    let long = cluster(&with_cluster("outlier_detection: {base_ejection_time: 400s}")).outlier.unwrap();
    assert_eq!(long.max_ejection_time, Duration::from_secs(400));
    for (text, expected) in [("{value: 12.5}", 12.5), ("{}", 0.0), ("{value: 100}", 100.0)] {
        let config =
            cluster(&with_cluster(&format!("common_lb_config: {{healthy_panic_threshold: {text}}}")));
        assert!((config.panic_threshold - expected).abs() < 1e-9, "{text}");
    }
}

#[test]
fn what_is_not_valid_or_not_supported_is_refused_by_its_place() {
    let check = "static_resources.clusters[0].health_checks[0]";
    for (text, path, message) in [
        (with_check("event_log_path: /x, tcp_health_check: {}"), ".event_log_path", "is not supported"),
        (with_check("event_logger: [], tcp_health_check: {}"), ".event_logger", "is not supported"),
        (with_check("custom_health_check: {name: x}"), ".custom_health_check", "is not supported"),
        (with_check("no_traffic_interval: 1s"), "", "field: \"health_checker\", reason: is required"),
        (with_check("http_health_check: {}"), ".http_health_check", "HttpHealthCheckValidationError.Path"),
        (with_check("http_health_check: {path: 'a b'}"), ".http_health_check", "are no valid request"),
        (
            with_check("http_health_check: {path: /, host: 'a b'}"),
            ".http_health_check",
            "are no valid request",
        ),
        (
            with_check("http_health_check: {path: /, expected_statuses: [{start: 99, end: 200}]}"),
            ".http_health_check.expected_statuses[0]",
            "Invalid http status range",
        ),
        (
            with_check("http_health_check: {path: /, codec_client_type: HTTP2}"),
            ".http_health_check.codec_client_type",
            "is not supported",
        ),
        (
            with_check("tcp_health_check: {send: {text: abc}}"),
            ".tcp_health_check.send.text",
            "invalid hex string",
        ),
        (with_check("tcp_health_check: {send: {binary: '*'}}"), ".tcp_health_check.send.binary", "base64"),
        (with_check("tcp_health_check: {receive: [{}]}"), ".tcp_health_check.receive[0]", "is required"),
        (
            with_check("tcp_health_check: {}, interval_jitter_percent: x"),
            ".interval_jitter_percent",
            "whole number",
        ),
        (
            with_cluster("health_checks: [{interval: 1s, tcp_health_check: {}}]"),
            "",
            "HealthCheckValidationError.Timeout: value is required",
        ),
    ] {
        let found = problem(&text);
        assert_eq!(
            (found.2, found.3.contains(message)),
            (format!("{check}{path}"), true),
            "{text}: {}",
            found.3
        );
    }
    for (text, path, message) in [
        (
            with_cluster("type: ORIGINAL_DST\n    lb_policy: CLUSTER_PROVIDED\n    outlier_detection: {}"),
            "outlier_detection",
            "of a cluster of type ORIGINAL_DST is not supported",
        ),
        (
            with_cluster("outlier_detection: {max_ejection_percent: 101}"),
            "outlier_detection.max_ejection_percent",
            "less than or equal to 100",
        ),
        (with_cluster("outlier_detection: {monitors: []}"), "outlier_detection.monitors", "is not supported"),
        (with_cluster("outlier_detection: {interval: 0s}"), "outlier_detection.interval", "greater than 0s"),
        (
            with_cluster("common_lb_config: {healthy_panic_threshold: {value: 101}}"),
            "common_lb_config.healthy_panic_threshold.value",
            "inside range",
        ),
        (
            with_cluster("common_lb_config: {update_merge_window: 1s}"),
            "common_lb_config.update_merge_window",
            "is not supported",
        ),
    ] {
        let found = problem(&text);
        let path = format!("static_resources.clusters[0].{path}");
        assert_eq!((found.2, found.3.contains(message)), (path, true), "{text}: {}", found.3);
    }
}
