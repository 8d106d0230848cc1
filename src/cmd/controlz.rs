//! Documents of ControlZ of a running process.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::StatusCode;
use mixer_base::regular_file;
use mixer_base::rotate::os_text;
use mixer_base::secrets::mask_address;
use serde_json::Value;

use super::endpoint::{self, Endpoint, Program};
use super::event_loop::block_on;
use super::exit::{Exit, Failure, Stop, innermost_cause};
use super::value;

/// Longest time for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer, in bytes.
const MAX_ANSWER: usize = 1 << 30;
/// The largest token, in bytes.
const MAX_TOKEN: u64 = 64 << 10;
/// The path of what serves: of a server and of galley.
pub(crate) const SNAPSHOTS: &str = "/snapshotj/";
/// The kind of what a server has there.
pub(crate) const SNAPSHOT: &str = "Snapshot";
/// The kind of what galley has there.
pub(crate) const GALLEY_SNAPSHOT: &str = "GalleySnapshot";
/// Maximum characters of an answer in an error.
const MAX_SHOWN: usize = 200;

/// The flag of whoever asks ControlZ.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ControlzFlags {
    /// File with the bearer token of ControlZ: that of --ctrlz-token-file of the server. Also MIXER_CTRLZ_TOKEN_FILE.
    #[arg(
        long = "ctrlz-token-file", value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE"
    )]
    ctrlz_token_file: PathBuf,
}

impl ControlzFlags {
    /// ControlZ of a program at an address: `HOST:PORT` or a URL. `named_by`: the flag or argument that names it.
    pub(crate) fn at<'a>(
        &'a self,
        program: Program,
        address: &'a str,
        named_by: &'static str,
    ) -> Controlz<'a> {
        Controlz { program, address, named_by, token_file: &self.ctrlz_token_file }
    }
}

/// ControlZ of a running process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Controlz<'a> {
    program: Program,
    address: &'a str,
    named_by: &'static str,
    token_file: &'a Path,
}

/// Why there is no document.
enum Trouble {
    /// The token cannot be read.
    Token(Box<Failure>),
    /// Nothing answered, or something that is not HTTP.
    Unreachable(String),
    /// A status that is none of success, and the beginning of the answer.
    Refused(StatusCode, String),
    /// The answer is no JSON, or too large.
    Invalid(String),
}

