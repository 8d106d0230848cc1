//! Metric names of Mixer 1.0, for existing dashboards: the same values under both names. See docs/metrics.md.

use super::super::exposition::{FamilyKind, FamilyWriter, Labels};
use super::{Family, FamilySample, FamilySamples, HistogramSample, SampleValue};
use crate::rpc_code;

/// Renamed families.
const RENAMED: &[(Family, &str)] = &[
    (Family::CheckCacheEvictions, "mixer_checkcache_cache_evictions"),
    (Family::CheckCacheHits, "mixer_checkcache_cache_hits"),
    (Family::CheckCacheMisses, "mixer_checkcache_cache_misses"),
    (Family::CheckCacheWrites, "mixer_checkcache_cache_writes"),
    (Family::HandlerDaemons, "mixer_handler_daemon_count"),
    (Family::HandlerWorkers, "mixer_handler_worker_count"),
    (Family::RuntimeDispatches, "mixer_runtime_dispatch_count"),
    (Family::RuntimeDispatchDuration, "mixer_runtime_dispatch_duration"),
];

/// Families about the current configuration; Mixer 1.0 labelled them with its id.
const OF_CONFIGURATION: &[(Family, &str)] = &[
    (Family::ConfigAdapterInfos, "mixer_config_adapter_info_config_count"),
    (Family::ConfigAdapterInfoErrors, "mixer_config_adapter_info_config_error_count"),
    (Family::ConfigAttributes, "mixer_config_attribute_count"),
    (Family::ConfigHandlers, "mixer_config_handler_config_count"),
    (Family::ConfigHandlerValidationErrors, "mixer_config_handler_validation_error_count"),
    (Family::ConfigInstances, "mixer_config_instance_config_count"),
    (Family::ConfigInstanceErrors, "mixer_config_instance_config_error_count"),
    (Family::ConfigRules, "mixer_config_rule_config_count"),
    (Family::ConfigRuleErrors, "mixer_config_rule_config_error_count"),
    (Family::ConfigRuleMatchErrors, "mixer_config_rule_config_match_error_count"),
    (Family::ConfigTemplates, "mixer_config_template_config_count"),
    (Family::ConfigTemplateErrors, "mixer_config_template_config_error_count"),
    (Family::ConfigUnsatisfiedActions, "mixer_config_unsatisfied_action_handler_count"),
    (Family::HandlerClosed, "mixer_handler_close_handler_count"),
    (Family::HandlerBuildFailures, "mixer_handler_handler_build_failure_count"),
    (Family::HandlerCloseFailures, "mixer_handler_handler_close_failure_count"),
    (Family::HandlerNew, "mixer_handler_new_handler_count"),
    (Family::HandlerReused, "mixer_handler_reused_handler_count"),
];

/// Buckets of `grpc_server_handling_seconds` that can be derived from the current ones: that of 2.5 s cannot.
const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0];

/// Writes `families` under the names of Mixer 1.0. `configuration` is the id of the current snapshot.
pub(super) fn write(families: &[FamilySamples], configuration: u64, writer: &mut dyn FamilyWriter) {
    let samples = |family: Family| families.iter().find(|found| found.info.name == family.info().name);
    for (family, name) in RENAMED {
        let Some(found) = samples(*family) else { continue };
        let kind = if found.info.kind == FamilyKind::Gauge && name.contains("checkcache") {
            FamilyKind::Counter
        } else {
            found.info.kind
        };
        writer.family(name, found.info.help, kind);
        for sample in &found.samples {
            write_sample(name, found, sample, &Labels::of(&sample.labels), writer);
        }
    }
    let configuration = Labels::of(&[("configID", configuration.to_string())]);
    for (family, name) in OF_CONFIGURATION {
        let Some(found) = samples(*family) else { continue };
        writer.family(name, found.info.help, FamilyKind::Counter);
        for sample in &found.samples {
            write_sample(name, found, sample, &configuration, writer);
        }
    }
    if let Some(found) = samples(Family::RpcsCompleted) {
        write_calls(found, writer);
    }
    if let Some(found) = samples(Family::RpcLatency) {
        write_latency(found, writer);
    }
}

fn write_sample(
    name: &str,
    found: &FamilySamples,
    sample: &FamilySample,
    labels: &Labels,
    writer: &mut dyn FamilyWriter,
) {
    match &sample.value {
        SampleValue::Number(value) => writer.sample(name, labels, *value),
        SampleValue::Histogram(sample) => writer.histogram(name, labels, found.info.bounds, sample),
    }
}

/// The labels of Mixer 1.0 for a method such as `istio.mixer.v1.Mixer/Check`.
fn rpc_labels(sample: &FamilySample) -> Vec<(&'static str, String)> {
    let method = sample.labels.iter().find(|(name, _)| *name == "grpc_server_method");
    let full = method.map_or("", |(_, value)| value.as_str());
    let (service, method) = full.rsplit_once('/').unwrap_or(("", full));
    vec![
        ("grpc_method", method.to_owned()),
        ("grpc_service", service.to_owned()),
        ("grpc_type", "unary".to_owned()),
    ]
}

