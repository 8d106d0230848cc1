//! Tests of the index of pods.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

fn object(value: &Value) -> PodObject {
    serde_json::from_value(value.clone()).unwrap()
}

fn pod(name: &str, ip: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "shop", "name": name, "labels": {"app": "cart"}, "creationTimestamp": "2026-01-02T03:04:05Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-7f6", "controller": true}],
            "annotations": {"skipped": "yes"},
        },
        "spec": {"serviceAccountName": "cart", "containers": [
            {"name": "main", "ports": [{"containerPort": 80}, {"containerPort": 70000}]},
            {"name": "side", "ports": [{"containerPort": 80}, {"containerPort": 9090}]},
        ]},
        "status": {"phase": "Running", "podIP": ip, "hostIP": "192.168.7.2"},
    })
}

fn with(mut pod: Value, pointer: &str, value: impl Into<Value>) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    pod.pointer_mut(parent).unwrap()[name] = value.into();
    pod
}

fn name_at(pods: &Pods, ip: &str) -> Option<String> {
    pods.index().by_ip(ip.parse().unwrap()).map(|pod| pod.name().to_owned())
}

#[test]
fn a_pod_keeps_what_is_used() {
    let (pods, mut store) = PodStore::of(1 << 20);
    store.apply(object(&pod("cart-1", "10.0.0.1")));
    assert!(pods.index().is_empty(), "it is not published");
    store.publish();
    let index = pods.index();
    let kept = index.by_name("shop/cart-1").unwrap();
    assert_eq!((kept.namespace(), kept.name()), ("shop", "cart-1"));
    assert_eq!(kept.ip(), "10.0.0.1".parse().ok());
    assert_eq!(kept.host_ip(), "192.168.7.2".parse().ok());
    assert_eq!(kept.common.owner.as_ref().map(|owner| &*owner.name), Some("cart-7f6"));
    let containers = [80, 9090, 70000, 0, -1].map(|port| kept.container(port).map(|name| &**name));
    assert_eq!(containers, [Some("main"), Some("side"), None, None, None]);
    assert!(index.by_name("shop/cart-2").is_none() && index.by_ip("10.0.0.2".parse().unwrap()).is_none());
}

#[test]
fn an_empty_pod_has_nothing() {
    let (pods, mut store) = PodStore::of(1 << 20);
    let empty = json!({"metadata": {"name": "x", "namespace": "n", "labels": null, "creationTimestamp": null}, "status": {"podIP": "?"}});
    store.apply(object(&empty));
    store.publish();
    let index = pods.index();
    let kept = index.by_name("n/x").unwrap();
    assert_eq!((kept.ip(), kept.host_ip(), kept.container(0)), (None, None, None));
    assert!(kept.common.labels.is_empty() && kept.common.owner.is_none() && kept.common.self_link.is_none());
}

#[test]
fn the_pod_of_an_address_is_the_one_that_runs_in_its_own_network_and_is_the_newest() {
    let (pods, mut store) = PodStore::of(1 << 20);
    let ip = "10.0.0.1";
    let finished = with(pod("finished", ip), "/status/phase", "Succeeded");
    let on_host = with(pod("on-host", ip), "/spec/hostNetwork", true);
    let newer = with(pod("newer", ip), "/metadata/creationTimestamp", "2026-01-02T03:04:06Z");
    let later = with(pod("finished-later", ip), "/metadata/creationTimestamp", "2030-01-01T00:00:00Z");
    let later = with(later, "/status/phase", "Failed");
    let mut expected = Vec::new();
    for (object_, best) in [
        (finished, "finished"),
        (later, "finished-later"),
        (on_host, "on-host"),
        (pod("b", ip), "b"),
        (pod("a", ip), "a"),
        (newer, "newer"),
    ] {
        store.apply(object(&object_));
        store.publish();
        assert_eq!(name_at(&pods, ip).as_deref(), Some(best));
        expected.push((object_, best));
    }
    while let Some((gone, _)) = expected.pop() {
        store.delete(object(&gone));
        store.publish();
        assert_eq!(name_at(&pods, ip).as_deref(), expected.last().map(|(_, best)| *best));
    }
    // An address without a pod is not that of its neighbour.
    store.apply(object(&pod("a", "10.0.0.3")));
    store.publish();
    assert_eq!((name_at(&pods, "10.0.0.2"), name_at(&pods, "10.0.0.4")), (None, None));
}

