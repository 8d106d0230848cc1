//! The mesh configuration, from a file over defaults. Spec: galley.md, "Mesh configuration".

use std::cell::Cell;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use mixer_base::time::Timestamp;
use mixer_config::store::{ConfigStore, IdentityRule, Reading, StoreContents, WhenLost, open_path};
use mixer_config::{Diagnostic, FieldPath, MappingEntry, Node, NodeKind, yaml};
use mixer_mcp::Resource;
use mixer_schema::{MESH_CONFIG, by_collection};

use super::{Emitter, Ended, Source, Stopped};
use crate::convert::{type_url, without_value};
use crate::error::StartError;
use crate::event::{Entry, Event};
use crate::object::{IngressMode, MeshSettings, Object};
use crate::options::{Face, Options};

/// The code of a file that cannot be read.
const STORE: &str = "store-unreadable";
/// The name of the resource.
const NAME: &str = "istio-system/meshconfig";

/// What a mesh has unless its file says otherwise.
const DEFAULTS: &str = "
accessLogFile: /dev/stdout
connectTimeout: 1s
defaultConfig:
  binaryPath: /usr/local/bin/envoy
  configPath: /etc/istio/proxy
  connectTimeout: 1s
  discoveryAddress: istio-pilot:15010
  drainDuration: 45s
  envoyAccessLogService: {}
  envoyMetricsService: {}
  parentShutdownDuration: 60s
  proxyAdminPort: 15000
  serviceCluster: istio-proxy
  statNameLength: 189
defaultDestinationRuleExportTo: ['*']
defaultServiceExportTo: ['*']
defaultVirtualServiceExportTo: ['*']
disablePolicyChecks: true
dnsRefreshRate: 5s
enableTracing: true
ingressService: istio-ingressgateway
outboundTrafficPolicy: {mode: ALLOW_ANY}
protocolDetectionTimeout: 0.1s
proxyListenPort: 15001
rootNamespace: istio-system
";

/// What the second face has beside these.
const INGRESS_DEFAULTS: &str = "{ingressClass: istio, ingressControllerMode: STRICT}";

/// The field whose own fields have defaults of their own.
const PROXY: &str = "defaultConfig";

/// The mesh configuration.
pub struct Mesh {
    store: Option<Box<dyn ConfigStore>>,
    face: Face,
    keeps_last: bool,
    state: Mutex<Kept>,
}

/// What outlives a start of the source.
struct Kept {
    entry: Option<Entry>,
    /// How many different ones there were.
    number: u64,
    started: Option<Timestamp>,
}

impl Mesh {
    /// That of a file, or the defaults. The file is read again when it changes.
    ///
    /// Errors: the directory of the file does not exist.
    pub fn new(file: Option<&Path>, options: &Options) -> Result<Arc<Self>, StartError> {
        let store = file.map(|file| {
            let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
            if let Some(Err(error)) = directory.map(std::fs::metadata) {
                let why = match error.kind() {
                    std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
                    _ => error.to_string(),
                };
                return Err(StartError::Source(format!("mesh configuration {}: {why}", file.display())));
            }
            let reading = Reading { identity: IdentityRule::Kind, ..Reading::default() };
            Ok(open_path(file, WhenLost::Keep, reading))
        });
        Ok(Self::of(store.transpose()?, options))
    }

    /// That of the only document of a store, or the defaults.
    pub fn of(store: Option<Box<dyn ConfigStore>>, options: &Options) -> Arc<Self> {
        // Sinks see when the process started.
        let started = (options.face == Face::First).then(|| Timestamp::from_system_time(SystemTime::now()));
        let kept = Kept { entry: None, number: 0, started };
        Arc::new(Self { store, face: options.face, keeps_last: options.keeps_last, state: Mutex::new(kept) })
    }

    /// The current document; an empty one if there is none.
    fn document(&self) -> Option<Node> {
        let contents = self.store.as_ref()?.contents();
        contents.resources.iter().next().map(|resource| resource.document())
    }

