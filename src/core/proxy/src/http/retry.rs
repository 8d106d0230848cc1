//! Attempts at a request, one after the other, until one is final.

use tokio::time::Instant;

use super::attempt::back_off;
use super::connection::Connection;
use super::exchange::Event;
use super::failure::Failure;
use super::forward::{Attempt, Request};
use super::transaction::Transaction;
use crate::flags::Flag;
use crate::stats::ClusterStat;

impl Connection<'_> {
    /// Makes attempts until one is final. Returns why the last one failed.
    pub(super) async fn attempt_all(
        &mut self,
        transaction: &mut Transaction<'_>,
        request: &mut Request<'_>,
    ) -> Option<Failure> {
        let pool = request.pool;
        let stats = &pool.cluster.stats;
        loop {
            request.attempts += 1;
            let status = match self.attempt(transaction, request).await {
                Attempt::Done => {
                    request.retry = None;
                    return None;
                }
                Attempt::Failed(failure) => {
                    if !self.may_retry(request, failure) {
                        request.retry = None;
                        return Some(failure);
                    }
                    if !request.admit_retry() {
                        transaction.flags.set(Flag::UO);
                        return Some(failure);
                    }
                    0
                }
                // A retry was admitted before the response was dropped.
                Attempt::Retriable(status) => status,
            };
            if status > 0 {
                stats.retried_statuses.increment(status);
            }
            let pause = back_off(request.forward.retry.as_ref(), request.attempts);
            match self.while_routed(transaction, request, tokio::time::sleep(pause)).await {
                Ok(()) if request.deadline().is_none_or(|deadline| Instant::now() < deadline) => {}
                Ok(()) | Err(Event::ResponseTimeout) => return Some(Failure::PauseTimeout),
                Err(event) => {
                    self.end_of_request(transaction, event);
                    return None;
                }
            }
            // As with Envoy, when it is made: a request may end before.
            stats.block.increment(ClusterStat::UpstreamRqRetry);
            stats.block.increment(ClusterStat::UpstreamRqRetryBackoffExponential);
        }
    }

    /// Whether a failed attempt is followed by another one.
    fn may_retry(&self, request: &mut Request<'_>, failure: Failure) -> bool {
        let Some(retry) = request.forward.retry.as_ref().filter(|_| !request.body.is_taken) else {
            return false;
        };
        let on = retry.on;
        let is_reset = matches!(
            failure,
            Failure::Gone | Failure::Reset | Failure::Refused | Failure::Invalid | Failure::TryTimeout
        );
        let is_connect =
            matches!(failure, Failure::ConnectFailed | Failure::ConnectRefused | Failure::ConnectTimeout);
        let wanted = match failure {
            Failure::NoHost | Failure::Overflow | Failure::ResponseTimeout | Failure::PauseTimeout => false,
            _ => {
                (is_connect
                    && (on.connect_failure
                        || on.server_error
                        || on.reset
                        || on.reset_before_request
                        || on.gateway_error))
                    || (is_reset && (on.server_error || on.reset || on.gateway_error))
                    || (failure == Failure::Refused && on.refused_stream)
            }
        };
        let can_replay = request.body.replay.is_some() || request.body.received == 0;
        if !can_replay {
            return false;
        }
        if !wanted {
            if !matches!(failure, Failure::NoHost | Failure::ResponseTimeout) {
                request.end_retries();
            }
            return false;
        }
        if request.attempts > retry.retries {
            request.is_exhausted = true;
            request.pool.cluster.stats.block.increment(ClusterStat::UpstreamRqRetryLimitExceeded);
            return false;
        }
        true
    }

    /// Whether a response is to be retried, if there are retries left.
    pub(super) fn is_retriable(&self, request: &Request<'_>, status: u16) -> bool {
        let Some(retry) = request.forward.retry.as_ref().filter(|_| !request.body.is_taken) else {
            return false;
        };
        let on = retry.on;
        let can_replay = request.body.replay.is_some() || request.body.received == 0;
        if self.response.get("x-envoy-ratelimited").is_some() {
            // Whatever its status: repetitions would be limited as well.
            return on.ratelimited && can_replay;
        }
        let wanted = (on.server_error && (500..600).contains(&status))
            || (on.gateway_error && matches!(status, 502..=504))
            || (on.retriable_4xx && status == 409)
            || (on.grpc_statuses != 0 && self.grpc_status().is_some_and(|status| on.has_grpc(status)))
            || (on.statuses && retry.statuses.contains(&status));
        wanted && can_replay
    }

    /// The status of a response of gRPC that has no message.
    fn grpc_status(&self) -> Option<u8> {
        std::str::from_utf8(self.response.get("grpc-status")?).ok()?.parse().ok()
    }
}
