//! TLS of the API port.

use std::hash::Hasher as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use tokio_util::sync::CancellationToken;

use super::error::{TlsError, read};
use super::identity::{AllowedPeers, PeerIdentity};
use super::validity::valid_until;
use super::{TlsVersion, files};
use mixer_base::time::Timestamp;

/// How often files are looked at for a change.
const LOOK: Duration = Duration::from_secs(5);
/// How often the log says that a certificate ends soon.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// A certificate that ends sooner than this is worth a word.
pub const SOON: Duration = Duration::from_secs(14 * 24 * 3600);
/// The protocol that is spoken over TLS.
const HTTP2: &[u8] = b"h2";

/// Whether callers must show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ClientAuth {
    /// Those without one are refused.
    #[default]
    Require,
    /// One that is shown must be good.
    Optional,
}

/// How the API port is secured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerTlsOptions {
    /// Certificate of the server with its chain, PEM; empty means plain text.
    pub cert_file: PathBuf,
    /// Its key, PEM.
    pub key_file: PathBuf,
    /// Roots that callers' certificates are checked against, PEM; empty means that callers show none.
    pub client_ca_file: PathBuf,
    /// Whether callers must show a certificate, where there are roots.
    pub client_auth: ClientAuth,
    /// Oldest version that is spoken.
    pub min_version: TlsVersion,
    /// Names of callers that are let in, see [`AllowedPeers::parse`]; empty means everybody with a good certificate.
    pub allowed_peers: String,
}

impl ServerTlsOptions {
    /// Whether TLS is spoken.
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
        let callers_are_known = has_roots && self.client_auth == ClientAuth::Require;
        if !self.allowed_peers.is_empty() && !callers_are_known {
            return refuse("--tls-allowed-peers needs --tls-client-ca-file and --tls-client-auth=require");
        }
        AllowedPeers::parse(&self.allowed_peers)
            .map(drop)
            .map_err(|e| TlsError::Settings(format!("--tls-allowed-peers: {e}")))
    }
}

/// TLS of a listener, as its files say now. New connections see what was read last; those that exist are left alone.
pub struct ServerTls {
    options: ServerTlsOptions,
    allowed: AllowedPeers,
    config: ArcSwap<ServerConfig>,
    /// Of the bytes that `config` was made from.
    fingerprint: Mutex<u64>,
    /// When the certificate ceases to be valid.
    until: Mutex<Timestamp>,
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTls").field("options", &self.options).finish_non_exhaustive()
    }
}

impl ServerTls {
    /// Reads the files. Errors: one that cannot be read or used, or a key that does not belong to its certificate.
    pub fn load(options: ServerTlsOptions) -> Result<Self, TlsError> {
        options.check()?;
        let allowed = AllowedPeers::parse(&options.allowed_peers).map_err(TlsError::Settings)?;
        // Before the files are used: a change between the two is found by the next look.
        let fingerprint = Mutex::new(fingerprint(&options)?);
        let config = ArcSwap::from_pointee(config(&options)?);
        let until = Mutex::new(valid_until(&options.cert_file)?);
        Ok(Self { options, allowed, config, fingerprint, until })
    }

    /// Reads the files again. Errors: as [`load`](Self::load); what was read before stays in force.
    pub fn reload(&self) -> Result<(), TlsError> {
        let now = fingerprint(&self.options)?;
        let until = valid_until(&self.options.cert_file)?;
        self.config.store(Arc::new(config(&self.options)?));
        *self.fingerprint.lock() = now;
        *self.until.lock() = until;
        Ok(())
    }

    /// When the certificate that new connections see ceases to be valid.
    pub fn valid_until(&self) -> Timestamp {
        *self.until.lock()
    }

    /// Says that the certificate ends soon, or has ended.
    fn tell_expiry(&self) {
        let until = self.valid_until();
        let (file, until_text) = (self.options.cert_file.display(), until.rfc3339());
        match until.to_system_time().map(|until| until.duration_since(SystemTime::now())) {
            Some(Err(_)) => tracing::error!("the certificate in `{file}` has expired at {until_text}"),
            Some(Ok(left)) if left < SOON => {
                tracing::warn!("the certificate in `{file}` is valid until {until_text} only");
            }
            Some(Ok(_)) | None => {}
        }
    }

    /// Reads the files again whenever they change, until `stop`. Tells once a day of a certificate that ends soon.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let mut complained = None;
        let mut told: Option<(Timestamp, Instant)> = None;
        loop {
            let until = self.valid_until();
            if told.is_none_or(|(of, at)| of != until || at.elapsed() > DAY) {
                self.tell_expiry();
                told = Some((until, Instant::now()));
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            match self.reload_if_changed() {
                Ok(false) => {}
                Ok(true) => {
                    complained = None;
                    tracing::info!("certificates have changed and were read anew");
                }
                Err(error) => {
                    // Once a problem, not once a look.
                    let text = error.to_string();
                    if complained.as_ref() != Some(&text) {
                        tracing::error!("certificates could not be read anew, the old stay: {text}");
                        complained = Some(text);
                    }
                }
            }
        }
    }

    pub(super) fn reload_if_changed(&self) -> Result<bool, TlsError> {
        if fingerprint(&self.options)? == *self.fingerprint.lock() {
            return Ok(false);
        }
        self.reload().map(|()| true)
    }

    /// What a new connection is secured with.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// Who called, by the chain that was verified: nobody in particular without one, and none if nobody is asked for one.
    ///
    /// Errors: somebody who is not let in, in words for the log.
    pub fn admit(&self, chain: Option<&[CertificateDer<'_>]>) -> Result<Option<PeerIdentity>, String> {
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

fn config(options: &ServerTlsOptions) -> Result<ServerConfig, TlsError> {
    super::install_crypto_provider();
    let chain = files::certificates(&options.cert_file)?;
    let key = files::private_key(&options.key_file)?;
    let builder = ServerConfig::builder_with_protocol_versions(options.min_version.versions());
    let builder = if options.client_ca_file.as_os_str().is_empty() {
        builder.with_no_client_auth()
    } else {
        let roots = Arc::new(files::roots(&options.client_ca_file)?);
        let verifier = WebPkiClientVerifier::builder(roots);
        let verifier = match options.client_auth {
            ClientAuth::Require => verifier,
            ClientAuth::Optional => verifier.allow_unauthenticated(),
        };
        let shown = options.client_ca_file.display();
        let verifier = verifier.build().map_err(|e| TlsError::unusable(format!("`{shown}`"), e))?;
        builder.with_client_cert_verifier(verifier)
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|e| {
        let (cert, key) = (options.cert_file.display(), options.key_file.display());
        TlsError::unusable(format!("the certificate in `{cert}` with the key in `{key}`"), e)
    })?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(config)
}

/// One number for all bytes that a configuration is made from.
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
