//! Settings of a server as plain data.

mod addresses;
mod effects;

use std::path::{Path, PathBuf};

use mixer_api::load_shedding::LoadSheddingOptions;
use mixer_attribute::SignedDuration;
use mixer_base::budget::{DEFAULT_MEMORY_LIMIT, MIN_MEMORY_LIMIT};
use mixer_base::build_info::BuildInfo;
use mixer_base::log::{LogOptions, OptionsError};
use mixer_base::pool::PoolOptions;
use mixer_base::secrets::mask_address;
use mixer_engine::decision::DecisionOptions;
use mixer_engine::runtime::OnConfigError;
use mixer_introspect::IntrospectionOptions;
use mixer_net::address::{AddressError, ListenAddress};
use mixer_net::tls::ServerTlsOptions;
use mixer_spans::TracingOptions;

/// All settings of one server. [`Default`] has the defaults of `mixer server`.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerOptions {
    /// TCP port of the gRPC API on all interfaces; used only if `address` is empty.
    pub port: u16,
    /// `network://address` or `host:port`; see [`ListenAddress`].
    pub address: String,
    /// TLS of the API.
    pub tls: ServerTlsOptions,
    /// Permissions of the unix socket file; `None`: those of the umask.
    pub socket_mode: Option<u32>,
    /// HTTP port of metrics, version, health and profiles, on all interfaces.
    pub monitoring_port: u16,
    /// Address of the monitoring port, `HOST:PORT`; empty: the port on all interfaces.
    pub monitoring_address: String,
    /// Port of the metrics endpoint shared by all prometheus handlers.
    pub metrics_port: u16,
    /// Address of the metrics endpoint of prometheus handlers, `HOST:PORT`; empty: the port on all interfaces.
    pub metrics_address: String,
    /// Maximum message size in bytes.
    pub max_message_size: u64,
    /// Most bytes of everything that callers can make the server keep; see [`MemoryBudget`](mixer_base::budget::MemoryBudget).
    pub memory_limit: u64,
    /// Maximum number of concurrent streams per connection.
    pub max_concurrent_streams: u64,
    /// Maximum number of quotas of a check, and of descriptors of a rate limit call.
    pub max_check_quotas: u32,
    /// Maximum number of records of a report, and of entries of an access log message.
    pub max_report_records: u32,
    /// Time limit for receiving a message, from the first byte of its request or, on a stream, of the message.
    pub receive_timeout: SignedDuration,
    /// Maximum age of a connection; 0: unlimited.
    pub max_connection_age: SignedDuration,
    /// Maximum number of asynchronous API calls in flight.
    pub api_worker_pool_size: i64,
    /// Floor and initial value of that limit; 0: the limit is fixed.
    pub api_worker_pool_floor: u32,
    /// Maximum length of the API queue.
    pub api_queue_length: u32,
    /// Maximum number of asynchronous calls in flight per handler.
    pub adapter_worker_pool_size: i64,
    /// Floor and initial value of that limit; 0: the limit is fixed.
    pub adapter_worker_pool_floor: u32,
    /// Maximum length of the queue of a handler.
    pub adapter_queue_length: u32,
    /// Runs a single worker.
    pub single_threaded: bool,
    /// Worker threads, each with its own event loop; 0: one per core.
    pub concurrency: u32,
    /// Entries of the check cache as shown in the banner; see [`check_cache_entries`](Self::check_cache_entries).
    pub num_check_cache_entries: i32,
    /// Whether the size of the check cache was set. Otherwise the cache is off.
    pub check_cache_requested: bool,
    /// `fs://DIR`, `k8s://[KUBECONFIG]`, `mcp://HOST:PORT`, `mcps://HOST:PORT`, `mcp+listen://ADDRESS`, `embedded://sample`; never
    /// empty.
    pub config_store_url: String,
    /// Namespace of mesh-wide rules.
    pub config_default_namespace: String,
    /// Whether that store is the embedded sample because none is given.
    pub sample_by_default: bool,
    /// What is probably a mistake in what is given, for the log: variables of the environment that set nothing.
    pub suspicions: Vec<String>,
    /// Names of environment variables that begin like settings and set nothing: perhaps they are those of somebody else.
    pub unread_variables: Vec<String>,
    /// How long to wait for the first configuration of a remote store.
    pub config_wait_timeout: SignedDuration,
    /// compat(1.3): whether the configuration is dropped when its directory disappears; otherwise the last good one is kept. Only
    /// with [`OnConfigError::ServeValid`].
    pub drop_lost_configuration: bool,
    /// What serves when the configuration has errors.
    pub config_on_error: OnConfigError,
    /// Whether a configuration without resources is meant.
    pub allow_empty_config: bool,
    /// compat(1.3): whether problems are logged in Istio Mixer's words, and those that it does not have, such as unknown kinds, are not.
    pub problems_as_istio_mixer: bool,
    /// Whether the attributes that Envoy and Istio's proxies send are known without a manifest.
    pub standard_attributes: bool,
    /// Directory with the last good configuration for the next start; empty: none.
    pub config_cache: PathBuf,
    /// Whether objects of Kubernetes get a status that says whether they can be used.
    pub config_write_status: bool,
    /// Maximum size of a message of an MCP source, in bytes.
    pub mcp_max_message_size: u64,
    /// Client certificate for `mcps://`.
    pub cert_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
    /// Roots trusted for `mcps://`.
    pub ca_cert_file: PathBuf,
    /// Whether kinds named like adapters are read.
    pub use_adapter_crds: bool,
    /// Whether kinds named like templates are read.
    pub use_template_crds: bool,
    /// Whether profiles are served on the monitoring port.
    pub profile: bool,
    /// Mean interval of continuous heap sampling in bytes; 0: off. Needs the Cargo feature `profiling`.
    pub heap_profile_rate: u64,
    /// Whether metrics are also exported under their Mixer 1.0 names.
    pub legacy_metrics: bool,
    /// Whether `/healthz` and `/readyz` are served on the monitoring port.
    pub health_endpoints: bool,
    /// Whether gRPC reflection is served.
    pub reflection: Reflection,
    /// Liveness probe file.
    pub liveness_probe: ProbeOptions,
    /// Readiness probe file.
    pub readiness_probe: ProbeOptions,
    /// Log.
    pub log: LogOptions,
    /// Spans.
    pub tracing: TracingOptions,
    /// Decision log and recording.
    pub decisions: DecisionOptions,
    /// ControlZ.
    pub introspection: IntrospectionOptions,
    /// Load shedding.
    pub load_shedding: LoadSheddingOptions,
    /// Pid file; empty: none.
    pub pid_file: PathBuf,
    /// Whether the Envoy services are served.
    pub envoy_bridge: bool,
    /// `host:port` of HTTP external authorization; empty: off.
    pub envoy_http_address: String,
    /// `host:port` of rate limits of Envoy over HTTP; empty: off.
    pub envoy_ratelimit_http_address: String,
    /// Delay between becoming not ready and draining.
    pub drain_delay: SignedDuration,
    /// Time limit of the whole shutdown.
    pub shutdown_timeout: SignedDuration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            port: 9091,
            address: String::new(),
            tls: ServerTlsOptions::default(),
            socket_mode: None,
            monitoring_port: 15014,
            monitoring_address: String::new(),
            metrics_port: 42422,
            metrics_address: String::new(),
            max_message_size: 1 << 20,
            memory_limit: DEFAULT_MEMORY_LIMIT as u64,
            max_concurrent_streams: 1024,
            max_check_quotas: 64,
            max_report_records: 20_000,
            receive_timeout: SignedDuration::from_secs(30),
            max_connection_age: SignedDuration::ZERO,
            api_worker_pool_size: 1024,
            adapter_worker_pool_size: 1024,
            api_worker_pool_floor: 0,
            api_queue_length: 1024,
            adapter_worker_pool_floor: 0,
            adapter_queue_length: 1024,
            single_threaded: false,
            concurrency: 0,
            num_check_cache_entries: 1_500_000,
            check_cache_requested: false,
            config_store_url: mixer_config::store::EMBEDDED_SAMPLE.to_owned(),
            config_default_namespace: "istio-system".to_owned(),
            sample_by_default: false,
            suspicions: Vec::new(),
            unread_variables: Vec::new(),
            config_wait_timeout: SignedDuration::from_secs(120),
            drop_lost_configuration: false,
            config_on_error: OnConfigError::KeepLast,
            allow_empty_config: false,
            problems_as_istio_mixer: false,
            config_cache: PathBuf::new(),
            standard_attributes: true,
            config_write_status: false,
            mcp_max_message_size: 64 << 20,
            cert_file: PathBuf::from("/etc/certs/cert-chain.pem"),
            key_file: PathBuf::from("/etc/certs/key.pem"),
            ca_cert_file: PathBuf::from("/etc/certs/root-cert.pem"),
            use_adapter_crds: true,
            use_template_crds: true,
            profile: true,
            heap_profile_rate: 0,
            legacy_metrics: false,
            health_endpoints: true,
            reflection: Reflection::default(),
            liveness_probe: ProbeOptions::default(),
            readiness_probe: ProbeOptions::default(),
            log: LogOptions::default(),
            tracing: TracingOptions::default(),
            decisions: DecisionOptions::default(),
            introspection: IntrospectionOptions::default(),
            load_shedding: LoadSheddingOptions::default(),
            pid_file: PathBuf::new(),
            envoy_bridge: true,
            envoy_http_address: String::new(),
            envoy_ratelimit_http_address: String::new(),
            drain_delay: SignedDuration::ZERO,
            shutdown_timeout: SignedDuration::from_secs(30),
        }
    }
}

