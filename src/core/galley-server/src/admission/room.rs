//! How much memory reviews may take at a time.
//!
//! A review is a body, then the tree of its values, then the resource that is built of it, which takes up to 250 times as much as the body. The memory is
//! estimated before it is taken. Reviews of usual objects have a way of their own, on which they never wait for large ones; those are looked
//! at one at a time, on a thread that gives way. So are those that take long to check for another reason: patterns.

mod bodies;
mod patterns;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use mixer_base::{json, memory, scheduling};
use mixer_net::http::Places;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

#[cfg(test)]
pub(super) use bodies::MAX_BODY;
use bodies::{Bodies, Charge};

/// Bytes that a large review may take.
const LARGEST_TREE: usize = 192 << 20;
/// A review that takes less is a small one, and has up to 600 values.
const SMALL_TREE: usize = 256 << 10;
/// A large review that takes less does not wait for those that take more.
const MEDIUM_TREE: usize = 16 << 20;
/// Bytes of a value, of JSON, of a document, and of what is built of it. Measured: handlers of `memquota` take 350 to 410 bytes for each
/// value, their texts included; 50 000 limits are 350 000 values.
const VALUE: usize = 400;
/// What a pattern counts as, in bytes of a tree: compiling one takes up to 25 ms, so that a small review has at most three.
const PATTERN: usize = 64 << 10;
/// How often a text is held at the same time.
const TEXTS: usize = 4;
/// Small reviews that are looked at at the same time; others wait. Of large ones it is one below [`MEDIUM_TREE`] and one above.
const SMALL_REVIEWS: usize = 4;
/// How long a large review waits for others.
const PATIENCE: Duration = Duration::from_secs(5);

/// The memory of reviews.
pub(super) struct Room {
    bodies: Bodies,
    small: Places,
    medium: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// Why there is no room: the status and the text of the answer.
pub(super) type Full = (StatusCode, String);

/// The room of a review, until it is dropped.
pub(super) enum Taken {
    /// One of the places for small reviews, once one is free.
    Small(Places),
    /// The place for large reviews, or for the smaller ones of those.
    Large(OwnedSemaphorePermit),
}

/// Why a review has no answer.
pub(super) enum Unanswered {
    /// It panicked.
    Panic(Box<dyn std::any::Any + Send>),
    /// The process ends, or has no thread for it.
    Ended,
}

impl Room {
    pub(super) fn new() -> Self {
        Self {
            bodies: Bodies::new(),
            small: Places::new(SMALL_REVIEWS),
            medium: Arc::new(Semaphore::new(1)),
            large: Arc::new(Semaphore::new(1)),
        }
    }

    /// A body, and the room that it takes until that is dropped. Errors: it is too long, did not arrive, or others have the room for too
    /// long.
    pub(super) async fn body(&self, body: Body) -> Result<(Bytes, Charge), Full> {
        self.bodies.read(body).await
    }

