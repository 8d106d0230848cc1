//! Connections that change their protocol, such as to WebSocket: bytes in both directions from then on.

use std::future::poll_fn;

use super::connection::Connection;
use super::edits;
use super::framing::Framing;
use super::transaction::Transaction;
use crate::flags::Flag;
use crate::stats::ManagerStat;
use crate::tcp_proxy::{End, Relay};
use crate::upstream::{Pool, Upstream};

impl Connection<'_> {
    /// Whether the response 101 in `response` changes to the protocol that the client has asked for, and that its route allows.
    pub(super) fn changes_as_asked(&self, transaction: &Transaction<'_>) -> bool {
        let asked = transaction.upgrade.as_ref().map(|(_, protocol)| protocol.as_slice());
        let is_asked = |protocol: &[u8]| asked.is_some_and(|asked| asked.eq_ignore_ascii_case(protocol));
        self.response.has_element("connection", b"upgrade")
            && self.response.count("upgrade") == 1
            && self.response.get("upgrade").is_some_and(is_asked)
    }

    /// Forwards the response 101, and then bytes until either side ends.
    pub(super) async fn change_protocol(
        &mut self,
        transaction: &mut Transaction<'_>,
        pool: &Pool,
        upstream: &mut Upstream,
    ) {
        let kept = ["connection", "upgrade"]
            .map(|name| (name, self.response.get(name).unwrap_or_default().to_vec()));
        edits::remove_hop_by_hop(&mut self.response);
        edits::edit_response(&mut self.response, transaction.levels);
        for (name, value) in kept {
            self.response.set(name, &value);
        }
        // It has no body. RFC 9110 section 8.6.
        self.response.remove(b"content-length");
        transaction.closes = false;
        self.write_head(transaction, Framing::Empty);
        transaction.closes = true;
        if self.flush().await.is_err() {
            transaction.is_aborted = true;
            return;
        }
        let manager = &self.manager.stats;
        // Only clients of HTTP/1.1 can ask for it.
        let Some(http1) = self.client.http1() else { return };
        let (input, cluster) = (http1.input.split(), &pool.cluster.stats.block);
        let timeout = self.manager.stream_idle_timeout;
        // As with Envoy: neither side goes on alone.
        let mut relay = Relay::new(None, cluster, timeout, input, upstream.input.split()).ending_together();
        let end = poll_fn(|cx| relay.poll(&mut http1.stream, upstream, cx)).await;
        (transaction.received, transaction.sent) = relay.bytes();
        manager.add(ManagerStat::DownstreamCxRxBytesTotal, transaction.received);
        manager.add(ManagerStat::DownstreamCxTxBytesTotal, transaction.sent);
        match end {
            End::DownstreamFailed => return self.client_gone(transaction),
            End::Idle => {
                manager.increment(ManagerStat::DownstreamRqIdleTimeout);
                transaction.flags.set(Flag::SI);
                transaction.details = "stream_idle_timeout";
            }
            // Relays of this kind end with either side, and without a Mixer filter none is refused.
            End::UpstreamFailed | End::Complete | End::Refused | End::Drained => {
                upstream.counted.closed_by_host = true;
                transaction.flags.set(Flag::UC);
                transaction.details = "upstream_reset_after_response_started{connection_termination}";
            }
        }
        // The response ends early, however it ends; its client gets what there is of it.
        manager.increment(ManagerStat::DownstreamRqRxReset);
    }
}
