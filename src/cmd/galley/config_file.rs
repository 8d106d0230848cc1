//! The configuration file of `galley server`: keys of Istio Galley, as flags. Precedence: flag, file, default.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cmd::exit::Failure;
use mixer_base::regular_file;
use mixer_base::rotate::os_text;
use mixer_config::message::suggested;

/// Maximum size of a file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Keys and flags. Keys match in any case. Spec: cli-operations.md, 8.
const KEYS: &[(&str, &str)] = &[
    ("general.enable_profiling", "enable-profiling"),
    ("general.introspection.address", "ctrlz-address"),
    ("general.introspection.port", "ctrlz-port"),
    ("general.kubeconfig", "kubeconfig"),
    ("general.liveness.interval", "liveness-probe-interval"),
    ("general.liveness.path", "liveness-probe-path"),
    ("general.meshConfigFile", "mesh-config-file"),
    ("general.monitoringPort", "monitoring-port"),
    ("general.pprofPort", "pprof-port"),
    ("general.readiness.interval", "readiness-probe-interval"),
    ("general.readiness.path", "readiness-probe-path"),
    ("processing.analysis.enable", "enable-analysis"),
    ("processing.discovery.enable", "enable-service-discovery"),
    ("processing.domainSuffix", "domain"),
    ("processing.oldprocessor", "use-old-processor"),
    ("processing.server.address", "server-address"),
    ("processing.server.auth.insecure", "insecure"),
    ("processing.server.auth.mtls.accessListFile", "access-list-file"),
    ("processing.server.auth.mtls.caCertificates", "ca-cert-file"),
    ("processing.server.auth.mtls.clientCertificate", "tls-cert-file"),
    ("processing.server.auth.mtls.privateKey", "tls-key-file"),
    ("processing.server.disableResourceReadyCheck", "disable-resource-ready-check"),
    ("processing.server.enable", "enable-server"),
    ("processing.server.maxConcurrentStreams", "server-max-concurrent-streams"),
    ("processing.server.maxReceivedMessageSize", "server-max-received-message-size"),
    ("processing.source.eureka.address", "eureka-address"),
    ("processing.source.eureka.caCertificates", "eureka-ca-cert-file"),
    ("processing.source.eureka.clientCertificate", "eureka-cert-file"),
    ("processing.source.eureka.namespace", "eureka-namespace"),
    ("processing.source.eureka.passwordFile", "eureka-password-file"),
    ("processing.source.eureka.privateKey", "eureka-key-file"),
    ("processing.source.eureka.refresh", "eureka-refresh"),
    ("processing.source.eureka.servicePort", "eureka-service-port"),
    ("processing.source.eureka.timeout", "eureka-timeout"),
    ("processing.source.eureka.user", "eureka-user"),
    ("processing.source.filesystem.path", "config-path"),
    ("processing.source.kubernetes.resyncPeriod", "resync-period"),
    ("processing.source.zookeeper.address", "zookeeper-address"),
    ("processing.source.zookeeper.caCertificates", "zookeeper-ca-cert-file"),
    ("processing.source.zookeeper.clientCertificate", "zookeeper-cert-file"),
    ("processing.source.zookeeper.namespace", "zookeeper-namespace"),
    ("processing.source.zookeeper.passwordFile", "zookeeper-password-file"),
    ("processing.source.zookeeper.privateKey", "zookeeper-key-file"),
    ("processing.source.zookeeper.root", "zookeeper-root"),
    ("processing.source.zookeeper.sessionTimeout", "zookeeper-session-timeout"),
    ("processing.source.zookeeper.user", "zookeeper-user"),
    ("validation.deploymentName", "deployment-name"),
    ("validation.deploymentNamespace", "deployment-namespace"),
    ("validation.enable", "enable-validation"),
    ("validation.serviceName", "service-name"),
    ("validation.tls.caCertificates", "validation.tls.caCertificates"),
    ("validation.tls.clientCertificate", "validation.tls.clientCertificate"),
    ("validation.tls.privateKey", "validation.tls.privateKey"),
    ("validation.webhookConfigFile", "validation-webhook-config-file"),
    ("validation.webhookName", "webhook-name"),
    ("validation.webhookPort", "validation-port"),
];

/// Adds the settings of the file that `-c` names to the arguments of `server`, except those given as flags.
///
/// `is_strict`: a key without a meaning is an error. Galley ignores it, and so a misspelt list of who may connect.
///
/// Errors: the file cannot be read, or has such a key.
pub(crate) fn with_file(
    mut args: Vec<OsString>,
    server: &clap::Command,
    is_strict: bool,
) -> Result<Vec<OsString>, Failure> {
    let Some(at) = args.iter().position(|arg| arg == "server" || arg == "validator") else { return Ok(args) };
    if is_strict {
        args = with_resources(args, at)?;
    }
    let given: Vec<OsString> = args.iter().skip(at + 1).cloned().collect();
    let Some(path) = path_of(&given).filter(|path| !path.as_os_str().is_empty()) else { return Ok(args) };
    let settings = read(&path, is_strict).map_err(|cause| {
        let failure = Failure::local(format!("cannot read the configuration file `{}`", path.display()))
            .legacy(format!("fatal error in config file: {cause}"))
            .cause(cause);
        match path.is_file() && is_settings(&path) {
            true => failure,
            false => failure.hint(MEANT),
        }
    })?;
    let added = settings
        .into_iter()
        .filter(|(flag, _)| !is_given(server, flag, &given))
        .map(|(flag, value)| OsString::from(format!("--{flag}={value}")));
    let added: Vec<OsString> = added.collect();
    args.splice(at + 1..at + 1, added);
    Ok(args)
}

