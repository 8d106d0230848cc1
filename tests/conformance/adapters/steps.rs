//! Runs a case: builds the handler, performs the steps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bumpalo::Bump;
use mixer_adapters::AdapterOptions;
use mixer_attribute::{AttributeBag, SignedDuration, Value, Vocabulary};
use mixer_base::metrics::Metrics;
use mixer_config::message::Field as _;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Node, NodeKind, Severity};
use mixer_engine::adapter::{
    BuildError, Commons, Env, ErasedAdapter, Handler, Instance, NOT_BUILT, QuotaCall, Reply, TaskSpawner,
};
use serde_json::{Value as Json, json};

use super::compare::compare;
use super::fixture::Fixture;
use super::generate::Bindings;
use super::instance::{Compiled, bag};
use crate::support::POLL_INTERVAL;

/// How long a handler may take to close.
const CLOSE_TIME: Duration = Duration::from_secs(10);

/// How long lines may take to be written.
const WRITTEN: Duration = Duration::from_secs(5);

/// Runs a case.
///
/// Errors: the first difference.
pub(super) async fn run(
    case: &Node,
    adapter: &'static dyn ErasedAdapter,
    vocabulary: &Arc<Vocabulary>,
) -> Result<(), String> {
    let fixture = Fixture::new(case).await?;
    let instances = case.get("instances").map(Node::items).unwrap_or_default();
    let instances = instances.iter().map(|i| Compiled::new(i, vocabulary)).collect::<Result<Vec<_>, _>>()?;
    let of_first = case.get("instances").and_then(|instances| instances.items().first());
    let bindings = Bindings::of(of_first.unwrap_or(&Node::default()), vocabulary)?;
    let mut runner = Runner {
        adapter,
        bindings: &bindings,
        vocabulary,
        fixture: &fixture,
        instances: &instances,
        metrics: Arc::new(Metrics::default()),
        commons: as_istio_mixer(),
        live: None,
        calls: 0,
    };
    let params = case.get("handler").and_then(|h| h.get("params"));
    let built = match runner.build(params).await {
        Ok(live) => {
            runner.live = Some(live);
            json!({"ok": true})
        }
        Err(text) => json!({"error": text}),
    };
    fixture.time.start();
    runner.expect_build(case.get("build"), &built)?;
    for (index, step) in case.get("steps").map(Node::items).unwrap_or_default().iter().enumerate() {
        runner.step(step).await.map_err(|error| format!("step {}: {error}", index + 1))?;
    }
    if let Some(live) = runner.live.take() {
        live.close().await?;
    }
    Ok(())
}

/// A handler and its tasks.
struct Live {
    handler: Box<dyn Handler>,
    tasks: TaskSpawner,
}

impl Live {
    async fn close(self) -> Result<(), String> {
        let closed = tokio::time::timeout(CLOSE_TIME, self.handler.close(CLOSE_TIME)).await;
        let tasks = tokio::time::timeout(CLOSE_TIME, self.tasks.shut_down()).await;
        closed.map_err(|_| "close hangs".to_owned())?.map_err(|e| e.message)?;
        tasks.map_err(|_| "a background task does not end".to_owned())
    }
}

struct Runner<'r> {
    adapter: &'static dyn ErasedAdapter,
    vocabulary: &'r Arc<Vocabulary>,
    fixture: &'r Fixture,
    instances: &'r [Compiled],
    /// Those of the first instance.
    bindings: &'r Bindings,
    metrics: Arc<Metrics>,
    commons: Arc<Commons>,
    live: Option<Live>,
    calls: u32,
}

