//! What handlers with the same parameters share: the cluster of the configuration, and those of the secrets.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use mixer_engine::check_cache::AnswerEpoch;
use mixer_kube::{Access, AccessError, Client};

use super::cluster::{self, Cluster, Scope, Unknown};
use super::lookup::Wanted;
use super::output::{Found, FoundPod};
use super::registry::Registry;
use super::services::Service;

/// What makes a view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Source {
    /// A kubeconfig; `None`: the cluster of the pod.
    pub(super) kubeconfig: Option<PathBuf>,
    /// The namespace of the secrets; `None`: none are looked for.
    pub(super) registries: Option<String>,
    /// Of each cluster.
    pub(super) scope: Scope,
}

/// Follows clusters until the last handler drops it.
pub(super) struct View {
    local: Cluster,
    registry: Option<Registry>,
}

/// The views of one server.
#[derive(Default)]
pub(super) struct Views(Mutex<HashMap<Source, Weak<View>>>);

impl Views {
    /// The view of a source, which is started unless a handler has it.
    ///
    /// Errors: the cluster or its credentials are not known.
    pub(super) fn get(&self, source: &Source, answers: &Arc<AnswerEpoch>) -> Result<Arc<View>, AccessError> {
        let mut views = self.0.lock();
        views.retain(|_, view| view.strong_count() > 0);
        if let Some(view) = views.get(source).and_then(Weak::upgrade) {
            return Ok(view);
        }
        let view = Arc::new(View::start(source, answers)?);
        views.insert(source.clone(), Arc::downgrade(&view));
        Ok(view)
    }
}

impl View {
    fn start(source: &Source, answers: &Arc<AnswerEpoch>) -> Result<Self, AccessError> {
        let access = match &source.kubeconfig {
            Some(path) => Access::of_file(path),
            None => Access::of_pod()?,
        };
        let client = Client::new(access)?;
        let local = Cluster::start("the configured cluster", &client, source.scope, answers);
        let registry = source.registries.as_deref();
        let registry = registry.map(|namespace| Registry::start(&client, namespace, source.scope, answers));
        Ok(Self { local, registry })
    }

    /// The configured cluster.
    pub(super) fn local(&self) -> &Cluster {
        &self.local
    }

    /// What a side of a request names: a pod, or else an address of a service if that is wanted.
    ///
    /// Errors: whether there is one is not known.
    pub(super) fn find(&self, wanted: &Wanted) -> Result<Option<Found>, Unknown> {
        if let Some(pod) = self.pod(wanted)? {
            return Ok(Some(Found::Pod(pod)));
        }
        match wanted.ip.filter(|_| wanted.service) {
            Some(ip) => Ok(self.service_at(ip)?.map(Found::Service)),
            None => Ok(None),
        }
    }

    /// The service of the configured cluster with this address, or else of the first other one whose services were listed.
    fn service_at(&self, ip: IpAddr) -> Result<Option<Arc<Service>>, Unknown> {
        if let Some(service) = self.local.service_at(ip)? {
            return Ok(Some(service));
        }
        if let Some(registry) = &self.registry {
            for remote in &registry.remotes().clusters {
                let listed = remote.serving().filter(|cluster| cluster.has_services());
                if let Some(service) = listed.map_or(Ok(None), |cluster| cluster.service_at(ip))? {
                    return Ok(Some(service));
                }
            }
        }
        Ok(None)
    }

    /// A pod: that of the configured cluster, or else of the first other one that has it, in byte order of their ids.
    fn pod(&self, wanted: &Wanted) -> Result<Option<FoundPod>, Unknown> {
        if !self.local.is_synced() {
            let why = self.local.trouble().unwrap_or_default();
            return Err(Unknown(format!("the pods of the cluster are not known yet: {why}")));
        }
        let mut unknown = match self.local.find(wanted) {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => None,
            Err(unknown) => Some(unknown),
        };
        if let Some(registry) = &self.registry {
            for remote in &registry.remotes().clusters {
                match remote.serving().map(|cluster| cluster.find(wanted)) {
                    Some(Ok(Some(found))) if unknown.is_none() => return Ok(Some(found)),
                    Some(Err(why)) => unknown = unknown.or(Some(why)),
                    _ => {}
                }
            }
        }
        unknown.map_or(Ok(None), Err)
    }

    /// What is wrong, for operators.
    pub(super) fn trouble(&self) -> Option<String> {
        self.local.trouble().or_else(|| {
            let registry = self.registry.as_ref()?;
            let secrets = cluster::trouble(self.local.server(), "secrets", registry.progress());
            if let Some(why) = secrets {
                return Some(format!("other clusters may be missing: {why}"));
            }
            let remotes = registry.remotes();
            let of_clusters = || {
                let mut clusters = remotes.clusters.iter();
                clusters.find_map(|remote| {
                    Some(format!("cluster `{}`: {}", remote.id, remote.newest().trouble()?))
                })
            };
            remotes.problems.first().cloned().or_else(of_clusters)
        })
    }

    /// All clusters with their names.
    pub(super) fn each(&self, mut see: impl FnMut(&str, &Cluster)) {
        see("", &self.local);
        if let Some(registry) = &self.registry {
            for remote in &registry.remotes().clusters {
                see(&remote.id, remote.newest());
            }
        }
    }
}
