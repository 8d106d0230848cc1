//! Positions of lint diagnostics.

use crate::snapshot::{HandlerConfig, InstanceConfig};
use mixer_config::{Diagnostic, FieldPath, Origin, Positions, ResourceKey};

/// The path of the parameters of a handler; out of process, that of its connection as well, which its adapter checks.
pub(crate) fn params_path(handler: &HandlerConfig) -> FieldPath {
    let spec = FieldPath::root().field("spec");
    if &*handler.key.kind == "handler" && handler.external.is_none() { spec.field("params") } else { spec }
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

/// Adds resource, file and span to the only diagnostic of a resource; several have common [`Positions`].
pub(in crate::snapshot) fn placed(problem: Diagnostic, key: &ResourceKey, origin: &Origin) -> Diagnostic {
    Positions::default().place(problem, key, origin)
}