impl ServerOptions {
    /// Where the directories are remembered in which handlers keep entries.
    pub(crate) fn memory_of_spills(&self) -> Option<PathBuf> {
        (!self.config_cache.as_os_str().is_empty()).then(|| self.config_cache.clone())
    }

    /// Validates the settings: step 1 of the start. Errors: the first invalid setting, with the order and texts of 1.3.
    pub fn check(&self) -> Result<(), OptionsError> {
        let refuse = |text: String| Err(OptionsError(text));
        if self.max_message_size == 0 {
            return refuse("max message size must be > 0, got 0".to_owned());
        }
        if self.mcp_max_message_size == 0 {
            return refuse("mcp max message size must be > 0, got 0".to_owned());
        }
        if self.max_concurrent_streams == 0 {
            return refuse("max concurrent streams must be > 0, got 0".to_owned());
        }
        for (what, number) in
            [("max check quotas", self.max_check_quotas), ("max report records", self.max_report_records)]
        {
            if number == 0 {
                return refuse(format!("{what} must be > 0, got 0"));
            }
        }
        if self.receive_timeout <= SignedDuration::ZERO {
            return refuse(format!("receive timeout must be > 0s, got {}", self.receive_timeout));
        }
        if self.memory_limit < MIN_MEMORY_LIMIT as u64 {
            let (least, limit) = (MIN_MEMORY_LIMIT >> 20, self.memory_limit);
            return refuse(format!("memory limit must be >= {least}MiB, got {limit} bytes"));
        }
        if self.api_worker_pool_size <= 0 {
            let size = self.api_worker_pool_size;
            return refuse(format!("api worker pool size must be > 0, got pool size {size}"));
        }
        if self.adapter_worker_pool_size <= 0 {
            let size = self.adapter_worker_pool_size;
            return refuse(format!("adapter worker pool size must be > 0 , got pool size {size}"));
        }
        if self.num_check_cache_entries < 0 {
            let entries = self.num_check_cache_entries;
            return refuse(format!("# check cache entries must be >= 0 and <= 2^31-1, got {entries}"));
        }
        for (what, duration) in
            [("drain delay", self.drain_delay), ("shutdown timeout", self.shutdown_timeout)]
        {
            if duration < SignedDuration::ZERO {
                return refuse(format!("{what} must be >= 0s, got {duration}"));
            }
        }
        self.decisions.check()?;
        if self.config_on_error == OnConfigError::ServeValid && !self.config_cache.as_os_str().is_empty() {
            return refuse(
                "--config-cache has no effect with --config-on-error serve-valid, which serves what is valid at once; \
                 it needs --config-on-error keep-last or refuse"
                    .to_owned(),
            );
        }
        if self.drop_lost_configuration && self.config_on_error != OnConfigError::ServeValid {
            let policy = self.config_on_error.name();
            return refuse(format!(
                "--config-loss drop has no effect with --config-on-error {policy}, which keeps the last good configuration; \
                 it needs --config-on-error serve-valid"
            ));
        }
        Ok(())
    }

