//! Where access keys come from: what the configuration names; else the environment, the token of an identity provider, shared files, the
//! endpoint of a container, the metadata of an instance, in this order.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::Value;

use mixer_net::tls::ClientTlsOptions;

use super::profiles::Profiles;
use super::role::{self, Base, Fetched, Plan, Sts};
use super::{AccessKey, AwsOptions, Environment};
use crate::RemoteError;
use crate::answer::{Answer, foreign};
use crate::credential::{Credential, Secret};
use crate::http::{Authentication, HttpOptions, HttpTarget, ProxySetting, Reply};

/// The endpoint that gives containers their credentials.
const CONTAINERS: &str = "http://169.254.170.2";
/// The instance metadata service.
const INSTANCE: &str = "http://169.254.169.254";
/// The limit of a request to either.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How long a token of the instance metadata service is valid, in seconds.
const TOKEN_SECONDS: &str = "21600";
/// How long the last key is used on before the next one is asked for again.
const PAUSE: Duration = Duration::from_secs(15);
/// The role of the instance.
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// The sources of access keys.
#[derive(Debug)]
pub(super) struct Chain {
    of_environment: Option<AccessKey>,
    profiles: Profiles,
    /// Whether the configuration names the profile or its file, and the endpoint: the environment is that of others then.
    is_profile_named: bool,
    is_endpoint_named: bool,
    /// The role of the environment.
    web_identity: Option<Plan>,
    endpoint: Endpoint,
    sts: Sts,
    /// The key that was fetched last, and how.
    fetched: Option<(Plan, Fetched)>,
}

#[derive(Debug)]
enum Endpoint {
    /// With the path and the query of the URL.
    Container(HttpTarget, String),
    Instance(HttpTarget),
    /// It is switched off.
    None,
}

