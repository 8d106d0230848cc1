//! Explanations say what the server answers, and are bounded.

use crate::stage::Stage;
use crate::support::{DEADLINE, http, put, wait_for};

/// A rule that refuses when its condition fails, and one whose handler never answers.
const RULES: &str = "
kind: handler
metadata: {name: silent, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: HANG}}
---
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
kind: rule
metadata: {name: strict, namespace: istio-system, annotations: {mixer.dev/on-error: deny}}
spec:
  match: source.name == \"strict\" && source.uid == \"x\"
  actions: [{handler: silent, instances: [nothing]}]
---
kind: rule
metadata: {name: hanging, namespace: istio-system}
spec:
  match: source.name == \"hanging\"
  actions: [{handler: silent, instances: [nothing]}]
";

/// What is said while as many explanations as may wait for handlers.
const FULL: &str = "explanations wait for their handlers";

fn explain(url: &str, name: &str) -> String {
    let answer = http("POST", url, &format!("attributes=source.name%3D{name}")).unwrap();
    assert_eq!(answer.status, 200);
    answer.body
}

#[test]
fn an_explanation_says_what_the_server_answers_and_waits_for_handlers_within_bounds() {
    let stage = Stage::new(&[]);
    put(&stage.configuration.path().join("rules.yaml"), RULES);
    let url = stage.url("/explainz/");
    let page = wait_for(DEADLINE, || {
        let page = explain(&url, "strict");
        page.contains("strict.rule.istio-system").then_some(page)
    });
    let page = page.expect("the rules serve");
    assert!(page.contains("<strong>Refused</strong> with code 7: mixer:condition of rule"), "{page}");
    assert!(page.contains("Could not be evaluated, which refuses the request"), "{page}");
    assert!(!page.contains("<strong>Allowed</strong>"), "{page}");

    // Four wait until the handlers are given up; one more is turned away meanwhile.
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let url = url.clone();
            std::thread::spawn(move || {
                loop {
                    let page = explain(&url, "hanging");
                    if !page.contains(FULL) {
                        return page;
                    }
                }
            })
        })
        .collect();
    let turned_away = wait_for(DEADLINE, || explain(&url, "strict").contains(FULL).then_some(()));
    assert!(turned_away.is_some());
    for page in waiting {
        let page = page.join().unwrap();
        assert!(page.contains("did not answer before the deadline of the call"), "{page}");
    }
    assert!(explain(&url, "strict").contains("with code 7"), "the permits are free again");
}
