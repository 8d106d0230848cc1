//! Settings that have no effect without another one.
//!
//! Who sets `--max-requests-per-second` without `--load-shedding-mode`, or `--envoy-http-address` with `--envoy-bridge=false`, believes
//! in a protection that is not there.

use super::{ProbeOptions, ServerOptions};
use mixer_api::load_shedding::LoadSheddingMode;
use mixer_attribute::SignedDuration;
use mixer_base::log::OptionsError;
use mixer_engine::runtime::OnConfigError;
use mixer_net::address::ListenAddress;

/// A flag that has an effect only with others.
struct Dependent {
    flag: &'static str,
    /// Whether it differs from its default: settings do not tell whether a flag was given.
    is_set: fn(&ServerOptions, &ServerOptions) -> bool,
    has_effect: fn(&ServerOptions) -> bool,
    /// What it needs; with the cure.
    needs: &'static str,
}

/// A row of [`DEPENDENT`]: the fields that the flag sets.
macro_rules! dependent {
    ($flag:literal: $($field:ident).+, $has_effect:expr, $needs:literal) => {
        Dependent {
            flag: $flag,
            is_set: |options, defaults| options.$($field).+ != defaults.$($field).+,
            has_effect: $has_effect,
            needs: $needs,
        }
    };
}

fn sheds(options: &ServerOptions) -> bool {
    options.load_shedding.mode != LoadSheddingMode::Disabled
}

fn limits_rate(options: &ServerOptions) -> bool {
    sheds(options) && options.load_shedding.max_requests_per_second > 0.0
}

fn limits_latency(options: &ServerOptions) -> bool {
    sheds(options) && options.load_shedding.average_latency_threshold > SignedDuration::ZERO
}

fn limits_load(options: &ServerOptions) -> bool {
    limits_rate(options) || limits_latency(options)
}

fn logs_decisions(options: &ServerOptions) -> bool {
    !options.decisions.log.path.as_os_str().is_empty()
}

fn records(options: &ServerOptions) -> bool {
    !options.decisions.recording.path.as_os_str().is_empty()
}

fn rotates(options: &ServerOptions) -> bool {
    !options.log.rotate.as_os_str().is_empty()
}

fn has_client_ca(options: &ServerOptions) -> bool {
    !options.tls.client_ca_file.as_os_str().is_empty()
}

fn is_mcps(options: &ServerOptions) -> bool {
    ["mcps://", "mcps+listen://"].iter().any(|scheme| options.config_store_url.starts_with(scheme))
}

fn is_mcp(options: &ServerOptions) -> bool {
    is_mcps(options)
        || ["mcp://", "mcp+listen://"].iter().any(|scheme| options.config_store_url.starts_with(scheme))
}

fn is_cluster(options: &ServerOptions) -> bool {
    let is_empty = options.config_store_url.is_empty();
    is_empty
        || ["k8s://", "kube://", "kubernetes://"]
            .iter()
            .any(|scheme| options.config_store_url.starts_with(scheme))
}

