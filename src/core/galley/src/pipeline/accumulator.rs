//! A collection that sinks see: its content, and the version of what was published of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use mixer_mcp::{Collection, Resource};

use super::overlay::{Origin, Overlay};
use crate::options::Face;
use crate::transform::Product;

/// The counters of versions. They go on for the life of the process, so that no version is used twice for different content.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Changes of all collections.
    changes: u64,
    /// Versions given to resources that sources do not give one.
    drafts: u64,
    /// What borrowed versions stand for, by name of the resource and version.
    borrowed: FxHashMap<(Box<str>, Box<str>), Box<str>>,
}

/// Borrowed versions that are remembered; beyond, each resource gets a version of its own.
const MAX_BORROWED: usize = 65_536;

impl Numbers {
    /// Whether a borrowed version stands for this content, and for no other.
    fn borrow(&mut self, resource: &Resource, made_of: &str) -> bool {
        let key = (resource.name.clone(), resource.version.clone());
        match self.borrowed.get(&key) {
            Some(known) => **known == *made_of,
            None if self.borrowed.len() < MAX_BORROWED => {
                self.borrowed.insert(key, made_of.into());
                true
            }
            None => false,
        }
    }
}

/// What was published of a collection, and how its version came about.
#[derive(Debug, Clone)]
pub(super) struct Edition {
    pub(super) collection: Arc<Collection>,
    /// The number of the last change of what sources deliver; first face.
    delivered: u64,
    /// The number of the last change of what transformers generate; first face.
    generated: u64,
    /// The number of changes; second face.
    generation: u64,
}

/// What kinds of changes a name had since the last publication.
#[derive(Debug, Clone, Copy, Default)]
struct Touched {
    delivered: bool,
    generated: bool,
}

/// A collection that sinks see.
#[derive(Debug)]
pub(super) struct Accumulator {
    name: Arc<str>,
    face: Face,
    overlay: Overlay<Arc<Resource>>,
    edition: Edition,
    /// The names that changed since the last publication, perhaps back.
    touched: BTreeMap<Box<str>, Touched>,
}

impl Accumulator {
    /// An empty collection, or one that continues the versions of what was published before.
    pub(super) fn new(name: &'static str, face: Face, published: Option<Edition>) -> Self {
        let name: Arc<str> = name.into();
        let edition = published.unwrap_or_else(|| Edition {
            collection: Collection::new(Arc::clone(&name), version(&name, face, 0, 0, 0), []),
            delivered: 0,
            generated: 0,
            generation: 0,
        });
        // What is not produced again is a change: everything that is published may be gone.
        let touched = edition.collection.content().iter().map(|resource| {
            (
                resource.name.clone(),
                Touched { delivered: edition.generated == 0, generated: edition.generated != 0 },
            )
        });
        let touched = touched.collect();
        Self { name, face, overlay: Overlay::default(), edition, touched }
    }

    /// What was published.
    pub(super) fn edition(&self) -> &Edition {
        &self.edition
    }

    /// How many resources there are, published or not.
    pub(super) fn len(&self) -> usize {
        self.overlay.visible().len()
    }

    /// Sets a resource of a transformer.
    pub(super) fn put(&mut self, origin: Origin, product: Product, numbers: &mut Numbers) {
        let resource = match product {
            Product::Versioned(resource) => resource,
            Product::Borrowed { resource, made_of } => match numbers.borrow(&resource, &made_of) {
                true => Arc::new(resource),
                false => Arc::new(Resource {
                    version: format!("{}{made_of}", resource.version).into(),
                    ..resource
                }),
            },
            Product::Draft(draft) => match self.known(origin, &draft) {
                Some(known) => known,
                None => {
                    let version = numbers.drafts.to_string().into();
                    numbers.drafts += 1;
                    Arc::new(Resource { version, ..draft })
                }
            },
        };
        self.touch(origin, &resource.name);
        self.overlay.put(origin, resource);
    }

    /// A resource with the content of a draft that has a version already.
    fn known(&self, origin: Origin, draft: &Resource) -> Option<Arc<Resource>> {
        let current = self.overlay.get(origin, &draft.name);
        let published = self.edition.collection.content().get(&draft.name);
        current.into_iter().chain(published).find(|known| has_same_content(known, draft)).cloned()
    }

    /// Removes a resource of a transformer.
    pub(super) fn remove(&mut self, origin: Origin, name: &str) {
        self.touch(origin, name);
        self.overlay.remove(origin, name);
    }

    fn touch(&mut self, origin: Origin, name: &str) {
        if !self.touched.contains_key(name) {
            self.touched.insert(name.into(), Touched::default());
        }
        if let Some(touched) = self.touched.get_mut(name) {
            touched.delivered |= origin == 0;
            touched.generated |= origin != 0;
        }
    }

    /// The number of names that differ from what was published, by what changed them.
    fn changes(&self) -> (u64, u64) {
        let (mut delivered, mut generated) = (0, 0);
        for (name, touched) in &self.touched {
            let (old, new) = (self.edition.collection.content().get(name), self.overlay.visible().get(name));
            if old != new {
                delivered += u64::from(touched.delivered);
                generated += u64::from(touched.generated);
            }
        }
        (delivered, generated)
    }

