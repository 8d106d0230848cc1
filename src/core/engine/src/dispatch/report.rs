//! Reports: collects instances and delivers them to handlers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bumpalo::collections::Vec as ArenaVec;

use super::context::count_work;
use super::instances::{evaluate_sharing, work_of};
use super::trace::{TracedPhase, step};
use super::{DispatchContext, DispatchError};
use crate::adapter::Instance;
use crate::routing::{MatchCounts, Matched, RoutingTable, RuleKind};
use crate::secret_values::{Judge, SecretReader, SecretValues, by_name};
use crate::snapshot::{InstanceConfig, OnError, Snapshot};
use mixer_attribute::AttributeBag;
use mixer_config::ResourceKey;

/// Collects the instances of all bags of a report by destination, and delivers them in one call per destination.
pub struct ReportCollector<'a> {
    table: &'a RoutingTable,
    batches: Vec<Vec<Instance<'a>>>,
    /// What is secret in the instances whose delivery failed.
    failed: SecretValues,
    /// Destinations whose failures some rule ignores.
    lenient: Vec<bool>,
    /// The work of delivering the batches, in the unit of [`work_done`](super::work_done).
    pending: usize,
}

impl<'a> ReportCollector<'a> {
    /// A collector for one call.
    pub fn new(table: &'a RoutingTable) -> Self {
        let destinations = table.destinations().len();
        Self {
            table,
            batches: (0..destinations).map(|_| Vec::new()).collect(),
            failed: SecretValues::default(),
            lenient: vec![false; destinations],
            pending: 0,
        }
    }

    /// The work of delivering what is collected, in the unit of [`work_done`](super::work_done).
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Evaluates the instances of all rules that match a preprocessed bag.
    ///
    /// Errors: instances that could not be evaluated; all others are collected.
    pub fn collect(
        &mut self,
        bag: &AttributeBag<'a>,
        context: &DispatchContext<'_>,
    ) -> Result<(), DispatchError> {
        let rules = self.table.select(RuleKind::Report, bag);
        let mut matched: ArenaVec<'a, Matched<'a, 'a>> = ArenaVec::new_in(bag.arena());
        let mut counts = MatchCounts::default();
        for set in rules.sets() {
            counts += set.matches(bag, &mut matched);
        }
        context.metrics.conditions_failed(counts.failures);
        let mut work = counts.evaluations;
        let known = bag.arena().alloc_slice_fill_copy(self.table.shared_values(), None);
        let mut errors = DispatchError::default();
        let mut instances = 0;
        for Matched { route, failed } in matched {
            if failed.is_some() {
                route.counters.failed();
                continue;
            }
            route.counters.hit();
            if let Some(trace) = context.trace {
                trace.borrow_mut().rule(&route.rule, RuleKind::Report);
            }
            for action in &route.actions {
                let lenient = route.rule.on_error.or(action.handler.config.on_error) == Some(OnError::Allow);
                for instance in &action.instances {
                    work += work_of(instance);
                    match evaluate_sharing(instance, bag, known) {
                        Ok(evaluated) => {
                            instances += 1;
                            if let Some(trace) = context.trace {
                                let made = Some(&evaluated.instance);
                                trace.borrow_mut().dispatch(route, action, instance, RuleKind::Report, made);
                            }
                            let at = instance.destination.index();
                            self.pending += work_of(instance);
                            if let Some(batch) = self.batches.get_mut(at) {
                                batch.push(evaluated.instance);
                            }
                            if let Some(flag) = self.lenient.get_mut(at) {
                                *flag |= lenient;
                            }
                        }
                        Err(text) => {
                            route.counters.failed();
                            if let Some(trace) = context.trace {
                                let mut trace = trace.borrow_mut();
                                let at = trace.dispatch(route, action, instance, RuleKind::Report, None);
                                trace.failed(at, text);
                            }
                            if !lenient {
                                errors.errors.push(text.to_owned());
                            }
                        }
                    }
                }
            }
        }
        count_work(work);
        context.metrics.dispatch_shape(counts.groups, instances);
        errors.into_result(())
    }

