//! The network filter tcp_proxy: bytes in both directions, with back-pressure and half-close.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use tokio::time::Instant;

use mixer_net::stream::Stream;

use crate::access_log::{AccessLogFile, Entry, Format};
use crate::buffer::{self, HIGH_WATERMARK};
use crate::cluster::{self, Kind, Wanted, weighted};
use crate::connection_info::ConnectionInfo;
use crate::context::WorkerContext;
use crate::flags::{Flag, Flags};
use crate::log_stream::LogStream;
use crate::mixer::{Bytes, Peer, TcpCall, TcpFilter};
use crate::stats::{Block, ClusterStat, TcpStat};
use crate::timer::{Timer, earlier};
use crate::upstream::{Protocol, Upstream};

/// How long the last bytes of a host may wait for a client that takes none of them, on a connection that ends with its host.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two looks at a side that is not read from.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// A TCP proxy as it serves.
#[derive(Debug)]
pub(crate) struct TcpProxy {
    /// Clusters and their weights; `None` for one that does not exist.
    pub(crate) clusters: Vec<(Option<usize>, u32)>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) logs: Vec<(Arc<AccessLogFile>, Format)>,
    pub(crate) log_streams: Vec<Arc<LogStream>>,
    pub(crate) stats: Arc<Block<TcpStat>>,
    /// The filter `mixer` before it.
    pub(crate) mixer: Option<Box<TcpFilter>>,
}

/// What happened, for the access log.
#[derive(Default)]
struct Outcome {
    flags: Flags,
    received: u64,
    sent: u64,
    upstream: Option<SocketAddr>,
    cluster: Option<usize>,
}

impl TcpProxy {
    /// Serves a connection until both directions have ended.
    pub(crate) async fn serve(
        &self,
        mut downstream: Stream,
        info: &ConnectionInfo,
        worker: &Rc<WorkerContext>,
    ) {
        let (start, begun) = (SystemTime::now(), Instant::now());
        self.stats.increment(TcpStat::DownstreamCxTotal);
        let mut outcome = Outcome::default();
        let mut call =
            self.mixer.as_ref().map(|filter| filter.begin(&Peer::of(info), info.local, &worker.mixer));
        self.forward(&mut downstream, info, worker, &mut outcome, &mut call).await;
        if let Some(call) = call {
            call.close(Bytes { received: outcome.received, sent: outcome.sent }, outcome.upstream);
        }
        drop(downstream);
        let cluster = outcome.cluster.and_then(|cluster| worker.pool(cluster));
        let entry = Entry {
            start,
            duration: begun.elapsed(),
            protocol: "-",
            request: None,
            response: None,
            status: 0,
            details: "",
            flags: outcome.flags,
            received: outcome.received,
            sent: outcome.sent,
            upstream: outcome.upstream,
            cluster: cluster.map_or("", |pool| pool.cluster.config.name.as_str()),
            route: "",
            connection: info,
            client: None,
        };
        for (file, format) in &self.logs {
            file.append(|out| format.write(&entry, out));
        }
        for log in &self.log_streams {
            worker.logs.log(log, &worker.shared.node, &entry);
        }
    }

