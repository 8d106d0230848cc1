//! Conditions that several rules share.

use std::sync::Arc;

use super::rule_set::Route;
use crate::snapshot::OnError;
use mixer_base::shared_map::{Keyed, SharedMap};
use mixer_expr::Program;

/// A distinct condition and the routes that it guards.
#[derive(Debug, Clone)]
pub(super) struct SharedCondition {
    pub(super) program: Arc<Program>,
    /// Address of the program.
    address: usize,
    routes: Guarded,
    /// Number of routes that want to hear of an error in the condition.
    listeners: usize,
}

/// The routes behind a condition: nearly always one.
#[derive(Debug, Clone)]
enum Guarded {
    One(Arc<Route>),
    Many(SharedMap<Arc<Route>>),
}

/// By program: equal conditions have the same one.
impl Keyed for SharedCondition {
    type Key = usize;

    fn key(&self) -> &usize {
        &self.address
    }
}

/// Where a program is.
pub(super) fn address(program: &Arc<Program>) -> usize {
    Arc::as_ptr(program).addr()
}

fn listens(route: &Route) -> bool {
    matches!(route.rule.on_error, Some(OnError::Deny | OnError::LastKnown))
}

impl SharedCondition {
    /// The condition of one route.
    pub(super) fn new(program: &Arc<Program>, route: Arc<Route>) -> Self {
        let (address, listeners) = (address(program), usize::from(listens(&route)));
        Self { program: Arc::clone(program), address, routes: Guarded::One(route), listeners }
    }

    /// The routes, in order.
    pub(super) fn routes(&self) -> impl Iterator<Item = &Arc<Route>> {
        let (one, many) = match &self.routes {
            Guarded::One(route) => (Some(route), None),
            Guarded::Many(routes) => (None, Some(routes)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Whether some route wants to hear of an error in the condition.
    pub(super) fn wants_errors(&self) -> bool {
        self.listeners > 0
    }

    /// Guards one more route.
    pub(super) fn add(&mut self, route: Arc<Route>) {
        self.listeners += usize::from(listens(&route));
        match &mut self.routes {
            Guarded::One(first) => {
                self.routes = Guarded::Many([Arc::clone(first), route].into_iter().collect());
            }
            Guarded::Many(routes) => drop(routes.put(route)),
        }
    }

    /// Guards a route no longer; false when it guards none any more.
    pub(super) fn remove(&mut self, route: &Arc<Route>) -> bool {
        self.listeners -= usize::from(listens(route));
        match &mut self.routes {
            Guarded::One(_) => false,
            Guarded::Many(routes) => {
                routes.remove(route.key());
                !routes.is_empty()
            }
        }
    }
}
