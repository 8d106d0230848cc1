//! The source against an API server in memory, with the pipeline behind it.

#[path = "../../../../../../tests/support/kube_api.rs"]
mod kube_api;

use std::time::Instant;

use serde_json::{Value, json};
use tokio::runtime::Handle;

use mixer_kube::Access;
use mixer_mcp::Snapshot;
use mixer_schema::DEFAULT_GROUP;

use super::kind::REPLACED_WITHIN;
use super::*;
use crate::options::collection;
use crate::source::mesh::Mesh;
use crate::state::EventKind;
use crate::{Distributor, Galley};
use kube_api::KubeApi;

const RULES: &str = "istio/policy/v1beta1/rules";

const PACE: Pace = Pace {
    page: 2,
    watch: Duration::from_secs(60),
    first_pause: Duration::from_millis(5),
    longest_pause: Duration::from_millis(40),
};

struct Nowhere;

impl Distributor for Nowhere {
    fn distribute(&self, _: &str, _: Arc<Snapshot>) {}
}

fn galley(api: &KubeApi, options: &Options) -> Galley {
    resyncing(api, options, Duration::ZERO)
}

fn resyncing(api: &KubeApi, options: &Options, resync: Duration) -> Galley {
    let client = Client::new(Access::of_text(api.kubeconfig())).unwrap();
    let source = Kubernetes::at(client, options, PACE, resync);
    let sources: Vec<Arc<dyn Source>> = vec![Mesh::of(None, options), source];
    Galley::start(options.clone(), sources, Arc::new(Nowhere), &Handle::current()).unwrap()
}

fn gateway(name: &str, value: &str) -> Value {
    json!({"kind": "Gateway", "metadata": {"name": name, "namespace": "n"}, "spec": {"selector": {"a": value}}})
}

