//! Where a server runs: what the metadata server knows, also if it answers late.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use mixer_remote::{GoogleMetadata, MetadataFact};

use super::graph::Names;
use super::wire::Resource;

/// How long a question may take. A build waits for the first ones: the server is near, or not there at all.
const LIMIT: Duration = Duration::from_secs(1);
/// The pause before a server that did not answer is asked again, and the longest one: that of a machine that is none of Google's.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// What the metadata server knows; without one only the project, which is that of the parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) project: String,
    pub(super) location: String,
    pub(super) cluster: String,
    /// The machine; empty for one that is none of Google's.
    pub(super) machine: String,
}

impl Place {
    /// Fills empty labels with what is known.
    pub(super) fn fill(&self, labels: &mut BTreeMap<String, String>) {
        for (name, value) in labels.iter_mut().filter(|(_, value)| value.is_empty()) {
            let known = match name.as_str() {
                "project_id" => &self.project,
                "location" | "zone" => &self.location,
                "cluster_name" => &self.cluster,
                _ => continue,
            };
            value.clone_from(known);
        }
    }

    /// The resource of log entries without one.
    fn of_logs(&self, project: &str) -> Resource {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        if self.machine.is_empty() {
            return Resource { kind: "project".to_owned(), labels: [label("project_id", project)].into() };
        }
        let labels = [
            label("instance_id", &self.machine),
            label("project_id", &self.project),
            label("zone", &self.location),
        ];
        Resource { kind: "gce_instance".to_owned(), labels: labels.into() }
    }
}

/// What the metadata server said to each question; `None` if it did not answer.
#[derive(Debug, Default)]
struct Facts {
    project: Option<String>,
    location: Option<String>,
    cluster: Option<String>,
    machine: Option<String>,
}

impl Facts {
    /// Asks what is not known yet.
    async fn ask(&mut self, metadata: &GoogleMetadata) {
        let ask = async |known: &mut Option<String>, fact| {
            if known.is_none()
                && let Ok(Ok(found)) = tokio::time::timeout(LIMIT, metadata.fact(fact)).await
            {
                *known = Some(found.unwrap_or_default());
            }
        };
        tokio::join!(
            ask(&mut self.project, MetadataFact::Project),
            ask(&mut self.location, MetadataFact::Location),
            ask(&mut self.cluster, MetadataFact::Cluster),
            ask(&mut self.machine, MetadataFact::Instance)
        );
    }

    fn are_all_known(&self) -> bool {
        [&self.project, &self.location, &self.cluster, &self.machine].iter().all(|fact| fact.is_some())
    }

    /// A server that does not know the project is none of Google's. `configured`: the project of the parameters.
    fn place(&self, configured: &str) -> Place {
        let Some(project) = self.project.clone().filter(|project| !project.is_empty()) else {
            return Place { project: configured.to_owned(), ..Place::default() };
        };
        let or_none = |fact: &Option<String>| fact.clone().unwrap_or_default();
        Place {
            project,
            location: or_none(&self.location),
            cluster: or_none(&self.cluster),
            machine: or_none(&self.machine),
        }
    }
}

/// A place, and what is made of it.
pub(super) struct Site {
    pub(super) place: Place,
    /// Names of the graph.
    pub(super) names: Names,
    /// The resource of log entries without one.
    pub(super) of_logs: Resource,
}

impl Site {
    fn new(project: &str, place: Place) -> Self {
        let (names, of_logs) = (Names::new(project, &place), place.of_logs(project));
        Self { place, names, of_logs }
    }
}

/// Where a server runs, as far as it is known by now.
pub(super) struct Whereabouts {
    metadata: GoogleMetadata,
    /// The project of the handler.
    project: String,
    facts: tokio::sync::Mutex<Facts>,
    site: ArcSwap<Site>,
}

impl Whereabouts {
    /// Asks the metadata server, in one second at most: a build waits for it. `project`: that of the parameters; empty: that of the server.
    /// Errors: there is no project.
    pub(super) async fn find(metadata: GoogleMetadata, project: &str) -> Result<Self, &'static str> {
        let mut facts = Facts::default();
        facts.ask(&metadata).await;
        let place = facts.place(project);
        let project = if project.is_empty() { place.project.clone() } else { project.to_owned() };
        if project.is_empty() {
            return Err("project_id: Project ID not provided and could not be determined");
        }
        let site = ArcSwap::from_pointee(Site::new(&project, place));
        Ok(Self { metadata, project, facts: facts.into(), site })
    }

    /// The project of the handler.
    pub(super) fn project(&self) -> &str {
        &self.project
    }

    /// What is known now.
    pub(super) fn site(&self) -> Guard<Arc<Site>> {
        self.site.load()
    }

    /// Asks the metadata server for what it did not answer, until it has answered everything, and then waits for ever.
    pub(super) async fn follow(&self, handler: &str) {
        let mut facts = self.facts.lock().await;
        let (mut pause, longest) = PAUSES;
        while !facts.are_all_known() {
            // Servers that started together do not ask together.
            tokio::time::sleep(pause.mul_f64(1.0 - fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(longest);
            facts.ask(&self.metadata).await;
            let place = facts.place(&self.project);
            if place != self.site().place {
                let Place { project, location, cluster, machine } = &place;
                tracing::info!(
                    handler,
                    project,
                    location,
                    cluster,
                    machine,
                    "the metadata server has answered"
                );
                self.site.store(Arc::new(Site::new(&self.project, place)));
            }
        }
        drop(facts);
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// Answers requests with what the metadata server says at a path.
    async fn serve(listener: tokio::net::TcpListener) {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                while stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    if !text.ends_with("\r\n\r\n") {
                        continue;
                    }
                    let fact = match text.split(' ').nth(1).unwrap().rsplit('/').next().unwrap() {
                        "project-id" => Some("of-machine"),
                        "cluster-location" => None,
                        "zone" => Some("projects/1/zones/us-central1-a"),
                        "cluster-name" => Some("clu"),
                        "id" => Some("4711"),
                        other => panic!("{other}"),
                    };
                    let status = if fact.is_some() { "200 OK" } else { "404 Not Found" };
                    let fact = fact.unwrap_or_default();
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{fact}", fact.len());
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                    bytes.clear();
                }
            });
        }
    }

    #[tokio::test]
    async fn what_the_metadata_server_says_late_is_used() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let metadata = || GoogleMetadata::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        // It takes connections, and says nothing.
        assert!(Whereabouts::find(metadata(), "").await.is_err(), "there is no project");
        let found = Arc::new(Whereabouts::find(metadata(), "lab").await.unwrap());
        let of_parameters = Place { project: "lab".to_owned(), ..Place::default() };
        assert_eq!((found.project(), &found.site().place), ("lab", &of_parameters));
        assert_eq!(found.site().of_logs.kind, "project");
        let follows = Arc::clone(&found);
        tokio::spawn(async move { follows.follow("h.istio-system").await });
        tokio::spawn(serve(listener));
        let late = async {
            while found.site().place.machine.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), late).await.expect("it is asked again");
        let site = found.site();
        let Place { project, location, cluster, machine } = &site.place;
        assert_eq!([&**project, location, cluster, machine], ["of-machine", "us-central1-a", "clu", "4711"]);
        assert_eq!((&*site.of_logs.kind, &*site.of_logs.labels["instance_id"]), ("gce_instance", "4711"));
        assert_eq!(found.project(), "lab", "the parameters have another");
        let mut labels = BTreeMap::from([("cluster_name".to_owned(), String::new())]);
        site.place.fill(&mut labels);
        assert_eq!(labels["cluster_name"], "clu");
    }
}