impl Chain {
    /// Errors: an endpoint that is no URL; a token for it that cannot be read.
    pub(super) fn new(
        options: &AwsOptions,
        region: &str,
        tls: &ClientTlsOptions,
        environment: Environment<'_>,
    ) -> Result<Self, RemoteError> {
        let pair = (environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"));
        let of_environment = match pair {
            (Some(id), Some(secret)) => {
                let token = environment("AWS_SESSION_TOKEN").map(Secret::new);
                Some(AccessKey { id, secret: Secret::new(secret), token })
            }
            _ => None,
        };
        let container = match options.container_endpoint.as_str() {
            "" => environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
                .map(|path| format!("{CONTAINERS}{path}"))
                .or_else(|| environment("AWS_CONTAINER_CREDENTIALS_FULL_URI")),
            url => Some(url.to_owned()),
        };
        let endpoint = match container {
            Some(url) => {
                // It is for the endpoint of the environment, and no other one.
                let is_named = !options.container_endpoint.is_empty();
                let token = match environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
                    _ if is_named => None,
                    Some(file) => Some(Credential::from_file(file)?),
                    None => environment("AWS_CONTAINER_AUTHORIZATION_TOKEN")
                        .map(|_| Credential::from_environment("AWS_CONTAINER_AUTHORIZATION_TOKEN"))
                        .transpose()?,
                };
                let authentication = match token {
                    Some(token) => Authentication::Header(header::AUTHORIZATION, token),
                    None => Authentication::None,
                };
                let path = path_of(&url);
                Endpoint::Container(target(url, authentication)?, path)
            }
            None if options.instance_endpoint.is_empty() && is_disabled(environment) => Endpoint::None,
            None => {
                let url = match options.instance_endpoint.as_str() {
                    "" => environment("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
                    url => Some(url.to_owned()),
                };
                let url = url.unwrap_or_else(|| INSTANCE.to_owned());
                Endpoint::Instance(target(url, Authentication::None)?)
            }
        };
        Ok(Self {
            of_environment,
            profiles: Profiles::new(options, environment),
            is_profile_named: !options.profile.is_empty() || !options.credentials_file.as_os_str().is_empty(),
            is_endpoint_named: !options.container_endpoint.is_empty()
                || !options.instance_endpoint.is_empty(),
            web_identity: role::of_environment(environment),
            endpoint,
            sts: Sts::new(&options.sts_endpoint, region, tls.clone(), environment),
            fetched: None,
        })
    }

    /// How the key is found. Errors: it cannot be, and why.
    async fn plan(&mut self) -> Result<Plan, String> {
        let endpoint = Plan { base: Base::Endpoint, roles: Vec::new() };
        if self.is_profile_named {
            return match self.profiles.plan().await? {
                Some(plan) => Ok(plan),
                None if self.is_endpoint_named => Ok(endpoint),
                None => Err(format!("no access key: {} has none", self.profiles.place())),
            };
        }
        if self.is_endpoint_named {
            return Ok(endpoint);
        }
        if let Some(key) = &self.of_environment {
            return Ok(Plan { base: Base::Key(key.clone()), roles: Vec::new() });
        }
        if let Some(plan) = &self.web_identity {
            return Ok(plan.clone());
        }
        Ok(self.profiles.plan().await?.unwrap_or(endpoint))
    }

    /// The key. Errors: no source has one.
    pub(super) async fn key(&mut self) -> Result<AccessKey, String> {
        let plan = match self.plan().await? {
            Plan { base: Base::Key(key), roles } if roles.is_empty() => return Ok(key),
            plan => plan,
        };
        let now = Instant::now();
        if self.fetched.as_ref().is_some_and(|(how, _)| *how != plan) {
            self.fetched = None;
        }
        if let Some((_, fetched)) = self.fetched.as_ref().filter(|(_, fetched)| now < fetched.replaced) {
            return Ok(fetched.key.clone());
        }
        match self.fetch(&plan).await {
            Ok(fetched) => {
                let key = fetched.key.clone();
                self.fetched = Some((plan, fetched));
                Ok(key)
            }
            Err(why) => match &mut self.fetched {
                Some((_, fetched)) if now < fetched.ends => {
                    // Requests do not wait for an attempt each.
                    fetched.replaced = Instant::now() + PAUSE;
                    Ok(fetched.key.clone())
                }
                _ if plan.base != Base::Endpoint || !plan.roles.is_empty() || self.is_endpoint_named => {
                    Err(format!("no access key: {why}"))
                }
                _ => {
                    let place = self.profiles.place();
                    Err(format!(
                        "no access key: neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY nor {place}; {why}"
                    ))
                }
            },
        }
    }

    async fn fetch(&mut self, plan: &Plan) -> Result<Fetched, String> {
        let mut fetched = match &plan.base {
            Base::Key(key) => Fetched::new(key.clone(), None),
            Base::Environment => {
                let why = "the profile names the environment, which has no key";
                Fetched::new(self.of_environment.clone().ok_or_else(|| why.to_owned())?, None)
            }
            Base::Endpoint => self.endpoint.fetch().await?,
            Base::WebIdentity(role, file) => self.sts.assume_by_token(role, file).await?,
        };
        for role in &plan.roles {
            fetched = self.sts.assume(role, &fetched.key).await?;
        }
        Ok(fetched)
    }

    /// The service did not accept the key: an endpoint is asked for another one.
    pub(super) fn refused(&mut self) {
        self.fetched = None;
    }
}

fn is_disabled(environment: Environment<'_>) -> bool {
    environment("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// What follows the host of a URL.
fn path_of(url: &str) -> String {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/").to_owned()
}

fn target(url: String, authentication: Authentication) -> Result<HttpTarget, RemoteError> {
    HttpTarget::new(HttpOptions {
        timeout: TIMEOUT,
        connect_timeout: TIMEOUT,
        proxy: ProxySetting::Direct,
        authentication,
        keeps_connections: false,
        ..HttpOptions::new(url)
    })
}

impl Endpoint {
    async fn fetch(&self) -> Result<Fetched, String> {
        match self {
            Endpoint::None => Err("the instance metadata service is switched off".to_owned()),
            Endpoint::Container(target, path) => {
                let of_container = |why| format!("the endpoint of containers: {why}");
                let body = get(target, path, &HeaderMap::new()).await.map_err(of_container)?;
                fetched(&body).map_err(of_container)
            }
            Endpoint::Instance(target) => {
                let of_instance = |why| format!("the instance metadata service: {why}");
                instance_key(target).await.map_err(of_instance)
            }
        }
    }
}

/// The key of the role of the instance, with version 2 of the service.
async fn instance_key(target: &HttpTarget) -> Result<Fetched, String> {
    let lifetime = HeaderMap::from_iter([(
        header::HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds"),
        HeaderValue::from_static(TOKEN_SECONDS),
    )]);
    let token = text(target.send_to(Method::PUT, "/latest/api/token", &lifetime, Bytes::new()).await)?;
    let mut token = HeaderValue::try_from(token.trim()).map_err(|_| "its token is none".to_owned())?;
    token.set_sensitive(true);
    let headers =
        HeaderMap::from_iter([(header::HeaderName::from_static("x-aws-ec2-metadata-token"), token)]);
    let roles = get(target, ROLES, &headers).await?;
    let role = roles.lines().next().map(str::trim).filter(|role| !role.is_empty());
    let role = role.ok_or_else(|| "the instance has no role".to_owned())?;
    fetched(&get(target, &format!("{ROLES}{role}"), &headers).await?)
}

async fn get(target: &HttpTarget, path: &str, headers: &HeaderMap) -> Result<String, String> {
    text(target.send_to(Method::GET, path, headers, Bytes::new()).await)
}

fn text(reply: Reply) -> Result<String, String> {
    match reply.answer {
        Answer::Delivered => Ok(String::from_utf8_lossy(&reply.body).into_owned()),
        Answer::Retry { why, .. } | Answer::Refused(why) => Err(why),
    }
}

/// A key as both endpoints write it.
fn fetched(body: &str) -> Result<Fetched, String> {
    let document: Value = serde_json::from_str(body).map_err(|_| "its answer is no JSON".to_owned())?;
    let field = |name: &str| document.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (Some(id), Some(secret)) = (field("AccessKeyId"), field("SecretAccessKey")) else {
        let why = field("Message").or_else(|| field("message")).map(foreign);
        return Err(why.unwrap_or_else(|| "its answer has no access key".to_owned()));
    };
    let key =
        AccessKey { id: id.to_owned(), secret: Secret::new(secret), token: field("Token").map(Secret::new) };
    Ok(Fetched::new(key, field("Expiration")))
}
