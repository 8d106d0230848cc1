//! What sinks see while files have errors.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use mixer_mcp::{Resource, Snapshot};
use mixer_schema::DEFAULT_GROUP;

use super::*;
use crate::keeper::Earlier;
use crate::source::mesh::Mesh;
use crate::{Distributor, Galley};

mod gone;

const RULES: &str = "istio/policy/v1beta1/rules";
const GATEWAYS: &str = "istio/networking/v1alpha3/gateways";

const RULE: &str = "apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: deny, namespace: shop}
spec:
  match: source.user == \"eve\"
";

const GATEWAY: &str = "apiVersion: networking.istio.io/v1alpha3
kind: Gateway
metadata: {name: front, namespace: shop}
spec: {selector: {a: b}}
";

const FOREIGN: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n";

struct Nowhere;

impl Distributor for Nowhere {
    fn distribute(&self, _: &str, _: Arc<Snapshot>) {}
}

/// A pipeline of files, which reads them as `keeps_last` says.
struct Scene {
    directory: tempfile::TempDir,
    galley: Galley,
}

impl Scene {
    fn new(files: &[(&str, &str)], keeps_last: bool) -> Self {
        Self::with(files, Options { keeps_last, ..Options::default() })
    }

    fn with(files: &[(&str, &str)], options: Options) -> Self {
        let directory = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| std::fs::write(directory.path().join(name), text).unwrap());
        let sources: Vec<Arc<dyn Source>> =
            vec![Files::new(directory.path(), true, &options), Mesh::of(None, &options)];
        let galley = Galley::start(options, sources, Arc::new(Nowhere), &Handle::current()).unwrap();
        Self { directory, galley }
    }

    fn write(&self, name: &str, text: &str) {
        let new = self.directory.path().join(".new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.directory.path().join(name)).unwrap();
    }

    /// Names and texts of what sinks see.
    fn seen(&self, collection: &str) -> Option<Vec<String>> {
        let snapshot = self.galley.snapshot(DEFAULT_GROUP)?;
        let shown = |resource: &Arc<Resource>| {
            let body = mixer_schema::to_json(&resource.type_url, &resource.body).unwrap();
            format!("{} {}", resource.name, body["match"].as_str().unwrap_or_default())
        };
        Some(snapshot.get(collection).unwrap().content().iter().map(shown).collect())
    }

    fn rules(&self) -> Vec<String> {
        self.seen(RULES).unwrap_or_default()
    }

    fn why(&self) -> String {
        let state = self.galley.state().sources.into_iter().next().unwrap();
        state.last_error.map(|(why, _)| why).unwrap_or_default()
    }

    async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !condition(self) {
            assert!(Instant::now() < deadline, "{what}: {:?} {}", self.rules(), self.why());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Flaws of the file of a rule, and what is told of each.
fn flaws() -> Vec<(&'static str, String, &'static str)> {
    vec![
        ("a second document that is not YAML", format!("{RULE}---\nkind: [\n"), "did not find expected"),
        ("no YAML at all", "kind: [\n".to_owned(), "did not find expected"),
        ("an empty file", String::new(), "the file is empty"),
        (
            "a list, as kubectl writes it",
            format!("apiVersion: v1\nkind: List\nitems:\n- {}", RULE.trim_end().replace('\n', "\n  ")),
            "unknown kind `List`",
        ),
        (
            "the answer to a failed request",
            "apiVersion: v1\nkind: Status\nstatus: Failure\n".to_owned(),
            "unknown kind `Status`",
        ),
        ("a kind that is misspelt", RULE.replace("kind: rule", "kind: ruel"), "unknown kind `ruel`"),
        ("no kind", RULE.replace("kind: rule\n", ""), "unknown kind ``"),
        (
            "a kind of servers that read files",
            RULE.replace("kind: rule", "kind: envoybridge"),
            "only a server that reads files has this kind",
        ),
        (
            "the kind of another group",
            RULE.replace("rule", "ruel").replace("config.istio.io", "x.istio.io"),
            "unknown kind",
        ),
        (
            "a kind of another group than that which is written",
            RULE.replace("kind: rule", "kind: Gateway"),
            "`Gateway` is no kind of config.istio.io",
        ),
        (
            "another kind and group with the contents of a rule",
            RULE.replace("kind: rule", "kind: Gateway")
                .replace("config.istio.io/v1alpha2", "networking.istio.io/v1alpha3")
                + "  actions: [{handler: h, instances: [i]}]\n",
            "unknown field \"match\"",
        ),
        (
            "a kind that is not read with the contents of a rule",
            RULE.replace("kind: rule", "kind: Service").replace("config.istio.io/v1alpha2", "v1")
                + "  actions: [{handler: h, instances: [i]}]\n",
            "`Service` is no kind with such contents",
        ),
        ("a field that is misspelt", RULE.replace("match:", "macth:"), "unknown field \"macth\""),
        (
            "a field beside the spec",
            RULE.replace("spec:\n  match", "spec: {}\nmatch"),
            "`match` has no effect where it is",
        ),
        ("a namespace that is no text", RULE.replace("shop", "no"), "`namespace` is no text"),
        (
            "an annotation that is no text",
            RULE.replace("shop}", "shop, annotations: {mixer.dev/dry-run: true}}"),
            "mixer.dev/dry-run",
        ),
        (
            "two versions",
            format!("{RULE}---\n{}", RULE.replace("eve", "ann")),
            "defined twice and differently",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sinks_keep_what_they_have_while_a_file_has_an_error() {
    let scene = Scene::new(&[("rule.yaml", RULE), ("gateway.yaml", GATEWAY)], true);
    scene.galley.synced().await;
    let expected = ["shop/deny source.user == \"eve\""];
    assert_eq!(scene.rules(), expected);
    for (what, text, why) in flaws() {
        scene.write("rule.yaml", &text);
        scene.until(what, |scene| scene.why().contains(why)).await;
        assert!(
            scene.why().starts_with("the configuration is not published, and the last one stays: "),
            "{what}"
        );
        // What is deleted meanwhile may have been moved.
        std::fs::remove_file(scene.directory.path().join("gateway.yaml")).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(scene.rules(), expected, "{what}");
        assert_eq!(scene.seen(GATEWAYS).unwrap().len(), 1, "{what}");
        scene.write("gateway.yaml", GATEWAY);
        scene.write("rule.yaml", &RULE.replace("eve", "ann"));
        scene.until(what, |scene| scene.rules() == ["shop/deny source.user == \"ann\""]).await;
        scene.write("rule.yaml", RULE);
        scene.until(what, |scene| scene.rules() == expected).await;
    }
    // A document of another program is none of ours.
    scene.write("other.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n");
    scene.write("list.yaml", "apiVersion: v1\nkind: List\nitems: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}]\n");
    scene.write("rule.yaml", &RULE.replace("eve", "ann"));
    scene.until("a foreign kind", |scene| scene.rules() == ["shop/deny source.user == \"ann\""]).await;
    std::fs::remove_file(scene.directory.path().join("rule.yaml")).unwrap();
    scene.until("a rule that is deleted", |scene| scene.rules().is_empty()).await;
    scene.galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_descriptors_are_told_to_be_no_resource() {
    let scene = Scene::new(&[("rule.yaml", RULE)], true);
    scene.galley.synced().await;
    scene.write(
        "limits.yaml",
        "domain: shop\ndescriptors:\n- key: plan\n  rate_limit: {unit: hour, requests_per_unit: 5}\n",
    );
    let told = "limits of descriptors are no resource, and galley distributes none";
    scene.until("limits are told", |scene| scene.why().contains(told)).await;
    scene.galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_is_pending_with_its_cause() {
    let scene = Scene::new(&[("rule.yaml", RULE)], true);
    let group = || scene.galley.state().groups.into_iter().next();
    let pending = || group().map(|group| (group.pending_events, group.waiting.len()));
    scene.galley.synced().await;
    scene.until("nothing waits", |_| pending() == Some((0, 0))).await;
    scene.write("rule.yaml", &RULE.replace("match", "macth"));
    scene.write("gateway.yaml", &format!("{GATEWAY}---\n{}", GATEWAY.replace("front", "back")));
    scene.until("three documents wait", |_| pending() == Some((3, 1))).await;
    let waiting = group().map(|group| group.waiting).unwrap_or_default().remove(0);
    assert_eq!(waiting.changes, Some(3));
    assert!(waiting.source.starts_with("files ") && waiting.why.contains("macth"), "{waiting:?}");
    assert_eq!(scene.galley.state().sources[0].pending, 3);
    scene.write("rule.yaml", RULE);
    scene.until("nothing waits", |_| pending() == Some((0, 0))).await;
    scene.galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_published_of_a_start_with_an_error() {
    for (what, text, why) in flaws() {
        let scene = Scene::new(&[("rule.yaml", &text), ("gateway.yaml", GATEWAY)], true);
        scene.until(what, |scene| scene.why().contains(why)).await;
        assert!(
            scene.why().starts_with("nothing is published until the configuration is mended: "),
            "{what}"
        );
        assert!(!scene.galley.is_synced() && scene.seen(GATEWAYS).is_none(), "{what}");
        scene.write("rule.yaml", RULE);
        scene.until(what, |scene| scene.rules().len() == 1 && scene.galley.is_synced()).await;
        scene.galley.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn called_as_galley_what_has_an_error_is_gone() {
    let scene = Scene::new(&[("rule.yaml", RULE)], false);
    scene.galley.synced().await;
    scene.write("rule.yaml", "kind: [\n");
    scene.until("as Istio Galley", |scene| scene.rules().is_empty()).await;
    scene.galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_resources_waits_for_them() {
    let start = |directory: &Path, allows_empty| {
        let options = Options { keeps_last: true, allows_empty, ..Options::default() };
        let sources: Vec<Arc<dyn Source>> =
            vec![Files::new(directory, true, &options), Mesh::of(None, &options)];
        Galley::start(options, sources, Arc::new(Nowhere), &Handle::current()).unwrap()
    };
    for (what, files, why) in [
        ("no file", &[][..], "the store has no configuration: check the path in --config-path"),
        (
            "a file without resources",
            &[("notes.yaml", "# nothing yet\n")][..],
            "the store has no configuration",
        ),
        ("documents of others", &[("web.yaml", FOREIGN)][..], "the store has no configuration"),
        ("a volume that is not mounted", &[("gateway.yaml", GATEWAY), ("more/", "")][..], "more is empty"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            match name.strip_suffix('/') {
                Some(name) => std::fs::create_dir(directory.path().join(name)).unwrap(),
                None => std::fs::write(directory.path().join(name), text).unwrap(),
            }
        }
        let scene = Scene { galley: start(directory.path(), false), directory };
        scene.until(what, |scene| scene.why().contains(why)).await;
        assert!(scene.why().contains("--allow-empty-config"), "{what}: {}", scene.why());
        assert!(!scene.galley.is_synced() && scene.seen(RULES).is_none(), "{what}");
        let allowing = start(scene.directory.path(), true);
        allowing.synced().await;
        allowing.stop().await;
        let place = if what.starts_with("a volume") { "more/rule.yaml" } else { "rule.yaml" };
        scene.write(place, RULE);
        scene.until(what, |scene| scene.rules().len() == 1).await;
        scene.galley.stop().await;
    }
}

/// How long a directory that was empty must be unchanged until what it lacks counts as deleted.
const QUIET: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_was_emptied_changes_nothing() {
    type Empty = fn(&Path);
    let clear = |directory: &Path| {
        for file in ["rule.yaml", "gateway.yaml"] {
            std::fs::remove_file(directory.join(file)).unwrap();
        }
    };
    let replace = |directory: &Path| {
        std::fs::rename(directory, directory.with_extension("away")).unwrap();
        std::fs::create_dir(directory).unwrap();
    };
    let leave_others = |directory: &Path| {
        std::fs::write(directory.join("web.yaml"), FOREIGN).unwrap();
        for file in ["rule.yaml", "gateway.yaml"] {
            std::fs::remove_file(directory.join(file)).unwrap();
        }
    };
    let ways: [(&str, Empty); 3] =
        [("removed files", clear), ("another directory", replace), ("documents of others", leave_others)];
    for (what, empty) in ways {
        let scene = Scene::new(&[("rule.yaml", RULE), ("gateway.yaml", GATEWAY)], true);
        scene.galley.synced().await;
        empty(scene.directory.path());
        scene.until(what, |scene| scene.why().contains("the store has no configuration: ")).await;
        let state = scene.galley.state().sources.remove(0);
        let held = state.held.unwrap_or_default();
        assert!(
            held.starts_with("the configuration is not published, and the last one stays: ")
                && held.contains("--allow-empty-config"),
            "{what}: {held}"
        );
        let begun = Instant::now();
        // Neither a deletion nor anything else for as long as it is empty.
        tokio::time::sleep(QUIET + Duration::from_secs(1)).await;
        assert_eq!(scene.rules().len(), 1, "{what}");
        // It is filled again file by file.
        scene.write("gateway.yaml", &GATEWAY.replace("a: b", "a: c"));
        scene.until(what, |scene| scene.why().contains("is being filled again")).await;
        assert_eq!(scene.rules().len(), 1, "{what}, {:?}", begun.elapsed());
        scene.write("rule.yaml", &RULE.replace("eve", "ann"));
        scene.until(what, |scene| scene.rules() == ["shop/deny source.user == \"ann\""]).await;
        assert!(scene.galley.state().sources[0].held.is_none(), "{what}");
        // One file is a deletion.
        std::fs::remove_file(scene.directory.path().join("rule.yaml")).unwrap();
        scene.until(what, |scene| scene.rules().is_empty()).await;
        scene.galley.stop().await;
        drop(std::fs::remove_dir_all(scene.directory.path().with_extension("away")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_directory_lacks_that_was_empty_is_deleted_when_nothing_changes() {
    let scene = Scene::new(&[("rule.yaml", RULE), ("gateway.yaml", GATEWAY)], true);
    scene.galley.synced().await;
    for file in ["rule.yaml", "gateway.yaml"] {
        std::fs::remove_file(scene.directory.path().join(file)).unwrap();
    }
    scene.until("it is empty", |scene| scene.why().contains("the store has no configuration: ")).await;
    scene.write("gateway.yaml", GATEWAY);
    let written = Instant::now();
    scene.until("the rule is deleted", |scene| scene.rules().is_empty()).await;
    assert!(written.elapsed() >= QUIET, "{:?}", written.elapsed());
    assert_eq!(scene.seen(GATEWAYS).unwrap().len(), 1);
    assert_eq!(scene.why(), "");
    scene.galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_directory_that_is_meant_is_published() {
    for (what, keeps_last, allows_empty) in
        [("it is allowed", true, true), ("called as galley", false, false)]
    {
        let scene =
            Scene::with(&[("rule.yaml", RULE)], Options { keeps_last, allows_empty, ..Options::default() });
        scene.galley.synced().await;
        std::fs::remove_file(scene.directory.path().join("rule.yaml")).unwrap();
        scene.until(what, |scene| scene.rules().is_empty()).await;
        assert!(scene.galley.state().sources[0].held.is_none(), "{what}");
        scene.galley.stop().await;
    }
}

/// Keeps in memory.
#[derive(Debug, Default)]
struct Memory(Mutex<Option<crate::keeper::Documents>>);

impl crate::Keeper for Memory {
    fn load(&self) -> BoxFuture<'_, Result<Option<Earlier>, String>> {
        let earlier =
            self.0.lock().clone().map(|documents| Earlier { documents, written: "then".to_owned() });
        Box::pin(std::future::ready(Ok(earlier)))
    }

    fn keep(&self, documents: crate::keeper::Documents) -> BoxFuture<'_, ()> {
        *self.0.lock() = Some(documents);
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_beside_a_directory_that_is_broken_publishes_what_was_published() {
    type Break = fn(&Path);
    let ways: [(&str, Break, &str); 5] = [
        (
            "no YAML",
            |path| std::fs::write(path.join("rule.yaml"), "kind: [").unwrap(),
            "did not find expected",
        ),
        (
            "empty",
            |path| std::fs::remove_file(path.join("rule.yaml")).unwrap(),
            "the store has no configuration",
        ),
        ("missing", |path| std::fs::remove_dir_all(path).unwrap(), "no such file or directory"),
        (
            "a part is missing",
            |path| {
                std::fs::write(path.join("gateway.yaml"), GATEWAY).unwrap();
                std::fs::remove_file(path.join("rule.yaml")).unwrap();
            },
            "may still be being filled",
        ),
        (
            "a volume is not mounted",
            |path| {
                std::fs::write(path.join("gateway.yaml"), GATEWAY).unwrap();
                std::fs::remove_file(path.join("more").join("other.yaml")).unwrap();
            },
            "more is empty",
        ),
    ];
    for face in [Face::First, Face::Second] {
        for (what, broken, why) in &ways {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("config");
            std::fs::create_dir_all(path.join("more")).unwrap();
            std::fs::write(path.join("rule.yaml"), RULE).unwrap();
            std::fs::write(path.join("more/other.yaml"), RULE.replace("deny", "other")).unwrap();
            if *what == "empty" {
                std::fs::remove_dir_all(path.join("more")).unwrap();
            }
            let keeper: Arc<dyn crate::Keeper> = Arc::<Memory>::default();
            let options = Options { keeps_last: true, face, keeper: Some(keeper), ..Options::default() };
            let start = || {
                let sources: Vec<Arc<dyn Source>> =
                    vec![Files::new(&path, true, &options), Mesh::of(None, &options)];
                Galley::start(options.clone(), sources, Arc::new(Nowhere), &Handle::current()).unwrap()
            };
            let first = Scene { galley: start(), directory: tempfile::tempdir().unwrap() };
            first.galley.synced().await;
            let published = first.rules();
            assert!(!published.is_empty(), "{what}");
            first.galley.stop().await;
            broken(&path);
            let second = Scene { galley: start(), directory: tempfile::tempdir().unwrap() };
            second.galley.synced().await;
            assert_eq!(second.rules(), published, "{what}");
            second.until(what, |scene| scene.why().contains(why)).await;
            let held = second.galley.state().sources[0].held.clone().unwrap_or_default();
            assert!(held.starts_with("the configuration in --config-cache of then is published: "), "{held}");
            assert_eq!(second.rules(), published, "{what}");
            std::fs::create_dir_all(path.join("more")).unwrap();
            std::fs::write(path.join("rule.yaml"), RULE.replace("eve", "ann")).unwrap();
            std::fs::write(path.join("more/other.yaml"), RULE.replace("deny", "other")).unwrap();
            second.until(what, |scene| scene.rules().iter().any(|rule| rule.contains("ann"))).await;
            assert_eq!(second.why(), "", "{what}");
            second.galley.stop().await;
        }
    }
}

/// That an empty configuration is meant is said to one start, not to later ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_published_is_published_again_only_if_it_is_meant() {
    for text in [None, Some(FOREIGN)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        std::fs::create_dir(&path).unwrap();
        if let Some(text) = text {
            std::fs::write(path.join("web.yaml"), text).unwrap();
        }
        let keeper = Arc::<Memory>::default();
        let start = |allows_empty| {
            let keeper: Arc<dyn crate::Keeper> = Arc::clone(&keeper) as _;
            let options =
                Options { keeps_last: true, allows_empty, keeper: Some(keeper), ..Options::default() };
            let sources: Vec<Arc<dyn Source>> =
                vec![Files::new(&path, true, &options), Mesh::of(None, &options)];
            let galley = Galley::start(options, sources, Arc::new(Nowhere), &Handle::current()).unwrap();
            Scene { galley, directory: tempfile::tempdir().unwrap() }
        };
        let first = start(true);
        first.galley.synced().await;
        first.galley.stop().await;
        assert!(keeper.0.lock().is_some(), "{text:?}");
        std::fs::remove_dir_all(&path).unwrap();
        let second = start(false);
        second.until("it waits", |scene| scene.why().contains("no such file or directory")).await;
        assert!(!second.galley.is_synced() && second.seen(RULES).is_none(), "{text:?}");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("rule.yaml"), RULE).unwrap();
        second.until("it is filled", |scene| scene.rules().len() == 1).await;
        second.galley.stop().await;
        *keeper.0.lock() = Some(crate::keeper::Documents::default());
        std::fs::remove_dir_all(&path).unwrap();
        let third = start(true);
        third.galley.synced().await;
        assert!(third.rules().is_empty(), "{text:?}");
        third.galley.stop().await;
    }
}

/// What proxies decide by: its errors hold what is published, as those of a rule do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_proxies_decide_by_is_kept() {
    let document = |api: &str, kind: &str, spec: &str| {
        format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: x, namespace: shop}}\nspec: {spec}\n")
    };
    let allow = |from: &str| {
        let spec = format!(
            "{{rules: [{{from: [{{source: {{{from}}}}}], to: [{{operation: {{methods: [GET]}}}}]}}]}}"
        );
        document("security.istio.io/v1beta1", "AuthorizationPolicy", &spec)
    };
    let policy = |spec: &str| document("authentication.istio.io/v1alpha1", "Policy", spec);
    let sidecar = |spec: &str| document("networking.istio.io/v1alpha3", "Sidecar", spec);
    for (good, bad, why) in [
        (allow("principals: [ann]"), allow("principal: [ann]"), "principal"),
        (allow("principals: [ann]"), allow("principals: "), "`principals` has no value"),
        (allow("principals: [ann]"), allow("principals: []"), "`principals` has no value"),
        (policy("{peers: [{mtls: {}}]}"), policy("{peers: [{mtls: {mode: STRIKT}}]}"), "STRIKT"),
        (policy("{peers: [{mtls: }]}"), policy("{peers: }"), "`peers` has no value"),
        (
            sidecar("{outboundTrafficPolicy: {mode: REGISTRY_ONLY}}"),
            sidecar("{outboundTraficPolicy: {mode: REGISTRY_ONLY}}"),
            "outboundTraficPolicy",
        ),
    ] {
        let scene = Scene::new(&[("x.yaml", &good), ("rule.yaml", RULE)], true);
        scene.galley.synced().await;
        assert_eq!(scene.rules().len(), 1, "{good}: {}", scene.why());
        scene.write("x.yaml", &bad);
        scene.until(&bad, |scene| scene.why().contains(why)).await;
        std::fs::remove_file(scene.directory.path().join("rule.yaml")).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(scene.rules().len(), 1, "{bad}");
        scene.galley.stop().await;
    }
}

/// How far a load is, in documents and files: each stage has counted all of them in the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_counts_documents_and_files() {
    let gateway = |number: usize| GATEWAY.replace("front", &format!("g{number}"));
    let many = (0..120).map(gateway).collect::<Vec<_>>().join("---\n");
    let scene = Scene::new(&[("a.yaml", &many), ("b.yaml", GATEWAY)], true);
    let place = scene.directory.path().display().to_string();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut missing = vec![("read", 2), ("checked", 0), ("converted", 0)];
    while !missing.is_empty() {
        let ended = load::ended();
        let of_scene = || ended.iter().filter(|progress| progress.what.contains(&place));
        missing.retain(|(stage, files)| {
            !of_scene().any(|progress| {
                let documents = [progress.documents, progress.of_documents];
                progress.stage == *stage
                    && documents == [121; 2]
                    && [progress.files, progress.of_files] == [*files; 2]
            })
        });
        assert!(Instant::now() < deadline, "{missing:?}: {ended:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
