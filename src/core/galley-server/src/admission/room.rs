//! How much memory reviews may take at a time.
//!
//! A review is a body, then the tree of its values, which takes up to 60 times as much. The memory of both is estimated before it is taken.
//! Reviews of usual objects have a way of their own, on which they never wait for large ones.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use mixer_net::http::Places;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Unit of the budgets.
const UNIT: usize = 1 << 10;
/// Bytes of bodies longer than [`SMALL_BODY`] at a time.
const BODIES: usize = 32 << 20;
/// A body up to this length has no budget but the bound on connections.
const SMALL_BODY: usize = 256 << 10;
/// Bytes of the trees of large reviews at a time, and of one of them.
const TREES: usize = 64 << 20;
const LARGEST_TREE: usize = 48 << 20;
/// A review whose tree takes less is a small one.
const SMALL_TREE: usize = 2 << 20;
/// Bytes of a value, of JSON and then of a document. Measured: eight reviews of 5.2 million values took 330 MB each.
const VALUE: usize = 96;
/// Reviews of either size that are looked at at the same time; others wait.
const SMALL_REVIEWS: usize = 4;
const LARGE_REVIEWS: usize = 2;
/// How long a large review waits for others.
const PATIENCE: Duration = Duration::from_secs(5);

/// The memory of reviews.
pub(super) struct Room {
    bodies: Arc<Semaphore>,
    trees: Arc<Semaphore>,
    small: Places,
    large: Places,
}

/// Why there is no room: the status and the text of the answer.
pub(super) type Full = (StatusCode, String);

/// The room of a review, until it is dropped.
pub(super) struct Taken {
    /// Where it is looked at.
    pub(super) places: Places,
    _tree: Option<OwnedSemaphorePermit>,
}

impl Room {
    pub(super) fn new() -> Self {
        Self {
            bodies: Arc::new(Semaphore::new(BODIES / UNIT)),
            trees: Arc::new(Semaphore::new(TREES / UNIT)),
            small: Places::new(SMALL_REVIEWS),
            large: Places::new(LARGE_REVIEWS),
        }
    }

    /// Room for a body of up to this length. Errors: others have it for too long.
    pub(super) async fn body(&self, length: usize) -> Result<Option<OwnedSemaphorePermit>, Full> {
        if length <= SMALL_BODY { Ok(None) } else { take(&self.bodies, length).await.map(Some) }
    }

    /// Room for the tree of a body. Errors: it is too large, or others have the room for too long.
    pub(super) async fn tree(&self, body: &[u8]) -> Result<Taken, Full> {
        let values = values(body);
        let size = values.saturating_mul(VALUE).saturating_add(body.len().saturating_mul(3));
        if size < SMALL_TREE {
            return Ok(Taken { places: self.small.clone(), _tree: None });
        }
        if size > LARGEST_TREE {
            let most = LARGEST_TREE >> 20;
            let text = format!(
                "the review has {values} values and {} bytes, which take more than {most} MiB; split the object\n",
                body.len()
            );
            return Err((StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        let tree = Some(take(&self.trees, size).await?);
        Ok(Taken { places: self.large.clone(), _tree: tree })
    }
}

async fn take(room: &Arc<Semaphore>, bytes: usize) -> Result<OwnedSemaphorePermit, Full> {
    let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
    match tokio::time::timeout(PATIENCE, Arc::clone(room).acquire_many_owned(units)).await {
        Ok(Ok(taken)) => Ok(taken),
        // The semaphore is never closed.
        Ok(Err(_)) | Err(_) => {
            let text = format!("other large reviews took longer than {PATIENCE:?}; try again\n");
            Err((StatusCode::TOO_MANY_REQUESTS, text))
        }
    }
}

/// The number of values and keys of a JSON text, or more: what separates and opens them, outside of strings.
fn values(text: &[u8]) -> usize {
    let (mut count, mut is_string, mut is_escaped) = (1, false, false);
    for byte in text {
        match (is_string, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (true, b'"') => is_string = false,
            (true, _) => {}
            (false, b'"') => is_string = true,
            (false, b',' | b':' | b'[' | b'{') => count += 1,
            (false, _) => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, expected) in [
            ("", 1),
            ("1", 1),
            ("[]", 2),
            ("[[],[]]", 5),
            (r#"{"a":1,"b":"x"}"#, 5),
            (r#"{"a,b":"[{\"\\\",:"}"#, 3),
            (r#""a\\",1"#, 2),
        ] {
            assert_eq!(values(text.as_bytes()), expected, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_reviews_wait_for_each_other_and_small_ones_for_nobody() {
        let room = Room::new();
        let large = [&b"["[..], &b"[],".repeat(150_000), b"1]"].concat();
        let (first, second) = (room.tree(&large).await.unwrap(), room.tree(&large).await.unwrap());
        let (status, text) = room.tree(&large).await.err().unwrap();
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(text, "other large reviews took longer than 5s; try again\n");
        room.tree(&[b' '; 1000]).await.unwrap();
        drop(first);
        let third = room.tree(&large).await.unwrap();
        drop((second, third));
        let huge = [&b"["[..], &b"[],".repeat(2_600_000), b"1]"].concat();
        let (status, text) = room.tree(&huge).await.err().unwrap();
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(
            text.starts_with("the review has 5200002 values and 7800003 bytes, which take more than 48 MiB"),
            "{text}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_have_a_budget() {
        let room = Room::new();
        let mut taken = Vec::new();
        for _ in 0..4 {
            taken.push(room.body(8 << 20).await.unwrap());
        }
        assert_eq!(room.body(1 << 20).await.err().unwrap().0, StatusCode::TOO_MANY_REQUESTS);
        assert!(room.body(SMALL_BODY).await.unwrap().is_none());
        taken.pop();
        assert!(room.body(1 << 20).await.unwrap().is_some());
    }
}
