//! Tests of the index of services.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::kubernetesenv::pods::{PodObject, PodStore, Pods};

/// Both indexes of a cluster.
struct Both {
    pods: Arc<Pods>,
    services: Arc<Services>,
    pod_store: PodStore,
    store: ServiceStore,
    budget: Arc<Budget>,
}

impl Both {
    fn new(most: usize) -> Self {
        let (pods, services) = <(Arc<Pods>, Arc<Services>)>::default();
        let (budget, answers) = (Arc::new(Budget::of(most)), Arc::default());
        let pod_store = PodStore::new(&pods, &budget, &answers).with_services(true);
        let store = ServiceStore::new(&services, &budget, &answers);
        Self { pods, services, pod_store, store, budget }
    }

    fn pod(&mut self, namespace: &str, name: &str, labels: Value) {
        let pod = json!({"metadata": {"namespace": namespace, "name": name, "labels": labels}});
        self.pod_store.apply(serde_json::from_value::<PodObject>(pod).unwrap());
        self.pod_store.publish();
    }

    fn apply(&mut self, service: &Value) {
        self.store.apply(object(service));
        self.store.publish();
    }

    fn list(&mut self, services: &[Value]) {
        self.store.begin();
        services.iter().for_each(|service| self.store.list(object(service)));
        self.store.complete();
        self.store.publish();
    }

    fn delete(&mut self, namespace: &str, name: &str) {
        self.store.delete(object(&service(namespace, name, Value::Null)));
        self.store.publish();
    }

    /// The service of a pod.
    fn of(&self, key: &str) -> Option<String> {
        let (index, table) = (self.pods.index(), self.services.table());
        let found = table.of_pod(index.by_name(key).unwrap());
        // It is kept, and no other one.
        assert_eq!(table.of_pod(index.by_name(key).unwrap()), found);
        found.map(|service| service.name().to_owned())
    }

    fn at(&self, ip: &str) -> Option<String> {
        let table = self.services.table();
        table.by_ip(ip.parse().unwrap()).map(|service| service.key.to_string())
    }
}

fn object(value: &Value) -> ServiceObject {
    serde_json::from_value(value.clone()).unwrap()
}

fn service(namespace: &str, name: &str, selector: Value) -> Value {
    json!({
        "metadata": {
            "namespace": namespace, "name": name, "labels": {"skipped": "yes"},
            "creationTimestamp": "2026-01-02T03:04:05Z",
        },
        "spec": {"selector": selector, "clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}]},
        "status": {"loadBalancer": {}},
    })
}

fn with(mut service: Value, pointer: &str, value: impl Into<Value>) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    service.pointer_mut(parent).unwrap()[name] = value.into();
    service
}

fn created(service: Value, second: u8) -> Value {
    with(service, "/metadata/creationTimestamp", format!("2026-01-01T00:00:0{second}Z"))
}

#[test]
fn a_pod_belongs_to_a_service_of_its_namespace_whose_selector_is_a_part_of_its_labels() {
    let mut both = Both::new(1 << 20);
    both.pod("shop", "cart-1", json!({"app": "cart", "tier": "back", "version": "v1"}));
    both.pod("shop", "bare", Value::Null);
    assert_eq!(both.of("shop/cart-1"), None);
    for (selector, is_its) in [
        (json!({"app": "cart"}), true),
        (json!({"app": "cart", "version": "v1"}), true),
        (json!({"version": "v1"}), true),
        (json!({"app": "cart", "version": "v2"}), false),
        (json!({"app": "cart", "zone": "a"}), false),
        (json!({"a": "cart"}), false),
        (json!({"app": ""}), false),
        (json!({}), false),
        (Value::Null, false),
    ] {
        both.apply(&service("shop", "cart", selector.clone()));
        assert_eq!(both.of("shop/cart-1").is_some(), is_its, "{selector}");
        assert_eq!(both.of("shop/bare"), None, "{selector}");
    }
    both.apply(&service("data", "cart", json!({"app": "cart"})));
    assert_eq!(both.of("shop/cart-1"), None, "it is in another namespace");
    // API servers ignore the selector of a name for something outside.
    let outside = with(service("shop", "out", json!({"app": "cart"})), "/spec/type", "ExternalName");
    both.apply(&outside);
    assert_eq!(both.of("shop/cart-1"), None);
    both.apply(&with(outside, "/spec/type", "LoadBalancer"));
    assert_eq!(both.of("shop/cart-1").as_deref(), Some("out"));
}

