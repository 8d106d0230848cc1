//! A cluster as a store, against the API server in memory.

#[path = "../../../../../tests/support/kube_api.rs"]
mod kube_api;

use std::time::Duration;

use mixer_config::store::ConfigStore;
use serde_json::{Value, json};

use super::*;
use crate::StoreKind;
use kube_api::{CRITICAL as CRITICAL_PLURALS, Fault, KubeApi, TOKEN};

/// Longer than anything that is waited for takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

const KINDS: [StoreKind; 8] = [
    of("adapter"),
    of("attributemanifest"),
    of("denier"),
    of("handler"),
    of("instance"),
    of("rule"),
    of("template"),
    StoreKind { kind: "ServiceRole", group: "rbac.istio.io" },
];

const fn of(kind: &'static str) -> StoreKind {
    StoreKind { kind, group: "config.istio.io" }
}

fn options(url: &str) -> StoreOptions {
    StoreOptions { kinds: KINDS.to_vec(), ..StoreOptions::new(url) }
}

fn pace() -> Pace {
    let pause = Duration::from_millis(20);
    Pace { page: 2, watch: Duration::from_secs(5), first_pause: pause, longest_pause: pause * 5 }
}

fn rule(name: &str, text: &str) -> Value {
    json!({"kind": "rule", "metadata": {"namespace": "shop", "name": name}, "spec": {"match": text}})
}

/// A cluster with all definitions, and a store of it.
struct Scene {
    api: KubeApi,
    store: FeedStore,
    _kubeconfig: tempfile::NamedTempFile,
}

impl Scene {
    fn new(api: KubeApi, query: &str) -> Self {
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(kubeconfig.path(), api.kubeconfig()).unwrap();
        let rest = format!("{}{query}", kubeconfig.path().display());
        let url = format!("k8s://{rest}");
        let store = open_at(&url, Settings::parse(&url, &rest).unwrap(), &options(&url), pace()).unwrap();
        Self { api, store, _kubeconfig: kubeconfig }
    }

