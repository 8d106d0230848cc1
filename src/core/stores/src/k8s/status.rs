//! Writes onto objects that they cannot be used, as the condition `Accepted` of their status; and that they can, onto those that had
//! such a condition.
//!
//! Servers of one configuration write the same text, and none that is there already, so that they do not disturb each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Included, Unbounded};
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
/// Maximum bytes of the conditions that are kept: beyond it, objects of the same collection without kept ones get no condition, since
/// writing one replaces all of them.
const MAX_CONDITIONS: usize = 16 << 20;
/// What an object with conditions takes beside its name and their text, in bytes.
const BYTES_PER_OBJECT: usize = 256;
/// The type of the condition.
const CONDITION: &str = "Accepted";
/// The reason of an object without a fault.
const ACCEPTED: &str = "Accepted";

/// The conditions of the objects of a cluster.
pub(super) struct Statuses {
    client: Client,
    state: Mutex<State>,
    changed: Notify,
    max_bytes: usize,
}

#[derive(Default)]
struct State {
    /// By collection.
    resources: HashMap<Arc<str>, Resource>,
    /// By name of origin: the objects of this cluster that have conditions.
    conditions: BTreeMap<Arc<str>, Conditions>,
    /// Of all of them.
    bytes: usize,
    /// The names of the origins of collections with objects whose conditions were left out.
    incomplete: BTreeSet<Arc<str>>,
}

/// The conditions of an object.
struct Conditions {
    all: Vec<Value>,
    bytes: usize,
}

impl State {
    fn remove(&mut self, origin: &str) {
        if let Some(removed) = self.conditions.remove(origin) {
            self.bytes = self.bytes.saturating_sub(removed.bytes);
        }
    }

    /// Keeps the conditions of an object, if there is room.
    fn insert(&mut self, collection: Option<&Arc<str>>, origin: &Arc<str>, all: Vec<Value>, max: usize) {
        self.remove(origin);
        let text: usize = all.iter().map(|condition| condition.to_string().len()).sum();
        // A tree takes several times its text.
        let bytes = origin.len() + BYTES_PER_OBJECT + text * 4;
        if self.bytes.saturating_add(bytes) > max {
            self.incomplete.extend(collection.cloned());
            return;
        }
        self.bytes += bytes;
        self.conditions.insert(Arc::clone(origin), Conditions { all, bytes });
    }

    /// Whether it is known what conditions an object has.
    fn knows(&self, origin: &str) -> bool {
        self.conditions.contains_key(origin)
            || !self.incomplete.iter().any(|collection| is_below(origin, collection))
    }
}

/// Whether an object is of a collection, by the names of their origins.
fn is_below(origin: &str, collection: &str) -> bool {
    origin.strip_prefix(collection).is_some_and(|rest| rest.starts_with('/'))
}

/// A condition to be written.
struct Due {
    origin: Arc<str>,
    conditions: Vec<Value>,
}

impl Statuses {
    pub(super) fn new(client: Client) -> Arc<Self> {
        Self::within(client, MAX_CONDITIONS)
    }

    fn within(client: Client, max_bytes: usize) -> Arc<Self> {
        Arc::new(Self { client, state: Mutex::default(), changed: Notify::new(), max_bytes })
    }

    /// Objects of a collection are of this resource.
    pub(super) fn follow(&self, collection: &Arc<str>, resource: &Resource) {
        self.state.lock().resources.insert(Arc::clone(collection), resource.clone());
    }

    /// An object of a collection has this status. Both are names of origins.
    pub(super) fn seen(&self, collection: &Arc<str>, origin: &Arc<str>, status: Option<&Value>) {
        let conditions = status.and_then(|status| status.get("conditions")?.as_array().cloned());
        let mut state = self.state.lock();
        match conditions.filter(|conditions| !conditions.is_empty()) {
            Some(conditions) => state.insert(Some(collection), origin, conditions, self.max_bytes),
            None => state.remove(origin),
        }
        drop(state);
        self.changed.notify_one();
    }

    /// An object is gone.
    pub(super) fn gone(&self, origin: &str) {
        self.state.lock().remove(origin);
    }

    /// All objects of a collection are told again.
    pub(super) fn begin(&self, collection: &str) {
        self.state.lock().incomplete.remove(collection);
    }