    async fn forward(
        &self,
        downstream: &mut Stream,
        info: &ConnectionInfo,
        worker: &Rc<WorkerContext>,
        outcome: &mut Outcome,
        call: &mut Option<TcpCall<'_>>,
    ) {
        let chosen = weighted(&self.clusters, fastrand::u64(..)).flatten();
        let Some((chosen, pool)) = chosen.and_then(|cluster| Some((cluster, worker.pool(cluster)?))) else {
            self.stats.increment(TcpStat::DownstreamCxNoRoute);
            outcome.flags.set(Flag::NC);
            return;
        };
        outcome.cluster = Some(chosen);
        let stats = &pool.cluster.stats;
        let wanted = Wanted { destination: info.original_destination(), ..Wanted::default() };
        let Some(host) = pool.choose_for(wanted) else {
            stats.block.increment(ClusterStat::UpstreamCxNoneHealthy);
            outcome.flags.set(Flag::UH);
            return;
        };
        if pool.cluster.remaining(Kind::Connection) == 0 {
            stats.block.increment(ClusterStat::UpstreamCxOverflow);
            outcome.flags.set(Flag::UO);
            return;
        }
        let Some(pending) = pool.cluster.admit(Kind::Pending) else {
            stats.block.increment(ClusterStat::UpstreamRqPendingOverflow);
            stats.block.increment(ClusterStat::UpstreamCxConnectAttemptsExceeded);
            outcome.flags.set(Flag::Urx);
            return;
        };
        outcome.upstream = Some(host.address);
        stats.block.increment(ClusterStat::UpstreamRqPendingTotal);
        stats.block.increment(ClusterStat::UpstreamRqTotal);
        host.requests.fetch_add(1, Ordering::Relaxed);
        // Boxed: connections do not hold what it takes once they are open.
        let host_of = &host;
        let connecting = Box::pin(async move {
            let connected = pool.connect(host_of, Protocol::Tcp).await;
            drop(pending);
            connected
        });
        let mut upstream = match connecting.await {
            Ok(upstream) => upstream,
            Err(error) => {
                stats.block.increment(ClusterStat::UpstreamRqPendingFailureEject);
                stats.block.increment(ClusterStat::UpstreamCxConnectAttemptsExceeded);
                if error.is_of_host() {
                    pool.cluster.record(&host, cluster::Outcome::Failed);
                }
                outcome.flags.set(Flag::UF);
                outcome.flags.set(Flag::Urx);
                return;
            }
        };
        stats.block.increment(ClusterStat::UpstreamRqActive);
        pool.cluster.record(&host, cluster::Outcome::Served);
        // As with Envoy, however it ends.
        upstream.counted.with_request = true;
        let (none, nothing) = (BytesMut::new(), BytesMut::new());
        let mut relay = Relay::new(Some(&self.stats), &stats.block, self.idle_timeout, none, nothing);
        (relay.mixer, relay.host) = (call.as_mut(), Some(host.address));
        let end = poll_fn(|cx| match relay.poll(downstream, &mut upstream, cx) {
            Poll::Pending => info.poll_drained(cx).map(|()| End::Drained),
            ready => ready,
        })
        .await;
        stats.block.decrement(ClusterStat::UpstreamRqActive);
        (outcome.received, outcome.sent) = (relay.to_upstream.read, relay.to_downstream.read);
        match end {
            End::Idle => self.stats.increment(TcpStat::IdleTimeout),
            End::UpstreamFailed => {
                upstream.counted.closed_by_host = true;
                outcome.flags.set(Flag::UC);
                if relay.was_reset {
                    downstream.reset_on_drop();
                }
            }
            End::DownstreamFailed if relay.was_reset => upstream.stream.reset_on_drop(),
            End::Complete => upstream.counted.closed_by_host = relay.to_downstream.ended_first,
            End::DownstreamFailed | End::Drained => {}
            End::Refused => outcome.flags.set(Flag::Uaex),
        }
    }
}

/// One direction of a relay.
#[derive(Default)]
struct Direction {
    buffer: BytesMut,
    /// Bytes read so far.
    read: u64,
    /// Whether its source has ended.
    has_ended: bool,
    /// Whether it ended before the other one.
    ended_first: bool,
    /// Whether its destination was told.
    is_shut: bool,
    is_paused: bool,
}

/// How a relay ends.
pub(crate) enum End {
    Complete,
    Idle,
    UpstreamFailed,
    DownstreamFailed,
    /// By the Mixer filter.
    Refused,
    /// The filter chain was replaced or removed, and its drain time is over.
    Drained,
}

/// Both directions of a connection.
pub(crate) struct Relay<'p, 'f> {
    tcp: Option<&'p Block<TcpStat>>,
    cluster: &'p Block<ClusterStat>,
    idle_timeout: Option<Duration>,
    timer: Timer,
    /// When the connection was idle for too long.
    idle: Option<Instant>,
    /// The next look at a side that is not read from.
    look: Option<Instant>,
    to_upstream: Direction,
    to_downstream: Direction,
    /// The Mixer filter before it.
    mixer: Option<&'p mut TcpCall<'f>>,
    host: Option<SocketAddr>,
    /// Whether the side that failed has reset its connection.
    was_reset: bool,
    /// Whether the end of one side is that of the connection.
    ends_together: bool,
}