    /// Delivers the instances of every destination. Asynchronous handlers are awaited together.
    ///
    /// Errors: those of the handlers, as `failed to report all values: …`; all other instances are delivered. The texts repeat values: if the log
    /// has them, they are to be free of the [secrets](Self::failed_secrets).
    pub async fn flush(
        &mut self,
        context: &DispatchContext<'_>,
        is_logged: bool,
    ) -> Result<(), DispatchError> {
        self.pending = 0;
        let mut pending = Vec::new();
        for ((destination, batch), lenient) in
            self.table.destinations().iter().zip(&self.batches).zip(&mut self.lenient)
        {
            if batch.is_empty() {
                continue;
            }
            let started = Instant::now();
            let reply = destination.handler.report(batch);
            let lenient = std::mem::take(lenient);
            pending.push(async move {
                let settled = context.settle((None, destination), started, reply).await;
                let phase = || TracedPhase::Deliver {
                    handler: std::sync::Arc::clone(&destination.handler.config.name),
                    adapter: destination.handler.adapter().into(),
                    template: destination.template.name.clone(),
                };
                let error = settled.as_ref().err().map(|error| error.message.clone());
                step(context.trace, phase, context.trace.map(|_| started), error);
                let error = settled.err().filter(|error| !lenient || error.is_stopping)?;
                // As Istio Mixer words the errors of adapters in process.
                let is_plain = error.message.starts_with("panic during handler dispatch: ")
                    || destination.template.external.is_some();
                let text = if is_plain {
                    error.message
                } else {
                    format!("failed to report all values: {}", error.message)
                };
                Some((text, error.is_stopping, (&destination.handler.config.key, batch)))
            });
        }
        let mut errors = DispatchError::default();
        let settled = futures_util::future::join_all(pending).await;
        let failures: Vec<_> = settled.into_iter().flatten().collect();
        if !failures.is_empty() {
            let snapshot = self.table.snapshot();
            let reader = SecretReader::of_records(SecretValues::of_worker(), by_name(&snapshot.secrets));
            let mut secrets = FailedSecrets { snapshot, reader, leaves: HashMap::new() };
            for (text, is_stopping, (handler, batch)) in failures {
                errors.errors.push(text);
                errors.is_stopping |= is_stopping;
                if is_logged {
                    secrets.read(handler, batch);
                }
            }
            self.failed = secrets.reader.finish();
        }
        self.batches.iter_mut().for_each(Vec::clear);
        errors.into_result(())
    }

    /// What is secret in the instances that the last [`flush`](Self::flush) failed to deliver, if its errors are logged: a handler knows no other
    /// values that its error could repeat.
    pub fn failed_secrets(&self) -> &SecretValues {
        &self.failed
    }
}

/// Collects the secret values of instances.
struct FailedSecrets<'t, J> {
    snapshot: &'t Snapshot,
    reader: SecretReader<J>,
    /// By instance: which leaves have a secret.
    leaves: HashMap<*const InstanceConfig, Vec<bool>>,
}

impl<J: Judge> FailedSecrets<'_, J> {
    fn read(&mut self, handler: &ResourceKey, batch: &[Instance<'_>]) {
        let bound =
            self.snapshot.bindings.get(handler).map(|binding| &*binding.instances).unwrap_or_default();
        for instance in batch {
            let secret_leaves = match bound.get(instance.bound) {
                Some(config) => {
                    let known = self.leaves.entry(Arc::as_ptr(config));
                    known.or_insert_with(|| config.secret_leaves(self.snapshot))
                }
                // It is not known what its values are of.
                None => &mut vec![true; instance.values.len()],
            };
            if !self.reader.read_instance(instance, secret_leaves) {
                return;
            }
        }
    }
}
