#![cfg(feature = "adapter-opa")]

use std::sync::Arc;
use std::time::Duration;

use super::rego::wrong_calls;
use super::*;
use crate::AdapterOptions;
use crate::testing::{instance, problems, test_env};
use mixer_attribute::{Value, ValueType};
use mixer_base::metrics::Family;
use mixer_engine::adapter::{CheckResult, HandlerError, Leaf, Reply};
use mixer_engine::template;

mod data;
mod load;
mod memory;
mod names;
mod policies;

/// An instance with user, method, path and a property `size`.
fn bound() -> BoundInstance {
    let leaf = |field, key: Option<&str>| Leaf::new(field, key, ValueType::String);
    BoundInstance {
        name: "a.instance.istio-system".into(),
        template: template::find("authorization").unwrap(),
        leaves: Arc::new([
            leaf("subject.user", None),
            leaf("action.method", None),
            leaf("action.path", None),
            leaf("action.properties", Some("size")),
        ]),
        messages: vec!["subject".into(), "action".into()],
        plan: None,
        read_outputs: Arc::default(),
    }
}

fn params_of(policy: &str) -> Params {
    params(policy)
}

fn params(policy: &str) -> Params {
    Params {
        policy: vec![policy.to_owned()],
        check_method: "data.gate.open".to_owned(),
        // However busy the machine is.
        evaluation_timeout: MAX_TIMEOUT,
        ..Params::default()
    }
}

async fn built(params: Params) -> Result<Box<dyn Handler>, BuildError> {
    Opa::build(params, vec![bound()], test_env("h.istio-system")).await
}

fn reply(handler: &dyn Handler, values: [&str; 3]) -> Reply<CheckResult> {
    let [user, method, path] = values.map(|text| Some(Value::String(text.as_bytes())));
    let values = [user, method, path, Some(Value::Int64(7))];
    handler.as_check().unwrap().check(&instance("a.instance.istio-system", &values))
}

async fn check(handler: &dyn Handler, values: [&str; 3]) -> Result<CheckResult, HandlerError> {
    match reply(handler, values) {
        Reply::Ready(answer) => answer,
        Reply::Later(answer) => answer.await,
    }
}

/// The answers to a `GET` and a `PUT`.
async fn answers(params: Params) -> [Result<(i32, String), String>; 2] {
    let handler = built(params).await.unwrap();
    let answer = async |method| {
        let answer = check(&*handler, ["ann", method, "/"]).await;
        answer.map(|ok| (ok.status.code, ok.status.message)).map_err(|error| error.message)
    };
    [answer("GET").await, answer("PUT").await]
}

fn allowed() -> Result<(i32, String), String> {
    Ok((0, String::new()))
}

fn denied() -> Result<(i32, String), String> {
    Ok((7, "opa: request was rejected".to_owned()))
}

const V0: &str = "package gate\ndefault open = false\nopen { input.action.method == \"GET\" }\n";
const V1: &str = "package gate\ndefault open := false\nopen if input.action.method == \"GET\"\n";

#[tokio::test]
async fn both_dialects_are_evaluated() {
    for policy in [V0, V1] {
        assert_eq!(problems::<Opa>(&params(policy)), Vec::<String>::new(), "{policy}");
        assert_eq!(answers(params(policy)).await, [allowed(), denied()], "{policy}");
    }
}

#[tokio::test]
async fn a_module_in_both_dialects_is_refused() {
    // In v0 the engine takes `open` for a rule that always holds.
    let mixed =
        "package gate\ndefault open = false\nopen if { input.action.method == \"GET\" }\nother { input.x }\n";
    for mixed in [mixed, "package gate\nopen { true }\nmessages contains m { m := \"x\" }\n"] {
        let found = problems::<Opa>(&params(mixed));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("Policy: opa_policy.0:"), "{found:?}");
        assert!(matches!(built(params(mixed)).await, Err(BuildError::Invalid(_))));
    }
    // The keywords may be imported, and `contains` is a function of v0.
    let imported = "package gate\nimport future.keywords\ndefault open = false\nopen if { contains(input.action.method, \"GE\") }\nold { input.x }\n";
    for policy in [imported, &imported.replace("import future.keywords\n", "").replace(" if", "")] {
        assert_eq!(problems::<Opa>(&params(policy)), Vec::<String>::new(), "{policy}");
        assert_eq!(answers(params(policy)).await, [allowed(), denied()], "{policy}");
    }
}

/// The query is true for what is allowed: the name of the rule says whether that is so.
#[test]
fn a_query_for_what_is_refused_is_told() {
    for (query, expected) in [
        ("data.gate.deny", true),
        ("data.gate.Violations", true),
        ("data.gate.blocked", true),
        ("data.gate.allow", false),
        ("data.deny.allow", false),
        ("data.gate.denylist", false),
    ] {
        let params = Params { check_method: query.into(), ..params("") };
        let found = refusing_query(&params).map(|problem| problem.code);
        assert_eq!(found, expected.then_some("opa-query"), "{query}");
    }
    let name = "deny";
    let policy = "package gate\ndefault deny = false\ndeny { input.subject.user == \"eve\" }\n";
    let params = Params { check_method: format!("data.gate.{name}"), ..params(policy) };
    let mut problems = Diagnostics::new();
    Opa::validate(&params, &[bound()], &mut problems);
    assert!(problems.iter().any(|problem| problem.code == "opa-query"), "{problems:?}");
}

