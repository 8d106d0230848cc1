//! An API server of Kubernetes in memory: lists in pages, watches with bookmarks, 410 Gone, authentication, and the texts of the real one.
//!
//! `contract` in the tests of the crate `kube` asks it and a real one the same questions. Faults are made on purpose.

#![allow(clippy::allow_attributes, dead_code, reason = "each test binary uses its part of it")]

#[path = "kube_api/asked.rs"]
mod asked;
#[path = "kube_api/server.rs"]
pub(crate) mod server;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use asked::Asked;

/// The token that it takes.
pub(crate) const TOKEN: &str = "token-of-the-test";

/// Kind, path and API version of what it keeps.
const KINDS: [(&str, &str, &str); 16] = [
    ("Pod", "pods", "v1"),
    ("ReplicationController", "replicationcontrollers", "v1"),
    ("Secret", "secrets", "v1"),
    ("ReplicaSet", "replicasets", "apps/v1"),
    ("adapter", "adapters", CONFIG),
    ("attributemanifest", "attributemanifests", CONFIG),
    ("denier", "deniers", CONFIG),
    ("handler", "handlers", CONFIG),
    ("instance", "instances", CONFIG),
    ("rule", "rules", CONFIG),
    ("template", "templates", CONFIG),
    ("ServiceRole", "serviceroles", "rbac.istio.io/v1alpha1"),
    ("Gateway", "gateways", "networking.istio.io/v1alpha3"),
    ("Service", "services", "v1"),
    ("Endpoints", "endpoints", "v1"),
    ("CustomResourceDefinition", "customresourcedefinitions", "apiextensions.k8s.io/v1"),
];

/// The group of Mixer's kinds.
const CONFIG: &str = "config.istio.io/v1alpha2";

/// The kinds of custom resources that every configuration of Mixer has.
pub(crate) const CRITICAL: [&str; 6] =
    ["adapters", "attributemanifests", "handlers", "instances", "rules", "templates"];

/// Changes that a watch can begin before.
const HISTORY: usize = 10_000;

/// What is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Connections are accepted, and nothing is answered.
    Hangs,
    /// Connections are reset.
    Resets,
    /// Something else than HTTP is answered.
    TalksNonsense,
    /// Every request gets this status.
    Answers(u16),
    /// Every request gets an empty object, as from a proxy that knows nothing of the API.
    AnswersNothing,
    /// Lists and watches of this resource are forbidden.
    Forbids(&'static str),
    /// Watches end at once.
    EndsWatches,
    /// Watches get 410, whatever their version.
    ForgetsVersions,
    /// Answers are cut off after so many bytes.
    CutsOff(usize),
}

type Key = (&'static str, String, String);

#[derive(Clone)]
struct Change {
    version: u64,
    kind: &'static str,
    key: Key,
    object: Arc<Value>,
    /// The labels before the change; `None`: it was made.
    before: Option<Arc<Value>>,
}

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    changes: VecDeque<Change>,
    /// What is older than this is forgotten.
    oldest: u64,
    /// The objects of lists that go on, by version.
    lists: BTreeMap<u64, BTreeMap<Key, Arc<Value>>>,
    fault: Option<Fault>,
    /// The kinds of custom resources that are defined, by plural.
    defined: BTreeSet<&'static str>,
    /// Method and URL of every request.
    requests: Vec<String>,
    bookmarks: u64,
}

struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
    /// Ends connections when it changes.
    connections: watch::Sender<u64>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// A server, which ends when it is dropped.
pub(crate) struct KubeApi {
    shared: Arc<Shared>,
    address: SocketAddr,
    running: Option<(watch::Sender<bool>, std::thread::JoinHandle<()>)>,
}

impl Drop for KubeApi {
    fn drop(&mut self) {
        self.stop();
    }
}

impl KubeApi {
    /// On a free port of loopback.
    pub(crate) fn start() -> Self {
        let shared = Shared {
            state: Mutex::new(State { version: 100, oldest: 100, ..State::default() }),
            changed: watch::Sender::new(()),
            connections: watch::Sender::new(0),
        };
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut api = Self { shared: Arc::new(shared), address, running: None };
        api.resume();
        api
    }