    /// The collection to be published: the one before, if its content is the same. Cost: proportional to what changed.
    pub(super) fn publish(&mut self, numbers: &mut Numbers) -> Arc<Collection> {
        let (delivered, generated) = self.changes();
        self.touched.clear();
        let edition = &mut self.edition;
        if delivered + generated == 0 {
            return Arc::clone(&edition.collection);
        }
        if delivered > 0 {
            numbers.changes += delivered;
            edition.delivered = numbers.changes;
        }
        if generated > 0 {
            numbers.changes += generated;
            edition.generated = numbers.changes;
        }
        edition.generation += delivered + generated;
        let version =
            version(&self.name, self.face, edition.delivered, edition.generated, edition.generation);
        edition.collection = Collection::of(Arc::clone(&self.name), version, self.overlay.visible().clone());
        Arc::clone(&edition.collection)
    }
}

/// The version of a collection. Spec: galley.md, "Versions".
fn version(name: &str, face: Face, delivered: u64, generated: u64, generation: u64) -> String {
    match (face, generated) {
        (Face::First, 0) => delivered.to_string(),
        (Face::First, _) => format!("{delivered}_{generated}"),
        (Face::Second, _) => format!("{name}/{generation}"),
    }
}

/// Whether two resources differ in their versions alone.
fn has_same_content(a: &Resource, b: &Resource) -> bool {
    a.body == b.body
        && a.type_url == b.type_url
        && a.labels == b.labels
        && a.annotations == b.annotations
        && a.create_time == b.create_time
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAYS: &str = "istio/networking/v1alpha3/gateways";

    fn resource(name: &str, version: &str, body: &'static str) -> Product {
        Product::Versioned(Arc::new(Resource::new(name, version, "type", body.as_bytes())))
    }

    #[test]
    fn versions_count_what_differs() {
        for (face, expected) in [
            (Face::First, ["0", "2", "2", "3", "3_4"].map(str::to_owned)),
            (Face::Second, [0, 2, 2, 3, 4].map(|generation| format!("{GATEWAYS}/{generation}"))),
        ] {
            let (mut numbers, mut gateways) = (Numbers::default(), Accumulator::new(GATEWAYS, face, None));
            let mut versions = vec![gateways.edition().collection.version().to_string()];
            let mut publish = |gateways: &mut Accumulator, numbers: &mut Numbers| {
                versions.push(gateways.publish(numbers).version().to_string());
            };
            gateways.put(0, resource("a", "v0", "1"), &mut numbers);
            gateways.put(0, resource("b", "v0", "1"), &mut numbers);
            publish(&mut gateways, &mut numbers);
            gateways.put(0, resource("a", "v1", "2"), &mut numbers);
            gateways.put(0, resource("a", "v0", "1"), &mut numbers);
            gateways.put(0, resource("c", "v1", "1"), &mut numbers);
            gateways.remove(0, "c");
            publish(&mut gateways, &mut numbers);
            gateways.remove(0, "b");
            publish(&mut gateways, &mut numbers);
            gateways.put(1, resource("i", "v0", "1"), &mut numbers);
            publish(&mut gateways, &mut numbers);
            assert_eq!(versions, expected);
        }
    }

    #[test]
    fn drafts_have_a_version_for_each_content() {
        let mut numbers = Numbers::default();
        let mut entries = Accumulator::new("entries", Face::First, None);
        let draft = |body: &'static str| Product::Draft(Resource::new("a", "", "type", body.as_bytes()));
        let mut versions = Vec::new();
        for body in ["1", "1", "2", "1", "3"] {
            entries.put(0, draft(body), &mut numbers);
            let collection = entries.publish(&mut numbers);
            let resource = collection.content().iter().next().map(|resource| resource.version.to_string());
            versions.push((resource.unwrap(), collection.version().to_string()));
        }
        let text = |number: u32, collection: u32| (number.to_string(), collection.to_string());
        assert_eq!(versions, [text(0, 1), text(0, 1), text(1, 2), text(2, 3), text(3, 4)]);
        entries.put(0, draft("4"), &mut numbers);
        entries.put(0, draft("3"), &mut numbers);
        assert_eq!(&**entries.publish(&mut numbers).version(), "4", "what is published is taken again");
    }

    #[test]
    fn versions_go_on_after_a_restart() {
        let mut numbers = Numbers::default();
        let mut first = Accumulator::new(GATEWAYS, Face::First, None);
        first.put(0, resource("a", "v0", "1"), &mut numbers);
        first.put(0, resource("b", "v0", "1"), &mut numbers);
        let published = first.publish(&mut numbers);
        let restart = || Accumulator::new(GATEWAYS, Face::First, Some(first.edition().clone()));
        let mut same = restart();
        same.put(0, resource("a", "v0", "1"), &mut numbers);
        same.put(0, resource("b", "v0", "1"), &mut numbers);
        assert!(Arc::ptr_eq(&same.publish(&mut numbers), &published), "equal content is the same collection");
        let mut other = restart();
        other.put(0, resource("a", "v0", "1"), &mut numbers);
        let other = other.publish(&mut numbers);
        assert_eq!((&**other.version(), other.content().len()), ("3", 1));
    }
}