/// Flags with the flags that they need, without which an operator believes in a protection or a limit that is not there. Those with an
/// effect of their own are not listed; `--tls-key-file`, `--tls-client-ca-file` and `--tls-allowed-peers` are
/// checked with the certificates, `--config-cache` and `--config-loss` for Istio Mixer as well.
const DEPENDENT: &[Dependent] = &[
    dependent!("--envoy-http-address": envoy_http_address, |o| o.envoy_bridge, "--envoy-bridge=true"),
    dependent!(
        "--envoy-ratelimit-http-address": envoy_ratelimit_http_address, |o| o.envoy_bridge, "--envoy-bridge=true"
    ),
    dependent!(
        "--socket-mode": socket_mode,
        |o| !matches!(o.listen_address(), Ok(ListenAddress::Tcp { .. })),
        "--address unix:///PATH"
    ),
    dependent!("--tls-client-auth": tls.client_auth, has_client_ca, "--tls-client-ca-file"),
    dependent!(
        "--tls-min-version": tls.min_version, |o| o.tls.is_enabled(), "--tls-cert-file and --tls-key-file"
    ),
    dependent!("--cert-file": cert_file, is_mcps, "--config-store-url mcps://HOST:PORT"),
    dependent!("--key-file": key_file, is_mcps, "--config-store-url mcps://HOST:PORT"),
    dependent!("--ca-cert-file": ca_cert_file, is_mcps, "--config-store-url mcps://HOST:PORT"),
    dependent!("--mcp-max-message-size": mcp_max_message_size, is_mcp, "--config-store-url mcp://HOST:PORT"),
    dependent!("--config-write-status": config_write_status, is_cluster, "--config-store-url k8s://[KUBECONFIG]"),
    dependent!("--concurrency": concurrency, |o| !o.single_threaded || o.concurrency == 1, "--single-threaded=false"),
    dependent!(
        "--load-shedding-mode": load_shedding.mode,
        limits_load,
        "--max-requests-per-second or --average-latency-threshold"
    ),
    dependent!(
        "--max-requests-per-second": load_shedding.max_requests_per_second, sheds, "--load-shedding-mode enforce or logonly"
    ),
    dependent!(
        "--average-latency-threshold": load_shedding.average_latency_threshold,
        sheds,
        "--load-shedding-mode enforce or logonly"
    ),
    Dependent {
        flag: "--burst-size",
        // 0 endangers nobody where nothing is limited.
        is_set: |o, _| o.load_shedding.burst_size.is_some_and(|calls| calls != 0),
        has_effect: limits_rate,
        needs: "--max-requests-per-second",
    },
    dependent!(
        "--latency-samples-per-second": load_shedding.samples_per_second, limits_latency, "--average-latency-threshold"
    ),
    dependent!(
        "--latency-sample-half-life": load_shedding.sample_half_life, limits_latency, "--average-latency-threshold"
    ),
    dependent!(
        "--load-shedding-check-reserve": load_shedding.check_reserve,
        limits_load,
        "--load-shedding-mode and one of its limits"
    ),
    dependent!(
        "--load-shedding-fair": load_shedding.fair, limits_load, "--load-shedding-mode and one of its limits"
    ),
    dependent!("--decision-log-sampling": decisions.log.sampling, logs_decisions, "--decision-log"),
    dependent!("--decision-log-select": decisions.log.select, logs_decisions, "--decision-log"),
    dependent!("--decision-log-max-size": decisions.log.max_bytes, logs_decisions, "--decision-log"),
    dependent!("--decision-log-max-backups": decisions.log.max_backups, logs_decisions, "--decision-log"),
    dependent!(
        "--decision-queue": decisions.queue, |o| o.decisions.is_enabled(), "--decision-log or --record-requests"
    ),
    dependent!(
        "--decision-mask": decisions.masks, |o| o.decisions.is_enabled(), "--decision-log or --record-requests"
    ),
    dependent!("--record-max-requests": decisions.recording.max_calls, records, "--record-requests"),
    dependent!("--record-max-size": decisions.recording.max_bytes, records, "--record-requests"),
    dependent!("--log-rotate-max-size": log.rotate_max_size, rotates, "--log-rotate"),
    dependent!("--log-rotate-max-age": log.rotate_max_age, rotates, "--log-rotate"),
    dependent!("--log-rotate-max-backups": log.rotate_max_backups, rotates, "--log-rotate"),
    dependent!(
        "--trace-sampling-rate": tracing.sampling_rate,
        |o| o.tracing.is_enabled(),
        "--trace-zipkin-url, --trace-jaeger-url, --trace-otlp-url or --trace-log-spans"
    ),
    dependent!("--heap-profile-rate": heap_profile_rate, |o| o.profile, "--profile=true"),
    dependent!(
        "--liveness-probe-interval": liveness_probe.interval, |o| has_path(&o.liveness_probe), "--liveness-probe-path"
    ),
    dependent!(
        "--readiness-probe-interval": readiness_probe.interval, |o| has_path(&o.readiness_probe), "--readiness-probe-path"
    ),
];

fn has_controlz(options: &ServerOptions) -> bool {
    options.introspection.listen_address().is_some()
}