/// The arguments with `--config-path` or `--kubeconfig` in the place of each `--config` that names resources, as it does in other commands.
/// One that names a settings file stays.
///
/// Errors: a URL of which galley cannot read.
fn with_resources(args: Vec<OsString>, at: usize) -> Result<Vec<OsString>, Failure> {
    let mut all = Vec::with_capacity(args.len());
    let mut rest = args.into_iter().enumerate();
    while let Some((index, arg)) = rest.next() {
        let text = arg.to_string_lossy().into_owned();
        let value = match text.strip_prefix("--config") {
            _ if index <= at => None,
            Some("") => rest.next().map(|(_, value)| value.to_string_lossy().into_owned()),
            Some(value) => value.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        let Some(value) = value else {
            all.push(arg);
            continue;
        };
        match value.split_once("://") {
            Some(("fs", path)) => all.push(format!("--config-path={path}").into()),
            Some(("k8s", "")) => {}
            Some(("k8s", path)) => all.push(format!("--kubeconfig={path}").into()),
            Some(_) => {
                let failure = Failure::usage(format!("galley cannot read resources from `{value}`"));
                return Err(failure.hint("use a directory, a file, fs://DIR or k8s://[KUBECONFIG]"));
            }
            None if is_resources(Path::new(&value)) => all.push(format!("--config-path={value}").into()),
            None => all.push(format!("--config={value}").into()),
        }
    }
    Ok(all)
}

/// Whether a path is a directory, or a file whose first document says its kind.
fn is_resources(path: &Path) -> bool {
    if path.is_dir() {
        return true;
    }
    let Ok(text) = regular_file::read_text(path, MAX_FILE) else { return false };
    let says_kind = |line: &str| {
        let line = line.trim_start_matches(['{', ' ', '"']);
        line.starts_with("kind") || line.starts_with("apiVersion")
    };
    text.lines().any(says_kind)
}

/// The value of the last `-c`, `--config` or `--config-file`.
fn path_of(args: &[OsString]) -> Option<PathBuf> {
    let mut found = None;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let text = arg.to_string_lossy();
        let value =
            text.strip_prefix("--config=").or_else(|| text.strip_prefix("--config-file=")).or_else(|| {
                let short = text.strip_prefix("-c").filter(|_| !text.starts_with("--"))?;
                (!short.is_empty()).then(|| short.trim_start_matches('='))
            });
        match value {
            Some(value) => found = Some(PathBuf::from(value)),
            None if matches!(&*text, "--config" | "--config-file" | "-c") => {
                found = rest.next().map(PathBuf::from)
            }
            None => {}
        }
    }
    found
}

fn is_given(server: &clap::Command, flag: &str, given: &[OsString]) -> bool {
    let arg = server.get_arguments().find(|arg| arg.get_long() == Some(flag));
    let aliases = arg.and_then(clap::Arg::get_all_aliases).unwrap_or_default();
    let names: Vec<&str> = aliases.into_iter().chain([flag]).collect();
    given.iter().any(|given| {
        let given = given.to_string_lossy();
        let name = given.strip_prefix("--").map(|rest| rest.split('=').next().unwrap_or_default());
        name.is_some_and(|name| names.contains(&name))
    })
}

/// What `--config` may be.
const MEANT: &str = "--config names resources (a directory, a file of resources, fs://DIR or k8s://), or a file of settings that ends in \
     .yaml, .yml, .json or .toml";

