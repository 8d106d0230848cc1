use std::time::Duration;

use super::*;

fn text(metrics: &Metrics, prefix: &str) -> Vec<String> {
    let mut out = Vec::new();
    metrics.write(&mut out);
    let all = String::from_utf8(out).unwrap();
    let keep = |l: &&str| l.trim_start_matches("# HELP ").trim_start_matches("# TYPE ").starts_with(prefix);
    all.lines().filter(keep).map(str::to_owned).collect()
}

#[test]
fn only_families_with_values_are_written() {
    let metrics = Metrics::new();
    metrics.dispatch("h.ns", "denier", "checknothing");
    metrics.rpc("istio.mixer.v1.Mixer/Check");
    metrics.gauge(Family::ConfigRules, &[]);
    assert_eq!(text(&metrics, "mixer_").len(), 7, "{:?}", text(&metrics, "mixer_")); // mixer_process_{memory_bytes,threads}
    assert_eq!(text(&metrics, "grpc_io"), [""; 0]);
}

#[test]
fn a_gauge_has_its_last_value() {
    let metrics = Metrics::new();
    let gauge = metrics.gauge(Family::ConfigRules, &[]);
    gauge.set(3_u64);
    metrics.gauge(Family::ConfigRules, &[]).set(0_u64);
    metrics.gauge(Family::DispatcherDestinationsPerVariety, &["TEMPLATE_VARIETY_CHECK"]).set(1_u64);
    metrics.set_build("mixer", "unknown");
    assert_eq!(
        text(&metrics, "mixer_config"),
        [
            "# HELP mixer_config_rule_configs_total The number of known rules in the current config.",
            "# TYPE mixer_config_rule_configs_total gauge",
            "mixer_config_rule_configs_total 0",
        ]
    );
    assert_eq!(
        text(&metrics, "mixer_dispatcher").last().unwrap(),
        "mixer_dispatcher_destinations_per_variety_total{variety=\"TEMPLATE_VARIETY_CHECK\"} 1"
    );
    assert_eq!(
        text(&metrics, "istio_build").last().unwrap(),
        "istio_build{component=\"mixer\",tag=\"unknown\"} 1"
    );
    gauge.clear();
    assert_eq!(text(&metrics, "mixer_config"), [""; 0]);
}

#[test]
fn a_zero_is_below_one_but_not_below_zero() {
    let metrics = Metrics::new();
    metrics.dispatch_shape(0, 1);
    metrics.dispatch_shape(1, 25);
    let lines = text(&metrics, "mixer_dispatcher_destinations_per_request");
    let bucket =
        |le: &str, n: u64| format!("mixer_dispatcher_destinations_per_request_bucket{{le=\"{le}\"}} {n}");
    assert_eq!(lines[2..5], [bucket("0", 0), bucket("1", 1), bucket("2", 2)]);
    assert_eq!(lines[lines.len() - 2], "mixer_dispatcher_destinations_per_request_sum 1");
    assert_eq!(lines[lines.len() - 1], "mixer_dispatcher_destinations_per_request_count 2");
    let lines = text(&metrics, "mixer_dispatcher_instances_per_request_bucket");
    assert!(lines.contains(&"mixer_dispatcher_instances_per_request_bucket{le=\"20\"} 1".to_owned()));
    assert!(lines.contains(&"mixer_dispatcher_instances_per_request_bucket{le=\"+Inf\"} 2".to_owned()));
}

