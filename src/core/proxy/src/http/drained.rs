//! Connections of a proxy, or of a filter chain, that is drained.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use super::connection::Connection;
use super::transaction::Transaction;
use crate::flags::Flag;

impl<'m> Connection<'m> {
    /// Answers the request in `request`, unless the drain time of the filter chain is over before: then the connection is cut.
    pub(super) async fn answer_until_drained(&mut self, transaction: &mut Transaction<'m>) {
        let drained = self.info.drained.clone();
        let is_answered = {
            let mut answering = pin!(self.answer(transaction));
            poll_fn(|cx| match (answering.as_mut().poll(cx), &drained) {
                (Poll::Ready(()), _) => Poll::Ready(true),
                (Poll::Pending, Some(drained)) => drained.poll_over(cx).map(|()| false),
                (Poll::Pending, None) => Poll::Pending,
            })
            .await
        };
        if !is_answered {
            transaction.flags.set(Flag::DC);
            transaction.details = "drain_time_elapsed";
            transaction.is_aborted = true;
        }
    }

    /// Whether the response that is about to be sent ends the connection, because the proxy or the filter chain is drained.
    pub(super) fn is_draining(&self) -> bool {
        self.worker.is_draining() || self.info.closes()
    }
}