impl Runner<'_> {
    async fn build(&self, params: Option<&Node>) -> Result<Live, String> {
        let params = self.fixture.params(params);
        // Like the server, it continues with what decoded.
        let (params, _) = self.adapter.decode(params.as_ref(), FieldPath::root());
        let bound: Vec<_> = self.instances.iter().map(|i| i.bound.clone()).collect();
        let mut problems = Diagnostics::new();
        self.adapter.validate(&params, &bound, &mut problems);
        let refused = |p: &Diagnostic| p.severity == Severity::Error && p.code != NOT_BUILT;
        let errors: Vec<_> = problems.into_iter().filter(refused).map(|p| p.message.clone()).collect();
        if !errors.is_empty() {
            return Err(errors.join("\n"));
        }
        let tasks = TaskSpawner::new(tokio::runtime::Handle::current());
        let env = Env {
            handler_name: "h.istio-system".into(),
            clock: self.fixture.time.clock(),
            tasks: tasks.clone(),
            metrics_port: self.fixture.metrics_port,
            metrics: self.metrics.clone(),
            commons: self.commons.clone(),
            resources: None,
        };
        let handler = self.adapter.build(&params, bound, env).await.map_err(|e: BuildError| e.to_string())?;
        Ok(Live { handler, tasks })
    }

    fn expect_build(&self, want: Option<&Node>, got: &Json) -> Result<(), String> {
        let Some(want) = want else { return self.expect(&json!({"ok": true}), got) };
        let want = self.fixture.fill_node(want).to_json();
        match want.get("anyOf").and_then(Json::as_array) {
            Some(choices) if choices.iter().any(|choice| self.expect(choice, got).is_ok()) => Ok(()),
            _ => self.expect(&want, got).map_err(|e| format!("build: {e}")),
        }
    }

    fn expect(&self, want: &Json, got: &Json) -> Result<(), String> {
        compare(want, got)
    }

    async fn step(&mut self, step: &Node) -> Result<(), String> {
        if let Some(at) = step.get("at").and_then(Node::as_str) {
            self.fixture.time.reach(SignedDuration::parse(at)?.to_std_or_zero()).await;
        }
        // A thread of its own writes lines.
        let limit = if step.get("lines").is_some() { WRITTEN } else { Duration::ZERO };
        let begun = Instant::now();
        loop {
            let got = self.act(step).await?;
            let Some(want) = step.get("want") else { return Ok(()) };
            let result = self.expect(&self.fixture.fill_node(want).to_json(), &got);
            if result.is_ok() || begun.elapsed() >= limit {
                return result;
            }
            // The interval of polling, in real time: the clock of the case may be stopped.
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    async fn act(&mut self, step: &Node) -> Result<Json, String> {
        if let Some(node) = step.get("provider") {
            self.fixture.provide(node);
            return Ok(Json::Null);
        }
        if let Some(resources) = step.get("resources") {
            return self.fixture.write_resources(resources).map(|()| Json::Null);
        }
        if let Some(node) = step.get("reload") {
            let new = self.build(node.get("params")).await;
            return match new {
                Ok(new) => {
                    if let Some(old) = self.live.replace(new) {
                        old.close().await?;
                    }
                    Ok(json!({"ok": true}))
                }
                Err(text) => Ok(json!({"error": text})),
            };
        }
        if step.get("scrape").is_some() {
            return self.fixture.scrape().await;
        }
        if step.get("lines").is_some() {
            return self.fixture.lines();
        }
        if step.get("calls").is_some() {
            return Ok(self.fixture.backend.as_ref().map_or(json!({"calls": []}), |b| b.take_calls()));
        }
        if step.get("close").is_some() {
            return match self.live.take() {
                Some(live) => {
                    Ok(live.close().await.map_or_else(|e| json!({"error": e}), |()| json!({"ok": true})))
                }
                None => Err("there is no handler to close".to_owned()),
            };
        }
        if let Some(attributes) = step.get("check") {
            return self.check(attributes).await;
        }
        if let Some(attributes) = step.get("generate") {
            return self.generate(attributes).await;
        }
        if let Some(call) = step.get("quota") {
            self.calls += 1;
            return self.quota(call).await;
        }
        if let Some(attributes) = step.get("report") {
            return self.report(attributes).await;
        }
        Err(format!("unknown step: {}", step.to_json()))
    }

    fn handler(&self) -> Result<&dyn Handler, String> {
        self.live.as_ref().map(|live| &*live.handler).ok_or_else(|| "there is no handler".to_owned())
    }

    fn first(&self) -> Result<&Compiled, String> {
        self.instances.first().ok_or_else(|| "the case has no instance".to_owned())
    }

    async fn check(&self, attributes: &Node) -> Result<Json, String> {
        let arena = Bump::new();
        let bag = bag(attributes, self.vocabulary, &arena)?;
        let compiled = self.first()?;
        let values = match compiled.evaluate(&bag) {
            Ok(values) => values,
            Err(text) => return Ok(json!({"instanceError": text})),
        };
        let instance = Instance { bound: 0, name: &compiled.bound.name, values: &values };
        let check = self.handler()?.as_check().ok_or("the handler takes no checks")?;
        Ok(match settle(check.check(&instance)).await {
            Ok(result) => json!({
                "code": result.status.code,
                "message": result.status.message,
                "validDuration": result.valid_duration.to_string(),
                "validUseCount": result.valid_use_count,
            }),
            Err(text) => json!({"error": text}),
        })
    }

    async fn generate(&self, attributes: &Node) -> Result<Json, String> {
        let arena = Bump::new();
        let mut bag = bag(attributes, self.vocabulary, &arena)?;
        let compiled = self.first()?;
        let values = compiled.evaluate(&bag)?;
        let instance = Instance { bound: 0, name: &compiled.bound.name, values: &values };
        let generator = self.handler()?.as_generate().ok_or("the handler generates nothing")?;
        let bound = match settle(generator.generate(&instance)).await {
            Ok(generated) => self.bindings.apply(&generated, &mut bag, self.vocabulary, &arena),
            Err(error) => Err(error),
        };
        Ok(bound.unwrap_or_else(|error| json!({"error": error})))
    }

    async fn quota(&self, call: &Node) -> Result<Json, String> {
        let arena = Bump::new();
        let empty = Node::default();
        let bag = bag(call.get("attrs").unwrap_or(&empty), self.vocabulary, &arena)?;
        let wanted = call.get("instance").and_then(Node::as_str);
        let position = wanted.map_or(Some(0), |name| {
            let full = format!("{name}.instance.istio-system");
            self.instances.iter().position(|i| *i.bound.name == *full)
        });
        let position = position.ok_or("the step names an unknown instance")?;
        let compiled = self.instances.get(position).ok_or("the case has no instance")?;
        let values = match compiled.evaluate(&bag) {
            Ok(values) => values,
            Err(text) => return Ok(json!({"instanceError": text})),
        };
        let instance = Instance { bound: position, name: &compiled.bound.name, values: &values };
        let unique = format!("case-{}", self.calls);
        let asked = QuotaCall {
            amount: match call.get("amount").map(|n| &n.kind) {
                Some(NodeKind::Int(amount)) => *amount,
                _ => 0,
            },
            best_effort: call.get("bestEffort").is_some_and(|n| n.kind == NodeKind::Bool(true)),
            deduplication_id: call.get("dedupId").and_then(Node::as_str).unwrap_or(&unique),
        };
        let quota = self.handler()?.as_quota().ok_or("the handler takes no quotas")?;
        Ok(match settle(quota.quota(&instance, asked)).await {
            Ok(result) => {
                json!({"granted": result.granted, "validDuration": result.valid_duration.to_string()})
            }
            Err(text) => json!({"error": text}),
        })
    }

    async fn report(&self, attributes: &Node) -> Result<Json, String> {
        let arena = Bump::new();
        let bag = bag(attributes, self.vocabulary, &arena)?;
        let (batches, not_evaluated) = self.batches(&bag);
        let report = self.handler()?.as_report().ok_or("the handler takes no reports")?;
        let mut errors = Vec::new();
        for (_, batch) in &batches {
            let instances: Vec<Instance<'_>> =
                batch.iter().map(|(bound, name, values)| Instance { bound: *bound, name, values }).collect();
            errors.extend(settle(report.report(&instances)).await.err());
        }
        Ok(if !not_evaluated.is_empty() {
            json!({"instanceError": not_evaluated.join("\n")})
        } else if !errors.is_empty() {
            json!({"error": errors.join("\n")})
        } else {
            json!({"ok": true})
        })
    }

    /// The evaluated instances by template, and the errors of the others.
    fn batches<'a>(&'a self, bag: &AttributeBag<'a>) -> (Vec<(&'a str, Vec<Evaluated<'a>>)>, Vec<String>) {
        let mut batches: Vec<(&'a str, Vec<Evaluated<'a>>)> = Vec::new();
        let mut errors = Vec::new();
        for (bound, compiled) in self.instances.iter().enumerate() {
            let values = match compiled.evaluate(bag) {
                Ok(values) => values,
                Err(text) => {
                    errors.push(text);
                    continue;
                }
            };
            let one = (bound, &*compiled.bound.name, values);
            let template = &*compiled.bound.template.name;
            match batches.iter_mut().find(|(name, _)| *name == template) {
                Some((_, batch)) => batch.push(one),
                None => batches.push((template, vec![one])),
            }
        }
        (batches, errors)
    }
}

/// Index, name and values of an instance.
type Evaluated<'a> = (usize, &'a str, Vec<Option<Value<'a>>>);

async fn settle<T>(reply: Reply<T>) -> Result<T, String> {
    match reply {
        Reply::Ready(result) => result,
        Reply::Later(future) => future.await,
    }
    .map_err(|e| e.message)
}

/// The cases are what Istio Mixer answers.
fn as_istio_mixer() -> Arc<Commons> {
    let commons = Arc::new(Commons::default());
    commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
    commons
}