    /// Stops listening; connections end.
    pub(crate) fn stop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            stop.send_replace(true);
            thread.join().unwrap();
        }
    }

    /// Listens again, on the same port.
    pub(crate) fn resume(&mut self) {
        let listener = std::net::TcpListener::bind(self.address).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(accept(listener, shared, stopped));
        });
        self.running = Some((stop, thread));
    }

    /// `http://HOST:PORT`
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig with its token, which needs no file.
    pub(crate) fn kubeconfig(&self) -> String {
        kubeconfig(&self.url(), &format!("token: {TOKEN}"))
    }

    /// Defines kinds of custom resources, by plural.
    pub(crate) fn define(&self, plurals: impl IntoIterator<Item = &'static str>) {
        self.shared.state().defined.extend(plurals);
    }

    /// Removes the definition of a kind, with its objects.
    pub(crate) fn undefine(&self, plural: &'static str) {
        let mut state = self.shared.state();
        state.defined.remove(plural);
        let keys: Vec<Key> = state.objects.keys().filter(|key| key.0 == plural).cloned().collect();
        keys.iter().for_each(|key| drop(delete(&mut state, key)));
        drop(state);
        self.disconnect();
    }

    /// An object.
    pub(crate) fn get(&self, plural: &'static str, namespace: &str, name: &str) -> Option<Value> {
        let key = (plural, namespace.to_owned(), name.to_owned());
        self.shared.state().objects.get(&key).map(|object| Value::clone(object))
    }

    /// Makes or replaces an object of a known kind.
    pub(crate) fn put(&self, object: Value) {
        let kind = KINDS.iter().find(|(kind, ..)| object["kind"] == *kind).expect("a known kind");
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let key = (kind.1, text("namespace"), text("name"));
        put(&mut self.shared.state(), key, object);
        self.shared.changed.send_replace(());
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, plural: &'static str, namespace: &str, name: &str) {
        delete(&mut self.shared.state(), &(plural, namespace.to_owned(), name.to_owned())).unwrap();
        self.shared.changed.send_replace(());
    }

    /// Forgets every change so far: older watches and pages get 410.
    pub(crate) fn compact(&self) {
        let mut state = self.shared.state();
        state.version += 1;
        // Watches that have begun go on.
        state.oldest = state.version;
        state.lists.clear();
    }

    /// All watches get a bookmark.
    pub(crate) fn bookmark(&self) {
        self.shared.state().bookmarks += 1;
        self.shared.changed.send_replace(());
    }

    /// Every connection ends.
    pub(crate) fn disconnect(&self) {
        self.shared.connections.send_modify(|count| *count += 1);
    }

    /// Makes a fault, or mends it. Connections end.
    pub(crate) fn fail(&self, fault: Option<Fault>) {
        self.shared.state().fault = fault;
        self.disconnect();
    }

    /// The requests since the last time.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().requests)
    }

    /// The version of the last change.
    pub(crate) fn version(&self) -> u64 {
        self.shared.state().version
    }
}

/// A kubeconfig with this server and user.
pub(crate) fn kubeconfig(server: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
    )
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    loop {
        let stream = tokio::select! {
            _ = stopped.changed() => break,
            accepted = listener.accept() => accepted.unwrap().0,
        };
        let shared = Arc::clone(&shared);
        let mut ends = shared.connections.subscribe();
        tasks.spawn(async move {
            tokio::select! {
                _ = ends.changed() => {}
                () = connection(stream, shared) => {}
            }
        });
    }
    tasks.shutdown().await;
}

async fn connection(mut stream: tokio::net::TcpStream, shared: Arc<Shared>) {
    use tokio::io::AsyncWriteExt as _;
    let fault = shared.state().fault.clone();
    match fault {
        Some(Fault::Hangs) => std::future::pending().await,
        Some(Fault::Resets) => stream.set_zero_linger().unwrap(),
        Some(Fault::TalksNonsense) => {
            let _ = stream.write_all(b"220 mail.example ESMTP ready\r\n").await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        _ => {
            let service = hyper::service::service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, Infallible>(respond(request, &shared).await) }
            });
            let builder = hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
            let _ = builder.serve_connection(hyper_util::rt::TokioIo::new(stream), service).await;
        }
    }
}

