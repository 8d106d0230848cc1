//! Submits metrics to an HTTP trap of Circonus.
//!
//! Reports add to the values of their metrics, which a task hands to a delivery at every interval. While the trap is away, values go on adding
//! up instead of waiting one by one: memory is bounded by the number of metrics, and no count is lost.
//!
//! Values are those of Istio Mixer 1.3: a counter counts instances, whatever their value.

#[cfg(feature = "adapter-circonus")]
mod handler;
#[cfg(feature = "adapter-circonus")]
mod trap;
#[cfg(feature = "adapter-circonus")]
mod value;

use mixer_attribute::{SignedDuration, ValueType};
use mixer_base::secrets::MASKED;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BackendAddress, Backends, BoundInstance, BuildError, Env, Handler, NOT_BUILT,
};

use crate::go_url::check_request_uri;
use crate::url::has_host;

/// The scheme of an agent behind a Unix socket, and what is between the socket and the id of the check.
const UNIX: &str = "http+unix://";
const WRITE: &str = "/write/";

mixer_config::message_enum! {
    /// The type of a metric.
    pub enum MetricType: "adapter.circonus.config.Params_MetricInfo_Type" {
        /// Nothing is submitted.
        0 "UNKNOWN" Unknown;
        /// The number of instances.
        1 "COUNTER" Counter;
        /// The last value.
        2 "GAUGE" Gauge;
        /// A histogram of durations.
        3 "DISTRIBUTION" Distribution;
    }
}

mixer_config::message! {
    /// How an instance becomes a metric.
    pub struct MetricInfo: "adapter.circonus.config.Params_MetricInfo" {
        /// The full name of the instance, also that of the metric.
        1 name: String = String::new();
        /// Its type.
        2 kind as "type": MetricType = MetricType::Unknown;
    }
}

mixer_config::message! {
    /// Parameters of the circonus adapter.
    pub struct Params: "adapter.circonus.config.Params" {
        /// URL of the trap: `http://…`, `https://…`, or `http+unix://SOCKET/write/ID` of an agent.
        1 submission_url: String = String::new();
        /// How often values are submitted; at least a second.
        2 submission_interval: SignedDuration = SignedDuration::from_secs(10);
        /// Every metric instance that rules send to the handler.
        3 metrics: Vec<MetricInfo> = Vec::new();
        /// File with the URL, instead of the URL. Not in Istio Mixer, as all that follow.
        1000 submission_url_file: String = String::new();
        /// Environment variable with the URL, instead of the URL.
        1001 submission_url_environment: String = String::new();
        /// File with the trusted roots for HTTPS, PEM; empty: those of the system.
        1002 ca_file: String = String::new();
    }
}

impl Params {
    /// The type of a metric. Of two with one name the last one counts.
    fn kind_of(&self, name: &str) -> Option<MetricType> {
        self.metrics.iter().rev().find(|metric| metric.name == name).map(|metric| metric.kind)
    }
}

/// Whether a URL can be that of a trap.
fn is_trap(url: &str) -> bool {
    match url.strip_prefix(UNIX) {
        Some(rest) => {
            rest.rsplit_once(WRITE).is_some_and(|(socket, id)| socket.starts_with('/') && !id.is_empty())
        }
        None => has_host(url),
    }
}

/// Whether a text is nothing that could have a secret: empty, or words.
fn is_prose(url: &str) -> bool {
    url.is_empty() || (url.contains(' ') && !url.contains([':', '/', '@', '?', '%']))
}

/// What Go says of a URL, without the URL and the parts of it that are quoted: its path is a secret.
fn without_url(why: &str) -> String {
    let cause = why.rsplit_once("\": ").map_or(why, |(_, cause)| cause);
    let cause = match (cause.find('"'), cause.rfind('"')) {
        (Some(first), Some(last)) => {
            let [before, after] = [cause.get(..first), cause.get(last + 1..)].map(Option::unwrap_or_default);
            format!("{before}\"{MASKED}\"{after}")
        }
        _ => cause.to_owned(),
    };
    format!("parse \"{MASKED}\": {cause}")
}

/// The adapter.
pub(crate) struct Circonus;

