//! The connection of a handler: address, TLS and credentials.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use tonic::Status;

use crate::files::PENDING_READS;
use mixer_attribute::SignedDuration;
use mixer_config::FieldPath;
use mixer_engine::snapshot::decode::{
    AuthHeader, Authentication, Connection as Settings, Mutual, OAuth, Tls,
};
use mixer_remote::{
    ChannelOptions, ClientTlsOptions, Credential, GrpcChannel, GrpcCode, GrpcConnection, OAuthOptions,
    OAuthTokens, Secret, ServerIdentity, check_address, grpc_error_text,
};

/// The roots that Istio Mixer trusts beside those of `caCertificates`.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Switches the comparison of URIs in certificates off.
const ANY_PEER: &str = "BYPASS_OOP_MTLS_SAN_VERIFICATION";
/// Most bytes of the text of a failed call.
const MAX_TEXT: usize = 1024;
/// Most bytes of an answer, except as Istio Mixer: a call is answered by a status and a few values.
const MAX_ANSWER: usize = 256 << 10;
/// How long the files are waited for.
const FILES_LIMIT: Duration = Duration::from_secs(5);
const NO_TOKEN: &str = "failed build tls dial option: cannot get grpc per rpc credentials";

/// What calls go through.
#[derive(Debug)]
pub(super) struct Connection {
    channel: GrpcChannel,
    access: Access,
}

/// One connection of them.
#[derive(Debug, Clone)]
pub(super) struct Single {
    connection: GrpcConnection,
    access: Access,
}

/// How calls are authenticated.
#[derive(Debug, Clone)]
struct Access(Option<Arc<Credentials>>);

/// The credential of each call.
#[derive(Debug)]
struct Credentials {
    header: HeaderName,
    /// Written before the token.
    prefix: &'static str,
    token: Token,
}

#[derive(Debug)]
enum Token {
    File(Credential),
    OAuth(Arc<OAuthTokens>),
}

/// Checks what needs no file. Errors: the field, relative to the connection, and what is wrong.
pub(super) fn check(settings: &Settings) -> Result<(), (FieldPath, String)> {
    if settings.address.is_empty() {
        return Err((FieldPath::root().field("address"), "empty connection address".to_owned()));
    }
    if let Some(authentication) = &settings.authentication {
        let field = FieldPath::root().field("authentication");
        match (&authentication.tls, &authentication.mutual) {
            (Some(tls), _) => {
                check_token(tls).map_err(|why| (field.field("tls"), format!("{NO_TOKEN} {why}")))?;
            }
            (None, Some(_)) => {}
            (None, None) => return Err((field, "authentication type is unexpected: <nil>".to_owned())),
        }
    }
    let address = check_address(&settings.address, settings.authentication.is_some());
    address.map(drop).map_err(|error| (FieldPath::root().field("address"), error.to_string()))
}

/// The port that is used because the address has none.
pub(super) fn default_port(settings: &Settings) -> Option<u16> {
    check_address(&settings.address, settings.authentication.is_some()).ok().flatten()
}

/// The error of a timeout within which no call can be answered; compat(1.3): for Istio Mixer there is no timeout then.
pub(super) fn no_time(settings: &Settings) -> Option<String> {
    let timeout = settings.timeout.filter(|timeout| *timeout <= SignedDuration::ZERO)?;
    Some(format!("the timeout must be above 0, it is {timeout}"))
}

/// Checks that there is a token, and a header for it.
fn check_token(tls: &Tls) -> Result<(), &'static str> {
    match (&tls.token_path, &tls.oauth) {
        (Some(path), _) if path.is_empty() => return Err("token path should not be empty"),
        (Some(_), _) => {}
        (None, Some(oauth)) if oauth.client_secret.is_empty() => return Err("oauth secret cannot be empty"),
        (None, Some(_)) => return Ok(()),
        (None, None) => return Err("unexpected tls token source type"),
    }
    if tls.auth_header.is_none() && tls.custom_header.is_none() {
        return Err("token type should be specified");
    }
    Ok(())
}

