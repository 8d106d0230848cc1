//! Settings of the process as plain data.

use std::path::PathBuf;
use std::time::Duration;

use mixer_base::log::LogOptions;
use mixer_galley::Face;
use mixer_galley::source::eureka::EurekaOptions;
use mixer_galley::source::zookeeper::ZookeeperOptions;
use mixer_introspect::IntrospectionOptions;
use mixer_mcp::Rate;
use mixer_net::address::ListenAddress;

use crate::admission::{Depth, ValidationOptions};

/// All settings. [`Default`] has those of Galley 1.3.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Whether configuration is read and served.
    pub serves: bool,
    /// Of the pipeline.
    pub processing: mixer_galley::Options,
    /// A directory or file of resources; empty: a cluster, or with a registry outside a cluster, nothing.
    pub config_path: PathBuf,
    /// The directory that keeps the files that are published for the next start; empty: none.
    pub config_cache: PathBuf,
    /// Whether what resources say together is told in the log.
    pub analyses: bool,
    /// Whether changes of files are noticed.
    pub watches_files: bool,
    /// The mesh configuration; empty: the defaults.
    pub mesh_file: PathBuf,
    /// A registry of services in ZooKeeper.
    pub zookeeper: Option<ZookeeperOptions>,
    /// A registry of services in Eureka.
    pub eureka: Option<EurekaOptions>,
    /// The cluster; empty: the one in which this process runs.
    pub kubeconfig: PathBuf,
    /// How often the objects of a cluster are all listed again and compared; zero: never.
    pub resync: Duration,
    /// Whether kinds that the cluster does not have are no error.
    pub skips_ready_check: bool,
    /// The port of sinks.
    pub serving: ServingOptions,
    /// The webhook.
    pub validation: ValidationOptions,
    /// ControlZ.
    pub introspection: IntrospectionOptions,
    /// HTTP port of metrics, version and health, on all interfaces. Clients on other hosts get no texts of errors.
    pub monitoring_port: u16,
    /// The address of that port instead, where whoever reaches it gets all; empty: all interfaces.
    pub monitoring_address: String,
    /// HTTP port of profiles, if they are served.
    pub pprof_port: Option<u16>,
    /// Whether profiles are for whoever reaches their port, and not for clients on this host alone.
    pub serves_profiles_to_all: bool,
    /// Fresh while the process works.
    pub liveness: ProbeFile,
    /// Fresh while sinks are served what the sources have.
    pub readiness: ProbeFile,
    /// The log.
    pub log: LogOptions,
    /// Whether every resource has a metric of its own.
    pub metric_per_resource: bool,
    /// What is probably a mistake in what is given, for the log.
    pub suspicions: Vec<String>,
    /// Time limit of the stop.
    pub shutdown_timeout: Duration,
}

/// A probe file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProbeFile {
    /// Empty: none.
    pub path: PathBuf,
    /// How old a fresh one may be.
    pub interval: Duration,
}

impl ProbeFile {
    /// Whether there is one.
    pub fn is_enabled(&self) -> bool {
        !self.path.as_os_str().is_empty() && !self.interval.is_zero()
    }
}

