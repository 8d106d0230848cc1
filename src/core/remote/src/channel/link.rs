//! The connections to a server: one for each runtime that calls it.

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

/// The connections, by their runtimes. As many as there are workers, and no more: a runtime stays as long as the process.
#[derive(Debug, Default)]
pub(super) struct Links(ArcSwap<Vec<(Id, Arc<Link>)>>);

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
    /// What sends a request on the connection of this runtime, which is made if there is none.
    ///
    /// Errors: UNAVAILABLE without a connection.
    pub(super) async fn sender(&self, place: &Arc<Connector>) -> Result<SendRequest<Bytes>, Status> {
        let link = self.link(&Handle::current());
        let mut attempt = match link.current(place) {
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
        if let Some(link) = known(&self.0.load()) {
            return link;
        }
        let new = Arc::new(Link::default());
        self.0.rcu(|links| {
            let mut links = Vec::clone(links);
            if known(&links).is_none() {
                links.push((id, Arc::clone(&new)));
            }
            links
        });
        known(&self.0.load()).unwrap_or(new)
    }
}

impl Link {
    /// The connection if it is open, or else the attempt to connect that is under way, or a new one.
    fn current(self: &Arc<Self>, place: &Arc<Connector>) -> Current {
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
        let (link, place) = (Arc::clone(self), Arc::clone(place));
        drop(CONNECTIONS.spawn(async move {
            let connection = match open(&place).await {
                Ok((sender, connection)) => {
                    *link.0.lock() = State::Open(sender.clone());
                    told.send_replace(Some(Ok(sender)));
                    connection
                }
                Err(why) => {
                    *link.0.lock() = State::None;
                    told.send_replace(Some(Err(why.into())));
                    return;
                }
            };
            // The connection ends with the last one who can use it.
            drop((link, place, told));
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to an adapter has ended");
            }
        }));
        Current::Connecting(attempt)
    }
}

/// Whether a connection takes further requests. One without requests of its own is ready at once.
fn has_not_ended(sender: &mut SendRequest<Bytes>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(sender.poll_ready(&mut context), Poll::Ready(Ok(())))
}

type Connection = h2::client::Connection<Box<dyn Stream>, Bytes>;

async fn open(place: &Connector) -> Result<(SendRequest<Bytes>, Connection), String> {
    let stream = place.connect().await?;
    http2_client().handshake(stream).await.map_err(|error| format!("cannot connect: {error}"))
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
