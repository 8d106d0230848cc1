//! A connection of a client: requests one after the other, each answered before the next is read.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::time::Instant;

use mixer_net::stream::Stream;

use super::framing::{self, Framing, Remaining};
use super::mixer::Passed;
use super::routes::{Route, Target, VirtualHost, find_upgrade};
use super::{HttpManager, date, edits, redirect, reply};
use crate::access_log::Entry;
use crate::buffer;
use crate::cluster::weighted;
use crate::connection_info::ConnectionInfo;
use crate::context::WorkerContext;
use crate::flags::{Flag, Flags};
use crate::head::{Head, HeadError, end_of_head, is_authority};
use crate::mixer::HttpCall;
use crate::stats::{Block, HttpStat, ManagerStat};
use crate::timer::{Timer, earlier};
use crate::upstream;

/// Time for a client to close after the last response, so that it is not lost by a reset.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes of working memory that an idle connection keeps.
const MAX_IDLE_SCRATCH: usize = 256;

/// The state of a connection. Buffers and heads are reused from request to request.
pub(super) struct Connection<'m> {
    pub(super) manager: &'m HttpManager,
    pub(super) worker: &'m Rc<WorkerContext>,
    pub(super) stream: Stream,
    pub(super) input: BytesMut,
    pub(super) output: BytesMut,
    pub(super) timer: Timer,
    pub(super) request: Head,
    pub(super) response: Head,
    pub(super) scratch: Vec<u8>,
    pub(super) info: Box<ConnectionInfo>,
}

/// A request, as far as it went.
pub(super) struct Transaction<'m> {
    start: SystemTime,
    pub(super) began: Instant,
    pub(super) status: u16,
    pub(super) details: &'static str,
    pub(super) flags: Flags,
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) upstream: Option<SocketAddr>,
    pub(super) cluster: Option<usize>,
    /// Whether the connection ends with this request.
    pub(super) closes: bool,
    /// Whether the client is gone.
    pub(super) is_aborted: bool,
    /// Whether there is a head to log.
    has_head: bool,
    /// The name of the route.
    route: &'m str,
    /// The headers `connection` and `upgrade` of a request to change the protocol.
    pub(super) upgrade: Option<(Vec<u8>, Vec<u8>)>,
    /// The request in the Mixer filter.
    pub(super) mixer: Option<Box<HttpCall>>,
    /// Whether it passed the Mixer filter without an answer.
    pub(super) is_unchecked: bool,
}

impl Transaction<'_> {
    /// The details of the response code, which tell that nobody has checked a request.
    fn shown_details(&self) -> &'static str {
        match (self.is_unchecked, self.details) {
            (true, "via_upstream") => "via_upstream{mixer_unchecked}",
            (true, "direct_response") => "direct_response{mixer_unchecked}",
            (_, details) => details,
        }
    }
}

/// A route, and its virtual host.
type Found<'m> = (&'m VirtualHost, &'m Route);

/// Whether a request asks to change the protocol, and its route does not allow it.
fn refuses_upgrade(manager: &HttpManager, transaction: &Transaction<'_>, found: Option<Found<'_>>) -> bool {
    transaction.upgrade.as_ref().is_some_and(|(_, protocol)| {
        let own = found.and_then(|(_, route)| route.target.allows_upgrade(protocol));
        !own.or_else(|| find_upgrade(&manager.upgrades, protocol)).unwrap_or(false)
    })
}

/// Why there is no next request.
enum NoRequest {
    Closed,
    Idle,
    HeadersTimeout,
    Refused(HeadError),
}

/// Serves a connection until it ends.
pub(crate) async fn serve(
    manager: &HttpManager,
    stream: Stream,
    info: Box<ConnectionInfo>,
    worker: &Rc<WorkerContext>,
) {
    let opened = Instant::now();
    let stats = &manager.stats;
    stats.increment(ManagerStat::DownstreamCxTotal);
    stats.increment(ManagerStat::DownstreamCxHttp1Total);
    stats.increment(ManagerStat::DownstreamCxActive);
    stats.increment(ManagerStat::DownstreamCxHttp1Active);
    let is_tls = info.tls.is_some();
    if is_tls {
        stats.increment(ManagerStat::DownstreamCxSslTotal);
        stats.increment(ManagerStat::DownstreamCxSslActive);
    }
    let _ended = Ended { manager, opened, is_tls };
    let mut connection = Connection {
        manager,
        worker,
        stream,
        input: BytesMut::new(),
        output: BytesMut::new(),
        timer: Timer::new(),
        request: Head::default(),
        response: Head::default(),
        scratch: Vec::new(),
        info,
    };
    let is_local = connection.run().await;
    stats.increment(match is_local {
        true => ManagerStat::DownstreamCxDestroyLocal,
        false => ManagerStat::DownstreamCxDestroyRemote,
    });
}

