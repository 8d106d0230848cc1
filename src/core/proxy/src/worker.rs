//! Workers: one thread each with an event loop that serves every listener.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use mixer_base::task::{Group, Task};
use mixer_net::event_loop;
use mixer_net::http::Backoff;

use crate::accept::Entrance;
use crate::connection_info::ConnectionInfo;
use crate::context::{Shared, WorkerContext};
use crate::stats::{Block, Histogram, ListenerStat, WorkerStat};
use crate::timer;
use crate::udp::UdpProxy;
use crate::upstream::Pool;

/// Commands that wait for a worker.
const QUEUE: usize = 256;
/// Time for the reports of the Mixer filters, and entries of access logs, at the end.
const FLUSH: Duration = Duration::from_secs(1);
/// The threads are named as Envoy's are.
const THREAD: &str = "wrk:worker_";

/// A listener that workers serve.
#[derive(Debug)]
pub(crate) struct ActiveListener {
    pub(crate) entrance: Entrance,
    /// Of a listener of datagrams.
    pub(crate) udp: Option<Arc<UdpProxy>>,
    pub(crate) stats: Arc<Block<ListenerStat>>,
    /// By worker.
    pub(crate) worker_stats: Vec<Arc<Block<WorkerStat>>>,
    pub(crate) connection_length: Arc<Histogram>,
    /// Cancelled when it stops accepting.
    pub(crate) stopped: CancellationToken,
    /// Whether its filter chains were updated: `newest` is the listener that has them.
    pub(crate) is_updated: AtomicBool,
    pub(crate) newest: Newest,
}

/// Of a listener whose filter chains are updated again and again, the one with the newest. None of those between is kept for it.
pub(crate) type Newest = Arc<Mutex<Weak<ActiveListener>>>;

impl ActiveListener {
    /// The listener with the filter chains that it has by now; `None` if it is gone. Cost: an atomic read, unless they were updated.
    fn current(self: &Arc<Self>) -> Option<Arc<Self>> {
        match self.is_updated.load(Ordering::Acquire) {
            false => Some(Arc::clone(self)),
            true => self.newest.lock().upgrade(),
        }
    }
}

/// The socket of a listener.
#[derive(Debug)]
pub(crate) enum Socket {
    Stream(std::net::TcpListener),
    Datagram(std::net::UdpSocket),
}

impl Socket {
    fn try_clone(&self) -> std::io::Result<Self> {
        Ok(match self {
            Socket::Stream(socket) => Socket::Stream(socket.try_clone()?),
            Socket::Datagram(socket) => Socket::Datagram(socket.try_clone()?),
        })
    }
}

/// A listener and the socket that a worker serves.
pub(crate) type Serving = (Arc<ActiveListener>, Socket);

/// What a worker serves, for its next start.
type Kept = Arc<Mutex<Vec<Serving>>>;

/// What a worker is told.
#[derive(Debug)]
enum Command {
    /// Serve a listener.
    Serve(Serving),
    /// The time of a drain is over.
    Wake(u64),
    /// [`TICK`](timer::TICK) has passed.
    Tick,
}

/// A worker thread.
#[derive(Debug)]
pub(crate) struct Worker {
    commands: mpsc::Sender<Command>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Worker {
    /// Starts a worker, which ends when `stop` is cancelled. Errors: thread or event loop cannot be created.
    pub(crate) fn start(
        number: usize,
        shared: Arc<Shared>,
        stop: CancellationToken,
    ) -> std::io::Result<Self> {
        let (commands, incoming) = mpsc::channel(QUEUE);
        let incoming = RefCell::new(incoming);
        // What a restart after a panic serves again.
        let serving: Kept = Arc::default();
        let until = stop.clone();
        let main = async move || {
            timer::expect_ticks();
            let context = Rc::new(WorkerContext::new(Arc::clone(&shared)));
            let run = run(number, &context, &incoming, &serving);
            tokio::select! {
                () = run => {}
                () = until.cancelled() => {}
            }
            // Reports and log entries that wait; without an answer within this time they are lost.
            let flushed = async { tokio::join!(context.mixer.flush(), context.logs.flush()) };
            let _ = tokio::time::timeout(FLUSH, flushed).await;
        };
        let task = Task::essential("proxy worker").of(number.to_string());
        let is_stopping = move || stop.is_cancelled();
        let thread = event_loop::spawn(task, format!("{THREAD}{number}"), number, is_stopping, main)?;
        Ok(Self { commands, thread: Mutex::new(Some(thread)) })
    }

    /// Makes the worker serve a listener. Returns whether it will.
    pub(crate) async fn add(&self, listener: Arc<ActiveListener>, socket: Socket) -> bool {
        self.commands.send(Command::Serve((listener, socket))).await.is_ok()
    }

    /// Wakes the connections of a drain, whose time is over.
    pub(crate) async fn wake(&self, drain: u64) {
        // A worker that is gone has no connections.
        let _ = self.commands.send(Command::Wake(drain)).await;
    }

    /// Tells that time has passed. A worker that is that busy is told the next time.
    pub(crate) fn tick(&self) {
        let _ = self.commands.try_send(Command::Tick);
    }

    /// Waits for the end of the thread.
    pub(crate) fn join(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // A panic of it is logged by its supervision.
            let _ = thread.join();
        }
    }
}

