//! Explanations say what the server answers, and are bounded.

use crate::stage::Stage;
use crate::support::{DEADLINE, Server, http, put, run_mixer, wait_for};

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
    let refused = page.contains("<strong>Refused</strong> by rule <a ")
        && page.contains("strict.rule.istio-system</a> with code 7: mixer:condition of rule");
    assert!(refused, "{page}");
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

const COUNTED: &str = "\
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: counted, namespace: istio-system}
spec: {compiledAdapter: denier}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: counted-nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: counted, namespace: istio-system}
spec:
  match: source.name == \"counted\"
  actions: [{handler: counted, instances: [counted-nothing]}]
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata:
  name: counted-trial
  namespace: istio-system
  annotations: {mixer.dev/dry-run: \"true\"}
spec:
  match: source.name == \"counted\"
  actions: [{handler: counted, instances: [counted-nothing]}]
";

/// `check --explain` asks twice: the answer is counted, and what it is explained with is not.
#[test]
fn explanations_count_nothing() {
    let stage = Stage::new(&[]);
    put(&stage.configuration.path().join("rules.yaml"), COUNTED);
    let url = stage.url("/explainz/");
    let page = wait_for(DEADLINE, || {
        let page = explain(&url, "counted");
        page.contains("counted.rule.istio-system").then_some(page)
    });
    assert!(page.is_some_and(|page| page.contains("Refused")), "the rules serve");
    let counts = || {
        let page = http("GET", &stage.server.monitoring_url("/metrics"), "").unwrap().body;
        let families = [
            "mixer_rule_hits_total{",
            "mixer_rule_denials_total{",
            "mixer_runtime_dispatches_total{",
            "mixer_dry_run_outcomes_total{",
        ];
        families.map(|family| {
            let of = page.lines().filter(|line| line.starts_with(family) && line.contains("counted"));
            of.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>()
        })
    };
    assert_eq!(counts(), [0.0; 4], "explained only");
    let flags = ["check", "--server", &stage.server.address(), "--explain", "-s", "source.name=counted"];
    let checked = run_mixer(&flags);
    assert!(checked.stdout.contains("counted.rule.istio-system"), "{checked:?}");
    assert_eq!(counts(), [1.0; 4], "once for the answer");
    // What is not enforced is nowhere shown as if it were.
    let page = |path: &str| http("GET", &stage.url(path), "").unwrap().body;
    let explained = explain(&url, "counted");
    assert_eq!(explained.matches("dry run, not enforced").count(), 1, "{explained}");
    assert_eq!(explained.matches("would return: ").count(), 1, "{explained}");
    let rules: Vec<serde_json::Value> = serde_json::from_str(&page("/rulej/")).unwrap();
    let of =
        |name: &str| rules.iter().find(|rule| rule["name"] == format!("{name}.rule.istio-system")).unwrap();
    let tried = of("counted-trial");
    assert!(tried["dryRun"]["denied"] == 1 && tried["counts"].is_null(), "{tried}");
    let enforced = of("counted");
    assert!(enforced["counts"]["denials"] == 1 && enforced.get("dryRun").is_none(), "{enforced}");
    assert!(page("/rulez/").contains("would have denied 1"), "{}", page("/rulez/"));
    let resource = page("/configz/resource?name=counted-trial.rule.istio-system");
    assert!(resource.contains("In dry run: would have denied 1"), "{resource}");
    let routes = page("/routesz/?q=counted-trial");
    assert!(routes.contains(">dry run<"), "{routes}");
}

/// What has no room on the page is found by the filter, and what has a problem has room.
#[test]
fn all_handlers_are_told() {
    let stage = Stage::new(&[]);
    let mut text = "apiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {name: many, namespace: istio-system}\n\
                    spec: {compiledTemplate: checknothing}\n"
        .to_owned();
    for n in 0..230 {
        text += &format!(
            "---\napiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {{name: many-{n:03}, namespace: istio-system}}\n\
             spec: {{compiledAdapter: denier}}\n---\napiVersion: config.istio.io/v1alpha2\nkind: rule\n\
             metadata: {{name: many-{n:03}, namespace: istio-system}}\n\
             spec: {{match: 'source.name == \"nobody\"', actions: [{{handler: many-{n:03}, instances: [many]}}]}}\n"
        );
    }
    put(&stage.configuration.path().join("many.yaml"), &text);
    let page = |path: &str| http("GET", &stage.url(path), "").unwrap().body;
    let all = || {
        let found: Vec<serde_json::Value> = serde_json::from_str(&page("/handlerj/")).ok()?;
        (found.len() >= 230).then_some(found.len())
    };
    let count = wait_for(DEADLINE, all).expect("all of them are told");
    let shown = page("/handlerz/");
    assert!(shown.contains(&format!("The first 200 of {count};")), "{shown}");
    let found = page("/handlerz/?q=many-229");
    assert!(
        found.contains("many-229.handler.istio-system") && !found.contains("No handler matches"),
        "{found}"
    );
}

/// A rule that refuses `stolen` keys, which are masked in records.
const KEYED: &str = "---
kind: rule
metadata: {name: a-key, namespace: istio-system}
spec:
  match: (request.headers[\"x-api-key\"] | \"\") == \"stolen\"
  actions: [{handler: gate, instances: [knock]}]
";
const OTHER: &str = "kind: handler
metadata: {name: gate, namespace: istio-system}
spec: {compiledAdapter: denier}
---
kind: instance
metadata: {name: knock, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
kind: rule
metadata: {name: close, namespace: istio-system}
spec:
  match: (source.user | \"\") == \"smuggler\"
  actions: [{handler: gate, instances: [knock]}]
";

/// The rule that refused is not that which refuses what is left of the request.
#[test]
fn an_explanation_that_another_rule_refuses_than_the_record_names_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rules.yaml");
    put(&file, &format!("{OTHER}{KEYED}"));
    let server = Server::on(directory.path()).native().start();
    let (address, controlz) = (server.address(), format!("http://127.0.0.1:{}", server.ports.ctrlz));
    let checked = run_mixer(&[
        "check",
        "-m",
        &address,
        "-s",
        "source.user=smuggler",
        "--stringmap-attributes",
        "request.headers=x-api-key:stolen",
    ]);
    assert_eq!(checked.status, 1, "{checked:?}");
    let denials = http("GET", &format!("{controlz}/denialj/"), "").unwrap().body;
    assert!(denials.contains("\"by\": \"a-key.rule.istio-system\""), "{denials}");
    let explained = |key: &str| {
        let lines = format!("request.headers%5Bx-api-key%5D%20%3D%20{key}%0Asource.user%20%3D%20smuggler");
        let url = format!("{controlz}/explainz/");
        http("POST", &url, &format!("denial=1&attributes={lines}")).unwrap().body
    };
    let recorded = "The record names rule <code>a-key.rule.istio-system</code>";
    let page = explained("***");
    assert!(page.contains(">close.rule.istio-system</a>: "), "{page}");
    let masked = "<code>request.headers[x-api-key]</code> is masked in the record";
    assert!(page.contains(recorded) && page.contains(masked), "{page}");
    let page = explained("stolen");
    assert!(page.contains(">a-key.rule.istio-system</a>: ") && !page.contains("The record names"), "{page}");
    // As if somebody had mended it.
    put(&file, OTHER);
    let changed = wait_for(DEADLINE, || {
        let page = explained("stolen");
        (page.contains(recorded) && page.contains("The configuration has changed since")).then_some(())
    });
    assert!(changed.is_some(), "{}", explained("stolen"));
}