    /// The pool of asynchronous API calls.
    pub(crate) fn api_pool(&self) -> PoolOptions {
        pool(self.api_worker_pool_size, self.api_worker_pool_floor, self.api_queue_length)
    }

    /// The pool of each handler.
    pub(crate) fn adapter_pool(&self) -> PoolOptions {
        pool(self.adapter_worker_pool_size, self.adapter_worker_pool_floor, self.adapter_queue_length)
    }

    /// Maximum number of check cache entries; `None`: no cache.
    pub fn check_cache_entries(&self) -> Option<usize> {
        let entries = usize::try_from(self.num_check_cache_entries).unwrap_or(0);
        (self.check_cache_requested && entries > 0).then_some(entries)
    }

    /// The settings as given, with name and value, in the order and form of the start banner of Istio Mixer. Values of groups are
    /// `key=value` lists.
    pub fn banner(&self) -> Vec<(&'static str, String)> {
        vec![
            ("MaxMessageSize", self.max_message_size.to_string()),
            ("MaxConcurrentStreams", self.max_concurrent_streams.to_string()),
            ("APIWorkerPoolSize", self.api_worker_pool_size.to_string()),
            ("AdapterWorkerPoolSize", self.adapter_worker_pool_size.to_string()),
            ("APIPort", self.port.to_string()),
            ("APIAddress", self.address.clone()),
            ("MonitoringPort", self.monitoring_port.to_string()),
            ("EnableProfiling", self.profile.to_string()),
            ("SingleThreaded", self.single_threaded.to_string()),
            ("NumCheckCacheEntries", self.num_check_cache_entries.to_string()),
            ("ConfigStoreURL", mask_address(&self.config_store_url).into_owned()),
            ("CertificateFile", self.cert_file.display().to_string()),
            ("KeyFile", self.key_file.display().to_string()),
            ("CACertificateFile", self.ca_cert_file.display().to_string()),
            ("ConfigDefaultNamespace", self.config_default_namespace.clone()),
            ("ConfigWaitTimeout", self.config_wait_timeout.to_string()),
            ("LoggingOptions", self.log.to_string()),
            ("TracingOptions", self.tracing.to_string()),
            ("IntrospectionOptions", self.introspection.to_string()),
            ("UseTemplateCRDs", self.use_template_crds.to_string()),
            ("LoadSheddingOptions", self.load_shedding.to_string()),
            ("UseAdapterCRDs", self.use_adapter_crds.to_string()),
        ]
    }

