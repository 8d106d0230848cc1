//! The handler of the servicecontrol adapter.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mixer_attribute::{SignedDuration, Timestamp, Value};
use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_delivery::{AsyncSink, Batching, Delivery, List, Tally};
use mixer_engine::adapter::{
    BoundInstance, BuildError, CheckResult, Clock, Env, HandleCheck, HandleQuota, HandleReport, Handler,
    HandlerError, HandlerStatus, Instance, QueueStatus, QuotaCall, QuotaResult, Reply, join_errors,
};
use serde_json::Value as Json;

use super::checks::Checks;
use super::client::{Client, Failure, REPORT};
use super::codes::{INVALID_ARGUMENT, PERMISSION_DENIED};
use super::operation::{Operation, OperationTemplate, text_at};
use super::quota::Allocation;
use super::{Params, ServiceConfig};
use crate::AdapterOptions;
use crate::full::Handover;
use crate::outage::Outage;
use crate::sending::{close_all, closing, settings};

/// Calls of a request at most, and their bytes; their JSON is about ten times as long.
const BATCH: usize = 100;
const BATCH_BYTES: usize = 64 << 10;
/// Calls that are written without a break.
const AT_ONCE: usize = 10;
/// How long a call waits for others.
const WAIT: Duration = Duration::from_millis(200);

/// A built servicecontrol adapter.
pub(super) struct ServiceControlHandler {
    checks: Arc<Checks>,
    services: Arc<[ServiceConfig]>,
    /// One a bound instance.
    bound: Vec<Bound>,
    reports: Option<Arc<Delivery<List<Operation>>>>,
    queue: usize,
    clock: Arc<dyn Clock>,
    /// Whether a check that cannot be made is denied, as by Istio Mixer.
    denies_failures: bool,
}

/// A bound instance.
enum Bound {
    Key { api: Option<usize>, operation: Option<usize>, key: Option<usize>, at: Option<usize> },
    Report(Box<OperationTemplate>),
    Quota { service: Option<usize>, operation: Option<usize>, key: Option<usize> },
}

impl Bound {
    fn new(instance: &BoundInstance) -> Self {
        let dimension =
            |name: &str| instance.entries("dimensions").find(|(key, _)| *key == name).map(|(_, at)| at);
        match &*instance.template.name {
            "apikey" => Self::Key {
                api: instance.position("api"),
                operation: instance.position("api_operation"),
                key: instance.position("api_key"),
                at: instance.position("timestamp"),
            },
            "quota" => Self::Quota {
                service: dimension("api_service"),
                operation: dimension("api_operation"),
                key: dimension("api_key"),
            },
            _ => Self::Report(Box::new(OperationTemplate::new(instance))),
        }
    }
}

impl ServiceControlHandler {
    pub(super) fn start(params: &Params, instances: &[BoundInstance], env: &Env) -> Result<Self, BuildError> {
        let client = Client::new(params).map_err(|error| BuildError::Refused(error.to_string()))?;
        let runtime = params.runtime_config.clone().unwrap_or_default();
        let expiration = runtime.check_result_expiration.unwrap_or(SignedDuration::ZERO);
        // What callers make it keep, as other answers of handlers.
        let account = Arc::new(env.commons.get::<MemoryBudget>().share(Purpose::LastKnown).open());
        let (clock, size) = (Arc::clone(&env.clock), runtime.check_cache_size);
        let checks = Arc::new(Checks::new(client, clock, size, expiration, &account));
        let services: Arc<[ServiceConfig]> = params.service_configs.as_slice().into();
        let bound: Vec<Bound> = instances.iter().map(Bound::new).collect();
        let queue = (params.queue_kilobytes as usize).saturating_mul(1024);
        let has_reports = bound.iter().any(|bound| matches!(bound, Bound::Report(_)));
        let reports = has_reports.then(|| {
            let batching = Batching { items: BATCH, bytes: BATCH_BYTES, wait: WAIT };
            let settings = settings(env, queue, params.when_full.with(params.hold_timeout), batching);
            let sender = Sender {
                checks: Arc::clone(&checks),
                services: Arc::clone(&services),
                clock: Arc::clone(&env.clock),
                outage: Outage::new(&env.handler_name),
            };
            Arc::new(Delivery::in_task("servicecontrol sender", &*env.handler_name, settings, sender))
        });
        let denies_failures = env.commons.get::<AdapterOptions>().as_istio_mixer;
        let clock = Arc::clone(&env.clock);
        Ok(Self { checks, services, bound, reports, queue, clock, denies_failures })
    }

