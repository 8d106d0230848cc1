//! Resources that sinks see as they were delivered.

use super::{Product, Products, Transformer};
use crate::event::Entry;

/// Passes collections on.
#[derive(Debug)]
pub struct Direct {
    collections: Vec<&'static str>,
    products: Products,
}

impl Direct {
    /// Passes these collections on.
    pub fn new(collections: Vec<&'static str>) -> Self {
        Self { collections, products: Products::default() }
    }
}

impl Transformer for Direct {
    fn inputs(&self) -> &[&'static str] {
        &self.collections
    }

    fn outputs(&self) -> &[&'static str] {
        &self.collections
    }

    fn change(&mut self, collection: &'static str, old: Option<&Entry>, new: Option<&Entry>) {
        match (old, new) {
            (_, Some(entry)) => {
                let product = Product::Versioned(entry.resource.clone());
                self.products.put(collection, product);
            }
            (Some(entry), None) => self.products.remove(collection, entry.resource.name.clone()),
            (None, None) => {}
        }
    }

    fn flush(&mut self, out: &mut Products) {
        out.0.append(&mut self.products.0);
    }
}