fn failure(code: u16, reason: &str, message: &str) -> Response<Body> {
    let status = status(code, reason, message);
    Response::builder()
        .status(StatusCode::from_u16(code).unwrap())
        .header(header::CONTENT_TYPE, "application/json")
        .body(status.to_string().into())
        .unwrap()
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

fn answer(value: &Value, cut: Option<usize>) -> Response<Body> {
    let mut text = value.to_string() + "\n";
    let length = text.len();
    let built = Response::builder().header(header::CONTENT_TYPE, "application/json");
    match cut {
        None => built.body(text.into()).unwrap(),
        Some(cut) => {
            text.truncate(cut);
            // The connection ends before the length is reached.
            let chunks = [Ok(Bytes::from(text)), Err(std::io::Error::other("cut off"))];
            let body = Body::from_stream(tokio_stream::iter(chunks));
            built.header(header::CONTENT_LENGTH, length).body(body).unwrap()
        }
    }
}

async fn respond(request: Request<hyper::body::Incoming>, shared: &Arc<Shared>) -> Response<Body> {
    let fault = {
        let mut state = shared.state();
        state.requests.push(format!("{} {}", request.method(), request.uri()));
        state.fault.clone()
    };
    if let Some(Fault::Answers(code)) = fault {
        return failure(
            code,
            "InternalError",
            "an error on the server has prevented the request from succeeding",
        );
    }
    if matches!(fault, Some(Fault::AnswersNothing)) {
        return answer(&Value::Object(serde_json::Map::new()), None);
    }
    let defined = shared.state().defined.clone();
    if let Some(found) = discovery(request.uri().path(), &defined) {
        return answer(&found, None);
    }
    let is_defined = |asked: &Asked| !is_custom(asked.kind.2) || defined.contains(asked.kind.1);
    let Some(asked) = Asked::of(&request).filter(is_defined) else {
        return failure(404, "NotFound", "the server could not find the requested resource");
    };
    let (plural, user) = (asked.kind.1, "system:anonymous");
    let credential = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let forbidden = match (credential, &fault) {
        (None, _) => Some(user),
        (Some(_), Some(Fault::Forbids(resource))) if *resource == plural => Some("test"),
        (Some(credential), _) if credential != format!("Bearer {TOKEN}") => {
            return failure(401, "Unauthorized", "Unauthorized");
        }
        _ => None,
    };
    if let Some(user) = forbidden {
        let scope = match &asked.namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let verb = if asked.query("watch") == "1" { "watch" } else { "list" };
        let group = asked.kind.2.split_once('/').map_or("", |(group, _)| group);
        let message = format!(
            "{plural}{}{group} is forbidden: User \"{user}\" cannot {verb} resource \"{plural}\" in API group \"{group}\" {scope}",
            if group.is_empty() { "" } else { "." }
        );
        return failure(403, "Forbidden", &message);
    }
    if *request.method() == Method::GET && asked.query("watch") == "1" {
        return match fault {
            Some(Fault::EndsWatches) => Response::new(Body::empty()),
            Some(Fault::ForgetsVersions) => failure(410, "Expired", "too old resource version"),
            _ => follow(asked, shared),
        };
    }
    let cut = if let Some(Fault::CutsOff(bytes)) = fault { Some(bytes) } else { None };
    let method = request.method().clone();
    let body = axum::body::to_bytes(Body::new(request.into_body()), 1 << 24).await.unwrap();
    let answered = {
        let mut state = shared.state();
        match (method, &asked.name) {
            (Method::GET, None) => list(&mut state, &asked).map(|list| answer(&list, cut)),
            (Method::GET, Some(_)) => match state.objects.get(&asked.key()) {
                Some(object) => Ok(answer(&asked.form(object), cut)),
                None => Err(not_found(&asked)),
            },
            (Method::POST, None) => create(&mut state, &asked, &body),
            (Method::PATCH, Some(_)) => patch(&mut state, &asked, &body),
            (Method::DELETE, Some(_)) => match delete(&mut state, &asked.key()) {
                Some(object) => Ok(answer(&object, None)),
                None => Err(not_found(&asked)),
            },
            _ => Err(failure(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
            .into()),
        }
    };
    shared.changed.send_replace(());
    answered.unwrap_or_else(|refusal| *refusal)
}

fn is_custom(version: &str) -> bool {
    version.contains(".istio.io/")
}

/// An API group, or the kinds of a version of one; `None` if something else is asked for, or it is not served.
fn discovery(path: &str, defined: &BTreeSet<&'static str>) -> Option<Value> {
    let asked = path.strip_prefix("/apis/").or_else(|| path.strip_prefix("/api/"))?;
    let served = KINDS.iter().filter(|kind| !is_custom(kind.2) || defined.contains(kind.1));
    let of_group = |kind: &&(&str, &str, &str)| kind.2.split('/').next() == asked.split('/').next();
    let mut kinds = served.filter(of_group).peekable();
    let group_version = kinds.peek()?.2;
    // The core has no group.
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    if asked == group {
        let version = json!({"groupVersion": group_version, "version": version});
        return Some(json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": [version], "preferredVersion": version,
        }));
    }
    let resource = |kind: &(&str, &str, &str)| json!({"name": kind.1, "kind": kind.0, "namespaced": true});
    let resources: Vec<Value> = kinds.map(resource).collect();
    let list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    (asked == group_version).then_some(list)
}

