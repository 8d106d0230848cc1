//! Random schedules of the pipeline with a virtual clock: edits, deliveries in any chunks and orders, starts again of sources,
//! deliveries that come too late, pauses, sinks that are slow or connect again, pipelines that fail.
//!
//! However a schedule went, once everything is delivered, what is published is what a fresh pipeline publishes of the final input.
//! On the way, no version stands for two contents, neither of a collection nor of a resource, equal content keeps its version, and
//! versions only grow. `MIXER_SCHEDULES` sets the number of schedules, `MIXER_SEED` the first one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use mixer_config::yaml;
use mixer_mcp::{Collection, Resource, Snapshot};
use mixer_schema::{MESH_CONFIG, by_collection};

use super::{Distributor, Pipeline, Published};
use crate::convert::{Converter, type_url};
use crate::event::{Batch, Change, Entry, Event};
use crate::object::{IngressMode, MeshSettings, Object};
use crate::options::{Debounce, Face, Options, collection};

const GATEWAYS: &str = collection::GATEWAYS;
const RULES: &str = "istio/policy/v1beta1/rules";
const NAMES: [&str; 3] = ["a", "b", "c"];
const VARIANTS: u64 = 3;
const MILLISECOND: Duration = Duration::from_millis(1);

/// The collections of the three sources; the mesh configuration is the last one.
fn feeds() -> Vec<Vec<&'static str>> {
    let cluster = [GATEWAYS, RULES, collection::INGRESSES, collection::SERVICES];
    let discovery = [collection::ENDPOINTS, collection::PODS, collection::NODES];
    vec![
        cluster.into_iter().chain(discovery).collect(),
        vec![GATEWAYS, collection::SERVICES, collection::INGRESSES],
        vec![MESH_CONFIG],
    ]
}

/// A document of a collection, in one of its variants.
fn document(of: &str, name: &str, variant: u64) -> String {
    let spec = match of {
        GATEWAYS => format!("spec: {{selector: {{a: v{variant}}}}}"),
        RULES => format!("spec: {{match: 'v{variant}'}}"),
        collection::INGRESSES => {
            let class = ["istio", "other", "istio"][variant as usize];
            let host = ["h.example.org", "h.example.org", "g.example.org"][variant as usize];
            let path = format!("{{path: /{name}{variant}, backend: {{serviceName: s, servicePort: 80}}}}");
            let rules = format!("[{{host: {host}, http: {{paths: [{path}]}}}}]");
            return format!(
                "metadata: {{name: {name}, namespace: shop, annotations: {{kubernetes.io/ingress.class: {class}}}}}\nspec: {{rules: {rules}}}"
            );
        }
        collection::SERVICES => {
            format!("spec: {{clusterIP: 10.0.0.{variant}, ports: [{{name: http, port: 80}}]}}")
        }
        collection::ENDPOINTS => {
            format!("subsets: [{{addresses: [{{ip: 10.1.0.{variant}}}], ports: [{{port: 1}}]}}]")
        }
        collection::PODS => {
            let phase = ["Running", "Failed", "Pending"][variant as usize];
            format!("spec: {{nodeName: a}}\nstatus: {{phase: {phase}, podIP: 10.1.0.{variant}}}")
        }
        _ => String::new(),
    };
    let (namespace, labels) = match of {
        collection::NODES => ("", format!("{{failure-domain.beta.kubernetes.io/zone: z{variant}}}")),
        _ => (", namespace: shop", format!("{{l: '{variant}'}}")),
    };
    format!("metadata: {{name: {name}{namespace}, labels: {labels}}}\n{spec}")
}

/// Converts every document once.
struct Documents {
    converter: Converter,
    known: HashMap<(&'static str, &'static str, u64), Entry>,
}

