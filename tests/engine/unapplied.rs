//! A configuration of which even the last good version cannot be built: the published one goes on, and says so.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mixer_attribute::{ValueType, Vocabulary};
use mixer_config::{Diagnostic, Diagnostics, FieldPath, RawResource, Severity};
use mixer_engine::runtime::OnConfigError;
use mixer_engine::snapshot::{
    DecodedResource, ExtensionConfig, MappingOutline, Registry, ResourceProblems, SnapshotExtension,
};

use crate::stage::{Answer, Files, Stage};

/// Whether no version converts.
static REFUSES: AtomicBool = AtomicBool::new(false);

/// A kind that converts or does not, whatever its text.
#[derive(Debug)]
struct Fickle;

#[derive(Debug)]
struct Nothing;

impl ExtensionConfig for Nothing {
    fn outline(&self, _: &Vocabulary) -> Vec<MappingOutline> {
        Vec::new()
    }
}

impl SnapshotExtension for Fickle {
    fn kinds(&self) -> &'static [&'static str] {
        &["fickle"]
    }

    fn attributes(&self) -> &'static [(&'static str, ValueType)] {
        &[]
    }

    fn decode(
        &self,
        resource: &RawResource,
        _: &dyn Fn(&str) -> String,
    ) -> Result<DecodedResource, Vec<Diagnostic>> {
        if !REFUSES.load(Ordering::Relaxed) {
            return Ok(Arc::new(()));
        }
        let mut problems = ResourceProblems::new(resource);
        problems.push(Diagnostic::error("test-refused", FieldPath::root(), "not now"));
        Err(problems.list)
    }

    fn assemble(
        &self,
        _: &[(&RawResource, &(dyn Any + Send + Sync))],
        _: &Vocabulary,
        _: &str,
    ) -> (Arc<dyn ExtensionConfig>, Diagnostics) {
        (Arc::new(Nothing), Diagnostics::new())
    }
}

static FICKLE: Fickle = Fickle;
static EXTENSIONS: [&dyn SnapshotExtension; 1] = [&FICKLE];

fn files(version: u32, user: &str) -> Files {
    let mut files = Files::default();
    files.put(
        "/conf/fickle.yaml",
        format!(
            "kind: fickle\nmetadata: {{name: f, namespace: istio-system}}\nspec: {{version: {version}}}\n"
        ),
    );
    files.put(
        "/conf/deny.yaml",
        format!(
            "kind: attributemanifest
metadata: {{name: words, namespace: istio-system}}
spec: {{attributes: {{source.user: {{valueType: STRING}}}}}}
---
kind: handler
metadata: {{name: turn-away, namespace: istio-system}}
spec: {{compiledAdapter: denier}}
---
kind: instance
metadata: {{name: nothing, namespace: istio-system}}
spec: {{compiledTemplate: checknothing}}
---
kind: rule
metadata: {{name: deny, namespace: istio-system}}
spec: {{match: '(source.user | \"\") == \"{user}\"', actions: [{{handler: turn-away, instances: [nothing]}}]}}
"
        ),
    );
    files
}

#[test]
fn a_configuration_that_is_not_applied_is_told() {
    let registry = Registry { extensions: &EXTENSIONS, ..mixer_server::REGISTRY };
    let mut stage = Stage::on_virtual_time(OnConfigError::KeepLast, registry);
    stage.start(&files(1, "bob"));
    let before = stage.published();
    assert_eq!((stage.check("bob"), stage.check("eve")), (Answer::Denied, Answer::Allowed));
    assert_eq!((stage.kept(), before.diagnostics.len()), (Vec::new(), 0));
    REFUSES.store(true, Ordering::Relaxed);
    stage.advance(5);
    stage.change(&files(2, "eve"));
    // The table in use goes on.
    assert_eq!((stage.check("bob"), stage.check("eve")), (Answer::Denied, Answer::Allowed));
    let published = stage.published();
    assert_eq!((published.withheld.as_deref(), published.id()), (None, before.id()));
    assert_eq!(published.decisions, before.decisions, "cached answers stay valid");
    let kept =
        |stage: &Stage| stage.published().kept.iter().map(|kept| kept.key.to_string()).collect::<Vec<_>>();
    assert_eq!(kept(&stage), ["f.fickle.istio-system", "deny.rule.istio-system"]);
    assert_eq!(published.problems(Severity::Error), 1);
    let found: Vec<_> = published.diagnostics.iter().map(|problem| problem.code).collect();
    assert_eq!(found, ["test-refused", "config-kept"]);
    let text = "2 resources serve in their previous version, since 2023-11-14T22:13:25.000000Z: the configuration is not \
                applied: /conf/fickle.yaml:1: f.fickle.istio-system: not now (f.fickle.istio-system and \
                deny.rule.istio-system)";
    assert_eq!(published.diagnostics[1].message, text);
    let history = stage.history();
    assert_eq!(history.iter().map(|entry| entry.is_applied).collect::<Vec<_>>(), [false, true]);
    assert_eq!((history[0].changed, history[0].tally.errors), (2, 1));
    // What is written serves as soon as it can.
    REFUSES.store(false, Ordering::Relaxed);
    stage.change(&files(3, "eve"));
    assert_eq!((stage.check("bob"), stage.check("eve")), (Answer::Allowed, Answer::Denied));
    assert_eq!((stage.kept(), stage.published().diagnostics.len()), (Vec::new(), 0));
    assert!(stage.history()[0].is_applied);
}
