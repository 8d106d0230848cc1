//! A connection of a client with HTTP/1.1: requests one after the other, each answered before the next is read. What follows the head of a
//! request is the same for streams of HTTP/2.

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Poll;
use std::time::SystemTime;

use bytes::Buf as _;
use tokio::time::Instant;

use super::client::Client;
use super::filters::Call;
use super::framing::{self, Framing, Remaining};
use super::routes::{Found, Target, find_upgrade};
use super::serve::OfProtocol;
use super::{HttpManager, date, edits, hash, http2, redirect, reply};
use crate::access_log::Entry;
use crate::buffer;
use crate::connection_info::ConnectionInfo;
use crate::context::WorkerContext;
use crate::flags::{Flag, Flags};
use crate::head::{Head, HeadError, end_of_head, is_authority, is_bodiless};
use crate::stats::{Block, HttpStat, ManagerStat};
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
}

/// A request, as far as it went.
pub(super) struct Transaction<'m> {
    pub(super) start: SystemTime,
    pub(super) began: Instant,
    /// Decides what is chosen at random for it, as often as that is asked.
    pub(super) random: u64,
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
    pub(super) has_head: bool,
    /// The name of the route.
    route: &'m str,
    /// The headers `connection` and `upgrade` of a request to change the protocol.
    pub(super) upgrade: Option<(Vec<u8>, Vec<u8>)>,
    /// The client, if a proxy before says that it is another one than that of the connection; for access logs.
    client: Option<IpAddr>,
    /// The request in the filters that it has come to.
    pub(super) calls: Vec<Call>,
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

impl<'m> Transaction<'m> {
    /// Notes the route that was chosen.
    pub(super) fn take(&mut self, found: Option<Found<'m>>) {
        self.route = found.map_or("", |found| found.route.name.as_str());
        self.cluster = found.and_then(|found| found.cluster());
    }
}

