//! Copies of requests: `request_mirror_policies` of routes, virtual hosts and route tables.

use super::reader::{Fields, Message, Value};
use crate::head::is_token_byte;

static POLICY: Message = Message {
    name: "RequestMirrorPolicy",
    unsupported: &["request_headers_mutations", "host_rewrite_literal"],
};
static FRACTION: Message = Message { name: "RuntimeFractionalPercent", unsupported: &[] };
static PERCENT: Message = Message { name: "FractionalPercent", unsupported: &[] };

/// Copies of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorConfig {
    /// Where they go.
    pub cluster: MirrorCluster,
    /// How many of a million requests are copied; more than a million are all.
    pub fraction: u32,
    /// Whether `-shadow` is appended to the name of the host.
    pub marks_host: bool,
}

/// Where copies go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorCluster {
    /// The cluster of this name.
    Name(String),
    /// The cluster whose name is the value of this header, in lower case; without one, nothing is copied.
    Header(String),
}

/// Reads the policies of a message, in order.
pub(super) fn read(holder: &Fields<'_>) -> Vec<MirrorConfig> {
    holder.items("request_mirror_policies").iter().filter_map(read_policy).collect()
}

fn read_policy(value: &Value<'_>) -> Option<MirrorConfig> {
    let policy = value.message(&POLICY)?;
    let named = |name: &str| {
        let written = policy.get(name)?;
        let text = written.text().filter(|text| !text.is_empty())?;
        Some((written, text))
    };
    let cluster = match (named("cluster"), named("cluster_header")) {
        (Some((_, name)), None) => Some(MirrorCluster::Name(name.to_owned())),
        (None, Some((written, header))) => {
            let text = header.strip_prefix(':').unwrap_or(header);
            if text.is_empty() || !text.bytes().all(is_token_byte) {
                written.invalid(format!("`{header}` is not the name of a header"));
            }
            Some(MirrorCluster::Header(header.to_ascii_lowercase()))
        }
        (Some((_, name)), Some((written, header))) => {
            written.invalid(format!(
                "Only one of cluster '{name}' or cluster_header '{header}' in request mirror policy can be specified"
            ));
            None
        }
        (None, None) => {
            policy.required(
                "Exactly one of cluster or cluster_header in request mirror policy need to be specified",
            );
            None
        }
    };
    let fraction = match policy.message("runtime_fraction", &FRACTION) {
        Some(fraction) => read_fraction(fraction),
        None => Some(1_000_000),
    };
    // There is no tracing.
    policy.ignore(&["trace_sampled"]);
    let marks_host = !policy.boolean("disable_shadow_host_suffix_append");
    policy.finish();
    Some(MirrorConfig { cluster: cluster?, fraction: fraction?, marks_host })
}

/// A fraction, in parts of a million. There is no runtime: the default value holds.
fn read_fraction(fraction: Fields<'_>) -> Option<u32> {
    fraction.ignore(&["runtime_key"]);
    let percent = fraction.message("default_value", &PERCENT);
    if fraction.value.node.get("default_value").is_none() && fraction.value.node.get("defaultValue").is_none()
    {
        fraction.required("RuntimeFractionalPercentValidationError.DefaultValue: value is required");
    }
    fraction.finish();
    let percent = percent?;
    let numerator = percent.get("numerator").map_or(Some(0), |value| value.u32());
    let denominators = [("HUNDRED", 0), ("TEN_THOUSAND", 1), ("MILLION", 2)];
    let parts = match percent.get("denominator").map_or(Some(0), |value| value.choice(&denominators)) {
        Some(0) => Some(10_000),
        Some(1) => Some(100),
        Some(_) => Some(1),
        None => None,
    };
    percent.finish();
    Some(numerator?.saturating_mul(parts?))
}
