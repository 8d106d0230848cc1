//! The handler of the circonus adapter.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::task::Task;
use mixer_delivery::{Delivery, Holds, List, Retry, Settings};
use mixer_engine::adapter::{
    BoundInstance, BuildError, Env, HandleReport, Handler, HandlerError, HandlerStatus, Instance, Reply,
};
use mixer_remote::Credential;

use super::trap::{Member, Trap};
use super::value::Metric;
use super::{MetricType, Params};
use crate::outage::Outage;

/// A submission is sent until the trap takes it or refuses it.
const RETRY: Retry = Retry {
    first_pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(30),
    budget: Duration::MAX,
    breaker_failures: 10,
};

/// A built circonus adapter.
pub(super) struct CirconusHandler {
    submitter: Arc<Submitter>,
}

struct Submitter {
    /// One a bound instance.
    metrics: Vec<Recorder>,
    delivery: Delivery<List<Member>>,
}

/// A metric.
struct Recorder {
    name: Arc<str>,
    value: Option<usize>,
    metric: Mutex<Metric>,
}

pub(super) fn url(params: &Params) -> Result<Credential, BuildError> {
    let Params {
        submission_url: url, submission_url_file: file, submission_url_environment: variable, ..
    } = params;
    let found = match (url.as_str(), file.as_str(), variable.as_str()) {
        (url, "", "") => Ok(Credential::from_configuration(url)),
        ("", file, "") => Credential::from_file(file),
        ("", "", variable) => Credential::from_environment(variable),
        _ => return Err(BuildError::Refused("there is more than one submission URL".to_owned())),
    };
    found.map_err(|error| BuildError::Refused(error.to_string()))
}

impl CirconusHandler {
    pub(super) fn start(params: &Params, instances: &[BoundInstance], env: &Env) -> Result<Self, BuildError> {
        let recorder = |instance: &BoundInstance| Recorder {
            name: Arc::clone(&instance.name),
            value: instance.position("value"),
            metric: Mutex::new(Metric::new(params.kind_of(&instance.name).unwrap_or(MetricType::Unknown))),
        };
        let trap = Trap::new(url(params)?, &params.ca_file, Outage::new(&env.handler_name));
        let memory = env.commons.get::<MemoryBudget>();
        let settings = Settings {
            memory: Some(Arc::clone(memory.share(Purpose::Queues))),
            retry: RETRY,
            holds: Holds::clone(&env.commons.get::<Holds>()),
            ..Settings::default()
        };
        let trap = trap.map_err(BuildError::Refused)?;
        let delivery = Delivery::in_task("circonus sender", &*env.handler_name, settings, trap);
        let submitter = Arc::new(Submitter { metrics: instances.iter().map(recorder).collect(), delivery });
        let interval = params.submission_interval.to_std_or_zero().max(Duration::from_secs(1));
        let of_task = Arc::clone(&submitter);
        env.tasks.spawn(Task::restarted("circonus reader").of(&*env.handler_name), move || {
            Arc::clone(&of_task).run(interval)
        });
        Ok(Self { submitter })
    }
}

impl Submitter {
    async fn run(self: Arc<Self>, interval: Duration) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first tick is immediate.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            // A submission waits for the trap: values go on adding up.
            if self.delivery.status().waiting() == 0 {
                self.submit();
            }
        }
    }

    /// Hands over all values, which start again. The bound on them is that on metrics and bins.
    fn submit(&self) {
        let members = self.metrics.iter().filter_map(|recorder| {
            let value = recorder.metric.lock().take()?;
            Some(Member::new(&recorder.name, &value))
        });
        self.delivery.accept_each(members.collect::<Vec<_>>());
    }
}

impl Handler for CirconusHandler {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        HandlerStatus { trouble: self.submitter.delivery.trouble(), ..HandlerStatus::default() }
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        Box::pin(async move {
            self.submitter.submit();
            match self.submitter.delivery.close(deadline).await {
                true => Ok(()),
                false => Err(HandlerError::new("metrics were not submitted before the deadline")),
            }
        })
    }
}

impl HandleReport for CirconusHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        for instance in instances {
            // All instances are bound when the handler is built.
            let Some(recorder) = self.submitter.metrics.get(instance.bound) else { continue };
            let value = recorder.value.and_then(|at| instance.value(at));
            recorder.metric.lock().record(value);
        }
        Reply::Ready(Ok(()))
    }
}
