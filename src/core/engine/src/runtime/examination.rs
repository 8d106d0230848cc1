//! The examination of a published configuration: what `validate` finds in it beyond what a build finds.
//!
//! It decides nothing of what serves, and nothing waits for it. A newer configuration ends that of an older one.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::snapshot::{Snapshot, examine};
use mixer_base::task::Group;
use mixer_config::{Diagnostic, Diagnostics, Severity};

/// How long a configuration is published before it is examined: of several that follow each other at once, the last one is.
const DELAY: Duration = Duration::from_millis(250);
/// Maximum number of problems of a severity that are kept. The last one counts the others.
const KEPT: usize = 10_000;

/// The examination of the configuration that was published last.
#[derive(Default)]
pub(super) struct Examination {
    state: State,
}

#[derive(Default)]
enum State {
    /// It has ended, or there is none.
    #[default]
    Ended,
    Waits {
        snapshot: Arc<Snapshot>,
        until: Instant,
    },
    Runs {
        found: oneshot::Receiver<Diagnostics>,
        /// Ends it with this value.
        _stop: DropGuard,
    },
}

impl Examination {
    /// Begins with another configuration, instead of one of which the examination has not ended.
    pub(super) fn begin(&mut self, snapshot: Arc<Snapshot>) {
        self.state = State::Waits { snapshot, until: Instant::now() + DELAY };
    }

    /// What is found, as soon as an examination has ended; at once, without [`DELAY`], with `now`. `None` if it failed, and with `now` if there is none.
    /// A future that is dropped loses nothing.
    pub(super) async fn found(&mut self, runtime: &Handle, now: bool) -> Option<Diagnostics> {
        loop {
            match &mut self.state {
                State::Ended if now => return None,
                State::Ended => std::future::pending().await,
                State::Waits { until, .. } => {
                    if !now {
                        tokio::time::sleep_until(*until).await;
                    }
                    self.start(runtime);
                }
                State::Runs { found, .. } => {
                    let found = found.await;
                    self.state = State::Ended;
                    return found.ok();
                }
            }
        }
    }

    fn start(&mut self, runtime: &Handle) {
        let State::Waits { snapshot, .. } = std::mem::take(&mut self.state) else { return };
        let (sender, found) = oneshot::channel();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let examined = runtime.spawn_blocking(move || examine(&snapshot, &|| stopped.is_cancelled()));
        Group::new("examination of a configuration").spawn_on(runtime, async move {
            match examined.await {
                Ok(Some(found)) => drop(sender.send(found)),
                Ok(None) => {}
                Err(failed) => {
                    if let Ok(panic) = failed.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        });
        self.state = State::Runs { found, _stop: stop.drop_guard() };
    }
}

/// What of an examination nothing else tells: neither what is among the `known` problems, nor the errors of a resource of which these have one.
/// A handler that its adapter rejects is not built, and says so.
pub(super) fn beyond(known: &[Diagnostic], found: Diagnostics) -> Diagnostics {
    let errors = known.iter().filter(|problem| problem.severity == Severity::Error);
    let faulty: HashSet<&str> = errors.map(|problem| &*problem.resource).collect();
    let told: HashSet<(&str, &str)> =
        known.iter().map(|problem| (problem.code, &*problem.resource)).collect();
    let is_known = |problem: &Diagnostic| {
        let resource = &*problem.resource;
        let is_error = problem.severity == Severity::Error;
        !resource.is_empty()
            && (told.contains(&(problem.code, resource)) || (is_error && faulty.contains(resource)))
    };
    let mut beyond = found;
    beyond.retain(|problem| !is_known(problem));
    // Istio Mixer has none of them.
    beyond.iter_mut().for_each(|problem| problem.accepted_by_istio = true);
    first_of_each_severity(beyond)
}

fn first_of_each_severity(all: Diagnostics) -> Diagnostics {
    if all.len() <= KEPT {
        return all;
    }
    // With the place of the last one that is kept.
    let mut counts: BTreeMap<Severity, (usize, usize)> = BTreeMap::new();
    let mut kept = Diagnostics::new();
    for problem in all {
        let (count, last) = counts.entry(problem.severity).or_default();
        *count += 1;
        if *count <= KEPT {
            *last = kept.len();
            kept.push(problem);
        } else if let Some(last) = kept.get_mut(*last) {
            last.more = last.more.saturating_add(problem.count());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Registry, SnapshotBuilder, SnapshotOptions};
    use mixer_config::FieldPath;

    fn problem(severity: Severity, code: &'static str, resource: &str) -> Diagnostic {
        Diagnostic::new(severity, code, FieldPath::root(), code).with_resource(resource)
    }

    #[test]
    fn what_is_told_already_is_not_told_again() {
        let known = [
            problem(Severity::Error, "handler-build", "a.handler.ns"),
            problem(Severity::Warning, "dry-run-rejected", "r.rule.ns"),
        ];
        let found = beyond(
            &known,
            vec![
                problem(Severity::Error, "adapter-config", "a.handler.ns"),
                problem(Severity::Warning, "quota-held", "a.handler.ns"),
                problem(Severity::Error, "labels-differ", "b.handler.ns"),
                problem(Severity::Warning, "dry-run-rejected", "r.rule.ns"),
                problem(Severity::Warning, "attribute-keyword", ""),
            ],
        );
        let codes: Vec<&str> = found.iter().map(|problem| problem.code).collect();
        assert_eq!(codes, ["quota-held", "labels-differ", "attribute-keyword"]);
    }

    #[test]
    fn of_very_many_problems_the_first_are_kept_and_all_are_counted() {
        let mut all = vec![problem(Severity::Warning, "list-entry", "l.handler.ns"); KEPT + 7];
        all.push(problem(Severity::Error, "labels-differ", "m.handler.ns"));
        let kept = beyond(&[], all);
        assert_eq!(kept.len(), KEPT + 1);
        let count = |severity| {
            let of_severity = kept.iter().filter(|problem| problem.severity == severity);
            of_severity.map(Diagnostic::count).sum::<usize>()
        };
        assert_eq!((count(Severity::Warning), count(Severity::Error)), (KEPT + 7, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_newer_configuration_ends_an_examination() {
        let runtime = Handle::current();
        let snapshot = || SnapshotBuilder::new(SnapshotOptions::new(Registry::default())).empty();
        let mut examination = Examination::default();
        assert_eq!(examination.found(&runtime, true).await, None, "there is none");
        examination.begin(snapshot());
        // Dropped while it waits, and while it runs.
        let waiting = tokio::time::timeout(DELAY / 2, examination.found(&runtime, false));
        assert!(waiting.await.is_err());
        examination.start(&runtime);
        assert!(matches!(examination.state, State::Runs { .. }));
        examination.begin(snapshot());
        assert!(matches!(examination.state, State::Waits { .. }));
        assert_eq!(examination.found(&runtime, false).await, Some(Diagnostics::new()));
        assert!(matches!(examination.state, State::Ended));
    }
}
