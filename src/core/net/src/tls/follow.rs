//! Looking at files for changes.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::TlsError;

/// Looks for changes every `interval` until `stop`: `look` reloads what has changed and returns whether anything has. `before` is called
/// before each wait; `noted` learns of each reload, and of each new reason why one failed.
pub(super) async fn follow_files(
    interval: Duration,
    stop: &CancellationToken,
    mut before: impl FnMut() + Send,
    look: impl Fn() -> Result<bool, TlsError> + Send + Sync + 'static,
    noted: impl Fn(Result<(), &str>) + Send,
) {
    let look = Arc::new(look);
    let mut last_error = None;
    loop {
        before();
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        // On a thread: nothing ends a look at a file system that hangs.
        let looking = Arc::clone(&look);
        let looking = tokio::task::spawn_blocking(move || looking());
        let looked = tokio::select! {
            () = stop.cancelled() => return,
            looked = looking => looked,
        };
        let looked = match looked.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(looked) => looked,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The process ends.
            Err(Err(_)) => return,
        };
        match looked {
            Ok(false) => {}
            Ok(true) => {
                last_error = None;
                tracing::info!("certificates reloaded");
                noted(Ok(()));
            }
            Err(error) => {
                // Logged once per distinct error.
                let text = error.to_string();
                if last_error.as_ref() != Some(&text) {
                    tracing::error!("reload of certificates failed, the previous state is kept: {text}");
                    noted(Err(&text));
                    last_error = Some(text);
                }
            }
        }
    }
}
