//! How a request ends that has no response of a host.

use std::sync::atomic::Ordering;

use super::connection::Connection;
use super::exchange::Event;
use super::failure::Failure;
use super::forward::Attempt;
use super::framing::Framing;
use super::transaction::Transaction;
use crate::cluster::{Host, Outcome};
use crate::flags::Flag;
use crate::stats::{ClusterStat, ManagerStat};
use crate::upstream::Pool;

impl Connection<'_> {
    /// An attempt without a response.
    pub(super) fn end_without_response(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: &Pool,
        host: &Host,
        event: Event,
    ) -> Attempt {
        let stats = &pool.cluster.stats;
        match event {
            Event::UpstreamReset | Event::UpstreamRefused => {
                // One that its host refused is none of them.
                if event == Event::UpstreamReset {
                    stats.block.increment(ClusterStat::UpstreamRqRxReset);
                }
                host.failed.fetch_add(1, Ordering::Relaxed);
                Attempt::Failed(match event {
                    Event::UpstreamReset => Failure::Reset,
                    _ => Failure::Refused,
                })
            }
            Event::UpstreamGone | Event::UpstreamLeft => {
                // As with Envoy: also of requests that were sent.
                if event == Event::UpstreamGone && pool.cluster.config.http2.is_some() {
                    stats.block.increment(ClusterStat::UpstreamRqPendingFailureEject);
                }
                host.failed.fetch_add(1, Ordering::Relaxed);
                pool.cluster.record(host, Outcome::Failed);
                Attempt::Failed(Failure::Gone)
            }
            Event::UpstreamInvalid => {
                stats.block.increment(ClusterStat::UpstreamCxProtocolError);
                host.failed.fetch_add(1, Ordering::Relaxed);
                pool.cluster.record(host, Outcome::Failed);
                Attempt::Failed(Failure::Invalid)
            }
            Event::ResponseTimeout | Event::TryTimeout => {
                pool.cluster.count_reset();
                host.timed_out.fetch_add(1, Ordering::Relaxed);
                host.failed.fetch_add(1, Ordering::Relaxed);
                pool.cluster.record(host, Outcome::TimedOut);
                if event == Event::ResponseTimeout {
                    stats.block.increment(ClusterStat::UpstreamRqTimeout);
                    return Attempt::Failed(Failure::ResponseTimeout);
                }
                stats.block.increment(ClusterStat::UpstreamRqPerTryTimeout);
                Attempt::Failed(Failure::TryTimeout)
            }
            other => {
                pool.cluster.count_reset();
                self.end_of_request(transaction, other);
                Attempt::Done
            }
        }
    }

    /// The request itself failed: it is not valid, too slow, or its client is gone.
    pub(super) fn end_of_request(&mut self, transaction: &mut Transaction<'_>, event: Event) {
        transaction.closes = true;
        let (status, body) = match event {
            Event::InvalidBody => {
                self.manager.stats.increment(ManagerStat::DownstreamCxProtocolError);
                transaction.flags.set(Flag::Dpe);
                transaction.details = "http1.codec_error";
                (400, "Bad Request")
            }
            Event::RequestTimeout => {
                self.manager.stats.increment(ManagerStat::DownstreamRqTimeout);
                transaction.details = "request_overall_timeout";
                (408, "request timeout")
            }
            Event::IdleTimeout | Event::HostIdle => {
                self.manager.stats.increment(ManagerStat::DownstreamRqIdleTimeout);
                transaction.flags.set(Flag::SI);
                transaction.details = "stream_idle_timeout";
                // 408 says that the request was not received: its client may send it again.
                (if event == Event::HostIdle { 504 } else { 408 }, "stream timeout")
            }
            _ => return self.client_gone(transaction),
        };
        self.begin_reply(transaction, status);
        let body = self.settle_reply(transaction, body);
        self.write_reply(transaction, body);
    }

    /// Notes that the client is gone.
    pub(super) fn client_gone(&self, transaction: &mut Transaction<'_>) {
        let (flag, details) = self.client.gone();
        transaction.flags.set(flag);
        transaction.details = details;
        transaction.is_aborted = true;
    }

    /// The local reply to a request of which all attempts failed.
    pub(super) async fn fail(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: &Pool,
        failure: Failure,
        attempts: u32,
        [is_exhausted, is_taken]: [bool; 2],
    ) {
        let (status, flag, details) = failure.outcome(is_taken);
        if is_exhausted {
            transaction.flags.set(Flag::Urx);
        }
        transaction.flags.set(flag);
        transaction.details = details;
        // As with Envoy, a response counts for a cluster if the request was on its way to it.
        if failure != Failure::PauseTimeout {
            self.count_response(pool, status);
        }
        self.begin_reply(transaction, status);
        if failure == Failure::Overflow {
            self.response.add("x-envoy-overloaded", b"true");
        }
        let text = self.settle_reply(transaction, failure.text(attempts > 1));
        self.send_reply(transaction, Framing::Empty, text).await;
    }
}