    /// All objects of a collection were told: others than these are gone.
    pub(super) fn retain(&self, collection: &str, is_there: impl Fn(&str) -> bool) {
        let mut state = self.state.lock();
        let from =
            state.conditions.range::<str, _>((Included(collection), Unbounded)).map(|(origin, _)| origin);
        let own = from.take_while(|origin| origin.starts_with(collection));
        let is_gone = |origin: &&Arc<str>| {
            let name = origin.strip_prefix(collection).and_then(|name| name.strip_prefix('/'));
            name.is_some_and(|name| !is_there(name))
        };
        let gone: Vec<Arc<str>> = own.filter(is_gone).cloned().collect();
        gone.iter().for_each(|origin| state.remove(origin));
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

    /// Errors: the first one. What is refused of one object keeps no other from its condition.
    async fn write(&self, faults: &Faults) -> Result<(), Error> {
        let mut first = Ok(());
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
                Ok(_) => self.state.lock().insert(None, &origin, conditions, usize::MAX),
                Err(error) if is_not_found(&error) => self.gone(&origin),
                Err(error) if concerns_all(&error) => return first.and(Err(error)),
                Err(error) => first = first.and(Err(error)),
            }
        }
        first
    }

    /// What has to be written.
    fn due(&self, faults: &Faults) -> Vec<Due> {
        let state = self.state.lock();
        let none = Vec::new();
        let faulty = faults.iter().map(|(origin, fault)| (origin, Some(fault)));
        let mended = state.conditions.iter().filter(|(origin, has)| {
            !faults.contains_key(*origin)
                && own(&has.all).is_some_and(|condition| condition["status"] == "False")
        });
        let all = faulty.chain(mended.map(|(origin, _)| (origin, None)));
        let due = all.filter_map(|(origin, fault)| {
            let has = state.conditions.get(origin).map_or(&none, |has| &has.all);
            let wanted = condition(fault);
            let is_written = own(has).is_some_and(|known| {
                ["status", "reason", "message"].iter().all(|member| known.get(member) == wanted.get(member))
            });
            (!is_written && state.knows(origin)).then(|| {
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

/// Whether the API server answers others no better: it is away, or does not answer this account at all.
fn concerns_all(error: &Error) -> bool {
    !matches!(error, Error::Refused { status, .. } if !matches!(status.code, 401 | 429 | 503))
}

fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Refused { status, .. } if status.code == 404)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(text: &str) -> Value {
        json!({"conditions": [{"type": "Ready", "message": text}]})
    }

    #[test]
    fn what_is_kept_of_objects_is_bounded_and_ends_with_them() {
        let text = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n\
                    clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: x}}]\n";
        let statuses = Statuses::within(Client::new(mixer_kube::Access::of_text(text)).unwrap(), 4096);
        let rules: Arc<str> = "k8s://h:1/rules.config.istio.io".into();
        let origin = |name: &str| -> Arc<str> { format!("{rules}/{name}").into() };
        let faults: Faults = ["shop/a", "shop/b", "shop/c"]
            .map(|name| (origin(name), Fault { code: "x", message: String::new() }))
            .into_iter()
            .collect();
        let due = || statuses.due(&faults).into_iter().map(|due| due.origin.to_string()).collect::<Vec<_>>();
        statuses.seen(&rules, &origin("shop/a"), Some(&conditions("small")));
        assert_eq!(due().len(), 3);
        // Others of its conditions would be lost with the one that is written.
        statuses.seen(&rules, &origin("shop/b"), Some(&conditions(&"x".repeat(2000))));
        assert_eq!(due(), [&*origin("shop/a")], "of `c` as well it is unknown what it has");
        statuses.begin(&rules);
        statuses.seen(&rules, &origin("shop/b"), Some(&conditions("small")));
        assert_eq!(due().len(), 3);
        // `a` is not listed any more.
        statuses.retain(&rules, |name| name == "shop/b");
        let state = statuses.state.lock();
        assert_eq!(state.conditions.keys().map(|key| &**key).collect::<Vec<_>>(), [&*origin("shop/b")]);
        assert_eq!(state.bytes, state.conditions.values().map(|kept| kept.bytes).sum::<usize>());
    }
}
