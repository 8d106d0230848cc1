//! Checks by a request.

use std::net::SocketAddr;

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use mixer_net::stream::Stream;

use super::session::Outcome;
use crate::bootstrap::HttpCheck;
use crate::cluster::Cluster;
use crate::head::{Head, end_of_head};
use crate::http::edit_request;
use crate::http::framing::{self, Remaining};
use crate::upstream::establish;

/// Maximum size of the head of an answer, in bytes, and of its fields.
const MAX_HEAD: usize = 60 << 10;
const MAX_FIELDS: usize = 100;
/// Maximum size of the body of an answer, which is read and dropped, so that the connection can be used again.
const MAX_BODY: usize = 1 << 20;
/// Informational responses before the answer.
const MAX_INFORMATIONAL: usize = 16;

/// Checks a host by a request.
pub(super) struct HttpChecker {
    check: HttpCheck,
    request: Vec<u8>,
    pub(super) connection: Option<Stream>,
    head: Head,
}

impl HttpChecker {
    pub(super) fn new(check: HttpCheck, cluster: &str) -> Self {
        // The configuration is valid only if this is a request.
        let mut head = check.request(cluster).unwrap_or_default();
        edit_request(&mut head, [&check.edits]);
        let mut request = Vec::new();
        head.write_request(&mut request);
        request.put_slice(b"\r\n");
        Self { check, request, connection: None, head: Head::default() }
    }

    pub(super) fn disconnect(&mut self) {
        self.connection = None;
    }

    pub(super) async fn check(&mut self, cluster: &Cluster, address: SocketAddr) -> Outcome {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => match establish(cluster, address, Some(b"http/1.1")).await {
                Ok(connection) => connection,
                Err(error) => return error.into(),
            },
        };
        match self.exchange(&mut connection).await {
            Some((status, keeps)) => {
                if keeps {
                    self.connection = Some(connection);
                }
                self.outcome(status)
            }
            None => Outcome::Failed,
        }
    }

    fn outcome(&self, status: u16) -> Outcome {
        let is_in =
            |ranges: &[(u16, u16)]| ranges.iter().any(|(start, end)| (*start..*end).contains(&status));
        match (is_in(&self.check.expected), is_in(&self.check.retriable)) {
            (true, _) => Outcome::Success,
            (false, true) => Outcome::Retriable,
            (false, false) => Outcome::Refused,
        }
    }

    /// The status of the answer, and whether the connection can be used again; `None` if there is no whole and valid answer.
    async fn exchange(&mut self, connection: &mut Stream) -> Option<(u16, bool)> {
        connection.write_all(&self.request).await.ok()?;
        connection.flush().await.ok()?;
        let mut input = BytesMut::new();
        let to_head = self.check.method == "HEAD";
        let mut informational = 0;
        let is_http11 = loop {
            let mut scanned = 0;
            let end = loop {
                if let Some(end) = end_of_head(&input, &mut scanned, MAX_HEAD).ok()? {
                    break end;
                }
                read(connection, &mut input).await?;
            };
            let is_http11 = self.head.read_response(input.get(..end)?, MAX_FIELDS).ok()?;
            input.advance(end);
            if !(100..200).contains(&self.head.status) {
                break is_http11;
            }
            informational += 1;
            if informational > MAX_INFORMATIONAL || self.head.status == 101 {
                return None;
            }
        };
        let status = self.head.status;
        let mut remaining = Remaining::of(framing::of_response(&self.head, to_head, is_http11).ok()?);
        let closes = self.head.has_element("connection", b"close") || remaining == Remaining::UntilClose;
        let is_10 = !is_http11 && !self.head.has_element("connection", b"keep-alive");
        let mut body = 0;
        while !remaining.is_done() {
            body += remaining.decode(&mut input, MAX_BODY, |_| {}).ok()?;
            if body > MAX_BODY {
                return None;
            }
            if !remaining.is_done() && read(connection, &mut input).await.is_none() {
                // The end of the connection ends only a body that nothing else does.
                return (remaining == Remaining::UntilClose).then_some((status, false));
            }
        }
        Some((status, !closes && !is_10 && input.is_empty()))
    }
}

/// Reads once; `None` at the end.
async fn read(connection: &mut Stream, input: &mut BytesMut) -> Option<()> {
    input.reserve(4096);
    matches!(connection.read_buf(input).await, Ok(1..)).then_some(())
}
