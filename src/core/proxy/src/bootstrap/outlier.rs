//! Outlier detection of clusters, and the panic threshold.

use std::time::Duration;

use mixer_config::NodeKind;

use super::reader::{Fields, Message, Value};

static OUTLIER: Message =
    Message { name: "OutlierDetection", unsupported: &["monitors", "detect_degraded_hosts"] };
static COMMON: Message = Message {
    name: "CommonLbConfig",
    unsupported: &[
        "zone_aware_lb_config",
        "locality_weighted_lb_config",
        "update_merge_window",
        "ignore_new_hosts_until_first_hc",
        "close_connections_on_host_set_change",
        "consistent_hashing_lb_config",
        "override_host_status",
    ],
};
static PERCENT: Message = Message { name: "Percent", unsupported: &[] };

/// Healthy hosts of 100 below which all get requests.
const PANIC_THRESHOLD: f64 = 50.0;

/// Which hosts are outliers, and for how long they get no requests. Defaults are those of Envoy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlierConfig {
    /// Time between two comparisons of rates, and between two looks at ejected hosts.
    pub interval: Duration,
    /// How long the first ejection lasts; later ones last longer.
    pub base_ejection_time: Duration,
    /// The longest ejection.
    pub max_ejection_time: Duration,
    /// A random time up to this is added to each ejection.
    pub max_ejection_jitter: Duration,
    /// Hosts that may be ejected, in percent.
    pub max_ejection_percent: u32,
    /// Whether one host may be ejected whatever share of the hosts that is.
    pub always_ejects_one: bool,
    /// Responses of 500 to 599 in a row.
    pub consecutive_5xx: u32,
    /// Ejections of 100 detections of this kind, as of the following ones.
    pub enforcing_5xx: u32,
    /// Responses of 502 to 504 in a row.
    pub consecutive_gateway_failures: u32,
    /// As above.
    pub enforcing_gateway_failures: u32,
    /// Whether failures that the proxy itself saw are not counted as responses.
    pub splits_origins: bool,
    /// Failures in a row that the proxy itself saw.
    pub consecutive_local_failures: u32,
    /// As above.
    pub enforcing_local_failures: u32,
    /// Hosts with enough requests that a comparison of success rates needs.
    pub success_rate_hosts: usize,
    /// Requests of an interval that a success rate needs.
    pub success_rate_volume: u64,
    /// Standard deviations below the average that make an outlier, in thousandths.
    pub success_rate_factor: u32,
    /// As above: of responses, and of what the proxy itself saw.
    pub enforcing_success_rate: [u32; 2],
    /// Failures of 100 requests that make an outlier.
    pub failure_percentage: u32,
    /// As above: of responses, and of what the proxy itself saw.
    pub enforcing_failure_percentage: [u32; 2],
    /// Hosts with enough requests that this needs.
    pub failure_percentage_hosts: usize,
    /// Requests of an interval that this needs.
    pub failure_percentage_volume: u64,
    /// Whether a successful active health check ends an ejection.
    pub check_unejects: bool,
}