/// Serves listeners as they are added.
async fn run(
    number: usize,
    context: &Rc<WorkerContext>,
    incoming: &RefCell<mpsc::Receiver<Command>>,
    serving: &Kept,
) {
    let listeners = Group::new("proxy listener cleanup");
    let begin = |listener: Arc<ActiveListener>, socket: Socket| {
        let (context, serving) = (Rc::clone(context), Arc::clone(serving));
        listeners.spawn_local(async move {
            let stopped = listener.stopped.clone();
            let again = || {
                let (context, listener, socket) =
                    (Rc::clone(&context), Arc::clone(&listener), socket.try_clone());
                async move { serve_socket(number, context, &listener, socket).await }
            };
            let task = Task::serving("proxy listener").of(format!("worker {number}"));
            task.supervised(stopped, again).await;
            drop(socket);
            serving.lock().retain(|(listener, _)| !listener.stopped.is_cancelled());
        });
    };
    for (listener, socket) in serving.lock().iter() {
        if let Ok(socket) = socket.try_clone() {
            begin(Arc::clone(listener), socket);
        }
    }
    loop {
        let next = std::future::poll_fn(|cx| incoming.borrow_mut().poll_recv(cx)).await;
        let (listener, socket) = match next {
            Some(Command::Serve(serving)) => serving,
            Some(Command::Wake(drain)) => {
                context.drains.wake(drain);
                continue;
            }
            Some(Command::Tick) => {
                timer::tick();
                // Idle connections to hosts.
                context.pools.iter().for_each(Pool::sweep);
                context.mixer.sweep();
                context.logs.sweep();
                continue;
            }
            None => return std::future::pending().await,
        };
        if let Ok(copy) = socket.try_clone() {
            serving.lock().push((Arc::clone(&listener), copy));
        }
        begin(listener, socket);
    }
}

/// Serves a socket until its listener stops. Returns early if it cannot: it is called again after a pause.
async fn serve_socket(
    number: usize,
    context: Rc<WorkerContext>,
    listener: &Arc<ActiveListener>,
    socket: std::io::Result<Socket>,
) {
    let error = match socket {
        Ok(Socket::Stream(socket)) => match TcpListener::from_std(socket) {
            Ok(socket) => return accept(number, context, listener, socket).await,
            Err(error) => error,
        },
        Ok(Socket::Datagram(socket)) => match (UdpSocket::from_std(socket), &listener.udp) {
            (Ok(socket), Some(proxy)) => return proxy.serve(socket, &context, &listener.stopped).await,
            (Ok(_), None) => return,
            (Err(error), _) => error,
        },
        Err(error) => error,
    };
    tracing::error!(%error, "a socket cannot be served");
}

/// Accepts connections until the listener stops.
async fn accept(
    number: usize,
    context: Rc<WorkerContext>,
    listener: &Arc<ActiveListener>,
    socket: TcpListener,
) {
    let connections = Group::new("proxy connection");
    let mut backoff = Backoff::default();
    loop {
        let accepted = tokio::select! {
            // First: one that was replaced accepts no more, however many connect.
            biased;
            () = listener.stopped.cancelled() => return,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, remote)) => {
                backoff = Backoff::default();
                let accepted = Held::new(&context.shared, listener);
                let context = Rc::clone(&context);
                // Boxed: the group would hold it twice, once as its argument and once as what it polls.
                connections.spawn_local(Box::pin(async move {
                    serve(&accepted.listener, stream, remote, number, &context).await;
                }));
            }
            Err(error) => {
                mixer_base::warn_limited!(1, %error, "accept failed");
                mixer_net::descriptors::report_shortage();
                tokio::select! {
                    () = backoff.pause() => {}
                    () = listener.stopped.cancelled() => return,
                }
            }
        }
    }
}

async fn serve(
    listener: &Arc<ActiveListener>,
    mut stream: TcpStream,
    remote: SocketAddr,
    number: usize,
    context: &Rc<WorkerContext>,
) {
    let local = stream.local_addr().unwrap_or(remote);
    // Boxed: it is handed from future to future, each of which would have room for it.
    let mut info = Box::new(ConnectionInfo::new(remote, local));
    if !listener.entrance.look(&mut stream, &mut info, &listener.stats).await {
        return;
    }
    // As with Envoy, filter chains that were updated meanwhile serve it.
    let Some(listener) = listener.current() else { return };
    let Some(chain) = listener.entrance.choose(&mut info, &listener.stats) else { return };
    let _opened = Opened::new(&listener, number);
    chain.serve(stream, info, &listener.stats, context).await;
}

/// Counts an accepted connection of the process.
struct Held {
    shared: Arc<Shared>,
    listener: Arc<ActiveListener>,
}

impl Held {
    fn new(shared: &Arc<Shared>, listener: &Arc<ActiveListener>) -> Self {
        shared.connections.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), listener: Arc::clone(listener) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a connection of a listener that has a filter chain.
struct Opened {
    listener: Arc<ActiveListener>,
    number: usize,
    since: tokio::time::Instant,
}

impl Opened {
    fn new(listener: &Arc<ActiveListener>, number: usize) -> Self {
        listener.stats.increment(ListenerStat::DownstreamCxTotal);
        listener.stats.increment(ListenerStat::DownstreamCxActive);
        if let Some(worker) = listener.worker_stats.get(number) {
            worker.increment(WorkerStat::DownstreamCxTotal);
            worker.increment(WorkerStat::DownstreamCxActive);
        }
        Self { listener: Arc::clone(listener), number, since: tokio::time::Instant::now() }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.listener.stats.decrement(ListenerStat::DownstreamCxActive);
        self.listener.stats.increment(ListenerStat::DownstreamCxDestroy);
        if let Some(worker) = self.listener.worker_stats.get(self.number) {
            worker.decrement(WorkerStat::DownstreamCxActive);
        }
        self.listener.connection_length.observe(self.since.elapsed());
    }
}
