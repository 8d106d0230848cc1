//! An API server of Kubernetes in memory: lists in pages, watches with bookmarks, 410 Gone, authentication, and the texts of the real one.
//!
//! `contract` in the tests of the crate `kube` asks it and a real one the same questions. Faults are made on purpose.

#![allow(clippy::allow_attributes, dead_code, reason = "each test binary uses its part of it")]

#[path = "kube_api/admission.rs"]
pub(crate) mod admission;
#[path = "kube_api/asked.rs"]
mod asked;
#[path = "kube_api/objects.rs"]
mod objects;
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

use admission::{Call, CallWebhook};
use asked::Asked;
use objects::{create, delete, patch, put, replace};

/// The token that it takes.
pub(crate) const TOKEN: &str = "token-of-the-test";

/// Kind, path and API version of what it keeps.
const KINDS: [(&str, &str, &str); 18] = [
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
    ("Deployment", "deployments", "apps/v1"),
    ("ValidatingWebhookConfiguration", WEBHOOKS, "admissionregistration.k8s.io/v1"),
];

/// The plural of the objects that say which webhooks are asked.
const WEBHOOKS: &str = "validatingwebhookconfigurations";

/// The plurals of kinds that are in no namespace.
const OF_CLUSTER: [&str; 2] = ["customresourcedefinitions", WEBHOOKS];

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
    /// Lists of this resource, by plural, are answered with this object, which gets the version of now.
    Lists(&'static str, Value),
    /// The kinds of a version of a group are answered with this object.
    Discovers(Value),
    /// The objects of watches say that they are of this kind and API version.
    ChangesKind(&'static str, &'static str),
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
    /// Whether discovery is not answered.
    hangs_discovery: bool,
    /// How webhooks are called; `None`: none is.
    webhooks: Option<CallWebhook>,
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
        let listener = bound(self.address);
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

    /// Serves a kind no more, and says nothing of its objects.
    pub(crate) fn unserve(&self, plural: &'static str) {
        self.shared.state().defined.remove(plural);
        self.disconnect();
    }

    /// An object.
    pub(crate) fn get(&self, plural: &'static str, namespace: &str, name: &str) -> Option<Value> {
        let key = (plural, namespace.to_owned(), name.to_owned());
        self.shared.state().objects.get(&key).map(|object| Value::clone(object))
    }

    /// Makes or replaces an object of a known kind.
    pub(crate) fn put(&self, object: Value) {
        put(&mut self.shared.state(), key_of(&object), object);
        self.shared.changed.send_replace(());
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, plural: &'static str, namespace: &str, name: &str) {
        delete(&mut self.shared.state(), &(plural, namespace.to_owned(), name.to_owned())).unwrap();
        self.shared.changed.send_replace(());
    }

    /// Makes or replaces an object, of which no watch tells.
    pub(crate) fn lose(&self, object: Value) {
        let mut state = self.shared.state();
        put(&mut state, key_of(&object), object);
        state.changes.pop_back();
    }

    /// Deletes an object, of which no watch tells.
    pub(crate) fn lose_deletion(&self, plural: &'static str, namespace: &str, name: &str) {
        let mut state = self.shared.state();
        delete(&mut state, &(plural, namespace.to_owned(), name.to_owned())).unwrap();
        state.changes.pop_back();
    }

    /// Calls the webhooks that are configured, in this way: the review that is answered, or why there is none.
    pub(crate) fn call_webhooks<A>(&self, call: impl Fn(Call) -> A + Send + Sync + 'static)
    where
        A: Future<Output = Result<Value, String>> + Send + 'static,
    {
        self.shared.state().webhooks = Some(Arc::new(move |asked| Box::pin(call(asked))));
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

    /// Answers discovery no more, or again.
    pub(crate) fn hang_discovery(&self, hangs: bool) {
        self.shared.state().hangs_discovery = hangs;
    }

    /// Makes a fault of requests from now on. Connections go on.
    pub(crate) fn fail_later(&self, fault: Fault) {
        self.shared.state().fault = Some(fault);
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

/// The key of an object of a known kind.
fn key_of(object: &Value) -> Key {
    let kind = KINDS.iter().find(|(kind, ..)| object["kind"] == *kind).expect("a known kind");
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    (kind.1, text("namespace"), text("name"))
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
        while shared.state().hangs_discovery {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let found = match fault {
            Some(Fault::Discovers(other)) if found["kind"] == "APIResourceList" => other,
            _ => found,
        };
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
            Some(Fault::ChangesKind(kind, version)) => follow(asked, shared, Some((kind, version))),
            _ => follow(asked, shared, None),
        };
    }
    let cut = if let Some(Fault::CutsOff(bytes)) = fault { Some(bytes) } else { None };
    if let Some(Fault::Lists(of, mut list)) = fault
        && of == plural
        && asked.name.is_none()
    {
        list["metadata"] = json!({"resourceVersion": shared.state().version.to_string()});
        return answer(&list, None);
    }
    let method = request.method().clone();
    let body = axum::body::to_bytes(Body::new(request.into_body()), 1 << 24).await.unwrap();
    if let Err(refusal) = admission::review(&method, &asked, &body, shared).await {
        return *refusal;
    }
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
            (Method::PUT, Some(_)) => replace(&mut state, &asked, &body),
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
    let resource = |kind: &(&str, &str, &str)| json!({"name": kind.1, "kind": kind.0, "namespaced": !OF_CLUSTER.contains(&kind.1)});
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

/// A watch, whose objects say that they are of a kind and API version if those are given.
fn follow(asked: Asked, shared: &Arc<Shared>, said: Option<(&'static str, &'static str)>) -> Response<Body> {
    let (sender, receiver) = mpsc::channel::<Result<Bytes, Infallible>>(64);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let lasts =
            asked.query("timeoutSeconds").parse().map_or(Duration::from_secs(1800), Duration::from_secs);
        // As the real one, shortly before the end.
        let bookmark = Instant::now() + lasts.saturating_sub(Duration::from_secs(2));
        let _ = tokio::time::timeout(lasts, events(&asked, &shared, &sender, bookmark, said)).await;
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
    said: Option<(&str, &str)>,
) {
    let line = |kind: &str, object: &Value| {
        let mut object = object.clone();
        if let Some((kind, version)) = said {
            object["kind"] = kind.into();
            object["apiVersion"] = version.into();
        }
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

/// Listens at an address. While nobody did, a connection of another test may have got its port for a moment.
fn bound(address: SocketAddr) -> std::net::TcpListener {
    let end = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        match std::net::TcpListener::bind(address) {
            Ok(listener) => return listener,
            Err(error) => assert!(std::time::Instant::now() < end, "{address}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
