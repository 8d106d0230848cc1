//! The mesh configuration, from a file over defaults. Spec: galley.md, "Mesh configuration".

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use mixer_base::time::Timestamp;
use mixer_config::store::{ConfigStore, IdentityRule, Reading, WhenLost, open_path};
use mixer_config::{Diagnostic, MappingEntry, Node, NodeKind, yaml};
use mixer_mcp::Resource;
use mixer_schema::{MESH_CONFIG, by_collection};

use super::{Emitter, Ended, Source, Stopped};
use crate::convert::type_url;
use crate::error::StartError;
use crate::event::{Entry, Event};
use crate::object::{IngressMode, MeshSettings, Object};
use crate::options::{Face, Options};

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
        Arc::new(Self { store, face: options.face, state: Mutex::new(kept) })
    }

    /// The current document; an empty one if there is none.
    fn document(&self) -> Option<Node> {
        let contents = self.store.as_ref()?.contents();
        contents.resources.iter().next().map(|resource| resource.document())
    }

    /// Takes over what the file says now. Returns what to deliver; nothing if that is the same.
    fn take(&self, out: &Emitter) -> Option<Entry> {
        let mut state = self.state.lock();
        let contents = self.store.as_ref().map(|store| store.contents());
        let mut problems: Vec<Diagnostic> =
            contents.iter().flat_map(|contents| contents.diagnostics.clone()).collect();
        let is_broken = contents.as_ref().is_some_and(|contents| !contents.broken.is_empty());
        out.health().connected(true);
        let document = match (is_broken, &state.entry) {
            (true, Some(_)) => None,
            // Without any version the defaults are in effect.
            (true, None) => Some(Node::default()),
            (false, _) => Some(self.document().unwrap_or_default()),
        };
        let entry = document.and_then(|document| match self.entry(&document) {
            Ok((entry, warnings)) => {
                problems.extend(warnings);
                Some(entry)
            }
            Err(errors) => {
                problems.extend(errors);
                state
                    .entry
                    .is_none()
                    .then(|| self.entry(&Node::default()).ok().map(|(entry, _)| entry))
                    .flatten()
            }
        });
        out.health().mended();
        if let Some(problem) = problems.first() {
            tracing::error!("mesh configuration: {}", problem.brief());
            out.health().failed(problem.brief());
        }
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

    /// The resource of a document over the defaults.
    ///
    /// Errors: what does not decode; of the second face unknown fields as well.
    fn entry(&self, document: &Node) -> Result<(Entry, Vec<Diagnostic>), Vec<Diagnostic>> {
        let mut merged = parsed(DEFAULTS);
        if self.face == Face::Second {
            over(&mut merged, &parsed(INGRESS_DEFAULTS));
        }
        over(&mut merged, document);
        let kind = by_collection(MESH_CONFIG).ok_or_else(Vec::new)?;
        let encoded = mixer_schema::encode(kind, &merged)?;
        if self.face == Face::Second && !encoded.warnings.is_empty() {
            return Err(encoded.warnings);
        }
        let resource = Resource::new(NAME, "", type_url(kind), encoded.body);
        let object = Some(Arc::new(Object::Mesh(settings(&merged))));
        Ok((Entry { resource: Arc::new(resource), object }, encoded.warnings))
    }

    async fn follow(&self, out: &Emitter) -> Result<Infallible, Stopped> {
        if let Some(store) = &self.store {
            store.loaded().await;
        }
        self.take(out);
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
        self.store.iter().for_each(|store| store.reread());
    }
}
