//! Files that are renamed, and documents that move, without a change of their contents.

use mixer_engine::runtime::OnConfigError;

use crate::refusal::{HANDLER, INSTANCE, MANIFEST, RULE, deny, good};
use crate::stage::{Answer, Files, Stage};

/// The places of handlers, instances and rules, as `FILE:LINE`.
fn places(stage: &Stage) -> Vec<String> {
    let published = stage.published();
    let snapshot = published.routes.snapshot();
    let origins = (snapshot.handlers.iter().map(|handler| &handler.origin))
        .chain(snapshot.instances.iter().map(|instance| &instance.origin))
        .chain(snapshot.rules.iter().map(|rule| &rule.origin));
    origins.map(|origin| format!("{}:{}", origin.file, origin.document_line())).collect()
}

#[test]
fn what_moves_is_shown_where_it_is() {
    for policy in [OnConfigError::KeepLast, OnConfigError::ServeValid, OnConfigError::Refuse] {
        let mut stage = Stage::new(policy, false);
        stage.start(&good());
        assert_eq!(places(&stage), ["/conf/deny.yaml:1", "/conf/deny.yaml:5", "/conf/deny.yaml:9"]);
        let handlers = stage.published().routes.handlers().iter().cloned().collect::<Vec<_>>();
        let mut files = Files::default();
        files.put("/conf/words.yaml", MANIFEST);
        files.put("/conf/renamed.yaml", deny([HANDLER, INSTANCE, RULE]));
        stage.change(&files);
        assert_eq!(places(&stage), ["/conf/renamed.yaml:1", "/conf/renamed.yaml:5", "/conf/renamed.yaml:9"]);
        files.put("/conf/renamed.yaml", format!("# moved\n{}", deny([HANDLER, INSTANCE, RULE])));
        stage.change(&files);
        assert_eq!(places(&stage), ["/conf/renamed.yaml:2", "/conf/renamed.yaml:6", "/conf/renamed.yaml:10"]);
        // Nothing else happened.
        let published = stage.published();
        let now = published.routes.handlers().iter().collect::<Vec<_>>();
        assert!(now.iter().zip(&handlers).all(|(now, before)| std::sync::Arc::ptr_eq(now, before)));
        assert_eq!((stage.check("bob"), stage.kept()), (Answer::Denied, Vec::new()), "{policy:?}");
    }
}