    /// The version of the program, and the settings as in [`banner`](Self::banner), but what is in effect instead of what is ignored or
    /// replaced: the ports of the addresses (`none` for a Unix socket), 0 entries of a check cache that is off, and certificates where TLS
    /// uses them: of the API port, or for an MCP source. With the settings that Istio Mixer does not have: other addresses, the memory of
    /// callers, and what serves beside an error.
    pub fn settings_in_effect(&self) -> Vec<(&'static str, String)> {
        let mut settings = self.banner();
        let (tls, source) = (&self.tls, self.config_store_url.starts_with("mcps"));
        settings.retain(|(name, _)| {
            source || !matches!(*name, "CertificateFile" | "KeyFile" | "CACertificateFile")
        });
        let path = |path: &Path| path.display().to_string();
        let mut add = |before: &str, more: Vec<(&'static str, String)>| {
            let at = settings.iter().position(|(name, _)| *name == before).unwrap_or(0);
            settings.splice(at..at, more.into_iter().filter(|(_, value)| !value.is_empty()));
        };
        add(
            "MonitoringPort",
            vec![
                ("APICertificateFile", path(&tls.cert_file)),
                ("APIKeyFile", path(&tls.key_file)),
                ("APIClientCAFile", path(&tls.client_ca_file)),
                ("EnvoyHTTPAddress", self.envoy_http_address.clone()),
            ],
        );
        add(
            "EnableProfiling",
            vec![
                ("EnvoyRateLimitHTTPAddress", self.envoy_ratelimit_http_address.clone()),
                ("MonitoringAddress", self.monitoring_address.clone()),
                ("MetricsAddress", self.metrics_listen_address()),
                ("MemoryLimit", self.memory_limit.to_string()),
            ],
        );
        add(
            "ConfigWaitTimeout",
            vec![
                ("ConfigOnError", self.config_on_error.name().to_owned()),
                ("ConfigCache", path(&self.config_cache)),
                ("AllowEmptyConfig", self.allow_empty_config.to_string()),
            ],
        );
        settings.insert(0, ("Version", BuildInfo::of_this_program().with_revision()));
        let port_of = |address: &str| address.rsplit(':').next().unwrap_or_default().to_owned();
        for (name, value) in &mut settings {
            match *name {
                "APIPort" => match self.listen_address() {
                    Ok(ListenAddress::Tcp { address, .. }) => *value = port_of(&address),
                    Ok(ListenAddress::Unix(_)) => "none".clone_into(value),
                    // The start fails, and says why.
                    Err(_) => {}
                },
                "MonitoringPort" => *value = port_of(&self.monitoring_listen_address()),
                "IntrospectionOptions" => *value = self.introspection.in_effect().to_string(),
                "NumCheckCacheEntries" => *value = self.check_cache_entries().unwrap_or(0).to_string(),
                _ => {}
            }
        }
        settings
    }