impl Documents {
    fn entry(&mut self, of: &'static str, name: &'static str, variant: u64, version: u64) -> Entry {
        let converter = &self.converter;
        let entry = self.known.entry((of, name, variant)).or_insert_with(|| {
            if of == MESH_CONFIG {
                let mode = [IngressMode::Off, IngressMode::Default, IngressMode::Strict][variant as usize];
                let settings = MeshSettings { ingress_mode: mode, ingress_class: "istio".into() };
                let body = format!("mesh {variant}");
                let kind = by_collection(of).unwrap();
                let resource = Resource::new("mesh", "", type_url(kind), body.into_bytes());
                return Entry {
                    resource: Arc::new(resource),
                    object: Some(Arc::new(Object::Mesh(settings))),
                };
            }
            let root = yaml::parse(&document(of, name, variant)).unwrap().root;
            converter.convert(by_collection(of).unwrap(), &root, "").unwrap().entry
        });
        let resource = Resource { version: format!("r{version}").into(), ..Resource::clone(&entry.resource) };
        Entry { resource: Arc::new(resource), ..entry.clone() }
    }
}

/// A source: what it has, and what it is about to deliver.
#[derive(Default)]
struct Model {
    content: BTreeMap<(&'static str, &'static str), Entry>,
    generation: u64,
    /// What this and earlier generations deliver.
    queue: VecDeque<(u64, Event)>,
}

impl Model {
    /// Everything in any order, then the syncs in any order; changes go on in between.
    fn start(&mut self, feeds: &[&'static str], random: &mut fastrand::Rng) {
        self.generation += 1;
        let mut all: Vec<Event> =
            self.content.iter().map(|((of, _), entry)| Event::put(of, entry.clone())).collect();
        random.shuffle(&mut all);
        let mut syncs: Vec<Event> = feeds.iter().map(|of| Event::full_sync(of)).collect();
        random.shuffle(&mut syncs);
        self.queue.extend(all.into_iter().chain(syncs).map(|event| (self.generation, event)));
    }
}

/// The last snapshots, and what every version stands for.
#[derive(Default)]
struct Recorder(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    last: BTreeMap<String, Arc<Snapshot>>,
    collections: HashMap<(String, String), Arc<Collection>>,
    resources: HashMap<(String, String, String), Arc<Resource>>,
}

/// The numbers in a version.
fn numbers(version: &str) -> Vec<u64> {
    let text = version.rsplit('/').next().unwrap_or_default();
    text.split('_').map(|number| number.parse().unwrap()).collect()
}

impl Distributor for Recorder {
    fn distribute(&self, group: &str, snapshot: Arc<Snapshot>) {
        let mut recorded = self.0.lock();
        let before = recorded.last.insert(group.to_owned(), Arc::clone(&snapshot));
        for collection in snapshot.collections() {
            let (name, version) = (collection.name().to_string(), collection.version().to_string());
            let same = |a: &Collection, b: &Collection| a.content().iter().eq(b.content().iter());
            if let Some(old) = before.as_ref().and_then(|before| before.get(&name)) {
                assert_eq!(
                    **old.version() == *version,
                    same(old, collection),
                    "{name}: content and version {version}"
                );
                let grows = numbers(old.version()) <= numbers(&version);
                assert!(grows, "{name}: {version} after {}", old.version());
            }
            let known = recorded
                .collections
                .entry((name.clone(), version.clone()))
                .or_insert_with(|| Arc::clone(collection));
            assert!(same(known, collection), "{name}: {version} stands for two contents");
            for resource in collection.content() {
                let key = (name.clone(), resource.name.to_string(), resource.version.to_string());
                let known = recorded.resources.entry(key).or_insert_with(|| Arc::clone(resource));
                assert_eq!(known, resource, "{name}: one version of two contents");
            }
        }
    }
}

/// A sink that takes what is published now and then.
#[derive(Default)]
struct Sink(BTreeMap<String, (String, Vec<Arc<Resource>>)>);

impl Sink {
    fn take(&mut self, recorder: &Recorder) {
        for snapshot in recorder.0.lock().last.values() {
            for collection in snapshot.collections() {
                let held = self.0.get(&**collection.name()).map(|(version, _)| version.as_str());
                if held != Some(&**collection.version()) {
                    let content = collection.content().iter().cloned().collect();
                    self.0.insert(collection.name().to_string(), (collection.version().to_string(), content));
                }
            }
        }
    }
}

/// A schedule.
struct Stage {
    options: Options,
    documents: Documents,
    sources: Vec<Model>,
    pipeline: Option<Pipeline>,
    recorder: Recorder,
    sinks: [Sink; 2],
    now: Instant,
    /// Each source numbers its own resources.
    versions: [u64; 3],
    random: fastrand::Rng,
}

impl Stage {
    fn new(seed: u64, start: Instant) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let face = if random.bool() { Face::First } else { Face::Second };
        let debounce = Debounce { quiet: 5 * MILLISECOND, max_wait: 20 * MILLISECOND };
        let options = Options {
            face,
            excluded_kinds: Vec::new(),
            service_discovery: true,
            debounce,
            ..Options::default()
        };
        let pipeline = Pipeline::new(&options, feeds(), Published::default(), Arc::default());
        Self {
            documents: Documents { converter: Converter::new(&options), known: HashMap::new() },
            options,
            sources: feeds().iter().map(|_| Model::default()).collect(),
            pipeline: Some(pipeline),
            recorder: Recorder::default(),
            sinks: Default::default(),
            now: start,
            versions: [0; 3],
            random,
        }
    }

