//! A request of a client, as far as it went: from its beginning to its line in the access log.

use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use tokio::time::Instant;

use super::connection::Connection;
use super::filters::Call;
use super::routes::{Found, Levels, NO_LEVELS, Target};
use crate::access_log::Entry;
use crate::flags::Flags;
use crate::stats::{HttpStat, ManagerStat};

/// A request, as far as it went.
pub(super) struct Transaction<'m> {
    pub(super) start: SystemTime,
    pub(super) began: Instant,
    /// Decides what is chosen at random for it, as often as that is asked.
    pub(super) random: u64,
    pub(super) status: u16,
    pub(super) details: &'static str,
    pub(super) flags: Flags,
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) upstream: Option<SocketAddr>,
    pub(super) cluster: Option<usize>,
    /// Whether the connection ends with this request.
    pub(super) closes: bool,
    /// Whether it was answered before all of it was there.
    pub(super) is_early: bool,
    /// Whether the client is gone, or does not get the response to its end.
    pub(super) is_aborted: bool,
    /// Whether it is this side that ends a response early.
    pub(super) is_cut: bool,
    /// Whether there is a head to log.
    pub(super) has_head: bool,
    /// The name of the route.
    pub(super) route: &'m str,
    /// The header edits of the route, if it forwards the request: those of all its responses, also of replies of the proxy itself.
    pub(super) levels: Levels<'m>,
    /// The headers `connection` and `upgrade` of a request to change the protocol, as its host gets them.
    pub(super) upgrade: Option<(Vec<u8>, Vec<u8>)>,
    /// The client, if a proxy before says that it is another one than that of the connection; for access logs.
    pub(super) client: Option<IpAddr>,
    /// The request in the filters that it has come to.
    pub(super) calls: Vec<Call>,
    /// Whether it passed the Mixer filter without an answer.
    pub(super) is_unchecked: bool,
}

impl Transaction<'_> {
    /// Whether it was answered before all of it was there. What follows a request to change the protocol belongs to it, as with Envoy.
    pub(super) fn is_early(&self) -> bool {
        self.is_early || (self.upgrade.is_some() && self.status != 101)
    }

    /// The details of the response code, which tell that nobody has checked a request.
    fn shown_details(&self) -> &'static str {
        match (self.is_unchecked, self.details) {
            (true, "via_upstream") => "via_upstream{mixer_unchecked}",
            (true, "direct_response") => "direct_response{mixer_unchecked}",
            (_, details) => details,
        }
    }
}

impl<'m> Transaction<'m> {
    /// Ends a response that was begun, and will not be complete: there is no other way to say so.
    pub(super) fn cut(&mut self) {
        (self.is_aborted, self.is_cut) = (true, true);
    }

    /// Notes the route that was chosen.
    pub(super) fn take(&mut self, found: Option<Found<'m>>) {
        self.route = found.map_or("", |found| found.route.name.as_str());
        let forwarding = found.filter(|found| matches!(found.route.target, Target::Forward(_)));
        self.levels = forwarding.map_or(NO_LEVELS, |found| found.levels());
        self.cluster = found.and_then(|found| found.cluster());
    }
}

impl<'m> Connection<'m> {
    /// Begins a request.
    pub(super) fn begin(&mut self) -> Transaction<'m> {
        // As with Envoy, with the first byte of the head.
        let began = self.take_begun();
        let now = SystemTime::now();
        let stats = &self.manager.stats;
        stats.increment(ManagerStat::DownstreamRqTotal);
        stats.increment(match self.client.is_http2() {
            true => ManagerStat::DownstreamRqHttp2Total,
            false => ManagerStat::DownstreamRqHttp1Total,
        });
        stats.increment(ManagerStat::DownstreamRqActive);
        Transaction {
            start: now.checked_sub(began.elapsed()).unwrap_or(now),
            began,
            random: fastrand::u64(..),
            status: 0,
            details: "",
            flags: Flags::default(),
            received: 0,
            sent: 0,
            upstream: None,
            cluster: None,
            closes: false,
            is_early: false,
            is_aborted: false,
            is_cut: false,
            has_head: true,
            route: "",
            levels: NO_LEVELS,
            upgrade: None,
            client: None,
            calls: Vec::new(),
            is_unchecked: false,
        }
    }

    /// Counts and logs a request.
    pub(super) fn end(&self, transaction: &mut Transaction<'_>) {
        let stats = &self.manager.stats;
        stats.decrement(ManagerStat::DownstreamRqActive);
        self.count_status(transaction.status);
        self.manager.request_time.observe(transaction.began.elapsed());
        if transaction.is_aborted {
            // A connection of HTTP/2 has other streams.
            if !self.client.is_http2() && !transaction.is_cut {
                stats.increment(ManagerStat::DownstreamCxDestroyActiveRq);
                stats.increment(ManagerStat::DownstreamCxDestroyRemoteActiveRq);
            }
            stats.increment(ManagerStat::DownstreamRqRxReset);
        } else if transaction.is_early() {
            stats.increment(ManagerStat::DownstreamRqRxReset);
        }
        if transaction.status == 101 || (transaction.is_early() && !transaction.is_aborted) {
            stats.increment(ManagerStat::DownstreamRqResponseBeforeRqComplete);
        }
        self.end_calls(transaction);
        if self.manager.logs.is_empty() && self.manager.log_streams.is_empty() {
            return;
        }
        let cluster = transaction.cluster.and_then(|cluster| self.worker.pool(cluster));
        let entry = Entry {
            start: transaction.start,
            duration: transaction.began.elapsed(),
            protocol: self.client.protocol(),
            request: transaction.has_head.then_some(&self.request),
            // Without a status it is that of another request, or of an attempt that was given up.
            response: (transaction.status > 0).then_some(&self.response),
            status: transaction.status,
            details: transaction.shown_details(),
            flags: transaction.flags,
            received: transaction.received,
            sent: transaction.sent,
            upstream: transaction.upstream,
            cluster: cluster.map_or("", |pool| pool.cluster.config.name.as_str()),
            route: transaction.route,
            connection: &self.info,
            client: transaction.client,
        };
        for (file, format) in &self.manager.logs {
            file.append(|out| format.write(&entry, out));
        }
        for log in &self.manager.log_streams {
            self.worker.logs.log(log, &self.worker.shared.node, &entry);
        }
    }

    pub(super) fn count_status(&self, status: u16) {
        let (stat, listener_stat) = match status / 100 {
            1 => (ManagerStat::DownstreamRq1xx, HttpStat::DownstreamRq1xx),
            2 => (ManagerStat::DownstreamRq2xx, HttpStat::DownstreamRq2xx),
            3 => (ManagerStat::DownstreamRq3xx, HttpStat::DownstreamRq3xx),
            4 => (ManagerStat::DownstreamRq4xx, HttpStat::DownstreamRq4xx),
            5 => (ManagerStat::DownstreamRq5xx, HttpStat::DownstreamRq5xx),
            _ => return,
        };
        self.manager.stats.increment(stat);
        self.manager.stats.increment(ManagerStat::DownstreamRqCompleted);
        self.manager.listener_stats.increment(listener_stat);
        self.manager.listener_stats.increment(HttpStat::DownstreamRqCompleted);
    }
}