impl Controlz<'_> {
    /// Its address, as it is shown.
    pub(crate) fn address(&self) -> Cow<'_, str> {
        mask_address(self.address)
    }

    /// A JSON document.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Stop> {
        match self.ask(path) {
            Ok(document) => Ok(document),
            Err(Trouble::Token(failure)) => Err(Stop::Failure(failure)),
            Err(trouble) => {
                let found = block_on(async { Ok(self.found(&trouble).await) })?;
                Err(self.failure(path, &trouble, found).into())
            }
        }
    }

    /// A JSON document of this kind: the other program may have another one at the same path.
    pub(crate) fn get_kind(&self, path: &str, kind: &str) -> Result<Value, Stop> {
        let document = self.get(path)?;
        let found = document.get("kind").and_then(Value::as_str).unwrap_or_default();
        if found == kind {
            return Ok(document);
        }
        let trouble = Trouble::Invalid(format!("the answer is no `{kind}`"));
        let program = match found {
            SNAPSHOT => Some(Program::Mixer),
            GALLEY_SNAPSHOT => Some(Program::Galley),
            _ => None,
        };
        let other = program.filter(|program| *program != self.program);
        Err(self.failure(path, &trouble, other.map(|program| Endpoint::Controlz(Some(program)))).into())
    }

    /// A JSON document, if there is one.
    pub(crate) fn find(&self, path: &str) -> Option<Value> {
        self.ask(path).ok()
    }

    /// The failure for a document that is something else than was asked for: `a snapshot`.
    pub(crate) fn unexpected(&self, what: &str, error: &serde_json::Error) -> Failure {
        let (address, own, named_by) = (self.address, self.program.command(), self.named_by);
        let failure = Failure::new(Exit::Rpc, format!("`{address}` did not return {what}"));
        failure
            .cause(error)
            .hint(format!("name ControlZ of `{own}` with {named_by}, of a version like that of this program"))
    }

    fn url(&self, path: &str) -> String {
        let scheme = if self.address.contains("://") { "" } else { "http://" };
        format!("{scheme}{}{path}", self.address)
    }

    fn ask(&self, path: &str) -> Result<Value, Trouble> {
        let token = self.token()?;
        mixer_net::tls::install_crypto_provider();
        let asked = block_on(async { Ok(self.exchange(path, token.as_deref()).await) });
        asked.unwrap_or_else(|_| Err(Trouble::Unreachable("no event loop".to_owned())))
    }

    async fn exchange(&self, path: &str, token: Option<&str>) -> Result<Value, Trouble> {
        let unreachable = |error: reqwest::Error| Trouble::Unreachable(innermost_cause(&error));
        // Not through a proxy of the environment, which would see the token.
        let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build().map_err(unreachable)?;
        let mut request = client.get(self.url(path));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let mut answer = request.send().await.map_err(unreachable)?;
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ANSWER {
                return Err(Trouble::Invalid(format!("the answer has more than {MAX_ANSWER} bytes")));
            }
        }
        if !answer.status().is_success() {
            return Err(Trouble::Refused(answer.status(), beginning(&body)));
        }
        serde_json::from_slice(&body).map_err(|error| Trouble::Invalid(error.to_string()))
    }

    /// The token; `None` without a file.
    fn token(&self) -> Result<Option<String>, Trouble> {
        let Some(file) = self.token_file() else { return Ok(None) };
        let refuse = |cause: String| {
            let what = format!("cannot read the token of ControlZ from `{file}`");
            let hint = "--ctrlz-token-file, or MIXER_CTRLZ_TOKEN_FILE, names the file with the token to send: that of the server's own \
                        --ctrlz-token-file";
            Trouble::Token(Box::new(Failure::local(what).cause(cause).hint(hint)))
        };
        let text =
            regular_file::read_text(self.token_file, MAX_TOKEN).map_err(|error| refuse(os_text(&error)))?;
        let token = text.trim();
        if token.is_empty() {
            return Err(refuse("the file is empty".to_owned()));
        }
        match http::HeaderValue::from_str(token) {
            Ok(_) => Ok(Some(token.to_owned())),
            // Without the error, which may have a part of it.
            Err(_) => Err(refuse("it has characters that no header can have".to_owned())),
        }
    }

    /// What answers there, if it is not what was expected: with TLS, what answers without.
    async fn found(&self, trouble: &Trouble) -> Option<Endpoint> {
        let is_another = match trouble {
            Trouble::Unreachable(_) | Trouble::Invalid(_) => true,
            Trouble::Refused(status, _) => *status == StatusCode::NOT_FOUND,
            Trouble::Token(_) => false,
        };
        let host = reqwest::Url::parse(&self.url("/")).ok().and_then(|url| {
            let host = url.host_str()?.to_owned();
            Some(format!("{host}:{}", url.port_or_known_default()?))
        })?;
        let found = if is_another { endpoint::identify(&host).await } else { None };
        found.filter(|found| self.is_tls() || *found != Endpoint::Controlz(Some(self.program)))
    }

    fn failure(&self, path: &str, trouble: &Trouble, found: Option<Endpoint>) -> Failure {
        let what = format!("cannot read `{}`", mask_address(&self.url(path)));
        let cause = match found {
            Some(found @ (Endpoint::Grpc | Endpoint::Metrics | Endpoint::Controlz(Some(_))))
                if !self.is_tls() =>
            {
                format!("{} answers there, not {}", found.name(), self.what())
            }
            Some(Endpoint::Tls) if !self.is_tls() => "the server speaks TLS there".to_owned(),
            _ => trouble.to_string(),
        };
        Failure::new(Exit::Rpc, what).cause(cause).hint(self.hint(path, trouble, found))
    }

    /// What to do.
    fn hint(&self, path: &str, trouble: &Trouble, found: Option<Endpoint>) -> String {
        let Self { address, named_by, program, .. } = *self;
        let (what, command) = (self.what(), program.command());
        let usual = format!(
            "{what} is at HOST:9876, unless --ctrlz-address and --ctrlz-port of `{command}` say otherwise"
        );
        match (trouble, found) {
            (_, Some(Endpoint::Tls)) if !self.is_tls() => format!("write {named_by} https://HOST:PORT"),
            (Trouble::Unreachable(_), Some(found)) if self.is_tls() && found != Endpoint::Tls => {
                format!("no TLS is spoken there: write {named_by} HOST:PORT; {usual}")
            }
            (_, Some(Endpoint::Controlz(Some(Program::Mixer)))) => {
                format!("{usual}; for this server leave out `galley`, as in `mixer snapshot dump --server {address}`")
            }
            (_, Some(Endpoint::Controlz(Some(Program::Galley)))) => {
                let other = if path.starts_with(SNAPSHOTS) { "snapshot dump" } else { "status" };
                format!("{usual}; galley is asked with `mixer galley`, as in `mixer galley {other} --server {address}`")
            }
            (Trouble::Refused(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _), _) => match self.token_file() {
                None => "--ctrlz-token-file FILE, or MIXER_CTRLZ_TOKEN_FILE, names the file with the token to send: that of the \
                         server's own --ctrlz-token-file"
                    .to_owned(),
                Some(file) => format!("the token in `{file}` (--ctrlz-token-file) is not the one that is asked for there"),
            },
            (Trouble::Refused(StatusCode::MISDIRECTED_REQUEST, _), _) => {
                "name the server by its IP address, or start it with --ctrlz-allowed-hosts NAME".to_owned()
            }
            (Trouble::Refused(StatusCode::NOT_FOUND, _), _) => {
                let page = if self.has_path() { format!("; write {named_by} without the path of a page") } else { String::new() };
                let token = match self.token_file() {
                    None => "; a token that is asked for there is sent with --ctrlz-token-file FILE",
                    Some(_) => "; the token of --ctrlz-token-file was sent",
                };
                format!("name ControlZ with {named_by} HOST:PORT: {usual}{page}{token}")
            }
            (Trouble::Unreachable(_), None) => format!(
                "{what} must be reachable there: `{command}` serves it at localhost:9876, unless --ctrlz-address and --ctrlz-port say \
                 otherwise (port 0: not at all); {named_by} HOST:PORT names another one"
            ),
            _ => format!("name ControlZ with {named_by} HOST:PORT: {usual}"),
        }
    }

    fn is_tls(&self) -> bool {
        self.address.starts_with("https://")
    }

    fn has_path(&self) -> bool {
        self.address.split_once("://").map_or(self.address, |(_, rest)| rest).contains('/')
    }

    /// The file with the token, if one is given.
    fn token_file(&self) -> Option<std::path::Display<'_>> {
        (!self.token_file.as_os_str().is_empty()).then(|| self.token_file.display())
    }

    /// What is asked.
    fn what(&self) -> &'static str {
        Endpoint::Controlz(Some(self.program)).name()
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Token(failure) => f.write_str(&failure.what),
            Trouble::Unreachable(why) | Trouble::Invalid(why) => f.write_str(why),
            Trouble::Refused(status, text) if text.is_empty() => write!(f, "the answer is {status}"),
            Trouble::Refused(status, text) => write!(f, "the answer is {status}: {text}"),
        }
    }
}

/// The beginning of an answer in one line.
fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..body.len().min(4 * MAX_SHOWN)).unwrap_or_default());
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // A page says nothing in its beginning.
    if line.starts_with('<') { String::new() } else { line.chars().take(MAX_SHOWN).collect() }
}
