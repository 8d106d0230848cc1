//! Threads that serve: a single-threaded event loop each, supervised.

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
        mixer_base::scheduling::prefer_short_waits();
        let local = LocalSet::new();
        local.block_on(&runtime, async {
            tokio::select! {
                () = main() => {}
                () = fault.injected() => {}
            }
        });
    })
}
