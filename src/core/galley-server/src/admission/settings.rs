//! Settings of the webhook.

use std::fmt::Write as _;
use std::path::PathBuf;

/// How much of a resource of the policy engine is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    /// Whether it decodes, as Galley does.
    #[default]
    Structural,
    /// What `mixer validate` checks, beside the resources that are published. References to what is missing only warn.
    Deep,
}

/// Settings of the webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationOptions {
    /// Whether it is served.
    pub is_enabled: bool,
    /// Its port on all interfaces.
    pub port: u32,
    /// Its certificate, PEM.
    pub cert_file: PathBuf,
    /// The key of that, PEM.
    pub key_file: PathBuf,
    /// The root by which API servers know the certificate, PEM.
    pub ca_file: PathBuf,
    /// The webhook configuration that the cluster is to have, YAML; empty: the one that it has is completed.
    pub webhook_config_file: PathBuf,
    /// Its name.
    pub webhook_name: String,
    /// The namespace of Galley's deployment and service.
    pub deployment_namespace: String,
    /// Galley's deployment, which owns the webhook configuration.
    pub deployment_name: String,
    /// Galley's service, to which API servers send reviews.
    pub service_name: String,
    /// Whether the webhook configuration of the cluster is kept as it should be.
    pub reconciles: bool,
    /// compat(1.3): whether the webhook configuration file is required.
    pub requires_config_file: bool,
    /// How much of a resource of the policy engine is checked.
    pub depth: Depth,
}

impl Default for ValidationOptions {
    fn default() -> Self {
        Self {
            is_enabled: true,
            port: 443,
            cert_file: "/etc/certs/cert-chain.pem".into(),
            key_file: "/etc/certs/key.pem".into(),
            ca_file: "/etc/certs/root-cert.pem".into(),
            webhook_config_file: PathBuf::new(),
            webhook_name: "istio-galley".to_owned(),
            deployment_namespace: "istio-system".to_owned(),
            deployment_name: "istio-galley".to_owned(),
            service_name: "istio-galley".to_owned(),
            reconciles: true,
            requires_config_file: true,
            depth: Depth::Structural,
        }
    }
}

impl ValidationOptions {
    /// Errors: all of them, in the form of Galley. Spec: galley.md, 19.6.
    pub fn check(&self) -> Result<(), String> {
        if !self.is_enabled {
            return Ok(());
        }
        let names = [
            ("webhook name", &self.webhook_name),
            ("deployment namespace", &self.deployment_namespace),
            ("deployment name", &self.deployment_name),
            ("service name", &self.service_name),
        ];
        let mut errors: Vec<String> = names
            .into_iter()
            .filter(|(_, name)| !is_label(name))
            .map(|(what, name)| format!("invalid {what}: \"{}\"", name.escape_default()))
            .collect();
        let needs_config = self.reconciles && self.requires_config_file;
        let files = [
            (needs_config, "webhookConfigFile", &self.webhook_config_file),
            (true, "cert file", &self.cert_file),
            (true, "key file", &self.key_file),
            (true, "CA cert file", &self.ca_file),
        ];
        let missing = files.into_iter().filter(|(needed, _, path)| *needed && path.as_os_str().is_empty());
        errors.extend(missing.map(|(_, what, _)| format!("{what} not specified")));
        if !(1..=65535).contains(&self.port) {
            errors.push(format!("port number {} must be in the range 1..65535", self.port));
        }
        if errors.is_empty() { Ok(()) } else { Err(listed(&errors)) }
    }
}

/// Whether a name is a label of DNS.
fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let is_edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    (1..=63).contains(&name.len())
        && name.chars().all(inner)
        && is_edge(name.chars().next())
        && is_edge(name.chars().last())
}

/// Errors as Galley lists them.
fn listed(errors: &[String]) -> String {
    let noun = if errors.len() == 1 { "error" } else { "errors" };
    let mut text = format!("{} {noun} occurred:\n", errors.len());
    for error in errors {
        let _ = writeln!(text, "\t* {error}");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_errors_are_listed_in_the_order_of_galley() {
        assert!(
            ValidationOptions { webhook_config_file: "w.yaml".into(), ..ValidationOptions::default() }
                .check()
                .is_ok()
        );
        let wrong = ValidationOptions {
            webhook_name: "A b".to_owned(),
            service_name: String::new(),
            port: 70_000,
            ..ValidationOptions::default()
        };
        let text = "4 errors occurred:\n\t* invalid webhook name: \"A b\"\n\t* invalid service name: \"\"\n\
                    \t* webhookConfigFile not specified\n\t* port number 70000 must be in the range 1..65535\n\n";
        assert_eq!(wrong.check(), Err(text.to_owned()));
        let without_config = ValidationOptions { reconciles: false, ..ValidationOptions::default() };
        assert_eq!(without_config.check(), Ok(()), "needed for reconciliation only");
        assert_eq!(ValidationOptions { is_enabled: false, ..wrong }.check(), Ok(()));
    }
}