/// An answer, or a refusal.
type Answered<T> = Result<T, Box<Response<Body>>>;

fn not_found(asked: &Asked) -> Box<Response<Body>> {
    let message = format!("{} \"{}\" not found", asked.kind.1, asked.key().2);
    failure(404, "NotFound", &message).into()
}

fn put(state: &mut State, key: Key, mut object: Value) -> Arc<Value> {
    state.version += 1;
    let kind = KINDS.iter().find(|kind| kind.1 == key.0).unwrap();
    object["kind"] = kind.0.into();
    object["apiVersion"] = kind.2.into();
    object["metadata"]["resourceVersion"] = state.version.to_string().into();
    if object["metadata"]["creationTimestamp"].is_null() {
        object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    let object = Arc::new(object);
    let before = state.objects.insert(key.clone(), Arc::clone(&object));
    let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
    remember(state, Change { version: state.version, kind, key, object: Arc::clone(&object), before });
    object
}

fn delete(state: &mut State, key: &Key) -> Option<Arc<Value>> {
    let mut object = Value::clone(&*state.objects.remove(key)?);
    let before = Some(Arc::new(object.clone()));
    state.version += 1;
    object["metadata"]["resourceVersion"] = state.version.to_string().into();
    let object = Arc::new(object);
    let change = Change {
        version: state.version,
        kind: "DELETED",
        key: key.clone(),
        object: Arc::clone(&object),
        before,
    };
    remember(state, change);
    Some(object)
}

fn remember(state: &mut State, change: Change) {
    state.changes.push_back(change);
    if state.changes.len() > HISTORY
        && let Some(forgotten) = state.changes.pop_front()
    {
        state.oldest = forgotten.version;
    }
}

fn create(state: &mut State, asked: &Asked, body: &[u8]) -> Answered<Response<Body>> {
    let mut object: Value = serde_json::from_slice(body).unwrap();
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let key = (asked.kind.1, asked.namespace.clone().unwrap_or_default(), name);
    if state.objects.contains_key(&key) {
        let message = format!("{} \"{}\" already exists", key.0, key.2);
        return Err(failure(409, "AlreadyExists", &message).into());
    }
    object["metadata"]["namespace"] = key.1.clone().into();
    // As of every object with a status, which is written apart.
    object.as_object_mut().unwrap().remove("status");
    Ok(answer(&put(state, key, object), None))
}

/// A merge patch of the object, or of its status.
fn patch(state: &mut State, asked: &Asked, body: &[u8]) -> Answered<Response<Body>> {
    fn merge(target: &mut Value, patch: &Value) {
        let Some(members) = patch.as_object() else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (name, value) in members {
            match value {
                Value::Null => drop(target.as_object_mut().unwrap().remove(name)),
                value => merge(&mut target[name], value),
            }
        }
    }
    let key = asked.key();
    let Some(known) = state.objects.get(&key) else { return Err(not_found(asked)) };
    let mut object = Value::clone(known);
    merge(&mut object, &serde_json::from_slice(body).unwrap());
    Ok(answer(&put(state, key, object), None))
}

fn list(state: &mut State, asked: &Asked) -> Answered<Value> {
    let limit = asked.query("limit").parse().ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let (version, after) = match asked.query("continue") {
        "" => (state.version, None),
        token => {
            let (version, after) = token.split_once(' ').unwrap();
            let (namespace, name) = after.split_once('/').unwrap();
            (version.parse().unwrap(), Some((namespace.to_owned(), name.to_owned())))
        }
    };
    let objects = match after {
        None => &state.objects,
        Some(_) => state.lists.get(&version).ok_or_else(|| {
            let message = "The provided continue parameter is too old to display a consistent list result. You can start a new \
                           list without the continue parameter, or use the continue token in this response to retrieve the \
                           remainder of the results. Continuing with the provided token results in an inconsistent list - \
                           objects that were created, modified, or deleted between the time the first chunk was returned and now \
                           may show up in the list.";
            Box::new(failure(410, "Expired", message))
        })?,
    };
    let place = |key: &Key| format!("{}/{}", key.1, key.2);
    let selected = objects.iter().filter(|(key, object)| {
        asked.is_of(key)
            && asked.selects(object)
            && after.as_ref().is_none_or(|after| (&key.1, &key.2) > (&after.0, &after.1))
    });
    let mut rest = selected.peekable();
    let page: Vec<_> = rest.by_ref().take(limit).collect();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if rest.peek().is_some() {
        metadata["continue"] = format!("{version} {}", place(page.last().unwrap().0)).into();
        metadata["remainingItemCount"] = rest.count().into();
    }
    let is_partial = asked.accept.contains("as=PartialObjectMetadataList");
    let kind =
        if is_partial { "PartialObjectMetadataList".to_owned() } else { format!("{}List", asked.kind.0) };
    let api_version = if is_partial { "meta.k8s.io/v1" } else { asked.kind.2 };
    let items: Vec<Value> = page.iter().map(|(_, object)| asked.form(object)).collect();
    let goes_on = metadata["continue"].is_string();
    let list = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items});
    if goes_on {
        let objects = objects.clone();
        state.lists.insert(version, objects);
    }
    Ok(list)
}

