//! Tests of reflectors, against an API server in memory.

#[path = "../../../../../tests/support/kube_api.rs"]
mod kube_api;

mod contract;
mod schedules;

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::access::Access;
use crate::object::PartialObject;
use crate::selection::{Form, Resource};
use kube_api::{Fault, KubeApi};

const PODS: Resource = Resource::new("", "v1", "pods");
const SETS: Resource = Resource::new("apps", "v1", "replicasets");
const DEADLINE: Duration = Duration::from_secs(20);

/// Quick failures.
const PACE: Pace = Pace {
    page: 3,
    watch: Duration::from_secs(60),
    first_pause: Duration::from_millis(5),
    longest_pause: Duration::from_millis(40),
};

/// What readers of a store see: versions by key.
#[derive(Default)]
struct Seen {
    objects: BTreeMap<String, String>,
    lists: usize,
}

/// A store of versions.
#[derive(Default)]
struct Versions {
    seen: Arc<Mutex<Seen>>,
    next: BTreeMap<String, String>,
    listed: BTreeMap<String, String>,
    /// What to do after so many listed objects, once.
    after: Option<(usize, Box<dyn FnOnce() + Send>)>,
    /// Whether something was left out.
    is_incomplete: Arc<std::sync::atomic::AtomicBool>,
}

fn entry(object: &PartialObject) -> (String, String) {
    (object.key(), object.resource_version().to_owned())
}

impl Store for Versions {
    type Object = PartialObject;

    fn begin(&mut self) {
        self.listed.clear();
    }

    fn list(&mut self, object: PartialObject) {
        let (key, version) = entry(&object);
        assert!(self.listed.insert(key, version).is_none(), "an object is listed twice");
        if self.after.as_ref().is_some_and(|(count, _)| *count == self.listed.len())
            && let Some((_, act)) = self.after.take()
        {
            act();
        }
    }

    fn complete(&mut self) {
        self.next = std::mem::take(&mut self.listed);
        self.seen.lock().lists += 1;
    }

    fn apply(&mut self, object: PartialObject) {
        self.next.extend([entry(&object)]);
    }

    fn delete(&mut self, object: PartialObject) {
        self.next.remove(&object.key());
    }

    fn publish(&mut self) {
        self.seen.lock().objects.clone_from(&self.next);
    }

    fn wants_list(&self) -> bool {
        self.is_incomplete.swap(false, std::sync::atomic::Ordering::Relaxed)
    }
}

/// A reflector that runs until it is dropped.
struct Running {
    seen: Arc<Mutex<Seen>>,
    progress: Arc<Progress>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn client(api: &KubeApi) -> Client {
    Client::within_limit(Access::of_text(api.kubeconfig()), Duration::from_millis(300)).unwrap()
}

/// A client that waits for answers.
fn patient(api: &KubeApi) -> Client {
    Client::new(Access::of_text(api.kubeconfig())).unwrap()
}

fn run_with(api: &KubeApi, selection: Selection, store: Versions) -> Running {
    run_of(client(api), selection, store)
}

/// For an API server that may be slow.
fn run_for(access: &Access, selection: Selection) -> Running {
    run_of(Client::new(access.clone()).unwrap(), selection, Versions::default())
}

fn run_of(client: Client, selection: Selection, store: Versions) -> Running {
    let seen = Arc::clone(&store.seen);
    let mut reflector = Reflector::new(client, selection, store).at(PACE);
    let progress = reflector.progress();
    let task = tokio::spawn(async move { match reflector.run().await {} });
    Running { seen, progress, task }
}

fn run(api: &KubeApi, selection: Selection) -> Running {
    run_with(api, selection, Versions::default())
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(2)).await;
    }
}

impl Running {
    fn keys(&self) -> Vec<String> {
        self.seen.lock().objects.keys().cloned().collect()
    }

    fn lists(&self) -> usize {
        self.seen.lock().lists
    }

    async fn has(&self, keys: &[&str]) {
        let shown = || format!("{:?} instead of {keys:?}", self.keys());
        let end = Instant::now() + DEADLINE;
        while self.keys() != keys {
            assert!(Instant::now() < end, "{}", shown());
            sleep(Duration::from_millis(2)).await;
        }
    }
}

fn pod(namespace: &str, name: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}}})
}

fn watches(requests: &[String]) -> Vec<&String> {
    requests.iter().filter(|request| request.contains("watch=1")).collect()
}