/// Flags that another one deprives of their effect, which is no danger: what happens instead. A socket of the service manager serves ControlZ
/// whatever `--ctrlz-port` says.
const OVERRIDDEN: &[Dependent] = &[
    dependent!("--port": port, |o| o.address.is_empty(), "--address names the port"),
    dependent!(
        "--monitoring-port": monitoring_port, |o| o.monitoring_address.is_empty(), "--monitoring-address names the port"
    ),
    dependent!("--metrics-port": metrics_port, |o| o.metrics_address.is_empty(), "--metrics-address names the port"),
    dependent!(
        "--ctrlz-port": introspection.port,
        |o| o.introspection.listen_address().is_none_or(|at| at.ends_with(&format!(":{}", o.introspection.port))),
        "--ctrlz-address names another port"
    ),
    dependent!("--ctrlz-address": introspection.address, has_controlz, "--ctrlz-port 0 turns ControlZ off"),
    dependent!("--ctrlz-readonly": introspection.read_only, has_controlz, "--ctrlz-port 0 turns ControlZ off"),
    dependent!("--ctrlz-token-file": introspection.token_file, has_controlz, "--ctrlz-port 0 turns ControlZ off"),
    dependent!(
        "--ctrlz-allowed-hosts": introspection.allowed_hosts, has_controlz, "--ctrlz-port 0 turns ControlZ off"
    ),
    dependent!(
        "--allow-empty-config": allow_empty_config,
        |o| o.config_on_error != OnConfigError::ServeValid,
        "--config-on-error serve-valid serves an empty configuration anyway"
    ),
    dependent!(
        "--api-worker-pool-floor": api_worker_pool_floor,
        |o| o.api_worker_pool_floor == 0 || i64::from(o.api_worker_pool_floor) < o.api_worker_pool_size,
        "it is not below --api-worker-pool-size, so that the limit does not adapt"
    ),
    dependent!(
        "--adapter-worker-pool-floor": adapter_worker_pool_floor,
        |o| o.adapter_worker_pool_floor == 0
            || i64::from(o.adapter_worker_pool_floor) < o.adapter_worker_pool_size,
        "it is not below --adapter-worker-pool-size, so that the limit does not adapt"
    ),
    dependent!(
        "--decision-log": decisions.log.path,
        |o| o.decisions.log.sampling > 0.0,
        "--decision-log-sampling 0 selects no decision"
    ),
];

fn has_path(probe: &ProbeOptions) -> bool {
    !probe.path.as_os_str().is_empty()
}

impl ServerOptions {
    /// What is given and has no effect, with the reason, for warnings. `has_controlz`: whether a socket of the service manager is for ControlZ.
    pub fn without_effect(&self, has_controlz: bool) -> Vec<String> {
        let defaults = Self::default();
        let lost = OVERRIDDEN.iter().filter(|row| (row.is_set)(self, &defaults) && !(row.has_effect)(self));
        let lost = lost.filter(|row| !has_controlz || !row.flag.starts_with("--ctrlz-"));
        lost.map(|Dependent { flag, needs, .. }| format!("{flag} has no effect: {needs}")).collect()
    }