    /// Whether gRPC reflection is served by an API at `address`.
    pub(crate) fn serves_reflection(&self, address: &ListenAddress) -> bool {
        match self.reflection {
            Reflection::On => true,
            Reflection::Off => false,
            Reflection::Auto => address.is_local(),
        }
    }

    /// The listen address of the monitoring port.
    pub fn monitoring_listen_address(&self) -> String {
        match self.monitoring_address.as_str() {
            "" => format!(":{}", self.monitoring_port),
            given => given.to_owned(),
        }
    }

    /// The listen address of the metrics endpoint of prometheus handlers.
    pub fn metrics_listen_address(&self) -> String {
        match self.metrics_address.as_str() {
            "" => format!(":{}", self.metrics_port),
            given => given.to_owned(),
        }
    }

    /// The listen address of the gRPC API. Errors: as [`ListenAddress::parse`].
    pub fn listen_address(&self) -> Result<ListenAddress, AddressError> {
        if self.address.is_empty() {
            return Ok(ListenAddress::Tcp { network: "tcp".to_owned(), address: format!(":{}", self.port) });
        }
        ListenAddress::parse(&self.address)
    }
}

fn pool(size: i64, floor: u32, queue: u32) -> PoolOptions {
    let ceiling = usize::try_from(size).unwrap_or(usize::MAX).max(1);
    let floor = if floor == 0 { ceiling } else { (floor as usize).min(ceiling) };
    PoolOptions { floor, ceiling, queue: queue as usize }
}

/// Whether gRPC reflection is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Reflection {
    /// Only if the API is reachable from this host only.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// A probe file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProbeOptions {
    /// The path; empty: no file.
    pub path: PathBuf,
    /// Maximum age of the file.
    pub interval: SignedDuration,
}

