//! Registration of metrics: which definitions share a metric, and what a redefinition keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::definition::Definition;
use super::metric::{Metric, MetricCounters};
use super::{MetricInfo, Params};
use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::metrics::Family;
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

/// The effect of building a handler.
pub(super) struct Registered {
    pub(super) registrations: Registrations,
    /// Metrics that are replaced, and what replaces them.
    pub(super) replaced: Vec<(Arc<Metric>, Arc<Metric>)>,
}

/// The registrations once this handler is built. A redefinition empties all metrics that only this handler declared. Metrics of other
/// open handlers keep their values, and a metric that they feed and that is redefined goes on as the new one.
pub(super) fn register(
    current: &Registrations,
    open: &OpenHandlers,
    params: &Params,
    env: &Env,
) -> Result<Registered, Vec<String>> {
    let mut registered = current.clone();
    let redefined = params
        .metrics
        .iter()
        .find(|info| registered.get(&info.instance_name).is_some_and(|known| !is_same(&known.info, info)));
    if let Some(info) = redefined {
        tracing::warn!(adapter = &*env.handler_name, "Metric {} redefined. Reloading adapter.", info.name);
        registered = of_others(current, open, params, env);
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
        let is_in_use = |instance: &String, known: &Registration| {
            params.metrics.iter().any(|info| info.instance_name == *instance)
                || !other_owners(Some(known), open, env).is_empty()
        };
        let collision = registered
            .iter()
            .filter(|(instance, known)| is_in_use(instance, known))
            .find_map(|(_, known)| known.metric.definition.collision(&definition));
        if let Some(why) = collision {
            errors.push(why);
            continue;
        }
        let metric = match registered.values().find(|r| r.metric.definition.name == definition.name) {
            None => new_metric(definition, env),
            Some(twin) if twin.metric.definition.is_same_metric(&definition) => Arc::clone(&twin.metric),
            Some(_) => {
                errors.push(format!(
                    "could not register metric: metric {:?} already exists with different labels, help or kind",
                    definition.name
                ));
                continue;
            }
        };
        let owners = other_owners(current.get(&info.instance_name), open, env);
        let owners = owners.into_iter().chain([Arc::clone(&env.handler_name)]).collect();
        let registration = Registration { info: info.clone(), owners, metric };
        registered.insert(info.instance_name.clone(), registration);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let is_used = |metric| registered.values().any(|r| Arc::ptr_eq(&r.metric, metric));
    let replaced = current.iter().filter(|(_, old)| !is_used(&old.metric)).filter_map(|(instance, old)| {
        let new = &registered.get(instance)?.metric;
        Some((Arc::clone(&old.metric), Arc::clone(new)))
    });
    let replaced = replaced.collect();
    Ok(Registered { replaced, registrations: registered })
}

/// Other open handlers that declared a metric.
fn other_owners(known: Option<&Registration>, open: &OpenHandlers, env: &Env) -> BTreeSet<Arc<str>> {
    let owners = known.into_iter().flat_map(|known| &known.owners);
    owners.filter(|owner| **owner != env.handler_name && open.contains_key(*owner)).cloned().collect()
}

/// The registrations that a redefinition leaves alone: those of other open handlers which this one does not redefine.
fn of_others(current: &Registrations, open: &OpenHandlers, params: &Params, env: &Env) -> Registrations {
    let kept = current.iter().filter_map(|(instance, known)| {
        let owners = other_owners(Some(known), open, env);
        let is_redefined =
            params.metrics.iter().any(|info| info.instance_name == *instance && !is_same(&known.info, info));
        let kept = Registration { owners, ..known.clone() };
        (!kept.owners.is_empty() && !is_redefined).then(|| (instance.clone(), kept))
    });
    kept.collect()
}

fn new_metric(definition: Definition, env: &Env) -> Arc<Metric> {
    let counter = |family| env.metrics.counter(family, &[&definition.name]);
    let counters = MetricCounters {
        refused: counter(Family::PrometheusReportsRefused),
        cut: counter(Family::PrometheusLabelsCut),
    };
    let memory = env.commons.get::<MemoryBudget>();
    Arc::new(Metric::new(definition, counters, memory.share(Purpose::Series).open()))
}

/// Whether a definition is unchanged, apart from its limit of series.
fn is_same(known: &MetricInfo, info: &MetricInfo) -> bool {
    let info = MetricInfo { max_series: known.max_series, ..info.clone() };
    *known == info
}