    /// The index of a service by its name in the mesh.
    fn service(&self, name: &str) -> Option<usize> {
        self.services.iter().position(|service| service.mesh_service_name == name)
    }
}

impl Handler for ServiceControlHandler {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn as_quota(&self) -> Option<&dyn HandleQuota> {
        Some(self)
    }

    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let trouble = self.checks.client.trouble();
        let Some(reports) = &self.reports else {
            return HandlerStatus { trouble, ..HandlerStatus::default() };
        };
        let status = reports.status();
        let queue = QueueStatus {
            name: "bytes of reports to be sent".to_owned(),
            length: status.queued_bytes,
            capacity: self.queue,
            dropped: status.full,
        };
        let trouble = reports.trouble().or(trouble);
        HandlerStatus { trouble, queues: vec![queue], ..HandlerStatus::default() }
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        Box::pin(close_all([closing(self.reports.as_ref(), deadline)]))
    }
}

impl HandleCheck for ServiceControlHandler {
    fn check(&self, instance: &Instance<'_>) -> Reply<CheckResult> {
        let Some(Bound::Key { api, operation, key, at }) = self.bound.get(instance.bound) else {
            let text = format!("instance `{}` is not bound to this handler", instance.name);
            return Reply::Ready(Err(HandlerError::new(text)));
        };
        let denied = |code, message, valid| Reply::Ready(Ok(self.checks.result_of(code, message, valid)));
        let api = text_at(instance, *api);
        let Some(service) = self.service(&api).and_then(|index| self.services.get(index)) else {
            // Not to be cached: the next configuration may have it.
            let mut result = self.checks.result_of(
                PERMISSION_DENIED,
                format!("unknown service {api}"),
                SignedDuration::ZERO,
            );
            result.valid_use_count = 0;
            return Reply::Ready(Ok(result));
        };
        let (operation, key) = (text_at(instance, *operation), text_at(instance, *key));
        if operation.is_empty() || key.is_empty() {
            let text = format!("instance:{}, api key and api operation must not be empty", instance.name);
            return denied(INVALID_ARGUMENT, text, self.checks.expiration);
        }
        let service = service.google_service_name.clone();
        if let Some(known) = self.checks.known(&service, &key, &operation) {
            return Reply::Ready(Ok(self.checks.result(&known)));
        }
        let at = match at.and_then(|at| instance.value(at)) {
            Some(Value::Timestamp(at)) => at,
            _ => self.clock.now(),
        };
        let (checks, denies_failures) = (Arc::clone(&self.checks), self.denies_failures);
        Reply::Later(Box::pin(async move {
            match checks.ask(&service, &key, &operation, at).await {
                Ok(checked) => Ok(checks.result(&checked)),
                Err(failure) if denies_failures => {
                    Ok(checks.result_of(PERMISSION_DENIED, failure.why, checks.expiration))
                }
                Err(failure) => Err(HandlerError::new(format!("check failed: {}", failure.why))),
            }
        }))
    }
}

