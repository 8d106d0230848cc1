//! The metadata server of Google's machines.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header::HeaderName};

use super::Environment;
use crate::RemoteError;
use crate::answer::Answer;
use crate::http::{HttpOptions, HttpTarget, ProxySetting};

const HOST: &str = "metadata.google.internal";
/// It is near, or not there at all.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What the metadata server knows about where a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataFact {
    /// The id of the project.
    Project,
    /// The location of the cluster; else the zone of the machine.
    Location,
    /// The name of the cluster.
    Cluster,
    /// The number of the machine.
    Instance,
}

/// The metadata server.
#[derive(Debug)]
pub struct GoogleMetadata {
    target: HttpTarget,
    headers: HeaderMap,
}

impl GoogleMetadata {
    /// `endpoint`: its URL; empty: that of `GCE_METADATA_HOST`, or the usual one. Errors: an invalid URL.
    pub fn new(endpoint: &str) -> Result<Self, RemoteError> {
        Self::with(endpoint, &super::environment)
    }

    pub(super) fn with(endpoint: &str, environment: Environment<'_>) -> Result<Self, RemoteError> {
        let named = match endpoint {
            "" => environment("GCE_METADATA_HOST").map(|host| format!("http://{host}")),
            url => Some(url.to_owned()),
        };
        let target = HttpTarget::new(HttpOptions {
            timeout: TIMEOUT,
            connect_timeout: TIMEOUT,
            proxy: ProxySetting::Direct,
            keeps_connections: false,
            ..HttpOptions::new(named.unwrap_or_else(|| format!("http://{HOST}")))
        })?;
        let flavor = HeaderValue::from_static("Google");
        let headers = HeaderMap::from_iter([(HeaderName::from_static("metadata-flavor"), flavor)]);
        Ok(Self { target, headers })
    }

    /// A fact; `None` if the server does not know it. Errors: it does not answer.
    pub async fn fact(&self, fact: MetadataFact) -> Result<Option<String>, String> {
        match fact {
            MetadataFact::Project => self.find("project/project-id").await,
            MetadataFact::Cluster => self.find("instance/attributes/cluster-name").await,
            MetadataFact::Instance => self.find("instance/id").await,
            MetadataFact::Location => match self.find("instance/attributes/cluster-location").await? {
                Some(location) if !location.is_empty() => Ok(Some(location)),
                _ => {
                    let zone = self.find("instance/zone").await?;
                    Ok(zone.map(|zone| zone.rsplit('/').next().unwrap_or_default().to_owned()))
                }
            },
        }
    }

    /// What it says at a path.
    pub(super) async fn get(&self, path: &str) -> Result<String, String> {
        self.ask(path).await.map_err(|(_, why)| why)
    }

    /// The same; `None` if there is nothing at the path.
    async fn find(&self, path: &str) -> Result<Option<String>, String> {
        match self.ask(path).await {
            Ok(found) => Ok(Some(found)),
            Err((Some(StatusCode::NOT_FOUND), _)) => Ok(None),
            Err((_, why)) => Err(why),
        }
    }

    /// Errors: the status, if there is an answer, and the text for operators.
    async fn ask(&self, path: &str) -> Result<String, (Option<StatusCode>, String)> {
        let path = format!("/computeMetadata/v1/{path}");
        let reply = self.target.send_to(Method::GET, &path, &self.headers, Bytes::new()).await;
        match reply.answer {
            Answer::Delivered => Ok(String::from_utf8_lossy(&reply.body).trim().to_owned()),
            Answer::Retry { why, .. } | Answer::Refused(why) => {
                Err((reply.status, format!("the metadata server: {why}")))
            }
        }
    }
}