/// Whether a file can be read. Errors: as Go words them; a FIFO or a device is an error, too, and is not waited for.
fn opened(path: &str) -> Result<(), String> {
    match mixer_base::regular_file::open(Path::new(path)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(format!("open {path}: no such file or directory"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(format!("open {path}: permission denied"))
        }
        Err(error) => Err(format!("open {path}: {error}")),
    }
}

/// A file that a connection needs.
fn file_of(authentication: &Authentication) -> &str {
    let tls = authentication.tls.as_ref().map(|tls| {
        let secret = tls.oauth.as_ref().map_or("", |oauth| &oauth.client_secret);
        [tls.token_path.as_deref().unwrap_or_default(), secret, &tls.ca_certificates]
    });
    let mutual = authentication.mutual.as_ref();
    let mutual =
        mutual.map(|mutual| [&*mutual.private_key, &mutual.client_certificate, &mutual.ca_certificates]);
    let all = tls.into_iter().chain(mutual).flatten();
    all.into_iter().find(|path| !path.is_empty()).unwrap_or_default()
}

impl Connection {
    /// [`new`](Self::new), on a thread: files may be on a file system that hangs. Errors: the text that users see, also that the files are
    /// not read in time.
    pub(super) async fn open(settings: &Settings, as_istio_mixer: bool) -> Result<Self, String> {
        let path = settings.authentication.as_ref().map_or("", file_of);
        if path.is_empty() {
            return Self::new(settings, as_istio_mixer);
        }
        let settings = settings.clone();
        let new = move || Self::new(&settings, as_istio_mixer);
        let opened = PENDING_READS.run(Path::new(path), FILES_LIMIT, new).await;
        opened.map_err(|why| format!("open {path}: {why}, its file system may hang"))?
    }

    /// Makes a connection, and ends it. Errors: why there is none.
    pub(super) async fn reach(&self) -> Result<(), String> {
        self.channel.reach().await
    }

    /// Why its token may be an old one.
    pub(super) fn trouble(&self) -> Option<String> {
        match &self.access.0.as_ref()?.token {
            Token::File(token) => token.trouble(),
            Token::OAuth(_) => None,
        }
    }

    /// Reads the files and checks all settings; opens no connection. Errors: the text that users see.
    fn new(settings: &Settings, as_istio_mixer: bool) -> Result<Self, String> {
        check(settings).map_err(|(_, text)| text)?;
        if let Some(text) = no_time(settings).filter(|_| !as_istio_mixer) {
            return Err(text);
        }
        let mut options = ChannelOptions::new(&settings.address);
        let mut credentials = None;
        if let Some(Authentication { tls: Some(tls), .. }) = &settings.authentication {
            options.tls = Some(server_tls(tls)?);
            credentials =
                Some(credentials_of(tls, as_istio_mixer).map_err(|why| format!("{NO_TOKEN} {why}"))?);
        } else if let Some(Authentication { mutual: Some(mutual), .. }) = &settings.authentication {
            options.tls = Some(mutual_tls(mutual)?);
        }
        if !as_istio_mixer {
            options.max_answer = MAX_ANSWER;
        }
        let channel = GrpcChannel::new(&options).map_err(|error| error.to_string())?;
        Ok(Self { channel, access: Access(credentials.map(Arc::new)) })
    }

    pub(super) fn address(&self) -> &str {
        self.channel.address()
    }

    /// Calls a method. Errors: the status of the server as Go prints it.
    pub(super) async fn call(
        &self,
        path: PathAndQuery,
        request: &[u8],
        timeout: Option<Duration>,
    ) -> Result<Bytes, String> {
        self.access.call(|header| self.channel.call(path, request, header, timeout)).await
    }

    /// A connection that no other call uses. Errors: as of a call.
    pub(super) async fn connect(&self) -> Result<Single, String> {
        let connection = self.channel.connect().await.map_err(|status| grpc_error_text(&status))?;
        Ok(Single { connection, access: self.access.clone() })
    }

    /// Begins every connection of calls with `setup`, and fails them with its error.
    pub(super) fn with_setup<F>(self, setup: impl Fn(Single) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let access = self.access.clone();
        let setup = move |connection| setup(Single { connection, access: access.clone() });
        Self { channel: self.channel.with_setup(setup), ..self }
    }
}

impl Single {
    /// Calls a method. Errors: the status of the server as Go prints it.
    pub(super) async fn call(
        &self,
        path: PathAndQuery,
        request: &[u8],
        timeout: Duration,
    ) -> Result<Bytes, String> {
        self.access.call(|header| self.connection.call(path, request, header, Some(timeout))).await
    }

    /// Whether it takes further calls.
    pub(super) fn is_open(&self) -> bool {
        self.connection.is_open()
    }
}

impl Access {
    /// Sends a call, which gets the header with the token. Errors: the status of the server as Go prints it.
    async fn call<F>(
        &self,
        send: impl FnOnce(Option<(HeaderName, HeaderValue)>) -> F,
    ) -> Result<Bytes, String>
    where
        F: Future<Output = Result<Bytes, Status>>,
    {
        let Some(credentials) = &self.0 else {
            return send(None).await.map_err(|status| shortened(grpc_error_text(&status)));
        };
        let token = credentials.token().await?;
        send(Some(credentials.header(&token)?)).await.map_err(|status| {
            if status.code() == GrpcCode::Unauthenticated {
                credentials.refused(&token);
            }
            shortened(grpc_error_text(&status))
        })
    }
}

/// The text of an adapter, at most 1 KiB of it, as callers, logs and ControlZ get it.
pub(super) fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text.push('…');
    }
    text
}

/// Whether the text of a failed call says that the server has no such method.
pub(super) fn is_unimplemented(text: &str) -> bool {
    text.starts_with("rpc error: code = Unimplemented ")
}

/// Whether the text of a failed call is an answer of the adapter about the request, which a caller may bring about: a refusal by status, or
/// something about what it was sent. Not that the adapter or the way to it fails.
pub(super) fn is_about_request(text: &str) -> bool {
    const CODES: [&str; 7] = [
        "InvalidArgument",
        "OutOfRange",
        "FailedPrecondition",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
    ];
    let code = text.strip_prefix("rpc error: code = ").and_then(|rest| rest.split(' ').next());
    code.is_some_and(|code| CODES.contains(&code))
}