impl HandleQuota for ServiceControlHandler {
    fn quota(&self, instance: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
        let refuse = |text: String| Reply::Ready(Err(HandlerError::of_request(text)));
        let Some(Bound::Quota { service, operation, key }) = self.bound.get(instance.bound) else {
            let text = format!("instance `{}` is not bound to this handler", instance.name);
            return Reply::Ready(Err(HandlerError::new(text)));
        };
        let name = service.map(|_| text_at(instance, *service));
        let is_named = |of: &ServiceConfig| name.as_ref().is_none_or(|name| of.mesh_service_name == *name);
        let quotas = self.services.iter().filter(|service| is_named(service));
        let found = quotas
            .flat_map(|service| service.quotas.iter().map(move |quota| (service, quota)))
            .find(|(_, quota)| quota.name == instance.name);
        let Some((service, quota)) = found else {
            return refuse(format!("no service has the quota {}", instance.name));
        };
        let texts = [("api_key", key), ("api_operation", operation)];
        for (dimension, at) in texts {
            if !matches!(at.and_then(|at| instance.value(at)), Some(Value::String(_))) {
                return refuse(format!("dimension {dimension} not found in instance {}", instance.name));
            }
        }
        if call.amount <= 0 {
            // Google gives nothing back.
            return Reply::Ready(Ok(QuotaResult::default()));
        }
        let metric = match quota.google_quota_metric_name.as_str() {
            "" => quota.name.as_str(),
            name => name,
        };
        let allocation = Allocation {
            service: service.google_service_name.as_str().into(),
            key: text_at(instance, *key),
            operation: text_at(instance, *operation),
            metric: metric.into(),
            amount: call.amount,
            best_effort: call.best_effort,
            expiration: quota.expiration.unwrap_or(SignedDuration::ZERO),
        };
        let checks = Arc::clone(&self.checks);
        Reply::Later(Box::pin(async move {
            let failed =
                |failure: Failure| HandlerError::new(format!("allocate quota failed: {}", failure.why));
            allocation.ask(&checks.client).await.map_err(failed)
        }))
    }
}

impl HandleReport for ServiceControlHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        let Some(reports) = &self.reports else { return Reply::Ready(Ok(())) };
        let now = self.clock.now();
        let mut errors = Vec::new();
        let mut operations = Vec::with_capacity(instances.len());
        for instance in instances {
            // All instances are bound when the handler is built.
            let Some(Bound::Report(template)) = self.bound.get(instance.bound) else { continue };
            let api = template.service(instance);
            match self.service(&api) {
                Some(service) => operations.push(template.operation(instance, service, now)),
                None => errors.push(format!("unknown service {api}")),
            }
        }
        let mut handover = Handover::default();
        if !operations.is_empty() {
            handover.add(reports.hand_over(operations));
        }
        let result = match errors.is_empty() {
            true => Ok(()),
            false => Err(HandlerError::of_request(join_errors(&errors))),
        };
        // Reports that are dropped are counted.
        handover.reply(move |_| result)
    }
}

/// Sends reports.
struct Sender {
    checks: Arc<Checks>,
    services: Arc<[ServiceConfig]>,
    clock: Arc<dyn Clock>,
    outage: Outage,
}

impl Sender {
    /// The project of a key; empty if it cannot be found out. `is_away`: whether Google did not answer for another key, after which it is
    /// not asked any more.
    async fn project(
        &self,
        service: &str,
        (key, operation): (&str, &str),
        at: Timestamp,
        is_away: &mut bool,
    ) -> Box<str> {
        if key.is_empty() {
            return Box::default();
        }
        if let Some(known) = self.checks.known(service, key, operation) {
            return known.project.clone();
        }
        if *is_away {
            return Box::default();
        }
        match self.checks.ask(service, key, operation, at).await {
            Ok(checked) => checked.project.clone(),
            Err(failure) => {
                *is_away = failure.again.is_some();
                Box::default()
            }
        }
    }