#[test]
fn problems_table() {
    let compiles = "package gate\ndefault open = false\nopen { input.a }\n";
    let rows: [(&str, Params, &[&str]); 14] = [
        ("nothing wrong", params(compiles), &[]),
        (
            "nothing given",
            Params::default(),
            &["CheckMethod: check method is not configured", "Policy: policies are not configured"],
        ),
        ("no module", Params { policy: vec![], ..params("") }, &["Policy: policies are not configured"]),
        ("no rule", params("package gate\nopen = {{{\n"), &["Policy: opa_policy.0:3:1: "]),
        (
            "an unsafe variable",
            params("package gate\nopen = true { x }\n"),
            &["Policy: opa_policy.0:2:15: use of undefined variable `x` is unsafe"],
        ),
        (
            "an unknown function",
            params("package gate\nopen { startwith(input.a, \"b\") }\n"),
            &["Policy: opa_policy.0:2:8: undefined function startwith"],
        ),
        (
            "the network",
            params("package gate\nopen { http.send({\"url\": \"http://x\"}).status == 200 }\n"),
            &["Policy: opa_policy.0:2:8: undefined function http.send"],
        ),
        (
            "a function that calls itself",
            params("package gate\nopen { f(1) }\nf(x) { g(x) }\ng(x) { f(x) }\n"),
            &["Policy: opa_policy.0:3:1: recursion: data.gate.f, which calls data.gate.g calls itself"],
        ),
        ("a rule that needs itself", params("package gate\nopen { other }\nother { open }\n"), &["Policy: "]),
        (
            "an unknown rule",
            Params { check_method: "data.gate.opne".into(), ..params(compiles) },
            &["CheckMethod: the policy has no rule data.gate.opne"],
        ),
        (
            "a rule without the root of its name",
            Params { check_method: "gate.open".into(), ..params(compiles) },
            &["CheckMethod: gate.open names nothing: the name of a rule begins with `data.` and its package"],
        ),
        (
            "a query that does not parse",
            Params { check_method: "data.gate.open(".into(), ..params(compiles) },
            &["CheckMethod: checkMethod:"],
        ),
        (
            "a relative file, and no time",
            Params {
                data_files: vec!["roles.json".into()],
                evaluation_timeout: SignedDuration::ZERO,
                ..params(compiles)
            },
            &[
                "dataFiles: an absolute path or file:///path is needed, it is roles.json",
                "evaluationTimeout: must be above 0 and at most 10s, it is 0s",
            ],
        ),
        (
            "a format of any width",
            params("package gate\nopen { sprintf(input.f, [1]) == \"a\" }\n"),
            &[
                "Policy: opa_policy.0:2:8: the format of sprintf must be a literal, with widths of at most 1000 characters",
            ],
        ),
    ];
    for query in ["gate.open", "open", "x.open", "gaet.open"] {
        let mut found = Diagnostics::new();
        Opa::validate(&Params { check_method: query.into(), ..params(compiles) }, &[], &mut found);
        let hints: Vec<&str> = found.iter().filter_map(|problem| problem.hint.as_deref()).collect();
        assert!(hints.iter().any(|hint| hint.contains("`data.gate.open`")), "{query}: {hints:?}");
    }
    for (name, params, wanted) in rows {
        let mut found = Diagnostics::new();
        Opa::validate(&params, &[], &mut found);
        let errors = found.into_iter().filter(|p| p.severity == mixer_config::Severity::Error);
        let found: Vec<String> = errors.map(|p| p.message.clone()).collect();
        assert_eq!(found.len(), wanted.len(), "{name}: {found:?}");
        for (found, wanted) in found.iter().zip(wanted) {
            assert!(found.starts_with(wanted), "{name}: {found}");
        }
    }
}

#[tokio::test]
async fn what_is_not_decided_allows_nothing() {
    let undefined = params("package gate\nopen { input.action.method == \"GET\" }\n");
    let conflict =
        params("package gate\nopen = true { true }\nopen = false { input.subject.user == \"ann\" }\n");
    let text = params("package gate\nopen = \"yes\" { true }\n");
    let rows = Params {
        check_method: "data.gate.hits[x]".into(),
        ..params("package gate\nhits[x] { x = [1, 2][_] }\n")
    };
    let undecided = |what: &str| format!("opa: the policy does not decide: {what}");
    let cases = [
        (undefined, undecided("data.gate.open is undefined")),
        (text, undecided("data.gate.open is neither true nor false")),
        (rows, undecided("data.gate.hits[x] has several results")),
    ];
    for (params, wanted) in cases {
        assert_eq!(answers(params.clone()).await[1], Err(wanted));
        let closed = Params { fail_close: true, ..params };
        assert_eq!(answers(closed).await[1], denied());
    }
    let [failed, _] = answers(conflict.clone()).await;
    assert!(failed.as_ref().is_err_and(|text| text.starts_with("opa: opa_policy.0:")), "{failed:?}");
    let [failed, _] = answers(Params { fail_close: true, ..conflict.clone() }).await;
    let prefix = "opa: request was rejected. err: opa_policy.0:";
    assert!(failed.as_ref().is_ok_and(|(code, text)| *code == 7 && text.starts_with(prefix)), "{failed:?}");
}