#[test]
fn of_several_the_oldest_counts_and_then_the_first_by_name() {
    let mut both = Both::new(1 << 20);
    both.pod("shop", "cart-1", json!({"app": "cart"}));
    let of_cart = |name: &str, second| created(service("shop", name, json!({"app": "cart"})), second);
    for (next, best) in [
        (with(of_cart("0", 0), "/metadata/creationTimestamp", Value::Null), "0"),
        (of_cart("c", 5), "c"),
        (of_cart("d", 5), "c"),
        (of_cart("b", 5), "b"),
        (of_cart("a", 6), "b"),
        (of_cart("z", 4), "z"),
    ] {
        both.apply(&next);
        assert_eq!(both.of("shop/cart-1").as_deref(), Some(best));
    }
    for (gone, best) in [
        ("z", Some("b")),
        ("b", Some("c")),
        ("c", Some("d")),
        ("d", Some("a")),
        ("a", Some("0")),
        ("0", None),
    ] {
        both.delete("shop", gone);
        assert_eq!(both.of("shop/cart-1").as_deref(), best);
    }
}

#[test]
fn a_change_of_the_pod_or_of_the_services_is_seen() {
    let mut both = Both::new(1 << 20);
    both.apply(&service("shop", "cart", json!({"app": "cart"})));
    both.apply(&service("shop", "web", json!({"app": "web"})));
    both.pod("shop", "a", json!({"app": "cart"}));
    // Two namespaces whose pods have everything else in common.
    both.pod("data", "a", json!({"app": "cart"}));
    assert_eq!((both.of("shop/a").as_deref(), both.of("data/a")), (Some("cart"), None));
    both.pod("shop", "a", json!({"app": "web"}));
    assert_eq!(both.of("shop/a").as_deref(), Some("web"));
    both.apply(&service("shop", "web", json!({"app": "other"})));
    assert_eq!(both.of("shop/a"), None);
    both.apply(&service("data", "db", json!({"app": "cart"})));
    assert_eq!((both.of("shop/a"), both.of("data/a").as_deref()), (None, Some("db")));
    both.list(&[service("shop", "all", json!({"app": "web"}))]);
    assert_eq!((both.of("shop/a").as_deref(), both.of("data/a")), (Some("all"), None));
}

/// The answer is looked for once a change of its namespace, for all pods with the same labels.
#[test]
fn a_service_is_looked_for_once_a_change() {
    let resolved = Resolved::default();
    let mut looked = 0;
    let mut ask = |generation, place| {
        resolved.of(generation, || {
            looked += 1;
            place
        })
    };
    assert_eq!((ask(1, Some(0)), ask(1, None), ask(1, Some(7))), (Some(0), Some(0), Some(0)));
    assert_eq!((ask(2, None), ask(2, Some(3))), (None, None));
    let last = usize::try_from(NOWHERE - 1).unwrap();
    assert_eq!((ask(3, Some(last)), ask(3, None)), (Some(last), Some(last)));
    // Too many to note.
    assert_eq!((ask(4, Some(last + 1)), ask(4, Some(last + 2))), (Some(last + 1), Some(last + 2)));
    assert_eq!(looked, 5);
    let mut both = Both::new(1 << 20);
    for name in ["a", "b"] {
        both.pod("shop", name, json!({"app": "cart"}));
    }
    both.apply(&service("shop", "cart", json!({"app": "cart"})));
    let noted = |both: &Both, name: &str| {
        let index = both.pods.index();
        index.by_name(name).unwrap().common.service.0.load(atomic::Ordering::Relaxed)
    };
    assert_eq!((both.of("shop/a").as_deref(), noted(&both, "shop/b") > 0), (Some("cart"), true));
    let before = noted(&both, "shop/a");
    both.apply(&service("data", "cart", json!({"app": "cart"})));
    both.list(&[service("shop", "cart", json!({"app": "cart"})), service("zoo", "x", json!({"a": "b"}))]);
    assert_eq!((both.of("shop/a").as_deref(), noted(&both, "shop/a")), (Some("cart"), before));
}

