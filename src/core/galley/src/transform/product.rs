//! What transformers produce.

use std::sync::Arc;

use mixer_mcp::Resource;

/// What transformers produce for a name.
#[derive(Debug, Clone)]
pub enum Product {
    /// A resource with a version that is never that of other content.
    Versioned(Arc<Resource>),
    /// A resource that gets a version here: another one whenever its content differs.
    Draft(Resource),
    /// A resource with the version of one of those that it is made of. It gets another one if that stands for other content under its
    /// name.
    Borrowed {
        /// The resource.
        resource: Resource,
        /// A text that is another one whenever the content differs.
        made_of: Box<str>,
    },
}

impl Product {
    /// The name of the resource.
    pub fn name(&self) -> &str {
        match self {
            Product::Versioned(resource) => &resource.name,
            Product::Draft(resource) | Product::Borrowed { resource, .. } => &resource.name,
        }
    }
}