impl<'p, 'f> Relay<'p, 'f> {
    /// A relay that begins with what was received from both sides already.
    pub(crate) fn new(
        tcp: Option<&'p Block<TcpStat>>,
        cluster: &'p Block<ClusterStat>,
        idle_timeout: Option<Duration>,
        to_upstream: BytesMut,
        to_downstream: BytesMut,
    ) -> Self {
        let (to_upstream, to_downstream) = (Direction::new(to_upstream), Direction::new(to_downstream));
        let mut relay = Self {
            tcp,
            cluster,
            idle_timeout,
            timer: Timer::new(),
            idle: None,
            look: None,
            to_upstream,
            to_downstream,
            mixer: None,
            host: None,
            was_reset: false,
            ends_together: false,
        };
        relay.touch();
        relay
    }

    /// As one that ends with either side, as connections that have changed their protocol do: what a client has sent last is passed on as far as
    /// its host takes it, and what a host has sent last as long as its client takes any.
    pub(crate) fn ending_together(self) -> Self {
        Self { ends_together: true, ..self }
    }

    /// Bytes that were read from the client, and from the host.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.to_upstream.read, self.to_downstream.read)
    }

    fn touch(&mut self) {
        let limit = if self.is_flushing() { Some(FLUSH_TIMEOUT) } else { self.idle_timeout };
        self.idle = limit.map(|limit| Instant::now() + limit);
    }

    /// Whether the connection ends once its client has got what its host has sent.
    fn is_flushing(&self) -> bool {
        self.ends_together && self.to_downstream.has_ended
    }

    /// The Mixer filter: the first bytes of the client, or its end without any, start the check and wait for its end.
    fn poll_mixer(&mut self, downstream: &mut Stream, cx: &mut Context<'_>) -> Poll<End> {
        let Some(call) = &mut self.mixer else { return Poll::Pending };
        let up = &mut self.to_upstream;
        if call.holds() && !call.is_checking() {
            match buffer::poll_read(downstream, &mut up.buffer, cx) {
                Poll::Ready(Ok(0)) => {
                    up.has_ended = true;
                    call.start_silently(
                        Bytes { received: up.read, sent: self.to_downstream.read },
                        self.host,
                    );
                }
                Poll::Ready(Ok(count)) => {
                    up.read += u64::try_from(count).unwrap_or(0);
                    let bytes = Bytes { received: up.read, sent: self.to_downstream.read };
                    call.start(bytes, self.host);
                }
                Poll::Ready(Err(error)) => {
                    self.was_reset = is_reset(&error);
                    return Poll::Ready(End::DownstreamFailed);
                }
                Poll::Pending => {}
            }
        }
        let bytes = Bytes { received: up.read, sent: self.to_downstream.read };
        if call.poll(bytes, self.host, cx) && call.is_refused() {
            return Poll::Ready(End::Refused);
        }
        Poll::Pending
    }

    /// Ready when it ends.
    pub(crate) fn poll(
        &mut self,
        downstream: &mut Stream,
        upstream: &mut Upstream,
        cx: &mut Context<'_>,
    ) -> Poll<End> {
        let before = (self.to_upstream.read, self.to_downstream.read);
        if self.is_flushing() {
            return self.poll_rest(downstream, cx);
        }
        if let Poll::Ready(end) = self.poll_mixer(downstream, cx) {
            return Poll::Ready(end);
        }
        let holds = self.mixer.as_ref().is_some_and(|call| call.holds());
        let tcp = self.tcp;
        let pumped =
            if holds { Ok(()) } else { self.to_upstream.pump(downstream, &mut upstream.stream, tcp, cx) };
        let pumped = pumped.map_err(|failed| (failed.is_source, failed)).and_then(|()| {
            let pumped = self.to_downstream.pump(&mut upstream.stream, downstream, tcp, cx);
            pumped.map_err(|failed| (!failed.is_source, failed))
        });
        if let Err((is_downstream, failed)) = pumped {
            self.was_reset = failed.is_reset;
            if is_downstream {
                return Poll::Ready(End::DownstreamFailed);
            }
            if !self.ends_together {
                return Poll::Ready(End::UpstreamFailed);
            }
            self.to_downstream.has_ended = true;
        }
        self.to_downstream.ended_first |= self.to_downstream.has_ended && !self.to_upstream.has_ended;
        let after = (self.to_upstream.read, self.to_downstream.read);
        if after != before {
            let (up, down) = (after.0 - before.0, after.1 - before.1);
            if let Some(tcp) = tcp {
                tcp.add(TcpStat::DownstreamCxRxBytesTotal, up);
                tcp.add(TcpStat::DownstreamCxTxBytesTotal, down);
            }
            self.cluster.add(ClusterStat::UpstreamCxTxBytesTotal, up);
            self.cluster.add(ClusterStat::UpstreamCxRxBytesTotal, down);
            self.touch();
        }
        if self.ends_together && self.to_upstream.has_ended {
            return Poll::Ready(End::DownstreamFailed);
        }
        if self.is_flushing() {
            self.touch();
            return self.poll_rest(downstream, cx);
        }
        if self.to_upstream.is_shut && self.to_downstream.is_shut {
            return Poll::Ready(End::Complete);
        }
        loop {
            // A side that is not read from, because the other one does not keep up, may have reset the connection.
            let is_paused = self.to_upstream.is_paused || self.to_downstream.is_paused;
            let look = self.look.filter(|_| is_paused);
            self.look = look.or_else(|| is_paused.then(|| Instant::now() + WATCH_INTERVAL));
            let next = earlier(self.idle, self.look);
            self.timer.set(next);
            if self.timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
            if next == self.idle {
                return Poll::Ready(End::Idle);
            }
            for (stream, end) in
                [(&*downstream, End::DownstreamFailed), (&upstream.stream, End::UpstreamFailed)]
            {
                if stream.is_reset() {
                    self.was_reset = true;
                    return Poll::Ready(end);
                }
            }
            self.look = None;
        }
    }
}

