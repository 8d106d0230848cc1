//! Components that do not work as they should while the process serves.
//!
//! What makes a server unavailable is a condition of [`crate::probe`]. Everything else that an operator must know of and mend, while
//! calls are answered meanwhile, is a degradation here: it is logged when it begins and ends, counted, and shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::{info, warn};

use crate::metrics::{Collect, Collected, Family};
use crate::time::Moment;

/// The components of a process and their degradations. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Degradations(Arc<Mutex<Components>>);

#[derive(Debug, Default)]
struct Components {
    by_name: BTreeMap<&'static str, Option<Degradation>>,
    is_stopping: bool,
}

/// Why a component does not work as it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Degradation {
    /// One line: what is wrong, and what serves instead.
    pub why: String,
    /// Since when.
    pub since: Moment,
}

impl Degradations {
    /// Sets whether a component works. Each transition is logged once.
    pub fn set(&self, component: &'static str, status: Result<(), String>) {
        let mut components = self.0.lock();
        let is_stopping = components.is_stopping;
        let known = components.by_name.entry(component).or_default();
        match (status, &mut *known) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) if is_stopping => {}
            (Ok(()), Some(degradation)) => {
                let (why, time) = (&degradation.why, degradation.since.age());
                info!(component, "{component} works again; for {time:.1?} it was degraded: {why}");
                *known = None;
            }
            (Err(why), Some(degradation)) => degradation.why = why,
            (Err(why), None) => {
                warn!(component, "{component} is degraded: {why}");
                *known = Some(Degradation { why, since: Moment::now() });
            }
        }
    }

    /// The process stops: what is taken down from here on does not work again, and stays degraded until the end.
    pub fn stopping(&self) {
        self.0.lock().is_stopping = true;
    }

    /// The components that do not work as they should, by name.
    pub fn list(&self) -> Vec<(&'static str, Degradation)> {
        let components = &self.0.lock().by_name;
        components.iter().filter_map(|(name, degradation)| Some((*name, degradation.clone()?))).collect()
    }
}

impl Collect for Degradations {
    fn collect(&self, out: &mut Collected) {
        for (component, degradation) in &self.0.lock().by_name {
            let value = f64::from(u8::from(degradation.is_some()));
            out.add(Family::ComponentDegraded, &[component], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log;

    #[test]
    fn each_degradation_is_logged_once_and_counted() {
        let degradations = Degradations::default();
        let metrics = crate::metrics::Metrics::new();
        let collector: Arc<dyn Collect> = Arc::new(degradations.clone());
        metrics.collect_from(Arc::downgrade(&collector));
        let records = log::tests::records(|| {
            degradations.set("log", Ok(()));
            for why in ["lstat /x", "lstat /x", "open /x"] {
                degradations.set("store", Err(why.to_owned()));
            }
            let list = degradations.list();
            assert_eq!(
                list.iter().map(|(name, d)| (*name, &*d.why)).collect::<Vec<_>>(),
                [("store", "open /x")]
            );
            let mut text = Vec::new();
            metrics.write(&mut text);
            let text = String::from_utf8(text).unwrap();
            for sample in ["{component=\"log\"} 0", "{component=\"store\"} 1"] {
                assert!(text.contains(&format!("mixer_component_degraded{sample}")), "{text}");
            }
            degradations.set("store", Ok(()));
        });
        assert!(degradations.list().is_empty());
        assert_eq!(
            records,
            [
                "warn store is degraded: lstat /x {\"component\": \"store\"}",
                "info store works again; for TIME it was degraded: open /x {\"component\": \"store\"}",
            ]
        );
    }
    /// Nothing was mended: the server took down what was degraded.
    #[test]
    fn nothing_works_again_because_the_process_stops() {
        let degradations = Degradations::default();
        let records = log::tests::records(|| {
            degradations.set("configuration", Err("an error".to_owned()));
            degradations.clone().stopping();
            degradations.set("configuration", Ok(()));
            degradations.set("log", Err("disk full".to_owned()));
        });
        assert_eq!(
            degradations.list().iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            ["configuration", "log"]
        );
        assert_eq!(
            records,
            [
                "warn configuration is degraded: an error {\"component\": \"configuration\"}",
                "warn log is degraded: disk full {\"component\": \"log\"}",
            ]
        );
    }
}