#[test]
fn an_address_of_the_cluster_has_a_service() {
    let mut both = Both::new(1 << 20);
    let of = |name: &str, ips: Value| with(service("shop", name, Value::Null), "/spec/clusterIPs", ips);
    both.apply(&of("two", json!(["10.96.0.7", "fd00::7"])));
    assert_eq!(
        (both.at("10.96.0.7").as_deref(), both.at("fd00::7").as_deref()),
        (Some("shop/two"), Some("shop/two"))
    );
    assert_eq!(both.at("::ffff:10.96.0.7").as_deref(), Some("shop/two"));
    // Of API servers before 1.20.
    let old = json!({"metadata": {"namespace": "shop", "name": "old"}, "spec": {"clusterIP": "10.96.0.8"}});
    both.apply(&old);
    assert_eq!(both.at("10.96.0.8").as_deref(), Some("shop/old"));
    assert_eq!((both.at("10.96.0.6"), both.at("10.96.0.9")), (None, None), "nor that of a neighbour");
    both.apply(&of("two", json!(["10.96.0.9"])));
    assert_eq!((both.at("10.96.0.7"), both.at("fd00::7")), (None, None));
    assert_eq!(both.at("10.96.0.9").as_deref(), Some("shop/two"));
    // None that could be everybody's.
    both.apply(&of("odd", json!(["None", "", "0.0.0.0", "::", "::ffff:0.0.0.0", "x"])));
    assert_eq!((both.at("0.0.0.0"), both.at("::")), (None, None));
    assert_eq!(both.services.table().len(), 2, "nothing can belong to it");
    both.apply(&with(of("out", json!(["10.96.0.10"])), "/spec/type", "ExternalName"));
    assert_eq!(both.at("10.96.0.10"), None);
    let young = of("young", json!(["10.96.0.9"]));
    both.apply(&with(young.clone(), "/metadata/creationTimestamp", "2026-02-01T00:00:00Z"));
    assert_eq!(both.at("10.96.0.9").as_deref(), Some("shop/two"), "the oldest");
    both.delete("shop", "two");
    assert_eq!(both.at("10.96.0.9").as_deref(), Some("shop/young"));
    both.list(&[]);
    assert_eq!((both.at("10.96.0.9"), both.at("10.96.0.8")), (None, None));
}

#[test]
fn what_is_not_seen_changes_nothing() {
    let mut both = Both::new(1 << 20);
    let cart = || service("shop", "cart", json!({"app": "cart"}));
    both.list(&[cart()]);
    let before = Arc::as_ptr(&both.services.table());
    both.apply(&with(cart(), "/metadata/resourceVersion", "99"));
    both.apply(&with(cart(), "/spec/ports", json!([])));
    both.delete("shop", "other");
    both.list(&[cart(), service("shop", "empty", Value::Null)]);
    assert_eq!(Arc::as_ptr(&both.services.table()), before, "cached answers go on");
    both.apply(&with(cart(), "/spec/selector/app", "web"));
    assert_ne!(Arc::as_ptr(&both.services.table()), before);
}

#[test]
fn services_without_room_are_told() {
    let mut both = Both::new(4096);
    let of = |n: u32| service("shop", &format!("s{n}"), json!({"app": "cart"}));
    (0..100).for_each(|n| both.apply(&of(n)));
    let table = both.services.table();
    assert!(table.is_incomplete && (3..30).contains(&table.len()), "{}", table.len());
    assert!(both.budget.used() <= 4096 && !both.store.wants_list());
    drop(table);
    // One that grows is not known as it was.
    both.apply(&with(of(0), "/spec/selector/app", "x".repeat(4096)));
    assert!(both.services.table().by_name.get("shop/s0").is_none());
    (1..100).for_each(|n| both.delete("shop", &format!("s{n}")));
    assert_eq!(both.budget.used(), 0);
    assert!(both.store.wants_list(), "there is room for others again");
    both.list(&[of(1), of(1)]);
    assert!(!both.services.table().is_incomplete && both.services.table().len() == 1);
    assert!(both.budget.used() <= object(&of(1)).service().unwrap().size());
    let many: Vec<Value> = (0..100).map(of).collect();
    both.list(&many);
    assert!(both.services.table().is_incomplete && both.budget.used() <= 4096);
    // What a list without an end had taken is given back.
    both.store.begin();
    many.iter().for_each(|service| both.store.list(object(service)));
    both.list(&[]);
    assert_eq!(both.budget.used(), 0);
}