/// Why there is no next request.
enum NoRequest {
    Closed,
    /// The connection begins as one of HTTP/2.
    Http2,
    Idle,
    HeadersTimeout,
    /// The filter chain was replaced or removed, and its drain time is over.
    Drained,
    Refused(HeadError),
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
        }
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
                Err(NoRequest::Closed) => return End::Remote,
                Err(NoRequest::Drained) => return End::Local,
                Err(NoRequest::Http2) => return End::Http2,
                Err(NoRequest::Idle) => {
                    self.manager.stats.increment(ManagerStat::DownstreamCxIdleTimeout);
                    return End::Local;
                }
                Err(NoRequest::HeadersTimeout) => {
                    self.manager.stats.increment(ManagerStat::DownstreamRqHeaderTimeout);
                    self.refuse(408, "request_header_timeout", Some("request header timeout"), Flag::Dpe)
                        .await;
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
            if transaction.is_aborted {
                return End::Remote;
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
        let mut begun: Option<Instant> = None;
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
                if !http1.input.is_empty() && begun.is_none() {
                    begun = Some(Instant::now());
                }
                match buffer::poll_read(&mut http1.stream, &mut http1.input, cx) {
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
        if let Some(http1) = self.client.http1() {
            http1.release();
        }
        self.request.release();
        self.response.release();
        if self.scratch.capacity() > MAX_IDLE_SCRATCH {
            self.scratch = Vec::new();
        }
    }

    pub(super) fn begin(&self) -> Transaction<'m> {
        let stats = &self.manager.stats;
        stats.increment(ManagerStat::DownstreamRqTotal);
        stats.increment(match self.client.is_http2() {
            true => ManagerStat::DownstreamRqHttp2Total,
            false => ManagerStat::DownstreamRqHttp1Total,
        });
        stats.increment(ManagerStat::DownstreamRqActive);
        Transaction {
            start: SystemTime::now(),
            began: Instant::now(),
            random: fastrand::u64(..),
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
            client: None,
            calls: Vec::new(),
            is_unchecked: false,
        }
    }

    /// Counts and logs a request.
    pub(super) fn end(&self, transaction: &mut Transaction<'_>) {
        let stats = &self.manager.stats;
        stats.decrement(ManagerStat::DownstreamRqActive);
        self.count_status(transaction.status);
        self.manager.request_time.observe(transaction.began.elapsed());
        if transaction.is_aborted {
            // A connection of HTTP/2 has other streams.
            if !self.client.is_http2() {
                stats.increment(ManagerStat::DownstreamCxDestroyActiveRq);
                stats.increment(ManagerStat::DownstreamCxDestroyRemoteActiveRq);
            }
            stats.increment(ManagerStat::DownstreamRqRxReset);
        }
        self.end_calls(transaction);
        if self.manager.logs.is_empty() && self.manager.log_streams.is_empty() {
            return;
        }
        let cluster = transaction.cluster.and_then(|cluster| self.worker.pool(cluster));
        let entry = Entry {
            start: transaction.start,
            duration: transaction.began.elapsed(),
            protocol: self.client.protocol(),
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
            client: transaction.client,
        };
        for (file, format) in &self.manager.logs {
            file.append(|out| format.write(&entry, out));
        }
        for log in &self.manager.log_streams {
            self.worker.logs.log(log, &self.worker.shared.node, &entry);
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
        if self.request.has_element("connection", b"host") {
            // As Envoy, which removes it.
            self.request.set_authority(b"");
            return self.refuse_request(transaction, 400, "missing_host_header", "", None).await;
        }
        if self.request.path() == b"*" {
            return self.refuse_request(transaction, 404, "absolute_path_rejected", "", None).await;
        }
        // An upgrade that is not configured is refused, but for that to HTTP/2, which is optional.
        let is_h2c = self.request.get("upgrade").is_some_and(|to| to.eq_ignore_ascii_case(b"h2c"));
        let upgrades = self.request.get("upgrade").is_some()
            && self.request.has_element("connection", b"upgrade")
            && !is_h2c;
        if upgrades {
            // Of the other names, those are removed; the next proxy is to remove nothing because this client says so.
            let mut names = self.request.elements("connection");
            let upgrade =
                names.find(|name| name.eq_ignore_ascii_case(b"upgrade")).unwrap_or_default().to_vec();
            let protocol = self.request.get("upgrade").unwrap_or_default().to_vec();
            transaction.upgrade = Some((upgrade, protocol));
        }
        // What follows CONNECT is not HTTP.
        transaction.closes |= self.request.method() == b"CONNECT";
        if is_h2c {
            self.request.remove(b"http2-settings");
        }
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

    /// Goes on with a request whose head is valid, of either protocol. `continues`: its client waits for a word before it sends the body.
    async fn continue_and_route(
        &mut self,
        transaction: &mut Transaction<'m>,
        framing: Framing,
        continues: bool,
    ) {
        if !self.normalize(transaction, framing).await {
            return;
        }
        if continues && framing != Framing::Empty && self.client.write_continue() {
            self.count_status(100);
        }
        if !self.manager.logs.is_empty() || !self.manager.log_streams.is_empty() {
            transaction.client = hash::told_client(&self.request, self.manager.use_remote_address);
        }
        edits::prepare_request(&mut self.request, self.manager, &self.info);
        self.route(transaction, framing).await;
    }

    /// Whether a request asks to change the protocol, and its route does not allow it.
    pub(super) fn refuses_upgrade(&self, transaction: &Transaction<'_>, found: Option<Found<'_>>) -> bool {
        transaction.upgrade.as_ref().is_some_and(|(_, protocol)| {
            let own = found.and_then(|found| found.route.target.allows_upgrade(protocol));
            !own.or_else(|| find_upgrade(&self.manager.upgrades, protocol)).unwrap_or(false)
        })
    }

    /// Refuses to change the protocol as a request asks.
    pub(super) async fn refuse_upgrade(
        &mut self,
        transaction: &mut Transaction<'m>,
        found: Option<Found<'m>>,
    ) {
        transaction.take(found);
        self.manager.stats.increment(ManagerStat::DownstreamRqWsOnNonWsRoute);
        self.refuse_request(transaction, 403, "upgrade_failed", "", None).await;
    }

    /// Chooses a route and does what it says.
    async fn route(&mut self, transaction: &mut Transaction<'m>, framing: Framing) {
        let manager = self.manager;
        let mut found = manager.routes.find(&self.request, transaction.random, &mut self.scratch);
        if self.refuses_upgrade(transaction, found) {
            return self.refuse_upgrade(transaction, found).await;
        }
        // If the protocol does not change, what follows may not be HTTP.
        transaction.closes |= transaction.upgrade.is_some();
        if !manager.filters.is_empty() {
            // Boxed: connections do not hold what filters take.
            match Box::pin(self.pass_filters(transaction, framing, found)).await {
                Some(now) => found = now,
                None => return,
            }
        }
        let _changing = transaction.upgrade.is_some().then(|| Changing::new(&manager.stats));
        manager.stats.increment(ManagerStat::RqTotal);
        let Some(Found { host, route, .. }) = found else {
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
                let cluster = found.and_then(|found| found.cluster());
                // Boxed: connections of clients do not hold what it takes.
                Box::pin(self.forward(transaction, framing, forward, cluster, &route.matching, levels)).await;
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
        let body = self.start_reply(transaction, status, body);
        self.send_reply(transaction, framing, body).await;
    }

    /// Makes `response` an answer with a text, in the form that the client understands. Returns its body.
    pub(super) fn start_reply<'b>(
        &mut self,
        transaction: &Transaction<'_>,
        status: u16,
        body: &'b str,
    ) -> &'b str {
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
            return "";
        }
        reply::local(&mut self.response, status, body);
        body
    }

    /// Sends the response in `response` with a body. A request with a body, which nobody reads, ends the connection.
    pub(super) async fn send_reply(
        &mut self,
        transaction: &mut Transaction<'_>,
        framing: Framing,
        body: &str,
    ) {
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
        // As Envoy: also if the body has arrived as a whole.
        transaction.closes |= !Remaining::of(framing).is_done();
        let has_body = !body.is_empty() && self.request.method() != b"HEAD";
        let framing = Framing::Length(if has_body { u64::try_from(body.len()).unwrap_or(0) } else { 0 });
        self.write_head(transaction, framing);
        if has_body {
            self.client.write_data(framing, body.as_bytes());
            self.client.write_end(framing, None);
            transaction.sent = u64::try_from(body.len()).unwrap_or(0);
        }
        if self.flush().await.is_err() {
            transaction.is_aborted = true;
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
        if transaction.closes && !is_http2 {
            self.response.set("connection", b"close");
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
