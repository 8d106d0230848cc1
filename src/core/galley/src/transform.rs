//! What makes collections that sinks see of collections that sources deliver.
//!
//! A [`Transformer`] is told every change of its inputs, as seen over all sources, and keeps what it needs of them. It produces when
//! [`flush`](Transformer::flush) is called, once for all changes that arrived together, and not before all its inputs are complete.
//! Its products must be a function of its inputs: whatever the order of the changes was, the products are those of a fresh start.

mod direct;
mod ingress;
mod product;
mod service_entry;
pub(crate) mod tree;

use mixer_schema::MESH_CONFIG;

use crate::event::Entry;
use crate::options::{Options, collection};
pub use direct::Direct;
pub use ingress::Ingresses;
pub use product::Product;
pub use service_entry::ServiceEntries;

/// Makes collections of collections.
pub trait Transformer: Send {
    /// The collections that it reads.
    fn inputs(&self) -> &[&'static str];

    /// The collections that it produces.
    fn outputs(&self) -> &[&'static str];

    /// A resource of an input changed: what it was, and what it is. At least one of them is there.
    fn change(&mut self, collection: &'static str, old: Option<&Entry>, new: Option<&Entry>);

    /// Produces what the changes since the last call cause. Cost: proportional to what is caused.
    fn flush(&mut self, out: &mut Products);
}

/// What transformers produced, in order.
#[derive(Debug, Default)]
pub struct Products(pub(crate) Vec<(&'static str, Produced)>);

/// What was produced.
#[derive(Debug)]
pub(crate) enum Produced {
    Put(Product),
    Remove(Box<str>),
}

impl Products {
    /// A resource of an output is this one now.
    pub fn put(&mut self, collection: &'static str, product: Product) {
        self.0.push((collection, Produced::Put(product)));
    }

    /// A resource of an output is gone.
    pub fn remove(&mut self, collection: &'static str, name: impl Into<Box<str>>) {
        self.0.push((collection, Produced::Remove(name.into())));
    }
}

/// The transformers of these settings. What the first one of two produces under a name goes before.
pub fn transformers(options: &Options) -> Vec<Box<dyn Transformer>> {
    let direct = options.served_collections().into_iter().filter(|name| {
        let is_input = mixer_schema::by_collection(name).is_some_and(|kind| kind.input.is_some());
        // Which ingresses are served is a matter of the mesh configuration.
        (is_input || *name == MESH_CONFIG) && *name != collection::INGRESSES
    });
    let mut all: Vec<Box<dyn Transformer>> = vec![Box::new(Direct::new(direct.collect()))];
    let serves = |name: &str| options.served_collections().contains(&name);
    if [collection::GATEWAYS, collection::VIRTUAL_SERVICES, collection::INGRESSES].into_iter().any(serves) {
        all.push(Box::new(Ingresses::new(options)));
    }
    if options.service_discovery {
        all.push(Box::new(ServiceEntries::new(options)));
    }
    all
}
