//! Positions of lint diagnostics.

use crate::snapshot::HandlerConfig;
use mixer_config::{Diagnostic, FieldPath, Origin, ResourceKey, yaml};

/// The path of the parameters of a handler.
pub(super) fn params_path(handler: &HandlerConfig) -> FieldPath {
    let spec = FieldPath::root().field("spec");
    if &*handler.key.kind == "handler" { spec.field("params") } else { spec }
}

/// Adds resource, file and span to a diagnostic.
pub(super) fn placed(mut problem: Diagnostic, key: &ResourceKey, origin: &Origin) -> Diagnostic {
    let document = yaml::parse(&origin.text).map(|p| p.root).unwrap_or_default();
    problem.span = Some(origin.in_file(document.at(&problem.field).span));
    problem.file = Some(origin.file.clone());
    problem.resource = key.to_string();
    problem
}
