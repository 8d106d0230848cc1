//! Kubeconfig files: `v1.Config` of client-go.

use std::path::Path;

use base64::Engine as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use mixer_config::message::Field as _;
use mixer_config::yaml;
use mixer_net::tls::ClientPem;

use super::{AccessError, Files, Loaded, basic, bearer, server};

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct Config {
    clusters: Option<Vec<Named>>,
    users: Option<Vec<Named>>,
    contexts: Option<Vec<Named>>,
    current_context: String,
}

/// An entry of a list, whose content has the key `cluster`, `user` or `context`.
#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    content: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: String,
    certificate_authority_data: String,
    insecure_skip_tls_verify: bool,
    tls_server_name: String,
    proxy_url: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    client_certificate: String,
    client_certificate_data: String,
    client_key: String,
    client_key_data: String,
    token: String,
    #[serde(rename = "tokenFile")]
    token_file: String,
    username: String,
    password: String,
    #[serde(rename = "as")]
    impersonate: String,
    exec: serde_json::Value,
    auth_provider: serde_json::Value,
}

/// Where the files of a kubeconfig are.
struct Place<'p> {
    /// Where relative paths start; `None`: it may name no file.
    base: Option<&'p Path>,
    files: &'p mut Files,
}

pub(super) fn load(text: &str, base: Option<&Path>, files: &mut Files) -> Result<Loaded, AccessError> {
    let parsed = yaml::parse(text).map_err(|error| invalid(&error))?;
    let config: Config =
        serde_json::from_value(parsed.root.to_json()).map_err(|error| invalid(&shape(&error)))?;
    if config.current_context.is_empty() {
        return Err(AccessError::new("the kubeconfig has no current-context"));
    }
    let context: Context = find(&config.contexts, "context", &config.current_context)?;
    let cluster: Cluster = find(&config.clusters, "cluster", &context.cluster)?;
    let user: User = match &*context.user {
        "" => User::default(),
        name => find(&config.users, "user", name)?,
    };
    let unsupported = [
        (
            cluster.insecure_skip_tls_verify,
            "insecure-skip-tls-verify: name the certificate authority instead",
        ),
        (
            !cluster.tls_server_name.is_empty(),
            "tls-server-name: name the server by the name in its certificate",
        ),
        (!user.exec.is_null(), "exec: write a token or a certificate, or name a tokenFile"),
        (!user.auth_provider.is_null(), "auth-provider: write a token or a certificate, or name a tokenFile"),
        (!user.impersonate.is_empty(), "as: authenticate as that user"),
    ];
    if let Some((_, what)) = unsupported.iter().find(|(is_set, _)| *is_set) {
        return Err(AccessError::new(format!("the kubeconfig has what is not supported, {what}")));
    }
    let mut place = Place { base, files };
    let roots = place.either(
        "certificate-authority",
        &cluster.certificate_authority,
        &cluster.certificate_authority_data,
    )?;
    let chain =
        place.either("client-certificate", &user.client_certificate, &user.client_certificate_data)?;
    let key = place.either("client-key", &user.client_key, &user.client_key_data)?;
    let identity = match (chain, key) {
        (Some(chain), Some(key)) => Some((chain, key)),
        (None, None) => None,
        _ => return Err(AccessError::new("a client certificate and its key belong together")),
    };
    let authorization = if !user.token_file.is_empty() {
        let path = place.path("tokenFile", &user.token_file)?;
        Some(place.files.token(&path)?)
    } else if !user.token.is_empty() {
        Some(bearer(user.token.trim())?)
    } else if !user.username.is_empty() {
        Some(basic(&user.username, &user.password)?)
    } else {
        None
    };
    Ok(Loaded {
        server: server(&cluster.server)?,
        proxy: Some(cluster.proxy_url).filter(|url| !url.is_empty()),
        tls: ClientPem { roots, identity },
        authorization,
        files: Files::default(),
    })
}

fn invalid(why: &dyn std::fmt::Display) -> AccessError {
    AccessError::new(format!("it is no kubeconfig: {why}"))
}

/// The error of serde without values, which may be secret.
fn shape(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "a field has another type, or a name is missing",
        _ => "it is no mapping",
    }
}

fn find<T: DeserializeOwned + Default>(
    entries: &Option<Vec<Named>>,
    kind: &str,
    name: &str,
) -> Result<T, AccessError> {
    // As client-go does, the first one.
    let found = entries.iter().flatten().find(|entry| entry.name == name);
    let found = found.ok_or_else(|| AccessError::new(format!("the kubeconfig has no {kind} `{name}`")))?;
    let content = found.content.get(kind).cloned().unwrap_or_default();
    if content.is_null() {
        return Ok(T::default());
    }
    serde_json::from_value(content).map_err(|error| invalid(&format!("{kind} `{name}`: {}", shape(&error))))
}

impl Place<'_> {
    fn path(&self, field: &str, path: &str) -> Result<std::path::PathBuf, AccessError> {
        match self.base {
            Some(base) => Ok(base.join(path)),
            None => Err(AccessError::new(format!(
                "{field}: a kubeconfig in a secret may name no file of this machine; embed it"
            ))),
        }
    }

    /// What is embedded, or else in a file. As client-go does, what is embedded wins.
    fn either(&mut self, field: &str, path: &str, data: &str) -> Result<Option<Vec<u8>>, AccessError> {
        if !data.is_empty() {
            let decoded = base64::engine::general_purpose::STANDARD.decode(data.trim());
            return decoded.map(Some).map_err(|_| AccessError::new(format!("{field}-data is no base64")));
        }
        if path.is_empty() {
            return Ok(None);
        }
        let path = self.path(field, path)?;
        self.files.read(&path).map(Some)
    }
}