/// Counts a connection that is to change its protocol.
struct Changing<'m>(&'m Block<ManagerStat>);

impl<'m> Changing<'m> {
    fn new(stats: &'m Block<ManagerStat>) -> Self {
        stats.increment(ManagerStat::DownstreamCxUpgradesTotal);
        stats.increment(ManagerStat::DownstreamCxUpgradesActive);
        Self(stats)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.decrement(ManagerStat::DownstreamCxUpgradesActive);
    }
}

/// Counts the end of a connection, however it comes.
struct Ended<'m> {
    manager: &'m HttpManager,
    opened: Instant,
    is_tls: bool,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let stats = &self.manager.stats;
        if self.is_tls {
            stats.decrement(ManagerStat::DownstreamCxSslActive);
        }
        stats.decrement(ManagerStat::DownstreamCxActive);
        stats.decrement(ManagerStat::DownstreamCxHttp1Active);
        stats.increment(ManagerStat::DownstreamCxDestroy);
        self.manager.connection_length.observe(self.opened.elapsed());
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.input.clear();
        self.output.clear();
        self.release();
    }
}

impl<'m> Connection<'m> {
    /// Answers requests. Returns whether this side ends the connection.
    async fn run(&mut self) -> bool {
        let mut count = 0_u32;
        loop {
            match self.read_head().await {
                Ok(()) => {}
                Err(NoRequest::Closed) => return false,
                Err(NoRequest::Idle) => {
                    self.manager.stats.increment(ManagerStat::DownstreamCxIdleTimeout);
                    return true;
                }
                Err(NoRequest::HeadersTimeout) => {
                    self.manager.stats.increment(ManagerStat::DownstreamRqHeaderTimeout);
                    self.refuse(408, "request_header_timeout", Some("request header timeout"), Flag::Dpe)
                        .await;
                    return true;
                }
                Err(NoRequest::Refused(error)) => {
                    self.refuse_head(error).await;
                    return true;
                }
            }
            count = count.saturating_add(1);
            let mut transaction = self.begin();
            if self.manager.max_requests.is_some_and(|max| count >= max) {
                self.manager.stats.increment(ManagerStat::DownstreamCxMaxRequestsReached);
                transaction.closes = true;
            }
            self.answer(&mut transaction).await;
            self.end(&mut transaction);
            if transaction.is_aborted {
                return false;
            }
            if transaction.closes {
                self.close().await;
                return true;
            }
        }
    }

    /// Reads the next head into `request`.
    async fn read_head(&mut self) -> Result<(), NoRequest> {
        let manager = self.manager;
        let mut scanned = 0;
        let waiting_since = Instant::now();
        let mut begun: Option<Instant> = None;
        poll_fn(|cx| {
            loop {
                // Empty lines before a request line have no meaning.
                while scanned == 0 && self.input.starts_with(b"\r\n") {
                    self.input.advance(2);
                }
                match end_of_head(&self.input, &mut scanned, manager.max_head) {
                    Err(error) => return Poll::Ready(Err(NoRequest::Refused(error))),
                    Ok(Some(end)) => {
                        let text = self.input.get(..end).unwrap_or_default();
                        self.request.acquire();
                        self.response.acquire();
                        buffer::acquire(&mut self.output);
                        let read = self.request.read_request(text, manager.max_fields);
                        self.input.advance(end);
                        return Poll::Ready(read.map_err(NoRequest::Refused));
                    }
                    Ok(None) => {}
                }
                if !self.input.is_empty() && begun.is_none() {
                    begun = Some(Instant::now());
                }
                match buffer::poll_read(&mut self.stream, &mut self.input, cx) {
                    Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(Err(NoRequest::Closed)),
                    Poll::Ready(Ok(count)) => {
                        let count = u64::try_from(count).unwrap_or(0);
                        manager.stats.add(ManagerStat::DownstreamCxRxBytesTotal, count);
                    }
                    Poll::Pending => {
                        self.release();
                        let idle = manager.idle_timeout.map(|limit| waiting_since + limit);
                        let head = begun.and_then(|begun| {
                            Some(begun + manager.headers_timeout.or(manager.stream_idle_timeout)?)
                        });
                        let idle = if begun.is_some() { None } else { idle };
                        self.timer.set(earlier(idle, head));
                        let timeout =
                            if head.is_some() { NoRequest::HeadersTimeout } else { NoRequest::Idle };
                        return self.timer.poll(cx).map(|()| Err(timeout));
                    }
                }
            }
        })
        .await
    }

