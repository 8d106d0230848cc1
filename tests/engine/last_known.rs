//! Last answers of a handler whose list has changed.

use std::time::{Duration, Instant};

use mixer_attribute::OwnedAttributes;

use crate::fixture::Served;

/// A denylist in `FILE`.
const LISTED: &str = r#"
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec: {attributes: {s1: {valueType: STRING}}}
---
kind: instance
metadata: {name: entry, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: 's1 | "x"'}}
---
kind: handler
metadata: {name: list, namespace: istio-system, annotations: {mixer.dev/on-error: lastKnown}}
spec: {compiledAdapter: listchecker, params: {providerFile: FILE, blacklist: true, refreshInterval: 1s, ttl: 1s}}
---
kind: rule
metadata: {name: ask, namespace: istio-system}
spec: {actions: [{handler: list, instances: [entry]}]}
"#;

/// What a list has withdrawn does not come back when the list is dropped.
#[test]
fn a_last_answer_of_an_earlier_list_is_not_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("list");
    let put = |text: &str| {
        let beside = directory.path().join("new");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(&beside, &path).unwrap();
    };
    put("mallory\n");
    let served = Served::start(&LISTED.replace("FILE", path.to_str().unwrap()), None);
    let service = served.service();
    let ask = |name: &str| {
        let mut attributes = OwnedAttributes::new();
        attributes.insert("s1", name);
        let answer = served.check(&service, &attributes).precondition.unwrap();
        (answer.status.unwrap().code, answer.valid_use_count > 0)
    };
    let until = |what: &str, is_true: &dyn Fn() -> bool| {
        let give_up = Instant::now() + Duration::from_secs(120);
        while !is_true() {
            assert!(Instant::now() < give_up, "{what}");
            served.run_tasks(Duration::from_millis(20));
        }
    };
    assert_eq!(["mallory", "bob", "eve"].map(&ask), [(7, true), (0, true), (0, true)]);
    put("mallory\nbob\neve\n");
    until("the list is read", &|| ask("eve") == (7, true));
    assert_eq!(ask("ann"), (0, true));
    std::fs::remove_file(&path).unwrap();
    until("the list is dropped", &|| ask("eve") == (7, false));
    assert_eq!(ask("ann"), (0, false), "the answer of the latest list is repeated");
    assert_eq!(ask("bob"), (7, false), "that of the list before it is not");
    // The same list again is the same version.
    put("mallory\nbob\neve\n");
    until("the list is read again", &|| ask("eve") == (7, true));
    std::fs::remove_file(&path).unwrap();
    until("the list is dropped again", &|| ask("eve") == (7, false));
    assert_eq!(ask("ann"), (0, false));
}
