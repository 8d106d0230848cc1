//! The cluster in which the process runs.

use std::path::Path;

use mixer_net::tls::ClientPem;

use super::{Access, AccessError, Files, Loaded, Source, server};

/// Where Kubernetes mounts the service account.
pub(super) const DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

pub(super) fn access(
    variable: impl Fn(&str) -> Option<String>,
    directory: &Path,
) -> Result<Access, AccessError> {
    let of = |name: &str| variable(name).filter(|value| !value.is_empty());
    let (Some(host), Some(port)) = (of("KUBERNETES_SERVICE_HOST"), of("KUBERNETES_SERVICE_PORT")) else {
        return Err(AccessError::new(
            "this process runs in no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set",
        ));
    };
    let server = if host.contains(':') {
        format!("https://[{host}]:{port}")
    } else {
        format!("https://{host}:{port}")
    };
    Ok(Access(Source::Pod { server, directory: directory.to_owned() }))
}

pub(super) fn load(url: &str, directory: &Path, files: &mut Files) -> Result<Loaded, AccessError> {
    let authorization = Some(files.token(&directory.join("token"))?);
    let roots = Some(files.read(&directory.join("ca.crt"))?);
    Ok(Loaded {
        server: server(url)?,
        proxy: None,
        tls: ClientPem { roots, identity: None },
        authorization,
        files: Files::default(),
    })
}
