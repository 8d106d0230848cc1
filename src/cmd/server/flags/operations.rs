//! The flags of probes, shutdown and the Envoy services.

use std::path::PathBuf;

use crate::cmd::value;
use mixer_attribute::SignedDuration;

/// Probes and shutdown.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Operations")]
pub(crate) struct OperationFlags {
    /// Probe file that is updated while the server is alive.
    #[arg(
        long,
        alias = "livenessProbePath",
        value_parser = value::path, default_value = "",
        hide_default_value = true,
        value_name = "PATH"
    )]
    pub(crate) liveness_probe_path: PathBuf,
    /// Maximum age of the probe file; it is updated twice per interval. Example: 2s.
    #[arg(
        long, alias = "livenessProbeInterval", default_value = "0s", value_parser = value::duration,
        value_name = "DURATION"
    )]
    pub(crate) liveness_probe_interval: SignedDuration,
    /// Probe file that is updated while the server is ready.
    #[arg(
        long,
        alias = "readinessProbePath",
        value_parser = value::path, default_value = "",
        hide_default_value = true,
        value_name = "PATH"
    )]
    pub(crate) readiness_probe_path: PathBuf,
    /// Maximum age of the probe file; it is updated twice per interval. Example: 2s.
    #[arg(
        long, alias = "readinessProbeInterval", default_value = "0s", value_parser = value::duration,
        value_name = "DURATION"
    )]
    pub(crate) readiness_probe_interval: SignedDuration,
    /// PID file. Example: /run/mixer.pid.
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "PATH")]
    pub(crate) pid_file: PathBuf,
    /// Delay between "not ready" and the end of accepting calls at shutdown.
    #[arg(long, default_value = "0s", value_parser = value::duration, value_name = "DURATION")]
    pub(crate) drain_delay: SignedDuration,
    /// Timeout of the whole shutdown; remaining calls are aborted.
    #[arg(long, default_value = "30s", value_parser = value::duration, value_name = "DURATION")]
    pub(crate) shutdown_timeout: SignedDuration,
}

/// The Envoy services.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Envoy")]
pub(crate) struct EnvoyFlags {
    /// Whether to serve Envoy on the API port: ext_authz, access log and rate limit services.
    #[arg(
        long, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true",
        value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL"
    )]
    pub(crate) envoy_bridge: bool,
    /// Address of HTTP ext_authz. Example: 127.0.0.1:9191.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ADDRESS")]
    pub(crate) envoy_http_address: String,
    /// Address of rate limits over HTTP: POST /json, GET /rlconfig, GET /healthcheck. Example: 127.0.0.1:9192.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ADDRESS")]
    pub(crate) envoy_ratelimit_http_address: String,
}