/// The port of sinks, and the sinks that are called.
#[derive(Debug, Clone)]
pub struct ServingOptions {
    /// `tcp://HOST:PORT`, `HOST:PORT` or `unix:///PATH`.
    pub address: String,
    /// Most bytes of a message of a sink.
    pub max_message: usize,
    /// Streams of a connection.
    pub max_streams: u32,
    /// Most bytes that all sinks together can make this process keep.
    pub max_memory: usize,
    /// Plain text, for everyone.
    pub is_insecure: bool,
    /// Certificate, PEM.
    pub cert_file: PathBuf,
    /// Its key, PEM.
    pub key_file: PathBuf,
    /// The roots of sinks' certificates, PEM.
    pub ca_file: PathBuf,
    /// The identities that may connect.
    pub access_list: PathBuf,
    /// Whether a list that does not exist stops the start. Otherwise every verified sink is allowed.
    pub needs_access_list: bool,
    /// Whether sinks that ask for differences get them.
    pub incremental: bool,
    /// Whether the protocol of Istio 1.0 and 1.1 is served too.
    pub serves_legacy: bool,
    /// Sinks that are called: `HOST:PORT`.
    pub sinks: Vec<String>,
    /// How both sides of such a call are authenticated.
    pub sink_auth: String,
    /// Headers of streams, `KEY=VALUE`.
    pub sink_meta: Vec<String>,
    /// New streams; beyond it they wait.
    pub stream_rate: Rate,
    /// Requests of a stream; beyond it they wait.
    pub request_rate: Rate,
}

/// How both sides of a call to a sink are authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkAuth {
    /// Plain text.
    None,
    /// TLS with the roots of the system and a token of Google's default credentials.
    Google,
    /// TLS; the sink is verified.
    Tls,
    /// TLS with a certificate of our own.
    MutualTls,
}

impl Default for ServingOptions {
    fn default() -> Self {
        let rate = Rate { every: Duration::from_secs(1), burst: 100 };
        Self {
            address: "tcp://0.0.0.0:9901".to_owned(),
            max_message: 1 << 20,
            max_streams: 32,
            max_memory: 256 << 20,
            is_insecure: false,
            cert_file: "/etc/certs/cert-chain.pem".into(),
            key_file: "/etc/certs/key.pem".into(),
            ca_file: "/etc/certs/root-cert.pem".into(),
            access_list: "/etc/config/accesslist.yaml".into(),
            needs_access_list: false,
            incremental: true,
            serves_legacy: false,
            sinks: Vec::new(),
            sink_auth: String::new(),
            sink_meta: Vec::new(),
            stream_rate: rate,
            request_rate: rate,
        }
    }
}

impl Default for HostOptions {
    fn default() -> Self {
        let probe = |path: &str| ProbeFile { path: path.into(), interval: Duration::from_secs(2) };
        Self {
            serves: true,
            processing: mixer_galley::Options::default(),
            config_path: PathBuf::new(),
            config_cache: PathBuf::new(),
            analyses: false,
            watches_files: true,
            mesh_file: "/etc/mesh-config/mesh".into(),
            zookeeper: None,
            eureka: None,
            kubeconfig: PathBuf::new(),
            resync: Duration::ZERO,
            skips_ready_check: false,
            serving: ServingOptions::default(),
            validation: ValidationOptions::default(),
            introspection: IntrospectionOptions::default(),
            monitoring_port: 15014,
            monitoring_address: String::new(),
            pprof_port: None,
            serves_profiles_to_all: false,
            liveness: probe("/healthLiveness"),
            readiness: probe("/healthReadiness"),
            log: LogOptions::default(),
            metric_per_resource: false,
            suspicions: Vec::new(),
            shutdown_timeout: Duration::from_secs(10),
        }
    }
}

impl HostOptions {
    /// Errors: settings with which nothing is started; the texts of Galley. Spec: galley.md, 3.
    pub fn check(&self) -> Result<(), String> {
        if !self.serves && !self.validation.is_enabled {
            return Err("Galley must be running under at least one mode: server or validation".to_owned());
        }
        if !self.config_cache.as_os_str().is_empty() && self.config_path.as_os_str().is_empty() {
            return Err("--config-cache keeps files: it needs --config-path".to_owned());
        }
        self.validation.check().map_err(|errors| format!("Invalid validationArgs: {errors}"))
    }
}

impl HostOptions {
    /// The listen address of the monitoring port.
    pub fn monitoring_listen_address(&self) -> String {
        match self.monitoring_address.as_str() {
            "" => format!(":{}", self.monitoring_port),
            given => given.to_owned(),
        }
    }

