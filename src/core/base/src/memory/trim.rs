//! Returns memory to the system when load has ended.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Trimmer, release};
use crate::metrics::{cpu_seconds, private_bytes};

/// Interval of the looks.
const INTERVAL: Duration = Duration::from_secs(2);

/// Looks until `stop`, every 2 s.
pub async fn trim(stop: CancellationToken) {
    // Without the pages of the program: those of the start are dropped before the first look.
    let mut trimmer = Trimmer::new(private_bytes());
    let mut cpu_before = cpu_seconds().unwrap_or_default();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let (Some(resident), Some(cpu)) = (private_bytes(), cpu_seconds()) else { continue };
        let used = (cpu - cpu_before) / INTERVAL.as_secs_f64();
        cpu_before = cpu;
        if !trimmer.is_due(resident, used) {
            continue;
        }
        // It takes locks of the allocator for some milliseconds. It fails only if the runtime ends.
        let _ = tokio::task::spawn_blocking(release).await;
        let left = private_bytes().unwrap_or(resident);
        trimmer.released(left);
        let mib = |bytes: u64| bytes >> 20;
        tracing::info!(
            before_mib = mib(resident),
            after_mib = mib(left),
            "memory of a past load was returned to the system"
        );
    }
}