    /// Why contents are not taken over, with [`Options::keeps_last`]: the defaults check no policies and let every call out.
    fn flaw(&self, contents: &StoreContents) -> Option<Diagnostic> {
        let about_store = |why: String| Diagnostic::error(STORE, FieldPath::root(), why);
        if let Some(unread) = contents.unread().into_iter().next() {
            return Some(unread.problem);
        }
        if let Some(why) = &contents.unavailable {
            return Some(about_store(why.clone()));
        }
        contents.unsettled().map(|file| about_store(format!("{file} is being changed")))
    }

    /// Takes over what the file says now. Returns what to deliver; nothing if that is the same, or cannot be used.
    fn take(&self, out: &Emitter) -> Option<Entry> {
        let mut state = self.state.lock();
        let contents = self.store.as_ref().map(|store| store.contents());
        let mut problems: Vec<Diagnostic> =
            contents.iter().flat_map(|contents| contents.diagnostics.clone()).collect();
        let flaw = contents.as_ref().filter(|_| self.keeps_last).and_then(|contents| self.flaw(contents));
        let is_broken =
            flaw.is_some() || contents.as_ref().is_some_and(|contents| !contents.broken.is_empty());
        if let Some(flaw) = flaw.filter(|flaw| !problems.contains(flaw)) {
            problems.insert(0, flaw);
        }
        out.health().connected(true);
        // Without any version the defaults are in effect, unless a file is to say something else.
        let has_none = state.entry.is_none() && !self.keeps_last;
        let document = match (is_broken, has_none) {
            (true, false) => None,
            (true, true) => Some(Node::default()),
            (false, _) => Some(self.document().unwrap_or_default()),
        };
        let is_held = Cell::new(self.keeps_last && is_broken);
        let entry = document.and_then(|document| match self.entry(&document) {
            Ok((entry, warnings)) => {
                problems.extend(warnings);
                Some(entry)
            }
            Err(errors) => {
                is_held.set(self.keeps_last);
                problems.extend(errors);
                has_none.then(|| self.entry(&Node::default()).ok().map(|(entry, _)| entry)).flatten()
            }
        });
        let consequence = match (is_held.get(), state.entry.is_some()) {
            (false, _) => "",
            (true, true) => "the last one stays: ",
            (true, false) => "nothing is published until it is mended: ",
        };
        match problems.first() {
            Some(problem) => {
                tracing::error!("mesh configuration: {consequence}{}", problem.brief());
                out.health().failed(format!("{consequence}{}", problem.brief()));
            }
            None => out.health().mended(),
        }
        let held = problems.first().filter(|_| is_held.get());
        out.health().held(held.map(|problem| format!("{consequence}{}", problem.brief())));
        out.health().problems(usize::from(is_broken), problems);
        let entry = entry?;
        let is_same = state.entry.as_ref().is_some_and(|old| old.resource.body == entry.resource.body);
        if is_same {
            return None;
        }
        state.number += 1;
        let version = match (self.face, state.number) {
            (Face::Second, 1) => String::new(),
            (_, number) => number.to_string(),
        };
        let resource = Resource {
            version: version.into(),
            create_time: state.started,
            ..Resource::clone(&entry.resource)
        };
        let entry = Entry { resource: Arc::new(resource), ..entry };
        state.entry = Some(entry.clone());
        Some(entry)
    }

    fn has_entry(&self) -> bool {
        self.state.lock().entry.is_some()
    }

    /// The resource of a document over the defaults.
    ///
    /// Errors: what does not decode; of the second face, and with [`Options::keeps_last`], unknown fields as well.
    fn entry(&self, document: &Node) -> Result<(Entry, Vec<Diagnostic>), Vec<Diagnostic>> {
        let mut merged = parsed(DEFAULTS);
        if self.face == Face::Second {
            over(&mut merged, &parsed(INGRESS_DEFAULTS));
        }
        over(&mut merged, document);
        let kind = by_collection(MESH_CONFIG).ok_or_else(Vec::new)?;
        let encoded = mixer_schema::encode(kind, &merged)?;
        let mut warnings = encoded.warnings.clone();
        if self.keeps_last {
            // A field without a value has the default.
            without_value(document, &FieldPath::root(), kind, &mut warnings);
        }
        if (self.face == Face::Second || self.keeps_last) && !warnings.is_empty() {
            return Err(warnings);
        }
        let resource = Resource::new(NAME, "", type_url(kind), encoded.body);
        let object = Some(Arc::new(Object::Mesh(settings(&merged))));
        Ok((Entry { resource: Arc::new(resource), object }, encoded.warnings))
    }

