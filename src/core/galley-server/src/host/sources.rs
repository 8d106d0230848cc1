//! The sources that the settings name.

use std::path::Path;
use std::sync::Arc;

use mixer_galley::Source;
use mixer_galley::source::files::Files;
use mixer_galley::source::kubernetes::Kubernetes;
use mixer_galley::source::mesh::Mesh;
use mixer_kube::{Access, Client};

use crate::options::HostOptions;

/// The sources, in the order of precedence: the mesh configuration, then files or a cluster.
///
/// Errors: a source cannot be set up, or the cluster lacks kinds; the texts of Galley.
pub(super) async fn sources(options: &HostOptions) -> Result<Vec<Arc<dyn Source>>, String> {
    let mesh = Mesh::new(mesh_file(options)?, &options.processing).map_err(|error| error.to_string())?;
    let mut sources: Vec<Arc<dyn Source>> = vec![mesh];
    if options.config_path.as_os_str().is_empty() {
        sources.push(cluster(options).await?);
    } else {
        sources.push(Files::new(&options.config_path, options.watches_files, &options.processing));
    }
    Ok(sources)
}

/// The mesh configuration. Errors: its directory is missing.
fn mesh_file(options: &HostOptions) -> Result<Option<&Path>, String> {
    let path = &options.mesh_file;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    if let Some(directory) = directory
        && !directory.is_dir()
    {
        return Err(format!("{}: no such file or directory", directory.display()));
    }
    Ok(Some(path))
}

async fn cluster(options: &HostOptions) -> Result<Arc<dyn Source>, String> {
    let cluster = Kubernetes::new(client(&options.kubeconfig)?, &options.processing, options.resync);
    if !options.skips_ready_check {
        cluster.check().await.map_err(|error| error.to_string())?;
    }
    Ok(cluster)
}

/// A client of the cluster. Errors: there is none.
pub(super) fn client(kubeconfig: &Path) -> Result<Client, String> {
    let access = match kubeconfig.as_os_str().is_empty() {
        true => Access::of_pod().map_err(|error| error.to_string())?,
        false => Access::of_file(kubeconfig),
    };
    Client::new(access).map_err(|error| error.to_string())
}