#[test]
fn a_pod_has_all_its_addresses() {
    let (pods, mut store) = PodStore::of(1 << 20);
    let of = |ips: Value| object(&with(pod("a", "10.0.0.1"), "/status/podIPs", ips));
    let both = json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]);
    for (ips, found) in [
        (both.clone(), [true, true, false]),
        (json!([{"ip": "10.0.0.1"}, {"ip": "fd00::2"}, {"ip": "?"}, {}]), [true, false, true]),
        (json!(null), [true, false, false]),
        (json!([]), [true, false, false]),
        (json!([{"ip": "fd00::1"}, {"ip": "fd00::1"}]), [true, true, false]),
    ] {
        store.apply(of(ips.clone()));
        store.publish();
        let names = ["10.0.0.1", "fd00::1", "fd00::2"].map(|ip| name_at(&pods, ip).is_some());
        assert_eq!(names, found, "{ips}");
        assert_eq!(pods.index().by_name("shop/a").unwrap().ip(), "10.0.0.1".parse().ok(), "{ips}");
    }
    // Without the old field, the first of the list is its address.
    store.apply(object(&with(
        pod("b", ""),
        "/status/podIPs",
        json!([{"ip": "fd00::7"}, {"ip": "10.0.0.7"}]),
    )));
    store.publish();
    assert_eq!(pods.index().by_name("shop/b").unwrap().ip(), "fd00::7".parse().ok());
    assert_eq!(name_at(&pods, "10.0.0.7").as_deref(), Some("b"));
    for name in ["a", "b"] {
        store.delete(object(&pod(name, "")));
    }
    store.publish();
    assert!(["10.0.0.1", "fd00::1", "fd00::7", "10.0.0.7"].iter().all(|ip| name_at(&pods, ip).is_none()));
}

#[test]
fn pods_of_a_workload_share_what_they_have_in_common() {
    let (pods, mut store) = PodStore::of(1 << 20);
    for (name, ip) in [("cart-1", "10.0.0.1"), ("cart-2", "10.0.0.2")] {
        store.apply(object(&pod(name, ip)));
    }
    store.publish();
    let index = pods.index();
    let common = |key: &str| Arc::clone(&index.by_name(key).unwrap().common);
    assert!(Arc::ptr_eq(&common("shop/cart-1"), &common("shop/cart-2")));
}

#[test]
fn what_is_not_seen_changes_nothing() {
    let answers = Arc::<AnswerEpoch>::default();
    let pods = Arc::<Pods>::default();
    let mut store = PodStore::new(&pods, &Arc::new(Budget::of(1 << 20)), &answers);
    store.begin();
    store.list(object(&pod("a", "10.0.0.1")));
    store.complete();
    store.publish();
    let before = Arc::as_ptr(&pods.index());
    store.apply(object(&with(pod("a", "10.0.0.1"), "/metadata/resourceVersion", "99")));
    store.delete(object(&pod("z", "")));
    store.publish();
    store.begin();
    store.list(object(&pod("a", "10.0.0.1")));
    store.complete();
    store.publish();
    assert_eq!(Arc::as_ptr(&pods.index()), before, "cached answers go on");
    store.apply(object(&with(pod("a", "10.0.0.1"), "/metadata/labels", json!({"app": "other"}))));
    store.publish();
    assert_ne!(Arc::as_ptr(&pods.index()), before);
}

#[test]
fn pods_without_room_are_told() {
    let (pods, mut store) = PodStore::of(4096);
    for n in 0..100 {
        store.apply(object(&pod(&format!("cart-{n}"), &format!("10.0.0.{n}"))));
    }
    store.publish();
    let index = pods.index();
    assert!(index.is_incomplete && (3..50).contains(&index.len()), "{}", index.len());
    assert!(store.bytes() < 8192 && !store.wants_list());
    (3..100).for_each(|n| store.delete(object(&pod(&format!("cart-{n}"), ""))));
    store.publish();
    assert!(store.wants_list(), "there is room for others again");
    // A list in which all have room mends it.
    store.begin();
    store.list(object(&pod("cart-1", "10.0.0.1")));
    store.complete();
    store.publish();
    assert!(!pods.index().is_incomplete && pods.index().len() == 1);
}

