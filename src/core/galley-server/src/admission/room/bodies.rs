//! Bodies of reviews, which take room as they arrive: who announces a long one and sends nothing holds nothing up.

use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt as _;
use mixer_net::http::Displaced;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Full, take};

/// Largest body of a review, in bytes: twice the largest object of an API server, and its envelope.
pub(crate) const MAX_BODY: usize = 8 << 20;
/// Unit of the budgets.
const UNIT: usize = 1 << 10;
/// Bytes of bodies longer than [`SMALL_BODY`] at a time.
const BODIES: usize = 32 << 20;
/// Of these, bytes of bodies that have no room for all that they announced yet. One that has waits for no further room, so that those that
/// wait for it have it some time.
const ARRIVING: usize = BODIES - MAX_BODY;
/// A body up to this length has no budget but the bound on connections.
const SMALL_BODY: usize = 64 << 10;
/// A body of which so much has arrived takes room for all that it announced. Before, it has room for twice as much as has arrived.
const LONG_BODY: usize = 1 << 20;

/// The memory of bodies.
pub(super) struct Bodies {
    all: Arc<Semaphore>,
    arriving: Arc<Semaphore>,
}

/// The room of a body.
#[derive(Default)]
pub(crate) struct Charge {
    bytes: usize,
    taken: Option<OwnedSemaphorePermit>,
    arriving: Option<OwnedSemaphorePermit>,
}

impl Bodies {
    pub(super) fn new() -> Self {
        let of = |bytes: usize| Arc::new(Semaphore::new(bytes / UNIT));
        Self { all: of(BODIES), arriving: of(ARRIVING) }
    }

    /// A body, and its room. Errors: it is too long, did not arrive, or others have the room for too long.
    pub(super) async fn read(&self, mut body: Body) -> Result<(Bytes, Charge), Full> {
        // Of unknown length it may be as long as any.
        let announced = body.size_hint().upper().and_then(|length| usize::try_from(length).ok());
        if announced.is_some() && body.size_hint().lower() > MAX_BODY as u64 {
            return Err(too_long());
        }
        let announced = announced.unwrap_or(MAX_BODY).min(MAX_BODY);
        let (mut read, mut charge) = (BytesMut::new(), Charge::default());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| not_arrived(&error))?;
            let Ok(data) = frame.into_data() else { continue };
            let arrived = read.len().saturating_add(data.len());
            if arrived > MAX_BODY {
                return Err(too_long());
            }
            self.charge(&mut charge, arrived, announced).await?;
            if charge.bytes > read.capacity() {
                read.reserve(charge.bytes - read.len());
            }
            read.extend_from_slice(&data);
        }
        // All that it has.
        charge.arriving = None;
        Ok((read.freeze(), charge))
    }

    /// Takes room for what has arrived.
    async fn charge(&self, charge: &mut Charge, arrived: usize, announced: usize) -> Result<(), Full> {
        if arrived <= SMALL_BODY.max(charge.bytes) {
            return Ok(());
        }
        let is_long = arrived > LONG_BODY;
        let bytes = match is_long {
            true => announced.max(arrived),
            false => arrived.next_power_of_two().min(announced.max(arrived)),
        };
        let more = u32::try_from((bytes - charge.bytes).div_ceil(UNIT)).unwrap_or(u32::MAX);
        if !is_long {
            merge(&mut charge.arriving, take(&self.arriving, more).await?);
        }
        merge(&mut charge.taken, take(&self.all, more).await?);
        if is_long {
            charge.arriving = None;
        }
        charge.bytes = bytes;
        Ok(())
    }
}

fn merge(into: &mut Option<OwnedSemaphorePermit>, more: OwnedSemaphorePermit) {
    match into {
        Some(taken) => taken.merge(more),
        None => *into = Some(more),
    }
}

fn not_arrived(error: &axum::Error) -> Full {
    if std::error::Error::source(error).is_some_and(|source| source.is::<Displaced>()) {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("{Displaced}\n"));
    }
    (StatusCode::BAD_REQUEST, format!("the body did not arrive: {error}\n"))
}

fn too_long() -> Full {
    (StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {} MiB\n", MAX_BODY >> 20))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::StreamExt;
    use futures_util::stream;

    use super::*;

    /// A body of which so much arrives, and then nothing more.
    fn stalled(length: usize) -> Body {
        let sent = stream::iter([Ok::<_, Infallible>(Bytes::from(vec![b' '; length]))]);
        Body::from_stream(sent.chain(stream::pending()))
    }

    fn whole(length: usize) -> Body {
        Body::from(vec![b' '; length])
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_have_a_budget() {
        let bodies = Bodies::new();
        let mut taken = Vec::new();
        for _ in 0..4 {
            taken.push(bodies.read(whole(8 << 20)).await.unwrap());
        }
        assert_eq!(bodies.read(whole(1 << 20)).await.err().unwrap().0, StatusCode::TOO_MANY_REQUESTS);
        assert!(bodies.read(whole(SMALL_BODY)).await.unwrap().1.taken.is_none());
        taken.pop();
        assert_eq!(bodies.read(whole(1 << 20)).await.unwrap().0.len(), 1 << 20);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_announced_takes_no_room() {
        let bodies = Arc::new(Bodies::new());
        let stall = |length: usize| {
            let bodies = Arc::clone(&bodies);
            tokio::spawn(async move { bodies.read(stalled(length)).await.map(drop) })
        };
        let mut stalls: Vec<_> =
            (0..100).map(|_| stall(6)).chain((0..16).map(|_| stall(100 << 10))).collect();
        let run = async || {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        };
        run().await;
        let before = tokio::time::Instant::now();
        for length in [123 << 10, 3 << 20, 8 << 20] {
            assert_eq!(bodies.read(whole(length)).await.unwrap().0.len(), length);
        }
        assert_eq!(before.elapsed(), std::time::Duration::ZERO, "nothing is waited for");
        stalls.drain(..).for_each(|stall| stall.abort());
        run().await;
        assert_eq!(bodies.all.available_permits(), BODIES / UNIT);
        assert_eq!(bodies.arriving.available_permits(), ARRIVING / UNIT);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_arrive_at_once_wait_for_each_other() {
        let bodies = Arc::new(Bodies::new());
        let chunks =
            || stream::iter((0..64).map(|_| Ok::<_, Infallible>(Bytes::from(vec![b' '; 128 << 10]))));
        // A part of each is there before more of any is.
        let slowly = |chunks| {
            StreamExt::then(chunks, async |chunk| {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                chunk
            })
        };
        let reads = (0..40).map(|_| {
            let (bodies, body) = (Arc::clone(&bodies), Body::from_stream(Box::pin(slowly(chunks()))));
            tokio::spawn(async move { bodies.read(body).await.map(|(read, _)| read.len()) })
        });
        for read in reads.collect::<Vec<_>>() {
            assert_eq!(read.await.unwrap(), Ok(8 << 20));
        }
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_refused() {
        let bodies = Bodies::new();
        for body in [whole(MAX_BODY + 1), stalled(MAX_BODY + 1)] {
            assert_eq!(bodies.read(body).await.err().unwrap().0, StatusCode::PAYLOAD_TOO_LARGE);
        }
        assert_eq!(bodies.read(Body::empty()).await.unwrap().0.len(), 0);
    }
}
