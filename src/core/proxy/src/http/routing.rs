//! What follows the head of a valid request: filters, the choice of a route, and what the route says.

use super::connection::Connection;
use super::framing::Framing;
use super::routes::{Found, Target, find_upgrade};
use super::transaction::Transaction;
use super::{edits, hash, redirect};
use crate::flags::Flag;
use crate::stats::{Block, ManagerStat};

/// Counts a connection that is to change its protocol.
struct Changing<'m>(&'m Block<ManagerStat>);

impl<'m> Changing<'m> {
    fn new(stats: &'m Block<ManagerStat>) -> Self {
        stats.increment(ManagerStat::DownstreamCxUpgradesTotal);
        stats.increment(ManagerStat::DownstreamCxUpgradesActive);
        Self(stats)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.decrement(ManagerStat::DownstreamCxUpgradesActive);
    }
}

impl<'m> Connection<'m> {
    /// Goes on with a request whose head is valid, of either protocol. `continues`: its client waits for a word before it sends the body.
    pub(super) async fn continue_and_route(
        &mut self,
        transaction: &mut Transaction<'m>,
        framing: Framing,
        continues: bool,
    ) {
        if !self.normalize(transaction, framing).await {
            return;
        }
        if continues && framing != Framing::Empty && self.client.write_continue() {
            self.count_status(100);
        }
        if !self.manager.logs.is_empty() || !self.manager.log_streams.is_empty() {
            transaction.client = hash::told_client(&self.request, self.manager.use_remote_address);
        }
        let protocol = transaction.upgrade.as_ref().map(|(_, protocol)| protocol.as_slice());
        edits::prepare_request(&mut self.request, self.manager, &self.info, protocol);
        self.route(transaction, framing).await;
    }

    /// Whether a request asks to change the protocol, and its route does not allow it.
    pub(super) fn refuses_upgrade(&self, transaction: &Transaction<'_>, found: Option<Found<'_>>) -> bool {
        transaction.upgrade.as_ref().is_some_and(|(_, protocol)| {
            let own = found.and_then(|found| found.route.target.allows_upgrade(protocol));
            !own.or_else(|| find_upgrade(&self.manager.upgrades, protocol)).unwrap_or(false)
        })
    }

    /// Refuses to change the protocol as a request asks.
    pub(super) async fn refuse_upgrade(
        &mut self,
        transaction: &mut Transaction<'m>,
        found: Option<Found<'m>>,
    ) {
        transaction.take(found);
        self.manager.stats.increment(ManagerStat::DownstreamRqWsOnNonWsRoute);
        self.refuse_request(transaction, 403, "upgrade_failed", "", None).await;
    }

    /// Chooses a route and does what it says.
    async fn route(&mut self, transaction: &mut Transaction<'m>, framing: Framing) {
        let manager = self.manager;
        let mut found = manager.routes.find(&self.request, transaction.random, &mut self.scratch);
        if self.refuses_upgrade(transaction, found) {
            return self.refuse_upgrade(transaction, found).await;
        }
        // If the protocol does not change, what follows may not be HTTP.
        transaction.closes |= transaction.upgrade.is_some();
        if !manager.filters.is_empty() {
            // Boxed: connections do not hold what filters take.
            match Box::pin(self.pass_filters(transaction, framing, found)).await {
                Some(now) => found = now,
                None => return,
            }
        }
        let _changing = transaction.upgrade.is_some().then(|| Changing::new(&manager.stats));
        manager.stats.increment(ManagerStat::RqTotal);
        transaction.take(found);
        let Some(found) = found else {
            manager.stats.increment(ManagerStat::NoRoute);
            transaction.flags.set(Flag::NR);
            transaction.details = "route_not_found";
            return self.reply(transaction, framing, 404, "").await;
        };
        let route = found.route;
        match &route.target {
            Target::Direct(status, body) => {
                manager.stats.increment(ManagerStat::RqDirectResponse);
                transaction.details = "direct_response";
                self.begin_reply(transaction, *status);
                if *status == 201 || (300..400).contains(status) {
                    redirect::of_request(&self.request, &mut self.scratch);
                    self.response.add("location", &self.scratch);
                }
                edits::edit_response(&mut self.response, found.levels());
                let body = self.settle_reply(transaction, body);
                self.send_reply(transaction, framing, body).await;
            }
            Target::Redirect(target) => {
                // Envoy counts a redirect as a direct response, and `rq_redirect` stays 0.
                manager.stats.increment(ManagerStat::RqDirectResponse);
                transaction.details = "direct_response";
                redirect::location(target, &route.matching, &self.request, &mut self.scratch);
                self.begin_reply(transaction, target.status);
                self.response.add("location", &self.scratch);
                edits::edit_response(&mut self.response, found.levels());
                let body = self.settle_reply(transaction, "");
                self.send_reply(transaction, framing, body).await;
            }
            Target::Forward(forward) => {
                // Boxed: connections of clients do not hold what it takes.
                Box::pin(self.forward(transaction, framing, forward, found.cluster(), &route.matching)).await;
            }
        }
    }
}
