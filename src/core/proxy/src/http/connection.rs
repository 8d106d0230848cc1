//! A connection of a client with HTTP/1.1: requests one after the other, each answered before the next is read. What follows the head of a
//! request is the same for streams of HTTP/2.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use bytes::Buf as _;
use tokio::time::Instant;

use super::client::Client;
use super::framing::{self, Framing};
use super::serve::OfProtocol;
use super::transaction::Transaction;
use super::{HttpManager, edits, http2};
use crate::buffer;
use crate::connection_info::ConnectionInfo;
use crate::context::WorkerContext;
use crate::flags::Flag;
use crate::head::{Head, HeadError, end_of_head, is_authority};
use crate::stats::ManagerStat;
use crate::timer::{Timer, earlier};

/// Bytes of working memory that an idle connection keeps.
const MAX_IDLE_SCRATCH: usize = 256;

/// The state of a connection of HTTP/1.1, or of a stream of HTTP/2. Buffers and heads are reused from request to request.
pub(super) struct Connection<'m> {
    pub(super) manager: &'m HttpManager,
    pub(super) worker: &'m Rc<WorkerContext>,
    pub(super) client: Client,
    pub(super) timer: Timer,
    pub(super) request: Head,
    pub(super) response: Head,
    pub(super) scratch: Vec<u8>,
    pub(super) info: Rc<ConnectionInfo>,
    /// When the first byte of the request arrived, if its head did not arrive as a whole.
    begun: Option<Instant>,
}

/// Why there is no next request.
enum NoRequest {
    Closed,
    /// The connection begins as one of HTTP/2.
    Http2,
    Idle,
    HeadersTimeout,
    /// The time for the whole request is over before its head has ended.
    RequestTimeout,
    /// The filter chain was replaced or removed, and its drain time is over.
    Drained,
    Refused(HeadError),
}

/// How the requests of a connection end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// This side ends it.
    Local,
    /// The client ended it.
    Remote,
    /// It goes on with HTTP/2: what was read is the beginning of that.
    Http2,
}

impl<'m> Connection<'m> {
    /// A client that has sent nothing.
    pub(super) fn new(
        manager: &'m HttpManager,
        worker: &'m Rc<WorkerContext>,
        client: Client,
        info: Rc<ConnectionInfo>,
    ) -> Self {
        Self {
            manager,
            worker,
            client,
            timer: Timer::new(),
            request: Head::default(),
            response: Head::default(),
            scratch: Vec::new(),
            info,
            begun: None,
        }
    }

    /// When the request in `request` has begun.
    pub(super) fn take_begun(&mut self) -> Instant {
        self.begun.take().unwrap_or_else(Instant::now)
    }

    /// Answers requests until the connection ends. `is_undecided`: it may be one of HTTP/2.
    pub(super) async fn run(&mut self, mut is_undecided: bool) -> End {
        let manager = self.manager;
        let of_http1 = || {
            let (total, active) = (ManagerStat::DownstreamCxHttp1Total, ManagerStat::DownstreamCxHttp1Active);
            OfProtocol::new(&manager.stats, total, active)
        };
        let mut active = (!is_undecided).then(of_http1);
        let mut count = 0_u32;
        loop {
            let read = self.read_head(is_undecided).await;
            if is_undecided && !matches!(read, Err(NoRequest::Http2)) {
                active.get_or_insert_with(of_http1);
                is_undecided = false;
            }
            match read {
                Ok(()) => {}
                Err(NoRequest::Closed) => {
                    if self.begun.is_some() {
                        self.left_unread();
                    }
                    return End::Remote;
                }
                Err(NoRequest::Drained) => return End::Local,
                Err(NoRequest::Http2) => return End::Http2,
                Err(NoRequest::Idle) => {
                    self.manager.stats.increment(ManagerStat::DownstreamCxIdleTimeout);
                    return End::Local;
                }
                Err(NoRequest::HeadersTimeout) => {
                    self.manager.stats.increment(ManagerStat::DownstreamRqHeaderTimeout);
                    let text = Some("request header timeout");
                    self.refuse(408, "request_header_timeout", text, Some(Flag::Dpe)).await;
                    return End::Local;
                }
                Err(NoRequest::RequestTimeout) => {
                    self.manager.stats.increment(ManagerStat::DownstreamRqTimeout);
                    self.refuse(408, "request_overall_timeout", Some("request timeout"), None).await;
                    return End::Local;
                }
                Err(NoRequest::Refused(error)) => {
                    self.refuse_head(error).await;
                    return End::Local;
                }
            }
            count = count.saturating_add(1);
            let mut transaction = self.begin();
            if self.manager.max_requests.is_some_and(|max| count >= max) {
                self.manager.stats.increment(ManagerStat::DownstreamCxMaxRequestsReached);
                transaction.closes = true;
            }
            self.answer_until_drained(&mut transaction).await;
            self.end(&mut transaction);
            self.client.forget_ahead();
            if transaction.is_aborted {
                return if transaction.is_cut { End::Local } else { End::Remote };
            }
            if transaction.closes {
                self.close().await;
                return End::Local;
            }
        }
    }