/// The end of the name of a file.
fn kind_of(path: &Path) -> String {
    path.extension().map(|kind| kind.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether a file is one of settings by its name.
fn is_settings(path: &Path) -> bool {
    matches!(&*kind_of(path), "yaml" | "yml" | "json" | "toml")
}

/// Flags and values.
fn read(path: &Path, is_strict: bool) -> Result<BTreeMap<&'static str, String>, String> {
    let kind = kind_of(path);
    let is_settings = is_settings(path);
    if !is_settings && !is_strict {
        return Err(format!("Unsupported Config Type \"{kind}\""));
    }
    let text = regular_file::read_text(path, MAX_FILE).map_err(|error| match is_strict {
        true => os_text(&error),
        false => format!("open {}: {}", path.display(), os_text(&error)),
    })?;
    if !is_settings {
        return Err("its name ends in none of .yaml, .yml, .json and .toml".to_owned());
    }
    let document: Value = match &*kind {
        "toml" => toml::from_str(&text).map_err(|error| error.message().to_owned())?,
        "json" => serde_json::from_str(&text).map_err(|error| error.to_string())?,
        _ => serde_yaml::from_str(&text).map_err(|error| error.to_string())?,
    };
    let mut flat = BTreeMap::new();
    flatten("", &document, &mut flat);
    let is_known = |name: &&String| KEYS.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
    if let Some(unknown) = flat.keys().find(|name| is_strict && !is_known(name)) {
        let nearest = suggested(unknown, KEYS.iter().map(|(key, _)| *key));
        let hint = nearest.map(|key| format!(", did you mean `{key}`?")).unwrap_or_default();
        return Err(format!("unknown key `{unknown}`{hint}"));
    }
    let of = |(key, flag): &(&str, &'static str)| {
        flat.get(&key.to_ascii_lowercase())?.clone().map(|value| (*flag, value))
    };
    Ok(KEYS.iter().filter_map(of).collect())
}

/// The values by key, in lower case; `None` for what is no single value.
fn flatten(prefix: &str, value: &Value, out: &mut BTreeMap<String, Option<String>>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let key = key.to_ascii_lowercase();
                let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
                flatten(&name, value, out);
            }
        }
        // An empty file.
        Value::Null if prefix.is_empty() => {}
        Value::Null | Value::Array(_) => drop(out.insert(prefix.to_owned(), None)),
        Value::String(text) => drop(out.insert(prefix.to_owned(), Some(text.clone()))),
        other => drop(out.insert(prefix.to_owned(), Some(other.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::personality::Personality;
    use crate::cmd::tree;

    #[test]
    fn every_key_names_a_flag() {
        let root = tree::legacy(Personality::Galley);
        let server = root.find_subcommand("server").unwrap();
        for (key, flag) in KEYS {
            assert!(server.get_arguments().any(|arg| arg.get_long() == Some(*flag)), "{key} {flag}");
        }
    }

    #[test]
    fn flags_replace_settings_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("galley.yaml");
        std::fs::write(
            &path,
            "general: {monitoringPort: 7, liveness: {path: /x}}\nprocessing: {domainSuffix: d, source: {zookeeper: {address: 'a:1,b:2'}}}\n",
        )
        .unwrap();
        let root = tree::legacy(Personality::Galley);
        let server = root.find_subcommand("server").unwrap();
        let args = ["galley", "server", "-c", &path.to_string_lossy(), "--monitoringPort", "8"];
        let args = with_file(args.map(OsString::from).to_vec(), server, true).unwrap();
        let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
        assert!(args.contains(&"--domain=d".into()), "{args:?}");
        assert!(args.contains(&"--liveness-probe-path=/x".into()));
        assert!(args.contains(&"--zookeeper-address=a:1,b:2".into()));
        assert!(!args.iter().any(|arg| arg.starts_with("--monitoring-port")));
        let missing = || ["galley", "server", "--config=/nosuch"].map(OsString::from).to_vec();
        let failure = with_file(missing(), server, false).unwrap_err();
        assert_eq!(failure.legacy_text(), "fatal error in config file: Unsupported Config Type \"\"");
        let failure = with_file(missing(), server, true).unwrap_err();
        assert_eq!(failure.cause.as_deref(), Some("no such file or directory"));
        assert!(failure.hint.is_some_and(|hint| hint.contains("--config names resources")));
        let other = directory.path().join("galley.conf");
        std::fs::write(&other, "general: {}\n").unwrap();
        let named = ["galley", "server", "-c", &other.to_string_lossy()].map(OsString::from).to_vec();
        let failure = with_file(named, server, true).unwrap_err();
        assert_eq!(failure.cause.as_deref(), Some("its name ends in none of .yaml, .yml, .json and .toml"));
    }
    #[test]
    fn a_key_without_a_meaning_is_an_error_but_for_galley() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("galley.yaml");
        let text =
            "processing: {server: {auth: {mtls: {accesListFile: /list}}}}\nGeneral: {monitoringport: 7}\n";
        std::fs::write(&path, text).unwrap();
        let root = tree::legacy(Personality::Galley);
        let server = root.find_subcommand("server").unwrap();
        let with = |is_strict| {
            let args = ["galley", "server", "-c", &path.to_string_lossy()].map(OsString::from).to_vec();
            with_file(args, server, is_strict)
        };
        let why = "fatal error in config file: unknown key `processing.server.auth.mtls.acceslistfile`, did you mean \
                   `processing.server.auth.mtls.accessListFile`?";
        assert_eq!(with(true).unwrap_err().legacy_text(), why);
        let args = with(false).unwrap();
        assert!(args.contains(&"--monitoring-port=7".into()) && args.len() == 5, "{args:?}");
        std::fs::write(&path, "# Nothing.\n").unwrap();
        assert_eq!(with(true).unwrap().len(), 4);
    }
}
