//! Problems of parameters.

use mixer_attribute::ValueType;
use mixer_base::secrets::mask_address;
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{BoundInstance, NOT_BUILT};

use super::Params;
use crate::address;
use crate::go_template::GoTemplate;
use crate::url::has_host;

/// Most measurements that AppOptics takes at once.
pub(super) const MOST: i32 = 1000;
/// What Istio Mixer looks for in the address.
const PATTERN: &str = r"logs\d+.papertrailapp.com\:\d{3,5}";

fn root(field: &str) -> FieldPath {
    FieldPath::root().field(field)
}

pub(super) fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
    let wrong = |path: FieldPath, text: String| Diagnostic::error("adapter-config", path, text);
    if !(0..=MOST).contains(&params.appoptics_batch_size) {
        let text = "appoptics_batch_size: appoptics batch size provided is not in the range from 1 to 1000";
        problems.push(wrong(root("appopticsBatchSize"), text.to_owned()));
    }
    if !params.papertrail_url.is_empty() && !is_papertrail(&params.papertrail_url) {
        let url = mask_address(&params.papertrail_url);
        let text = format!(
            "paper_trail_url: papertrail url provided is invalid: {url}. It did not match the pattern: {PATTERN}"
        );
        let hint = "`papertrailAddress` takes the address of any syslog server";
        problems.push(wrong(root("papertrailUrl"), text).with_hint(hint));
    }
    let bound = |template: &'static str| instances.iter().filter(move |one| one.template.name == template);
    let unknown = |path: FieldPath, text: String, name: &str, template: &'static str| {
        let hint = suggestion(name, bound(template).map(|one| &*one.name));
        let hint = hint.unwrap_or_else(|| "no rule sends it here; the full name is needed".to_owned());
        wrong(path, text).with_hint(hint)
    };
    for (name, info) in &params.metrics {
        let path = root("metrics").key(name);
        let Some(instance) = bound("metric").find(|one| *one.name == **name) else {
            let text = format!("metrics: {name} is an invalid metric instance name");
            problems.push(unknown(path, text, name, "metric"));
            continue;
        };
        for label in &info.label_names {
            if instance.entries("dimensions").all(|(key, _)| key != label) {
                let text = format!("metric label: {label} is an invalid metric label name");
                let hint = suggestion(label, instance.entries("dimensions").map(|(key, _)| key));
                let hint = hint.unwrap_or_else(|| "labels are dimensions of the instance".to_owned());
                problems.push(wrong(path.clone().field("labelNames"), text).with_hint(hint));
            }
        }
        let value = instance.position("value").and_then(|at| instance.leaves.get(at));
        let value = value.map_or(ValueType::Unspecified, |leaf| leaf.value_type);
        if !matches!(value, ValueType::Int64 | ValueType::Double | ValueType::Duration | ValueType::String) {
            let text = format!("the value of {name} is no number but a {}: 0 is sent", value.name());
            problems.push(Diagnostic::warning("adapter-config", path, text));
        }
    }
    for (name, info) in &params.logs {
        let path = root("logs").key(name);
        if bound("logentry").all(|one| *one.name != **name) {
            let text = format!("metrics: {name} is an invalid logentry instance name");
            problems.push(unknown(path.clone(), text, name, "logentry"));
        }
        if let Err(why) = GoTemplate::parse(name, &info.payload_template) {
            let text = format!("the handler will not be built: {why}");
            let problem = Diagnostic::error(NOT_BUILT, path.field("payloadTemplate"), text);
            problems.push(problem.accepted_by_istio());
        }
    }
    targets(params, problems);
    for instance in instances {
        let (name, field) = (&*instance.name, &*instance.template.name);
        let text = match field {
            "metric" if params.tokens().next().is_some() && !params.metrics.contains_key(name) => {
                format!("{name} has no entry in `metrics`, and is not sent")
            }
            "logentry" if params.log_address().is_some() && !params.logs.contains_key(name) => {
                format!("{name} has no entry in `logs`, and fails its reports")
            }
            _ => continue,
        };
        let path = root(if field == "metric" { "metrics" } else { "logs" });
        problems.push(
            Diagnostic::warning("adapter-config", path, text)
                .with_hint("add an entry, which may be empty: `{}`"),
        );
    }
}

/// Where everything is sent.
fn targets(params: &Params, problems: &mut Diagnostics) {
    let not_built = |path: FieldPath, why: String, hint: &str| {
        Diagnostic::error(NOT_BUILT, path, format!("the handler will not be built: {why}")).with_hint(hint)
    };
    if let Some(address) = params.log_address() {
        let is_valid = address::split(address)
            .is_ok_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
        if !is_valid {
            let field =
                if params.papertrail_address.is_empty() { "papertrailUrl" } else { "papertrailAddress" };
            let why = format!("`{}` is not HOST:PORT", mask_address(address));
            problems.push(not_built(root(field), why, "for example logs1.papertrailapp.com:12345"));
        }
    }
    match params.tokens().count() {
        0 => {
            if params.log_address().is_none() {
                let text =
                    "nothing is sent: there is neither a token of AppOptics nor an address of Papertrail";
                problems.push(Diagnostic::warning("adapter-config", FieldPath::root(), text));
            }
        }
        1 if has_host(&params.appoptics_url) => {}
        1 => {
            let why = format!("`{}` is not http://HOST or https://HOST", mask_address(&params.appoptics_url));
            problems.push(not_built(
                root("appopticsUrl"),
                why,
                "for example https://api.appoptics.com/v1/measurements",
            ));
        }
        _ => {
            let why = "there is more than one token of AppOptics".to_owned();
            let hint = "set only one of appopticsAccessToken, appopticsAccessTokenFile and \
                        appopticsAccessTokenEnvironment";
            problems.push(not_built(FieldPath::root(), why, hint));
        }
    }
}

/// Whether the text has a match of [`PATTERN`], in which a dot is any character.
fn is_papertrail(text: &str) -> bool {
    const NAME: &str = "papertrailapp";
    let after_any = |text: &str| {
        let mut rest = text.chars();
        rest.next().filter(|c| *c != '\n').map(|_| rest.as_str().to_owned())
    };
    text.match_indices(NAME).any(|(at, _)| {
        let mut before = text.get(..at).unwrap_or_default().chars();
        let has_any = before.next_back().is_some_and(|c| c != '\n');
        let before = before.as_str();
        let number = before.trim_end_matches(|c: char| c.is_ascii_digit());
        let port = after_any(text.get(at + NAME.len()..).unwrap_or_default());
        let port = port.as_deref().and_then(|rest| rest.strip_prefix("com:"));
        let digits = port.map_or(0, |port| port.bytes().take_while(u8::is_ascii_digit).count());
        has_any && number.len() < before.len() && number.ends_with("logs") && digits >= 3
    })
}

#[cfg(test)]
mod tests {
    use super::is_papertrail;

    #[test]
    fn addresses_of_papertrail_match_the_pattern() {
        for address in [
            "logs1.papertrailapp.com:19320",
            "logs12papertrailappXcom:123456",
            "x logs7.papertrailapp.com:514/",
            "papertrailapp logs7.papertrailapp.com:514",
        ] {
            assert!(is_papertrail(address), "{address}");
        }
        for address in [
            "",
            "example.com:1",
            "logs.papertrailapp.com:19320",
            "logs1papertrailapp.com:19320",
            "logs1.papertrailapp.com:19",
            "logs1.papertrailapp.com",
            "logs1\npapertrailapp.com:19320",
            "1.papertrailapp.com:19320",
        ] {
            assert!(!is_papertrail(address), "{address}");
        }
    }
}