    fn names(&self) -> Vec<String> {
        self.store.contents().resources.iter().map(|resource| resource.key.to_string()).collect()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let waits = async {
            while !is_so(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(DEADLINE, waits).await;
        assert!(waited.is_ok(), "{what}: {:?} {:?} {:?}", self.names(), self.why(), self.store.source());
    }

    fn why(&self) -> Option<String> {
        self.store.availability().err().map(|outage| outage.why)
    }

    async fn becomes(&self, what: &str, names: &[&str]) {
        self.until(what, |scene| scene.names() == names).await;
    }
}

fn cluster() -> KubeApi {
    let api = KubeApi::start();
    api.define(CRITICAL_PLURALS);
    api
}

#[tokio::test]
async fn the_objects_of_all_known_kinds_are_resources() {
    let api = cluster();
    api.define(["deniers", "serviceroles"]);
    for name in ["a", "b", "c"] {
        api.put(rule(name, "true"));
    }
    api.put(json!({"kind": "denier", "metadata": {"namespace": "shop", "name": "no"}, "spec": {}}));
    api.put(
        json!({"kind": "ServiceRole", "metadata": {"namespace": "shop", "name": "r"}, "spec": {"rules": []}}),
    );
    api.put(json!({"kind": "Pod", "metadata": {"namespace": "shop", "name": "p"}, "status": {}}));
    let scene = Scene::new(api, "");
    scene.store.loaded().await;
    scene.store.changed().await;
    let names = ["r.ServiceRole.shop", "no.denier.shop", "a.rule.shop", "b.rule.shop", "c.rule.shop"];
    assert_eq!(scene.names(), names);
    let contents = scene.store.contents();
    let rule_a = contents.resources.iter().find(|resource| &*resource.key.name == "a").unwrap();
    let place = format!("{}/rules.config.istio.io/shop/a", scene.api.url().replace("http", "k8s"));
    assert_eq!(rule_a.origin.place(), place);
    assert_eq!(&*rule_a.envelope.api_version, "config.istio.io/v1alpha2");
    assert!(!rule_a.envelope.version.is_empty());
    // A status, a label of the system and what kubectl remembers are no changes of the rest.
    let mut noted = rule("a", "true");
    noted["status"] = json!({"conditions": []});
    noted["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
    scene.api.put(noted);
    scene.api.put(rule("b", "false"));
    scene.api.delete("rules", "shop", "c");
    let names = ["r.ServiceRole.shop", "no.denier.shop", "a.rule.shop", "b.rule.shop"];
    scene.becomes("an object is deleted", &names).await;
    let now = scene.store.contents();
    let same = |name: &str| {
        let of = |contents: &mixer_config::store::StoreContents| {
            contents.resources.iter().find(|resource| &*resource.key.name == name).cloned().unwrap()
        };
        Arc::ptr_eq(&of(&contents), &of(&now))
    };
    assert_eq!((same("a"), same("b"), same("no")), (true, false, true));
    let source = scene.store.source().unwrap();
    let rules = source.collections.iter().find(|known| &*known.name == "rules.config.istio.io").unwrap();
    assert_eq!((rules.objects, rules.is_synced), (2, true));
    assert_eq!(source.peer, scene.api.url().trim_start_matches("http://"));
}

#[tokio::test]
async fn definitions_are_waited_for() {
    let api = KubeApi::start();
    let scene = Scene::new(api, "");
    let all = "failed to discover critical kinds: [adapter attributemanifest handler instance rule template]";
    scene.until("all are missing", |scene| scene.why().as_deref() == Some(all)).await;
    scene.api.define(CRITICAL_PLURALS.into_iter().filter(|plural| *plural != "rules"));
    let one = "failed to discover critical kinds: [rule]";
    scene.until("one is missing", |scene| scene.why().as_deref() == Some(one)).await;
    assert!(scene.store.contents().unavailable.is_some());
    scene.api.define(["rules"]);
    scene.api.put(rule("a", "true"));
    scene.store.loaded().await;
    scene.becomes("the last one is defined", &["a.rule.shop"]).await;
    scene.until("it is followed", |scene| scene.why().is_none()).await;
    // Another one later, and its end.
    scene.api.define(["deniers"]);
    scene.api.put(json!({"kind": "denier", "metadata": {"namespace": "shop", "name": "no"}, "spec": {}}));
    scene.becomes("a definition later", &["no.denier.shop", "a.rule.shop"]).await;
    scene.api.undefine("deniers");
    scene.becomes("it is gone", &["a.rule.shop"]).await;
    scene.until("nothing is missed", |scene| scene.why().is_none()).await;
}

#[tokio::test]
async fn an_outage_changes_nothing_and_is_told() {
    let api = cluster();
    api.put(rule("a", "true"));
    let mut scene = Scene::new(api, "");
    scene.store.loaded().await;
    scene.until("it is followed", |scene| scene.why().is_none()).await;
    let first = scene.store.contents();
    for fault in [Fault::Answers(503), Fault::Resets, Fault::ForgetsVersions, Fault::Forbids("rules")] {
        scene.api.fail(Some(fault.clone()));
        scene.until(&format!("{fault:?} is told"), |scene| scene.why().is_some()).await;
        let outage = scene.store.availability().unwrap_err();
        assert!(outage.keeps_last && !outage.why.contains(TOKEN), "{}", outage.why);
        assert!(Arc::ptr_eq(&first, &scene.store.contents()), "{fault:?}");
        assert!(scene.store.source().unwrap().connected_since.is_none());
        scene.api.fail(None);
        scene.until("it recovers", |scene| scene.why().is_none()).await;
    }
    assert!(scene.store.source().unwrap().connections > 1);
    scene.api.stop();
    scene.until("a refused connection is told", |scene| scene.why().is_some()).await;
    scene.api.put(rule("b", "true"));
    scene.api.delete("rules", "shop", "a");
    // What happened meanwhile is forgotten: everything is listed again.
    scene.api.compact();
    assert_eq!(scene.names(), ["a.rule.shop"]);
    scene.api.resume();
    scene.becomes("what happened meanwhile", &["b.rule.shop"]).await;
}

#[tokio::test]
async fn an_answer_that_is_no_list_of_the_kind_removes_nothing_and_is_told() {
    let api = cluster();
    api.put(rule("a", "true"));
    api.put(json!({"kind": "handler", "metadata": {"namespace": "shop", "name": "h"}, "spec": {}}));
    let scene = Scene::new(api, "");
    let all = ["h.handler.shop", "a.rule.shop"];
    scene.becomes("it is followed", &all).await;
    scene.until("it is followed", |scene| scene.why().is_none()).await;
    let api_version = "config.istio.io/v1alpha2";
    let answers = [
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": []}),
        json!({"kind": "ruleList", "apiVersion": api_version}),
        json!({"kind": "ruleList", "apiVersion": api_version, "Items": []}),
        json!({"kind": "ruleList", "apiVersion": api_version, "items": null}),
        json!({"kind": "handlerList", "apiVersion": api_version, "items": []}),
        json!({"kind": "PodList", "apiVersion": "v1", "items": []}),
    ];
    for answer in answers {
        // Everything has to be listed again, and handlers can be.
        scene.api.compact();
        scene.api.fail(Some(Fault::Lists("rules", answer.clone())));
        let is_told = |scene: &Scene| {
            let why = scene.why();
            why.is_some_and(|why| {
                why.contains("rules.config.istio.io are not followed: ") && why.contains("list")
            })
        };
        scene.until(&format!("{answer} is told"), is_told).await;
        assert_eq!(scene.names(), all, "{answer}");
        scene.api.fail(None);
        scene.until("it recovers", |scene| scene.why().is_none()).await;
    }
    let list = json!({"kind": "ruleList", "apiVersion": api_version, "items": []});
    scene.api.compact();
    scene.api.fail(Some(Fault::Lists("rules", list)));
    scene.becomes("a list without objects", &["h.handler.shop"]).await;
}

#[tokio::test]
async fn the_objects_of_a_kind_that_every_configuration_has_outlast_its_definition() {
    let api = cluster();
    api.define(["deniers"]);
    api.put(rule("a", "true"));
    api.put(json!({"kind": "denier", "metadata": {"namespace": "shop", "name": "no"}, "spec": {}}));
    let scene = Scene::new(api, "");
    scene.store.loaded().await;
    // As while an API server that was started serves its definitions one by one, longer than usual.
    scene.api.undefine("rules");
    scene.api.undefine("deniers");
    scene.becomes("the other definition is gone", &["a.rule.shop"]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.names(), ["a.rule.shop"]);
    // A watch that ended at this moment is told first, until it has begun again.
    let is_told = |scene: &Scene| {
        let unread = scene.store.contents().unread();
        let why = scene.why();
        why.is_some_and(|why| why.contains("rules.config.istio.io are not followed: "))
            && unread.first().is_some_and(|unread| unread.why.contains("/rules.config.istio.io: "))
    };
    scene.until("the kind that is missed is told", is_told).await;
    scene.api.define(["rules"]);
    scene.api.put(rule("b", "true"));
    scene.becomes("it is defined again", &["b.rule.shop"]).await;
    scene.until("nothing is missed", |scene| scene.why().is_none()).await;
    assert_eq!(scene.store.contents().unread(), []);
}

#[tokio::test]
async fn a_kind_that_is_not_followed_is_unknown_while_others_change() {
    let api = cluster();
    api.put(rule("a", "true"));
    let scene = Scene::new(api, "");
    scene.store.loaded().await;
    scene.until("it is followed", |scene| scene.why().is_none()).await;
    scene.api.fail(Some(Fault::Forbids("rules")));
    scene.until("it is told", |scene| scene.why().is_some()).await;
    let handler = json!({"kind": "handler", "metadata": {"namespace": "shop", "name": "h"}, "spec": {}});
    scene.api.put(handler);
    scene.becomes("another kind is followed", &["h.handler.shop", "a.rule.shop"]).await;
    let contents = scene.store.contents();
    let rules = contents.broken.iter().find(|broken| broken.file.ends_with("/rules.config.istio.io"));
    assert!(rules.is_some_and(|rules| rules.keeps_last), "{:?}", contents.broken);
    scene.api.fail(None);
    scene.until("nothing is unknown", |scene| scene.store.contents().broken.is_empty()).await;
    assert_eq!(scene.names(), ["h.handler.shop", "a.rule.shop"]);
}

#[tokio::test]
async fn one_kind_that_is_refused_holds_up_the_first_contents_alone() {
    let api = cluster();
    api.put(rule("a", "true"));
    api.fail(Some(Fault::Forbids("handlers")));
    let scene = Scene::new(api, "");
    scene
        .until("it is told", |scene| {
            scene.why().is_some_and(|why| {
                why.contains("handlers.config.istio.io are not followed: ") && why.contains("403")
            })
        })
        .await;
    assert!(scene.store.contents().unavailable.is_some());
    scene.api.fail(None);
    scene.store.loaded().await;
    assert_eq!(scene.names(), ["a.rule.shop"]);
}

#[tokio::test]
async fn namespaces_can_be_chosen() {
    let api = cluster();
    for namespace in ["a", "b", "c"] {
        let metadata = json!({"namespace": namespace, "name": "r"});
        api.put(json!({"kind": "rule", "metadata": metadata, "spec": {"match": "true"}}));
    }
    let scene = Scene::new(api, "?ns=a,c&retry-timeout=5s");
    scene.store.loaded().await;
    assert_eq!(scene.names(), ["r.rule.a", "r.rule.c"]);
    let contents = scene.store.contents();
    let place = contents.resources.iter().next().unwrap().origin.place();
    assert!(place.ends_with("/rules.config.istio.io/a/r"), "{place}");
    scene.api.delete("rules", "c", "r");
    scene.becomes("of one namespace", &["r.rule.a"]).await;
}

#[tokio::test]
async fn what_is_no_cluster_is_refused_at_once() {
    let refused = |url: &str| crate::open(&options(url), &Arc::default()).err().unwrap().to_string();
    assert_eq!(refused("k8s://"), "invalid configuration: no configuration has been provided");
    let missing = refused("k8s:///nowhere/kubeconfig");
    assert_eq!(
        missing,
        "invalid configuration: cannot read `/nowhere/kubeconfig`: No such file or directory (os error 2)"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "current-context: nothing").unwrap();
    let url = format!("kube://{}", file.path().display());
    assert!(
        refused(&url).starts_with(&format!("invalid configuration: {}: ", file.path().display())),
        "{}",
        refused(&url)
    );
    assert_eq!(
        refused("k8s:///x?namespaces=a"),
        "invalid config URL k8s:///x?namespaces=a parse \"k8s:///x?namespaces=a\": unknown parameter `namespaces`; it may have `ns`"
    );
}

fn denier() -> Value {
    json!({"kind": "denier", "metadata": {"namespace": "shop", "name": "no"}, "spec": {}})
}

fn definition(name: &str) -> Value {
    json!({"kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": {}})
}

fn unread(scene: &Scene) -> Vec<String> {
    let unread = scene.store.contents().unread();
    unread.into_iter().map(|unread| unread.path.rsplit('/').next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn a_kind_that_cannot_be_followed_is_unknown_while_discovery_hangs() {
    let api = cluster();
    api.put(rule("a", "true"));
    api.put(json!({"kind": "handler", "metadata": {"namespace": "shop", "name": "h"}, "spec": {}}));
    let scene = Scene::new(api, "");
    scene.store.loaded().await;
    scene.until("it is followed", |scene| scene.why().is_none()).await;
    scene.api.hang_discovery(true);
    scene.api.take_requests();
    // Waits for so many such requests.
    let asks = async |is_asked: fn(&str) -> bool, times: usize| {
        let mut count = 0;
        while count < times {
            let asked = scene.api.take_requests();
            count += asked.iter().filter(|asked| is_asked(asked)).count();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waits = async {
        asks(|asked| asked.ends_with("/apis/config.istio.io"), 1).await;
        scene.api.fail_later(Fault::Forbids("handlers"));
        // The watch that there was ends, and two others are refused.
        asks(|asked| asked.contains("/handlers?"), 2).await;
    };
    tokio::time::timeout(DEADLINE, waits).await.expect("handlers are refused");
    scene.api.delete("rules", "shop", "a");
    scene.becomes("a rule is deleted", &["h.handler.shop"]).await;
    assert_eq!(unread(&scene), ["handlers.config.istio.io"]);
}

#[tokio::test]
async fn a_kind_is_not_gone_while_its_definition_is_there_or_may_be() {
    let api = cluster();
    api.define(["deniers"]);
    api.put(denier());
    api.put(definition("deniers.config.istio.io"));
    let scene = Scene::new(api, "");
    scene.store.loaded().await;
    scene.becomes("it is there", &["no.denier.shop"]).await;
    scene.api.fail(Some(Fault::Forbids("customresourcedefinitions")));
    scene.api.unserve("deniers");
    let unknown = "it is not served, and unknown whether its definition is deleted: ";
    scene.until("nobody knows", |scene| scene.why().is_some_and(|why| why.contains(unknown))).await;
    scene.api.fail(None);
    let defined = "deniers.config.istio.io are not followed: it is defined, and not served";
    scene.until("it is defined", |scene| scene.why().as_deref() == Some(defined)).await;
    scene.api.put(rule("a", "true"));
    scene.becomes("others are followed", &["no.denier.shop", "a.rule.shop"]).await;
    assert_eq!(unread(&scene), ["deniers.config.istio.io"]);
    scene.api.delete("customresourcedefinitions", "", "deniers.config.istio.io");
    scene.becomes("it is deleted", &["a.rule.shop"]).await;
    scene.until("nothing is missed", |scene| scene.why().is_none()).await;
    assert_eq!(unread(&scene), Vec::<String>::new());
}

#[tokio::test]
async fn kinds_of_an_earlier_process_that_are_not_served_yet_are_unknown() {
    let api = cluster();
    api.put(rule("a", "true"));
    api.put(definition("deniers.config.istio.io"));
    let scene = Scene::new(api, "");
    // From another address of the same cluster; rules are served, roles were deleted, and gateways are not read.
    let earlier = [
        "k8s://10.0.0.1:443/deniers.config.istio.io/shop/no",
        "k8s://10.0.0.1:443/rules.config.istio.io/shop/a",
        "k8s://10.0.0.1:443/serviceroles.rbac.istio.io/shop/r",
        "k8s://10.0.0.1:443/gateways.networking.istio.io/shop/g",
    ];
    scene.store.expect(&earlier.map(std::path::Path::new));
    scene.store.loaded().await;
    scene.until("roles are deleted", |scene| unread(scene) == ["deniers.config.istio.io"]).await;
    let why = "not served, and the last good configuration has them: deniers.config.istio.io";
    scene.until("it is told", |scene| scene.why().as_deref() == Some(why)).await;
    let path = scene.store.contents().unread()[0].path.clone();
    assert_eq!(path, format!("{}/deniers.config.istio.io", scene.api.url().replace("http", "k8s")).into());
    scene.api.put(denier());
    scene.api.define(["deniers"]);
    scene.becomes("it is served", &["no.denier.shop", "a.rule.shop"]).await;
    scene.until("nothing is missed", |scene| scene.why().is_none()).await;
    assert_eq!(unread(&scene), Vec::<String>::new());
}

#[tokio::test]
async fn an_object_that_refuses_its_status_keeps_no_other_from_it() {
    let api = cluster();
    api.put(json!({"kind": "handler", "metadata": {"namespace": "shop", "name": "h"}, "spec": {}}));
    api.put(rule("a", "true"));
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(kubeconfig.path(), api.kubeconfig()).unwrap();
    let (faults, told) = tokio::sync::watch::channel(None);
    let url = format!("k8s://{}", kubeconfig.path().display());
    let options = StoreOptions { faults: Some(told), ..options(&url) };
    let rest = url.trim_start_matches("k8s://").to_owned();
    let store = open_at(&url, Settings::parse(&url, &rest).unwrap(), &options, pace()).unwrap();
    store.loaded().await;
    api.fail_later(Fault::Forbids("handlers"));
    let root = api.url().replace("http", "k8s");
    let fault = crate::Fault { code: "some-code", message: "it is wrong".to_owned() };
    let of = |name: &str| (Arc::from(format!("{root}/{name}")), fault.clone());
    let both = [of("handlers.config.istio.io/shop/h"), of("rules.config.istio.io/shop/a")];
    faults.send_replace(Some(Arc::new(both.into_iter().collect())));
    let condition = || api.get("rules", "shop", "a").unwrap()["status"]["conditions"][0]["message"].clone();
    let waits = async {
        while condition() != "it is wrong" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waits).await.expect("the rule has its condition");
}
