//! The flags of ControlZ and of profiles.

use std::path::PathBuf;

use crate::cmd::value;
use mixer_server::IntrospectionOptions;

/// ControlZ, metrics and profiles.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "ControlZ, metrics and profiles")]
pub(crate) struct IntrospectionFlags {
    /// Port of the ControlZ introspection pages; 0 disables them.
    #[arg(long = "ctrlz-port", alias = "ctrlz_port", default_value = "9876", value_parser = value::port, value_name = "PORT")]
    ctrlz_port: u16,
    /// Address of the ControlZ introspection pages; `*` means all interfaces.
    #[arg(
        long = "ctrlz-address",
        alias = "ctrlz_address",
        default_value = "localhost",
        value_name = "ADDRESS"
    )]
    ctrlz_address: String,
    /// Make ControlZ read-only.
    #[arg(
        long = "ctrlz-readonly", alias = "ctrlz_readonly", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", value_parser = value::boolean,
        hide_possible_values = true, value_name = "BOOL"
    )]
    ctrlz_readonly: bool,
    /// File with the bearer token that ControlZ requires: `Authorization: Bearer TOKEN`, or a login form in browsers.
    #[arg(
        long = "ctrlz-token-file", alias = "ctrlz_token_file", value_parser = value::path, default_value = "",
        hide_default_value = true, value_name = "FILE"
    )]
    ctrlz_token_file: PathBuf,
    /// Host names that ControlZ accepts besides localhost and IP addresses. Example: ops.example.com,mixer
    #[arg(
        long = "ctrlz-allowed-hosts",
        alias = "ctrlz_allowed_hosts",
        default_value = "",
        hide_default_value = true,
        value_name = "NAMES"
    )]
    ctrlz_allowed_hosts: String,
    /// Whether to serve /debug/pprof on the monitoring port.
    #[arg(
        long, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true",
        value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL"
    )]
    pub(crate) profile: bool,
    /// Also expose metrics under the names of Mixer 1.0, for existing dashboards.
    #[arg(
        long, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL"
    )]
    pub(crate) legacy_metrics: bool,
    /// Mean bytes between sampled allocations for /debug/pprof/heap; 0 samples only while that URL is requested.
    ///
    /// The overhead at the example rate is negligible. Example: 512KiB.
    #[arg(long, default_value = "0", value_parser = value::size, value_name = "BYTES")]
    pub(crate) heap_profile_rate: u64,
}

impl IntrospectionFlags {
    pub(crate) fn options(&self) -> IntrospectionOptions {
        let hosts = self.ctrlz_allowed_hosts.split(',').map(|name| name.trim().to_ascii_lowercase());
        IntrospectionOptions {
            port: self.ctrlz_port,
            address: self.ctrlz_address.clone(),
            read_only: self.ctrlz_readonly,
            token_file: self.ctrlz_token_file.clone(),
            allowed_hosts: hosts.filter(|name| !name.is_empty()).collect(),
            ..IntrospectionOptions::default()
        }
    }
}