    /// Validates what Istio Mixer accepts without effect. Errors: the first such setting.
    pub fn check_effects(&self) -> Result<(), OptionsError> {
        let rate = self.tracing.sampling_rate;
        if !(0.0..=1.0).contains(&rate) {
            return Err(OptionsError(format!("trace sampling rate must be from 0 to 1, got {rate}")));
        }
        for (name, probe) in [("liveness", &self.liveness_probe), ("readiness", &self.readiness_probe)] {
            if has_path(probe) && !probe.is_enabled() {
                let (path, interval) = (probe.path.display(), probe.interval);
                return Err(OptionsError(format!(
                    "the {name} probe file `{path}` is never written with --{name}-probe-interval {interval}: \
                     it must be > 0s"
                )));
            }
        }
        if self.config_wait_timeout <= SignedDuration::ZERO {
            let timeout = self.config_wait_timeout;
            return Err(OptionsError(format!(
                "no configuration is there in time with --config-wait-timeout {timeout}: it must be > 0s"
            )));
        }
        let defaults = Self::default();
        let lost = DEPENDENT.iter().find(|row| (row.is_set)(self, &defaults) && !(row.has_effect)(self));
        lost.map_or(Ok(()), |Dependent { flag, needs, .. }| {
            Err(OptionsError(format!("{flag} has no effect: it needs {needs}; add that, or omit {flag}")))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use mixer_engine::decision::Select;
    use mixer_net::tls::{ClientAuth, TlsVersion};

    /// A setting without effect, the flag that the error names, and what gives it an effect.
    type Case = (&'static str, fn(&mut ServerOptions), fn(&mut ServerOptions));

    const CASES: &[Case] = &[
        (
            "--envoy-http-address",
            |o| (o.envoy_http_address, o.envoy_bridge) = (":1".to_owned(), false),
            bridge,
        ),
        (
            "--envoy-ratelimit-http-address",
            |o| (o.envoy_ratelimit_http_address, o.envoy_bridge) = (":1".to_owned(), false),
            bridge,
        ),
        (
            "--socket-mode",
            |o| o.socket_mode = Some(0o660),
            |o| o.address = "unix:///run/mixer.sock".to_owned(),
        ),
        (
            "--tls-client-auth",
            |o| o.tls.client_auth = ClientAuth::Optional,
            |o| {
                o.tls.client_ca_file = PathBuf::from("/ca.pem");
            },
        ),
        (
            "--tls-min-version",
            |o| o.tls.min_version = TlsVersion::V1_3,
            |o| {
                o.tls.cert_file = PathBuf::from("/cert.pem");
            },
        ),
        ("--cert-file", |o| o.cert_file = PathBuf::from("/c"), mcps),
        ("--key-file", |o| o.key_file = PathBuf::from("/k"), mcps),
        ("--ca-cert-file", |o| o.ca_cert_file = PathBuf::from("/ca"), mcps),
        ("--mcp-max-message-size", |o| o.mcp_max_message_size = 5, mcps),
        (
            "--config-write-status",
            |o| o.config_write_status = true,
            |o| o.config_store_url = "k8s://".to_owned(),
        ),
        ("--concurrency", |o| (o.concurrency, o.single_threaded) = (4, true), |o| o.single_threaded = false),
        (
            "--load-shedding-mode",
            |o| o.load_shedding.mode = LoadSheddingMode::Enforce,
            |o| {
                o.load_shedding.average_latency_threshold = SignedDuration::from_secs(1);
            },
        ),
        ("--max-requests-per-second", |o| o.load_shedding.max_requests_per_second = 5.0, enforce),
        (
            "--average-latency-threshold",
            |o| o.load_shedding.average_latency_threshold = SignedDuration::from_secs(1),
            enforce,
        ),
        ("--burst-size", |o| o.load_shedding.burst_size = Some(5), shed),
        (
            "--latency-samples-per-second",
            |o| o.load_shedding.samples_per_second = 5.0,
            |o| {
                enforce(o);
                o.load_shedding.average_latency_threshold = SignedDuration::from_secs(1);
            },
        ),
        (
            "--latency-sample-half-life",
            |o| o.load_shedding.sample_half_life = SignedDuration::from_secs(5),
            |o| {
                enforce(o);
                o.load_shedding.average_latency_threshold = SignedDuration::from_secs(1);
            },
        ),
        ("--load-shedding-check-reserve", |o| o.load_shedding.check_reserve = 0.5, shed),
        ("--load-shedding-fair", |o| o.load_shedding.fair = true, shed),
        ("--decision-log-sampling", |o| o.decisions.log.sampling = 0.5, log),
        ("--decision-log-select", |o| o.decisions.log.select = Select::Denied, log),
        ("--decision-log-max-size", |o| o.decisions.log.max_bytes = 5, log),
        ("--decision-log-max-backups", |o| o.decisions.log.max_backups = 5, log),
        ("--decision-queue", |o| o.decisions.queue = 5, record),
        ("--decision-mask", |o| o.decisions.masks = vec!["source.user".to_owned()], record),
        ("--record-max-requests", |o| o.decisions.recording.max_calls = 5, record),
        ("--record-max-size", |o| o.decisions.recording.max_bytes = 5, record),
        ("--log-rotate-max-size", |o| o.log.rotate_max_size = 5, |o| o.log.rotate = PathBuf::from("/log")),
        ("--log-rotate-max-age", |o| o.log.rotate_max_age = 5, |o| o.log.rotate = PathBuf::from("/log")),
        (
            "--log-rotate-max-backups",
            |o| o.log.rotate_max_backups = 5,
            |o| o.log.rotate = PathBuf::from("/log"),
        ),
        ("--trace-sampling-rate", |o| o.tracing.sampling_rate = 0.5, |o| o.tracing.log_spans = true),
        ("--heap-profile-rate", |o| (o.heap_profile_rate, o.profile) = (5, false), |o| o.profile = true),
        (
            "--liveness-probe-interval",
            |o| o.liveness_probe.interval = SignedDuration::from_secs(1),
            |o| {
                o.liveness_probe.path = PathBuf::from("/live");
            },
        ),
        (
            "--readiness-probe-interval",
            |o| o.readiness_probe.interval = SignedDuration::from_secs(1),
            |o| {
                o.readiness_probe.path = PathBuf::from("/ready");
            },
        ),
    ];

    fn bridge(options: &mut ServerOptions) {
        options.envoy_bridge = true;
    }

    fn mcps(options: &mut ServerOptions) {
        options.config_store_url = "mcps://config:9901".to_owned();
    }

    fn enforce(options: &mut ServerOptions) {
        options.load_shedding.mode = LoadSheddingMode::Enforce;
    }

    fn shed(options: &mut ServerOptions) {
        enforce(options);
        options.load_shedding.max_requests_per_second = 7.0;
    }

    fn log(options: &mut ServerOptions) {
        options.decisions.log.path = PathBuf::from("/decisions");
    }

    fn record(options: &mut ServerOptions) {
        options.decisions.recording.path = PathBuf::from("/calls");
    }

    fn refused(options: &ServerOptions) -> Result<(), String> {
        options.check_effects().map_err(|error| error.0)
    }

    #[test]
    fn a_flag_without_what_it_needs_is_refused() {
        assert_eq!(refused(&ServerOptions::default()), Ok(()));
        let tested: Vec<&str> = CASES.iter().map(|(flag, ..)| *flag).collect();
        assert_eq!(tested, DEPENDENT.iter().map(|row| row.flag).collect::<Vec<_>>(), "every row is tested");
        for (flag, set, mend) in CASES {
            let mut options = ServerOptions::default();
            set(&mut options);
            let text = refused(&options).expect_err(flag);
            assert!(text.starts_with(&format!("{flag} has no effect: it needs --")), "{flag}: {text}");
            mend(&mut options);
            assert_eq!(refused(&options), Ok(()), "{flag}");
        }
    }

    #[test]
    fn what_another_flag_overrides_is_told() {
        /// A setting without effect, and what gives it one.
        type Case = (&'static str, fn(&mut ServerOptions), fn(&mut ServerOptions));
        const OFF: fn(&mut ServerOptions) = |o| o.introspection.port = 9876;
        const CASES: &[Case] = &[
            ("--port", |o| (o.port, o.address) = (1, "127.0.0.1:2".to_owned()), |o| o.address.clear()),
            (
                "--monitoring-port",
                |o| (o.monitoring_port, o.monitoring_address) = (1, "127.0.0.1:2".to_owned()),
                |o| o.monitoring_address.clear(),
            ),
            (
                "--metrics-port",
                |o| (o.metrics_port, o.metrics_address) = (1, "127.0.0.1:2".to_owned()),
                |o| o.metrics_address.clear(),
            ),
            (
                "--ctrlz-port",
                |o| (o.introspection.port, o.introspection.address) = (1, "127.0.0.1:2".to_owned()),
                |o| o.introspection.address = "127.0.0.1:1".to_owned(),
            ),
            (
                "--ctrlz-address",
                |o| (o.introspection.port, o.introspection.address) = (0, "127.0.0.1".to_owned()),
                OFF,
            ),
            ("--ctrlz-readonly", |o| (o.introspection.port, o.introspection.read_only) = (0, true), OFF),
            (
                "--ctrlz-token-file",
                |o| (o.introspection.port, o.introspection.token_file) = (0, PathBuf::from("/t")),
                OFF,
            ),
            (
                "--ctrlz-allowed-hosts",
                |o| (o.introspection.port, o.introspection.allowed_hosts) = (0, vec!["a".to_owned()]),
                OFF,
            ),
            (
                "--allow-empty-config",
                |o| (o.allow_empty_config, o.config_on_error) = (true, OnConfigError::ServeValid),
                |o| o.config_on_error = OnConfigError::KeepLast,
            ),
            (
                "--api-worker-pool-floor",
                |o| (o.api_worker_pool_floor, o.api_worker_pool_size) = (9, 9),
                |o| o.api_worker_pool_size = 10,
            ),
            (
                "--adapter-worker-pool-floor",
                |o| (o.adapter_worker_pool_floor, o.adapter_worker_pool_size) = (9, 9),
                |o| o.adapter_worker_pool_size = 10,
            ),
            (
                "--decision-log",
                |o| (o.decisions.log.path, o.decisions.log.sampling) = (PathBuf::from("/d"), 0.0),
                |o| o.decisions.log.sampling = 0.5,
            ),
        ];
        assert_eq!(ServerOptions::default().without_effect(false), [""; 0]);
        let tested: Vec<&str> = CASES.iter().map(|(flag, ..)| *flag).collect();
        assert_eq!(tested, OVERRIDDEN.iter().map(|row| row.flag).collect::<Vec<_>>(), "every row is tested");
        for (flag, set, mend) in CASES {
            let mut options = ServerOptions::default();
            set(&mut options);
            let told = options.without_effect(false);
            assert!(told.len() == 1 && told[0].starts_with(&format!("{flag} has no effect: ")), "{told:?}");
            assert_eq!(options.without_effect(true).is_empty(), flag.starts_with("--ctrlz-"), "{flag}");
            mend(&mut options);
            assert_eq!(options.without_effect(false), [""; 0], "{flag}");
        }
    }

    #[test]
    fn the_error_names_the_cure() {
        let mut options = ServerOptions {
            envoy_bridge: false,
            envoy_ratelimit_http_address: "127.0.0.1:9192".to_owned(),
            ..ServerOptions::default()
        };
        let text = "--envoy-ratelimit-http-address has no effect: it needs --envoy-bridge=true; add that, or omit \
                    --envoy-ratelimit-http-address";
        assert_eq!(refused(&options), Err(text.to_owned()));
        assert_eq!(options.check(), Ok(()), "Istio Mixer knows no such check");
        options.envoy_ratelimit_http_address.clear();
        assert_eq!(refused(&options), Ok(()), "the services are off, which is meant");
    }

    #[test]
    fn a_burst_of_nothing_needs_no_rate() {
        let mut options = ServerOptions::default();
        options.load_shedding.burst_size = Some(0);
        assert_eq!(refused(&options), Ok(()), "as files of --print-config have it");
    }

    #[test]
    fn a_start_that_waits_for_no_configuration_is_refused() {
        for (timeout, shown) in [(SignedDuration::ZERO, "0s"), (SignedDuration::from_secs(-1), "-1s")] {
            let options = ServerOptions { config_wait_timeout: timeout, ..ServerOptions::default() };
            let text = format!(
                "no configuration is there in time with --config-wait-timeout {shown}: it must be > 0s"
            );
            assert_eq!(refused(&options), Err(text));
            assert_eq!(options.check(), Ok(()), "Istio Mixer says that it exceeded its timeout");
        }
    }

    #[test]
    fn probe_files_that_are_never_written_are_refused() {
        let mut options = ServerOptions::default();
        options.readiness_probe.path = PathBuf::from("/run/ready");
        assert_eq!(
            refused(&options),
            Err(
                "the readiness probe file `/run/ready` is never written with --readiness-probe-interval 0s: \
                 it must be > 0s"
                    .to_owned()
            )
        );
        options.readiness_probe.interval = SignedDuration::from_secs(1);
        assert_eq!(refused(&options), Ok(()));
        options.tracing.sampling_rate = 7.0;
        assert_eq!(refused(&options), Err("trace sampling rate must be from 0 to 1, got 7".to_owned()));
        assert_eq!(options.check(), Ok(()), "Istio Mixer accepts it while no spans are made");
    }
}
