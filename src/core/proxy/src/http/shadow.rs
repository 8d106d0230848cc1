//! Copies of requests, as `request_mirror_policies` ask for: sent beside the request, with the response dropped.
//!
//! A copy has the head of the request as its host gets it, and its body as it is read. It is a task of its own that takes the way of any other
//! request through the router; its client is [`CopyReader`], which reads what [`CopyWriter`] was given of the body. The request never waits for
//! it: a copy whose host does not keep up ends, and so does one of a request that ends early. What copies hold is bounded, each and of a worker.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::HeaderMap;

use super::HttpManager;
use super::client::{Client, Progress, ReadEnd};
use super::connection::Connection;
use super::exchange::RequestBody;
use super::framing::{Framing, Remaining};
use super::pieces::{self, Pieces};
use super::routes::{Forward, RouteTable};
use crate::bootstrap::{
    Codec, Http2Options, MatchConfig, MirrorCluster, MirrorConfig, Normalization, PathMatch, RouteTableConfig,
};
use crate::buffer::READ_SIZE;
use crate::connection_info::ConnectionInfo;
use crate::context::{Shared, WorkerContext};
use crate::copies::Held;
use crate::head::Head;
use crate::stats::{ClusterStat, Scope, Stats};

/// Bytes of a body that may wait for the host of a copy.
const MAX_BEHIND: usize = 1 << 20;
/// Bytes that a copy takes beside its head and what waits of its body: its task, and the buffers of its connection, to which no more than
/// [`READ_SIZE`] of the body is passed at once.
const OVERHEAD: usize = 3 * READ_SIZE;
/// What a fraction of all requests is.
const MILLION: u32 = 1_000_000;

/// Where the copies of a route go.
#[derive(Debug)]
pub(crate) struct Mirror {
    cluster: Destination,
    /// How many of a million requests are copied.
    fraction: u32,
    marks_host: bool,
}

#[derive(Debug)]
enum Destination {
    /// `None` if it does not exist.
    Cluster(Option<usize>),
    /// The name of the cluster is the value of this header.
    Header(String),
}

impl Mirror {
    /// `cluster` gives the index of a cluster by its name.
    pub(super) fn new(config: &MirrorConfig, cluster: impl Fn(&str) -> Option<usize>) -> Self {
        let destination = match &config.cluster {
            MirrorCluster::Name(name) => Destination::Cluster(cluster(name)),
            MirrorCluster::Header(name) => Destination::Header(name.clone()),
        };
        Self { cluster: destination, fraction: config.fraction, marks_host: config.marks_host }
    }

    /// The cluster that a copy of this request goes to; `None` if there is none.
    fn cluster(&self, head: &Head, shared: &Shared) -> Option<usize> {
        match &self.cluster {
            Destination::Cluster(cluster) => *cluster,
            Destination::Header(name) => {
                let named = head.pseudo_or_field(name)?;
                shared.clusters.iter().position(|cluster| cluster.config.name.as_bytes() == named)
            }
        }
    }

    fn takes_next(&self) -> bool {
        self.fraction >= MILLION || fastrand::u32(..MILLION) < self.fraction
    }
}

/// What the copies of a connection manager are sent with: it counts and logs nothing of its own.
#[derive(Debug)]
pub(crate) struct Copier {
    manager: HttpManager,
    matching: MatchConfig,
}

impl Copier {
    /// Of a connection manager whose streams end when nothing has happened for so long.
    pub(crate) fn new(stream_idle_timeout: Option<Duration>) -> Self {
        // Shown by nobody.
        let stats = Stats::default();
        let manager = HttpManager {
            codec: Codec::Http1,
            http2: Http2Options::CLIENT,
            server_name: String::new(),
            routes: RouteTable::new(&RouteTableConfig::default(), &[], |_| None),
            copier: None,
            filters: Vec::new(),
            logs: Vec::new(),
            log_streams: Vec::new(),
            use_remote_address: false,
            generate_request_id: false,
            preserve_external_request_id: false,
            request_id_in_response: false,
            idle_timeout: None,
            stream_idle_timeout,
            request_timeout: None,
            headers_timeout: None,
            max_head: 0,
            max_fields: 0,
            max_requests: None,
            upgrades: Vec::new(),
            normalization: Normalization::default(),
            stats: stats.block(&Scope::Root),
            listener_stats: stats.block(&Scope::Root),
            http2_stats: stats.block(&Scope::Root),
            request_time: stats.histogram(&Scope::Root, "downstream_rq_time"),
            connection_length: stats.histogram(&Scope::Root, "downstream_cx_length_ms"),
        };
        let path = PathMatch::Prefix(String::new());
        let matching = MatchConfig { path, case_sensitive: true, headers: Vec::new() };
        Self { manager, matching }
    }
}

