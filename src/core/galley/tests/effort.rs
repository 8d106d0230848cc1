//! What an edit costs, from the contents of a store to the snapshot that is published and what a sink is sent: which must not depend on how many
//! resources there are. Counted are allocations, of which copies and collections of many things consist.

#![expect(unsafe_code, reason = "an allocator that counts can only be written so")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up must stop")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};

use mixer_config::store::{ConfigStore, StoreContents, read_document_as};
use mixer_config::{Origin, RawResource};
use mixer_galley::source::files::Files;
use mixer_galley::source::mesh::Mesh;
use mixer_galley::{Distributor, Galley, Options, Source};
use mixer_mcp::{Cache, Snapshot};
use mixer_schema::DEFAULT_GROUP;

/// Allocations of the process, and their bytes.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn count(bytes: usize) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(bytes, Ordering::Relaxed);
}

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A store whose contents the test sets.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<Arc<StoreContents>>>, Arc<Notify>);

impl ConfigStore for Store {
    fn url(&self) -> &str {
        "test"
    }

    fn contents(&self) -> Arc<StoreContents> {
        Arc::clone(&self.0.lock())
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.1.notified())
    }
}

impl Store {
    /// The same contents with another resource, and one less.
    fn edit(&self, put: Option<Arc<RawResource>>, remove: Option<&RawResource>) {
        {
            let mut contents = self.0.lock();
            let mut next = StoreContents::clone(&contents);
            put.into_iter().for_each(|resource| drop(next.resources.put(resource)));
            remove.into_iter().for_each(|resource| drop(next.resources.remove(&resource.key)));
            next.documents = next.resources.len();
            *contents = Arc::new(next);
        }
        self.1.notify_one();
    }
}

/// A rule, in a file of its own.
fn rule(options: &Options, number: usize, text: &str) -> Arc<RawResource> {
    let text = format!(
        "apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: r{number:06}, namespace: ns}}\nspec: {{match: '{text}'}}"
    );
    let file: Arc<str> = format!("/config/r{number:06}.yaml").into();
    let origin = Origin { file, text: text.into(), first_line: 1 };
    read_document_as(Files::reading(options.face), origin).unwrap()
}

/// Publishes into a cache, and says so.
struct Told(Arc<Cache>, mpsc::UnboundedSender<()>);

impl Distributor for Told {
    fn distribute(&self, group: &str, snapshot: Arc<Snapshot>) {
        self.0.set_snapshot(group, snapshot);
        let _ = self.1.send(());
    }
}

/// Allocations, and their bytes, of each kind of edit among so many resources.
async fn costs(resources: usize) -> Vec<(&'static str, usize, usize)> {
    let options = Options::default();
    let store = Store::default();
    let all: Vec<_> = (0..resources).map(|number| rule(&options, number, "a == 1")).collect();
    *store.0.lock() = Arc::new(StoreContents {
        documents: all.len(),
        resources: all.into_iter().collect(),
        ..StoreContents::default()
    });
    let (told, mut published) = mpsc::unbounded_channel();
    let cache = Cache::new(|_, _| DEFAULT_GROUP.into());
    let sources: Vec<Arc<dyn Source>> =
        vec![Mesh::of(None, &options), Files::of(Box::new(store.clone()), &options)];
    let distributor = Arc::new(Told(Arc::clone(&cache), told));
    let galley = Galley::start(options.clone(), sources, distributor, &Handle::current()).unwrap();
    galley.synced().await;
    let mut costs = Vec::new();
    // The first of each is a warm-up: queues and tables grow to their size.
    for round in 0..2 {
        let near = resources / 2 + round;
        for (what, put, remove) in [
            ("edit", Some((near, "a == 2")), None),
            ("new", Some((resources + near, "a == 1")), None),
            ("removed", None, Some(near)),
            ("back", Some((near, "a == 1")), None),
            ("renamed", Some((resources * 2 + near, "a == 1")), Some(resources + near)),
        ] {
            tokio::time::sleep(Duration::from_millis(20)).await;
            while published.try_recv().is_ok() {}
            let put = put.map(|(number, text)| rule(&options, number, text));
            let remove = remove.map(|number| rule(&options, number, "a == 1"));
            let before = (COUNT.load(Ordering::SeqCst), BYTES.load(Ordering::SeqCst));
            store.edit(put, remove.as_deref());
            published.recv().await.unwrap();
            // What follows of it.
            tokio::time::sleep(Duration::from_millis(20)).await;
            let after = (COUNT.load(Ordering::SeqCst), BYTES.load(Ordering::SeqCst));
            costs.push((what, after.0 - before.0, after.1 - before.1));
        }
    }
    let content = cache.snapshot(DEFAULT_GROUP).unwrap();
    let rules = content.get("istio/policy/v1beta1/rules").unwrap().content().len();
    assert_eq!(rules, resources + 2, "each round brings one");
    galley.stop().await;
    costs.split_off(5)
}

#[tokio::test]
async fn an_edit_costs_the_same_among_few_resources_and_among_many() {
    /// What copies of one part of maps of shared parts, of a few hundred references each, may differ by.
    const PART: usize = 16 << 10;
    let (few, many) = (costs(300).await, costs(6_000).await);
    for ((what, few, few_bytes), (_, many, many_bytes)) in few.iter().zip(&many) {
        assert!(*many <= few + 16, "{what}: {many} allocations, {few} among few");
        assert!(*many_bytes <= few_bytes + PART, "{what}: {many_bytes} bytes, {few_bytes} among few");
    }
}
