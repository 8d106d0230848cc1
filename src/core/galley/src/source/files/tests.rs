//! What sinks see while files have errors.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use mixer_mcp::{Resource, Snapshot};
use mixer_schema::DEFAULT_GROUP;

use super::*;
use crate::source::mesh::Mesh;
use crate::{Distributor, Galley};

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
        let directory = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| std::fs::write(directory.path().join(name), text).unwrap());
        let options = Options { keeps_last, ..Options::default() };
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
    scene.write("rule.yaml", &RULE.replace("eve", "ann"));
    scene.until("a foreign kind", |scene| scene.rules() == ["shop/deny source.user == \"ann\""]).await;
    std::fs::remove_file(scene.directory.path().join("rule.yaml")).unwrap();
    scene.until("a rule that is deleted", |scene| scene.rules().is_empty()).await;
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
        scene.until(what, |scene| scene.rules().len() == 1).await;
        assert!(scene.galley.is_synced());
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
        ("no file", &[][..], "there is no resource"),
        ("a file without resources", &[("notes.yaml", "# nothing yet\n")][..], "there is no resource"),
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