    /// Room for what is made of a body. Errors: it is too large, or others have the room for too long.
    pub(super) async fn tree(&self, body: &[u8]) -> Result<Taken, Full> {
        let values = json::values(body);
        let size = values.saturating_mul(VALUE).saturating_add(body.len().saturating_mul(TEXTS));
        // Time, of which patterns take more than memory.
        let patterns = if size < MEDIUM_TREE { patterns::most(body) } else { 0 };
        let effort = size.saturating_add(patterns.saturating_mul(PATTERN));
        if effort < SMALL_TREE {
            return Ok(Taken::Small(self.small.clone()));
        }
        if size > LARGEST_TREE {
            let most = LARGEST_TREE >> 20;
            let text = format!(
                "the review has {values} values and {} bytes, which take more than {most} MiB; split the object\n",
                body.len()
            );
            return Err((StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        let place = if effort < MEDIUM_TREE { &self.medium } else { &self.large };
        take(place, 1).await.map(Taken::Large)
    }
}

impl Taken {
    /// Whether it is that of a small review.
    pub(super) fn is_small(&self) -> bool {
        matches!(self, Taken::Small(_))
    }

    /// Runs `work` on another thread: a small review once there is a place, a large one on a thread of its own that gives way to others. The
    /// room is kept until it ends, also when nobody waits for it any more.
    pub(super) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        let place = match self {
            Taken::Small(places) => {
                let done = places.run(work).await;
                return done
                    .map_err(|error| error.try_into_panic().map_or(Unanswered::Ended, Unanswered::Panic));
            }
            Taken::Large(place) => place,
        };
        let (done, answer) = oneshot::channel();
        let run = move || {
            scheduling::give_way();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // What it freed lies between what others have.
            memory::release();
            drop(place);
            // The client may have left.
            let _ = done.send(result);
        };
        std::thread::Builder::new()
            .name("large review".to_owned())
            .spawn(run)
            .map_err(|_| Unanswered::Ended)?;
        answer.await.map_err(|_| Unanswered::Ended)?.map_err(Unanswered::Panic)
    }
}

async fn take(room: &Arc<Semaphore>, units: u32) -> Result<OwnedSemaphorePermit, Full> {
    match tokio::time::timeout(PATIENCE, Arc::clone(room).acquire_many_owned(units)).await {
        Ok(Ok(taken)) => Ok(taken),
        // The semaphore is never closed.
        Ok(Err(_)) | Err(_) => {
            let text = format!("other large reviews took longer than {PATIENCE:?}; try again\n");
            Err((StatusCode::TOO_MANY_REQUESTS, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn large_reviews_wait_for_each_other_and_small_ones_for_nobody() {
        let room = Room::new();
        let large = [&b"["[..], &b"[],".repeat(150_000), b"1]"].concat();
        let first = room.tree(&large).await.unwrap();
        assert!(!first.is_small());
        let (status, text) = room.tree(&large).await.err().unwrap();
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(text, "other large reviews took longer than 5s; try again\n");
        assert!(room.tree(&[b' '; 1000]).await.unwrap().is_small());
        drop(first);
        drop(room.tree(&large).await.unwrap());
        let huge = [&b"["[..], &b"[],".repeat(2_600_000), b"1]"].concat();
        let (status, text) = room.tree(&huge).await.err().unwrap();
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(
            text.starts_with("the review has 5200002 values and 7800003 bytes, which take more than 192 MiB"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn small_reviews_run_beside_a_large_one_that_keeps_its_place_to_its_end() {
        let room = Room::new();
        let large = [b"[" as &[u8], &b"[],".repeat(50_000), b"1]"].concat();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let runs = room.tree(&large).await.unwrap().run(move || ended.recv().is_ok());
        let runs = tokio::spawn(runs);
        for _ in 0..10 {
            let small = room.tree(b"{}").await.unwrap().run(|| 7);
            assert!(matches!(small.await, Ok(7)));
        }
        assert_eq!(room.large.available_permits(), 0);
        let medium = [b"[" as &[u8], &b"[],".repeat(10_000), b"1]"].concat();
        let medium = room.tree(&medium).await.unwrap();
        assert!(!medium.is_small());
        assert!(matches!(medium.run(|| 8).await, Ok(8)), "it does not wait for a larger one");
        runs.abort();
        tokio::task::yield_now().await;
        assert_eq!(room.large.available_permits(), 0, "nobody waits for it, and it goes on");
        end.send(()).unwrap();
        let panics = room.tree(&large).await.unwrap().run(|| panic!("on purpose"));
        assert!(matches!(panics.await, Err::<(), _>(Unanswered::Panic(_))));
        assert!(room.tree(&large).await.is_ok(), "its place is free");
    }

    #[tokio::test]
    async fn patterns_count_for_more_than_they_take() {
        let room = Room::new();
        let list = |kind: &str, count: usize| {
            let overrides = vec![r"\\pL{90}"; count];
            let (overrides, colon) = (
                serde_json::to_string(&overrides).unwrap(),
                if count.is_multiple_of(2) { ": " } else { ":" },
            );
            format!(r#"{{"spec":{{"params":{{"entryType"{colon}{kind},"overrides":{overrides}}}}}}}"#)
                .into_bytes()
        };
        for kind in [r#""REGEX""#, "3", "3.0", "30e-1", r#""\u0052EGEX""#] {
            assert!(!room.tree(&list(kind, 500)).await.unwrap().is_small(), "{kind}");
            assert!(!room.tree(&list(kind, 5)).await.unwrap().is_small(), "{kind}");
            assert!(room.tree(&list(kind, 3)).await.unwrap().is_small(), "{kind}");
        }
        for kind in [r#""STRINGS""#, r#""IP_ADDRESSES""#, r#""CASE_INSENSITIVE_STRINGS""#] {
            assert!(room.tree(&list(kind, 100)).await.unwrap().is_small(), "{kind}");
        }
        let many = room.tree(&list(r#""REGEX""#, 20_000)).await.unwrap();
        assert!(!many.is_small(), "it is not refused");
        assert_eq!(room.large.available_permits(), 0);
    }
}