#[tokio::test]
async fn objects_are_listed_in_pages_and_their_changes_are_followed() {
    let api = KubeApi::start();
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        api.put(pod("shop", name));
    }
    let running = run(&api, Selection::of("Pod", PODS));
    running.has(&["shop/a", "shop/b", "shop/c", "shop/d", "shop/e", "shop/f", "shop/g"]).await;
    running.progress.synced().await;
    api.put(pod("a", "new"));
    api.delete("pods", "shop", "d");
    running.has(&["a/new", "shop/a", "shop/b", "shop/c", "shop/e", "shop/f", "shop/g"]).await;
    let requests = api.take_requests();
    let listed: Vec<_> = requests.iter().filter(|request| request.contains("limit=")).collect();
    assert_eq!((listed.len(), &**listed[0]), (3, "GET /api/v1/pods?limit=3"));
    assert!(listed[1].starts_with("GET /api/v1/pods?limit=3&continue=107%20shop%2Fc"), "{listed:?}");
    let watch = watches(&requests)[0];
    let begins = "GET /api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=107&timeoutSeconds=";
    let seconds: u64 = watch.strip_prefix(begins).unwrap().parse().unwrap();
    assert!((60..=120).contains(&seconds), "{seconds}");
    until("the version is that of the last change", || &*running.progress.reached().version == "109").await;
    assert_eq!((running.lists(), running.progress.lists(), running.progress.failures()), (1, 1, 0));
}

/// Of a list that breaks off after its first page: the server told how many objects follow.
#[tokio::test]
async fn a_list_tells_how_far_it_is() {
    let api = Arc::new(KubeApi::start());
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        api.put(pod("shop", name));
    }
    let breaks = Arc::clone(&api);
    let act = move || breaks.fail(Some(Fault::Answers(503)));
    let store = Versions { after: Some((3, Box::new(act))), ..Versions::default() };
    let running = run_with(&api, Selection::of("Pod", PODS), store);
    let place = format!("{} pods", client(&api).server());
    let counts = || {
        let ended = load::ended().into_iter().find(|load| load.what == place)?;
        assert_eq!((ended.unit, ended.stage), ("objects", "listed"));
        Some((ended.documents, ended.of_documents))
    };
    until("a page is listed", || counts() == Some((3, 7))).await;
    api.fail(None);
    running.progress.synced().await;
    until("all is listed", || counts() == Some((7, 7))).await;
}

#[tokio::test]
async fn selections_are_made_by_the_server() {
    let api = KubeApi::start();
    for (namespace, name) in [("shop", "a"), ("shop", "b"), ("other", "a")] {
        api.put(pod(namespace, name));
        api.put(json!({"kind": "ReplicaSet", "metadata": {"namespace": namespace, "name": name}, "spec": {"replicas": 1}}));
    }
    let sets = run(&api, Selection::of("ReplicaSet", SETS).metadata_only());
    sets.has(&["other/a", "shop/a", "shop/b"]).await;
    let selected = run(&api, Selection::of("Pod", PODS).in_namespace("shop").with_labels("app=a"));
    selected.has(&["shop/a"]).await;
    let mut changed = pod("shop", "b");
    changed["metadata"]["labels"]["app"] = "a".into();
    api.put(changed);
    selected.has(&["shop/a", "shop/b"]).await;
    api.put(pod("shop", "b"));
    selected.has(&["shop/a"]).await;
}

#[tokio::test]
async fn a_watch_goes_on_where_it_broke() {
    let api = KubeApi::start();
    api.put(pod("shop", "a"));
    let running = run(&api, Selection::of("Pod", PODS));
    running.has(&["shop/a"]).await;
    api.disconnect();
    api.put(pod("shop", "b"));
    running.has(&["shop/a", "shop/b"]).await;
    // Others change, and what the watch began with is forgotten: a bookmark told where it is.
    for name in ["x", "y"] {
        api.put(json!({"kind": "ReplicaSet", "metadata": {"namespace": "shop", "name": name}}));
    }
    api.compact();
    let version = api.version().to_string();
    api.bookmark();
    until("the bookmark arrives", || *running.progress.reached().version == version).await;
    api.disconnect();
    api.put(pod("shop", "c"));
    running.has(&["shop/a", "shop/b", "shop/c"]).await;
    assert_eq!(running.lists(), 1);
}