impl Adapter for Circonus {
    const INFO: AdapterInfo =
        AdapterInfo { name: "circonus", about: "Emit metrics to Circonus", templates: &["metric"] };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        let field = |name: &str| FieldPath::root().field(name);
        let wrong = |path: FieldPath, text: String| Diagnostic::error("adapter-config", path, text);
        let hint = "for example https://trap.noit.circonus.net/module/httptrap/CHECK/SECRET";
        let elsewhere = [&params.submission_url_file, &params.submission_url_environment];
        let elsewhere = elsewhere.iter().filter(|text| !text.is_empty()).count();
        let url = &params.submission_url;
        if elsewhere + usize::from(!url.is_empty()) > 1 {
            let text = "the handler will not be built: there is more than one submission URL";
            let problem = Diagnostic::error(NOT_BUILT, field("submissionUrl"), text);
            problems.push(
                problem.with_hint(
                    "set only one of submissionUrl, submissionUrlFile and submissionUrlEnvironment",
                ),
            );
        } else if elsewhere == 0 {
            if let Err(why) = check_request_uri(url) {
                let why = if is_prose(url) { why } else { without_url(&why) };
                problems
                    .push(wrong(field("submissionUrl"), format!("submission_url: {why}")).with_hint(hint));
            } else if !is_trap(url) {
                let text = format!(
                    "the handler will not be built: `{MASKED}` is not http://HOST, https://HOST or {UNIX}SOCKET{WRITE}ID"
                );
                problems.push(Diagnostic::error(NOT_BUILT, field("submissionUrl"), text).with_hint(hint));
            }
        }
        for instance in instances {
            let name = &*instance.name;
            let value = instance.position("value").and_then(|at| instance.leaves.get(at));
            let value = value.map_or(ValueType::Unspecified, |leaf| leaf.value_type);
            let wanted = match params.kind_of(name) {
                None => {
                    let text = format!("metrics: missing metric configuration {name}");
                    problems.push(wrong(field("metrics"), text));
                    continue;
                }
                Some(MetricType::Unknown) => {
                    let text = format!("nothing is submitted for {name}: it has no type");
                    problems.push(Diagnostic::warning("adapter-config", field("metrics"), text));
                    continue;
                }
                Some(MetricType::Counter) => continue,
                Some(MetricType::Gauge) => ValueType::Int64,
                Some(MetricType::Distribution) => ValueType::Duration,
            };
            if value != wanted {
                let text = format!(
                    "the value of {name} is no {} but a {}: 0 is submitted",
                    wanted.name(),
                    value.name()
                );
                problems.push(Diagnostic::warning("adapter-config", field("metrics"), text));
            }
        }
        for (at, metric) in params.metrics.iter().enumerate() {
            let is_last = params.metrics.iter().skip(at + 1).all(|other| other.name != metric.name);
            if is_last && instances.iter().all(|instance| *instance.name != *metric.name) {
                let text = format!("metrics: missing metric type for {}", metric.name);
                problems.push(wrong(field("metrics").index(at), text));
            }
        }
        if params.submission_interval < SignedDuration::from_secs(1) {
            let text = "submission_interval: submission_interval must be at least 1 second";
            problems.push(wrong(field("submissionInterval"), text.to_owned()));
        }
        #[cfg(not(feature = "adapter-circonus"))]
        crate::left_out::diagnose("circonus", problems);
    }

    fn backends(params: &Params) -> Backends {
        #[cfg(feature = "adapter-circonus")]
        if let Ok(url) = handler::url(params) {
            return Backends::Addresses(vec![BackendAddress::Url(url.last().expose().to_owned())]);
        }
        Backends::Addresses(vec![BackendAddress::Url(params.submission_url.clone())])
    }

    #[cfg(feature = "adapter-circonus")]
    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        Ok(Box::new(handler::CirconusHandler::start(&params, &instances, &env)?))
    }

    #[cfg(not(feature = "adapter-circonus"))]
    async fn build(_: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Err(crate::left_out::refusal("circonus"))
    }
}

#[cfg(test)]
#[cfg(feature = "adapter-circonus")]
mod tests;