impl ProbeOptions {
    /// Whether a probe file is configured.
    pub fn is_enabled(&self) -> bool {
        !self.path.as_os_str().is_empty() && self.interval > SignedDuration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validation_errors_have_the_texts_of_1_3() {
        type Change = fn(&mut ServerOptions);
        let cases: [(Change, &str); 16] = [
            (|o| o.max_message_size = 0, "max message size must be > 0, got 0"),
            (|o| o.memory_limit = 1 << 20, "memory limit must be >= 16MiB, got 1048576 bytes"),
            (|o| o.max_concurrent_streams = 0, "max concurrent streams must be > 0, got 0"),
            (|o| o.max_check_quotas = 0, "max check quotas must be > 0, got 0"),
            (|o| o.max_report_records = 0, "max report records must be > 0, got 0"),
            (|o| o.receive_timeout = SignedDuration::ZERO, "receive timeout must be > 0s, got 0s"),
            (
                |o| o.shutdown_timeout = SignedDuration::from_secs(-1),
                "shutdown timeout must be >= 0s, got -1s",
            ),
            (|o| o.drain_delay = SignedDuration::from_secs(-1), "drain delay must be >= 0s, got -1s"),
            (|o| o.decisions.log.sampling = 2.0, "share of decisions to log must be from 0 to 1, got 2"),
            (
                |o| o.decisions.masks = vec!["[x".to_owned()],
                "`[x` names no attribute to mask; write name or name[key]",
            ),
            (|o| o.api_worker_pool_size = 0, "api worker pool size must be > 0, got pool size 0"),
            (|o| o.adapter_worker_pool_size = -1, "adapter worker pool size must be > 0 , got pool size -1"),
            (
                |o| o.drop_lost_configuration = true,
                "--config-loss drop has no effect with --config-on-error keep-last, which keeps the last good configuration; \
                 it needs --config-on-error serve-valid",
            ),
            (
                |o| {
                    o.config_on_error = OnConfigError::ServeValid;
                    o.config_cache = PathBuf::from("/var/lib/mixer");
                },
                "--config-cache has no effect with --config-on-error serve-valid, which serves what is valid at once; \
                 it needs --config-on-error keep-last or refuse",
            ),
            (|o| o.num_check_cache_entries = -1, "# check cache entries must be >= 0 and <= 2^31-1, got -1"),
            (
                |o| {
                    o.api_worker_pool_size = 0;
                    o.max_message_size = 0;
                },
                "max message size must be > 0, got 0",
            ),
        ];
        assert_eq!(ServerOptions::default().check(), Ok(()));
        for (change, text) in cases {
            let mut options = ServerOptions::default();
            change(&mut options);
            assert_eq!(options.check(), Err(OptionsError(text.to_owned())));
        }
    }

    #[test]
    fn addresses_have_a_network() {
        let text = |t: &str| ListenAddress::parse(t).map(|a| a.to_string()).unwrap_or_else(|e| e.0);
        assert_eq!(text("tcp4://127.0.0.1:1"), "tcp4://127.0.0.1:1");
        assert_eq!(text("127.0.0.1:1"), "tcp://127.0.0.1:1");
        assert_eq!(text("unix:///run/mixer.sock"), "unix:///run/mixer.sock");
        assert_eq!(text("[::1]:9091"), "tcp://[::1]:9091");
        assert_eq!(text("foo://x:1"), "listen foo: unknown network foo");
        assert_eq!(text("127.0.0.1"), "listen tcp: address 127.0.0.1: missing port in address");
        assert_eq!(text("::1:9091"), "listen tcp: address ::1:9091: too many colons in address");
    }

    #[test]
    fn settings_in_effect_are_what_is_so() {
        let shown = |options: &ServerOptions, name: &str| {
            let of = |settings: Vec<(&str, String)>| {
                settings.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value).unwrap()
            };
            (of(options.banner()), of(options.settings_in_effect()))
        };
        let pair = |given: &str, so: &str| (given.to_owned(), so.to_owned());
        let mut options = ServerOptions::default();
        assert_eq!(shown(&options, "APIPort"), pair("9091", "9091"));
        assert_eq!(shown(&options, "NumCheckCacheEntries"), pair("1500000", "0"));
        options.check_cache_requested = true;
        assert_eq!(shown(&options, "NumCheckCacheEntries"), pair("1500000", "1500000"));
        for (address, port) in
            [("tcp://127.0.0.1:7", "7"), ("[::1]:8", "8"), ("unix:///run/x", "none"), ("x", "9091")]
        {
            options.address = address.to_owned();
            assert_eq!(shown(&options, "APIPort"), pair("9091", port), "{address}");
        }
        options.monitoring_address = "127.0.0.1:9".to_owned();
        assert_eq!(shown(&options, "MonitoringPort"), pair("15014", "9"));
        options.introspection.address = "127.0.0.1:10".to_owned();
        let controlz = |port, address| format!("port={port} address={address} readOnly=false");
        let [given, so] = [controlz(9876, "127.0.0.1:10"), controlz(10, "127.0.0.1")];
        assert_eq!(shown(&options, "IntrospectionOptions"), (given, so));
        options.metrics_address = "[::1]:11".to_owned();
        options.envoy_http_address = "127.0.0.1:12".to_owned();
        options.config_cache = "/c".into();
        let so = options.settings_in_effect();
        for (name, value) in [
            ("MonitoringAddress", "127.0.0.1:9"),
            ("MetricsAddress", "[::1]:11"),
            ("EnvoyHTTPAddress", "127.0.0.1:12"),
            ("MemoryLimit", &options.memory_limit.to_string()),
            ("ConfigOnError", "keep-last"),
            ("ConfigCache", "/c"),
            ("AllowEmptyConfig", "false"),
        ] {
            assert!(so.iter().any(|(known, so)| *known == name && so == value), "{name}: {so:?}");
        }
    }