#[tokio::test]
async fn as_istio_mixer_what_is_not_decided_is_allowed() {
    let as_istio = async |params: Params| {
        let env = test_env("h.istio-system");
        env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
        Opa::build(params, vec![bound()], env).await
    };
    let undefined = params("package gate\nopen { input.action.method == \"GET\" }\n");
    let handler = as_istio(undefined).await.unwrap();
    assert_eq!(check(&*handler, ["", "PUT", "/"]).await, Ok(CheckResult::default()));
    let timeout = SignedDuration::from_nanos(20_000_000);
    let slow = as_istio(Params { evaluation_timeout: timeout, ..params(ENDLESS) }).await.unwrap();
    let late = HandlerError::of_request("opa: the evaluation takes longer than 20ms");
    assert_eq!(check(&*slow, ["", "GET", "/"]).await, Err(late));
    // A policy that does not compile: its handler is not built, or denies everything.
    let broken = params("package gate\nopen = {{{\n");
    assert!(as_istio(broken.clone()).await.is_err());
    let broken = Params { fail_close: true, ..broken };
    assert!(built(broken.clone()).await.is_err());
    let handler = as_istio(broken).await.unwrap();
    assert_eq!(check(&*handler, ["", "GET", "/"]).await.unwrap().status.code, 7);
    assert!(handler.degradation().is_some());
}