    fn pipeline(&mut self) -> &mut Pipeline {
        self.pipeline.as_mut().unwrap()
    }

    /// A resource of a source is made, changed or deleted.
    fn edit(&mut self) {
        let source = self.random.usize(..self.sources.len());
        let feeds = &feeds()[source];
        let of = feeds[self.random.usize(..feeds.len())];
        let name = if of == MESH_CONFIG { "mesh" } else { NAMES[self.random.usize(..NAMES.len())] };
        let deletes = of != MESH_CONFIG && self.random.u8(..4) == 0;
        let event = if deletes {
            let Some(entry) = self.sources[source].content.remove(&(of, name)) else { return };
            Event::delete(of, entry.resource.name.clone())
        } else {
            self.versions[source] += 1;
            let variant = self.random.u64(..VARIANTS);
            let entry = self.documents.entry(of, name, variant, self.versions[source]);
            self.sources[source].content.insert((of, name), entry.clone());
            Event::put(of, entry)
        };
        let model = &mut self.sources[source];
        if model.generation > 0 {
            model.queue.push_back((model.generation, event));
        }
    }

    /// Some of what a source has queued arrives.
    fn deliver(&mut self, source: usize, most: usize) {
        let now = self.now;
        let model = &mut self.sources[source];
        let count = model.queue.len().min(most);
        let mut batches: Vec<(u64, Batch)> = Vec::new();
        for (generation, event) in model.queue.drain(..count) {
            match batches.last_mut() {
                Some((last, batch)) if *last == generation => batch.push(event),
                _ => batches.push((generation, vec![event])),
            }
        }
        for (generation, batch) in batches {
            self.pipeline().receive(source, generation, batch, now, &mut |_| ());
        }
    }

    /// A source starts, for the first time or again. What it queued before comes too late, or never.
    fn restart(&mut self, source: usize) {
        let model = &mut self.sources[source];
        if self.random.bool() {
            model.queue.clear();
        }
        model.start(&feeds()[source], &mut self.random);
        let generation = model.generation;
        self.pipeline().started(source, generation);
    }

    /// The pipeline fails: another one takes its place, and all sources start again.
    fn fail(&mut self) {
        let published = self.pipeline.take().map(Pipeline::into_published).unwrap_or_default();
        self.pipeline = Some(Pipeline::new(&self.options, feeds(), published, Arc::default()));
        for source in 0..self.sources.len() {
            self.restart(source);
        }
    }

