//! Writes onto objects that they cannot be used, as the condition `Accepted` of their status; and that they can, onto those that had
//! such a condition.
//!
//! Servers of one configuration write the same text, and none that is there already, so that they do not disturb each other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use mixer_base::time::Timestamp;
use mixer_kube::{Client, Error, Resource};

use crate::{Fault, Faults};

/// What is wrong changes while parts of a configuration arrive.
const QUIET: Duration = Duration::from_secs(1);
/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(30);
/// The type of the condition.
const CONDITION: &str = "Accepted";
/// The reason of an object without a fault.
const ACCEPTED: &str = "Accepted";

/// The conditions of the objects of a cluster.
pub(super) struct Statuses {
    client: Client,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// By collection.
    resources: HashMap<Arc<str>, Resource>,
    /// By name of origin: the objects of this cluster that have conditions.
    conditions: BTreeMap<Arc<str>, Vec<Value>>,
}

/// A condition to be written.
struct Due {
    origin: Arc<str>,
    conditions: Vec<Value>,
}

impl Statuses {
    pub(super) fn new(client: Client) -> Arc<Self> {
        Arc::new(Self { client, state: Mutex::default(), changed: Notify::new() })
    }

    /// Objects of a collection are of this resource.
    pub(super) fn follow(&self, collection: &Arc<str>, resource: &Resource) {
        self.state.lock().resources.insert(Arc::clone(collection), resource.clone());
    }

    /// An object has this status.
    pub(super) fn seen(&self, origin: &Arc<str>, status: Option<&Value>) {
        let conditions = status.and_then(|status| status.get("conditions")?.as_array().cloned());
        let mut state = self.state.lock();
        match conditions.filter(|conditions| !conditions.is_empty()) {
            Some(conditions) => drop(state.conditions.insert(Arc::clone(origin), conditions)),
            None => drop(state.conditions.remove(origin)),
        }
        drop(state);
        self.changed.notify_one();
    }

    /// An object is gone.
    pub(super) fn gone(&self, origin: &str) {
        self.state.lock().conditions.remove(origin);
    }

    /// Writes whenever the faults, or the conditions that objects have, change. Goes on until the future is dropped.
    pub(super) async fn run(&self, mut faults: watch::Receiver<Option<Arc<Faults>>>) {
        loop {
            let known = faults.borrow_and_update().clone();
            let written = match known {
                Some(known) => self.write(&known).await,
                None => Ok(()),
            };
            if let Err(error) = &written {
                tracing::warn!("the status of objects cannot be written: {error}");
            }
            tokio::select! {
                changed = faults.changed() => {
                    if changed.is_err() {
                        // Nobody tells of faults any more.
                        std::future::pending::<()>().await;
                    }
                }
                () = self.changed.notified() => {}
                () = tokio::time::sleep(RETRY), if written.is_err() => {}
            }
            tokio::time::sleep(QUIET).await;
        }
    }

    async fn write(&self, faults: &Faults) -> Result<(), Error> {
        for Due { origin, conditions } in self.due(faults) {
            let Some(path) = self.path(&origin) else { continue };
            let status = json!({"status": {"conditions": conditions}}).to_string();
            let patch = async |path: &str| {
                let body = Some(("application/merge-patch+json", bytes::Bytes::from(status.clone())));
                self.client.send::<serde::de::IgnoredAny>(Method::PATCH, path, body).await
            };
            // A kind without the subresource has its status in the object.
            let written = match patch(&format!("{path}/status")).await {
                Err(error) if is_not_found(&error) => patch(&path).await,
                written => written,
            };
            match written {
                Ok(_) => drop(self.state.lock().conditions.insert(origin, conditions)),
                Err(error) if is_not_found(&error) => self.gone(&origin),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What has to be written.
    fn due(&self, faults: &Faults) -> Vec<Due> {
        let state = self.state.lock();
        let none = Vec::new();
        let faulty = faults.iter().map(|(origin, fault)| (origin, Some(fault)));
        let mended = state.conditions.iter().filter(|(origin, has)| {
            !faults.contains_key(*origin) && own(has).is_some_and(|condition| condition["status"] == "False")
        });
        let all = faulty.chain(mended.map(|(origin, _)| (origin, None)));
        let due = all.filter_map(|(origin, fault)| {
            let has = state.conditions.get(origin).unwrap_or(&none);
            let wanted = condition(fault);
            let is_written = own(has).is_some_and(|known| {
                ["status", "reason", "message"].iter().all(|member| known.get(member) == wanted.get(member))
            });
            (!is_written).then(|| {
                let others = has.iter().filter(|known| known["type"] != CONDITION).cloned();
                Due { origin: Arc::clone(origin), conditions: others.chain([wanted]).collect() }
            })
        });
        due.collect()
    }

    /// The path of an object in the API.
    fn path(&self, origin: &str) -> Option<String> {
        // `k8s://HOST:PORT/PLURAL.GROUP/NAMESPACE/NAME`
        let (_, rest) = origin.split_once("://")?;
        let (_, rest) = rest.split_once('/')?;
        let (collection, name) = rest.split_once('/')?;
        let (namespace, name) = name.split_once('/')?;
        let state = self.state.lock();
        let of_namespace = || state.resources.get(format!("{collection}/{namespace}").as_str());
        let resource = state.resources.get(collection).or_else(of_namespace)?;
        Some(format!("{}/{name}", resource.path(Some(namespace))))
    }
}

fn own(conditions: &[Value]) -> Option<&Value> {
    conditions.iter().find(|condition| condition["type"] == CONDITION)
}

fn condition(fault: Option<&Fault>) -> Value {
    let now = Timestamp::from_system_time(SystemTime::now());
    let now = Timestamp { nanos: 0, ..now }.rfc3339().to_string();
    let (status, reason, message) = match fault {
        Some(fault) => ("False", camel(fault.code), &*fault.message),
        None => ("True", ACCEPTED.to_owned(), ""),
    };
    json!({"type": CONDITION, "status": status, "reason": reason, "message": message, "lastTransitionTime": now})
}

/// A code of a diagnostic as a reason of Kubernetes: `HandlerUnknown`.
fn camel(code: &str) -> String {
    let upper = |word: &str| {
        let mut chars = word.chars();
        chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str())
    };
    code.split('-').filter_map(upper).collect()
}

fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Refused { status, .. } if status.code == 404)
}
