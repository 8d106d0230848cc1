//! What clients and servers of HTTP/2 share.

use mixer_base::task::Group;

/// Runs the streams of a connection as tasks of a group.
#[derive(Debug, Clone)]
pub(crate) struct Spawner(Group);

impl Spawner {
    pub(crate) fn new(name: &'static str) -> Self {
        Self(Group::new(name))
    }
}

impl<F> hyper::rt::Executor<F> for Spawner
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        drop(self.0.spawn(future));
    }
}

/// The methods.
pub(crate) const SOURCE: &str = "/istio.mcp.v1alpha1.ResourceSource/EstablishResourceStream";
pub(crate) const SINK: &str = "/istio.mcp.v1alpha1.ResourceSink/EstablishResourceStream";
pub(crate) const AGGREGATED: &str =
    "/istio.mcp.v1alpha1.AggregatedMeshConfigService/StreamAggregatedResources";
