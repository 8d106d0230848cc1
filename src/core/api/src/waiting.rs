//! The memory of calls that wait for handlers.
//!
//! What a call decoded lives until its answer. A call that is answered at once is alone on its worker; of those that wait for handlers there
//! are as many as the pools allow, so that their memory counts.

use std::sync::Arc;
use std::task::Poll;

use bumpalo::Bump;
use futures_util::FutureExt as _;

use crate::grpc::{Code, GrpcError};
use crate::load_shedding::OVERLOADED;
use mixer_base::budget::{Reservation, Share};

/// Runs a call whose memory is `arena`. Each time it waits, what it keeps there is reserved from `share`.
///
/// A call is given by reference: to move it costs as much as deciding a small part of it. A call that does not wait reserves nothing. Cost:
/// two atomic additions for one that does, and more if it grows.
///
/// Errors: `rejection` if the share has no memory for it.
pub fn counted<F: Future + Unpin>(
    share: &Arc<Share>,
    arena: &Bump,
    rejection: Code,
    mut call: F,
) -> impl Future<Output = Result<F::Output, GrpcError>> {
    let mut held: Option<Reservation> = None;
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(output) = call.poll_unpin(cx) {
            return Poll::Ready(Ok(output));
        }
        let kept = kept(arena);
        let has_memory = match &mut held {
            Some(held) => held.bytes() >= kept || held.grow(kept - held.bytes()),
            None => {
                held = share.reserve(kept);
                held.is_some()
            }
        };
        match has_memory {
            true => Poll::Pending,
            false => Poll::Ready(Err(GrpcError::refused(rejection, OVERLOADED))),
        }
    })
}

/// What a call keeps in an arena, which may be larger: it is reused.
fn kept(arena: &Bump) -> usize {
    let allocated = arena.allocated_bytes();
    // Arenas grow by doubling.
    allocated.min(allocated.saturating_sub(arena.chunk_capacity()).saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_counts_what_it_keeps_while_it_waits() {
        let share = Arc::new(Share::new(1 << 20));
        let arena = Bump::new();
        arena.alloc_slice_fill_copy(100_000, 7_u8);
        let ready = counted(&share, &arena, Code::Unavailable, std::future::ready(7));
        assert_eq!((ready.await, share.used()), (Ok(7), 0), "no call that is answered at once");

        let growing = Box::pin(async {
            tokio::task::yield_now().await;
            arena.alloc_slice_fill_copy(200_000, 7_u8);
            tokio::task::yield_now().await;
        });
        let mut call = Box::pin(counted(&share, &arena, Code::Unavailable, growing));
        assert!(futures_util::poll!(call.as_mut()).is_pending());
        let first = share.used();
        assert!((100_000..=arena.allocated_bytes()).contains(&first), "{first}");
        assert!(futures_util::poll!(call.as_mut()).is_pending());
        assert!((300_000..=arena.allocated_bytes()).contains(&share.used()), "{}", share.used());
        assert_eq!(call.await, Ok(()));
        assert_eq!(share.used(), 0);

        let others = share.reserve(800_000).unwrap();
        let rejected = counted(&share, &arena, Code::Unavailable, std::future::pending::<()>()).await;
        assert_eq!(rejected, Err(GrpcError::refused(Code::Unavailable, OVERLOADED)));
        assert_eq!((share.used(), share.exhausted()), (800_000, 1));
        drop(others);
        let mut waiting = Box::pin(counted(&share, &arena, Code::Unavailable, std::future::pending::<()>()));
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        drop(waiting);
        assert_eq!(share.used(), 0, "a call that is given up frees its memory");
    }

    #[test]
    fn an_arena_that_was_used_before_counts_what_is_used_now() {
        let mut arena = Bump::new();
        arena.alloc_slice_fill_copy(200_000, 7_u8);
        arena.reset();
        assert!(arena.allocated_bytes() >= 200_000);
        arena.alloc_slice_fill_copy(100, 7_u8);
        assert!((100..1_000).contains(&kept(&arena)), "{}", kept(&arena));
    }
}