/// Names and a text of the bodies of a collection.
fn held(galley: &Galley, collection: &str) -> Vec<String> {
    let Some(snapshot) = galley.snapshot(DEFAULT_GROUP) else { return vec!["nothing".to_owned()] };
    let content = snapshot.get(collection).unwrap().content();
    let shown = |resource: &Arc<mixer_mcp::Resource>| {
        let body = mixer_schema::to_json(&resource.type_url, &resource.body).unwrap();
        format!("{} {}", resource.name, body["selector"]["a"].as_str().unwrap_or_default())
    };
    content.iter().map(shown).collect()
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_followed_through_410_and_an_outage() {
    let mut api = KubeApi::start();
    api.define(["gateways"]);
    ["a", "b", "c"].iter().for_each(|name| api.put(gateway(name, "1")));
    let galley = galley(&api, &Options::default());
    galley.synced().await;
    let gateways = || held(&galley, collection::GATEWAYS);
    assert_eq!(gateways(), ["n/a 1", "n/b 1", "n/c 1"], "everything is there with the first publication");
    api.put(gateway("a", "2"));
    api.delete("gateways", "n", "b");
    until("a change and a deletion", || gateways() == ["n/a 2", "n/c 1"]).await;
    // What happens while nothing is watched is found by a list.
    api.stop();
    api.put(gateway("d", "1"));
    api.delete("gateways", "n", "c");
    api.compact();
    let state = || galley.state().sources.into_iter().nth(1).unwrap();
    until("the outage is shown", || !state().is_connected).await;
    assert_eq!(gateways(), ["n/a 2", "n/c 1"], "what is known is kept");
    api.resume();
    until("what was missed", || gateways() == ["n/a 2", "n/d 1"]).await;
    until("the end of the outage is shown", || state().is_connected).await;
    assert!(state().is_synced() && state().generation == 1, "{:?}", state());
    galley.stop().await;
    api.put(gateway("e", "1"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(gateways(), ["n/a 2", "n/d 1"], "nothing arrives after the stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_appear_later_are_followed_and_those_that_go_are_empty() {
    let api = KubeApi::start();
    api.define(["gateways"]);
    let galley = galley(&api, &Options::default());
    galley.synced().await;
    assert!(held(&galley, RULES).is_empty());
    api.define(["rules"]);
    api.put(json!({"kind": "rule", "metadata": {"name": "r", "namespace": "n"}, "spec": {"match": "true"}}));
    api.put(json!({"kind": "CustomResourceDefinition", "metadata": {"name": "rules.config.istio.io"}}));
    until("a kind that is new", || held(&galley, RULES) == ["n/r "]).await;
    api.undefine("rules");
    api.delete("customresourcedefinitions", "", "rules.config.istio.io");
    until("a kind that is gone", || held(&galley, RULES).is_empty()).await;
    galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_is_waited_for_and_bad_objects_are_skipped() {
    let mut api = KubeApi::start();
    api.define(["gateways"]);
    api.put(gateway("good", "1"));
    api.put(
        json!({"kind": "Gateway", "metadata": {"name": "bad", "namespace": "n"}, "spec": {"selector": 5}}),
    );
    api.stop();
    let galley = galley(&api, &Options::default());
    let state = || galley.state().sources.into_iter().nth(1).unwrap();
    until("the error is shown", || state().last_error.is_some()).await;
    assert!(!galley.is_synced() && !state().is_synced(), "nothing is published of a part");
    assert!(galley.snapshot(DEFAULT_GROUP).is_none());
    let waits = || galley.state().groups.into_iter().next().unwrap().waits_for;
    // The error may come first.
    until("the mesh configuration is there", || !waits().contains(&mixer_schema::MESH_CONFIG)).await;
    assert!(waits().contains(&collection::GATEWAYS), "{:?}", waits());
    api.resume();
    galley.synced().await;
    assert_eq!(held(&galley, collection::GATEWAYS), ["n/good 1"]);
    until("the object that is skipped is shown", || state().skipped == 1).await;
    assert!(
        state().problems.iter().any(|problem| problem.resource == "bad.Gateway.n"),
        "{:?}",
        state().problems
    );
    api.put(gateway("bad", "2"));
    until("it is mended", || state().skipped == 0 && held(&galley, collection::GATEWAYS).len() == 2).await;
    galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resync_finds_what_no_watch_told() {
    let api = KubeApi::start();
    api.define(["gateways"]);
    ["a", "b", "c"].iter().for_each(|name| api.put(gateway(name, "1")));
    let lists = || api.take_requests().iter().filter(|asked| asked.contains("/gateways?limit=")).count();
    let galley = resyncing(&api, &Options::default(), Duration::from_millis(50));
    galley.synced().await;
    let gateways = || held(&galley, collection::GATEWAYS);
    let published = galley.snapshot(DEFAULT_GROUP).unwrap();
    let listed = std::cell::Cell::new(0);
    until("lists follow each other", || {
        listed.set(listed.get() + lists());
        listed.get() >= 6
    })
    .await;
    assert!(
        Arc::ptr_eq(&published, &galley.snapshot(DEFAULT_GROUP).unwrap()),
        "what is equal is not published"
    );
    // A server that has lost changes: no watch tells of them.
    api.lose(gateway("a", "2"));
    api.lose_deletion("gateways", "n", "b");
    until("a change and a deletion", || gateways() == ["n/a 2", "n/c 1"]).await;
    galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn needed_kinds_are_checked() {
    let api = KubeApi::start();
    let client = Client::new(Access::of_text(api.kubeconfig())).unwrap();
    let check = |excluded: &[&str]| {
        let excluded_kinds = excluded.iter().map(|kind| (*kind).to_owned()).collect();
        let options = Options { excluded_kinds, ..Options::default() };
        let source = Kubernetes::at(client.clone(), &options, PACE, Duration::ZERO);
        async move { source.check().await }
    };
    let missing = check(&[]).await.unwrap_err().to_string();
    assert!(missing.contains("gateways.networking.istio.io/v1alpha3"), "{missing}");
    let needed = mixer_schema::kinds().iter().filter(|kind| kind.origin == Origin::Istio && !kind.optional);
    let all: Vec<&str> = needed.map(|kind| kind.kind).filter(|kind| *kind != "Gateway").collect();
    assert!(check(&all).await.is_err());
    api.define(["gateways"]);
    check(&all).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_api_server_does_not_serve_or_say_any_more_is_kept() {
    let api = KubeApi::start();
    api.define(["gateways", "rules"]);
    let rule =
        |spec: Value| json!({"kind": "rule", "metadata": {"name": "r", "namespace": "n"}, "spec": spec});
    api.put(rule(json!({"match": "true"})));
    let galley = galley(&api, &Options { keeps_last: true, ..Options::default() });
    galley.synced().await;
    let state = || galley.state().sources.into_iter().nth(1).unwrap();
    // An object that does not decode, and one of which a part has no effect.
    for spec in [json!({"match": 5}), json!({"macth": "true"})] {
        api.put(rule(spec));
        until("the error is told", || state().skipped == 1).await;
        assert_eq!(held(&galley, RULES), ["n/r "]);
        api.put(rule(json!({"match": "true"})));
        until("it is mended", || state().skipped == 0).await;
    }
    api.put(json!({"kind": "CustomResourceDefinition", "metadata": {"name": "rules.config.istio.io"}}));
    api.unserve("rules");
    api.delete("customresourcedefinitions", "", "rules.config.istio.io");
    until("it is told", || !state().is_connected).await;
    tokio::time::sleep(AFTER_DEFINITION * 2).await;
    assert_eq!(held(&galley, RULES), ["n/r "]);
    galley.stop().await;
}

fn keep_last() -> Options {
    Options { keeps_last: true, ..Options::default() }
}

fn rule(name: &str, field: &str) -> Value {
    json!({"kind": "rule", "metadata": {"name": name, "namespace": "n"}, "spec": {field: "true"}})
}

fn problem(galley: &Galley) -> String {
    galley.state().sources.into_iter().nth(1).unwrap().held.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_for_what_decides_and_has_an_error() {
    let api = KubeApi::start();
    api.define(["rules", "gateways"]);
    api.put(rule("a", "match"));
    api.put(rule("b", "macth"));
    let galley = galley(&api, &keep_last());
    until("the error is told", || problem(&galley).contains("macth")).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(held(&galley, RULES), ["nothing"], "what it was before is unknown");
    api.put(rule("b", "match"));
    until("mended", || held(&galley, RULES) == ["n/a ", "n/b "]).await;
    until("told", || problem(&galley).is_empty()).await;
    galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_decides_is_deleted_beside_an_error() {
    let api = KubeApi::start();
    api.define(["rules", "gateways"]);
    ["a", "b", "c"].iter().for_each(|name| api.put(rule(name, "match")));
    api.put(gateway("g", "1"));
    let galley = galley(&api, &keep_last());
    galley.synced().await;
    let rules = || held(&galley, RULES);
    // `kubectl replace --force`, with a mistake.
    api.delete("rules", "n", "a");
    tokio::time::sleep(Duration::from_millis(100)).await;
    api.put(rule("a", "macth"));
    // A rename, with the same mistake.
    api.put(rule("d", "macth"));
    api.delete("rules", "n", "b");
    api.delete("gateways", "n", "g");
    until("the error is told", || problem(&galley).contains("macth")).await;
    until("other kinds go on", || held(&galley, collection::GATEWAYS).is_empty()).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(rules(), ["n/a ", "n/b ", "n/c "]);
    api.put(rule("a", "match"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(rules(), ["n/a ", "n/b ", "n/c "], "the other one still has an error");
    api.put(rule("d", "match"));
    until("mended", || rules() == ["n/a ", "n/c ", "n/d "]).await;
    api.delete("rules", "n", "c");
    until("a deletion without an error", || rules() == ["n/a ", "n/d "]).await;
    // One with an error that is deleted holds up nothing.
    api.put(rule("e", "macth"));
    until("an error", || !problem(&galley).is_empty()).await;
    api.delete("rules", "n", "e");
    until("it is gone", || problem(&galley).is_empty()).await;
    galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_decides_is_empty_only_if_it_is_not_defined() {
    let api = KubeApi::start();
    api.define(["gateways"]);
    api.put(rule("a", "match"));
    api.put(json!({"kind": "CustomResourceDefinition", "metadata": {"name": "rules.config.istio.io"}}));
    let galley = galley(&api, &keep_last());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(held(&galley, RULES), ["nothing"], "it is defined, and not served yet");
    api.define(["rules"]);
    until("it is served", || held(&galley, RULES) == ["n/a "]).await;
    galley.stop().await;
    // Without permission to list definitions that is never known. Who says that nothing may be meant is waited for less.
    let api = KubeApi::start();
    api.define(["gateways"]);
    api.fail(Some(kube_api::Fault::Forbids("customresourcedefinitions")));
    let waiting = resyncing(&api, &keep_last(), Duration::ZERO);
    let allowing = resyncing(&api, &Options { allows_empty: true, ..keep_last() }, Duration::ZERO);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(held(&allowing, RULES), ["nothing"]);
    until("it is not served", || held(&allowing, RULES).is_empty()).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!waiting.is_synced() && held(&waiting, RULES) == ["nothing"]);
    let why = problem(&waiting);
    assert!(
        why.contains("unknown whether they are defined") && why.contains("--allow-empty-config"),
        "{why}"
    );
    allowing.stop().await;
    waiting.stop().await;
}

/// A cluster that was made anew, or restored without its objects: nobody deletes everything at once on purpose.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_without_objects_that_decide_keeps_what_is_published() {
    let api = KubeApi::start();
    api.define(["rules", "gateways"]);
    ["a", "b"].iter().for_each(|name| api.put(rule(name, "match")));
    api.put(gateway("g", "1"));
    let galley = galley(&api, &keep_last());
    let allowing = resyncing(&api, &Options { allows_empty: true, ..keep_last() }, Duration::ZERO);
    galley.synced().await;
    allowing.synced().await;
    api.delete("rules", "n", "a");
    api.delete("rules", "n", "b");
    api.delete("gateways", "n", "g");
    until("it is told", || problem(&galley).contains("no object that decides about requests")).await;
    assert!(problem(&galley).contains("--allow-empty-config"), "{}", problem(&galley));
    until("other kinds go on", || held(&galley, collection::GATEWAYS).is_empty()).await;
    until("it is meant", || held(&allowing, RULES).is_empty()).await;
    tokio::time::sleep(REPLACED_WITHIN + Duration::from_secs(1)).await;
    assert_eq!(held(&galley, RULES), ["n/a ", "n/b "]);
    // They come back one by one, except for one.
    api.put(rule("b", "match"));
    api.put(rule("c", "match"));
    until("it is filled", || held(&galley, RULES) == ["n/a ", "n/b ", "n/c "]).await;
    tokio::time::sleep(REPLACED_WITHIN + Duration::from_secs(1)).await;
    assert_eq!(held(&galley, RULES), ["n/a ", "n/b ", "n/c "], "another one may come");
    until("what is missing is deleted", || held(&galley, RULES) == ["n/b ", "n/c "]).await;
    until("nothing is withheld", || problem(&galley).is_empty()).await;
    api.delete("rules", "n", "b");
    until("a deletion beside others", || held(&galley, RULES) == ["n/c "]).await;
    allowing.stop().await;
    galley.stop().await;
}

/// Another API server, or one that lost what it had, answers a list with nothing, of one kind after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_without_objects_keeps_those_of_its_kind() {
    let api = KubeApi::start();
    api.define(["rules", "handlers"]);
    ["a", "b"].iter().for_each(|name| api.put(rule(name, "match")));
    api.put(json!({"kind": "handler", "metadata": {"name": "h", "namespace": "n"}, "spec": {"compiledAdapter": "denier"}}));
    let galley = galley(&api, &keep_last());
    galley.synced().await;
    // No watch tells of it.
    api.lose_deletion("rules", "n", "a");
    api.lose_deletion("rules", "n", "b");
    api.compact();
    api.disconnect();
    until("it is told", || problem(&galley).contains("no object of kind rule")).await;
    tokio::time::sleep(REPLACED_WITHIN + Duration::from_secs(1)).await;
    assert_eq!(held(&galley, RULES), ["n/a ", "n/b "]);
    api.put(rule("c", "match"));
    until("what is missing is deleted", || held(&galley, RULES) == ["n/c "]).await;
    until("nothing is withheld", || problem(&galley).is_empty()).await;
    galley.stop().await;
}

/// What waits because it may be a part of another change, or is withheld, is not published yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_that_wait_are_pending() {
    let api = KubeApi::start();
    api.define(["rules"]);
    ["a", "b", "z"].iter().for_each(|name| api.put(rule(name, "match")));
    let galley = galley(&api, &keep_last());
    galley.synced().await;
    let pending = || galley.state().groups.into_iter().next().unwrap().pending_events;
    until("everything is published", || pending() == 0).await;
    api.delete("rules", "n", "a");
    until("the deletion is pending", || pending() == 1).await;
    assert_eq!(held(&galley, RULES), ["n/a ", "n/b ", "n/z "]);
    until("it is published", || held(&galley, RULES) == ["n/b ", "n/z "]).await;
    until("nothing is pending", || pending() == 0).await;
    api.put(rule("c", "macth"));
    until("the error is told", || !problem(&galley).is_empty()).await;
    api.delete("rules", "n", "b");
    until("the deletion is pending", || pending() == 1).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!((pending(), held(&galley, RULES)), (1, vec!["n/b ".to_owned(), "n/z ".to_owned()]));
    api.delete("rules", "n", "c");
    until("it is published", || held(&galley, RULES) == ["n/z "] && pending() == 0).await;
    galley.stop().await;
}

/// An object that was deleted just before its definition was.
#[test]
fn a_deletion_that_waits_is_not_forgotten_with_its_kind() {
    let (queue, _arriving) = tokio::sync::mpsc::channel(1);
    let out = Emitter { source: 0, generation: 0, slot: Arc::default(), queue };
    let kind = mixer_schema::by_collection(RULES).unwrap();
    let outbox = Arc::new(Outbox::new(kind, None, Pending::new(&out)));
    let mut objects = Objects::new(kind, Converter::new(&Options::default()), Arc::clone(&outbox));
    let document = |name: &str| serde_json::from_value(rule(name, "match")).unwrap();
    objects.apply(document("a"));
    objects.apply(document("b"));
    objects.publish();
    assert_eq!(outbox.take().len(), 2);
    outbox.delivered();
    objects.delete(document("a"));
    objects.publish();
    assert_eq!(out.health().state().pending, 1);
    let deleted: Vec<String> = outbox.forget().iter().map(|event| format!("{:?}", event.change)).collect();
    assert_eq!(deleted.len(), 2, "{deleted:?}");
    assert_eq!(out.health().state().pending, 0);
}

/// An API server that has just started serves kinds of custom resources one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_is_defined_and_not_served_for_a_moment_keeps_its_objects() {
    let api = KubeApi::start();
    api.define(["gateways", "rules"]);
    let definition = |kind: &str, label: &str| {
        let metadata = json!({"name": format!("{kind}.config.istio.io"), "labels": {"changed": label}});
        json!({"kind": "CustomResourceDefinition", "metadata": metadata})
    };
    api.put(definition("rules", "no"));
    api.put(json!({"kind": "rule", "metadata": {"name": "r", "namespace": "n"}, "spec": {"match": "true"}}));
    let galley = galley(&api, &Options::default());
    galley.synced().await;
    assert_eq!(held(&galley, RULES), ["n/r "]);
    let state = || galley.state().sources.into_iter().nth(1).unwrap();
    api.unserve("rules");
    until("it is told", || !state().is_connected).await;
    // Discovery is repeated.
    api.put(definition("rules", "yes"));
    api.put(definition("handlers", "yes"));
    tokio::time::sleep(AFTER_DEFINITION * 3).await;
    assert_eq!(held(&galley, RULES), ["n/r "]);
    api.define(["rules"]);
    until("it is served again", || state().is_connected).await;
    let deleted = galley.events().iter().filter(|event| event.kind == EventKind::Deleted).count();
    assert_eq!((held(&galley, RULES), deleted), (vec!["n/r ".to_owned()], 0));
    galley.stop().await;
}

/// A list that fails begins again and again, for as long as the server is away.
#[test]
fn what_is_defined_is_known_until_it_was_listed_again() {
    let definition = |kind: &Kind| -> PartialObject {
        let name = format!("{}.{}", kind.plural, kind.group);
        serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
    };
    let kind = mixer_schema::by_collection(RULES).unwrap();
    let known = Arc::<Mutex<KnownDefinitions>>::default();
    let mut definitions =
        Definitions { changed: Arc::default(), known: Arc::clone(&known), listed: BTreeSet::new() };
    let defines = || known.lock().defines(kind);
    definitions.begin();
    definitions.list(definition(kind));
    assert_eq!(defines(), None, "not all are known");
    definitions.complete();
    assert_eq!(defines(), Some(true));
    definitions.begin();
    definitions.begin();
    assert_eq!(defines(), Some(true));
    definitions.complete();
    assert_eq!(defines(), Some(false));
    definitions.apply(definition(kind));
    assert_eq!(defines(), Some(true));
    definitions.delete(definition(kind));
    assert_eq!(defines(), Some(false));
}