impl Relay<'_, '_> {
    /// Passes on what a host has sent before its end.
    fn poll_rest(&mut self, downstream: &mut Stream, cx: &mut Context<'_>) -> Poll<End> {
        while buffer::has_output(downstream, &self.to_downstream.buffer) {
            match buffer::poll_write(downstream, &mut self.to_downstream.buffer, cx) {
                Poll::Ready(Ok(_)) => self.touch(),
                Poll::Ready(Err(_)) => break,
                Poll::Pending => {
                    self.timer.set(self.idle);
                    return self.timer.poll(cx).map(|()| End::UpstreamFailed);
                }
            }
        }
        Poll::Ready(End::UpstreamFailed)
    }
}

/// Why a direction failed.
struct Failed {
    /// Whether its source failed, and not its destination.
    is_source: bool,
    is_reset: bool,
}

fn is_reset(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionReset
}

impl Direction {
    /// A direction that begins with these bytes.
    fn new(buffer: BytesMut) -> Self {
        let read = u64::try_from(buffer.len()).unwrap_or(0);
        Self { buffer, read, ..Self::default() }
    }

    /// Moves bytes until one side has to wait, at most four buffers of them: others have their turn.
    fn pump(
        &mut self,
        source: &mut Stream,
        destination: &mut Stream,
        stats: Option<&Block<TcpStat>>,
        cx: &mut Context<'_>,
    ) -> Result<(), Failed> {
        let failed =
            |is_source: bool, error: &std::io::Error| Failed { is_source, is_reset: is_reset(error) };
        let count = |stat| {
            if let Some(stats) = stats {
                stats.increment(stat);
            }
        };
        for _ in 0..4 {
            let mut waits = true;
            if !self.has_ended && self.buffer.len() < HIGH_WATERMARK {
                if self.is_paused {
                    self.is_paused = false;
                    count(TcpStat::DownstreamFlowControlResumedReadingTotal);
                }
                match buffer::poll_read(source, &mut self.buffer, cx) {
                    Poll::Ready(Ok(0)) => self.has_ended = true,
                    Poll::Ready(Ok(count)) => {
                        self.read += u64::try_from(count).unwrap_or(0);
                        waits = false;
                    }
                    Poll::Ready(Err(error)) => return Err(failed(true, &error)),
                    Poll::Pending => {}
                }
            } else if !self.has_ended && !self.is_paused {
                self.is_paused = true;
                count(TcpStat::DownstreamFlowControlPausedReadingTotal);
            }
            if buffer::has_output(destination, &self.buffer) {
                match buffer::poll_write(destination, &mut self.buffer, cx) {
                    Poll::Ready(Ok(_)) => waits = false,
                    Poll::Ready(Err(error)) => return Err(failed(false, &error)),
                    Poll::Pending => {}
                }
            }
            if !buffer::has_output(destination, &self.buffer) {
                if self.has_ended && !self.is_shut {
                    // An error means that the destination is gone, which its own direction tells.
                    self.is_shut = buffer::poll_shutdown(destination, cx).is_ready();
                    return Ok(());
                }
                if waits {
                    buffer::release(&mut self.buffer);
                }
            }
            if waits {
                return Ok(());
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }
}
