//! The connections to a server: one for each runtime that calls it.

use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};

use arc_swap::ArcSwap;
use bytes::Bytes;
use h2::client::SendRequest;
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tonic::Status;

use crate::connector::{Connector, Stream};
use mixer_base::task::Group;

/// Bytes of answers that a server may send ahead, of a call and of all.
const WINDOWS: (u32, u32) = (256 << 10, 1 << 20);
/// Most bytes of the head of an answer, and of its trailers.
const MAX_HEAD: u32 = 64 << 10;
/// Calls in flight until the server says how many it takes.
const FIRST_STREAMS: usize = 1024;

static CONNECTIONS: LazyLock<Group> = LazyLock::new(|| Group::new("adapter connection"));

/// What every connection begins with, before calls use it. Errors: why none can.
pub(super) type Setup = dyn Fn(SendRequest<Bytes>) -> SetupFuture + Send + Sync;
pub(super) type SetupFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// The connections, by their runtimes. As many as there are workers, and no more: a runtime stays as long as the process.
#[derive(Default)]
pub(super) struct Links {
    all: ArcSwap<Vec<(Id, Arc<Link>)>>,
    setup: Option<Arc<Setup>>,
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").field("all", &self.all).finish_non_exhaustive()
    }
}

/// The connection of one runtime.
#[derive(Debug, Default)]
struct Link(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    None,
    /// What becomes of the attempt.
    Connecting(watch::Receiver<Option<Attempt>>),
    Open(SendRequest<Bytes>),
}

/// What a call can do now.
enum Current {
    Open(SendRequest<Bytes>),
    Connecting(watch::Receiver<Option<Attempt>>),
}

/// The connection, or why there is none.
type Attempt = Result<SendRequest<Bytes>, Arc<str>>;

impl Links {
    pub(super) fn with_setup(setup: Arc<Setup>) -> Self {
        Self { all: ArcSwap::default(), setup: Some(setup) }
    }

    /// What sends a request on the connection of this runtime, which is made if there is none.
    ///
    /// Errors: UNAVAILABLE without a connection.
    pub(super) async fn sender(&self, place: &Arc<Connector>) -> Result<SendRequest<Bytes>, Status> {
        let link = self.link(&Handle::current());
        let mut attempt = match link.current(place, self.setup.as_ref()) {
            Current::Open(sender) => return Ok(sender),
            Current::Connecting(attempt) => attempt,
        };
        let connected = attempt.wait_for(Option::is_some).await.ok().and_then(|attempt| attempt.clone());
        match connected {
            Some(Ok(sender)) => Ok(sender),
            Some(Err(why)) => Err(Status::unavailable(&*why)),
            None => Err(Status::unavailable("cannot connect: the attempt has ended")),
        }
    }

    fn link(&self, runtime: &Handle) -> Arc<Link> {
        let id = runtime.id();
        let known = |links: &[(Id, Arc<Link>)]| {
            links.iter().find(|(known, _)| *known == id).map(|(_, link)| Arc::clone(link))
        };
        if let Some(link) = known(&self.all.load()) {
            return link;
        }
        let new = Arc::new(Link::default());
        self.all.rcu(|links| {
            let mut links = Vec::clone(links);
            if known(&links).is_none() {
                links.push((id, Arc::clone(&new)));
            }
            links
        });
        known(&self.all.load()).unwrap_or(new)
    }
}

impl Link {
    /// The connection if it is open, or else the attempt to connect that is under way, or a new one.
    fn current(self: &Arc<Self>, place: &Arc<Connector>, setup: Option<&Arc<Setup>>) -> Current {
        let mut state = self.0.lock();
        match &mut *state {
            State::Open(sender) => {
                if has_not_ended(sender) {
                    return Current::Open(sender.clone());
                }
            }
            State::Connecting(attempt) if attempt.has_changed().is_ok() => {
                return Current::Connecting(attempt.clone());
            }
            State::None | State::Connecting(_) => {}
        }
        let (told, attempt) = watch::channel(None);
        *state = State::Connecting(attempt.clone());
        let (link, place, setup) = (Arc::clone(self), Arc::clone(place), setup.cloned());
        drop(CONNECTIONS.spawn(async move {
            let connected = ready(&place, setup.as_deref()).await.map_err(Arc::from);
            *link.0.lock() = match &connected {
                Ok(sender) => State::Open(sender.clone()),
                Err(_) => State::None,
            };
            told.send_replace(Some(connected));
        }));
        Current::Connecting(attempt)
    }
}

/// A connection that calls can use. Errors: why there is none.
async fn ready(place: &Connector, setup: Option<&Setup>) -> Result<SendRequest<Bytes>, String> {
    let sender = open(place).await?;
    if let Some(setup) = setup {
        setup(sender.clone()).await?;
    }
    Ok(sender)
}

/// Whether a connection takes further requests. One without requests of its own is ready at once.
pub(super) fn has_not_ended(sender: &mut SendRequest<Bytes>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(sender.poll_ready(&mut context), Poll::Ready(Ok(())))
}

/// A new connection, driven on this runtime until the last one who can use it is dropped. Errors: why there is none.
pub(super) async fn open(place: &Connector) -> Result<SendRequest<Bytes>, String> {
    let stream = place.connect().await?;
    let opened = http2_client().handshake::<Box<dyn Stream>, Bytes>(stream).await;
    let (sender, connection) = opened.map_err(|error| format!("cannot connect: {error}"))?;
    drop(CONNECTIONS.spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to an adapter has ended");
        }
    }));
    Ok(sender)
}

/// The settings of connections for calls of gRPC: bounded windows and heads, no push.
pub fn http2_client() -> h2::client::Builder {
    let mut builder = h2::client::Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .max_header_list_size(MAX_HEAD)
        .initial_max_send_streams(FIRST_STREAMS);
    builder
}
