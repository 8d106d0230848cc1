//! TLS whose files are read again when they change: certificates are replaced while a server runs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use mixer_base::file_stamp::FileStamp;
use mixer_base::looks::Looks;
use mixer_net::tls::{ClientTls, ClientTlsOptions, TlsError};

use crate::attempts::Attempts;

/// How long a look at the files is waited for.
const LIMIT: Duration = Duration::from_secs(1);

/// TLS of connections to one host. Clones are the same.
///
/// Nobody waits long for a file system that hangs, and no thread that serves calls reads files: they are looked at on a thread, one look at a
/// time, and the last certificates are used meanwhile.
#[derive(Clone)]
pub(crate) struct ReloadedTls(Arc<Shared>);

struct Shared {
    options: ClientTlsOptions,
    host: String,
    protocols: Protocols,
    looks: Looks,
    known: Mutex<Known>,
}

struct Known {
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
        let (options, host, looks) = (options.clone(), host.to_owned(), Looks::default());
        let known = Mutex::new(Known { current, attempts: Attempts::succeeded(stamps) });
        Ok(Self(Arc::new(Shared { options, host, protocols, looks, known })))
    }

    /// What connections use now. Looks at no file.
    pub(crate) fn current(&self) -> ClientTls {
        self.0.known.lock().current.clone()
    }

    /// Loads the files again if they have changed, on a thread; waits for it at most a second. If they cannot be used, the last ones are used
    /// on, the log says so once, and they are not loaded for each request. Cost: looks at the metadata of the files.
    pub(crate) async fn refresh(&self) {
        self.refresh_by(load).await;
    }

    async fn refresh_by(
        &self,
        load: impl FnOnce(&ClientTlsOptions, &str, Protocols) -> Loaded + Send + 'static,
    ) {
        let shared = Arc::clone(&self.0);
        if !self.0.looks.within(LIMIT, move || _ = shared.refresh_with(Instant::now(), load)).await {
            let host = &*self.0.host;
            tracing::warn!(
                host,
                "certificates are used as they were: no answer within {LIMIT:?}, their file system may hang"
            );
        }
    }
}

impl Shared {
    /// Whether there is something new.
    fn refresh_with(
        &self,
        now: Instant,
        load: impl FnOnce(&ClientTlsOptions, &str, Protocols) -> Loaded,
    ) -> bool {
        let stamps = stamps(&self.options);
        if !self.known.lock().attempts.are_due(&stamps, now) {
            return false;
        }
        // Without the lock.
        let loaded = load(&self.options, &self.host, self.protocols);
        let mut known = self.known.lock();
        let is_news = known.attempts.note(stamps, loaded.is_err(), now);
        match loaded {
            Ok(new) => {
                known.current = new;
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

    #[test]
    fn broken_files_are_loaded_once_and_the_last_ones_are_used_on() {
        let directory = tempfile::tempdir().unwrap();
        let ca_file = directory.path().join("ca.crt");
        let root = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap().cert.pem();
        std::fs::write(&ca_file, &root).unwrap();
        let options = ClientTlsOptions { ca_file: ca_file.clone(), ..ClientTlsOptions::default() };
        let tls = ReloadedTls::load(&options, "localhost", &[b"h2"]).unwrap();
        let first = Arc::clone(&tls.current().config);
        let loads = std::cell::Cell::new(0);
        let counted = |options: &ClientTlsOptions, host: &str, protocols: Protocols| {
            loads.set(loads.get() + 1);
            load(options, host, protocols)
        };
        let start = Instant::now();
        std::fs::write(&ca_file, "no certificate").unwrap();
        for _ in 0..100 {
            assert!(!tls.0.refresh_with(start, counted));
        }
        assert_eq!(loads.get(), 1, "once a change");
        assert!(!tls.0.refresh_with(start + Duration::from_secs(60), counted));
        assert_eq!(loads.get(), 2, "once an interval");
        assert!(Arc::ptr_eq(&first, &tls.current().config));
        std::fs::write(&ca_file, &root).unwrap();
        assert!(tls.0.refresh_with(start + Duration::from_secs(60), counted), "mended");
        assert!(!tls.0.refresh_with(start + Duration::from_secs(600), counted), "unchanged");
        assert_eq!(loads.get(), 3);
        assert!(!Arc::ptr_eq(&first, &tls.current().config));
    }

    /// On a runtime of one thread, which a file system that hangs would stop.
    #[tokio::test]
    async fn files_that_hang_stop_nobody_and_the_last_certificates_are_used() {
        let directory = tempfile::tempdir().unwrap();
        let ca_file = directory.path().join("ca.pem");
        let root = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap().cert.pem();
        std::fs::write(&ca_file, &root).unwrap();
        let options = ClientTlsOptions { ca_file: ca_file.clone(), ..ClientTlsOptions::default() };
        let tls = ReloadedTls::load(&options, "localhost", &[b"h2"]).unwrap();
        let first = Arc::clone(&tls.current().config);
        std::fs::write(&ca_file, root.repeat(2)).unwrap();
        let (wake, asleep) = std::sync::mpsc::channel::<()>();
        let (began, begun) = tokio::sync::oneshot::channel();
        let hangs = move |options: &ClientTlsOptions, host: &str, protocols: Protocols| {
            began.send(()).unwrap();
            let _ = asleep.recv();
            load(options, host, protocols)
        };
        let of_look = tls.clone();
        let refreshed = tokio::spawn(async move { of_look.refresh_by(hangs).await });
        // What else the thread does goes on.
        begun.await.unwrap();
        let waited = tokio::time::timeout(LIMIT * 60, refreshed).await;
        waited.expect("it is waited for at most a second").unwrap();
        for _ in 0..100 {
            tls.refresh_by(|_, _, _| unreachable!("one look at a time")).await;
            assert!(Arc::ptr_eq(&first, &tls.current().config));
        }
        wake.send(()).unwrap();
        while Arc::ptr_eq(&first, &tls.current().config) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