/// Completed calls. A completed unary call counts once in each of the four families.
fn write_calls(found: &FamilySamples, writer: &mut dyn FamilyWriter) {
    writer.family(
        "grpc_server_handled_total",
        "Total number of RPCs completed on the server.",
        FamilyKind::Counter,
    );
    let mut all: Vec<(Vec<(&'static str, String)>, f64)> = Vec::new();
    for sample in &found.samples {
        let SampleValue::Number(count) = sample.value else { continue };
        let status = sample.labels.iter().find(|(name, _)| *name == "grpc_server_status");
        let code = status.and_then(|(_, name)| rpc_code::camel_name(rpc_code::parse(name)?));
        let labels = rpc_labels(sample);
        match all.iter_mut().find(|(known, _)| *known == labels) {
            Some((_, sum)) => *sum += count,
            None => all.push((labels.clone(), count)),
        }
        let with_code: Vec<_> =
            [("grpc_code", code.unwrap_or("Unknown").to_owned())].into_iter().chain(labels).collect();
        writer.sample("grpc_server_handled_total", &Labels::of(&with_code), count);
    }
    for (name, help) in [
        ("grpc_server_msg_received_total", "Total number of RPC messages received on the server."),
        ("grpc_server_msg_sent_total", "Total number of RPC messages sent by the server."),
        ("grpc_server_started_total", "Total number of RPCs started on the server."),
    ] {
        writer.family(name, help, FamilyKind::Counter);
        for (labels, count) in &all {
            writer.sample(name, &Labels::of(labels), *count);
        }
    }
}

/// Latencies, in seconds.
fn write_latency(found: &FamilySamples, writer: &mut dyn FamilyWriter) {
    let name = "grpc_server_handling_seconds";
    writer.family(
        name,
        "Histogram of response latency (seconds) of RPCs handled by the server.",
        FamilyKind::Histogram,
    );
    for sample in &found.samples {
        let SampleValue::Histogram(HistogramSample { counts, sum, .. }) = &sample.value else { continue };
        let mut coarse = vec![0; SECONDS.len() + 1];
        let bounds = found.info.bounds.iter().map(|millis| millis / 1000.0).chain([f64::INFINITY]);
        for (count, bound) in counts.iter().zip(bounds) {
            let at = SECONDS.iter().position(|coarse| bound <= *coarse + 1e-9).unwrap_or(SECONDS.len());
            if let Some(bucket) = coarse.get_mut(at) {
                *bucket += count;
            }
        }
        let coarse = HistogramSample { counts: coarse, sum: sum / 1000.0, native: None };
        writer.histogram(name, &Labels::of(&rpc_labels(sample)), SECONDS, &coarse);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Metrics;
    use super::*;
    use crate::exposition::Format;

    #[test]
    fn values_are_written_under_the_names_of_mixer_1_0() {
        let metrics = Metrics::new();
        metrics.gauge(Family::ConfigRules, &[]).set(7_u64);
        metrics.gauge(Family::CheckCacheHits, &[]).set(3_u64);
        let check = metrics.rpc("istio.mixer.v1.Mixer/Check");
        for (code, millis) in [(0, 4), (0, 30), (14, 3000), (0, 60_000)] {
            check.record(code, Duration::from_millis(millis), 10, 10);
        }
        let new = String::from_utf8(metrics.page(Format::Text, None)).unwrap();
        assert!(!new.contains("_count{configID"), "not among the current names");
        let text = String::from_utf8(metrics.page(Format::Text, Some(5))).unwrap();
        // The process is another one each time that it is looked at.
        fn families(page: &str) -> Vec<&str> {
            page.lines().filter(|line| line.starts_with("# TYPE ")).collect()
        }
        assert!(families(&text).starts_with(&families(&new)), "current names first");
        let labels = "grpc_method=\"Check\",grpc_service=\"istio.mixer.v1.Mixer\",grpc_type=\"unary\"";
        for line in [
            "# TYPE mixer_config_rule_config_count counter".to_owned(),
            "mixer_config_rule_config_count{configID=\"5\"} 7".to_owned(),
            "# TYPE mixer_checkcache_cache_hits counter".to_owned(),
            "mixer_checkcache_cache_hits 3".to_owned(),
            format!("grpc_server_handled_total{{grpc_code=\"OK\",{labels}}} 3"),
            format!("grpc_server_handled_total{{grpc_code=\"Unavailable\",{labels}}} 1"),
            format!("grpc_server_started_total{{{labels}}} 4"),
            format!("grpc_server_handling_seconds_bucket{{{labels},le=\"0.005\"}} 1"),
            format!("grpc_server_handling_seconds_bucket{{{labels},le=\"0.025\"}} 1"),
            format!("grpc_server_handling_seconds_bucket{{{labels},le=\"0.05\"}} 2"),
            format!("grpc_server_handling_seconds_bucket{{{labels},le=\"1\"}} 2"),
            format!("grpc_server_handling_seconds_bucket{{{labels},le=\"5\"}} 3"),
            format!("grpc_server_handling_seconds_bucket{{{labels},le=\"+Inf\"}} 4"),
            format!("grpc_server_handling_seconds_count{{{labels}}} 4"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let mut names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "each family is written once");
    }
}
