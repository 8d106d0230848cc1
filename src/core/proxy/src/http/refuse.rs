//! Requests that are not served, and the end of a connection of HTTP/1.1.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use super::client::{Client, Http1Client};
use super::connection::Connection;
use super::framing::{self, Framing, Remaining};
use super::reply;
use super::transaction::Transaction;
use crate::buffer;
use crate::flags::Flag;
use crate::head::{Head, HeadError};
use crate::stats::ManagerStat;
use crate::upstream;

/// Time for a client to close after the last response, so that it is not lost by a reset.
const LINGER: Duration = Duration::from_secs(1);

impl Connection<'_> {
    /// Answers a request whose head was read, and ends the connection.
    pub(super) async fn refuse_request(
        &mut self,
        transaction: &mut Transaction<'_>,
        status: u16,
        details: &'static str,
        body: &str,
        flag: Option<Flag>,
    ) {
        transaction.closes = true;
        transaction.is_early |= !self.is_complete();
        transaction.details = details;
        if let Some(flag) = flag {
            transaction.flags.set(flag);
        }
        self.reply(transaction, Framing::Empty, status, body).await;
    }

    /// As [`refuse_request`](Self::refuse_request), of a head that cannot be trusted: none of it is logged.
    pub(super) async fn refuse_unread(
        &mut self,
        transaction: &mut Transaction<'_>,
        status: u16,
        details: &'static str,
        body: &str,
    ) {
        self.manager.stats.increment(ManagerStat::DownstreamCxProtocolError);
        (transaction.has_head, transaction.is_early) = (false, true);
        self.refuse_request(transaction, status, details, body, Some(Flag::Dpe)).await;
    }

    /// Whether the request in `request` has no body that is yet to be read.
    fn is_complete(&self) -> bool {
        match &self.client {
            Client::Http2(stream) => stream.body().is_done(),
            Client::Http1(_) | Client::Copy(..) => {
                framing::of_request(&self.request).is_ok_and(|framing| Remaining::of(framing).is_done())
            }
        }
    }

    /// Counts and logs a request whose client has left before all of its head was there.
    pub(super) fn left_unread(&mut self) {
        let mut transaction = self.begin();
        transaction.has_head = false;
        self.client_gone(&mut transaction);
        self.end(&mut transaction);
    }

    /// Answers what is no request, and ends the connection.
    pub(super) async fn refuse_head(&mut self, error: HeadError) {
        let (status, details, body) = match error {
            HeadError::OldVersion => (426, "low_version", "Upgrade Required"),
            HeadError::TooLarge => (431, "http1.headers_too_large", "Request Header Fields Too Large"),
            HeadError::TooManyFields => (431, "http1.too_many_headers", "Request Header Fields Too Large"),
            HeadError::UnknownCoding => (501, "http1.unsupported_transfer_encoding", "Not Implemented"),
            HeadError::Malformed | HeadError::Framing => (400, "http1.codec_error", "Bad Request"),
        };
        self.manager.stats.increment(ManagerStat::DownstreamCxProtocolError);
        self.refuse(status, details, Some(body), Some(Flag::Dpe)).await;
    }

    pub(super) async fn refuse(
        &mut self,
        status: u16,
        details: &'static str,
        body: Option<&str>,
        flag: Option<Flag>,
    ) {
        let mut transaction = self.begin();
        (transaction.has_head, transaction.is_early, transaction.closes) = (false, true, true);
        transaction.details = details;
        if let Some(flag) = flag {
            transaction.flags.set(flag);
        }
        self.request = Head::default();
        reply::local(&mut self.response, status, body.unwrap_or_default());
        self.send_reply(&mut transaction, Framing::Empty, body.unwrap_or_default()).await;
        self.end(&mut transaction);
        self.close().await;
    }

    /// Ends the connection: no more is sent, and what the client sends is dropped until it closes, too, or for a second.
    pub(super) async fn close(&mut self) {
        let Some(Http1Client { stream, input, output, .. }) = self.client.http1() else { return };
        upstream::close(stream, output).await;
        let lingering = poll_fn(|cx| {
            // Bounded, so that a client that goes on sending does not keep the worker.
            for _ in 0..64 {
                input.clear();
                match buffer::poll_read(stream, input, cx) {
                    Poll::Ready(Ok(1..)) => {}
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(())
        });
        // Without the peer's end after this time, the connection is closed in any case.
        let _ = tokio::time::timeout(LINGER, lingering).await;
    }
}
