//! The templates that are built in, from the descriptors of `proto/istio/template/`.

use std::sync::{Arc, LazyLock};

use super::TemplateInfo;
use super::descriptor::{DescriptorError, Descriptors};

/// The built-in templates, in name order. Cost: the descriptors are read at the first use.
pub static TEMPLATES: LazyLock<Box<[Arc<TemplateInfo>]>> = LazyLock::new(|| match read() {
    Ok(templates) => templates,
    Err(error) => {
        // A test reads the same descriptors. Without templates, the check of the adapters at start fails.
        tracing::error!(%error, "the descriptors of the built-in templates are unusable");
        Box::default()
    }
});

fn read() -> Result<Box<[Arc<TemplateInfo>]>, DescriptorError> {
    let descriptors = Descriptors::decode(mixer_wire::TEMPLATES)?;
    let templates = descriptors.templates().map(|file| Ok(Arc::new(TemplateInfo::built_in(&file?)?)));
    let mut templates: Box<[_]> = templates.collect::<Result<_, DescriptorError>>()?;
    templates.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(templates)
}

/// The built-in template with this name.
pub(crate) fn built_in(name: &str) -> Option<&'static Arc<TemplateInfo>> {
    TEMPLATES.iter().find(|template| template.name == *name)
}

/// The built-in template with this name, to share.
pub fn find(name: &str) -> Option<Arc<TemplateInfo>> {
    built_in(name).cloned()
}
