//! Responses to clients: local replies, heads, and what waits to be sent.

use std::future::poll_fn;
use std::task::Poll;

use tokio::time::Instant;

use super::connection::Connection;
use super::framing::{self, Framing, Remaining};
use super::transaction::Transaction;
use super::{date, edits, reply};
use crate::head::is_bodiless;
use crate::stats::ManagerStat;

impl Connection<'_> {
    /// Answers with a text.
    pub(super) async fn reply(
        &mut self,
        transaction: &mut Transaction<'_>,
        framing: Framing,
        status: u16,
        body: &str,
    ) {
        self.begin_reply(transaction, status);
        let body = self.settle_reply(transaction, body);
        self.send_reply(transaction, framing, body).await;
    }

    /// Makes `response` the beginning of a reply of the proxy itself. As with Envoy it has the header edits of a route that forwards the request;
    /// what else it says is added to it, and then it is [settled](Self::settle_reply).
    pub(super) fn begin_reply(&mut self, transaction: &Transaction<'_>, status: u16) {
        self.response.start_response(status);
        edits::edit_response(&mut self.response, transaction.levels);
    }

    /// Adds to the head of a reply what its text and the form that the client understands need. Returns the body.
    pub(super) fn settle_reply<'b>(&mut self, transaction: &Transaction<'_>, body: &'b str) -> &'b str {
        if self.is_grpc(transaction) {
            reply::settle_grpc(&mut self.response, body);
            return "";
        }
        reply::settle(&mut self.response, body);
        body
    }

    /// Whether the request is one of gRPC, to which HTTP statuses mean nothing.
    pub(super) fn is_grpc(&self, transaction: &Transaction<'_>) -> bool {
        let kind = self.request.get("content-type").filter(|_| transaction.has_head);
        kind.is_some_and(|kind| kind == b"application/grpc" || kind.starts_with(b"application/grpc+"))
    }

    /// Sends the response in `response` with a body. A request with a body, which nobody reads, ends the connection.
    pub(super) async fn send_reply(
        &mut self,
        transaction: &mut Transaction<'_>,
        framing: Framing,
        body: &str,
    ) {
        // As Envoy: also if the body has arrived as a whole.
        transaction.is_early |= !Remaining::of(framing).is_done();
        transaction.closes |= transaction.is_early;
        self.write_reply(transaction, body);
        if self.flush().await.is_err() {
            transaction.is_aborted = true;
        }
    }

    /// Writes the response in `response` with a body.
    pub(super) fn write_reply(&mut self, transaction: &mut Transaction<'_>, body: &str) {
        let is_bodiless = is_bodiless(self.response.status);
        // Bytes after such a head would be taken for the next response.
        let body = if is_bodiless { "" } else { body };
        if is_bodiless {
            self.response.remove(b"content-length");
        }
        let is_empty = body.is_empty();
        if is_empty
            && !self.client.is_http2()
            && self.response.get("content-length").is_none()
            && !is_bodiless
        {
            self.response.add("content-length", b"0");
        }
        let has_body = !body.is_empty() && self.request.method() != b"HEAD";
        let length = Framing::Length(u64::try_from(body.len()).unwrap_or(0));
        let framing = if has_body { framing::after_edits(length, &self.response) } else { Framing::Empty };
        self.write_head(transaction, framing);
        if has_body {
            self.client.write_data(framing, body.as_bytes());
            self.client.write_end(framing, None);
            transaction.sent = u64::try_from(body.len()).unwrap_or(0);
        }
    }

    /// Writes the head of the response; the framing is that of its body.
    pub(super) fn write_head(&mut self, transaction: &mut Transaction<'_>, framing: Framing) {
        for call in transaction.calls.iter().rev() {
            call.edit_response(&mut self.response);
        }
        transaction.status = self.response.status;
        let is_http2 = self.client.is_http2();
        if framing == Framing::Chunked && !is_http2 {
            self.response.add("transfer-encoding", b"chunked");
        }
        self.response.set("server", self.manager.server_name.as_bytes());
        if self.response.get("date").is_none() {
            date::with(|date| self.response.add("date", date));
        }
        if self.manager.request_id_in_response
            && let Some(id) = self.request.get("x-request-id")
        {
            self.response.set("x-request-id", id);
        }
        // What names the protocols to change to concerns this connection. RFC 9110 section 7.8.
        let upgrades = self.response.status == 426 && self.response.get("upgrade").is_some();
        match (transaction.closes, upgrades) {
            _ if is_http2 => {}
            (true, true) => self.response.set("connection", b"upgrade, close"),
            (false, true) => self.response.set("connection", b"upgrade"),
            (true, false) => self.response.set("connection", b"close"),
            (false, false) => {}
        }
        self.client.write_head(&self.response, matches!(framing, Framing::Empty | Framing::Length(0)));
    }

    /// Writes everything.
    pub(super) async fn flush(&mut self) -> std::io::Result<()> {
        let limit = self.manager.stream_idle_timeout.map(|limit| Instant::now() + limit);
        let (client, timer) = (&mut self.client, &mut self.timer);
        let mut count = 0;
        timer.set(limit);
        let flushed = poll_fn(|cx| {
            while client.has_output() {
                match client.poll_flush(cx) {
                    Poll::Ready(Ok(written)) => count += u64::try_from(written).unwrap_or(0),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        return timer.poll(cx).map(|()| Err(std::io::ErrorKind::TimedOut.into()));
                    }
                }
            }
            Poll::Ready(Ok(()))
        });
        let result = flushed.await;
        self.manager.stats.add(ManagerStat::DownstreamCxTxBytesTotal, count);
        result
    }
}
