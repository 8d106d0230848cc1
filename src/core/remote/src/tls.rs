//! TLS whose files are read again when they change: certificates are replaced while a server runs.

use std::path::Path;
use std::time::Instant;

use mixer_base::file_stamp::FileStamp;
use mixer_net::tls::{ClientTls, ClientTlsOptions, TlsError};

use crate::attempts::Attempts;

/// TLS of connections to one host.
pub(crate) struct ReloadedTls {
    options: ClientTlsOptions,
    host: String,
    protocols: Protocols,
    current: ClientTls,
    attempts: Attempts<Stamps>,
}

/// Those of ALPN.
type Protocols = &'static [&'static [u8]];

type Loaded = Result<ClientTls, TlsError>;

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
        protocols: Protocols,
    ) -> Result<Self, TlsError> {
        // Before the files are read, so that a change meanwhile is noticed.
        let stamps = stamps(options);
        let current = load(options, host, protocols)?;
        let (options, host) = (options.clone(), host.to_owned());
        Ok(Self { options, host, protocols, current, attempts: Attempts::succeeded(stamps) })
    }

    /// What connections use now.
    pub(crate) fn current(&self) -> &ClientTls {
        &self.current
    }

    /// Loads the files again if they have changed. Returns whether there is something new. If they cannot be used, the last ones are used
    /// on, the log says so once, and they are not loaded for each request. Cost: looks at the metadata of the files.
    pub(crate) fn refresh(&mut self) -> bool {
        self.refresh_with(Instant::now(), load)
    }

    fn refresh_with(
        &mut self,
        now: Instant,
        load: impl FnOnce(&ClientTlsOptions, &str, Protocols) -> Loaded,
    ) -> bool {
        let stamps = stamps(&self.options);
        if !self.attempts.are_due(&stamps, now) {
            return false;
        }
        let loaded = load(&self.options, &self.host, self.protocols);
        let is_news = self.attempts.note(stamps, loaded.is_err(), now);
        match loaded {
            Ok(new) => {
                self.current = new;
                true
            }
            Err(error) => {
                if is_news {
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

fn load(options: &ClientTlsOptions, host: &str, protocols: Protocols) -> Loaded {
    let mut tls = ClientTls::load(options, host)?;
    let mut config = (*tls.config).clone();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    tls.config = config.into();
    Ok(tls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn broken_files_are_loaded_once_and_the_last_ones_are_used_on() {
        let directory = tempfile::tempdir().unwrap();
        let ca_file = directory.path().join("ca.crt");
        let root = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap().cert.pem();
        std::fs::write(&ca_file, &root).unwrap();
        let options = ClientTlsOptions { ca_file: ca_file.clone(), ..ClientTlsOptions::default() };
        let mut tls = ReloadedTls::load(&options, "localhost", &[b"h2"]).unwrap();
        let first = std::sync::Arc::clone(&tls.current().config);
        let loads = std::cell::Cell::new(0);
        let counted = |options: &ClientTlsOptions, host: &str, protocols: Protocols| {
            loads.set(loads.get() + 1);
            load(options, host, protocols)
        };
        let start = Instant::now();
        std::fs::write(&ca_file, "no certificate").unwrap();
        for _ in 0..100 {
            assert!(!tls.refresh_with(start, counted));
        }
        assert_eq!(loads.get(), 1, "once a change");
        assert!(!tls.refresh_with(start + Duration::from_secs(60), counted));
        assert_eq!(loads.get(), 2, "once an interval");
        assert!(std::sync::Arc::ptr_eq(&first, &tls.current().config));
        std::fs::write(&ca_file, &root).unwrap();
        assert!(tls.refresh_with(start + Duration::from_secs(60), counted), "mended");
        assert!(!tls.refresh_with(start + Duration::from_secs(600), counted), "unchanged");
        assert_eq!(loads.get(), 3);
        assert!(!std::sync::Arc::ptr_eq(&first, &tls.current().config));
    }
}