    /// Gives up what the connection has for requests.
    pub(super) fn finish(mut self) -> Client {
        self.release();
        self.client
    }

    /// Reads the next head into `request`. `is_undecided`: the connection may be one of HTTP/2.
    async fn read_head(&mut self, is_undecided: bool) -> Result<(), NoRequest> {
        let manager = self.manager;
        let mut scanned = 0;
        let waiting_since = Instant::now();
        self.begun = None;
        poll_fn(|cx| {
            if self.info.poll_drained(cx).is_ready() {
                return Poll::Ready(Err(NoRequest::Drained));
            }
            loop {
                let Some(http1) = self.client.http1() else { return Poll::Ready(Err(NoRequest::Closed)) };
                if is_undecided && http1.input.starts_with(http2::PREFACE) {
                    return Poll::Ready(Err(NoRequest::Http2));
                }
                let may_be_http2 = is_undecided && http2::PREFACE.starts_with(&http1.input);
                if scanned == 0 {
                    http1.skip_empty_lines();
                }
                let end = match may_be_http2 {
                    true => Ok(None),
                    false => end_of_head(&http1.input, &mut scanned, manager.max_head),
                };
                match end {
                    Err(error) => return Poll::Ready(Err(NoRequest::Refused(error))),
                    Ok(Some(end)) => {
                        let text = http1.input.get(..end).unwrap_or_default();
                        self.request.acquire();
                        self.response.acquire();
                        buffer::acquire(&mut http1.output);
                        let read = self.request.read_request(text, manager.max_fields);
                        http1.input.advance(end);
                        return Poll::Ready(read.map_err(NoRequest::Refused));
                    }
                    Ok(None) => {}
                }
                if !http1.input.is_empty() && self.begun.is_none() {
                    self.begun = Some(Instant::now());
                }
                match buffer::poll_read(&mut http1.stream, &mut http1.input, cx) {
                    Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(Err(NoRequest::Closed)),
                    Poll::Ready(Ok(count)) => {
                        let count = u64::try_from(count).unwrap_or(0);
                        manager.stats.add(ManagerStat::DownstreamCxRxBytesTotal, count);
                    }
                    Poll::Pending => {
                        self.release();
                        let Some(begun) = self.begun else {
                            self.timer.set(manager.idle_timeout.map(|limit| waiting_since + limit));
                            return self.timer.poll(cx).map(|()| Err(NoRequest::Idle));
                        };
                        let head = manager.headers_timeout.or(manager.stream_idle_timeout);
                        let head = head.map(|limit| begun + limit);
                        let request = manager.request_timeout.map(|limit| begun + limit);
                        let is_request = request.is_some_and(|at| head.is_none_or(|head| at <= head));
                        let timeout =
                            if is_request { NoRequest::RequestTimeout } else { NoRequest::HeadersTimeout };
                        self.timer.set(earlier(head, request));
                        return self.timer.poll(cx).map(|()| Err(timeout));
                    }
                }
            }
        })
        .await
    }

