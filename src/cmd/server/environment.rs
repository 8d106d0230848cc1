//! Settings in environment variables: `MIXER_` and the name of the flag.

use std::ffi::OsString;

use super::config_file::{is_setting, server_args};
use crate::cmd::exit::Failure;
use crate::cmd::language::selected_language;
use mixer_engine::runtime::OnConfigError;
use mixer_server::ServerOptions;

/// The similarity from which on a variable was probably meant to be a setting.
const NEAR: f64 = 0.9;

/// The environment variable of a server flag, for example `MIXER_CONFIG_STORE_URL`.
pub(crate) fn variable(long: &str) -> String {
    format!("{PREFIX}{}", long.replace('-', "_").to_uppercase())
}

const PREFIX: &str = "MIXER_";

/// The error of a value of `ISTIO_LANG` that names no language. Istio Mixer takes it for the classic one, and so does a server with
/// `--config-on-error serve-valid`.
pub(crate) fn unknown_language(options: &ServerOptions) -> Option<Failure> {
    let refuses = options.config_on_error != OnConfigError::ServeValid;
    refuses.then(selected_language)?.err()
}

/// Variables that set nothing although they were probably meant to, one text each, sorted. `root` is the command tree.
pub(super) fn suspicions(
    root: &clap::Command,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<String> {
    let known = known(root);
    let mut all: Vec<String> =
        foreign(&known, variables).filter_map(|name| suspicion(&known, &name)).collect();
    all.sort();
    all
}

/// Names of other variables that begin like settings and set nothing, sorted: perhaps they are those of somebody else.
pub(super) fn unread(
    root: &clap::Command,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<String> {
    let known = known(root);
    let mut all: Vec<String> =
        foreign(&known, variables).filter(|name| suspicion(&known, name).is_none()).collect();
    all.sort();
    all
}

/// The variables of all settings.
fn known(root: &clap::Command) -> Vec<String> {
    server_args(root)
        .filter(|arg| is_setting(arg.get_id().as_str()) || arg.get_env().is_some())
        .filter_map(clap::Arg::get_long)
        .map(variable)
        .collect()
}

/// Variables that begin like settings, are none, and are not set by Kubernetes.
fn foreign<'k>(
    known: &'k [String],
    variables: impl Iterator<Item = (OsString, OsString)> + 'k,
) -> impl Iterator<Item = String> + 'k {
    variables.filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.to_string_lossy().into_owned());
        let is_foreign = is_ours(&name) && !known.contains(&name) && !is_of_kubernetes(&name, &value);
        is_foreign.then_some(name)
    })
}

/// What a variable was probably meant to set.
fn suspicion(known: &[String], name: &str) -> Option<String> {
    if name == variable("config-file") {
        return Some(format!("the environment variable {name} is not read: use the flag --config-file"));
    }
    // In the spelling of the settings, so that letters and lines count alike.
    let spelled = name.to_uppercase().replace(['-', '.'], "_");
    if let Some((_, meant)) = OTHER_NAMES.iter().find(|(other, _)| spelled == variable(other)) {
        return Some(format!(
            "the environment variable {name} sets nothing: did you mean {}?",
            variable(meant)
        ));
    }
    let near = nearest(&spelled, known.iter().map(String::as_str), NEAR)?;
    Some(format!("the environment variable {name} sets nothing: did you mean {near}?"))
}

/// Names of settings that flags have as well, or that other programs have, and the setting.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("config", "config-store-url"),
    ("default-namespace", "config-default-namespace"),
    ("config-dir", "config-store-url"),
    ("log-level", "log-output-level"),
];

/// Whether a name begins like a setting, in any case of its letters.
fn is_ours(name: &str) -> bool {
    name.get(..PREFIX.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(PREFIX))
}

/// Whether Kubernetes sets a variable for a service whose name begins with `mixer`: `…_SERVICE_HOST`, `…_SERVICE_PORT`,
/// `…_SERVICE_PORT_NAME`, `…_PORT=tcp://…` and `…_PORT_9091_TCP`, also with `_PROTO`, `_PORT` and `_ADDR`.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let is_port = |(_, rest): (&str, &str)| rest.starts_with(|c: char| c.is_ascii_digit());
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.split_once("_PORT_").is_some_and(is_port)
        || (name.ends_with("_PORT") && value.contains("://"))
}

/// The name that is most similar to `text`, if its similarity is above `near`.
pub(super) fn nearest<'n>(text: &str, names: impl Iterator<Item = &'n str>, near: f64) -> Option<&'n str> {
    let scored = names.map(|name| (strsim::jaro_winkler(text, name), name));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > near).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::tree;

    fn of(name: &str, value: &str) -> Option<String> {
        suspicions(&tree::native(true), [(name.into(), value.into())].into_iter()).pop()
    }

    #[test]
    fn misspelt_variables_are_suspicious() {
        for (name, near) in [
            ("MIXER_CONFIG_STORE_URI", "MIXER_CONFIG_STORE_URL"),
            ("MIXER_CONFIG_STORE", "MIXER_CONFIG_STORE_URL"),
            ("MIXER_TLS_CERT_FLIE", "MIXER_TLS_CERT_FILE"),
            ("mixer_config_store_url", "MIXER_CONFIG_STORE_URL"),
            ("MIXER_ADRESS", "MIXER_ADDRESS"),
            ("MIXER_CONFIG", "MIXER_CONFIG_STORE_URL"),
            ("MIXER_DEFAULT_NAMESPACE", "MIXER_CONFIG_DEFAULT_NAMESPACE"),
            ("MIXER_LOG_LEVEL", "MIXER_LOG_OUTPUT_LEVEL"),
        ] {
            let text = format!("the environment variable {name} sets nothing: did you mean {near}?");
            assert_eq!(of(name, "x"), Some(text));
        }
        assert!(
            of("MIXER_CONFIG_FILE", "/etc/mixer.yaml").is_some_and(|text| text.contains("--config-file"))
        );
    }

    #[test]
    fn settings_and_variables_of_others_are_not() {
        for (name, value) in [
            ("MIXER_CONFIG_STORE_URL", "fs:///etc/mixer"),
            ("MIXER_PORT", "tcp://10.0.0.1:9091"),
            ("MIXER_PORT_9091_TCP", "tcp://10.0.0.1:9091"),
            ("MIXER_PORT_9091_TCP_ADDR", "10.0.0.1"),
            ("MIXER_PORT_9091_TCP_PORT", "9091"),
            ("MIXER_PORT_9091_TCP_PROTO", "tcp"),
            ("MIXER_SERVICE_HOST", "10.0.0.1"),
            ("MIXER_SERVICE_PORT", "9091"),
            ("MIXER_SERVICE_PORT_GRPC_API", "9091"),
            ("MIXER_METRICS_PORT", "tcp://10.0.0.1:42422"),
            ("MIXER_METRICS_SERVICE_HOST", "10.0.0.1"),
            ("MIXER_METRICS_PORT_42422_TCP", "tcp://10.0.0.1:42422"),
            ("MIXER_IMAGE", "mixer:1"),
            ("MIXER_HOME", "/"),
            ("PATH", "/bin"),
        ] {
            assert_eq!(of(name, value), None, "{name}");
        }
    }

    #[test]
    fn what_sets_nothing_is_known() {
        let variables = ["MIXER_IMAGE", "MIXER_PORT", "MIXER_SERVICE_HOST", "MIXER_ADRESS", "PATH"];
        let variables = variables.map(|name| (name.into(), "x".into()));
        assert_eq!(unread(&tree::native(true), variables.into_iter()), ["MIXER_IMAGE"]);
    }
}