impl Credentials {
    /// Errors: there is no token.
    async fn token(&self) -> Result<Secret, String> {
        match &self.token {
            Token::File(token) => Ok(token.secret().await),
            Token::OAuth(tokens) => tokens.token().await.map_err(|why| unauthenticated(&why)),
        }
    }

    /// The server did not accept a token: one of OAuth is replaced.
    fn refused(&self, token: &Secret) {
        if let Token::OAuth(tokens) = &self.token {
            tokens.refused(token);
        }
    }

    fn header(&self, token: &Secret) -> Result<(HeaderName, HeaderValue), String> {
        let mut value = HeaderValue::try_from(format!("{}{}", self.prefix, token.expose()))
            .map_err(|_| unauthenticated("the token has a character that no header can have"))?;
        value.set_sensitive(true);
        Ok((self.header.clone(), value))
    }
}

fn unauthenticated(why: &str) -> String {
    format!("rpc error: code = Unauthenticated desc = transport: {why}")
}

/// TLS with a token: the roots of the system and those of a file.
fn server_tls(tls: &Tls) -> Result<ClientTlsOptions, String> {
    if !tls.ca_certificates.is_empty() {
        opened(&tls.ca_certificates)
            .map_err(|why| format!("failed build tls dial option: ca cert cannot be load {why}"))?;
    }
    Ok(ClientTlsOptions { server_name: tls.server_name.clone(), ..trusting(&tls.ca_certificates) })
}

fn trusting(ca_certificates: &str) -> ClientTlsOptions {
    ClientTlsOptions {
        ca_file: ca_certificates.into(),
        trusts_system_roots: Path::new(SYSTEM_ROOTS).exists(),
        ..ClientTlsOptions::default()
    }
}

fn mutual_tls(mutual: &Mutual) -> Result<ClientTlsOptions, String> {
    let pair = [&mutual.client_certificate, &mutual.private_key];
    pair.into_iter()
        .try_for_each(|path| opened(path))
        .map_err(|why| format!("load peer cert/key error: {why}"))?;
    if !mutual.ca_certificates.is_empty() {
        opened(&mutual.ca_certificates).map_err(|why| {
            format!("failed to build TLS dial option: CA certificate cannot be loaded: {why}")
        })?;
    }
    let is_any =
        std::env::var(ANY_PEER).is_ok_and(|value| matches!(value.as_str(), "true" | "1" | "TRUE" | "True"));
    Ok(ClientTlsOptions {
        cert_file: (&mutual.client_certificate).into(),
        key_file: (&mutual.private_key).into(),
        server_name: mutual.server_name.clone(),
        server_identity: if is_any { ServerIdentity::Any } else { ServerIdentity::UriOfClient },
        ..trusting(&mutual.ca_certificates)
    })
}

fn credentials_of(tls: &Tls, as_istio_mixer: bool) -> Result<Credentials, String> {
    if let (None, Some(oauth)) = (&tls.token_path, &tls.oauth) {
        let token = Token::OAuth(Arc::new(oauth_tokens(oauth, as_istio_mixer)?));
        return Ok(Credentials { header: AUTHORIZATION, prefix: "Bearer ", token });
    }
    let path = tls.token_path.as_deref().unwrap_or_default();
    opened(path)?;
    let token = Token::File(Credential::from_file(path).map_err(|error| error.to_string())?);
    let (header, prefix) = match (&tls.custom_header, &tls.auth_header) {
        (Some(name), _) => {
            let header = HeaderName::from_bytes(name.as_bytes()).ok().filter(may_have_a_token);
            (header.ok_or_else(|| format!("`{name}` is no name of a header that can have a token"))?, "")
        }
        (None, Some(AuthHeader::Bearer)) => (AUTHORIZATION, "Bearer "),
        (None, _) => (AUTHORIZATION, ""),
    };
    Ok(Credentials { header, prefix, token })
}

/// Whether a header is neither one of gRPC itself nor binary.
fn may_have_a_token(name: &HeaderName) -> bool {
    let name = name.as_str();
    !name.starts_with("grpc-")
        && !name.ends_with("-bin")
        && !matches!(name, "te" | "content-type" | "user-agent")
}

fn oauth_tokens(oauth: &OAuth, as_istio_mixer: bool) -> Result<OAuthTokens, String> {
    opened(&oauth.client_secret)?;
    let client_secret = Credential::from_file(&oauth.client_secret).map_err(|error| error.to_string())?;
    // compat(1.3): Istio Mixer does not send them; pinned by the case `oop/auth-tls-oauth`.
    let parameters = oauth.endpoint_params.iter().filter(|_| !as_istio_mixer);
    OAuthTokens::new(OAuthOptions {
        token_url: oauth.token_url.clone(),
        client_id: oauth.client_id.clone(),
        client_secret,
        scopes: oauth.scopes.clone(),
        parameters: parameters.map(|(name, value)| (name.clone(), value.clone())).collect(),
    })
    .map_err(|error| error.to_string())
}
