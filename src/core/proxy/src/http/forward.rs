//! The router: attempts at forwarding a request, until one gives a response that is to be returned.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::attempt::{Active, Connected};
use super::connection::Connection;
use super::exchange::{Deadlines, Downstream, Event, Exchange, Replay, RequestBody};
use super::failure::Failure;
use super::framing::{self, Framing};
use super::routes::Forward;
use super::transaction::Transaction;
use super::upstream_request::UpstreamRequest;
use super::{edits, hash, http2, reply};
use crate::bootstrap::{MatchConfig, Policy};
use crate::cluster::{Admitted, Kind, Outcome, Wanted};
use crate::flags::Flag;
use crate::inline_headers;
use crate::stats::{ClusterStat, ManagerStat};
use crate::upstream::Pool;

/// How an attempt ended.
pub(super) enum Attempt {
    /// The response was forwarded, or the client is gone.
    Done,
    /// No response, and none was begun.
    Failed(Failure),
    /// A response with this status that is to be retried; not forwarded.
    Retriable(u16),
}

/// What all attempts at a request share.
pub(super) struct Request<'r> {
    pub(super) forward: &'r Forward,
    pub(super) pool: &'r Pool,
    pub(super) body: RequestBody,
    pub(super) attempts: u32,
    /// Whether there are no more retries.
    pub(super) is_exhausted: bool,
    /// The place of this attempt among the retries of the cluster, and then that of the next one.
    pub(super) retry: Option<Admitted>,
}

impl Request<'_> {
    /// When the response is too late. The time limit begins when the request is complete: none of it is that of a client which sends slowly.
    pub(super) fn deadline(&self) -> Option<Instant> {
        Some(self.body.complete? + self.forward.timeout?)
    }

    /// Takes a place among the retries of the cluster, for that of this attempt. Returns whether one is free, and counts if not.
    pub(super) fn admit_retry(&mut self) -> bool {
        self.retry = None;
        self.retry = self.pool.cluster.admit(Kind::Retry);
        if self.retry.is_none() {
            self.pool.cluster.stats.block.increment(ClusterStat::UpstreamRqRetryOverflow);
        }
        self.retry.is_some()
    }

    /// Gives up the place among the retries, because what came is not retried: the body of a response is not a matter of them. As with Envoy, a
    /// retry with such an end was successful, whatever came.
    pub(super) fn end_retries(&mut self) {
        if self.retry.take().is_some() && !self.body.is_taken {
            self.pool.cluster.stats.block.increment(ClusterStat::UpstreamRqRetrySuccess);
        }
    }
}

