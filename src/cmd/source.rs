//! Configuration sources of the commands that inspect configuration.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::event_loop::block_on;
use super::exit::{Exit, Failure, Stop};
use super::flags::{NamespaceFlags, validate_command};
use super::io::Io;
use super::output::{counted, escaped};
use super::value;
use mixer_config::store::{EMBEDDED_SAMPLE, StoreContents, read_sources};
use mixer_config::{Diagnostic, Diagnostics, Severity};
use mixer_engine::runtime::{OnConfigError, forecast};
use mixer_engine::snapshot::{Snapshot, SnapshotBuilder};

/// The flags that select the configuration to inspect.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ConfigSource {
    /// Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample.
    ///
    /// Nothing is started or changed. Default: the sample configuration of `mixer server`.
    #[arg(long, value_name = "URL")]
    pub(crate) config: Option<String>,
    /// Query a running server instead: its host, and the port of ControlZ, by default 9876. Example: localhost:9876.
    #[arg(long, value_parser = value::introspection_address, value_name = "ADDRESS", conflicts_with = "config")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceFlags,
}

/// What somebody may not expect who has a running server.
const SAMPLE: &str = "no --config and no --server is given: this is the sample configuration; `--server localhost:9876` asks a running server";

impl ConfigSource {
    /// Builds the snapshot without starting handlers.
    pub(crate) fn snapshot(&self, io: &mut Io) -> Result<Arc<Snapshot>, Stop> {
        if self.config.is_none() {
            io.warn(SAMPLE)?;
        }
        let source = self.config.clone().unwrap_or_else(|| EMBEDDED_SAMPLE.to_owned());
        let contents = read(std::slice::from_ref(&source), io)?;
        let contents = Arc::new(contents);
        let snapshot = build(&contents, &self.namespace);
        if let Some(note) = remark(&source, &self.namespace, (&contents, &snapshot), &snapshot.diagnostics) {
            io.warn(&note)?;
        }
        Ok(snapshot)
    }
}

/// Longest time for a response of ControlZ.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Fetches a JSON document from the ControlZ endpoint of a running server.
pub(crate) fn fetch(address: &str, path: &str) -> Result<serde_json::Value, Stop> {
    let url =
        if address.contains("://") { format!("{address}{path}") } else { format!("http://{address}{path}") };
    let failed = |cause: String| {
        let failure = Failure::new(Exit::Rpc, format!("cannot read `{url}`")).cause(cause);
        Stop::from(failure.hint("the address is the ControlZ endpoint, by default localhost:9876"))
    };
    mixer_net::tls::install_crypto_provider();
    let text = block_on(async {
        let request = async {
            let client = reqwest::Client::builder().timeout(TIMEOUT).build()?;
            client.get(&url).send().await?.error_for_status()?.text().await
        };
        request.await.map_err(|error| failed(innermost_cause(&error)))
    })?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

/// The innermost cause of an error.
pub(crate) fn innermost_cause(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// Maximum resources that a note names.
const MAX_NAMED: usize = 10;

/// The problem of a configuration without resources, as a server reports it.
pub(crate) fn emptiness(
    contents: &Arc<StoreContents>,
    snapshot: &Snapshot,
    namespace: &NamespaceFlags,
    is_allowed: bool,
) -> Option<Diagnostic> {
    // An empty configuration has no rules: others need no second build.
    if !snapshot.rules.is_empty() {
        return None;
    }
    let mut builder = SnapshotBuilder::new(namespace.options());
    let forecast = forecast(contents, &mut builder, OnConfigError::KeepLast, is_allowed, None);
    forecast.withheld.filter(|_| forecast.is_empty)
}

/// What a server does instead of an offline command: with a configuration that has errors, or that has nothing; `None` if it does the same.
pub(crate) fn remark(
    url: &str,
    namespace: &NamespaceFlags,
    (contents, snapshot): (&Arc<StoreContents>, &Snapshot),
    diagnostics: &Diagnostics,
) -> Option<String> {
    left_out(url, namespace, diagnostics).or_else(|| {
        emptiness(contents, snapshot, namespace, false)?;
        let note = format!(
            "`{url}` has no resources: a server answers UNAVAILABLE, unless --allow-empty-config says that every call is to be allowed; see `{}`",
            validate_command(url, &namespace.default_namespace)
        );
        Some(escaped(&note).into_owned())
    })
}

/// Names the resources with an error, which offline commands leave out, and says what a server does instead; `None` without any.
fn left_out(url: &str, namespace: &NamespaceFlags, diagnostics: &Diagnostics) -> Option<String> {
    let errors: Vec<_> = diagnostics.iter().filter(|problem| problem.severity == Severity::Error).collect();
    if errors.is_empty() {
        return None;
    }
    let count = counted(errors.len(), "error");
    let named: BTreeSet<&str> = errors.iter().map(|problem| problem.resource.as_str()).collect();
    let named: Vec<&str> = named.into_iter().filter(|name| !name.is_empty()).collect();
    let mut names = named.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
    if named.len() > MAX_NAMED {
        names.push_str(&format!(" and {} more", named.len() - MAX_NAMED));
    }
    let without = if names.is_empty() { String::new() } else { format!(" without {names}") };
    let note = format!(
        "`{url}` has {count} and is evaluated{without}; a server goes on with the last good version, or \
         does not serve, unless --config-on-error is serve-valid; see `{}`",
        validate_command(url, &namespace.default_namespace)
    );
    Some(escaped(&note).into_owned())
}

/// Reads configuration from paths and store URLs.
pub(crate) fn read(sources: &[String], io: &mut Io) -> Result<StoreContents, Stop> {
    read_sources(sources, &mut io.input)
        .map_err(|error| Failure::local("cannot read the configuration").cause(error).into())
}

/// Builds a snapshot.
pub(crate) fn build(contents: &StoreContents, namespace: &NamespaceFlags) -> Arc<Snapshot> {
    SnapshotBuilder::new(namespace.options()).build(contents)
}
