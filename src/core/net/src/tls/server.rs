//! TLS of a server.

use std::hash::Hasher as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;

use super::clients::ClientVerifier;
use super::error::{TlsError, read};
use super::follow::follow_files;
use super::identity::{AllowedPeers, PeerIdentity};
use super::roots::Roots;
use super::sessions::Sessions;
use super::validity::valid_until;
use super::{TlsVersion, files};
use mixer_base::time::Timestamp;

/// Interval at which [`ServerTls::follow`] checks the files for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of expiry warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Remaining validity below which an expiry warning is logged.
pub const EXPIRES_SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// The protocol of the application above TLS, negotiated by ALPN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Application {
    Http2,
    Http1,
}

impl Application {
    fn alpn(self) -> Vec<u8> {
        match self {
            Application::Http2 => b"h2".to_vec(),
            Application::Http1 => b"http/1.1".to_vec(),
        }
    }
}

/// Whether clients must present a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ClientAuth {
    /// Clients without a certificate are refused.
    #[default]
    Require,
    /// A certificate is verified if presented.
    Optional,
}

/// TLS settings of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerTlsOptions {
    /// Server certificate chain, PEM; empty: plain text.
    pub cert_file: PathBuf,
    /// Key of the server certificate, PEM.
    pub key_file: PathBuf,
    /// Roots for client certificates, PEM; empty: no client certificates.
    pub client_ca_file: PathBuf,
    /// Whether clients must present a certificate, given roots.
    pub client_auth: ClientAuth,
    /// Minimum TLS version.
    pub min_version: TlsVersion,
    /// Allowed client names, separated by commas, with one `*` at the start or the end of each; empty: any verified client.
    pub allowed_peers: String,
}

impl ServerTlsOptions {
    /// Whether TLS is enabled.
    pub fn is_enabled(&self) -> bool {
        !self.cert_file.as_os_str().is_empty()
    }

    /// Errors: settings that contradict each other.
    pub fn check(&self) -> Result<(), TlsError> {
        let refuse = |text: &str| Err(TlsError::Settings(text.to_owned()));
        let has_roots = !self.client_ca_file.as_os_str().is_empty();
        if self.is_enabled() == self.key_file.as_os_str().is_empty() {
            return refuse(
                "a certificate and its key belong together: give --tls-cert-file and --tls-key-file",
            );
        }
        if has_roots && !self.is_enabled() {
            return refuse("--tls-client-ca-file needs --tls-cert-file and --tls-key-file");
        }
        let requires_certificate = has_roots && self.client_auth == ClientAuth::Require;
        if !self.allowed_peers.is_empty() && !requires_certificate {
            return refuse("--tls-allowed-peers needs --tls-client-ca-file and --tls-client-auth=require");
        }
        AllowedPeers::parse(&self.allowed_peers)
            .map(drop)
            .map_err(|e| TlsError::Settings(format!("--tls-allowed-peers: {e}")))
    }
}

/// TLS of a listener. New connections use the last loaded files; open connections are not affected by a reload.
pub struct ServerTls {
    options: ServerTlsOptions,
    application: Application,
    allowed: AllowedPeers,
    config: ArcSwap<ServerConfig>,
    /// Hash of the files behind `config`.
    fingerprint: Mutex<u64>,
    /// Expiry of the certificate.
    until: Mutex<Timestamp>,
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTls").field("options", &self.options).finish_non_exhaustive()
    }
}

impl ServerTls {
    /// Loads the files, for HTTP/2. Errors: an unreadable or unusable file, or a key that does not match its certificate.
    pub fn load(options: ServerTlsOptions) -> Result<Self, TlsError> {
        Self::load_for(options, Application::Http2)
    }

    /// As [`load`](Self::load), for the endpoints of [`http`](crate::http), which speak HTTP/1.1.
    pub fn load_http1(options: ServerTlsOptions) -> Result<Self, TlsError> {
        Self::load_for(options, Application::Http1)
    }

    fn load_for(options: ServerTlsOptions, application: Application) -> Result<Self, TlsError> {
        options.check()?;
        let allowed = AllowedPeers::parse(&options.allowed_peers).map_err(TlsError::Settings)?;
        // Computed first, so that a concurrent change is found by the next check.
        let fingerprint = Mutex::new(fingerprint(&options)?);
        let config = ArcSwap::from_pointee(config(&options, application)?);
        let until = Mutex::new(valid_until(&options.cert_file)?);
        Ok(Self { options, application, allowed, config, fingerprint, until })
    }

