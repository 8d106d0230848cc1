//! A pipeline behind one source of services, for the tests of such sources.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use mixer_mcp::Snapshot;
use mixer_schema::DEFAULT_GROUP;

use super::Source;
use super::mesh::Mesh;
use crate::options::{Options, collection::SERVICE_ENTRIES};
use crate::state::SourceState;
use crate::{Distributor, Galley};

struct Nowhere;

impl Distributor for Nowhere {
    fn distribute(&self, _: &str, _: Arc<Snapshot>) {}
}

/// The mesh configuration and another source.
pub(super) fn start<S: Source>(source: impl FnOnce(&Options) -> Arc<S>) -> Galley {
    let options = Options::default();
    let sources: Vec<Arc<dyn Source>> = vec![Mesh::of(None, &options), source(&options)];
    Galley::start(options, sources, Arc::new(Nowhere), &Handle::current()).unwrap()
}

/// The state of the other source.
pub(super) fn state(galley: &Galley) -> SourceState {
    galley.state().sources.pop().unwrap()
}

/// The service entries: names, versions, and the addresses of endpoints.
pub(super) fn held(galley: &Galley) -> Vec<String> {
    let Some(snapshot) = galley.snapshot(DEFAULT_GROUP) else { return vec!["nothing".to_owned()] };
    let content = snapshot.get(SERVICE_ENTRIES).unwrap().content();
    let shown = |resource: &Arc<mixer_mcp::Resource>| {
        let body = mixer_schema::to_json(&resource.type_url, &resource.body).unwrap();
        let endpoints = body["endpoints"].as_array().into_iter().flatten();
        let addresses = endpoints.map(|endpoint| endpoint["address"].as_str().unwrap_or_default());
        format!("{} {}", resource.name, addresses.collect::<Vec<_>>().join(" "))
    };
    content.iter().map(shown).collect()
}

pub(super) async fn until(what: &str, galley: &Galley, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: {:?} {:?}", held(galley), state(galley));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(super) async fn until_held(galley: &Galley, wanted: &[&str]) {
    until(&format!("{wanted:?}"), galley, || held(galley) == wanted).await;
}
