//! Preprocessing: generators add attributes before everything else.

use std::time::Instant;

use bumpalo::collections::Vec as ArenaVec;

use super::context::count_work;
use super::instances::{evaluate, work_of};
use super::trace::CallTrace;
use super::{DispatchContext, DispatchError};
use crate::adapter::{Generated, GeneratedValue, HandlerError};
use crate::routing::{MatchCounts, Matched, Route, RouteInstance, RoutingTable, RuleKind};
use crate::snapshot::InstanceConfig;
use mixer_attribute::{AttributeBag, SlotId, StringMap, Value};
use mixer_expr::{EvalError, Program};

/// Runs the generators and adds their attributes to the bag. The first generator of an attribute wins, and generators do not see each
/// other's output. A received attribute is replaced only if an instance that binds it ignores received values; Istio Mixer 1.3 never does.
/// An answer made from another generated attribute depends on the absence of a received one: whoever reads it records that.
///
/// Errors: an instance or binding that could not be evaluated, a handler that failed; then no attribute is set.
pub async fn preprocess<'t: 'a, 'a>(
    table: &'t RoutingTable,
    bag: &mut AttributeBag<'a>,
    context: &DispatchContext<'_>,
) -> Result<(), DispatchError> {
    if !table.has(RuleKind::Generate) {
        context.metrics.dispatch_shape(0, 0);
        return Ok(());
    }
    let rules = table.select(RuleKind::Generate, bag);
    let mut matched: ArenaVec<'a, Matched<'t, 'a>> = ArenaVec::new_in(bag.arena());
    let groups = {
        let mut counts = MatchCounts::default();
        for set in rules.sets() {
            counts += set.matches(bag, &mut matched);
        }
        context.metrics.conditions_failed(counts.failures);
        count_work(counts.evaluations);
        counts.groups
    };
    let mut errors = DispatchError::default();
    let mut pending: Vec<((&'t Route, &'t RouteInstance), _)> = Vec::new();
    for Matched { route, failed } in matched {
        if let Some(error) = failed {
            context.failed(route);
            // Nothing is decided yet that could refuse the request.
            let refused = errors.condition_failed(route, error);
            refused.into_iter().for_each(|text| errors.push(HandlerError::of_request(text)));
            continue;
        }
        context.hit(route);
        if let Some(trace) = context.trace {
            trace.borrow_mut().rule(&route.rule, RuleKind::Generate);
        }
        for action in &route.actions {
            for instance in &action.instances {
                count_work(work_of(instance));
                match evaluate(instance, bag) {
                    Ok(evaluated) => {
                        if evaluated.has_map {
                            bag.whole_map_used();
                        }
                        let at = context.trace.map(|trace| {
                            let made = Some(&evaluated.instance);
                            trace.borrow_mut().dispatch(route, action, instance, RuleKind::Generate, made)
                        });
                        let started = Instant::now();
                        let reply = action.handler.generate(&evaluated.instance);
                        if let Some(destination) = table.destinations().get(instance.destination.index()) {
                            let settling = async move {
                                let result = context.settle((Some(route), destination), started, reply).await;
                                if let (Some(trace), Some(at)) = (context.trace, at) {
                                    CallTrace::new(at, started).done(trace, &result);
                                }
                                result
                            };
                            pending.push(((route, instance), settling));
                        }
                    }
                    Err(text) => {
                        context.failed(route);
                        errors.push(HandlerError::of_request(text));
                    }
                }
            }
        }
    }
    context.metrics.dispatch_shape(groups, pending.len());
    let (routed, settling): (Vec<_>, Vec<_>) = pending.into_iter().unzip();
    let answers = futures_util::future::join_all(settling).await;
    let mut made: Vec<(SlotId, Value<'a>)> = Vec::new();
    let mut ignored: Vec<SlotId> = Vec::new();
    for ((route, instance), answer) in routed.into_iter().zip(answers) {
        let bound = answer
            .and_then(|generated| bind(&instance.config, &generated, bag).map_err(HandlerError::of_request));
        match bound {
            Ok(values) => {
                if instance.config.ignores_received_values {
                    ignored.extend(values.iter().map(|(slot, _)| *slot));
                }
                made.extend(values);
            }
            Err(error) => {
                context.failed(route);
                errors.push(error);
            }
        }
    }
    errors.into_result(())?;
    let mut replaced: Vec<SlotId> = Vec::new();
    for (slot, value) in made {
        match ignored.contains(&slot) {
            false => bag.generate(slot, value),
            // INVARIANT: what follows from it follows from what conditions and instances of generators read, which is recorded.
            true if !replaced.contains(&slot) => {
                bag.set(slot, value);
                replaced.push(slot);
            }
            true => {}
        }
    }
    Ok(())
}

/// Evaluates the bindings of an instance over the request and the output of its generator.
fn bind<'a>(
    instance: &'a InstanceConfig,
    generated: &Generated,
    bag: &mut AttributeBag<'a>,
) -> Result<Vec<(SlotId, Value<'a>)>, String> {
    if instance.template().external.is_some() {
        return bind_external(instance, generated, bag);
    }
    let mark = bag.mark();
    for (output, value) in &generated.values {
        if let Some(Some(slot)) = instance.outputs.get(*output) {
            let value = copy_value(value, bag);
            bag.set(*slot, value);
        }
    }
    let bound = instance
        .bindings
        .iter()
        .map(|binding| Ok((binding.target, binding.value.eval(bag).map_err(|e| e.to_string())?)))
        .collect();
    bag.rewind(mark);
    bound
}

