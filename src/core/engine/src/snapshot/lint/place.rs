//! Positions of lint diagnostics.

use crate::snapshot::{HandlerConfig, InstanceConfig};
use mixer_config::{Diagnostic, FieldPath, Origin, ResourceKey, yaml};

/// The path of the parameters of a handler.
pub(super) fn params_path(handler: &HandlerConfig) -> FieldPath {
    let spec = FieldPath::root().field("spec");
    if &*handler.key.kind == "handler" { spec.field("params") } else { spec }
}

/// The path of the parameters of an instance.
pub(in crate::snapshot) fn instance_params_path(instance: &InstanceConfig) -> FieldPath {
    let spec = FieldPath::root().field("spec");
    if &*instance.key.kind == "instance" { spec.field("params") } else { spec }
}

/// The path of the name of a resource.
pub(in crate::snapshot) fn name_field() -> FieldPath {
    FieldPath::root().field("metadata").field("name")
}

/// Adds resource, file and span to a diagnostic.
pub(in crate::snapshot) fn placed(mut problem: Diagnostic, key: &ResourceKey, origin: &Origin) -> Diagnostic {
    let document = yaml::parse(&origin.text).map(|p| p.root).unwrap_or_default();
    problem.span = Some(origin.in_file(document.at(&problem.field).span));
    problem.file = Some(origin.file.clone());
    problem.resource = key.to_string();
    problem
}
