//! Conditions that several rules share.

use std::sync::Arc;

use super::route::{DestinationUses, Route};
use mixer_base::shared_map::{Keyed, SharedMap};
use mixer_expr::Program;

/// A distinct condition and the routes that it guards.
#[derive(Debug, Clone)]
pub(super) struct SharedCondition {
    pub(super) program: Arc<Program>,
    /// Address of the program.
    address: usize,
    routes: GuardedRoutes,
    /// Number of destinations of the routes.
    destinations: usize,
    /// Number of routes that are told of every error of the condition.
    error_handlers: usize,
}

/// The routes behind a condition; nearly always one.
#[derive(Debug, Clone)]
enum GuardedRoutes {
    One(Arc<Route>),
    Many(SharedMap<Arc<Route>>, DestinationUses),
}

/// By program: equal conditions share one program.
impl Keyed for SharedCondition {
    type Key = usize;

    fn key(&self) -> &usize {
        &self.address
    }
}

/// The address of a program, which identifies it.
pub(super) fn address(program: &Arc<Program>) -> usize {
    Arc::as_ptr(program).addr()
}

impl SharedCondition {
    /// The condition of one route.
    pub(super) fn new(program: &Arc<Program>, route: Arc<Route>) -> Self {
        let (address, error_handlers) = (address(program), usize::from(route.tells_failures));
        let mut uses = DestinationUses::default();
        uses.add(&route);
        Self {
            program: Arc::clone(program),
            address,
            routes: GuardedRoutes::One(route),
            destinations: uses.len(),
            error_handlers,
        }
    }

    /// The routes, in order.
    pub(super) fn routes(&self) -> impl Iterator<Item = &Arc<Route>> {
        let (one, many) = match &self.routes {
            GuardedRoutes::One(route) => (Some(route), None),
            GuardedRoutes::Many(routes, _) => (None, Some(routes)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Number of destinations of the routes.
    pub(super) fn destinations(&self) -> usize {
        self.destinations
    }

    /// Whether some route is told of every error of the condition.
    pub(super) fn handles_errors(&self) -> bool {
        self.error_handlers > 0
    }

    /// Adds a route.
    pub(super) fn add(&mut self, route: Arc<Route>) {
        self.error_handlers += usize::from(route.tells_failures);
        if let GuardedRoutes::One(first) = &self.routes {
            let mut uses = DestinationUses::default();
            uses.add(first);
            self.routes = GuardedRoutes::Many([Arc::clone(first)].into_iter().collect(), uses);
        }
        if let GuardedRoutes::Many(routes, uses) = &mut self.routes {
            uses.add(&route);
            self.destinations = uses.len();
            drop(routes.put(route));
        }
    }

    /// Removes a route; false when none is left.
    pub(super) fn remove(&mut self, route: &Arc<Route>) -> bool {
        self.error_handlers -= usize::from(route.tells_failures);
        match &mut self.routes {
            GuardedRoutes::One(_) => false,
            GuardedRoutes::Many(routes, uses) => {
                uses.remove(route);
                self.destinations = uses.len();
                routes.remove(route.key());
                !routes.is_empty()
            }
        }
    }
}