    #[test]
    fn reflection_defaults_to_local_clients() {
        let serves = |address: &str, reflection| {
            let options =
                ServerOptions { address: address.to_owned(), reflection, ..ServerOptions::default() };
            options.serves_reflection(&options.listen_address().unwrap())
        };
        for address in ["127.0.0.1:1", "tcp://[::1]:1", "localhost:1", "unix:///run/mixer.sock"] {
            assert!(serves(address, Reflection::Auto), "{address}");
            assert!(!serves(address, Reflection::Off), "{address}");
        }
        for address in ["", "0.0.0.0:1", "tcp://:1", "10.0.0.1:1"] {
            assert!(!serves(address, Reflection::Auto), "{address}");
            assert!(serves(address, Reflection::On), "{address}");
        }
    }

    #[test]
    fn a_pool_is_fixed_unless_it_has_a_floor() {
        let mut options = ServerOptions { adapter_worker_pool_size: 64, ..ServerOptions::default() };
        assert_eq!(options.adapter_pool(), PoolOptions { floor: 64, ceiling: 64, queue: 1024 });
        options.adapter_worker_pool_floor = 8;
        options.adapter_queue_length = 5;
        assert_eq!(options.adapter_pool(), PoolOptions { floor: 8, ceiling: 64, queue: 5 });
        options.adapter_worker_pool_floor = 100;
        assert_eq!(options.adapter_pool().floor, 64);
        assert_eq!(options.api_pool(), PoolOptions { floor: 1024, ceiling: 1024, queue: 1024 });
    }

    #[test]
    fn the_check_cache_is_off_by_default() {
        let mut options = ServerOptions::default();
        assert_eq!(options.check_cache_entries(), None);
        options.check_cache_requested = true;
        assert_eq!(options.check_cache_entries(), Some(1_500_000));
        options.num_check_cache_entries = 0;
        assert_eq!(options.check_cache_entries(), None);
    }
}
