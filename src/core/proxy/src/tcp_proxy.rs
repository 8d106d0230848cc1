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

use crate::accept::ConnectionInfo;
use crate::access_log::{AccessLogFile, Entry, Format};
use crate::buffer::{self, HIGH_WATERMARK};
use crate::cluster::{Kind, Wanted, weighted};
use crate::context::WorkerContext;
use crate::flags::{Flag, Flags};
use crate::stats::{Block, ClusterStat, TcpStat};
use crate::timer::Timer;
use crate::upstream::Upstream;

/// A TCP proxy as it serves.
#[derive(Debug)]
pub(crate) struct TcpProxy {
    /// Clusters and their weights; `None` for one that does not exist.
    pub(crate) clusters: Vec<(Option<usize>, u32)>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) logs: Vec<(Arc<AccessLogFile>, Format)>,
    pub(crate) stats: Arc<Block<TcpStat>>,
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
        self.forward(&mut downstream, info, worker, &mut outcome).await;
        drop(downstream);
        let cluster = outcome.cluster.and_then(|cluster| worker.pool(cluster));
        let entry = Entry {
            start,
            duration: begun.elapsed(),
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
        };
        for (file, format) in &self.logs {
            file.append(|out| format.write(&entry, out));
        }
    }

    async fn forward(
        &self,
        downstream: &mut Stream,
        info: &ConnectionInfo,
        worker: &Rc<WorkerContext>,
        outcome: &mut Outcome,
    ) {
        let chosen = weighted(&self.clusters).flatten();
        let Some((cluster, pool)) = chosen.and_then(|cluster| Some((cluster, worker.pool(cluster)?))) else {
            self.stats.increment(TcpStat::DownstreamCxNoRoute);
            outcome.flags.set(Flag::NC);
            return;
        };
        outcome.cluster = Some(cluster);
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
        outcome.upstream = Some(host.address);
        stats.block.increment(ClusterStat::UpstreamRqTotal);
        host.requests.fetch_add(1, Ordering::Relaxed);
        let Ok(mut upstream) = pool.connect(&host, false).await else {
            stats.block.increment(ClusterStat::UpstreamRqPendingFailureEject);
            stats.block.increment(ClusterStat::UpstreamCxConnectAttemptsExceeded);
            outcome.flags.set(Flag::UF);
            outcome.flags.set(Flag::Urx);
            return;
        };
        stats.block.increment(ClusterStat::UpstreamRqActive);
        let (none, nothing) = (BytesMut::new(), BytesMut::new());
        let mut relay = Relay::new(Some(&self.stats), &stats.block, self.idle_timeout, none, nothing);
        let end = poll_fn(|cx| relay.poll(downstream, &mut upstream, cx)).await;
        stats.block.decrement(ClusterStat::UpstreamRqActive);
        (outcome.received, outcome.sent) = (relay.to_upstream.read, relay.to_downstream.read);
        match end {
            End::Idle => self.stats.increment(TcpStat::IdleTimeout),
            End::UpstreamFailed => {
                upstream.counted.closed_by_host = true;
                outcome.flags.set(Flag::UC);
            }
            End::Complete => upstream.counted.closed_by_host = relay.to_downstream.ended_first,
            End::DownstreamFailed => {}
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
}

/// Both directions of a connection.
pub(crate) struct Relay<'p> {
    tcp: Option<&'p Block<TcpStat>>,
    cluster: &'p Block<ClusterStat>,
    idle_timeout: Option<Duration>,
    timer: Timer,
    to_upstream: Direction,
    to_downstream: Direction,
}

impl<'p> Relay<'p> {
    /// A relay that begins with what was received from both sides already.
    pub(crate) fn new(
        tcp: Option<&'p Block<TcpStat>>,
        cluster: &'p Block<ClusterStat>,
        idle_timeout: Option<Duration>,
        to_upstream: BytesMut,
        to_downstream: BytesMut,
    ) -> Self {
        let (to_upstream, to_downstream) = (Direction::new(to_upstream), Direction::new(to_downstream));
        let mut relay = Self { tcp, cluster, idle_timeout, timer: Timer::new(), to_upstream, to_downstream };
        relay.touch();
        relay
    }

    /// Bytes that were read from the client, and from the host.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.to_upstream.read, self.to_downstream.read)
    }

    fn touch(&mut self) {
        self.timer.set(self.idle_timeout.map(|limit| Instant::now() + limit));
    }

    /// Ready when it ends.
    pub(crate) fn poll(
        &mut self,
        downstream: &mut Stream,
        upstream: &mut Upstream,
        cx: &mut Context<'_>,
    ) -> Poll<End> {
        let before = (self.to_upstream.read, self.to_downstream.read);
        let tcp = self.tcp;
        let pumped = self.to_upstream.pump(downstream, &mut upstream.stream, tcp, cx);
        match pumped {
            Err(Side::Source) => return Poll::Ready(End::DownstreamFailed),
            Err(Side::Destination) => return Poll::Ready(End::UpstreamFailed),
            Ok(()) => {}
        }
        match self.to_downstream.pump(&mut upstream.stream, downstream, tcp, cx) {
            Err(Side::Source) => return Poll::Ready(End::UpstreamFailed),
            Err(Side::Destination) => return Poll::Ready(End::DownstreamFailed),
            Ok(()) => {}
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
        if self.to_upstream.is_shut && self.to_downstream.is_shut {
            return Poll::Ready(End::Complete);
        }
        self.timer.poll(cx).map(|()| End::Idle)
    }
}

/// The side of a direction that failed.
enum Side {
    Source,
    Destination,
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
    ) -> Result<(), Side> {
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
                    Poll::Ready(Err(_)) => return Err(Side::Source),
                    Poll::Pending => {}
                }
            } else if !self.has_ended && !self.is_paused {
                self.is_paused = true;
                count(TcpStat::DownstreamFlowControlPausedReadingTotal);
            }
            if buffer::has_output(destination, &self.buffer) {
                match buffer::poll_write(destination, &mut self.buffer, cx) {
                    Poll::Ready(Ok(_)) => waits = false,
                    Poll::Ready(Err(_)) => return Err(Side::Destination),
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
