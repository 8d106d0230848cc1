//! What the running server says in ControlZ.

use http::StatusCode;
use serde::de::DeserializeOwned;

use super::{TIMEOUT, reached_at, warn};
use crate::cmd::doctor::finding::Finding;
use mixer_base::regular_file;
use mixer_base::rotate::os_text;
use mixer_server::ServerOptions;

const CHECK: &str = "ControlZ";
/// The largest answer, in bytes: a handler has a few hundred.
const MAX_BYTES: usize = 64 << 20;
/// The largest token, in bytes.
const MAX_TOKEN: u64 = 64 << 10;

/// Why there is no document.
enum Trouble {
    /// There is no ControlZ, or it does not answer.
    Silent,
    /// The token cannot be read.
    Token(String),
    /// No token was sent, or another one than is asked for.
    Refused,
}

/// A finding if the running server does not tell without another token: the other examinations of it are silent then.
pub(super) async fn examine(options: &ServerOptions) -> Option<Finding> {
    let file = options.introspection.token_file.display();
    let has_file = !options.introspection.token_file.as_os_str().is_empty();
    let detail = match ask(options, "/homej/").await {
        Ok(_) | Err(Trouble::Silent) => return None,
        Err(Trouble::Token(why)) => format!("the token in `{file}` cannot be read: {why}"),
        Err(Trouble::Refused) if has_file => {
            format!("the running server refuses the token in `{file}` (--ctrlz-token-file)")
        }
        Err(Trouble::Refused) => "the running server asks for a token".to_owned(),
    };
    let hint = "--ctrlz-token-file FILE, or MIXER_CTRLZ_TOKEN_FILE, names that of the server; without it nothing is known of its handlers, \
                deliveries and rate limits";
    Some(warn(CHECK, detail, hint))
}

/// The JSON at a path; `None` without ControlZ, or if it does not answer.
pub(super) async fn get<T: DeserializeOwned>(options: &ServerOptions, path: &str) -> Option<T> {
    let body = ask(options, path).await.ok()?;
    serde_json::from_slice(&body).ok()
}

async fn ask(options: &ServerOptions, path: &str) -> Result<Vec<u8>, Trouble> {
    let address = options.introspection.listen_address().ok_or(Trouble::Silent)?;
    let place = reached_at(&address).ok_or(Trouble::Silent)?;
    let silent = |_: reqwest::Error| Trouble::Silent;
    let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build().map_err(silent)?;
    let mut request = client.get(format!("http://{place}{path}"));
    let token_file = &options.introspection.token_file;
    if !token_file.as_os_str().is_empty() {
        let read = regular_file::read_text(token_file, MAX_TOKEN);
        let token = read.map_err(|error| Trouble::Token(os_text(&error)))?;
        request = request.bearer_auth(token.trim());
    }
    let mut answer = request.send().await.map_err(silent)?;
    if answer.status() == StatusCode::UNAUTHORIZED {
        return Err(Trouble::Refused);
    }
    answer = answer.error_for_status().map_err(silent)?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(silent)? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BYTES {
            return Err(Trouble::Silent);
        }
    }
    Ok(body)
}