    /// Gives up what only a request needs.
    fn release(&mut self) {
        if let Some(http1) = self.client.http1() {
            http1.release();
        }
        self.request.release();
        self.response.release();
        if self.scratch.capacity() > MAX_IDLE_SCRATCH {
            self.scratch = Vec::new();
        }
    }

    /// Answers the request in `request`.
    pub(super) async fn answer(&mut self, transaction: &mut Transaction<'m>) {
        let is_draining = self.is_draining();
        transaction.closes |= self.request.has_element("connection", b"close") || is_draining;
        if is_draining {
            self.manager.stats.increment(ManagerStat::DownstreamCxDrainClose);
        }
        // The host first: without it, nothing says whose request this is.
        let hosts = self.request.count("host");
        self.scratch.clear();
        self.scratch.extend_from_slice(self.request.get("host").unwrap_or_default());
        if hosts == 0 {
            return self.refuse_request(transaction, 400, "missing_host_header", "", None).await;
        }
        if hosts > 1 || !is_authority(&self.scratch) {
            return self.refuse_unread(transaction, 400, "http.invalid_authority", "Bad Request").await;
        }
        if !self.request.has_authority() {
            self.request.set_authority(&self.scratch);
        }
        let framing = match framing::of_request(&self.request) {
            Ok(framing) => framing,
            Err(HeadError::UnknownCoding) => {
                let details = "http1.invalid_transfer_encoding";
                return self.refuse_unread(transaction, 501, details, "Not Implemented").await;
            }
            Err(_) => {
                let details = match self.request.count("transfer-encoding") {
                    0 => "http1.codec_error",
                    _ => "http1.content_length_and_chunked_not_allowed",
                };
                return self.refuse_unread(transaction, 400, details, "Bad Request").await;
            }
        };
        if edits::names_what_stays(&self.request) {
            let details = "http1.connection_header_rejected";
            return self.refuse_unread(transaction, 400, details, "Bad Request").await;
        }
        // As Envoy at the edge: who connects here without TLS cannot have asked for that. Routes and policies on the scheme rely on it.
        if self.manager.use_remote_address && self.info.tls.is_none() && self.request.scheme() == b"https" {
            let details = "http1.https_url_on_plaintext_connection";
            return self.refuse_unread(transaction, 403, details, "Forbidden").await;
        }
        if self.request.has_element("connection", b"host") {
            // As Envoy, which removes it.
            self.request.set_authority(b"");
            return self.refuse_request(transaction, 400, "missing_host_header", "", None).await;
        }
        if self.request.path() == b"*" {
            return self.refuse_request(transaction, 404, "absolute_path_rejected", "", None).await;
        }
        // An upgrade that is not configured is refused, but for that to HTTP/2, which is optional.
        let is_upgrade = |name: &&[u8]| name.eq_ignore_ascii_case(b"upgrade");
        let upgrade = self.request.elements("connection").find(is_upgrade).map(<[u8]>::to_vec);
        // Several fields are one, as with Envoy: none of them alone is the protocol.
        if let Some((upgrade, protocol)) = upgrade.zip(self.request.joined("upgrade")) {
            if protocol.eq_ignore_ascii_case(b"h2c") {
                self.request.remove(b"http2-settings");
            } else {
                transaction.upgrade = Some((upgrade, protocol));
            }
        }
        // What follows CONNECT is not HTTP.
        let is_tunnel = self.request.method() == b"CONNECT";
        (transaction.closes, transaction.is_early) = (transaction.closes | is_tunnel, is_tunnel);
        let continues =
            self.request.get("expect").is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
        self.continue_and_route(transaction, framing, continues).await;
    }

    /// Answers the request in `request`, which came on a stream of HTTP/2.
    pub(super) async fn answer_http2(&mut self, transaction: &mut Transaction<'m>, framing: Framing) {
        if self.request.authority().is_empty() {
            return self.refuse_request(transaction, 400, "missing_host_header", "", None).await;
        }
        if self.request.path() == b"*" {
            return self.refuse_request(transaction, 404, "absolute_path_rejected", "", None).await;
        }
        let continues =
            self.request.get("expect").is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
        self.continue_and_route(transaction, framing, continues).await;
    }
}