    /// Reloads the files. Errors: as [`load`](Self::load); the previous configuration is kept.
    pub fn reload(&self) -> Result<(), TlsError> {
        let now = fingerprint(&self.options)?;
        let until = valid_until(&self.options.cert_file)?;
        self.config.store(Arc::new(config(&self.options, self.application)?));
        *self.fingerprint.lock() = now;
        *self.until.lock() = until;
        Ok(())
    }

    /// Expiry of the certificate for new connections.
    pub fn valid_until(&self) -> Timestamp {
        *self.until.lock()
    }

    /// Logs a certificate that expires soon or has expired.
    fn warn_of_expiry(&self) {
        let until = self.valid_until();
        let (file, until_text) = (self.options.cert_file.display(), until.rfc3339_micros());
        match until.to_system_time().map(|until| until.duration_since(SystemTime::now())) {
            Some(Err(_)) => tracing::error!("the certificate in `{file}` has expired at {until_text}"),
            Some(Ok(left)) if left < EXPIRES_SOON => {
                tracing::warn!("the certificate in `{file}` is valid until {until_text} only");
            }
            Some(Ok(_)) | None => {}
        }
    }

    /// Reloads the files when they change, until `stop`. Logs a daily warning before the certificate expires.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        self.follow_every(CHECK_INTERVAL, stop, |_| {}).await;
    }

    /// As [`follow`](Self::follow), checking the files every `interval`; `noted` learns of each reload, and of each new reason why one
    /// failed.
    pub async fn follow_every(
        self: Arc<Self>,
        interval: Duration,
        stop: CancellationToken,
        noted: impl Fn(Result<(), &str>) + Send,
    ) {
        let mut last_warning: Option<(Timestamp, Instant)> = None;
        let (warned, looking) = (Arc::clone(&self), self);
        let warn = move || {
            let until = warned.valid_until();
            if last_warning.is_none_or(|(of, at)| of != until || at.elapsed() > WARNING_INTERVAL) {
                warned.warn_of_expiry();
                last_warning = Some((until, Instant::now()));
            }
        };
        follow_files(interval, &stop, warn, move || looking.reload_if_changed(), noted).await;
    }

    pub(super) fn reload_if_changed(&self) -> Result<bool, TlsError> {
        if fingerprint(&self.options)? == *self.fingerprint.lock() {
            return Ok(false);
        }
        self.reload().map(|()| true)
    }

    /// The configuration for new connections.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// The identity of a client from its verified chain; empty without a certificate, `None` if none is requested.
    ///
    /// Errors: the client is not allowed; the text is for the log.
    pub(crate) fn admit(&self, chain: Option<&[CertificateDer<'_>]>) -> Result<Option<PeerIdentity>, String> {
        if self.options.client_ca_file.as_os_str().is_empty() {
            return Ok(None);
        }
        let identity = chain.map_or_else(PeerIdentity::default, PeerIdentity::of_chain);
        if !self.allowed.admits(&identity) {
            let names = identity.names.join(", ");
            return Err(format!("its certificate names `{names}`, none of which is among the allowed peers"));
        }
        Ok(Some(identity))
    }
}

fn config(options: &ServerTlsOptions, application: Application) -> Result<ServerConfig, TlsError> {
    super::install_crypto_provider();
    let chain = files::certificates(&options.cert_file)?;
    let key = files::private_key(&options.key_file)?;
    let builder = ServerConfig::builder_with_protocol_versions(options.min_version.versions());
    let builder = if options.client_ca_file.as_os_str().is_empty() {
        builder.with_no_client_auth()
    } else {
        let is_required = options.client_auth == ClientAuth::Require;
        let verifier = ClientVerifier::new(Roots::of_file(&options.client_ca_file)?, is_required, None);
        builder.with_client_cert_verifier(Arc::new(verifier))
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|e| {
        let (cert, key) = (options.cert_file.display(), options.key_file.display());
        TlsError::unusable(format!("the certificate in `{cert}` with the key in `{key}`"), e)
    })?;
    if !options.client_ca_file.as_os_str().is_empty() {
        config.session_storage = Sessions::new();
    }
    config.alpn_protocols = vec![application.alpn()];
    Ok(config)
}

/// Hash of all files.
fn fingerprint(options: &ServerTlsOptions) -> Result<u64, TlsError> {
    let mut hasher = std::hash::DefaultHasher::new();
    let named = [
        ("the certificates in", &options.cert_file),
        ("the key in", &options.key_file),
        ("the certificates in", &options.client_ca_file),
    ];
    for (what, path) in named {
        if !path.as_os_str().is_empty() {
            let bytes = read(what, path)?;
            hasher.write_usize(bytes.len());
            hasher.write(&bytes);
        }
    }
    Ok(hasher.finish())
}
