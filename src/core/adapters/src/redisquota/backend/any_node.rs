//! Connections to a cluster that do not wait for nodes which give no answer.

use redis::aio::ConnectionLike;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{
    MultipleNodeRoutingInfo, ResponsePolicy, Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr,
};
use redis::{Arg, Cmd, Pipeline, RedisFuture, Value};

use super::node::Node;

/// Commands go to all masters, and one of them answers.
pub(super) struct AnyNode<'c>(pub(super) &'c mut ClusterConnection<Node>);

impl ConnectionLike for AnyNode<'_> {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        let one = Some(ResponsePolicy::OneSucceeded);
        let routing = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, one));
        Box::pin(self.0.route_command(command.clone(), routing))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

/// Calls of a script go to the node of its first key, and so does the script if that node lacks it: by themselves, scripts go to all nodes, and all
/// of them have to answer.
pub(super) struct NodeOfKey<'c> {
    connection: &'c mut ClusterConnection<Node>,
    /// Of the call.
    route: Option<Route>,
}

impl<'c> NodeOfKey<'c> {
    pub(super) fn new(connection: &'c mut ClusterConnection<Node>) -> Self {
        Self { connection, route: None }
    }
}

/// Where a call of a script goes; `None`: it is none.
fn route_of(command: &Cmd) -> Option<Route> {
    let mut arguments = command.args_iter();
    match (arguments.next(), arguments.nth(2)) {
        (Some(Arg::Simple(b"EVALSHA")), Some(Arg::Simple(key))) => {
            Some(Route::with_key(key, SlotAddr::Master))
        }
        _ => None,
    }
}

impl ConnectionLike for NodeOfKey<'_> {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.route = route_of(command).or(self.route);
        let node = self.route.map_or(SingleNodeRoutingInfo::Random, SingleNodeRoutingInfo::SpecificNode);
        Box::pin(self.connection.route_command(command.clone(), RoutingInfo::SingleNode(node)))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.connection.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}