    /// The body of a request with operations of one service, as JSON.
    async fn body(&self, service: &str, operations: &[Operation]) -> Bytes {
        let now = self.clock.now();
        // One question for all calls of a batch with one key and operation, also without a cache.
        let mut projects: BTreeMap<(&str, &str), Box<str>> = BTreeMap::new();
        let mut body = b"{\"operations\":[".to_vec();
        // Each of a hundred questions would wait for its time limit.
        let mut is_away = false;
        for (index, operation) in operations.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            if index % AT_ONCE == AT_ONCE - 1 {
                // The calls of this thread do not wait for the whole batch.
                tokio::task::yield_now().await;
            }
            let of = (&*operation.key, &*operation.name);
            match projects.get(&of) {
                Some(project) => operation.write(project, &mut body),
                None => {
                    let project = self.project(service, of, now, &mut is_away).await;
                    operation.write(&project, &mut body);
                    projects.insert(of, project);
                }
            }
        }
        body.extend_from_slice(b"]}");
        body.into()
    }
}

impl AsyncSink<List<Operation>> for Sender {
    async fn deliver(&mut self, batch: &mut List<Operation>, tally: &mut Tally) {
        let mut lost = None;
        // A request is about one service.
        while let Some(first) = batch.as_slice().first().map(|first| first.service) {
            let all = batch.as_slice();
            let run = all.iter().take_while(|operation| operation.service == first).count();
            let operations = all.get(..run).unwrap_or_default();
            let service = self.services.get(first).map_or("", |service| service.google_service_name.as_str());
            let body = self.body(service, operations).await;
            match self.checks.client.call(service, REPORT, body).await {
                Ok(Json::Null) => {
                    self.outage.unread("its answer is not whole");
                    tally.delivered(run);
                }
                Ok(answer) => {
                    let errors = answer.get("reportErrors").and_then(Json::as_array).map_or(0, Vec::len);
                    let refused = errors.min(run);
                    tally.delivered(run - refused);
                    if refused > 0 {
                        lost = Some(format!("Google refused {refused} of {run} reports"));
                    }
                }
                Err(Failure { why, again }) => {
                    self.outage.failed(&why);
                    if let Some(after) = again {
                        tally.try_again_after(why, after);
                        return;
                    }
                    lost = Some(why);
                }
            }
            for _ in 0..run {
                batch.pop();
            }
        }
        match lost {
            Some(why) => tally.give_up(why),
            None => self.outage.ended(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use mixer_engine::adapter::SystemClock;

    use super::*;
    use crate::testing::bound;

    /// On one thread, as that of a worker.
    #[tokio::test]
    async fn other_tasks_run_while_the_body_of_a_batch_is_written() {
        let away = "http://127.0.0.1:1".to_owned();
        let params = Params { endpoint: away.clone(), metadata_endpoint: away, ..Params::default() };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let client = Client::new(&params).unwrap();
        let account = Arc::new(MemoryBudget::default().share(Purpose::LastKnown).open());
        let sender = Sender {
            checks: Arc::new(Checks::new(client, Arc::clone(&clock), 0, SignedDuration::ZERO, &account)),
            services: Arc::default(),
            clock,
            outage: Outage::new(&"h.ns".into()),
        };
        let template = OperationTemplate::new(&bound("r.report.ns", "servicecontrolreport", "", &[]));
        let instance = Instance { bound: 0, name: "r.report.ns", values: &[] };
        let operation = |_| template.operation(&instance, 0, Timestamp::default());
        let operations: Vec<Operation> = (0..BATCH).map(operation).collect();
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&turns);
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let body = sender.body("s", &operations).await;
        other.abort();
        let turns = turns.load(Ordering::Relaxed);
        assert!(turns >= BATCH / AT_ONCE - 1, "{turns}");
        let body: Json = serde_json::from_slice(&body).unwrap();
        let sent = body["operations"].as_array().unwrap();
        let ids: Vec<_> = sent.iter().map(|operation| operation["operationId"].as_str().unwrap()).collect();
        assert_eq!(ids, operations.iter().map(|operation| &*operation.id).collect::<Vec<_>>());
    }
}
