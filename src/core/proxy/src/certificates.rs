//! Follows the files of certificates.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use mixer_base::task::Task;
use mixer_net::tls::TlsError;
use mixer_net::tls::context::{Followed, follow};

use crate::stats::{Block, CertificateStat, Scope, Stats};

/// Time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(5);

/// A context whose reloads are counted.
struct Counted<C> {
    context: Arc<C>,
    stats: Arc<Block<CertificateStat>>,
}

impl<C: Followed> Followed for Counted<C> {
    fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let reloaded = self.context.reload_if_changed();
        match &reloaded {
            Ok(false) => {}
            Ok(true) => self.stats.increment(CertificateStat::ReloadSuccess),
            Err(_) => self.stats.increment(CertificateStat::ReloadFailure),
        }
        reloaded
    }
}

/// Reloads the files of a context when they change, until `stop`, on the current runtime; `whose` is shown in the log. The statistics of
/// `scope` count reloads, and looks at files that cannot be used.
pub(crate) fn follow_files<C: Followed>(
    context: &Arc<C>,
    whose: &str,
    stats: &Stats,
    scope: &Scope,
    stop: CancellationToken,
) {
    let counted = Arc::new(Counted { context: Arc::clone(context), stats: stats.block(scope) });
    let stopped = stop.clone();
    let following = move || follow(Arc::clone(&counted), INTERVAL, stopped.clone());
    drop(Task::restarted("proxy certificates").of(whose).spawn(stop, following));
}
