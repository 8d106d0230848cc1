//! Roles: temporary access keys that the Security Token Service gives for another key, or for the token of an identity provider.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};

use mixer_net::tls::ClientTlsOptions;

use super::signature::{Scope, Signed, sign};
use super::target::{element, error};
use super::{AccessKey, Environment, endpoint};
use crate::answer::Answer;
use crate::credential::{Credential, Secret};
use crate::http::{HttpOptions, HttpTarget};

/// The name of a session, unless one is configured.
const SESSION: &str = "mixer";
/// The limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Keys are replaced so long before they expire.
const MARGIN: Duration = Duration::from_secs(300);
/// For how long a key without an end is used.
const UNBOUNDED: Duration = Duration::from_secs(900);

/// A role that is assumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) arn: String,
    /// The name of the session; `None`: `mixer`.
    pub(super) session: Option<String>,
    pub(super) external_id: Option<String>,
    /// For how long a key is asked for.
    pub(super) seconds: Option<String>,
}

/// How a key is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) base: Base,
    /// The roles that are assumed with it, one after the other.
    pub(super) roles: Vec<Role>,
}

/// The first key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Base {
    Key(AccessKey),
    /// That of a role, for the token in a file.
    WebIdentity(Role, PathBuf),
    /// That of the environment.
    Environment,
    /// That of the endpoint of containers, or of the metadata of the instance.
    Endpoint,
}

/// The role of the environment, as Kubernetes sets it for a service account; `None` without one.
pub(super) fn of_environment(environment: Environment<'_>) -> Option<Plan> {
    let file = environment("AWS_WEB_IDENTITY_TOKEN_FILE")?;
    let role = Role {
        arn: environment("AWS_ROLE_ARN")?,
        session: environment("AWS_ROLE_SESSION_NAME"),
        external_id: None,
        seconds: None,
    };
    Some(Plan { base: Base::WebIdentity(role, file.into()), roles: Vec::new() })
}

/// A key that a service gave.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) key: AccessKey,
    /// When another one is asked for.
    pub(super) replaced: Instant,
    pub(super) ends: Instant,
}

impl Fetched {
    /// A key until a time; without one, for a quarter of an hour.
    pub(super) fn new(key: AccessKey, end: Option<&str>) -> Self {
        let end = end.and_then(|text| text.parse::<jiff::Timestamp>().ok());
        let left = end.map(|end| end.duration_since(jiff::Timestamp::now()));
        let left: Duration = left.map_or(UNBOUNDED, |left| left.try_into().unwrap_or_default());
        let now = Instant::now();
        Self { key, replaced: now + left.saturating_sub(MARGIN).max(left / 2), ends: now + left }
    }
}

/// The Security Token Service of a region.
#[derive(Debug)]
pub(super) struct Sts {
    url: String,
    region: String,
    tls: ClientTlsOptions,
    /// Made for the first request.
    target: Option<HttpTarget>,
}

impl Sts {
    /// At a URL; empty: that of the environment, or the public one.
    pub(super) fn new(url: &str, region: &str, tls: ClientTlsOptions, environment: Environment<'_>) -> Self {
        let url = match url {
            "" => endpoint(&["STS"], "sts", region, environment),
            url => url.to_owned(),
        };
        Self { url, region: region.to_owned(), tls, target: None }
    }

    /// The key of a role, for the token in a file. Errors: why there is none.
    pub(super) async fn assume_by_token(&mut self, role: &Role, file: &Path) -> Result<Fetched, String> {
        // It is replaced from time to time.
        let file = file.to_path_buf();
        let read = tokio::task::spawn_blocking(move || Credential::from_file(file)).await;
        let token = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?.last();
        let more = [("WebIdentityToken", token.expose().to_owned())];
        self.call("AssumeRoleWithWebIdentity", role, &more, None).await
    }

    /// The key of a role, for another key. Errors: why there is none.
    pub(super) async fn assume(&mut self, role: &Role, key: &AccessKey) -> Result<Fetched, String> {
        let more = role.external_id.clone().map(|id| ("ExternalId", id));
        self.call("AssumeRole", role, more.as_slice(), Some(key)).await
    }

    async fn call(
        &mut self,
        action: &str,
        role: &Role,
        more: &[(&str, String)],
        key: Option<&AccessKey>,
    ) -> Result<Fetched, String> {
        let of_role = |why: String| format!("role `{}`: {why}", role.arn);
        let body = form(action, role, more);
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        let mut headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
        let region = self.region.clone();
        let target = self.target().map_err(of_role)?;
        let (host, path) = target.place();
        if let Some(key) = key {
            let scope = Scope { region: &region, service: "sts", at: jiff::Timestamp::now() };
            let request = Signed { host: &host, path, body: &body };
            sign(&mut headers, request, key, scope).map_err(of_role)?;
        }
        let reply = target.post(&headers, body).await;
        let text = String::from_utf8_lossy(&reply.body);
        match reply.answer {
            Answer::Delivered => assumed(&text).ok_or_else(|| of_role("the answer has no key".to_owned())),
            Answer::Retry { why, .. } | Answer::Refused(why) => Err(of_role(match error(&text) {
                (code, _) if code.is_empty() => why,
                (code, message) => format!("{code}: {message}"),
            })),
        }
    }

    fn target(&mut self) -> Result<&HttpTarget, String> {
        if self.target.is_none() {
            let options = HttpOptions {
                timeout: TIMEOUT,
                connect_timeout: TIMEOUT,
                tls: self.tls.clone(),
                keeps_connections: false,
                ..HttpOptions::new(self.url.clone())
            };
            self.target = Some(HttpTarget::new(options).map_err(|error| error.to_string())?);
        }
        self.target.as_ref().ok_or_else(|| "there is no target".to_owned())
    }
}

/// The body of a request.
fn form(action: &str, role: &Role, more: &[(&str, String)]) -> Bytes {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("Action", action).append_pair("Version", "2011-06-15");
    form.append_pair("RoleArn", &role.arn);
    form.append_pair("RoleSessionName", role.session.as_deref().unwrap_or(SESSION));
    if let Some(seconds) = &role.seconds {
        form.append_pair("DurationSeconds", seconds);
    }
    form.extend_pairs(more);
    form.finish().into()
}

/// The key of an answer.
fn assumed(text: &str) -> Option<Fetched> {
    let key = AccessKey {
        id: element(text, "AccessKeyId")?.to_owned(),
        secret: Secret::new(element(text, "SecretAccessKey")?),
        token: Some(Secret::new(element(text, "SessionToken")?)),
    };
    Some(Fetched::new(key, element(text, "Expiration")))
}