#[tokio::test]
async fn what_is_too_old_is_listed_again() {
    let mut api = KubeApi::start();
    for name in ["a", "b"] {
        api.put(pod("shop", name));
    }
    let running = run(&api, Selection::of("Pod", PODS));
    running.has(&["shop/a", "shop/b"]).await;
    api.stop();
    let why = || running.progress.reached().trouble.clone().map(|trouble| trouble.why.to_string());
    until("the outage is seen", || why().is_some_and(|why| why.contains("Connection refused"))).await;
    assert_eq!(running.keys(), ["shop/a", "shop/b"], "the last objects stay");
    api.delete("pods", "shop", "a");
    api.put(pod("shop", "c"));
    api.compact();
    api.resume();
    running.has(&["shop/b", "shop/c"]).await;
    until("the outage is over", || running.progress.reached().trouble.is_none()).await;
    assert_eq!(running.lists(), 2);
}

#[tokio::test]
async fn a_list_whose_pages_expire_begins_again_with_larger_ones() {
    let api = Arc::new(KubeApi::start());
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        api.put(pod("shop", name));
    }
    let of_store = Arc::clone(&api);
    let act = move || {
        of_store.delete("pods", "shop", "a");
        of_store.compact();
    };
    let store = Versions { after: Some((3, Box::new(act))), ..Versions::default() };
    let running = run_with(&api, Selection::of("Pod", PODS), store);
    running.has(&["shop/b", "shop/c", "shop/d", "shop/e", "shop/f", "shop/g"]).await;
    let requests = api.take_requests();
    assert!(requests.iter().any(|request| request == "GET /api/v1/pods?limit=12"), "{requests:?}");
}

#[tokio::test]
async fn every_fault_is_told_and_mended_without_a_restart() {
    let api = KubeApi::start();
    api.put(pod("shop", "a"));
    let running = run(&api, Selection::of("Pod", PODS));
    running.has(&["shop/a"]).await;
    let faults = [
        (Fault::Hangs, "no answer within 300ms"),
        (Fault::Resets, "127.0.0.1"),
        (Fault::TalksNonsense, "127.0.0.1"),
        (Fault::Answers(500), "HTTP status 500 (InternalError): an error on the server"),
        (Fault::Answers(401), "HTTP status 401"),
        (Fault::Forbids("pods"), "cannot watch resource \"pods\" in API group \"\" at the cluster scope"),
    ];
    for (index, (fault, text)) in faults.into_iter().enumerate() {
        api.fail(Some(fault.clone()));
        let why = || running.progress.reached().trouble.clone().map(|trouble| trouble.why.to_string());
        until(&format!("{fault:?} is told"), || why().is_some_and(|why| why.contains(text))).await;
        assert!(!why().unwrap().contains(kube_api::TOKEN));
        assert!(running.progress.reached().is_synced);
        api.fail(None);
        let name = format!("new-{index}");
        api.put(pod("shop", &name));
        until("the change arrives", || running.keys().contains(&format!("shop/{name}"))).await;
        until("the trouble is over", || running.progress.reached().trouble.is_none()).await;
    }
    assert_eq!(running.lists(), 1);
}

#[tokio::test]
async fn a_list_that_is_cut_off_is_not_taken() {
    let api = KubeApi::start();
    for name in ["a", "b"] {
        api.put(pod("shop", name));
    }
    api.fail(Some(Fault::CutsOff(150)));
    let running = run(&api, Selection::of("Pod", PODS));
    until("it is told", || running.progress.failures() >= 3).await;
    assert!(!running.progress.reached().is_synced && running.keys().is_empty());
    api.fail(None);
    running.has(&["shop/a", "shop/b"]).await;
}

#[tokio::test]
async fn an_answer_that_is_no_list_deletes_nothing() {
    let api = KubeApi::start();
    api.put(pod("shop", "a"));
    let running = run(&api, Selection::of("Pod", PODS));
    running.has(&["shop/a"]).await;
    api.fail(Some(Fault::AnswersNothing));
    let why = || running.progress.reached().trouble.clone().map(|trouble| trouble.why.to_string());
    until("it is told", || why().is_some_and(|why| why.contains("a list without a version"))).await;
    assert_eq!(running.keys(), ["shop/a"]);
    let client = Client::new(Access::of_text(api.kubeconfig())).unwrap();
    let error = crate::discover(&client, "config.istio.io").await.unwrap_err().to_string();
    assert!(error.ends_with("/apis/config.istio.io: a group without versions"), "{error}");
    api.fail(None);
    api.put(pod("shop", "b"));
    running.has(&["shop/a", "shop/b"]).await;
}

/// An answer of the kind to a list of pods.
fn pods(items: Value) -> Value {
    json!({"kind": "PodList", "apiVersion": "v1", "items": items})
}

