//! Requests in the Mixer filter: before a route acts, and at their end.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::connection::{Connection, Transaction};
use super::framing::Framing;
use crate::bootstrap::ServiceConfig;
use crate::buffer;
use crate::flags::Flag;
use crate::mixer::{HttpFilter, Next, Peer, Summary};

/// Whether a request has passed the filter.
pub(super) enum Passed {
    Yes,
    /// Its head was changed: a route is to be chosen again.
    Changed,
    /// It is answered, or its client is gone.
    No,
}

impl<'m> Connection<'m> {
    /// Has the Mixer filter decide on the request, and answers it if that is the decision.
    pub(super) async fn pass_mixer(
        &mut self,
        transaction: &mut Transaction<'m>,
        framing: Framing,
        filter: &HttpFilter,
        service: Option<&Arc<ServiceConfig>>,
    ) -> Passed {
        match self.ask_mixer(transaction, filter, service).await {
            None => Passed::No,
            Some(Next::Forward) => Passed::Yes,
            Some(Next::Reroute) => Passed::Changed,
            Some(Next::Reply { status, body, is_direct }) => {
                if is_direct {
                    transaction.details = "mixer_direct_response";
                } else {
                    transaction.details =
                        transaction.mixer.as_ref().map_or("mixer_access_denied", |call| call.details());
                    transaction.flags.set(Flag::Uaex);
                }
                self.reply(transaction, framing, status, &body).await;
                Passed::No
            }
        }
    }

    /// Has the Mixer filter decide on the request. Meanwhile what the client sends waits, and its end ends the check. `None` if it is gone.
    async fn ask_mixer(
        &mut self,
        transaction: &mut Transaction<'m>,
        filter: &HttpFilter,
        service: Option<&Arc<ServiceConfig>>,
    ) -> Option<Next> {
        let peer = Peer::of(&self.info);
        let Some(mut call) = filter.begin(&mut self.request, service, &peer, &self.worker.mixer) else {
            return Some(Next::Forward);
        };
        let mut next = Some(Next::Forward);
        if call.wants_check() {
            let outcome = {
                // Boxed: a check is most of what a connection would hold for good.
                let mut check = Box::pin(call.check());
                let (stream, input) = (&mut self.stream, &mut self.input);
                poll_fn(|cx| {
                    if let Poll::Ready(outcome) = check.as_mut().poll(cx) {
                        return Poll::Ready(Some(outcome));
                    }
                    while input.len() < buffer::HIGH_WATERMARK {
                        match buffer::poll_read(stream, input, cx) {
                            Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(None),
                            Poll::Ready(Ok(_)) => {}
                            Poll::Pending => break,
                        }
                    }
                    Poll::Pending
                })
                .await
            };
            next = outcome.map(|outcome| call.apply(outcome, &mut self.request));
        }
        if next.is_none() {
            transaction.flags.set(Flag::DC);
            transaction.details = "downstream_remote_disconnect";
            transaction.closes = true;
            transaction.is_aborted = true;
        }
        transaction.is_unchecked = call.is_unchecked();
        transaction.mixer = Some(call);
        next
    }

    /// Reports a request at its end.
    pub(super) fn report_to_mixer(&self, transaction: &mut Transaction<'_>) {
        if let Some(call) = transaction.mixer.take() {
            call.report(&self.summary(transaction));
        }
    }

    fn summary(&self, transaction: &Transaction<'_>) -> Summary<'_> {
        Summary {
            request: &self.request,
            response: &self.response,
            status: transaction.status,
            flags: transaction.flags,
            received: transaction.received,
            sent: transaction.sent,
            upstream: transaction.upstream,
            duration: transaction.began.elapsed(),
        }
    }
}