#[test]
fn dispatches_are_labelled_by_outcome() {
    let metrics = Metrics::new();
    let dispatch = metrics.dispatch("deny.istio-system", "denier", "checknothing");
    dispatch.record(Duration::from_nanos(6_574), false);
    metrics.dispatch("deny.istio-system", "denier", "checknothing").record(Duration::from_micros(100), false);
    metrics.dispatch("prom.istio-system", "prometheus", "metric").record(Duration::from_secs(20), true);
    assert_eq!(
        text(&metrics, "mixer_runtime_dispatches_total"),
        [
            "# HELP mixer_runtime_dispatches_total Total number of adapter dispatches handled by Mixer.",
            "# TYPE mixer_runtime_dispatches_total counter",
            "mixer_runtime_dispatches_total{adapter=\"denier\",error=\"false\",handler=\"deny.istio-system\",meshFunction=\"checknothing\"} 2",
            "mixer_runtime_dispatches_total{adapter=\"prometheus\",error=\"true\",handler=\"prom.istio-system\",meshFunction=\"metric\"} 1",
        ]
    );
    let labels =
        "adapter=\"denier\",error=\"false\",handler=\"deny.istio-system\",meshFunction=\"checknothing\"";
    let name = "mixer_runtime_dispatch_duration_seconds";
    let lines = text(&metrics, name);
    for (bound, count) in
        [("2.5e-07", 0), ("5e-06", 0), ("1e-05", 1), ("0.0001", 1), ("0.00025", 2), ("10", 2), ("+Inf", 2)]
    {
        let line = format!("{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
        assert!(lines.contains(&line), "{line}: {lines:#?}");
    }
    assert!(lines.contains(&format!("{name}_sum{{{labels}}} 0.000106574")), "{lines:#?}");
    // 25 bounds, no bound, the sum and the count.
    assert_eq!(lines.len(), 2 + 2 * 27);
}

#[test]
fn rpcs_are_counted_by_method_and_status() {
    let metrics = Metrics::new();
    let check = metrics.rpc("istio.mixer.v1.Mixer/Check");
    check.record(0, Duration::from_micros(358), 25, 99);
    check.record(0, Duration::from_micros(9), 5000, 0);
    check.record(99, Duration::from_millis(1), 0, 0);
    let lines = text(&metrics, "grpc_io_server");
    let has = |line: &str| assert!(lines.iter().any(|l| l == line), "{line} in {lines:#?}");
    has(
        "grpc_io_server_completed_rpcs{grpc_server_method=\"istio.mixer.v1.Mixer/Check\",grpc_server_status=\"OK\"} 2",
    );
    has(
        "grpc_io_server_completed_rpcs{grpc_server_method=\"istio.mixer.v1.Mixer/Check\",grpc_server_status=\"UNKNOWN\"} 1",
    );
    has(
        "grpc_io_server_server_latency_bucket{grpc_server_method=\"istio.mixer.v1.Mixer/Check\",le=\"0.01\"} 1",
    );
    has("grpc_io_server_server_latency_sum{grpc_server_method=\"istio.mixer.v1.Mixer/Check\"} 1.367");
    has(
        "grpc_io_server_received_bytes_per_rpc_bucket{grpc_server_method=\"istio.mixer.v1.Mixer/Check\",le=\"1024\"} 2",
    );
    has(
        "grpc_io_server_received_bytes_per_rpc_bucket{grpc_server_method=\"istio.mixer.v1.Mixer/Check\",le=\"1.048576e+06\"} 3",
    );
    has("grpc_io_server_sent_bytes_per_rpc_sum{grpc_server_method=\"istio.mixer.v1.Mixer/Check\"} 99");
}

#[test]
fn sources_are_collected_until_they_are_dropped() {
    struct Source;
    impl Collect for Source {
        fn collect(&self, into: &mut Collected) {
            into.add(Family::CheckCacheHits, &[], 2.0);
            into.add(Family::HandlerDaemons, &["h.ns"], 1.0);
        }
    }
    let metrics = Metrics::new();
    let sources: Vec<Arc<dyn Collect>> = vec![Arc::new(Source), Arc::new(Source)];
    for source in &sources {
        metrics.collect_from(Arc::downgrade(source));
    }
    assert_eq!(text(&metrics, "mixer_checkcache").last().unwrap(), "mixer_checkcache_cache_hits_total 4");
    assert_eq!(
        text(&metrics, "mixer_handler_daemons").last().unwrap(),
        "mixer_handler_daemons_total{handler=\"h.ns\"} 2"
    );
    drop(sources);
    assert_eq!(text(&metrics, "mixer_checkcache"), [""; 0]);
}

#[test]
fn the_text_is_sorted() {
    let metrics = Metrics::new();
    metrics.counter(Family::LoadSheddingThrottled, &[]).increment();
    metrics.conditions_failed(2);
    metrics.conditions_failed(0);
    metrics.header_value_failed();
    let names: Vec<String> = text(&metrics, "")
        .iter()
        .filter_map(|l| Some(l.strip_prefix("# TYPE ")?.split_once(' ')?.0.to_owned()))
        .collect();
    assert!(names.is_sorted(), "{names:?}");
    assert!(names.iter().any(|n| n == "mixer_loadshedding_requests_throttled"));
    assert!(names.iter().any(|n| n == "process_cpu_seconds_total"));
    assert_eq!(
        text(&metrics, "mixer_runtime_condition").last().unwrap(),
        "mixer_runtime_condition_errors_total 2"
    );
}

#[test]
fn limits_and_domains_that_come_and_go_are_forgotten() {
    let metrics = Metrics::new();
    let held = metrics.counter(Family::RatelimitTotalHits, &["shop", "user", ""]);
    held.increment();
    for n in 0..10_000 {
        metrics.counter(Family::RatelimitTotalHits, &["shop", &format!("user_{n}"), ""]).increment();
        metrics.counter(Family::BridgeRateLimits, &[&format!("domain{n}"), "ok"]).increment();
        assert!(metrics.tables.lock().cells.len() < 1500, "after {n}");
    }
    let lines = text(&metrics, "ratelimit_service_rate_limit_total_hits{domain=\"shop\",key1=\"user\"");
    assert_eq!(lines, [r#"ratelimit_service_rate_limit_total_hits{domain="shop",key1="user",key2=""} 1"#]);
}

#[test]
fn names_of_handlers_that_come_and_go_are_forgotten_and_those_in_use_are_not() {
    let metrics = Metrics::new();
    let held: Vec<_> = (0..300).map(|n| metrics.dispatch(&format!("held{n}.ns"), "noop", "quota")).collect();
    held.iter().for_each(|dispatch| dispatch.record(std::time::Duration::from_micros(1), false));
    let counter = metrics.counter(Family::StdioLinesDropped, &["held.ns"]);
    counter.increment();
    for n in 0..10_000 {
        metrics.dispatch(&format!("h{n}.ns"), "noop", "quota");
        metrics.counter(Family::StdioLinesDropped, &[&format!("h{n}.ns")]).increment();
        let tables = metrics.tables.lock();
        assert!(tables.dispatches.len() + tables.cells.len() < 2500, "after {n}");
    }
    let mut text = Vec::new();
    metrics.write(&mut text);
    let text = String::from_utf8(text).unwrap();
    let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(count("mixer_runtime_dispatches_total{"), 300);
    assert_eq!(count("mixer_stdio_lines_dropped_total{handler=\"held.ns\"} 1"), 1);
}
