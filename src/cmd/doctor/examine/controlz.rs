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
    /// It answers, and its answer cannot be used.
    Unusable(String),
}

/// A finding if the running server does not tell without another token: the other examinations of it are silent then.
pub(super) async fn examine(options: &ServerOptions) -> Option<Finding> {
    let file = options.introspection.token_file.display();
    let has_file = !options.introspection.token_file.as_os_str().is_empty();
    let detail = match ask_within(options, "/homej/", MAX_BYTES).await {
        // What cannot be used is told where it is asked for.
        Ok(_) | Err(Trouble::Silent | Trouble::Unusable(_)) => return None,
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

/// What `of` finds in the JSON at a path; nothing without ControlZ, or if it does not answer.
pub(super) async fn findings<T: DeserializeOwned>(
    options: &ServerOptions,
    path: &str,
    of: impl FnOnce(T) -> Vec<Finding>,
) -> Vec<Finding> {
    findings_within(options, path, MAX_BYTES, of).await
}

async fn findings_within<T: DeserializeOwned>(
    options: &ServerOptions,
    path: &str,
    max_bytes: usize,
    of: impl FnOnce(T) -> Vec<Finding>,
) -> Vec<Finding> {
    let read = |body: Vec<u8>| {
        serde_json::from_slice(&body)
            .map_err(|error| Trouble::Unusable(format!("it is not as expected: {error}")))
    };
    let why = match ask_within(options, path, max_bytes).await.and_then(read) {
        Ok(found) => return of(found),
        Err(Trouble::Unusable(why)) => why,
        // `examine` tells of the others.
        Err(Trouble::Silent | Trouble::Token(_) | Trouble::Refused) => return Vec::new(),
    };
    let hint = "what the running server tells there is not examined: look at the pages of ControlZ";
    vec![warn(CHECK, format!("the answer to `{path}` cannot be used: {why}"), hint)]
}

async fn ask_within(options: &ServerOptions, path: &str, max_bytes: usize) -> Result<Vec<u8>, Trouble> {
    let address = options.introspection.listen_address().ok_or(Trouble::Silent)?;
    let place = reached_at(&address).ok_or(Trouble::Silent)?;
    let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build();
    let mut request = client.map_err(|_| Trouble::Silent)?.get(format!("http://{place}{path}"));
    let token_file = &options.introspection.token_file;
    if !token_file.as_os_str().is_empty() {
        let read = regular_file::read_text(token_file, MAX_TOKEN);
        let token = read.map_err(|error| Trouble::Token(os_text(&error)))?;
        request = request.bearer_auth(token.trim());
    }
    let failed = |error: reqwest::Error| match error {
        error if error.is_connect() => Trouble::Silent,
        error if error.is_timeout() => {
            Trouble::Unusable(format!("it takes more than {} s", TIMEOUT.as_secs()))
        }
        error => Trouble::Unusable(error.without_url().to_string()),
    };
    let mut answer = request.send().await.map_err(failed)?;
    if answer.status() == StatusCode::UNAUTHORIZED {
        return Err(Trouble::Refused);
    }
    answer = answer.error_for_status().map_err(failed)?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        body.extend_from_slice(&chunk);
        if body.len() > max_bytes {
            return Err(Trouble::Unusable(format!("it has more than {max_bytes} bytes")));
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_net::tls;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// What is asked of one that answers each request with `answer`.
    async fn asked(answer: &'static str) -> Vec<Finding> {
        tls::install_crypto_provider();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut options = ServerOptions::default();
        options.introspection.address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        findings_within::<Vec<u8>>(&options, "/handlerj/", 10, |found| {
            vec![warn("found", format!("{found:?}"), "")]
        })
        .await
    }

    #[tokio::test]
    async fn an_answer_that_cannot_be_used_is_told() {
        for (answer, told) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n[1,2]", "[1, 2]"),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n[1,2,3,4,5,6]",
                "the answer to `/handlerj/` cannot be used: it has more than 10 bytes",
            ),
            ("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", "503"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "it is not as expected: "),
        ] {
            let found = asked(answer).await;
            assert_eq!(found.len(), 1, "{answer}");
            assert!(found[0].detail.contains(told), "{answer}: {}", found[0].detail);
        }
        // Without a ControlZ there is nothing to tell.
        let mut options = ServerOptions::default();
        options.introspection.address = "127.0.0.1:1".to_owned();
        assert!(findings::<Vec<u8>>(&options, "/handlerj/", |_| Vec::new()).await.is_empty());
    }
}