/// The same of a template out of process, whose outputs have slots of their own.
fn bind_external<'a>(
    instance: &'a InstanceConfig,
    generated: &Generated,
    bag: &AttributeBag<'a>,
) -> Result<Vec<(SlotId, Value<'a>)>, String> {
    let outputs = bag.arena().alloc_slice_fill_copy(instance.outputs.len(), None::<Value<'a>>);
    for (output, value) in &generated.values {
        if let Some(place) = outputs.get_mut(*output) {
            *place = Some(copy_value(value, bag));
        }
    }
    let outputs: &'a [Option<Value<'a>>] = outputs;
    let before = bag.set_outputs(outputs);
    let values = instance.bindings.iter().map(|binding| {
        let value = binding.value.eval(bag).map_err(|error| {
            let text = match error {
                EvalError::Absent { name: "" } => absent_output(instance, &binding.value, outputs),
                _ => error.to_string(),
            };
            format!("internal: failed to map attributes from the output: {text}")
        });
        Ok((binding.target, value?))
    });
    let values = values.collect();
    bag.set_outputs(before);
    values
}

/// The error of an expression that reads an output that is not there, which has no name in the vocabulary.
fn absent_output(instance: &InstanceConfig, value: &Program, outputs: &[Option<Value<'_>>]) -> String {
    let template = instance.template();
    let mut read = value.attributes().into_iter().filter_map(SlotId::output_position);
    let absent = read.find(|position| outputs.get(*position).is_none_or(Option::is_none));
    let name = absent.and_then(|position| Some(&template.output.get(position)?.name));
    format!("lookup failed: 'output.{}'", name.map_or("", |name| name))
}

/// Copies a generated value into the arena. Addresses become 4 bytes if they are IPv4, else 16.
pub(super) fn copy_value<'a>(value: &GeneratedValue, bag: &AttributeBag<'a>) -> Value<'a> {
    let arena = bag.arena();
    match value {
        GeneratedValue::String(text) => Value::String(arena.alloc_slice_copy(text.as_bytes())),
        GeneratedValue::Int64(value) => Value::Int64(*value),
        GeneratedValue::Double(value) => Value::Double(*value),
        GeneratedValue::Bool(value) => Value::Bool(*value),
        GeneratedValue::Timestamp(time) => Value::Timestamp(*time),
        GeneratedValue::Duration(duration) => Value::Duration(*duration),
        GeneratedValue::IpAddress(std::net::IpAddr::V4(ip)) => {
            Value::Bytes(arena.alloc_slice_copy(&ip.octets()))
        }
        GeneratedValue::IpAddress(std::net::IpAddr::V6(ip)) => match ip.to_ipv4_mapped() {
            Some(ip) => Value::Bytes(arena.alloc_slice_copy(&ip.octets())),
            None => Value::Bytes(arena.alloc_slice_copy(&ip.octets())),
        },
        GeneratedValue::StringMap(entries) => {
            let copy = |text: &String| -> &'a [u8] { arena.alloc_slice_copy(text.as_bytes()) };
            let entries = arena.alloc_slice_fill_iter(entries.iter().map(|(k, v)| (copy(k), copy(v))));
            Value::StringMap(arena.alloc(StringMap { entries, source: None }))
        }
    }
}
