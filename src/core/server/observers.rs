//! Who wants to know about calls: opened when the server starts, ended when the last call is answered.

use std::sync::Arc;

use super::components::{Components, StopStep};
use super::effects::Effects;
use super::{ServerOptions, StartError};
use crate::core::api::Observers;
use crate::core::telemetry::metrics::Metrics;

/// Opens what the settings ask for. Errors: a file that cannot be opened; nothing is left of it then.
pub(super) fn start(
    options: &ServerOptions,
    effects: &dyn Effects,
    metrics: &Metrics,
    components: &mut Components,
) -> Result<Option<Arc<Observers>>, StartError> {
    let decisions = effects
        .open_decisions(&options.decisions, metrics)
        .map_err(|error| StartError::because("unable to log decisions", error))?;
    if let Some(decisions) = decisions.clone() {
        components.begun(StopStep::Tracing, "decisions", async move |_| {
            tokio::task::spawn_blocking(move || decisions.close()).await.is_ok()
        });
    }
    Ok(Observers { decisions }.if_any())
}
