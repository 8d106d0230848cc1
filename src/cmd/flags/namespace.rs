//! The flag of the default namespace.

use crate::cmd::language::selected_language;
use mixer_engine::snapshot::{DEFAULT_NAMESPACE, SnapshotOptions};

/// The default namespace.
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
    /// The options of a snapshot build, with the language of the environment, as of a server.
    pub(crate) fn options(&self) -> SnapshotOptions {
        SnapshotOptions {
            default_namespace: self.default_namespace.as_str().into(),
            // What names none is refused when the configuration is read.
            language: selected_language().ok().flatten(),
            standard_attributes: true,
            ..SnapshotOptions::new(mixer_server::REGISTRY)
        }
    }
}

/// The command that lists the problems of a configuration, with the flag that it needs.
pub(crate) fn validate_command(url: &str, default_namespace: &str) -> String {
    match default_namespace {
        DEFAULT_NAMESPACE => format!("mixer validate {url}"),
        other => format!("mixer validate {url} --default-namespace {other}"),
    }
}