fn follow(asked: Asked, shared: &Arc<Shared>) -> Response<Body> {
    let (sender, receiver) = mpsc::channel::<Result<Bytes, Infallible>>(64);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let lasts =
            asked.query("timeoutSeconds").parse().map_or(Duration::from_secs(1800), Duration::from_secs);
        // As the real one, shortly before the end.
        let bookmark = Instant::now() + lasts.saturating_sub(Duration::from_secs(2));
        let _ = tokio::time::timeout(lasts, events(&asked, &shared, &sender, bookmark)).await;
    });
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver)))
        .unwrap()
}

async fn events(
    asked: &Asked,
    shared: &Shared,
    sender: &mpsc::Sender<Result<Bytes, Infallible>>,
    bookmark: Instant,
) {
    let line = |kind: &str, object: &Value| {
        Ok(Bytes::from(json!({"type": kind, "object": object}).to_string() + "\n"))
    };
    let mut version: u64 = asked.query("resourceVersion").parse().unwrap_or(0);
    let mut changed = shared.changed.subscribe();
    let mut last = Some(bookmark);
    let (mut bookmarks, oldest) = {
        let state = shared.state();
        (state.bookmarks, state.oldest)
    };
    if version < oldest {
        let message = format!("too old resource version: {version} ({oldest})");
        let _ = sender.send(line("ERROR", &status(410, "Expired", &message))).await;
        return;
    }
    loop {
        let mut lines = Vec::new();
        {
            let state = shared.state();
            let news = state.changes.iter();
            for change in news.filter(|change| change.version > version && asked.is_of(&change.key)) {
                let was = change.before.as_ref().is_some_and(|before| asked.selects(before));
                let is = change.kind != "DELETED" && asked.selects(&change.object);
                let kind = match (was, is) {
                    (false, false) => continue,
                    (false, true) => "ADDED",
                    (true, true) => "MODIFIED",
                    (true, false) => "DELETED",
                };
                lines.push(line(kind, &asked.form(&change.object)));
            }
            version = state.version;
            let is_last = last.is_some_and(|at| at <= Instant::now());
            let has_bookmark =
                std::mem::replace(&mut bookmarks, state.bookmarks) < state.bookmarks || is_last;
            last = last.filter(|_| !is_last);
            if has_bookmark && asked.query("allowWatchBookmarks") == "true" {
                let object = json!({
                    "kind": asked.kind.0, "apiVersion": asked.kind.2,
                    "metadata": {"resourceVersion": version.to_string(), "creationTimestamp": null},
                });
                lines.push(line("BOOKMARK", &asked.form(&object)));
            }
        }
        for line in lines {
            if sender.send(line).await.is_err() {
                return;
            }
        }
        tokio::select! {
            _ = changed.changed() => {}
            () = sleep_until(last.unwrap_or(bookmark)), if last.is_some() => {}
            () = sender.closed() => return,
        }
    }
}