    /// Time passes: what is due is published.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut rounds = 0;
        while let Some(due) = self.pipeline().due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            let (now, pipeline) = (self.now, self.pipeline.as_mut().unwrap());
            pipeline.publish(now, &self.recorder);
            rounds += 1;
            assert!(rounds < 100, "what is due stays due");
        }
        self.now = end;
    }

    fn step(&mut self) {
        match self.random.u8(..32) {
            0..10 => self.edit(),
            10..20 => {
                let (source, most) = (self.random.usize(..self.sources.len()), self.random.usize(1..8));
                self.deliver(source, most);
            }
            20..25 => {
                let time = self.random.u32(..12);
                self.pass(time * MILLISECOND);
            }
            25..27 => {
                let source = self.random.usize(..self.sources.len());
                self.restart(source);
            }
            27..29 => self.sinks[0].take(&self.recorder),
            29 => self.sinks[1].take(&self.recorder),
            30 => self.sinks[self.random.usize(..2)] = Sink::default(),
            _ if self.random.u8(..4) == 0 => self.fail(),
            _ => {}
        }
    }

    /// Everything arrives.
    fn settle(&mut self) {
        for source in 0..self.sources.len() {
            if self.sources[source].generation == 0 {
                self.restart(source);
            }
            self.deliver(source, usize::MAX);
        }
        self.pass(Duration::from_secs(10));
        let recorder = &self.recorder;
        self.sinks.iter_mut().for_each(|sink| sink.take(recorder));
    }

    /// What a pipeline publishes that starts now.
    fn fresh(&mut self) -> Sink {
        let mut pipeline = Pipeline::new(&self.options, feeds(), Published::default(), Arc::default());
        let feeds = feeds();
        for (source, model) in self.sources.iter().enumerate() {
            pipeline.started(source, 1);
            let all = model.content.iter().map(|((of, _), entry)| Event::put(of, entry.clone()));
            let all = all.chain(feeds[source].iter().map(|of| Event::full_sync(of)));
            pipeline.receive(source, 1, all.collect(), self.now, &mut |_| ());
        }
        let (recorder, mut sink) = (Recorder::default(), Sink::default());
        pipeline.publish(self.now + Duration::from_secs(10), &recorder);
        sink.take(&recorder);
        sink
    }
}

/// What a sink holds, without the versions that depend on the way.
fn held(sink: &Sink) -> Vec<(String, Vec<Resource>)> {
    let content = |name: &str, resources: &[Arc<Resource>]| {
        let plain = |resource: &Arc<Resource>| {
            let mut resource = Resource::clone(resource);
            if name.contains("synthetic") || resource.name.contains("autogenerated") {
                resource.version = "".into();
            }
            resource
        };
        resources.iter().map(plain).collect()
    };
    sink.0.iter().map(|(name, (_, resources))| (name.clone(), content(name, resources))).collect()
}

#[test]
fn any_schedule_ends_as_a_fresh_start() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (count, first) = (setting("MIXER_SCHEDULES").unwrap_or(300), setting("MIXER_SEED").unwrap_or(1));
    let start = Instant::now();
    let (mut publications, mut restarts) = (0usize, 0u64);
    for seed in first..first + count {
        let mut stage = Stage::new(seed, start);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..stage.random.usize(10..120) {
                stage.step();
            }
            stage.settle();
            let fresh = held(&stage.fresh());
            assert!(!fresh.is_empty(), "everything is synced");
            for sink in &stage.sinks {
                assert_eq!(held(sink), fresh, "what a sink holds, and a fresh start");
            }
        }));
        publications += stage.recorder.0.lock().collections.len();
        restarts += stage.sources.iter().map(|model| model.generation.saturating_sub(1)).sum::<u64>();
        if let Err(panic) = ran {
            eprintln!("schedule {seed}: repeat it with MIXER_SEED={seed} MIXER_SCHEDULES=1");
            std::panic::resume_unwind(panic);
        }
    }
    println!("{count} schedules, {publications} versions of collections, {restarts} restarts of sources");
}

#[test]
fn what_ends_with_its_generation_is_dropped() {
    let mut stage = Stage::new(1, Instant::now());
    let entry = stage.documents.entry(GATEWAYS, "a", 0, 1);
    let now = stage.now;
    let put = |entry: &Entry| vec![Event::put(GATEWAYS, entry.clone()), Event::full_sync(GATEWAYS)];
    let pipeline = stage.pipeline();
    pipeline.receive(0, 1, put(&entry), now, &mut |_| ());
    assert!(pipeline.input_names(GATEWAYS).is_empty(), "it was never started");
    pipeline.started(0, 1);
    pipeline.receive(0, 1, put(&entry), now, &mut |_| ());
    assert_eq!(pipeline.input_names(GATEWAYS).len(), 1);
    pipeline.started(0, 2);
    let deletion = vec![Event { collection: GATEWAYS, change: Change::Delete(entry.resource.name.clone()) }];
    pipeline.receive(0, 1, deletion, now, &mut |_| ());
    assert_eq!(pipeline.input_names(GATEWAYS).len(), 1, "what is left of the first start comes too late");
    pipeline.receive(0, 2, vec![Event::full_sync(GATEWAYS)], now, &mut |_| ());
    assert!(pipeline.input_names(GATEWAYS).is_empty(), "the second start delivers nothing");
}