    /// Gives up what only a request needs.
    fn release(&mut self) {
        buffer::release(&mut self.input);
        buffer::release(&mut self.output);
        self.request.release();
        self.response.release();
        if self.scratch.capacity() > MAX_IDLE_SCRATCH {
            self.scratch = Vec::new();
        }
    }

    fn begin(&self) -> Transaction<'m> {
        let stats = &self.manager.stats;
        stats.increment(ManagerStat::DownstreamRqTotal);
        stats.increment(ManagerStat::DownstreamRqHttp1Total);
        stats.increment(ManagerStat::DownstreamRqActive);
        Transaction {
            start: SystemTime::now(),
            began: Instant::now(),
            status: 0,
            details: "",
            flags: Flags::default(),
            received: 0,
            sent: 0,
            upstream: None,
            cluster: None,
            closes: false,
            is_aborted: false,
            has_head: true,
            route: "",
            upgrade: None,
            mixer: None,
            is_unchecked: false,
        }
    }

    /// Counts and logs a request.
    fn end(&self, transaction: &mut Transaction<'_>) {
        let stats = &self.manager.stats;
        stats.decrement(ManagerStat::DownstreamRqActive);
        self.count_status(transaction.status);
        self.manager.request_time.observe(transaction.began.elapsed());
        if transaction.is_aborted {
            stats.increment(ManagerStat::DownstreamCxDestroyActiveRq);
            stats.increment(ManagerStat::DownstreamCxDestroyRemoteActiveRq);
            stats.increment(ManagerStat::DownstreamRqRxReset);
        }
        self.report_to_mixer(transaction);
        if self.manager.logs.is_empty() {
            return;
        }
        let cluster = transaction.cluster.and_then(|cluster| self.worker.pool(cluster));
        let entry = Entry {
            start: transaction.start,
            duration: transaction.began.elapsed(),
            request: transaction.has_head.then_some(&self.request),
            response: Some(&self.response),
            status: transaction.status,
            details: transaction.shown_details(),
            flags: transaction.flags,
            received: transaction.received,
            sent: transaction.sent,
            upstream: transaction.upstream,
            cluster: cluster.map_or("", |pool| pool.cluster.config.name.as_str()),
            route: transaction.route,
            connection: &self.info,
        };
        for (file, format) in &self.manager.logs {
            file.append(|out| format.write(&entry, out));
        }
    }

    fn count_status(&self, status: u16) {
        let (stat, listener_stat) = match status / 100 {
            1 => (ManagerStat::DownstreamRq1xx, HttpStat::DownstreamRq1xx),
            2 => (ManagerStat::DownstreamRq2xx, HttpStat::DownstreamRq2xx),
            3 => (ManagerStat::DownstreamRq3xx, HttpStat::DownstreamRq3xx),
            4 => (ManagerStat::DownstreamRq4xx, HttpStat::DownstreamRq4xx),
            5 => (ManagerStat::DownstreamRq5xx, HttpStat::DownstreamRq5xx),
            _ => return,
        };
        self.manager.stats.increment(stat);
        self.manager.stats.increment(ManagerStat::DownstreamRqCompleted);
        self.manager.listener_stats.increment(listener_stat);
        self.manager.listener_stats.increment(HttpStat::DownstreamRqCompleted);
    }

    /// Answers the request in `request`.
    async fn answer(&mut self, transaction: &mut Transaction<'m>) {
        transaction.closes |= self.request.has_element("connection", b"close") || self.worker.is_draining();
        if self.worker.is_draining() {
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
        if self.request.path() == b"*" {
            return self.refuse_request(transaction, 404, "absolute_path_rejected", "", None).await;
        }
        if !self.normalize(transaction, framing).await {
            return;
        }
        // An upgrade that is not configured is refused, but for that to HTTP/2, which is optional.
        let is_h2c = self.request.get("upgrade").is_some_and(|to| to.eq_ignore_ascii_case(b"h2c"));
        let upgrades = self.request.get("upgrade").is_some()
            && self.request.has_element("connection", b"upgrade")
            && !is_h2c;
        if upgrades {
            let value = |name: &str| self.request.get(name).unwrap_or_default().to_vec();
            transaction.upgrade = Some((value("connection"), value("upgrade")));
        }
        // What follows CONNECT is not HTTP.
        transaction.closes |= self.request.method() == b"CONNECT";
        if is_h2c {
            self.request.remove(b"http2-settings");
        }
        let continues =
            self.request.get("expect").is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
        if continues && framing != Framing::Empty && self.input.is_empty() {
            self.output.put_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            self.count_status(100);
        }
        edits::prepare_request(&mut self.request, self.manager, &self.info);
        self.route(transaction, framing).await;
    }

    /// Refuses to change the protocol as a request asks.
    async fn refuse_upgrade(&mut self, transaction: &mut Transaction<'m>, found: Option<Found<'m>>) {
        if let Some((_, route)) = found {
            transaction.route = &route.name;
            if let Target::Forward(forward) = &route.target {
                transaction.cluster = weighted(&forward.clusters).flatten();
            }
        }
        self.manager.stats.increment(ManagerStat::DownstreamRqWsOnNonWsRoute);
        self.refuse_request(transaction, 403, "upgrade_failed", "", None).await;
    }

    /// Chooses a route and does what it says.
    async fn route(&mut self, transaction: &mut Transaction<'m>, framing: Framing) {
        let manager = self.manager;
        let mut found = manager.routes.find(&self.request, &mut self.scratch);
        if refuses_upgrade(manager, transaction, found) {
            return self.refuse_upgrade(transaction, found).await;
        }
        // If the protocol does not change, what follows may not be HTTP.
        transaction.closes |= transaction.upgrade.is_some();
        if let Some(filter) = &manager.mixer {
            let service = found.and_then(|(_, route)| route.mixer.as_ref());
            match self.pass_mixer(transaction, framing, filter, service).await {
                Passed::No => return,
                Passed::Yes => {}
                Passed::Changed => {
                    found = manager.routes.find(&self.request, &mut self.scratch);
                    if refuses_upgrade(manager, transaction, found) {
                        return self.refuse_upgrade(transaction, found).await;
                    }
                }
            }
        }
        let _changing = transaction.upgrade.is_some().then(|| Changing::new(&manager.stats));
        manager.stats.increment(ManagerStat::RqTotal);
        let Some((host, route)) = found else {
            manager.stats.increment(ManagerStat::NoRoute);
            transaction.flags.set(Flag::NR);
            transaction.details = "route_not_found";
            return self.reply(transaction, framing, 404, "").await;
        };
        transaction.route = &route.name;
        let levels = [&route.edits, &host.edits, &manager.routes.edits];
        match &route.target {
            Target::Direct(status, body) => {
                manager.stats.increment(ManagerStat::RqDirectResponse);
                transaction.details = "direct_response";
                reply::local(&mut self.response, *status, body);
                edits::edit_response(&mut self.response, levels);
                self.send_reply(transaction, framing, body).await;
            }
            Target::Redirect(target) => {
                // Envoy counts a redirect as a direct response, and `rq_redirect` stays 0.
                manager.stats.increment(ManagerStat::RqDirectResponse);
                transaction.details = "direct_response";
                redirect::location(target, &route.matching, &self.request, &mut self.scratch);
                reply::local(&mut self.response, target.status, "");
                self.response.add("location", &self.scratch);
                edits::edit_response(&mut self.response, levels);
                self.send_reply(transaction, framing, "").await;
            }
            Target::Forward(forward) => {
                self.forward(transaction, framing, forward, &route.matching, levels).await;
            }
        }
    }

    /// Answers with a text.
    pub(super) async fn reply(
        &mut self,
        transaction: &mut Transaction<'_>,
        framing: Framing,
        status: u16,
        body: &str,
    ) {
        let is_grpc = self
            .request
            .get("content-type")
            .is_some_and(|kind| kind == b"application/grpc" || kind.starts_with(b"application/grpc+"));
        if is_grpc && transaction.status == 0 {
            self.response.start_response(200);
            self.response.add("content-type", b"application/grpc");
            self.response.add("grpc-status", reply::grpc_status(status).as_bytes());
            if !body.is_empty() {
                self.response.add("grpc-message", reply::grpc_message(body).as_bytes());
            }
            return self.send_reply(transaction, framing, "").await;
        }
        reply::local(&mut self.response, status, body);
        self.send_reply(transaction, framing, body).await;
    }

    /// Sends the response in `response` with a body. A request with a body, which nobody reads, ends the connection.
    pub(super) async fn send_reply(
        &mut self,
        transaction: &mut Transaction<'_>,
        framing: Framing,
        body: &str,
    ) {
        let is_empty = body.is_empty();
        if is_empty
            && self.response.get("content-length").is_none()
            && !matches!(self.response.status, 204 | 304)
        {
            self.response.add("content-length", b"0");
        }
        // As Envoy: also if the body has arrived as a whole.
        transaction.closes |= !Remaining::of(framing).is_done();
        self.write_head(transaction, Framing::Length(u64::try_from(body.len()).unwrap_or(0)));
        if self.request.method() != b"HEAD" {
            self.output.put_slice(body.as_bytes());
            transaction.sent = u64::try_from(body.len()).unwrap_or(0);
        }
        if self.flush().await.is_err() {
            transaction.is_aborted = true;
        }
    }

    /// Writes the head of the response; the framing is that of its body.
    pub(super) fn write_head(&mut self, transaction: &mut Transaction<'_>, framing: Framing) {
        if let Some(call) = &transaction.mixer {
            call.edit_response(&mut self.response);
        }
        transaction.status = self.response.status;
        if framing == Framing::Chunked {
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
        if transaction.closes {
            self.response.set("connection", b"close");
        }
        reply::write_status(self.response.status, &mut self.output);
        self.response.write_fields(&mut self.output);
        self.output.put_slice(b"\r\n");
    }

    /// Writes everything.
    pub(super) async fn flush(&mut self) -> std::io::Result<()> {
        let limit = self.manager.stream_idle_timeout.map(|limit| Instant::now() + limit);
        let (stream, output, timer) = (&mut self.stream, &mut self.output, &mut self.timer);
        let mut count = 0;
        timer.set(limit);
        let flushed = poll_fn(|cx| {
            while buffer::has_output(stream, output) {
                match buffer::poll_write(stream, output, cx) {
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
        transaction.details = details;
        if let Some(flag) = flag {
            transaction.flags.set(flag);
        }
        reply::local(&mut self.response, status, body);
        self.send_reply(transaction, Framing::Empty, body).await;
    }

    /// As [`refuse_request`](Self::refuse_request), of a head that cannot be trusted: none of it is logged.
    async fn refuse_unread(
        &mut self,
        transaction: &mut Transaction<'_>,
        status: u16,
        details: &'static str,
        body: &str,
    ) {
        self.manager.stats.increment(ManagerStat::DownstreamCxProtocolError);
        transaction.has_head = false;
        self.refuse_request(transaction, status, details, body, Some(Flag::Dpe)).await;
    }

    /// Answers what is no request, and ends the connection.
    async fn refuse_head(&mut self, error: HeadError) {
        let (status, details, body) = match error {
            HeadError::OldVersion => (426, "low_version", "Upgrade Required"),
            HeadError::TooLarge => (431, "http1.headers_too_large", "Request Header Fields Too Large"),
            HeadError::TooManyFields => (431, "http1.too_many_headers", "Request Header Fields Too Large"),
            HeadError::UnknownCoding => (501, "http1.unsupported_transfer_encoding", "Not Implemented"),
            HeadError::Malformed | HeadError::Framing => (400, "http1.codec_error", "Bad Request"),
        };
        self.manager.stats.increment(ManagerStat::DownstreamCxProtocolError);
        if status == 431 {
            self.manager.stats.increment(ManagerStat::DownstreamRqTooLarge);
        }
        self.refuse(status, details, Some(body), Flag::Dpe).await;
    }

    async fn refuse(&mut self, status: u16, details: &'static str, body: Option<&str>, flag: Flag) {
        let mut transaction = self.begin();
        transaction.has_head = false;
        transaction.closes = true;
        transaction.details = details;
        transaction.flags.set(flag);
        self.request = Head::default();
        reply::local(&mut self.response, status, body.unwrap_or_default());
        self.send_reply(&mut transaction, Framing::Empty, body.unwrap_or_default()).await;
        self.end(&mut transaction);
        self.close().await;
    }

    /// Ends the connection: no more is sent, and what the client sends is dropped until it closes, too, or for a second.
    async fn close(&mut self) {
        upstream::close(&mut self.stream, &mut self.output).await;
        let (stream, input) = (&mut self.stream, &mut self.input);
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