/// A policy that takes as long as there is time.
const ENDLESS: &str = "package gate
default open = false
n := numbers.range(1, 3000)
open { count([1 | n[_] * n[_] * n[_] == 17]) > 1000000 }
open { input.action.method == \"HEAD\" }
";

#[tokio::test]
async fn an_evaluation_that_takes_too_long_allows_nothing_and_frees_its_thread() {
    for fail_close in [false, true] {
        let timeout = SignedDuration::from_nanos(20_000_000);
        let params = Params { fail_close, evaluation_timeout: timeout, ..params(ENDLESS) };
        let handler = built(params).await.unwrap();
        // The call itself gives its thread back: the rest is done elsewhere.
        let Reply::Later(answer) = reply(&*handler, ["", "GET", "/"]) else {
            panic!("evaluated on this thread")
        };
        match answer.await {
            // No failure that `errorMode: open` allows: those who call choose how long it takes.
            Err(error) if !fail_close => {
                assert_eq!(error, HandlerError::of_request("opa: the evaluation takes longer than 20ms"));
            }
            Ok(result) if fail_close => assert_eq!(
                result.status.message,
                "opa: request was rejected. err: the evaluation takes longer than 20ms"
            ),
            other => panic!("{other:?}"),
        }
        assert!(handler.callers_choose_duration(), "neither is the deadline of a call");
        // The next does not begin here.
        assert!(matches!(reply(&*handler, ["", "GET", "/"]), Reply::Later(_)));
    }
}

#[tokio::test]
async fn an_evaluation_that_takes_long_is_finished_on_another_thread() {
    let slow = "package gate
default open = false
open { input.action.method == \"SLOW\"; count([1 | n := numbers.range(1, 300); n[_] * n[_] == 17]) >= 0 }
";
    let handler = built(params(slow)).await.unwrap();
    let Reply::Later(answer) = reply(&*handler, ["", "SLOW", "/"]) else {
        panic!("evaluated on this thread")
    };
    assert_eq!(answer.await, Ok(CheckResult::default()));
}

#[test]
fn deep_policies_fit_a_small_stack_or_are_refused() {
    let chain = |rules: usize| {
        let rules: String = (0..rules).map(|i| format!("r{i} {{ r{} }}\n", i + 1)).collect();
        let last = rules.lines().count();
        params(&format!(
            "package gate\ndefault open = false\nopen {{ r0 }}\n{rules}r{last} {{ input.action.method == \"GET\" }}\n"
        ))
    };
    let sum = |terms: usize| {
        let sum = vec!["1"; terms].join(" + ");
        params(&format!(
            "package gate\ndefault open = false\nopen {{ {sum} == {terms}; input.action.method == \"GET\" }}\n"
        ))
    };
    let functions = |depth: usize| {
        let functions: String = (0..depth).map(|i| format!("f{i}(x) {{ f{}(x) }}\n", i + 1)).collect();
        params(&format!(
            "package gate\ndefault open = false\nopen {{ f0(input.action.method) }}\n{functions}f{depth}(x) {{ x == \"GET\" }}\n"
        ))
    };
    let nested = |depth: usize| {
        let nested = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        params(&format!(
            "package gate\ndefault open = false\nopen {{ {nested} == {nested}; input.action.method == \"GET\" }}\n"
        ))
    };
    let shapes: [(&str, &(dyn Fn(usize) -> Params + Sync)); 4] =
        [("chain", &chain), ("sum", &sum), ("functions", &functions), ("nested", &nested)];
    // Half of what a worker of the server has.
    let small_stack = |name: &str, params: Params| {
        let name = name.to_owned();
        let test = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            assert_eq!(runtime.block_on(answers(params)), [allowed(), denied()], "{name}");
        };
        std::thread::Builder::new().stack_size(1 << 20).spawn(test).unwrap().join().unwrap();
    };
    for (name, shape) in shapes {
        let is_refused = |size: &usize| !problems::<Opa>(&shape(*size)).is_empty();
        let (mut fits, mut refused) = (1, 300);
        assert!(!is_refused(&fits) && is_refused(&refused), "{name}");
        while refused - fits > 1 {
            let middle = usize::midpoint(fits, refused);
            if is_refused(&middle) { refused = middle } else { fits = middle }
        }
        println!("{name}: {fits} levels are evaluated");
        small_stack(name, shape(fits));
        assert!(is_refused(&10_000), "{name}");
    }
}

#[tokio::test]
async fn results_larger_than_memory_are_errors() {
    let rows = [
        "count(numbers.range(0, 1000000000000)) > 0",
        "count(numbers.range_step(0, 1000000000000, 2)) > 0",
        "bits.lsh(1, 4000000000) > 0",
    ];
    for expression in rows {
        let policy = format!("package gate\ndefault open = false\nopen {{ {expression} }}\n");
        let [answer, _] = answers(params(&policy)).await;
        assert!(answer.as_ref().is_err_and(|error| error.contains("at most")), "{expression}: {answer:?}");
    }
    let policy = "package gate\ndefault open = false\nopen { numbers.range(3, 1) == [3, 2, 1]; bits.lsh(1, 70) == 1180591620717411303424; numbers.range_step(0, 5, 2) == [0, 2, 4]; sprintf(\"%5d\", [7]) == \"    7\" }\n";
    assert_eq!(answers(params(policy)).await[0], allowed());
}

#[tokio::test]
async fn data_files_are_followed_and_the_last_good_version_stays() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let new = directory.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, directory.path().join(name)).unwrap();
    };
    put("roles.json", r#"{"roles": {"admins": ["ann"]}}"#);
    put("methods.yaml", "methods: [GET]\n");
    let policy = "package gate\ndefault open = false\nopen { data.roles.admins[_] == input.subject.user; data.methods[_] == input.action.method }\n";
    let path = |name: &str| directory.path().join(name).display().to_string();
    let files = vec![path("roles.json"), format!("file://{}", path("methods.yaml"))];
    let params = Params { data_files: files, ..params(policy) };
    let env = test_env("h.istio-system");
    let handler = Opa::build(params.clone(), vec![bound()], env.clone()).await.unwrap();
    let code = async |user, method| check(&*handler, [user, method, "/"]).await.unwrap().status.code;
    assert_eq!([code("ann", "GET").await, code("bob", "GET").await, code("ann", "PUT").await], [0, 7, 7]);
    let until = async |what: &str, holds: &dyn Fn() -> bool| {
        for _ in 0..2000 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what}: not within 20 s; {:?}", handler.degradation());
    };
    // What cannot be used changes nothing.
    let broken = [
        ("roles.json", "{\"roles\": {", "could not read data from"),
        ("roles.json", "", "the file is empty"),
        ("roles.json", "[]", "the document is no object"),
        (
            "roles.json",
            r#"{"gate": {"open": true}}"#,
            "the data has a value where the policy has the rule data.gate.open",
        ),
        ("roles.json", r#"{"methods": ["PUT"]}"#, "methods"),
    ];
    for (name, text, wanted) in broken {
        put(name, text);
        until(text, &|| handler.degradation().is_some_and(|why| why.contains(wanted))).await;
        assert_eq!([code("ann", "GET").await, code("bob", "GET").await], [0, 7], "{text}");
    }
    // A last answer is repeated for the same data only.
    let version = || handler.as_check().unwrap().answers_version();
    let before = version();
    put("roles.json", r#"{"roles": {"admins": ["bob"]}}"#);
    until("the mended file", &|| handler.degradation().is_none()).await;
    assert_eq!([code("ann", "GET").await, code("bob", "GET").await], [7, 0]);
    assert_ne!(version(), before);
    std::fs::remove_file(path("roles.json")).unwrap();
    until("the removed file", &|| handler.degradation().is_some()).await;
    assert_eq!(code("bob", "GET").await, 0);
    env.tasks.shut_down().await;
    // A first version is needed.
    let refused = Opa::build(params, vec![bound()], test_env("h.ns")).await.err().unwrap();
    assert!(refused.to_string().contains("dataFiles: could not read data from"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_evaluate_at_the_same_time() {
    let handler: Arc<dyn Handler> = built(params(V0)).await.unwrap().into();
    let calls = (0..8).map(|_| {
        let handler = Arc::clone(&handler);
        tokio::spawn(async move {
            for _ in 0..200 {
                assert_eq!(check(&*handler, ["", "GET", "/"]).await.unwrap().status.code, 0);
                assert_eq!(check(&*handler, ["", "PUT", "/"]).await.unwrap().status.code, 7);
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

/// A policy whose rule `probe` replaces `startswith` while it evaluates what fails.
fn probing(range: &str) -> Params {
    params(&format!(
        "package gate\ndefault open = false\nopen {{ startswith(input.action.path, \"/public\") }}\n\
         open {{ input.subject.user == \"probe\"; probe; false }}\n\
         probe {{ numbers.range(0, {range})[_] >= 0 with startswith as true }}\n"
    ))
}

/// An evaluation that ends early leaves what it replaced in place: the next request would be decided with it.
#[tokio::test]
async fn an_evaluation_that_fails_changes_no_other() {
    let handler = built(probing("to_number(input.action.path)")).await.unwrap();
    let code =
        async |user, path| check(&*handler, [user, "GET", path]).await.map(|result| result.status.code);
    assert_eq!([code("bob", "/public/a").await, code("bob", "/secret").await], [Ok(0), Ok(7)]);
    assert!(code("probe", "1000000").await.is_err());
    assert_eq!([code("bob", "/public/a").await, code("bob", "/secret").await], [Ok(0), Ok(7)]);
}

/// As the evaluation at the build, which looks for late errors.
#[tokio::test]
async fn the_trial_of_a_policy_changes_no_evaluation() {
    let handler = built(probing("1000000")).await.unwrap();
    let code =
        async |user, path| check(&*handler, [user, "GET", path]).await.map(|result| result.status.code);
    assert_eq!([code("bob", "/public/a").await, code("bob", "/secret").await], [Ok(0), Ok(7)]);
}

/// In v0 the engine takes a keyword that is not imported for the name of another rule, and `open` for a rule that always holds.
#[test]
fn a_keyword_that_is_not_imported_is_refused() {
    let rest = "default open = false\nold { input.x }\n";
    let rows = [
        ("import future.keywords.in", "open if { input.action.method == \"GET\" }"),
        ("import future.keywords.every", "open if { input.action.method == \"GET\" }"),
        (
            "import future.keywords.if",
            "names contains x { x := \"a\" }\nopen { names[_] == input.subject.user }",
        ),
        ("import future.keywords.in", "open { every x in [\"GET\"] { x == input.action.method } }"),
        ("import data.rego.v1", "open if { input.action.method == \"GET\" }"),
        ("import data.future.keywords", "open if { input.action.method == \"GET\" }"),
        ("import input.a as future", "open if { input.action.method == \"GET\" }"),
        ("", "x := { 1 | data.future; import\nfuture }\nopen if { input.action.method == \"GET\" }"),
        ("", "open { some x in [\"GET\"]; x == input.action.method }"),
    ];
    for (import, rule) in rows {
        let policy = format!("package gate\n{import}\n{rest}{rule}\n");
        assert!(!problems::<Opa>(&params(&policy)).is_empty(), "{policy}");
    }
    let rows = [
        ("import future.keywords.if", "open if { input.action.method == \"GET\" }"),
        ("import rego.v1", "open if { input.action.method == \"GET\" }"),
        (
            "import future.keywords.every\nimport future.keywords.if",
            "open if { every x in [\"GET\"] { x == input.action.method } }",
        ),
        ("import future.keywords.in", "open { some x in [\"GET\"]; x == input.action.method }"),
        // Names of fields are no keywords.
        ("", "open { input.action.properties.if == \"x\" }"),
    ];
    for (import, rule) in rows {
        let rest = if import == "import rego.v1" { "default open := false\n" } else { rest };
        let policy = format!("package gate\n{import}\n{rest}{rule}\n");
        assert_eq!(problems::<Opa>(&params(&policy)), Vec::<String>::new(), "{policy}");
    }
}

/// The engine panics where the text is shorter than the literal of the template.
#[tokio::test]
async fn an_evaluation_that_panics_allows_nothing() {
    let policy = params(
        "package gate\ndefault open = false\nopen { regex.template_match(\"urn:foo:{.*}\", input.action.path, \"{\", \"}\") }\n",
    );
    let handler = built(policy.clone()).await.unwrap();
    let error = check(&*handler, ["ann", "GET", "/"]).await.unwrap_err();
    assert_eq!(error.message, "opa: the evaluation panicked");
    assert_eq!(check(&*handler, ["ann", "GET", "urn:foo:bar"]).await.unwrap().status.code, 0);
    let handler = built(Params { fail_close: true, ..policy }).await.unwrap();
    let denied = check(&*handler, ["ann", "GET", "/"]).await.unwrap();
    assert_eq!(denied.status.message, "opa: request was rejected. err: the evaluation panicked");
}

/// What a request brings makes no result that is much larger than it.
#[tokio::test]
async fn results_that_are_products_of_texts_are_bounded() {
    let rows = [
        "count(net.cidr_expand(\"10.0.0.0/14\")) > 0",
        "count(net.cidr_expand(\"2001:db8::/64\")) > 0",
        "units.parse(\"1e100000\") > 0",
        "units.parse_bytes(\"1e100000\") > 0",
    ];
    for expression in rows {
        let policy = format!("package gate\ndefault open = false\nopen {{ {expression} }}\n");
        let [answer, _] = answers(params(&policy)).await;
        assert!(answer.as_ref().is_err_and(|error| error.contains("at most")), "{expression}: {answer:?}");
    }
    // 20 000 letters, each replaced by 900.
    let letters = "a".repeat(900);
    for expression in [
        "replace(t, \"a\", u)",
        "regex.replace(t, \"a\", u)",
        "strings.replace_n({\"a\": u}, t)",
        "concat(u, split(t, \"\"))",
    ] {
        let policy = format!(
            "package gate\ndefault open = false\nu = \"{letters}\"\nt = concat(\"\", [u | numbers.range(1, 22)[_]])\n\
             open {{ {expression} != \"\" }}\n"
        );
        let [answer, _] = answers(params(&policy)).await;
        assert!(answer.as_ref().is_err_and(|error| error.contains("at most")), "{expression}: {answer:?}");
    }
    let small = "package gate\ndefault open = false\nopen { replace(\"aXa\", \"X\", \"-\", r); r == \"a-a\"; \
                 concat(\"/\", [\"a\", \"b\"]) == \"a/b\"; concat(\",\", {\"b\", \"a\"}) == \"a,b\"; \
                 regex.replace(\"abc\", \"b\", \"x\") == \"axc\"; strings.replace_n({\"a\": \"b\"}, \"aa\") == \"bb\"; \
                 units.parse(\"1.5K\") == 1500; units.parse_bytes(\"1Ki\") == 1024; \
                 count(net.cidr_expand(\"10.0.0.0/30\")) == 4 }\n";
    assert_eq!(answers(params(small)).await[0], allowed());
}

/// Each fails for every request, so that `open if not bad` would fail, or hold, for all of them.
#[tokio::test]
async fn literals_that_a_function_does_not_take_are_errors() {
    let rows = [
        (
            "regex.match(\"^/(admin\", input.action.path)",
            "3:7: this call of regex.match fails for every request: invalid regex",
        ),
        ("x := regex.split(`[`, input.action.path)", "regex.split fails for every request: invalid regex"),
        ("regex.replace(input.action.path, \"(\", \"\") == \"a\"", "it has no result"),
        ("regex.match(`^.*a.{0,100}b.*c.{0,100}d$`, input.action.path)", "exceeded size limit"),
        ("not glob.match(\"/admin/{a,b\", [\"/\"], input.action.path)", "invalid glob"),
        ("net.cidr_contains(\"10.0.0.0/33\", input.subject.user)", "10.0.0.0/33"),
        ("net.cidr_contains(input.subject.user, \"10.0.0.256\")", "10.0.0.256"),
        ("startswith(input.action.path, 7)", "`startswith` expects string argument"),
        ("count([x | x := lower([\"A\"])]) > 0", "`lower` expects string argument"),
        ("time.parse_rfc3339_ns(\"yesterday\") < 0", "time.parse_rfc3339_ns fails for every request"),
    ];
    for (expression, wanted) in rows {
        let policy =
            format!("package gate\ndefault open = false\nbad {{ {expression} }}\nopen {{ not bad }}\n");
        let found = problems::<Opa>(&params(&policy));
        let is_found =
            found.iter().any(|problem| problem.contains("opa_policy.0:3:") && problem.contains(wanted));
        assert!(is_found, "{expression}: {found:?}");
        assert!(matches!(built(params(&policy)).await, Err(BuildError::Invalid(_))), "{expression}");
        // Istio Mixer evaluates such a policy.
        let env = test_env("h.istio-system");
        env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
        assert!(Opa::build(params(&policy), vec![bound()], env).await.is_ok(), "{expression}");
    }
    let rows = [
        "regex.match(input.action.properties.pattern, \"a\")",
        "regex.match(sprintf(\"^/%s(\", [input.subject.user]), \"a\")",
        "replace(input.action.path, \"a\", \"b\", r)",
        "glob.match(\"/a/*\", [], input.action.path)",
        "glob.match(\"/a/*\", null, input.action.path)",
        "startswith(input.action.path, 7) with startswith as true",
        "lower(7)",
    ];
    for expression in rows {
        let policy =
            format!("package gate\ndefault open = false\nlower(x) = x {{ true }}\nopen {{ {expression} }}\n");
        let policy = if expression.starts_with("lower") {
            policy
        } else {
            policy.replace("lower(x) = x { true }\n", "")
        };
        assert_eq!(problems::<Opa>(&params(&policy)), Vec::<String>::new(), "{expression}");
    }
    // Of what is imported only a function has its own arguments.
    for (import, is_own) in [
        ("future.keywords.contains", false),
        ("future.keywords", false),
        ("input.action.contains", false),
        ("data.texts.contains", true),
        ("data[\"texts\"].contains", true),
        ("data.texts.has as contains", true),
    ] {
        let gate = format!(
            "package gate\nimport {import}\ndefault open = false\nopen {{ contains(input.action.path, 7) }}\n"
        );
        let texts = "package texts\ncontains(a, b) { a == b }\nhas(a, b) { a == b }\n".to_owned();
        let found = wrong_calls(&Params { policy: vec![gate, texts], ..params("") });
        assert_eq!(found.is_empty(), is_own, "{import}: {found:?}");
    }
}

/// A caller writes numbers that take seconds to write out, as an object, too, and structures that the engine follows by recursion.
#[tokio::test]
async fn what_a_caller_writes_is_read_within_bounds() {
    let private = r#"{"$serde_json::private::Number":"1e3000000"}"#;
    let escaped = r#"[{"\u0024serde_json::private::Number":"1e3000000"}]"#;
    let token = "eyJhIjp7IiRzZXJkZV9qc29uOjpwcml2YXRlOjpOdW1iZXIiOiIxZTMwMDAwMDAifX0";
    let many = format!("[{}]", ["1e9999"; 200].join(","));
    let chain: String = (0..20_000).map(|i| format!(",\"{i}\":[\"{}\"]", i + 1)).collect();
    let chain = format!("{{\"x\":[]{chain}}}");
    let nodes: Vec<String> = (0..20).map(|i| format!("\"{i}\"")).collect();
    let complete: Vec<String> = nodes.iter().map(|node| format!("{node}:[{}]", nodes.join(","))).collect();
    let complete = format!("{{{}}}", complete.join(","));
    let deep = format!("{}{}{}", "[".repeat(120), ["1"; 20_000].join(","), "]".repeat(120));
    let long = "a/".repeat(200_000);
    let prefix = "x".repeat(100);
    // A delimiter of the template is a character of the pattern.
    let choices = format!("(?:{}[<])", "a?".repeat(1500));
    let braces = format!("{}a{}", "{".repeat(500), "}".repeat(500));
    let words: String = (0..5000).map(|i| format!("{i}x/")).collect();
    let paths = "graph.reachable_paths(json.unmarshal(input.action.path), {\"0\"})";
    let rows = [
        ("json.unmarshal(input.action.path)", private),
        ("json.unmarshal(input.action.path)", escaped),
        ("json.unmarshal(base64url.decode(input.action.path))", token),
        ("json.unmarshal(input.action.path)", "[1e10000]"),
        ("json.unmarshal(input.action.path)", &many),
        ("json.is_valid(input.action.path)", private),
        ("to_number(input.action.path) > 5", "1e3000000"),
        ("to_number(input.action.path) > 5", private),
        ("json.filter({\"a\": [1]}, [concat(\"/\", [\"a\", input.action.path])])", "1e3000000"),
        ("json.filter({\"a\": 1}, [input.action.path])", &long),
        ("json.remove({\"a\": 1}, {input.action.path})", &long),
        ("json.marshal_with_options([1], {\"prefix\": input.action.path})", &prefix),
        ("product([to_number(input.action.path) | numbers.range(1, 2000)[_]]) > 0", "18446744073709551615"),
        (paths, &chain),
        (paths, &complete),
        ("count(walk(json.unmarshal(input.action.path))) > 0", &deep),
        ("regex.match(input.action.path, \"a\")", "((a{100}){100}){100}"),
        ("regex.find_all_string_submatch_n(input.action.path, \"a\", -1)", &choices),
        ("regex.template_match(sprintf(\"<%s>\", [input.action.path]), \"a\", \"<\", \">\")", &choices),
        ("glob.match(input.action.path, null, \"a\")", &braces),
        ("glob.match(\"a\", split(input.action.path, \"\"), \"a\")", "................."),
        ("strings.replace_n({x: \"\" | x := split(input.action.path, \"/\")[_]}, input.action.path)", &words),
    ];
    for (expression, path) in rows {
        let policy = format!("package gate\ndefault open = false\nopen {{ x := {expression}; x }}\n");
        // The bounds hold for inputs of any length.
        let params = Params { max_input_kilobytes: MAX_INPUT_KILOBYTES, ..params(&policy) };
        let handler = built(params).await.unwrap();
        let answer = check(&*handler, ["ann", "GET", path]).await;
        let is_bounded = |error: &HandlerError| {
            let texts = ["at most", "not read", "size limit"];
            error.is_of_request && texts.iter().any(|text| error.message.contains(text))
        };
        assert!(answer.as_ref().is_err_and(is_bounded), "{expression}: {answer:?}");
        // Istio Mixer has no such bounds: there is no answer to repeat that allows.
        let env = test_env("h.istio-system");
        env.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
        let params = Params { max_input_kilobytes: MAX_INPUT_KILOBYTES, ..params_of(&policy) };
        let handler = Opa::build(params, vec![bound()], env.clone()).await.unwrap();
        let answer = check(&*handler, ["ann", "GET", path]).await;
        assert!(answer.as_ref().is_err_and(|error| error.is_of_request), "{expression}: {answer:?}");
        let counted = env.metrics.counter(Family::OpaUndecided, &["h.istio-system", "bound"]);
        assert_eq!(counted.get(), 1, "{expression}");
    }
    // What is not immense is read as before.
    let graph = r#"{"a": ["b"], "b": ["c", "d"], "c": null, "d": ["b"]}"#;
    for expression in [
        "json.is_valid(t)",
        "not json.is_valid(\"{\")",
        "json.unmarshal(t).b == [\"c\", \"d\"]",
        "to_number(\"-1.5e3\") == -1500",
        "product([2, 3.5]) == 7",
        "json.filter({\"a\": {\"b\": 1, \"c\": 2}}, [\"a/b\"]) == {\"a\": {\"b\": 1}}",
        "json.remove({\"a\": 1}, {\"a\"}) == {}",
        "graph.reachable_paths(json.unmarshal(t), {\"a\"}) == {[\"a\", \"b\", \"c\"], [\"a\", \"b\", \"d\"]}",
        "[path | walk({\"k\": [1]}, [path, 1])] == [[\"k\", 0]]",
        "json.marshal_with_options([1], {\"indent\": \"-\"}) == \"[\\n-1\\n]\"",
    ] {
        let policy =
            format!("package gate\ndefault open = false\nopen {{ t := input.action.path; {expression} }}\n");
        let handler = built(params(&policy)).await.unwrap();
        let answer = check(&*handler, ["ann", "GET", graph]).await;
        assert_eq!(answer.map(|answer| answer.status.code), Ok(0), "{expression}");
    }
}

/// Two long texts of a caller, of which a function takes the product of their lengths in the engine, without a look at the clock.
#[tokio::test]
async fn what_a_function_does_with_two_texts_takes_no_product_of_their_lengths() {
    // As long as inputs may be that are evaluated for longer than 2 ms.
    let half = 230_000;
    let repeated = format!("{}b", "a".repeat(half - 1));
    let letters = "a".repeat(half);
    let cut = format!("{}z", "a".repeat(half - 1));
    let words = "a/".repeat(half / 2);
    let another = format!("{}b", "a/".repeat(half / 4));
    let few = "a/".repeat(10_000);
    for (expression, user, path) in [
        ("indexof(t, u) == -1", &*repeated, &*letters),
        ("indexof_n(t, u) == []", &repeated, &letters),
        ("trim(t, u) == \"\"", &cut, &"z".repeat(half)),
        ("trim_left(t, u) == \"\"", &cut, &"z".repeat(half)),
        ("trim_right(t, u) == \"\"", &cut, &"z".repeat(half)),
        (
            "count(object.union_n([{concat(\"\", [x, format_int(i, 10)]): 1} | x := split(t, \"/\")[i]])) > 1000",
            "",
            &few,
        ),
        ("not object.subset(split(t, \"/\"), split(u, \"/\"))", &another, &words),
    ] {
        let policy = format!(
            "package gate\ndefault open = false\nopen {{ t := input.action.path; u := object.get(input.subject, \"user\", \"\"); {expression} }}\n"
        );
        let params = Params { max_input_kilobytes: MAX_INPUT_KILOBYTES, ..params(&policy) };
        let handler = built(params).await.unwrap();
        let started = std::time::Instant::now();
        let answer = check(&*handler, [user, "GET", path]).await;
        assert_eq!(answer.map(|answer| answer.status.code), Ok(0), "{expression}");
        assert!(started.elapsed() < Duration::from_secs(8), "{expression}: {:?}", started.elapsed());
    }
    for function in ["strings.any_prefix_match", "strings.any_suffix_match"] {
        let policy = format!(
            "package gate\ndefault open = false\nopen {{ w := split(input.action.path, \"/\"); not {function}(w, w) }}\n"
        );
        let params = Params { max_input_kilobytes: MAX_INPUT_KILOBYTES, ..params(&policy) };
        let handler = built(params).await.unwrap();
        let answer = check(&*handler, ["ann", "GET", &words]).await;
        let is_bounded = |error: &HandlerError| error.is_of_request && error.message.contains("at most");
        assert!(answer.as_ref().is_err_and(is_bounded), "{function}: {answer:?}");
    }
    // As before.
    for expression in [
        "indexof(\"häuser\", \"user\") == 2",
        "indexof(\"abc\", \"d\") == -1",
        "indexof(\"abc\", \"\") == 0",
        "indexof(\"\", \"\") == -1",
        "indexof_n(\"äaäaä\", \"äaä\") == [0, 2]",
        "indexof_n(\"abc\", \"\") == [0, 1, 2]",
        "indexof_n(\"abc\", \"x\") == []",
        "trim(\"--a-b++\", \"+-\") == \"a-b\"",
        "trim_left(\"--a--\", \"-\") == \"a--\"",
        "trim_right(\"--a--\", \"-\") == \"--a\"",
        "trim(\"abc\", \"\") == \"abc\"",
        "object.union_n([{\"a\": {\"b\": 1}, \"c\": 1}, {\"a\": {\"d\": 2}}, {\"c\": {\"e\": 3}}]) == {\"a\": {\"b\": 1, \"d\": 2}, \"c\": {\"e\": 3}}",
        "object.union_n([]) == {}",
        "object.subset({\"a\": [1, 2, 3], \"b\": 1}, {\"a\": [2, 3]})",
        "not object.subset([1, 2, 3], [1, 3])",
        "object.subset([1, 2, 3], {3, 1})",
        "object.subset({1, 2}, {1})",
        "not object.subset({\"a\": 1}, {\"a\": 1, \"b\": 2})",
        "strings.any_prefix_match([\"ab\", \"cd\"], {\"c\"})",
        "strings.any_suffix_match(\"ab\", [\"b\"])",
    ] {
        let handler =
            built(params(&format!("package gate\ndefault open = false\nopen {{ {expression} }}\n")))
                .await
                .unwrap();
        let answer = check(&*handler, ["ann", "GET", "/"]).await;
        assert_eq!(answer.map(|answer| answer.status.code), Ok(0), "{expression}");
    }
}

/// The analysis takes a time that is proportional to the policy.
#[test]
fn a_large_policy_is_analyzed_soon() {
    let rules = |count: usize, rule: &dyn Fn(usize) -> String| -> String {
        (0..count).map(|i| rule(i) + "\n").collect()
    };
    let of = |policy: Vec<String>| Params { policy, check_method: "data.gate.open".into(), ..params("") };
    let gate = "package gate\ndefault open = false\n";
    // Every rule needs all of another package.
    let wide = of(vec![
        format!("{gate}{}", rules(8000, &|i| format!("r{i} {{ data.other[_] }}"))),
        format!("package other\n{}", rules(8000, &|i| format!("s{i} = {i}"))),
    ]);
    assert_eq!(problems::<Opa>(&wide), Vec::<String>::new());
    // A name needs what it names, and not all of `data`.
    let named = of(vec![format!(
        "{gate}{}",
        rules(200, &|i| format!(
            "r{i} {{ data.config.a == input.subject.user; data.gate.s{i} }}\ns{i} {{ data.config.b }}"
        ))
    )]);
    assert_eq!(problems::<Opa>(&named), Vec::<String>::new());
    // What the parser tries again at each bracket, and statements that are ordered.
    let nested = of(vec![format!(
        "{gate}{}",
        rules(15_000, &|i| format!("r{i} {{ {}{}; x == 1 }}", "[".repeat(11), "]".repeat(11)))
    )]);
    assert!(problems::<Opa>(&nested)[0].contains("belong in dataFiles"));
    let long = of(vec![format!("{gate}open {{\n{}}}\n", rules(19_000, &|i| format!("v{i} := input.a{i}")))]);
    assert!(problems::<Opa>(&long)[0].contains("more than 1000 statements"));
    // A large value.
    let table = of(vec![format!(
        "{gate}open {{ table[input.subject.user].a[_] == 1 }}\ntable = {{\n{}}}\n",
        rules(10_000, &|i| format!("  \"u{i}\": {{\"a\": [{i}]}},"))
    )]);
    assert_eq!(problems::<Opa>(&table), Vec::<String>::new());
    // Every rule needs every other.
    let tangled = of(vec![format!("{gate}{}", rules(15_000, &|i| format!("r{i} {{ data.gate }}")))]);
    assert!(!problems::<Opa>(&tangled).is_empty());
    // Of the problems that are alike a few are enough.
    let unknown = of(vec![format!("{gate}{}", rules(15_000, &|i| format!("r{i} {{ f{i}(1) }}")))]);
    let found = problems::<Opa>(&unknown);
    assert!((1..=33).contains(&found.len()), "{}", found.len());
}