    async fn follow(&self, out: &Emitter) -> Result<Infallible, Stopped> {
        if let Some(store) = &self.store {
            // Changes are followed from the first read on.
            drop(store.changed());
            store.loaded().await;
        }
        self.take(out);
        if let Some(store) = &self.store {
            while !self.has_entry() {
                store.changed().await;
                self.take(out);
            }
        }
        let first = self.state.lock().entry.clone();
        let put = first.map(|entry| Event::put(MESH_CONFIG, entry));
        out.send(put.into_iter().chain([Event::full_sync(MESH_CONFIG)]).collect()).await?;
        let Some(store) = &self.store else { return std::future::pending().await };
        loop {
            store.changed().await;
            if let Some(entry) = self.take(out) {
                out.send(vec![Event::put(MESH_CONFIG, entry)]).await?;
            }
        }
    }
}

fn parsed(text: &str) -> Node {
    yaml::parse(text).map(|parsed| parsed.root).unwrap_or_default()
}

/// Replaces fields; those of the proxy one by one. Null is no value.
fn over(base: &mut Node, by: &Node) {
    let NodeKind::Mapping(entries) = &mut base.kind else { return };
    let given = by.entries().iter().filter(|entry| !matches!(entry.value.kind, NodeKind::Null));
    for entry in given {
        let is_same = |known: &&mut MappingEntry| same_field(&known.key, &entry.key);
        match entries.iter_mut().find(is_same) {
            Some(known) if &*known.key == PROXY => over(&mut known.value, &entry.value),
            Some(known) => *known = entry.clone(),
            None => entries.push(entry.clone()),
        }
    }
}

/// Whether two spellings, `lowerCamelCase` or `snake_case`, name one field.
fn same_field(a: &str, b: &str) -> bool {
    let letters = |name: &str| name.replace('_', "").to_ascii_lowercase();
    letters(a) == letters(b)
}

fn settings(merged: &Node) -> MeshSettings {
    let field = |name: &str| {
        let found = merged.entries().iter().find(|entry| same_field(&entry.key, name));
        found.map(|entry| &entry.value)
    };
    let mode = field("ingressControllerMode").map(|node| &node.kind);
    let ingress_mode = match mode {
        Some(NodeKind::String(name)) if &**name == "DEFAULT" => IngressMode::Default,
        Some(NodeKind::String(name)) if &**name == "STRICT" => IngressMode::Strict,
        Some(NodeKind::Int(1)) => IngressMode::Default,
        Some(NodeKind::Int(2)) => IngressMode::Strict,
        // YAML reads a plain `OFF` as a Boolean.
        _ => IngressMode::Off,
    };
    let ingress_class = field("ingressClass").and_then(Node::as_str).unwrap_or_default().into();
    MeshSettings { ingress_mode, ingress_class }
}

impl Source for Mesh {
    fn name(&self) -> String {
        match &self.store {
            Some(store) => format!("mesh configuration {}", store.url().trim_start_matches("fs://")),
            None => "mesh configuration".to_owned(),
        }
    }

    fn collections(&self) -> Vec<&'static str> {
        vec![MESH_CONFIG]
    }

    fn run(self: Arc<Self>, out: Emitter) -> BoxFuture<'static, Ended> {
        Box::pin(async move {
            match self.follow(&out).await {
                Ok(never) => match never {},
                Err(Stopped) => Ended::Stopped,
            }
        })
    }

    fn reload(&self) {
        self.store.iter().for_each(|store| store.rescan());
    }
}

#[cfg(test)]
mod tests;
