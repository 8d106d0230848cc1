//! Registration of metrics: which definitions share a metric, and what a redefinition keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::definition::Definition;
use super::metric::Metric;
use super::{MetricInfo, Params};
use mixer_base::metrics::{Family, Metrics};
use mixer_engine::adapter::Env;

/// Registrations by full name of the instance.
pub(super) type Registrations = BTreeMap<String, Registration>;

/// A metric as registered for one instance.
#[derive(Debug, Clone)]
pub(super) struct Registration {
    info: MetricInfo,
    /// Handlers whose parameters declared it.
    owners: BTreeSet<Arc<str>>,
    pub(super) metric: Arc<Metric>,
}

/// Number of open handlers by name; two while a handler is replaced.
pub(super) type OpenHandlers = BTreeMap<Arc<str>, usize>;

/// The registrations once this handler is built.
pub(super) fn register(
    current: &Registrations,
    open: &OpenHandlers,
    params: &Params,
    env: &Env,
) -> Result<Registrations, Vec<String>> {
    let mut registered = current.clone();
    let redefined = params
        .metrics
        .iter()
        .find(|info| registered.get(&info.instance_name).is_some_and(|known| !is_same(&known.info, info)));
    if let Some(info) = redefined {
        tracing::warn!(adapter = &*env.handler_name, "Metric {} redefined. Reloading adapter.", info.name);
        registered = emptied(current, open, params, env);
    }
    let mut errors = Vec::new();
    for info in &params.metrics {
        let definition = match Definition::new(info) {
            Ok(definition) => definition,
            Err(text) => {
                errors.push(text);
                continue;
            }
        };
        if let Some(known) = registered.get_mut(&info.instance_name)
            && is_same(&known.info, info)
        {
            known.owners.insert(Arc::clone(&env.handler_name));
            known.metric.set_max_series(definition.max_series);
            continue;
        }
        let metric = match registered.values().find(|r| r.metric.definition.name == definition.name) {
            None => new_metric(definition, &env.metrics),
            Some(twin) if twin.metric.definition.is_same_metric(&definition) => Arc::clone(&twin.metric),
            Some(_) => {
                errors.push(format!(
                    "could not register metric: metric {:?} already exists with different labels, help or kind",
                    definition.name
                ));
                continue;
            }
        };
        let owners = BTreeSet::from([Arc::clone(&env.handler_name)]);
        let registration = Registration { info: info.clone(), owners, metric };
        registered.insert(info.instance_name.clone(), registration);
    }
    if errors.is_empty() { Ok(registered) } else { Err(errors) }
}

/// The registrations that remain when a metric is redefined: those of other open handlers only, without values.
fn emptied(current: &Registrations, open: &OpenHandlers, params: &Params, env: &Env) -> Registrations {
    let mut emptied = Registrations::new();
    for (instance, known) in current {
        let others: BTreeSet<Arc<str>> = known
            .owners
            .iter()
            .filter(|owner| **owner != env.handler_name && open.contains_key(*owner))
            .cloned()
            .collect();
        if others.is_empty() || params.metrics.iter().any(|info| info.instance_name == *instance) {
            continue;
        }
        let twin = emptied
            .values()
            .find(|r: &&Registration| r.metric.definition.name == known.metric.definition.name);
        let metric = match twin {
            Some(twin) => Arc::clone(&twin.metric),
            None => new_metric(known.metric.definition.clone(), &env.metrics),
        };
        emptied.insert(instance.clone(), Registration { info: known.info.clone(), owners: others, metric });
    }
    emptied
}

fn new_metric(definition: Definition, metrics: &Metrics) -> Arc<Metric> {
    let refused = metrics.counter(Family::PrometheusReportsRefused, &[&definition.name]);
    Arc::new(Metric::new(definition, refused))
}

/// Whether a definition is unchanged, apart from its limit of series.
fn is_same(known: &MetricInfo, info: &MetricInfo) -> bool {
    let info = MetricInfo { max_series: known.max_series, ..info.clone() };
    *known == info
}