    /// The settings in effect, by the names of their flags, for operators. No setting has a secret: passwords are in files.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let path = |path: &PathBuf| path.display().to_string();
        let rate = |rate: Rate| match rate.every.is_zero() {
            true => "no limit".to_owned(),
            false => format!("{} at once, then one each {:?}", rate.burst, rate.every),
        };
        let probe = |probe: &ProbeFile| match probe.is_enabled() {
            true => format!("{}, each {:?}", probe.path.display(), probe.interval),
            false => "off".to_owned(),
        };
        let port = |port: Option<u16>| port.map_or_else(|| "off".to_owned(), |port| port.to_string());
        let Self { processing, serving, validation, .. } = self;
        let mut all = vec![("enable-server", self.serves.to_string())];
        if self.serves {
            let debounce = processing.debounce;
            all.extend([
                ("config-path", path(&self.config_path)),
                ("config-cache", path(&self.config_cache)),
                ("allow-empty-config", processing.allows_empty.to_string()),
                ("watch-config-files", self.watches_files.to_string()),
                (
                    "config-on-error",
                    if processing.keeps_last { "keep-last" } else { "serve-valid" }.to_owned(),
                ),
                ("mesh-config-file", path(&self.mesh_file)),
                ("kubeconfig", path(&self.kubeconfig)),
                ("resync-period", format!("{:?}", self.resync)),
                ("disable-resource-ready-check", self.skips_ready_check.to_string()),
                ("zookeeper-address", self.zookeeper.as_ref().map(|z| z.address.clone()).unwrap_or_default()),
                ("eureka-address", self.eureka.as_ref().map(|e| e.addresses.join(",")).unwrap_or_default()),
                ("use-old-processor", (processing.face == Face::First).to_string()),
                ("excluded-resource-kinds", processing.excluded_kinds.join(",")),
                ("enable-service-discovery", processing.service_discovery.to_string()),
                ("enable-analysis", self.analyses.to_string()),
                ("domain", processing.domain.clone()),
                (
                    "istio-pace",
                    format!("published after {:?}, at most {:?}", debounce.quiet, debounce.max_wait),
                ),
                ("server-address", serving.address.clone()),
                ("server-max-received-message-size", serving.max_message.to_string()),
                ("server-max-concurrent-streams", serving.max_streams.to_string()),
                ("memory-limit", serving.max_memory.to_string()),
                ("insecure", serving.is_insecure.to_string()),
                ("incremental", serving.incremental.to_string()),
                ("legacy-mcp", serving.serves_legacy.to_string()),
                ("SOURCE_SERVER_STREAM_*", rate(serving.stream_rate)),
                ("MCP_SOURCE_REQ_*", rate(serving.request_rate)),
                ("sink-address", serving.sinks.join(",")),
                ("sink-auth-mode", serving.sink_auth.clone()),
                ("sink-meta", serving.sink_meta.join(",")),
            ]);
            if !serving.is_insecure {
                all.extend([
                    ("tls-cert-file", path(&serving.cert_file)),
                    ("tls-key-file", path(&serving.key_file)),
                    ("ca-cert-file", path(&serving.ca_file)),
                    ("access-list-file", path(&serving.access_list)),
                ]);
            }
        }
        all.push(("enable-validation", validation.is_enabled.to_string()));
        if validation.is_enabled {
            let depth = if validation.depth == Depth::Deep { "deep" } else { "structural" };
            all.extend([
                ("validation-port", validation.port.to_string()),
                ("validation-depth", depth.to_owned()),
                ("enable-reconcile-webhook-configuration", validation.reconciles.to_string()),
                ("validation-webhook-config-file", path(&validation.webhook_config_file)),
                ("webhook-name", validation.webhook_name.clone()),
                ("deployment-namespace", validation.deployment_namespace.clone()),
                ("deployment-name", validation.deployment_name.clone()),
                ("service-name", validation.service_name.clone()),
            ]);
        }
        all.extend([
            ("ctrlz-address", self.introspection.to_string()),
            ("monitoring-address", self.monitoring_listen_address()),
            ("pprof-port", port(self.pprof_port)),
            ("metric-per-resource", self.metric_per_resource.to_string()),
            ("liveness-probe-path", probe(&self.liveness)),
            ("readiness-probe-path", probe(&self.readiness)),
            ("log", self.log.to_string()),
        ]);
        all
    }
}