#[tokio::test]
async fn an_answer_that_is_no_list_of_the_kind_deletes_nothing() {
    let api = KubeApi::start();
    api.put(pod("shop", "a"));
    let running = run(&api, Selection::of("Pod", PODS));
    running.has(&["shop/a"]).await;
    let instead = |said: &str| format!("no list of the kind: kind {said} instead of PodList of v1");
    let of = |kind: &str, version: &str| json!({"kind": kind, "apiVersion": version, "items": []});
    let answers = [
        (json!({"kind": "PodList", "apiVersion": "v1"}), "a list without the member `items`".to_owned()),
        (
            json!({"kind": "PodList", "apiVersion": "v1", "Items": []}),
            "without the member `items`".to_owned(),
        ),
        (pods(json!({})), "the answer is not of the kind that was asked for".to_owned()),
        (pods("".into()), "the answer is not of the kind that was asked for".to_owned()),
        (
            json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": []}),
            instead("Table of meta.k8s.io/v1"),
        ),
        (of("HandlerList", "config.istio.io/v1alpha2"), instead("HandlerList of config.istio.io/v1alpha2")),
        (of("PodList", "v2"), instead("PodList of v2")),
        (of("SecretList", "v1"), instead("SecretList of v1")),
        (of("Pod", "v1"), instead("Pod of v1")),
        (
            of("PartialObjectMetadataList", "meta.k8s.io/v1"),
            instead("PartialObjectMetadataList of meta.k8s.io/v1"),
        ),
        (json!({"items": []}), instead("nothing of nothing")),
    ];
    for (answer, expected) in answers {
        let (failures, lists) = (running.progress.failures(), running.lists());
        // The watch has to list again.
        api.compact();
        api.fail(Some(Fault::Lists("pods", answer.clone())));
        let why = || running.progress.reached().trouble.clone().map(|trouble| trouble.why.to_string());
        let is_told = || why().is_some_and(|why| why.ends_with(&expected));
        until(&format!("{answer} is told"), || running.progress.failures() > failures && is_told()).await;
        assert_eq!((running.keys(), running.lists()), (vec!["shop/a".to_owned()], lists), "{answer}");
        api.fail(None);
        until("all is listed", || running.lists() > lists).await;
    }
    // Two that are lists without objects. API servers had `null` for built-in kinds, and never for custom resources.
    for items in [json!([]), Value::Null] {
        api.compact();
        api.fail(Some(Fault::Lists("pods", pods(items))));
        running.has(&[]).await;
        api.fail(None);
        api.put(pod("shop", "a"));
        running.has(&["shop/a"]).await;
    }
    let rules = Selection::of("rule", Resource::new("config.istio.io", "v1alpha2", "rules"));
    api.define(["rules"]);
    let list = json!({"kind": "ruleList", "apiVersion": "config.istio.io/v1alpha2", "items": null});
    api.fail(Some(Fault::Lists("rules", list)));
    let error = crate::watch::list::<PartialObject>(&patient(&api), &rules, 1, "").await.err().unwrap();
    assert!(error.to_string().ends_with("/rules: a list whose `items` are null"), "{error}");
}

