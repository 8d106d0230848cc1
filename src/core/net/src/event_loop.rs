//! Threads that serve: a single-threaded event loop each, supervised.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use mixer_base::task::Task;

/// Starts the thread of worker `number`, called `thread`, with an event loop of its own that runs `main` and what it spawns locally. A panic
/// of the loop ends what it spawned, and `main` is called again. `is_stopping` says whether the end of `main` is expected.
///
/// Errors: the event loop or the thread cannot be created.
pub fn spawn(
    task: Task,
    thread: String,
    number: usize,
    is_stopping: impl Fn() -> bool + Send + 'static,
    mut main: impl AsyncFnMut() + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    task.spawn_thread(thread, is_stopping, move |fault| {
        mixer_base::shard::claim(number);
        let local = LocalSet::new();
        local.block_on(&runtime, async {
            let main = async {
                tokio::select! {
                    () = main() => {}
                    () = fault.injected() => {}
                }
            };
            when_woken(pin!(main)).await;
        });
    })
}

/// Polls a future when it was woken itself. A `LocalSet` polls what it runs until the end whenever one of its tasks was woken, that is for every
/// request.
async fn when_woken(mut future: Pin<&mut impl Future<Output = ()>>) {
    let own = Arc::new(Own { is_woken: AtomicBool::new(true), outer: AtomicWaker::new() });
    let waker = Waker::from(Arc::clone(&own));
    std::future::poll_fn(|cx| {
        own.outer.register(cx.waker());
        if own.is_woken.swap(false, Ordering::AcqRel) {
            future.as_mut().poll(&mut Context::from_waker(&waker))
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// The waker of a future, by which its wakes are told from those of others.
struct Own {
    is_woken: AtomicBool,
    outer: AtomicWaker,
}

impl Wake for Own {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.outer.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_main_future_is_polled_when_it_was_woken_and_not_for_others() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (polls, turns) = (Cell::new(0), Cell::new(0));
        let (end, mut ended) = tokio::sync::oneshot::channel();
        let task = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            end.send(()).unwrap();
        };
        let main = async {
            let mut task = pin!(task);
            let counted = std::future::poll_fn(|cx| {
                polls.set(polls.get() + 1);
                Pin::new(&mut ended).poll(cx).map(|ended| ended.unwrap())
            });
            // What is polled beside it, as the tasks of a `LocalSet` are.
            let counted = pin!(counted);
            let mut counted = pin!(when_woken(counted));
            std::future::poll_fn(|cx| {
                turns.set(turns.get() + 1);
                let _ = task.as_mut().poll(cx);
                counted.as_mut().poll(cx)
            })
            .await;
        };
        runtime.block_on(main);
        assert_eq!(turns.get(), 101);
        assert_eq!(polls.get(), 2, "at the start and when the message came");
    }
}