/// The outlier detection of a cluster.
pub(super) fn read(cluster: &Fields<'_>) -> Option<OutlierConfig> {
    let outlier = cluster.message("outlier_detection", &OUTLIER)?;
    let positive = |name: &str, field: &str, default: u64| match outlier.get(name) {
        Some(value) => {
            let time = value.duration();
            if time.is_some_and(|time| time.is_zero()) {
                value.invalid(format!(
                    "OutlierDetectionValidationError.{field}: value must be greater than 0s"
                ));
            }
            time.unwrap_or(Duration::from_secs(default))
        }
        None => Duration::from_secs(default),
    };
    let number =
        |name: &str, default: u32| outlier.get(name).and_then(|value| value.u32()).unwrap_or(default);
    let percent = |name: &str, field: &str, default: u32| match outlier.get(name) {
        Some(value) => {
            let number = value.u32();
            if number.is_some_and(|number| number > 100) {
                value.invalid(format!(
                    "OutlierDetectionValidationError.{field}: value must be less than or equal to 100"
                ));
            }
            number.unwrap_or(default)
        }
        None => default,
    };
    let size = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let base = positive("base_ejection_time", "BaseEjectionTime", 30);
    let written_max = outlier.get("max_ejection_time").is_some();
    let max = positive("max_ejection_time", "MaxEjectionTime", 300);
    if written_max && max < base {
        outlier.required("max_ejection_time must be at least base_ejection_time");
    }
    let config = OutlierConfig {
        interval: positive("interval", "Interval", 10),
        base_ejection_time: base,
        max_ejection_time: max.max(base),
        max_ejection_jitter: outlier.duration("max_ejection_time_jitter").unwrap_or_default(),
        max_ejection_percent: percent("max_ejection_percent", "MaxEjectionPercent", 10),
        always_ejects_one: outlier.boolean("always_eject_one_host"),
        consecutive_5xx: number("consecutive_5xx", 5),
        enforcing_5xx: percent("enforcing_consecutive_5xx", "EnforcingConsecutive_5Xx", 100),
        consecutive_gateway_failures: number("consecutive_gateway_failure", 5),
        enforcing_gateway_failures: percent(
            "enforcing_consecutive_gateway_failure",
            "EnforcingConsecutiveGatewayFailure",
            0,
        ),
        splits_origins: outlier.boolean("split_external_local_origin_errors"),
        consecutive_local_failures: number("consecutive_local_origin_failure", 5),
        enforcing_local_failures: percent(
            "enforcing_consecutive_local_origin_failure",
            "EnforcingConsecutiveLocalOriginFailure",
            100,
        ),
        success_rate_hosts: size(number("success_rate_minimum_hosts", 5)),
        success_rate_volume: number("success_rate_request_volume", 100).into(),
        success_rate_factor: number("success_rate_stdev_factor", 1900),
        enforcing_success_rate: [
            percent("enforcing_success_rate", "EnforcingSuccessRate", 100),
            percent("enforcing_local_origin_success_rate", "EnforcingLocalOriginSuccessRate", 100),
        ],
        failure_percentage: percent("failure_percentage_threshold", "FailurePercentageThreshold", 85),
        enforcing_failure_percentage: [
            percent("enforcing_failure_percentage", "EnforcingFailurePercentage", 0),
            percent("enforcing_failure_percentage_local_origin", "EnforcingFailurePercentageLocalOrigin", 0),
        ],
        failure_percentage_hosts: size(number("failure_percentage_minimum_hosts", 5)),
        failure_percentage_volume: number("failure_percentage_request_volume", 50).into(),
        check_unejects: outlier
            .get("successful_active_health_check_uneject_host")
            .is_none_or(|value| value.boolean() != Some(false)),
    };
    outlier.finish();
    Some(config)
}

/// The panic threshold of a cluster, in percent.
pub(super) fn read_panic_threshold(cluster: &Fields<'_>) -> f64 {
    let Some(common) = cluster.message("common_lb_config", &COMMON) else { return PANIC_THRESHOLD };
    let threshold = common.message("healthy_panic_threshold", &PERCENT);
    common.finish();
    let Some(percent) = threshold else { return PANIC_THRESHOLD };
    let value = percent.get("value");
    percent.finish();
    value.and_then(|value| read_percent(&value)).unwrap_or(0.0)
}

fn read_percent(value: &Value<'_>) -> Option<f64> {
    let number = match &value.node.kind {
        NodeKind::Int(number) => *number as f64,
        NodeKind::Float(number) => *number,
        _ => return value.number(100).map(|number| number as f64),
    };
    if !(0.0..=100.0).contains(&number) {
        value.invalid("PercentValidationError.Value: value must be inside range [0, 100]");
        return None;
    }
    Some(number)
}
