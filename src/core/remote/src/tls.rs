//! TLS whose files are read again when they change: certificates are replaced while a server runs.

use std::path::Path;

use mixer_base::file_stamp::FileStamp;
use mixer_net::tls::{ClientTls, ClientTlsOptions, TlsError};

/// TLS of connections to one host.
pub(crate) struct ReloadedTls {
    options: ClientTlsOptions,
    host: String,
    protocols: &'static [&'static [u8]],
    current: ClientTls,
    /// The files of `current`.
    stamps: Stamps,
    /// Whether the last attempt to load them again failed.
    is_stale: bool,
}

/// Roots, certificate and key; `None` for those that are not configured or not there.
type Stamps = [Option<FileStamp>; 3];

fn stamps(options: &ClientTlsOptions) -> Stamps {
    let stamp = |path: &Path| {
        if path.as_os_str().is_empty() {
            return None;
        }
        std::fs::metadata(path).ok().map(|metadata| FileStamp::of(&metadata))
    };
    [&options.ca_file, &options.cert_file, &options.key_file].map(|path| stamp(path))
}

impl ReloadedTls {
    /// Loads the files. `protocols` are those of ALPN. Errors: a file that cannot be used.
    pub(crate) fn load(
        options: &ClientTlsOptions,
        host: &str,
        protocols: &'static [&'static [u8]],
    ) -> Result<Self, TlsError> {
        // Before the files are read, so that a change meanwhile is noticed.
        let stamps = stamps(options);
        let current = load(options, host, protocols)?;
        let (options, host) = (options.clone(), host.to_owned());
        Ok(Self { options, host, protocols, current, stamps, is_stale: false })
    }

    /// What connections use now.
    pub(crate) fn current(&self) -> &ClientTls {
        &self.current
    }

    /// Loads the files again if they have changed. Returns whether there is something new. If they cannot be used, the last ones are used
    /// on, and the log says so once. Cost: looks at the metadata of the files.
    pub(crate) fn refresh(&mut self) -> bool {
        let stamps = stamps(&self.options);
        if stamps == self.stamps {
            return false;
        }
        match load(&self.options, &self.host, self.protocols) {
            Ok(new) => {
                (self.current, self.stamps, self.is_stale) = (new, stamps, false);
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_stale, true) {
                    let host = &*self.host;
                    tracing::warn!(
                        host,
                        "certificates cannot be loaded again, and are used as they were: {error}"
                    );
                }
                false
            }
        }
    }
}

fn load(options: &ClientTlsOptions, host: &str, protocols: &[&[u8]]) -> Result<ClientTls, TlsError> {
    let mut tls = ClientTls::load(options, host)?;
    let mut config = (*tls.config).clone();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    tls.config = config.into();
    Ok(tls)
}
