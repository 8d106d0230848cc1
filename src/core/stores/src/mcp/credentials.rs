//! The files without which there is no mutual TLS: something else writes them, perhaps later.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mixer_config::store::Feed;

use super::{Credentials, Settings};

/// How often it is looked for missing files.
const LOOKS: Duration = Duration::from_millis(500);

/// The first file that is not there.
fn first_missing(credentials: &Credentials) -> Option<PathBuf> {
    let Credentials { cert_file, key_file, ca_cert_file } = credentials;
    [cert_file, key_file, ca_cert_file].into_iter().find(|file| !Path::new(file).is_file()).cloned()
}

/// The first file that is needed and not there.
pub(super) fn missing(credentials: &Credentials, settings: &Settings) -> Option<PathBuf> {
    settings.is_mutual_tls.then(|| first_missing(credentials)).flatten()
}

/// Waits until all files are there.
pub(super) async fn wait(credentials: &Credentials, feed: &Feed) {
    let mut told = None;
    loop {
        let looked = credentials.clone();
        let missing = tokio::task::spawn_blocking(move || first_missing(&looked)).await.unwrap_or_default();
        let Some(missing) = missing else { return };
        if told.as_ref() != Some(&missing) {
            tracing::info!("waiting for {}", missing.display());
            feed.outage(Some(format!("waiting for {}", missing.display())));
            told = Some(missing);
        }
        tokio::time::sleep(LOOKS).await;
    }
}