impl Connection<'_> {
    /// Forwards the request in `request` to the cluster that was chosen.
    pub(super) async fn forward(
        &mut self,
        transaction: &mut Transaction<'_>,
        framing: Framing,
        forward: &Forward,
        chosen: Option<usize>,
        matching: &MatchConfig,
    ) {
        let worker = self.worker;
        let Some((cluster, pool)) = chosen.and_then(|cluster| Some((cluster, worker.pool(cluster)?))) else {
            self.manager.stats.increment(ManagerStat::NoCluster);
            transaction.flags.set(Flag::NC);
            transaction.details = "cluster_not_found";
            return self.reply(transaction, framing, forward.not_found_status, "").await;
        };
        transaction.cluster = Some(cluster);
        edits::edit_request(&mut self.request, transaction.levels);
        self.rewrite(forward, matching);
        edits::settle_scheme(&mut self.request, &self.info);
        let is_http2 = pool.cluster.config.http2.is_some();
        if is_http2 && transaction.upgrade.is_some() {
            self.manager.stats.increment(ManagerStat::DownstreamRqWsOnNonWsRoute);
            return self.refuse_request(transaction, 403, "upgrade_failed", "", None).await;
        }
        if is_http2 && !http2::is_sendable(&self.request) {
            return self.refuse_request(transaction, 400, "no_target_of_http2", "", None).await;
        }
        let remaining = self.client.body(framing);
        // Also if filters have read it all, and the host is yet to get it.
        let has_arrived = remaining.is_done() || (!self.client.is_copy() && self.client.ahead(framing).1);
        let framing = framing::after_edits(framing, &self.request);
        match framing {
            _ if is_http2 => {}
            Framing::Chunked => self.request.set("transfer-encoding", b"chunked"),
            Framing::Empty if !has_no_body(self.request.method()) => self.request.set("content-length", b"0"),
            _ => {}
        }
        let body = RequestBody {
            remaining,
            framing,
            received: 0,
            trailers: None,
            copies: Vec::new(),
            replay: forward.retry.as_ref().map(|_| Replay::new(&self.worker.shared.bodies)),
            // A request to change the protocol is never complete.
            complete: (has_arrived && transaction.upgrade.is_none()).then(Instant::now),
            is_taken: false,
        };
        if let Some((connection, protocol)) = &transaction.upgrade {
            // The next proxy is to do nothing else because this client says so.
            self.request.set("connection", connection);
            self.request.set("upgrade", protocol);
            edits::settle_te(&mut self.request);
        }
        let mut request = Request { forward, pool, body, attempts: 0, is_exhausted: false, retry: None };
        let failure = self.attempt_all(transaction, &mut request).await;
        transaction.received = request.body.received;
        if !request.body.remaining.is_done() {
            // What has arrived and was not passed on counts, as with Envoy. What is left of the body is read by nobody: the connection ends.
            let (unread, _) = self.client.unread(request.body.remaining);
            transaction.received += u64::try_from(unread).unwrap_or(0);
            (transaction.closes, transaction.is_early) = (true, true);
        }
        if let Some(failure) = failure {
            let Request { attempts, is_exhausted, body, .. } = request;
            self.fail(transaction, pool, failure, attempts, [is_exhausted, body.is_taken]).await;
        }
    }

    /// Replaces path and host as the route says.
    fn rewrite(&mut self, forward: &Forward, matching: &MatchConfig) {
        if let Some(prefix) = &forward.prefix_rewrite {
            let path = self.request.path();
            let matched = matching.matched_length(self.request.path_without_query());
            self.scratch.clear();
            self.scratch.extend_from_slice(prefix.as_bytes());
            self.scratch.extend_from_slice(path.get(matched..).unwrap_or_default());
            let original = path.to_vec();
            self.request.set_path(&self.scratch);
            self.request.set("x-envoy-original-path", &original);
        }
        if let Some(host) = &forward.host_rewrite {
            let original = self.request.authority().to_vec();
            self.request.set("x-envoy-original-host", &original);
            self.request.set_authority(host.as_bytes());
        }
    }

    /// What the request says of the host that it goes to.
    fn wanted(&self, forward: &Forward, pool: &Pool) -> Wanted {
        match pool.cluster.config.policy {
            Policy::RingHash(_) => {
                let client = hash::client(&self.request, &self.info, self.manager.use_remote_address);
                Wanted { hash: hash::of(&forward.hash, &self.request, client), ..Wanted::default() }
            }
            Policy::OriginalDestination(by_header) => {
                let named = by_header.then(|| self.request.get("x-envoy-original-dst-host")).flatten();
                let named = named.map(|text| std::str::from_utf8(text).ok()?.parse().ok());
                let destination = match named {
                    Some(None) => {
                        pool.cluster.stats.block.increment(ClusterStat::OriginalDstHostInvalid);
                        None
                    }
                    Some(named) => named,
                    None => self.info.original_destination(),
                };
                Wanted { destination, ..Wanted::default() }
            }
            Policy::RoundRobin | Policy::LeastRequest | Policy::Random => Wanted::default(),
        }
    }

    /// One attempt.
    pub(super) async fn attempt(
        &mut self,
        transaction: &mut Transaction<'_>,
        request: &mut Request<'_>,
    ) -> Attempt {
        let pool = request.pool;
        let stats = &pool.cluster.stats;
        let wanted = self.wanted(request.forward, pool);
        let Some(host) = pool.choose_for(wanted) else {
            stats.block.increment(ClusterStat::UpstreamCxNoneHealthy);
            return Attempt::Failed(Failure::NoHost);
        };
        transaction.upstream = Some(host.address);
        self.set_expected_time(request);
        let mirrored = request.forward;
        if !mirrored.mirrors.is_empty() && request.attempts == 1 && transaction.upgrade.is_none() {
            self.start_copies(mirrored, &mut request.body);
        }
        let is_http2 = pool.cluster.config.http2.is_some();
        let taken = match is_http2 {
            true => pool.take_place(&host).map(Connected::Http2),
            false => pool.take(&host).map(Connected::Http1),
        };
        let connected = match taken {
            Some(connected) => connected,
            None => {
                let Some(_pending) = pool.cluster.admit(Kind::Pending) else {
                    stats.block.increment(ClusterStat::UpstreamRqPendingOverflow);
                    host.failed.fetch_add(1, Ordering::Relaxed);
                    return Attempt::Failed(Failure::Overflow);
                };
                stats.block.increment(ClusterStat::UpstreamRqPendingTotal);
                let waiting = pool.begin_waiting(&host);
                // Boxed: connections of clients do not hold what it takes.
                let connecting = Box::pin(async {
                    match is_http2 {
                        true => pool.place(&host).await.map(Connected::Http2),
                        false => pool.obtain(&host).await.map(Connected::Http1),
                    }
                });
                let connected = self.while_routed(transaction, request, connecting).await;
                drop(waiting);
                match connected {
                    Ok(Ok(connected)) => connected,
                    Ok(Err(error)) => {
                        stats.block.increment(ClusterStat::UpstreamRqPendingFailureEject);
                        if error.is_of_host() {
                            host.failed.fetch_add(1, Ordering::Relaxed);
                            pool.cluster.record(&host, Outcome::Failed);
                        }
                        return Attempt::Failed(match error {
                            crate::upstream::ConnectError::Refused => Failure::ConnectRefused,
                            crate::upstream::ConnectError::Failed
                            | crate::upstream::ConnectError::Exhausted => Failure::ConnectFailed,
                            crate::upstream::ConnectError::TimedOut => Failure::ConnectTimeout,
                        });
                    }
                    Err(event) => {
                        stats.block.increment(ClusterStat::UpstreamRqCancelled);
                        if event == Event::ResponseTimeout {
                            stats.block.increment(ClusterStat::UpstreamRqTimeout);
                            return Attempt::Failed(Failure::ResponseTimeout);
                        }
                        self.end_of_request(transaction, event);
                        return Attempt::Done;
                    }
                }
            }
        };
        let Some(_admitted) = pool.cluster.admit(Kind::Request) else {
            stats.block.increment(ClusterStat::UpstreamRqActiveOverflow);
            host.failed.fetch_add(1, Ordering::Relaxed);
            if let Connected::Http1(upstream) = connected {
                pool.put(upstream);
            }
            return Attempt::Failed(Failure::Overflow);
        };
        stats.block.increment(ClusterStat::UpstreamRqTotal);
        stats.block.increment(ClusterStat::UpstreamRqActive);
        host.requests.fetch_add(1, Ordering::Relaxed);
        host.active_requests.fetch_add(1, Ordering::Relaxed);
        let _active = Active(pool, Arc::clone(&host));
        let mut upstream = match self.write_request(request, connected) {
            Ok(upstream) => upstream,
            Err(event) => return self.end_without_response(transaction, pool, &host, event),
        };
        let attempt = self.run_exchange(transaction, request, &mut upstream).await;
        // It is closed unless a whole response was read, and the whole request sent.
        if let UpstreamRequest::Http1(upstream) = upstream
            && upstream.is_reusable
        {
            pool.put(upstream);
        }
        attempt
    }

    async fn run_exchange(
        &mut self,
        transaction: &mut Transaction<'_>,
        request: &mut Request<'_>,
        upstream: &mut UpstreamRequest,
    ) -> Attempt {
        let (pool, forward) = (request.pool, request.forward);
        let stats = &pool.cluster.stats;
        let to_head = self.request.method() == b"HEAD";
        let deadlines = Deadlines {
            response: forward.timeout,
            attempt: forward.retry.as_ref().and_then(|retry| retry.per_try_timeout),
            idle: self.manager.stream_idle_timeout,
            request: self.manager.request_timeout.map(|limit| transaction.began + limit),
        };
        let is_kept = request.body.replay.is_some();
        let mut service_time = 0;
        let (event, framing, keeps, bytes) = {
            let mut exchange = Exchange::new(
                Downstream { client: &mut self.client, timer: &mut self.timer },
                upstream,
                &mut request.body,
                &mut self.response,
                to_head,
                deadlines,
            );
            exchange.upgrades = transaction.upgrade.is_some();
            let event = exchange.step().await;
            let began =
                exchange.body.complete.map_or(exchange.began, |complete| complete.max(exchange.began));
            let framing = exchange.framing;
            let keeps = exchange.keeps_upstream;
            let bytes = exchange.bytes;
            if event == Event::Head {
                let elapsed = began.elapsed();
                stats.request_time.observe(elapsed);
                service_time = u64::try_from(elapsed.as_millis()).unwrap_or(0);
            }
            (event, framing, keeps, bytes)
        };
        self.count_bytes(pool, bytes);
        if is_kept && request.body.replay.is_none() {
            stats.block.increment(ClusterStat::RetryOrShadowAbandoned);
        }
        if event != Event::Head {
            let host = Arc::clone(upstream.host());
            return self.end_without_response(transaction, pool, &host, event);
        }
        let status = self.response.status;
        let host = upstream.host();
        let is_unread = || self.client.has_ahead() || upstream.has_output();
        if status == 101 && (is_unread() || !self.changes_as_asked(transaction)) {
            // It speaks another protocol than it was asked for, or before it has read the request, of which filters have seen the rest.
            let host = Arc::clone(host);
            return self.end_without_response(transaction, pool, &host, Event::UpstreamInvalid);
        }
        if status >= 500 { &host.failed } else { &host.succeeded }.fetch_add(1, Ordering::Relaxed);
        pool.cluster.record(host, Outcome::Status(status));
        if self.is_retriable(request, status) {
            if request.attempts > request.forward.retry.as_ref().map_or(0, |retry| retry.retries) {
                stats.block.increment(ClusterStat::UpstreamRqRetryLimitExceeded);
                transaction.flags.set(Flag::Urx);
            } else if request.admit_retry() {
                return Attempt::Retriable(status);
            } else {
                // The client gets what the host has answered.
                transaction.flags.set(Flag::UO);
            }
            request.retry = None;
        } else {
            request.end_retries();
        }
        // A response that is retried counts among those of retries only, as with Envoy.
        self.count_response(pool, status);
        transaction.details = "via_upstream";
        if status == 101
            && let Some(upstream) = upstream.http1()
        {
            transaction.received = 0;
            self.change_protocol(transaction, pool, upstream).await;
            // As with Envoy, what follows in the other protocol counts as the body.
            request.body.received += transaction.received;
            return Attempt::Done;
        }
        // It names the protocols without which the host does not serve.
        let protocols = if status == 426 { self.response.joined("upgrade") } else { None };
        edits::remove_hop_by_hop(&mut self.response);
        if let Some(protocols) = protocols {
            self.response.set("upgrade", &protocols);
        }
        inline_headers::join_repeated(&mut self.response);
        // Counted from the end of the request, which one to change the protocol does not have.
        if transaction.upgrade.is_none() {
            self.response.set("x-envoy-upstream-service-time", reply::decimal(service_time, &mut [0; 20]));
        }
        edits::edit_response(&mut self.response, transaction.levels);
        let outgoing = match framing::after_edits(framing, &self.response) {
            // However the host ends it: to a client of HTTP/1.1 anything behind the head is the next response.
            _ if to_head && !self.client.is_http2() => Framing::Empty,
            Framing::UntilClose => Framing::Chunked,
            other => other,
        };
        // Nobody reads what is left of a body: the client is told to begin a new connection, as with Envoy.
        transaction.closes |= self.is_draining() || !request.body.remaining.is_done();
        let needs_length = outgoing == Framing::Empty
            && !self.client.is_http2()
            && !to_head
            && !matches!(status, 100..=199 | 204 | 304)
            && self.response.get("content-length").is_none();
        if needs_length {
            self.response.set("content-length", b"0");
        } else if status == 204 {
            // It is 0, which the standard does not allow here; Envoy removes it as well.
            self.response.remove(b"content-length");
        }
        self.write_head(transaction, outgoing);
        self.finish_exchange(transaction, request, upstream, framing, outgoing, keeps, deadlines).await
    }

    /// Forwards the body of a response whose head was written.
    #[expect(clippy::too_many_arguments, reason = "the state of one exchange, between its two halves")]
    async fn finish_exchange(
        &mut self,
        transaction: &mut Transaction<'_>,
        request: &mut Request<'_>,
        upstream: &mut UpstreamRequest,
        framing: Framing,
        outgoing: Framing,
        keeps: bool,
        deadlines: Deadlines,
    ) -> Attempt {
        let pool = request.pool;
        request.body.replay = None;
        let mut exchange = Exchange::new(
            Downstream { client: &mut self.client, timer: &mut self.timer },
            upstream,
            &mut request.body,
            &mut self.response,
            false,
            deadlines,
        );
        exchange.framing = framing;
        exchange.outgoing = outgoing;
        exchange.forward_body();
        let event = exchange.step().await;
        transaction.sent = exchange.sent;
        let bytes = exchange.bytes;
        self.count_bytes(pool, bytes);
        let stats = &pool.cluster.stats;
        match event {
            Event::Complete => {
                if upstream.http1().is_none() && !request.body.remaining.is_done() {
                    // What is left of the request is not sent: its stream is reset.
                    stats.block.increment(ClusterStat::UpstreamRqTxReset);
                }
                if request.body.remaining.is_done()
                    && !upstream.has_output()
                    && let Some(upstream) = upstream.http1()
                {
                    upstream.counted.with_request = false;
                    // A host that was asked to change the protocol, and did not, may still take what follows for that protocol.
                    upstream.is_reusable = keeps && transaction.upgrade.is_none();
                }
            }
            Event::DownstreamGone => {
                self.client_gone(transaction);
                pool.cluster.count_reset();
            }
            // The response was begun: there is no other way to say that it is not complete than to end the connection.
            Event::UpstreamReset | Event::UpstreamRefused => {
                if event == Event::UpstreamReset {
                    stats.block.increment(ClusterStat::UpstreamRqRxReset);
                }
                transaction.flags.set(Flag::UR);
                transaction.details = "upstream_reset_after_response_started{remote_reset}";
                transaction.cut();
                let _ = self.flush().await;
            }
            Event::UpstreamGone | Event::UpstreamLeft | Event::UpstreamInvalid => {
                match event {
                    _ if upstream.http1().is_some() => {}
                    Event::UpstreamInvalid => stats.block.increment(ClusterStat::UpstreamRqTxReset),
                    Event::UpstreamGone => {
                        stats.block.increment(ClusterStat::UpstreamRqPendingFailureEject);
                    }
                    _ => {}
                }
                // A body that ends early is not valid, whoever ended it.
                transaction.flags.set(Flag::Upe);
                transaction.details = "upstream_reset_after_response_started{protocol_error}";
                transaction.cut();
                let _ = self.flush().await;
            }
            Event::ResponseTimeout | Event::TryTimeout => {
                stats.block.increment(ClusterStat::UpstreamRqTimeout);
                transaction.flags.set(Flag::UT);
                transaction.details = "response_timeout";
                transaction.cut();
            }
            Event::InvalidBody => {
                pool.cluster.count_reset();
                self.manager.stats.increment(ManagerStat::DownstreamCxProtocolError);
                transaction.flags.set(Flag::Dpe);
                transaction.details = "http1.codec_error";
                transaction.cut();
            }
            _ => {
                transaction.flags.set(Flag::SI);
                transaction.details = "stream_idle_timeout";
                transaction.cut();
            }
        }
        Attempt::Done
    }

    /// Counts a response among those of clients, or of copies of their requests.
    pub(super) fn count_response(&self, pool: &Pool, status: u16) {
        match self.client.is_copy() {
            true => pool.cluster.stats.count_internal_response(status),
            false => pool.cluster.stats.count_response(status),
        }
    }

    fn count_bytes(&self, pool: &Pool, bytes: (u64, u64, u64, u64)) {
        let (stats, cluster) = (&self.manager.stats, &pool.cluster.stats.block);
        stats.add(ManagerStat::DownstreamCxRxBytesTotal, bytes.0);
        stats.add(ManagerStat::DownstreamCxTxBytesTotal, bytes.1);
        cluster.add(ClusterStat::UpstreamCxTxBytesTotal, bytes.2);
        cluster.add(ClusterStat::UpstreamCxRxBytesTotal, bytes.3);
    }
}

/// Methods of requests that have no body unless they say so.
fn has_no_body(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"DELETE" | b"TRACE" | b"CONNECT")
}
