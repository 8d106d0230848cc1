use std::time::Duration;

use super::*;
use crate::testing::{problems, ready, test_env};
use mixer_attribute::{Value, ValueType, Vocabulary};
use mixer_base::suggestion::SuggestionBudget;
use mixer_config::store::read_document;
use mixer_config::{Origin, RawResource, Severity};
use mixer_engine::adapter::{AdapterResources, Leaf};
use mixer_engine::snapshot::{DecodedResource, SnapshotExtension as _};
use mixer_engine::template;

const ROLE: &str = "
apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRole
metadata: {name: reader, namespace: lib}
spec:
  rules:
  - {services: [shelf, review*], methods: [GET], paths: [/books/*], constraints: [{key: tier, values: [gold]}]}
";
const BINDING: &str = "
apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRoleBinding
metadata: {name: readers, namespace: lib}
spec: {subjects: [{user: ann}, {group: staff, properties: {ns: web}}], roleRef: {kind: ServiceRole, name: reader}}
";

fn resource(text: &str) -> Arc<RawResource> {
    let origin = Origin { file: "roles.yaml".into(), text: text.trim().into(), first_line: 1 };
    read_document(origin).expect(text)
}

fn decode(text: &str) -> Result<DecodedResource, Vec<String>> {
    let decoded = RbacKinds.decode(&resource(text), &|text| text.to_owned());
    decoded.map_err(|problems| problems.into_iter().map(|problem| problem.message.clone()).collect())
}

/// The assembled resources and the warnings about them.
fn assembled(texts: &[&str]) -> (AdapterResources, Vec<String>) {
    let raw: Vec<Arc<RawResource>> = texts.iter().map(|text| resource(text)).collect();
    let decoded: Vec<DecodedResource> = texts.iter().map(|text| decode(text).unwrap()).collect();
    let all: Vec<_> = raw.iter().zip(&decoded).map(|(raw, decoded)| (&**raw, &**decoded)).collect();
    let (config, warnings) = RbacKinds.assemble(&all, &Vocabulary::builder().build(), "istio-system");
    let place = |problem: Diagnostic| {
        assert_eq!(problem.file.as_deref(), Some("roles.yaml"));
        format!("{}: {}", problem.field, problem.message)
    };
    (AdapterResources::new(config, 0), warnings.into_iter().map(place).collect())
}

/// An instance: user, groups, property `ns`; namespace, service, method, path, property `tier`.
fn bound() -> BoundInstance {
    let leaf = |field, key: Option<&str>| Leaf::new(field, key, ValueType::String);
    BoundInstance {
        name: "ctx.instance.istio-system".into(),
        template: template::find("authorization").unwrap(),
        leaves: Arc::new([
            leaf("subject.user", None),
            leaf("subject.groups", None),
            leaf("subject.properties", Some("ns")),
            leaf("action.namespace", None),
            leaf("action.service", None),
            leaf("action.method", None),
            leaf("action.path", None),
            leaf("action.properties", Some("tier")),
        ]),
        messages: vec!["subject".into(), "action".into()],
        plan: None,
        read_outputs: Arc::default(),
    }
}

async fn built(params: Params, env: Env) -> Box<dyn Handler> {
    Rbac::build(params, vec![bound()], env).await.unwrap()
}

fn code(handler: &dyn Handler, values: [&str; 8]) -> i32 {
    let values = values.map(|text| Some(Value::String(text.as_bytes())));
    let instance = Instance { bound: 0, name: "ctx.instance.istio-system", values: &values };
    let result = ready(handler.as_check().unwrap().check(&instance));
    assert_eq!((result.valid_duration, result.valid_use_count), (SignedDuration::from_secs(60), USES));
    result.status.code
}

const ANN: [&str; 8] = ["ann", "", "", "lib", "shelf", "GET", "/books/1", "gold"];

#[test]
fn params_table() {
    let url = |url: &str| Params { config_store_url: url.to_owned(), ..Params::default() };
    let rows = [
        ("nothing given", Params::default(), vec![]),
        ("empty", url(""), vec![]),
        ("a directory", url("fs:///etc/roles"), vec![]),
        // The store alone knows its schemes.
        ("an unknown scheme", url("zip:///x"), vec![]),
        ("no scheme", url("://x"), vec!["configStoreUrl: parse \"://x\": missing protocol scheme"]),
        (
            "a negative duration",
            Params { cache_duration: SignedDuration::from_secs(-1), ..Params::default() },
            vec!["cachingDuration: caching interval must be >= 0, it is -1s"],
        ),
    ];
    for (name, params, wanted) in rows {
        assert_eq!(problems::<Rbac>(&params), wanted, "{name}");
    }
}

#[tokio::test]
async fn roles_of_the_server_decide() {
    let (resources, warnings) = assembled(&[ROLE, BINDING]);
    assert_eq!(warnings, Vec::<String>::new());
    let env = Env { resources: Some(resources), ..test_env("h.istio-system") };
    let handler = built(Params::default(), env).await;
    let with = |at: usize, text: &'static str| {
        let mut values = ANN;
        values[at] = text;
        values
    };
    let rows = [
        ("a reader", ANN, 0),
        ("another service of the role", with(4, "reviews"), 0),
        ("by group and namespace", ["bob", "staff", "web", "lib", "shelf", "GET", "/books/", "gold"], 0),
        ("by group alone", ["bob", "staff", "db", "lib", "shelf", "GET", "/books/", "gold"], 7),
        ("somebody", with(0, "bob"), 7),
        ("nobody", with(0, ""), 7),
        ("another namespace", with(3, "pub"), 7),
        ("another service", with(4, "shop"), 7),
        ("another method", with(5, "PUT"), 7),
        ("another path", with(6, "/"), 7),
        ("another tier", with(7, "tin"), 7),
        ("no namespace", with(3, ""), 7),
        ("no path", with(6, ""), 7),
    ];
    for (name, values, wanted) in rows {
        assert_eq!(code(&*handler, values), wanted, "{name}");
    }
    let notes = handler.status().notes;
    assert_eq!(notes[2], ("incomplete requests", "2".to_owned()));
}

#[tokio::test]
async fn without_roles_everything_is_denied() {
    for resources in [None, Some(assembled(&[]).0), Some(assembled(&[ROLE]).0), Some(assembled(&[BINDING]).0)]
    {
        let env = Env { resources, ..test_env("h.istio-system") };
        let handler = built(Params { config_store_url: String::new(), ..Params::default() }, env).await;
        assert_eq!(code(&*handler, ANN), 7);
    }
}

#[tokio::test]
async fn an_instance_without_action_fails() {
    let mut instance = bound();
    instance.messages = vec!["subject".into()];
    let mut problems = Diagnostics::new();
    Rbac::validate(&Params::default(), &[instance.clone()], &mut problems);
    assert_eq!(problems[0].code, "authorization-incomplete");
    let handler = Rbac::build(Params::default(), vec![instance], test_env("h.ns")).await.unwrap();
    let values = [None; 8];
    let instance = Instance { bound: 0, name: "ctx.instance.istio-system", values: &values };
    match handler.as_check().unwrap().check(&instance) {
        Reply::Ready(Err(error)) => {
            assert_eq!(error.message, "instance `ctx.instance.istio-system` has no `action`");
        }
        _ => panic!("an error is expected"),
    }
}

#[test]
fn what_does_not_decode_is_diagnosed() {
    let rows = [
        ("rules: [{service: [a]}]", "unknown field \"service\""),
        ("rules: [{services: a}]", "expected a list, found text"),
    ];
    for (spec, wanted) in rows {
        let found = decode(&format!(
            "apiVersion: rbac.istio.io/v1alpha1\nkind: ServiceRole\nmetadata: {{name: r, namespace: shop}}\nspec: {{{spec}}}\n"
        ));
        assert_eq!(found.unwrap_err(), [wanted]);
    }
    let found = decode(&BINDING.replace("roleRef:", "mode: 7, roleRef:")).unwrap_err();
    assert_eq!(found.len(), 1, "{found:?}");
    let found = decode(&ROLE.replace("rbac.istio.io", "rbac.example.com")).unwrap_err();
    assert_eq!(found, ["`ServiceRole` is a kind of `rbac.istio.io`, not of `rbac.example.com`"]);
}

#[test]
fn what_does_nothing_is_diagnosed() {
    let empty = "
apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRole
metadata: {name: empty, namespace: lib}
spec: {rules: [{services: ['a*b'], constraints: [{key: k, values: ['*x*']}]}]}
";
    let odd = "
apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRoleBinding
metadata: {name: odd, namespace: lib}
spec: {subjects: [{}, {user: 'an*', group: '*'}], roleRef: {kind: ServiceRole, name: readr}}
";
    let kind = BINDING.replace("kind: ServiceRole,", "kind: Role,");
    let settings =
        "apiVersion: rbac.istio.io/v1alpha1\nkind: RbacConfig\nmetadata: {name: default, namespace: lib}\n";
    let (_, warnings) = assembled(&[ROLE, empty, odd, &kind, settings]);
    let wanted = [
        "spec.rules[0]: a rule without `methods` permits nothing",
        "spec.rules[0].services[0]: `*` is special only as the last or the first character of a pattern, not in `a*b`",
        "spec.rules[0].constraints[0].values[0]: `*` is special only as the last or the first character of a pattern, not in `*x*`",
        "kind: `RbacConfig` configures proxies and has no effect here",
        "spec.subjects[0]: a subject without user, group and properties is nobody",
        "spec.subjects[1].user: `*` is special only alone, not in `an*`",
        "spec.roleRef.name: the binding gives no role: namespace `lib` has no ServiceRole `readr`",
        "spec.roleRef.kind: the binding gives no role: its kind of role is `Role`",
    ];
    assert_eq!(warnings, wanted);
}

/// Waits until the answer for Ann is `wanted`.
async fn until(handler: &dyn Handler, wanted: i32) {
    for _ in 0..2000 {
        if code(handler, ANN) == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the answer is not {wanted} within 20 s");
}

#[tokio::test]
async fn a_directory_is_followed_and_its_last_good_version_stays() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let new = directory.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, directory.path().join(name)).unwrap();
    };
    put("role.yaml", ROLE);
    put("binding.yaml", BINDING);
    let params =
        Params { config_store_url: format!("fs://{}", directory.path().display()), ..Params::default() };
    let env = test_env("h.istio-system");
    let handler = built(params, env.clone()).await;
    assert_eq!((code(&*handler, ANN), handler.degradation()), (0, None));
    // A role with an error goes on as it was; a new one with an error gives nothing.
    put("role.yaml", &ROLE.replace("methods", "method"));
    put("other.yaml", &BINDING.replace("readers", "more").replace("subjects", "subject"));
    for _ in 0..2000 {
        if handler.degradation().is_some_and(|why| why.contains("and 1 more")) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let why = handler.degradation().expect("an error is seen within 20 s");
    assert!(why.contains("unknown field"), "{why}");
    assert_eq!(code(&*handler, ANN), 0);
    // What was meant is applied once it has no error. A last answer is repeated for the same roles only.
    let version = || handler.as_check().unwrap().answers_version();
    let before = version();
    put("role.yaml", &ROLE.replace("[GET]", "[PUT]"));
    until(&*handler, 7).await;
    assert_ne!(version(), before);
    std::fs::remove_file(directory.path().join("other.yaml")).unwrap();
    put("role.yaml", ROLE);
    until(&*handler, 0).await;
    // A trial gives nothing to anybody.
    put("binding.yaml", &BINDING.replace("ann", "eve"));
    until(&*handler, 7).await;
    put("binding.yaml", &BINDING.replace("spec: {", "spec: {mode: PERMISSIVE, "));
    for _ in 0..2000 {
        if handler.degradation().is_some_and(|why| why.contains("PERMISSIVE")) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(handler.degradation().is_some_and(|why| why.contains("PERMISSIVE")), "an error within 20 s");
    assert_eq!(code(&*handler, ANN), 7);
    put("binding.yaml", BINDING);
    until(&*handler, 0).await;
    // A role that is taken away is gone.
    std::fs::remove_file(directory.path().join("binding.yaml")).unwrap();
    until(&*handler, 7).await;
    assert_eq!(handler.degradation(), None);
    env.tasks.shut_down().await;
}

/// Restrictions that lost their place in `spec`, so that a role would permit every path, and a binding name everybody.
#[tokio::test]
async fn what_slipped_into_the_metadata_of_a_directory_opens_nothing() {
    let named = "namespace: lib";
    for (before, after, field) in [
        (
            ROLE,
            ROLE.replace(", paths: [/books/*]", "").replace(named, "namespace: lib, paths: [/books/*]"),
            "paths",
        ),
        (
            ROLE,
            ROLE.replace(", constraints: [{key: tier, values: [gold]}]", "")
                .replace(named, "namespace: lib, annotations: {constraints: gold}"),
            "constraints",
        ),
        (
            BINDING,
            BINDING
                .replace(", properties: {ns: web}", "")
                .replace(named, "namespace: lib, properties: {ns: web}"),
            "properties",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let put = |text: &str| {
            let name = if text.contains("subjects") { "binding.yaml" } else { "role.yaml" };
            let new = directory.path().join("new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(new, directory.path().join(name)).unwrap();
        };
        put(ROLE);
        put(BINDING);
        let url = format!("fs://{}", directory.path().display());
        let env = test_env("h.istio-system");
        let handler = built(Params { config_store_url: url, ..Params::default() }, env.clone()).await;
        put(&after);
        for _ in 0..2000 {
            if handler.degradation().is_some()
                || code(&*handler, ["zoe", "staff", "db", "lib", "shelf", "GET", "/", "tin"]) == 0
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let why = handler.degradation().expect(field);
        assert!(why.contains(&format!("field \"{field}\"")), "{why}");
        for (name, values, wanted) in [
            ("ann", ANN, 0),
            ("another path", ["ann", "", "", "lib", "shelf", "GET", "/", "gold"], 7),
            ("another tier", ["ann", "", "", "lib", "shelf", "GET", "/books/1", "tin"], 7),
            ("another namespace", ["bob", "staff", "db", "lib", "shelf", "GET", "/books/1", "gold"], 7),
        ] {
            assert_eq!(code(&*handler, values), wanted, "{field}: {name}");
        }
        put(before);
        for _ in 0..2000 {
            if handler.degradation().is_none() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!((code(&*handler, ANN), handler.degradation()), (0, None), "{field}");
        env.tasks.shut_down().await;
    }
}

/// A role that permits more waits for the binding that is to name fewer, and has an error; what they have nothing to do with does not.
#[tokio::test]
async fn a_role_and_its_binding_in_a_directory_change_together() {
    let mistakes = [
        ("subjects", "subjcts"),
        ("spec: {", "spec: {{"),
        ("kind: ServiceRoleBinding", "kind: ServiceRoleBindng"),
    ];
    for mistake in mistakes {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let new = directory.path().join("new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(new, directory.path().join(name)).unwrap();
        };
        put("role.yaml", ROLE);
        put("binding.yaml", BINDING);
        let url = format!("fs://{}", directory.path().display());
        let env = test_env("h.istio-system");
        let handler = built(Params { config_store_url: url, ..Params::default() }, env.clone()).await;
        let with = |at: usize, text: &'static str| {
            let mut values = ANN;
            values[at] = text;
            code(&*handler, values)
        };
        assert_eq!((with(0, "ann"), with(5, "PUT"), with(0, "zoe")), (0, 7, 7));
        let faulty = BINDING.replace(mistake.0, mistake.1);
        assert_ne!(faulty, BINDING);
        put("binding.yaml", &faulty);
        for _ in 0..2000 {
            if handler.degradation().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(handler.degradation().is_some(), "{mistake:?}: an error within 20 s");
        put("role.yaml", &ROLE.replace("[GET]", "['*']"));
        let others = [
            ROLE.replace("reader", "writer"),
            BINDING.replace("reader", "writer").replace("user: ann", "user: zoe"),
        ];
        put("others.yaml", &others.join("---\n"));
        for _ in 0..2000 {
            if with(0, "zoe") == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!((with(0, "zoe"), with(5, "PUT")), (0, 7), "{mistake:?}");
        put("binding.yaml", BINDING);
        for _ in 0..2000 {
            if with(5, "PUT") == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!((with(5, "PUT"), handler.degradation()), (0, None), "{mistake:?}");
        env.tasks.shut_down().await;
    }
}

/// Of what the store calls an error it reads a part, which may permit more than the whole.
#[tokio::test]
async fn a_role_that_the_store_calls_an_error_stays_as_it_was() {
    const OTHER: [&str; 8] = ["bob", "", "", "lib", "shelf", "GET", "/admin", ""];
    let role =
        ROLE.replace(", constraints: [{key: tier, values: [gold]}]", "").replace("[/books/*]", "[/admin]");
    let binding = BINDING.replace("{user: ann}, ", "{user: bob}, ");
    let open = role.replace("[/admin]", "['*']");
    let rows: [(&str, &[(&str, String)]); 7] = [
        ("another file", &[("z.yaml", open.clone())]),
        ("another file that is read before", &[("a.yaml", open.clone())]),
        ("twice in one file", &[("role.yaml", format!("{role}---\n{open}"))]),
        (
            "a duplicate key",
            &[("role.yaml", role.replace("paths: [/admin]", "paths: [/admin], paths: ['*']"))],
        ),
        ("a second spec", &[("role.yaml", format!("{role}spec: {{rules: [{{services: [shelf]}}]}}\n"))]),
        ("a second document", &[("role.yaml", format!("{open}--- \n{role}"))]),
        (
            "an annotation",
            &[(
                "role.yaml",
                open.replace("metadata: {", "metadata: {annotations: {mixer.dev/dry-run: 'true'}, "),
            )],
        ),
    ];
    for (name, edit) in rows {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let new = directory.path().join("new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(new, directory.path().join(name)).unwrap();
        };
        put("role.yaml", &role);
        put("binding.yaml", &binding);
        let url = format!("fs://{}", directory.path().display());
        let params = Params { config_store_url: url, ..Params::default() };
        let codes = |handler: &dyn Handler| {
            let mut elsewhere = OTHER;
            elsewhere[6] = "/books/1";
            [code(handler, OTHER), code(handler, elsewhere)]
        };
        let env = test_env("h.istio-system");
        let handler = built(params.clone(), env.clone()).await;
        assert_eq!((codes(&*handler), handler.degradation()), ([0, 7], None), "{name}");
        edit.iter().for_each(|(file, text)| put(file, text));
        for _ in 0..2000 {
            if handler.degradation().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let why = handler.degradation().unwrap_or_else(|| panic!("{name}: no error is seen within 20 s"));
        assert!(why.starts_with("the last good version of what has errors serves: "), "{name}: {why}");
        assert_eq!(codes(&*handler), [0, 7], "{name}");
        // At a start there is no last good version.
        let started = built(params, test_env("h.istio-system")).await;
        assert_eq!(codes(&*started), [7, 7], "{name}");
        edit.iter().filter(|(file, _)| *file != "role.yaml").for_each(|(file, _)| {
            std::fs::remove_file(directory.path().join(file)).unwrap();
        });
        put("role.yaml", &open);
        for _ in 0..2000 {
            if handler.degradation().is_none() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(
            (codes(&*handler), handler.degradation()),
            ([0, 0], None),
            "{name}: what is clear applies"
        );
        env.tasks.shut_down().await;
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_read_refuses_the_build() {
    let rows = [
        ("zip:///x", "Unable to connect to the configuration server: unknown config URL zip:///x zip:///x"),
        ("fs:///no/such/directory", "Unable to start controller: "),
    ];
    for (url, wanted) in rows {
        let params = Params { config_store_url: url.to_owned(), ..Params::default() };
        let error = Rbac::build(params, vec![bound()], test_env("h.ns")).await.err().unwrap();
        assert!(error.to_string().starts_with(wanted), "{error}");
    }
}

#[test]
fn rules_of_other_services_are_not_looked_at() {
    let raw: Vec<Arc<RawResource>> = (0..2000)
        .flat_map(|i| {
            let role = ROLE
                .replace("reader", &format!("r{i}"))
                .replace("[shelf, review*]", &format!("[s{i}, 'x{i}-*', '*-y{i}']"));
            let binding = BINDING
                .replace("name: reader}", &format!("name: r{i}}}"))
                .replace("readers", &format!("b{i}"));
            [resource(&role), resource(&binding)]
        })
        .collect();
    let decoded: Vec<_> =
        raw.iter().map(|raw| resources::decode(raw, &|text| text.to_owned()).unwrap()).collect();
    let all: Vec<_> = raw.iter().map(|raw| &**raw).zip(&decoded).collect();
    let (policy, _) = resources::assemble(&all);
    assert_eq!(policy.counts().bindings, 2000);
    let layouts = Layout::of_all(&[bound()]);
    for (service, wanted) in
        [("s7", true), ("x1999-a", true), ("a-y3", true), ("s2000", false), ("shelf", false)]
    {
        let mut values = ANN;
        values[4] = service;
        let values = values.map(|text| Some(Value::String(text.as_bytes())));
        let instance = Instance { bound: 0, name: "i", values: &values };
        let request = Request::new(&layouts[0], &instance);
        assert_eq!(policy.allows(&request), wanted, "{service}");
        let looked_at = policy.candidates(&request);
        assert!(looked_at <= 1, "{service}: {looked_at} rules are looked at");
    }
}

/// What is written and empty is no restriction: as in half a file, or where a template has no value.
#[test]
fn what_permits_more_than_it_says_is_an_error() {
    let role = |rule: &str| {
        format!("kind: ServiceRole\nmetadata: {{name: r, namespace: shop}}\nspec:\n  rules:\n  - {rule}\n")
    };
    let subject = |subject: &str| {
        format!(
            "kind: ServiceRoleBinding\nmetadata: {{name: b, namespace: shop}}\nspec:\n  subjects:\n  - {subject}\n  roleRef: {{kind: ServiceRole, name: r}}\n"
        )
    };
    let rows = [
        (role("{services: [a], methods: [GET], paths: []}"), "`paths` is empty: every path is permitted"),
        (role("{services: [a], methods: [GET], paths: }"), "`paths` is empty: every path is permitted"),
        (
            role("{services: [a], methods: [GET], constraints: []}"),
            "`constraints` is empty: nothing is required",
        ),
        (subject("{user: '', group: '*'}"), "`user` is empty: it is not compared"),
        (subject("{group: , user: '*'}"), "`group` is empty: it is not compared"),
        (subject("{user: '*', properties: {}}"), "`properties` is empty: none is compared"),
        (subject("{properties: {namespace: }}"), "`namespace` is empty: whoever has an empty one matches"),
        (
            subject("{user: ann, properties: {team: a, namespace: ''}}"),
            "`namespace` is empty: whoever has an empty one matches",
        ),
        (
            role("{services: [a], methods: [GET], constraints: [{key: tier, values: [gold, '']}]}"),
            "`values[1]` is empty: an empty value is permitted",
        ),
        (
            role(
                "{services: [a], methods: [GET], constraints: [{key: a, values: [b]}, {key: tier, values: [~]}]}",
            ),
            "`values[0]` is empty: an empty value is permitted",
        ),
        (
            BINDING.replace("spec: {", "spec: {mode: PERMISSIVE, "),
            "a PERMISSIVE binding is a trial: here it would give its role",
        ),
    ];
    for (text, wanted) in rows {
        let raw = resource(&text);
        let decoded = resources::decode(&raw, &|text| text.to_owned()).unwrap();
        let (_, problems) = resources::assemble(&[(&raw, &decoded)]);
        let errors: Vec<_> = problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
        let [error] = &*errors else { panic!("{text}: {problems:?}") };
        assert_eq!((&*error.message, error.accepted_by_istio), (wanted, true), "{text}");
        assert!(error.hint.is_some() && error.file.is_some() && error.span.is_some(), "{error:?}");
    }
}

#[test]
fn settings_of_proxies_are_decoded() {
    let settings = |kind: &str, spec: &str| {
        format!(
            "apiVersion: rbac.istio.io/v1alpha1\nkind: {kind}\nmetadata: {{name: default, namespace: shop}}\nspec: {{{spec}}}\n"
        )
    };
    for kind in ["RbacConfig", "ClusterRbacConfig"] {
        let valid = settings(
            kind,
            "mode: ON_WITH_INCLUSION, inclusion: {services: [a], namespaces: [b]}, enforcement_mode: ENFORCED",
        );
        assert!(decode(&valid).is_ok());
        let rule = settings(kind, "match: 'true', actions: []");
        assert!(decode(&rule).is_err(), "a rule with the wrong kind");
    }
}

#[test]
fn bindings_without_a_role_share_the_work_of_suggestions() {
    const COUNT: usize = 2_000;
    let role = |i: usize| ROLE.replace("name: reader", &format!("name: role-{i:06}"));
    let binding = |i: usize| {
        let text = BINDING.replace("name: reader}", &format!("name: rule-{i:06}}}"));
        text.replace("name: readers,", &format!("name: b{i},"))
    };
    let decoded: Vec<_> = (0..COUNT)
        .flat_map(|i| [role(i), binding(i)])
        .map(|text| {
            let raw = resource(&text);
            let decoded = resources::decode(&raw, &|text| text.to_owned()).unwrap();
            (raw, decoded)
        })
        .collect();
    let all: Vec<_> = decoded.iter().map(|(raw, decoded)| (&**raw, decoded)).collect();
    let mut budget = SuggestionBudget::default();
    let (_, problems) = budget.run(|| resources::assemble(&all));
    let suggests =
        |problem: &&Diagnostic| problem.hint.as_deref().is_some_and(|hint| hint.starts_with("did you mean"));
    assert_eq!(problems.len(), COUNT);
    let suggestions = problems.iter().filter(suggests).count();
    assert!((16..200).contains(&suggestions) && budget.is_used_up(), "{suggestions}");
}

#[test]
fn every_field_of_a_role_is_known_where_it_lost_its_place() {
    use std::collections::BTreeMap;

    use super::resources::{ServiceRole, ServiceRoleBinding};
    use mixer_config::message::{Field as _, lower_camel};

    let (mut roles, mut bindings) = (BTreeMap::new(), BTreeMap::new());
    ServiceRole::messages(&mut roles);
    ServiceRoleBinding::messages(&mut bindings);
    for (kind, known) in [("ServiceRole", roles), ("ServiceRoleBinding", bindings)] {
        let fields = known.values().flat_map(|fields| fields.iter());
        let names: Vec<String> = fields.map(|field| lower_camel(field.name)).collect();
        // Kubernetes has a name in the metadata, and a kind beside it.
        let is_missing = |name: &&String| {
            !["name", "kind"].contains(&name.as_str()) && !mixer_config::store::is_field_of_spec(kind, name)
        };
        let missing: Vec<&String> = names.iter().filter(is_missing).collect();
        assert!(names.len() > 5 && missing.is_empty(), "{kind}: {missing:?}");
    }
}

/// What no request has, and what no instance sets.
#[test]
fn restrictions_that_nobody_meets_are_told() {
    let rule = "- {services: [shelf, review*], methods: [GET], paths: [/books/*], constraints: [{key: tier, values: [gold]}]}";
    let with = |part: &str, other: &str| ROLE.replace(rule, &rule.replace(part, other));
    for (role, told) in [
        (ROLE.to_owned(), ""),
        (
            with("[GET]", "[GET, head]"),
            "spec.rules[0].methods[1]: `head` is no method of a request: methods are in upper case",
        ),
        (with("[GET]", "[my-method]"), ""),
        (
            with("/books/*", "/books/.*"),
            "spec.rules[0].paths[0]: `/books/.*` is no regular expression: only `*` at an end is special",
        ),
        (with("/books/*", "/books.*"), ""),
        (
            with("/books/*", "^/books"),
            "spec.rules[0].paths[0]: `^/books` is no regular expression: only `*` at an end is special",
        ),
        (
            with(", values: [gold]", ""),
            "spec.rules[0].constraints[0]: a constraint on `tier` without `values` permits nothing",
        ),
    ] {
        let (_, warnings) = assembled(&[&role, BINDING]);
        let told: Vec<&str> = Some(told).into_iter().filter(|told| !told.is_empty()).collect();
        assert_eq!(warnings, told);
    }
    let role = with("key: tier", "key: teir");
    let binding = BINDING.replace("{ns: web}", "{namspace: web}");
    let unset = |texts: &[&str]| {
        let raw: Vec<Arc<RawResource>> = texts.iter().map(|text| resource(text)).collect();
        let decoded: Vec<DecodedResource> = texts.iter().map(|text| decode(text).unwrap()).collect();
        let all: Vec<_> = raw.iter().zip(&decoded).map(|(raw, decoded)| (&**raw, &**decoded)).collect();
        let (config, _) = RbacKinds.assemble(&all, &Vocabulary::builder().build(), "istio-system");
        assert_eq!(config.deciding_adapter(), Some("rbac"));
        let found = config.unset(&[&bound()]);
        let place = |d: Diagnostic| {
            format!("{} {}: {}; {}", d.code, d.field, d.message, d.hint.clone().unwrap_or_default())
        };
        found.into_iter().map(place).collect::<Vec<_>>()
    };
    assert_eq!(unset(&[ROLE, BINDING]), [""; 0]);
    assert_eq!(
        unset(&[&role, &binding]),
        [
            "rbac-ineffective spec.subjects[0].properties[namspace]: no instance sets the property `namspace`, so that the subject is \
             nobody; set it in `subject.properties` of the instance of authorization"
                .replace("subjects[0]", "subjects[1]"),
            "rbac-ineffective spec.rules[0].constraints[0].key: no instance sets the property `teir`, so that the rule permits nothing; did \
             you mean `tier`?"
                .to_owned(),
        ]
    );
}
