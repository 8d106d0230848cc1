//! What the running server says in ControlZ.

use serde::de::DeserializeOwned;

use super::TIMEOUT;
use mixer_server::ServerOptions;

/// The largest answer, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// The JSON at a path; `None` without ControlZ, or if it does not answer.
pub(super) async fn get<T: DeserializeOwned>(options: &ServerOptions, path: &str) -> Option<T> {
    let address = options.introspection.listen_address()?;
    let (host, port) = address.rsplit_once(':')?;
    // A server that listens everywhere listens here.
    let host = if matches!(host, "" | "0.0.0.0" | "[::]") { "localhost" } else { host };
    let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build().ok()?;
    let mut request = client.get(format!("http://{host}:{port}{path}"));
    let token_file = &options.introspection.token_file;
    if !token_file.as_os_str().is_empty() {
        let token = mixer_base::regular_file::read_text(token_file, 4096).ok()?;
        request = request.bearer_auth(token.trim());
    }
    let mut answer = request.send().await.ok()?.error_for_status().ok()?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BYTES {
            return None;
        }
    }
    serde_json::from_slice(&body).ok()
}
