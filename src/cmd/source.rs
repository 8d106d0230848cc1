//! Where the commands that inspect configuration get it from.

use std::sync::Arc;

use super::{Failure, Io, Stop};
use mixer_config::store::{EMBEDDED_SAMPLE, StoreContents, read_sources};
use mixer_engine::snapshot::{Snapshot, SnapshotBuilder, SnapshotOptions};

/// Configuration to inspect.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ConfigSource {
    /// Configuration to read: fs://DIR, a path, `-` for standard input, or embedded://sample.
    ///
    /// Nothing is started or changed. Without it the sample configuration that `mixer server` starts with is shown.
    #[arg(long, value_name = "URL")]
    pub(crate) config: Option<String>,
    /// Ask a running server instead: host and port of its ControlZ endpoint. Example: localhost:9876.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceFlags,
}

/// How configuration is read.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NamespaceFlags {
    /// Namespace of mesh-wide rules.
    #[arg(
        long,
        alias = "config-default-namespace",
        default_value = "istio-system",
        value_name = "NAMESPACE"
    )]
    pub(crate) default_namespace: String,
}

impl NamespaceFlags {
    /// What building a snapshot depends on.
    pub(crate) fn options(&self) -> SnapshotOptions {
        SnapshotOptions {
            default_namespace: self.default_namespace.as_str().into(),
            ..SnapshotOptions::new(mixer_server::REGISTRY)
        }
    }
}

impl ConfigSource {
    /// Builds the snapshot of the configuration named, without starting anything.
    pub(crate) fn snapshot(&self, io: &mut Io) -> Result<Arc<Snapshot>, Stop> {
        let source = self.config.clone().unwrap_or_else(|| EMBEDDED_SAMPLE.to_owned());
        let contents = read(&[source], io)?;
        Ok(build(&contents, &self.namespace))
    }
}

/// Fetches a document of a running server's ControlZ endpoint.
pub(crate) fn fetch(address: &str, path: &str) -> Result<serde_json::Value, Stop> {
    let url =
        if address.contains("://") { format!("{address}{path}") } else { format!("http://{address}{path}") };
    let failed = |cause: String| {
        let failure = Failure::new(super::Exit::Rpc, format!("cannot read `{url}`")).cause(cause);
        Stop::from(failure.hint("the address is that of ControlZ, by default localhost:9876"))
    };
    mixer_net::tls::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let text = runtime
        .block_on(async {
            let client = reqwest::Client::builder().timeout(std::time::Duration::from_secs(10)).build()?;
            client.get(&url).send().await?.error_for_status()?.text().await
        })
        .map_err(|error| failed(innermost(&error)))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

/// The deepest cause of an error.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// Reads paths and URLs.
pub(crate) fn read(sources: &[String], io: &mut Io) -> Result<StoreContents, Stop> {
    read_sources(sources, &mut io.input)
        .map_err(|error| Failure::local("cannot read the configuration").cause(error).into())
}

/// The snapshot of what was read.
pub(crate) fn build(contents: &StoreContents, namespace: &NamespaceFlags) -> Arc<Snapshot> {
    SnapshotBuilder::new(namespace.options()).build(contents)
}