#[tokio::test]
async fn a_change_of_another_kind_changes_nothing() {
    let api = KubeApi::start();
    api.put(pod("shop", "a"));
    let version = api.version().to_string();
    let expected = "no change of the kind: kind handler of config.istio.io/v1alpha2 instead of ";
    for form in [Form::Whole, Form::Metadata] {
        let selection = Selection { form, ..Selection::of("Pod", PODS) };
        for change in ["made", "deleted", "bookmark"] {
            api.fail(Some(Fault::ChangesKind("handler", "config.istio.io/v1alpha2")));
            let lasts = Duration::from_secs(60);
            let mut watch = Watch::open(&patient(&api), &selection, &version, lasts).await.unwrap();
            match change {
                "made" => api.put(pod("shop", "b")),
                "deleted" => api.delete("pods", "shop", "b"),
                _ => api.bookmark(),
            }
            let error = watch.next::<PartialObject>().await.unwrap_err().to_string();
            assert!(error.contains(expected) && error.ends_with("Pod of v1"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_kind_is_not_taken_for_one_that_is_not_there() {
    let api = KubeApi::start();
    api.define(["rules"]);
    let name = "rules.config.istio.io";
    // Each time with connections of its own: others end.
    assert!(!crate::is_defined(&patient(&api), name).await.unwrap());
    api.put(json!({"kind": "CustomResourceDefinition", "metadata": {"name": name}}));
    assert!(crate::is_defined(&patient(&api), name).await.unwrap());
    let answers = [
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": []}),
        json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}),
        json!({"kind": "ruleList", "apiVersion": "config.istio.io/v1alpha2", "items": []}),
    ];
    for answer in answers {
        api.fail(Some(Fault::Lists("customresourcedefinitions", answer.clone())));
        let error = crate::is_defined(&patient(&api), name).await.unwrap_err();
        assert!(matches!(&error, Error::Malformed { .. }), "{answer}: {error}");
    }
    // Kinds that are served.
    api.fail(None);
    assert_eq!(crate::discover(&patient(&api), "config.istio.io").await.unwrap().len(), 1);
    let of = |kind: &str, group_version: &str, resources: Value| json!({"kind": kind, "groupVersion": group_version, "resources": resources});
    let answers = [
        json!({"kind": "APIResourceList", "groupVersion": "config.istio.io/v1alpha2"}),
        of("APIResourceList", "config.istio.io/v1alpha2", Value::Null),
        of("APIResourceList", "v1", json!([])),
        of("Table", "config.istio.io/v1alpha2", json!([])),
    ];
    for answer in answers {
        api.fail(Some(Fault::Discovers(answer.clone())));
        let error = crate::discover(&patient(&api), "config.istio.io").await.unwrap_err().to_string();
        let expected = "/apis/config.istio.io/v1alpha2: no list of the kinds of config.istio.io/v1alpha2";
        assert!(error.ends_with(expected), "{answer}: {error}");
    }
}

#[tokio::test]
async fn an_api_server_that_ends_watches_is_not_asked_all_the_time() {
    let api = KubeApi::start();
    api.fail(Some(Fault::EndsWatches));
    let running = run(&api, Selection::of("Pod", PODS));
    running.progress.synced().await;
    api.take_requests();
    sleep(Duration::from_millis(400)).await;
    let asked = watches(&api.take_requests()).len();
    // At 20 to 40 ms.
    assert!((4..=30).contains(&asked), "{asked}");
}

#[tokio::test]
async fn an_api_server_that_forgets_what_it_listed_is_not_asked_for_lists_all_the_time() {
    let api = KubeApi::start();
    api.put(pod("shop", "a"));
    api.fail(Some(Fault::ForgetsVersions));
    let running = run(&api, Selection::of("Pod", PODS));
    running.has(&["shop/a"]).await;
    let before = running.lists();
    sleep(Duration::from_millis(400)).await;
    // At 20 to 40 ms.
    let lists = running.lists() - before;
    assert!((4..=40).contains(&lists), "{lists}");
    let why = running.progress.reached().trouble.clone().unwrap().why;
    assert!(why.contains("too old resource version"), "{why}");
    api.fail(None);
    api.put(pod("shop", "b"));
    running.has(&["shop/a", "shop/b"]).await;
    until("the trouble is over", || running.progress.reached().trouble.is_none()).await;
}

#[tokio::test]
async fn a_store_that_left_something_out_is_filled_when_a_watch_ends() {
    let api = KubeApi::start();
    api.put(pod("shop", "a"));
    let store = Versions::default();
    let is_incomplete = Arc::clone(&store.is_incomplete);
    let running = run_with(&api, Selection::of("Pod", PODS), store);
    running.has(&["shop/a"]).await;
    api.fail(Some(Fault::EndsWatches));
    let begun = std::cell::Cell::new(0);
    let ends = || {
        begun.set(begun.get() + watches(&api.take_requests()).len());
        running.progress.failures() > 0 || begun.get() > 1
    };
    until("watches end", ends).await;
    assert_eq!(running.lists(), 1);
    is_incomplete.store(true, std::sync::atomic::Ordering::Relaxed);
    until("all is listed again", || running.lists() == 2).await;
}

#[test]
fn pauses_double_up_to_the_longest_one_and_differ() {
    let api = KubeApi::start();
    let mut reflector = Reflector::new(client(&api), Selection::of("Pod", PODS), Versions::default());
    let mut pauses = |failures: u32, least: u64| {
        reflector.failures = failures;
        let pauses: Vec<_> =
            (0..100).map(|_| reflector.pause(Duration::from_secs(least)).as_millis()).collect();
        (*pauses.iter().min().unwrap(), *pauses.iter().max().unwrap())
    };
    let (shortest, longest) = pauses(1, 0);
    assert!((250..350).contains(&shortest) && (400..=500).contains(&longest), "{shortest} {longest}");
    let (shortest, longest) = pauses(30, 0);
    assert!((15_000..20_000).contains(&shortest) && (25_000..=30_000).contains(&longest));
    assert_eq!(pauses(30, 60), (60_000, 60_000));
}
