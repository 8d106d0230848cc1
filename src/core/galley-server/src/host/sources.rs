//! The sources that the settings name.

use std::path::Path;
use std::sync::Arc;

use mixer_galley::Source;
use mixer_galley::source::eureka::Eureka;
use mixer_galley::source::files::Files;
use mixer_galley::source::kubernetes::Kubernetes;
use mixer_galley::source::mesh::Mesh;
use mixer_galley::source::zookeeper::Zookeeper;
use mixer_kube::{Access, Client};

use crate::options::HostOptions;

/// The sources, in the order of precedence: the mesh configuration, then files or a cluster, then registries of services. With a registry,
/// neither files nor a cluster are needed.
///
/// Errors: a source cannot be set up, or the cluster lacks kinds; the texts of Galley.
pub(super) async fn sources(options: &HostOptions) -> Result<Vec<Arc<dyn Source>>, String> {
    let mesh = Mesh::new(mesh_file(options)?, &options.processing).map_err(|error| error.to_string())?;
    let mut sources: Vec<Arc<dyn Source>> = vec![mesh];
    let has_registry = options.zookeeper.is_some() || options.eureka.is_some();
    let has_cluster = !options.kubeconfig.as_os_str().is_empty() || Access::of_pod().is_ok();
    if !options.config_path.as_os_str().is_empty() {
        sources.push(Files::new(&options.config_path, options.watches_files, &options.processing));
    } else if has_cluster || !has_registry {
        sources.push(cluster(options).await?);
    }
    if let Some(zookeeper) = &options.zookeeper {
        let source = Zookeeper::new(zookeeper, &options.processing);
        sources.push(source.map_err(|error| error.to_string())?);
    }
    if let Some(eureka) = &options.eureka {
        let source = Eureka::new(eureka, &options.processing);
        sources.push(source.map_err(|error| error.to_string())?);
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

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_galley::source::eureka::EurekaOptions;
    use mixer_galley::source::zookeeper::ZookeeperOptions;

    async fn named(change: impl Fn(&mut HostOptions)) -> Result<Vec<String>, String> {
        let mut options = HostOptions { mesh_file: "".into(), ..HostOptions::default() };
        change(&mut options);
        Ok(sources(&options).await?.iter().map(|source| source.name()).collect())
    }

    fn registries(options: &mut HostOptions) {
        options.eureka = Some(EurekaOptions {
            addresses: vec!["http://e:1/eureka".to_owned()],
            ..EurekaOptions::default()
        });
        options.zookeeper = Some(ZookeeperOptions { address: "z".to_owned(), ..ZookeeperOptions::default() });
    }

    #[tokio::test]
    async fn registries_come_after_files_and_need_no_cluster() {
        let alone = named(registries).await.unwrap();
        assert_eq!(alone, ["mesh configuration", "zookeeper z:2181/dubbo", "eureka http://e:1/eureka"]);
        let directory = tempfile::tempdir().unwrap();
        let beside = named(|options| {
            registries(options);
            options.config_path = directory.path().into();
        });
        let beside = beside.await.unwrap();
        assert_eq!(beside.len(), 4);
        assert!(beside[1].starts_with("files "), "{beside:?}");
        assert!(
            named(|_| {}).await.unwrap_err().contains("runs in no pod"),
            "a cluster is needed without a registry"
        );
        let refused = named(|options| {
            registries(options);
            options.processing.excluded_kinds.push("ServiceEntry".to_owned());
        });
        assert!(refused.await.unwrap_err().contains("--excluded-resource-kinds"));
    }
}