/// The body of a copy, between the request and the copy.
#[derive(Debug)]
struct Body {
    state: RefCell<State>,
    held: Held,
}

#[derive(Debug, Default)]
struct State {
    data: Pieces,
    trailers: Option<HeaderMap>,
    end: Option<BodyEnd>,
    waker: Option<Waker>,
}

/// Why nothing follows in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyEnd {
    /// It is whole.
    Complete,
    /// The request ended early, or the copy did.
    Cut,
    /// The host of the copy does not keep up.
    Behind,
}

impl Body {
    fn new(held: Held) -> Rc<Self> {
        Rc::new(Self { state: RefCell::default(), held })
    }

    /// Ends it, unless it has ended.
    fn end(&self, end: BodyEnd, trailers: Option<HeaderMap>) {
        let mut state = self.state.borrow_mut();
        if state.end.is_some() {
            return;
        }
        state.end = Some(end);
        state.trailers = trailers;
        if end != BodyEnd::Complete {
            self.held.shrink(state.data.allocated());
            state.data = Pieces::default();
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn is_behind(&self) -> bool {
        self.state.borrow().end == Some(BodyEnd::Behind)
    }
}

/// Takes the body of a request for a copy. Dropped before the end of it, the copy ends, too.
#[derive(Debug)]
pub(super) struct CopyWriter(Rc<Body>);

impl CopyWriter {
    /// Adds data.
    pub(super) fn write(&self, data: &[u8]) {
        let mut state = self.0.state.borrow_mut();
        if state.end.is_some() {
            return;
        }
        if state.data.len() + data.len() > MAX_BEHIND
            || !state.data.push(data, |bytes| self.0.held.grow(bytes))
        {
            drop(state);
            return self.0.end(BodyEnd::Behind, None);
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// The body is whole.
    pub(super) fn complete(&self, trailers: Option<HeaderMap>) {
        self.0.end(BodyEnd::Complete, trailers);
    }
}

impl Drop for CopyWriter {
    fn drop(&mut self) {
        self.0.end(BodyEnd::Cut, None);
    }
}

/// The client of a copy: the body comes from the request, and the response goes nowhere.
#[derive(Debug)]
pub(super) struct CopyReader(Rc<Body>);

impl CopyReader {
    /// Passes data of the body to `take`, if it `wants` any.
    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        rest: &mut Remaining,
        wants: bool,
        mut take: impl FnMut(&[u8]),
    ) -> Progress {
        let mut progress = Progress::default();
        let mut state = self.0.state.borrow_mut();
        state.waker = Some(cx.waker().clone());
        if matches!(state.end, Some(BodyEnd::Cut | BodyEnd::Behind)) {
            return Progress { end: Some(ReadEnd::Gone), ..progress };
        }
        if !wants || rest.is_done() {
            return progress;
        }
        // One at a time: what is passed on waits elsewhere, where it is not counted.
        let piece = state.data.pop();
        if let Some(piece) = &piece {
            self.0.held.shrink(pieces::allocated(piece));
        }
        if state.data.is_empty() && state.end == Some(BodyEnd::Complete) {
            *rest = Remaining::Done;
        }
        drop(state);
        let piece = piece.unwrap_or_default();
        let count = piece.len();
        if count > 0 {
            take(&piece);
        }
        progress.data = count;
        progress.moved = count > 0 || rest.is_done();
        progress
    }

    /// Ready once the copy is to end before it is answered.
    pub(super) fn poll_gone(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.0.state.borrow_mut();
        state.waker = Some(cx.waker().clone());
        match state.end {
            Some(BodyEnd::Cut | BodyEnd::Behind) => Poll::Ready(()),
            Some(BodyEnd::Complete) | None => Poll::Pending,
        }
    }

    /// The trailers of a request whose body was read.
    pub(super) fn take_trailers(&self) -> Option<HeaderMap> {
        self.0.state.borrow_mut().trailers.take()
    }
}

impl Drop for CopyReader {
    fn drop(&mut self) {
        // Nobody reads what follows.
        self.0.end(BodyEnd::Cut, None);
    }
}

/// A copy of a request, before it is sent.
struct CopyTask {
    copier: Arc<Copier>,
    worker: Rc<WorkerContext>,
    cluster: usize,
    head: Head,
    framing: Framing,
    timeout: Option<Duration>,
    info: ConnectionInfo,
    body: Rc<Body>,
}

impl CopyTask {
    /// Sends it, and drops the response.
    async fn send(self) {
        let Self { copier, worker, cluster, head, framing, timeout, info, body } = self;
        let client = Client::Copy(CopyReader(Rc::clone(&body)), Remaining::of(framing).is_done());
        let mut connection = Connection::new(&copier.manager, &worker, client, Rc::new(info));
        connection.request = head;
        connection.response.acquire();
        let mut transaction = connection.begin();
        let forward = Forward::of_copy(timeout);
        connection.forward(&mut transaction, framing, &forward, Some(cluster), &copier.matching).await;
        if body.is_behind() {
            count_overflow(&worker, cluster);
        }
        drop(connection.finish());
    }
}

/// Counts a copy that is not sent, or not to its end, because copies hold too much.
fn count_overflow(worker: &WorkerContext, cluster: usize) {
    if let Some(pool) = worker.pool(cluster) {
        pool.cluster.stats.block.increment(ClusterStat::UpstreamRqPendingOverflow);
    }
}

impl Connection<'_> {
    /// Begins the copies of the request in `request` that its route asks for. Nothing of its body was read.
    pub(super) fn start_copies(&self, forward: &Forward, body: &mut RequestBody) {
        let Some(copier) = &self.manager.copier else { return };
        for mirror in forward.mirrors.iter().filter(|mirror| mirror.takes_next()) {
            let Some(cluster) = mirror.cluster(&self.request, &self.worker.shared) else { continue };
            let head = self.copied_head(mirror);
            let Some(held) = self.worker.copies.hold(head.allocated() + OVERHEAD) else {
                count_overflow(self.worker, cluster);
                continue;
            };
            let own = Body::new(held);
            let writer = CopyWriter(Rc::clone(&own));
            let copy = CopyTask {
                copier: Arc::clone(copier),
                worker: Rc::clone(self.worker),
                cluster,
                head,
                framing: body.framing,
                timeout: forward.timeout,
                info: ConnectionInfo {
                    is_local_restored: self.info.is_local_restored,
                    ..ConnectionInfo::new(self.info.remote, self.info.local)
                },
                body: own,
            };
            // Boxed: the group would hold it twice.
            self.worker.copies.spawn(Box::pin(copy.send()));
            match body.remaining.is_done() {
                true => writer.complete(None),
                false => body.copies.push(writer),
            }
        }
    }

    /// The head of a copy: as Envoy's, it tells that a proxy sent it.
    fn copied_head(&self, mirror: &Mirror) -> Head {
        let mut head = self.request.clone();
        // Its own connection may have another protocol.
        head.remove(b"transfer-encoding");
        if mirror.marks_host {
            head.set_authority(&marked(self.request.authority()));
        }
        head.set("x-envoy-internal", b"true");
        head.append("x-forwarded-for", self.info.local.ip().to_string().as_bytes());
        head
    }
}

/// A host with `-shadow` behind its name, before its port.
fn marked(authority: &[u8]) -> Vec<u8> {
    let after = memchr::memrchr(b']', authority).map_or(0, |at| at + 1);
    let port = authority.get(after..).and_then(|rest| memchr::memchr(b':', rest));
    let end = port.map_or(authority.len(), |at| after + at);
    let (name, port) = authority.split_at_checked(end).unwrap_or((authority, b""));
    [name, b"-shadow", port].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::{Copies, MAX_HELD};

    fn held(copies: &Copies) -> usize {
        copies.held()
    }

    fn read(reader: &mut CopyReader, rest: &mut Remaining, wants: bool) -> (Vec<u8>, Progress) {
        let mut data = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        let progress = reader.poll_body(&mut cx, rest, wants, |piece| data.extend_from_slice(piece));
        (data, progress)
    }

    #[test]
    fn hosts_are_marked_before_their_port() {
        for (host, expected) in [
            ("a.test", "a.test-shadow"),
            ("a.test:80", "a.test-shadow:80"),
            ("[::1]", "[::1]-shadow"),
            ("[::1]:80", "[::1]-shadow:80"),
            ("a:", "a-shadow:"),
        ] {
            assert_eq!(marked(host.as_bytes()), expected.as_bytes(), "{host}");
        }
    }

    #[test]
    fn a_body_arrives_in_order_and_what_it_holds_is_given_back() {
        let copies = Copies::default();
        let body = Body::new(copies.hold(100).unwrap());
        let (writer, mut reader) = (CopyWriter(Rc::clone(&body)), CopyReader(body));
        let mut rest = Remaining::UntilClose;
        writer.write(b"abc");
        writer.write(b"de");
        let piece = held(&copies) - 100;
        assert!(piece > 5, "memory counts, not what is in it: {piece}");
        let (data, progress) = read(&mut reader, &mut rest, false);
        assert!(data.is_empty() && !progress.moved, "it is not wanted yet");
        let (data, progress) = read(&mut reader, &mut rest, true);
        assert_eq!((data.as_slice(), progress.data, progress.end), (&b"abcde"[..], 5, None));
        assert_eq!((held(&copies), rest.is_done()), (100, false));
        let mut trailers = HeaderMap::new();
        trailers.insert("t", http::HeaderValue::from_static("x"));
        writer.complete(Some(trailers));
        drop(writer);
        let (data, progress) = read(&mut reader, &mut rest, true);
        assert!(data.is_empty() && progress.moved && rest.is_done(), "{progress:?}");
        assert_eq!(reader.take_trailers().map(|trailers| trailers.len()), Some(1));
        drop(reader);
        assert_eq!(held(&copies), 0);
    }

    #[test]
    fn a_copy_that_is_too_far_behind_ends_and_so_does_one_of_a_request_that_ends_early() {
        let copies = Copies::default();
        let new = || {
            let body = Body::new(copies.hold(0).unwrap());
            (CopyWriter(Rc::clone(&body)), CopyReader(body))
        };
        let cx = Context::from_waker(Waker::noop());
        let (writer, mut reader) = new();
        writer.write(&vec![0; MAX_BEHIND]);
        assert_eq!(reader.poll_gone(&cx), Poll::Pending);
        assert!((MAX_BEHIND..MAX_BEHIND + MAX_BEHIND / 16).contains(&held(&copies)), "{}", held(&copies));
        writer.write(b"x");
        assert_eq!((held(&copies), reader.poll_gone(&cx)), (0, Poll::Ready(())));
        assert!(reader.0.is_behind());
        let (data, progress) = read(&mut reader, &mut Remaining::UntilClose, true);
        assert_eq!((data.len(), progress.end), (0, Some(ReadEnd::Gone)));
        writer.write(b"x");
        assert_eq!(held(&copies), 0, "nothing is kept for it");
        let (writer, reader) = new();
        writer.write(b"abc");
        drop(writer);
        assert_eq!((reader.poll_gone(&cx), reader.0.is_behind()), (Poll::Ready(()), false));
        let (writer, reader) = new();
        drop(reader);
        writer.write(b"abc");
        assert_eq!(held(&copies), 0, "a copy that was answered reads no more");
    }

    #[test]
    fn the_copies_of_a_worker_have_a_bound() {
        let copies = Copies::default();
        let most = copies.hold(MAX_HELD - 1).unwrap();
        assert!(copies.hold(2).is_none());
        let body = Body::new(copies.hold(0).unwrap());
        let writer = CopyWriter(Rc::clone(&body));
        writer.write(b"ab");
        assert!(body.is_behind(), "no room is left");
        drop(most);
        assert_eq!(held(&copies), 0);
        assert!(copies.hold(MAX_HELD).is_some());
    }

    #[test]
    fn fractions_choose_that_part_of_the_requests() {
        let of = |fraction| Mirror { cluster: Destination::Cluster(None), fraction, marks_host: true };
        let count = |fraction| {
            let mirror = of(fraction);
            (0..10_000).filter(|_| mirror.takes_next()).count()
        };
        assert_eq!((count(0), count(MILLION), count(u32::MAX)), (0, 10_000, 10_000));
        let half = count(MILLION / 2);
        assert!((4_000..6_000).contains(&half), "{half}");
    }
}