/// One change of the services and of a model.
#[derive(Debug, Clone)]
enum Step {
    Apply(Value),
    Delete(String),
    /// Everything is listed again; whether the list is complete.
    List(bool),
}

fn steps(random: &mut fastrand::Rng) -> Vec<Step> {
    let name =
        |random: &mut fastrand::Rng| format!("{}/s{}", ["a", "a-b"][random.usize(..2)], random.u8(..6));
    let step = |random: &mut fastrand::Rng| match random.u8(..10) {
        0 | 1 => Step::Delete(name(random)),
        2 => Step::List(random.bool()),
        _ => {
            let name = name(random);
            let (namespace, name) = name.split_once('/').unwrap();
            let selector = [json!({"l": "0"}), json!({"l": "1"}), json!({"l": "1", "m": "0"}), Value::Null];
            let ips = [json!([]), json!(["10.0.0.1"]), json!(["10.0.0.2", "fd00::1"])];
            let made = service(namespace, name, selector[random.usize(..4)].clone());
            let made = with(made, "/spec/clusterIPs", ips[random.usize(..3)].clone());
            Step::Apply(created(made, random.u8(..3)))
        }
    };
    (0..60).map(|_| step(random)).collect()
}

/// The first of the services of a model for which something holds.
fn best(model: &BTreeMap<String, Value>, holds: impl Fn(&Value) -> bool) -> Option<&str> {
    let found = model.iter().filter(|(_, service)| holds(service));
    let of = |service: &Value| service["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    found.min_by_key(|(key, service)| (of(service), (*key).clone())).map(|(key, _)| &**key)
}

#[test]
fn the_index_is_that_of_the_services_after_any_changes() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut both = Both::new(1 << 20);
        let labels =
            [json!({"l": "0"}), json!({"l": "1"}), json!({"l": "1", "m": "0", "n": "2"}), json!({"m": "0"})];
        for namespace in ["a", "a-b", "c"] {
            for (n, labels) in labels.iter().enumerate() {
                both.pod(namespace, &format!("p{n}"), labels.clone());
            }
        }
        let of_pods = both.budget.used();
        let mut model = BTreeMap::new();
        for step in steps(&mut random) {
            match &step {
                Step::Apply(service) => {
                    both.apply(service);
                    let text = |name: &str| service["metadata"][name].as_str().unwrap();
                    model.insert(format!("{}/{}", text("namespace"), text("name")), service.clone());
                }
                Step::Delete(key) => {
                    let (namespace, name) = key.split_once('/').unwrap();
                    both.delete(namespace, name);
                    model.remove(key);
                }
                Step::List(true) => {
                    model.retain(|_, _| random.u8(..4) > 0);
                    both.list(&model.values().cloned().collect::<Vec<_>>());
                }
                Step::List(false) => {
                    both.store.begin();
                    model.values().for_each(|service| both.store.list(object(service)));
                    both.store.begin();
                    both.store.publish();
                }
            }
            for namespace in ["a", "a-b", "c"] {
                for (n, labels) in labels.iter().enumerate() {
                    let expected = best(&model, |service| {
                        let selector = service["spec"]["selector"].as_object();
                        service["metadata"]["namespace"] == namespace
                            && selector
                                .is_some_and(|all| all.iter().all(|(key, value)| labels[key] == *value))
                    });
                    let found =
                        both.of(&format!("{namespace}/p{n}")).map(|name| format!("{namespace}/{name}"));
                    assert_eq!(found.as_deref(), expected, "seed {seed}, {step:?}, {namespace} {n}");
                }
            }
            for ip in ["10.0.0.1", "10.0.0.2", "fd00::1"] {
                let has =
                    |service: &Value| service["spec"]["clusterIPs"].as_array().unwrap().contains(&json!(ip));
                assert_eq!(both.at(ip).as_deref(), best(&model, has), "seed {seed}, {step:?}, {ip}");
            }
        }
        for key in model.keys() {
            let (namespace, name) = key.split_once('/').unwrap();
            both.delete(namespace, name);
        }
        assert_eq!(both.budget.used(), of_pods, "seed {seed}: every byte is given back");
        let table = both.services.table();
        assert!(table.by_ip.is_empty() && table.namespaces.is_empty() && table.by_name.is_empty());
    }
}