impl ServingOptions {
    /// Where it listens. Errors: the address has no meaning.
    pub fn listen_address(&self) -> Result<ListenAddress, String> {
        ListenAddress::parse(&self.address).map_err(|error| format!("unable to listen: {error}"))
    }

    /// How sinks that are called are authenticated. Errors: an unknown name.
    pub fn auth(&self) -> Result<SinkAuth, String> {
        let known = [
            ("NONE", SinkAuth::None),
            ("GOOGLE", SinkAuth::Google),
            ("TLS", SinkAuth::Tls),
            ("MUTUAL_TLS", SinkAuth::MutualTls),
        ];
        let found = known.iter().find(|(name, _)| *name == self.sink_auth).map(|(_, auth)| *auth);
        found.ok_or_else(|| format!("auth plugin {} not found", self.sink_auth))
    }

    /// The headers of streams. Errors: one is not `KEY=VALUE`.
    pub fn metadata(&self) -> Result<Vec<(String, String)>, String> {
        let pair = |text: &String| {
            let (key, value) =
                text.split_once('=').ok_or_else(|| format!("sinkMeta not in key=value format: {text}"))?;
            Ok((key.to_owned(), value.to_owned()))
        };
        self.sink_meta.iter().map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_in_effect() {
        let of = |options: &HostOptions, name: &str| {
            options.settings().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
        };
        let mut options = HostOptions::default();
        options.serving.serves_legacy = true;
        options.processing.keeps_last = true;
        assert_eq!(of(&options, "legacy-mcp").as_deref(), Some("true"));
        assert_eq!(of(&options, "config-on-error").as_deref(), Some("keep-last"));
        assert_eq!(of(&options, "tls-key-file").as_deref(), Some("/etc/certs/key.pem"));
        let rate = of(&options, "SOURCE_SERVER_STREAM_*");
        assert_eq!(rate.as_deref(), Some("100 at once, then one each 1s"));
        // What has no effect is not told.
        options.serving.is_insecure = true;
        options.validation.is_enabled = false;
        assert_eq!((of(&options, "tls-key-file"), of(&options, "validation-port")), (None, None));
        options.serves = false;
        assert_eq!(of(&options, "config-path"), None);
    }

    #[test]
    fn errors_are_those_of_galley() {
        let none = HostOptions {
            serves: false,
            validation: ValidationOptions { is_enabled: false, ..ValidationOptions::default() },
            ..HostOptions::default()
        };
        let text = "Galley must be running under at least one mode: server or validation";
        assert_eq!(none.check(), Err(text.to_owned()));
        let wrong = HostOptions::default().check().unwrap_err();
        assert!(
            wrong.starts_with("Invalid validationArgs: 1 error occurred:\n\t* webhookConfigFile"),
            "{wrong}"
        );
        let serving = |auth: &str, meta: &str| ServingOptions {
            sink_auth: auth.to_owned(),
            sink_meta: vec![meta.to_owned()],
            ..ServingOptions::default()
        };
        assert_eq!(serving("", "a=b").auth(), Err("auth plugin  not found".to_owned()));
        assert_eq!(serving("NONE", "a=b").auth(), Ok(SinkAuth::None));
        assert_eq!(serving("", "a=b=c").metadata(), Ok(vec![("a".to_owned(), "b=c".to_owned())]));
        assert_eq!(serving("", "x").metadata(), Err("sinkMeta not in key=value format: x".to_owned()));
    }
}
