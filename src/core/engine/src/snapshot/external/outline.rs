//! The templates and adapters out of process that a snapshot was built with.

use std::sync::Arc;

use super::{ExternalResource, ExternalTable, ExternalUnits};
use crate::template::TemplateInfo;
use mixer_config::{Origin, ResourceKey};

/// The valid templates and adapters out of process, in name order.
#[derive(Debug, Default)]
pub struct ExternalOutline {
    /// The templates.
    pub templates: Vec<TemplateResource>,
    /// The adapters with all of their templates.
    pub adapters: Vec<AdapterResource>,
}

/// A resource of kind `template`.
#[derive(Debug)]
pub struct TemplateResource {
    /// Identity.
    pub key: ResourceKey,
    /// What its descriptors say.
    pub template: Arc<TemplateInfo>,
    /// Its source.
    pub origin: Origin,
}

/// A resource of kind `adapter`.
#[derive(Debug)]
pub struct AdapterResource {
    /// Identity.
    pub key: ResourceKey,
    /// Its templates.
    pub templates: Vec<Arc<TemplateInfo>>,
    /// The full name of the message of its parameters; `None` if it takes none.
    pub params: Option<String>,
    /// Whether it takes the parameters once, in a session.
    pub session_based: bool,
    /// Its source.
    pub origin: Origin,
}

impl ExternalOutline {
    pub(in crate::snapshot) fn new(units: &ExternalUnits, table: &ExternalTable) -> Self {
        let mut outline = Self::default();
        for (key, unit) in units {
            let Some(in_force) = &unit.in_force else { continue };
            let (key, origin) = (key.clone(), in_force.origin.clone());
            match &unit.state {
                Some(ExternalResource::Template(template)) => {
                    outline.templates.push(TemplateResource { key, template: Arc::clone(template), origin });
                }
                Some(ExternalResource::Adapter(schema)) => {
                    let Some(adapter) = table.adapters.get(&key.to_string()) else { continue };
                    let params = schema.params.as_ref().map(|params| params.name().to_owned());
                    let templates = adapter.templates.clone();
                    let session_based = schema.session_based;
                    outline.adapters.push(AdapterResource { key, templates, params, session_based, origin });
                }
                Some(ExternalResource::Broken) | None => {}
            }
        }
        outline.templates.sort_by(|a, b| a.key.cmp(&b.key));
        outline.adapters.sort_by(|a, b| a.key.cmp(&b.key));
        outline
    }
}