/// Whoever makes pods chooses how long their labels are.
#[test]
fn what_pods_without_room_would_share_is_bounded() {
    let most = 1 << 20;
    let labelled = |n: u8| {
        let label = n.to_string().repeat(50_000);
        object(&with(pod(&format!("p{n}"), "10.0.0.1"), "/metadata/labels", json!({"l": label})))
    };
    let (pods, mut store) = PodStore::of(most);
    store.begin();
    (0..200).for_each(|n| {
        store.list(labelled(n));
        assert!(store.bytes() < most + MAX_REFUSED + (400 << 10), "{n}: {}", store.bytes());
    });
    store.complete();
    store.publish();
    assert!(pods.index().is_incomplete && !pods.index().is_empty());
    for n in 0..200 {
        store.apply(labelled(n));
        assert!(store.bytes() < most + MAX_REFUSED + (400 << 10), "{n}: {}", store.bytes());
    }
}

/// One change of a store and of a model.
#[derive(Debug, Clone)]
enum Step {
    Apply(Value),
    Delete(String),
    /// Everything is listed again; whether the list is complete.
    List(bool),
}

fn steps(random: &mut fastrand::Rng) -> Vec<Step> {
    let name = |random: &mut fastrand::Rng| format!("p{}", random.u8(..12));
    let step = |random: &mut fastrand::Rng| match random.u8(..10) {
        0 | 1 => Step::Delete(name(random)),
        2 => Step::List(random.bool()),
        _ => {
            let ips = ["", "10.0.0.1", "10.0.0.2", "fd00::1"];
            let made = pod(&name(random), ips[random.usize(..ips.len())]);
            let others = (0..random.usize(..3)).map(|_| json!({"ip": ips[random.usize(..ips.len())]}));
            let made = with(made, "/status/podIPs", others.collect::<Vec<_>>());
            let made = with(made, "/status/phase", ["Running", "Failed"][random.usize(..2)]);
            let made = with(made, "/spec/hostNetwork", random.bool());
            let made = with(made, "/metadata/labels", json!({"l": random.u8(..3).to_string()}));
            let second = random.u8(..3);
            Step::Apply(with(made, "/metadata/creationTimestamp", format!("2026-01-01T00:00:0{second}Z")))
        }
    };
    (0..60).map(|_| step(random)).collect()
}

/// The pod of an address, by its definition.
fn best<'m>(model: &'m BTreeMap<String, Value>, ip: &str) -> Option<&'m str> {
    let of = |pod: &Value| {
        let created = pod["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
        let rank = (pod["status"]["phase"] != "Running", pod["spec"]["hostNetwork"] == true);
        (rank, std::cmp::Reverse(created))
    };
    let has = |pod: &Value| {
        let others = pod["status"]["podIPs"].as_array();
        pod["status"]["podIP"] == ip || others.is_some_and(|others| others.iter().any(|of| of["ip"] == ip))
    };
    let with_ip = model.iter().filter(|(_, pod)| has(pod));
    with_ip.min_by_key(|(name, pod)| (of(pod), (*name).clone())).map(|(name, _)| &**name)
}

#[test]
fn the_index_is_that_of_the_pods_after_any_changes() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (pods, mut store) = PodStore::of(1 << 20);
        let mut model = BTreeMap::new();
        for step in steps(&mut random) {
            match &step {
                Step::Apply(pod) => {
                    store.apply(object(pod));
                    model.insert(pod["metadata"]["name"].as_str().unwrap().to_owned(), pod.clone());
                }
                Step::Delete(name) => {
                    store.delete(object(&pod(name, "")));
                    model.remove(name);
                }
                Step::List(is_complete) => {
                    store.begin();
                    model.retain(|_, _| !*is_complete || random.u8(..4) > 0);
                    model.values().for_each(|pod| store.list(object(pod)));
                    if *is_complete {
                        store.complete();
                    } else {
                        store.begin();
                    }
                }
            }
            store.publish();
            let index = pods.index();
            assert_eq!(index.len(), model.len(), "seed {seed}, {step:?}");
            for ip in ["10.0.0.1", "10.0.0.2", "fd00::1"] {
                let found = index.by_ip(ip.parse().unwrap()).map(|pod| pod.name());
                assert_eq!(found, best(&model, ip), "seed {seed}, {step:?}, {ip}");
            }
        }
        let sizes: usize = pods.index().by_name.iter().map(|pod| pod.size()).sum();
        let commons = store.bytes() - sizes;
        for name in model.keys() {
            store.delete(object(&pod(name, "")));
        }
        assert_eq!(store.bytes(), commons, "seed {seed}: every byte of a pod is given back");
    }
}
