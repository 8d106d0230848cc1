//! Roles and bindings in a directory of their own.
//!
//! What cannot be read or decoded changes nothing: each resource goes on in its last good version, and nothing that may only be
//! unreadable counts as deleted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::kinds::RbacKinds;
use super::policy::Policy;
use super::resources::{self, RbacResource};
use crate::AdapterOptions;
use crate::version::next_version;
use mixer_base::task::Task;
use mixer_config::store::{self, ConfigStore, StoreContents};
use mixer_config::text_index::{TextIndex, texts_of};
use mixer_config::{Diagnostic, Diagnostics, FieldPath, RawResource, ResourceKey, Severity};
use mixer_engine::adapter::{BuildError, Env};
use mixer_engine::check_cache::AnswerEpoch;
use mixer_engine::snapshot::{SnapshotExtension as _, unsupported_annotations};

/// What serves.
#[derive(Debug)]
pub(super) struct State {
    pub(super) policy: Arc<Policy>,
    /// Another one after each change; 0 for the roles of a configuration.
    pub(super) version: u64,
    /// Why it is not what the directory says.
    pub(super) trouble: Option<String>,
}

impl State {
    /// A policy as written.
    pub(super) fn of(policy: Arc<Policy>) -> Self {
        Self { policy, version: 0, trouble: None }
    }
}

/// Follows a store.
pub(super) struct Following {
    store: Box<dyn ConfigStore>,
    state: Arc<ArcSwap<State>>,
    /// The last good version of each resource.
    good: BTreeMap<ResourceKey, Good>,
    handler_name: Arc<str>,
    /// Whether what permits more than it says is accepted, as in Istio Mixer.
    as_istio_mixer: bool,
    answers: Arc<AnswerEpoch>,
    /// Whether a change was announced and is not applied: that of a task that panicked.
    is_due: bool,
}

struct Good {
    raw: Arc<RawResource>,
    decoded: RbacResource,
}

impl Following {
    /// Reads the store at `url` once, and follows it until the handler closes. Errors: there is none, or it cannot be read.
    pub(super) async fn begin(url: &str, env: &Env) -> Result<Arc<ArcSwap<State>>, BuildError> {
        let store = store::open(url).map_err(|error| {
            BuildError::Refused(format!("Unable to connect to the configuration server: {error}"))
        })?;
        store.loaded().await;
        let contents = store.contents();
        if let Some(why) = &contents.unavailable {
            return Err(BuildError::Refused(format!("Unable to start controller: {why}")));
        }
        let state = Arc::new(ArcSwap::from_pointee(State::of(Arc::default())));
        let handler_name = Arc::clone(&env.handler_name);
        let mut following = Self {
            store,
            state: Arc::clone(&state),
            good: BTreeMap::new(),
            handler_name,
            as_istio_mixer: env.commons.get::<AdapterOptions>().as_istio_mixer,
            answers: env.commons.get::<AnswerEpoch>(),
            is_due: false,
        };
        following.apply(&contents);
        let following = Arc::new(tokio::sync::Mutex::new(following));
        env.tasks.spawn(Task::restarted("rbac roles").of(&*env.handler_name), move || {
            let following = Arc::clone(&following);
            async move { following.lock().await.run().await }
        });
        Ok(state)
    }

    async fn run(&mut self) {
        loop {
            if !self.is_due {
                self.store.changed().await;
            }
            self.is_due = true;
            let contents = self.store.contents();
            self.apply(&contents);
            self.is_due = false;
        }
    }

    /// Publishes what the store has, and what is good of what it had.
    fn apply(&mut self, contents: &StoreContents) {
        let errors = self.update(contents);
        let all: Vec<_> = self.good.values().map(|good| (&*good.raw, &good.decoded)).collect();
        let (policy, warnings) = resources::assemble(&all);
        let trouble = errors.first().map(|first| {
            let more = errors.len() - 1;
            let more = if more == 0 { String::new() } else { format!("; and {more} more") };
            format!("the last good version of what has errors serves: {}{more}", first.brief())
        });
        let before = self.state.load();
        if trouble.is_some() && trouble != before.trouble {
            for error in &errors {
                tracing::error!(target: "adapters", adapter = &*self.handler_name, "{}", error.brief());
            }
        }
        for warning in warnings.iter().filter(|problem| problem.severity == Severity::Warning) {
            tracing::warn!(target: "adapters", adapter = &*self.handler_name, "{}", warning.brief());
        }
        let counts = policy.counts();
        tracing::info!(
            target: "adapters",
            adapter = &*self.handler_name,
            roles = counts.roles,
            bindings = counts.bindings,
            "Installing updated roles"
        );
        self.state.store(Arc::new(State { policy, version: next_version(), trouble }));
        self.answers.advance();
    }

    /// Decodes what changed. Returns the errors because of which something serves in its last good version, or not yet.
    fn update(&mut self, contents: &StoreContents) -> Diagnostics {
        let mut errors: Diagnostics = contents
            .diagnostics
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .cloned()
            .collect();
        if let Some(why) = &contents.unavailable {
            errors.push(Diagnostic::error("store-unreadable", Default::default(), why.clone()));
        }
        if !self.as_istio_mixer {
            errors.extend(self.mistaken_kinds(contents));
        }
        // What is not read may have what is missing.
        let is_complete = errors.is_empty();
        let doubtful = Doubtful::of(contents);
        // What is as good as before, and what serves in its last good version because of an error.
        let (mut next, mut kept) = (BTreeMap::new(), Vec::new());
        for raw in contents.resources.iter().filter(|raw| is_own(&raw.key)) {
            if self.good.get(&raw.key).is_some_and(|good| good.raw.revision == raw.revision) {
                if is_unread(contents, raw) {
                    kept.push(raw.key.clone());
                }
                continue;
            }
            // The store has said why.
            if !self.as_istio_mixer && doubtful.has(raw) {
                kept.push(raw.key.clone());
                continue;
            }
            match resources::decode(raw, &|text| text.to_owned()) {
                Ok(decoded) => {
                    let mut refused = decoded.openings(raw);
                    refused
                        .extend(unsupported_annotations(raw).into_iter().map(|problem| placed(problem, raw)));
                    if !self.as_istio_mixer && !refused.is_empty() {
                        errors.extend(refused);
                        kept.push(raw.key.clone());
                        continue;
                    }
                    let good = Good { raw: Arc::clone(raw), decoded };
                    next.insert(raw.key.clone(), good);
                }
                Err(problems) => {
                    kept.push(raw.key.clone());
                    errors.extend(problems.into_iter().map(|problem| placed(problem, raw)));
                }
            }
        }
        if is_complete {
            self.good.retain(|key, _| contents.resources.contains_key(key));
        } else {
            kept.extend(self.good.keys().filter(|key| !contents.resources.contains_key(key)).cloned());
        }
        if !self.as_istio_mixer {
            self.hold_back(kept, &mut next, contents);
        }
        self.good.extend(next);
        errors
    }

    /// Errors of resources that are missing, while their files have resources of their names and of no kind of the adapter: the kind was
    /// changed, and nobody knows that it was a role or a binding.
    fn mistaken_kinds(&self, contents: &StoreContents) -> Vec<Diagnostic> {
        let of_other_kinds = contents.resources.iter().filter(|raw| !is_own(&raw.key));
        let others: HashMap<_, _> = of_other_kinds.map(|raw| (place_of(raw), raw)).collect();
        let missing = self.good.values().filter(|good| !contents.resources.contains_key(&good.raw.key));
        let found = missing.filter_map(|good| {
            let raw = others.get(&place_of(&good.raw))?;
            let (was, is) = (&good.raw.key.kind, &raw.key.kind);
            let field = FieldPath::root().field("kind");
            let span = raw.document().at(&field).span;
            let text = format!("kind `{is}` is none of roles and bindings; it was `{was}`");
            let mut problem = Diagnostic::error("kind-unknown", field, text);
            problem.resource = raw.key.to_string();
            problem.hint = Some(format!("write `kind: {was}`, or delete the resource"));
            problem.span = Some(span);
            Some(placed(problem, raw))
        });
        found.collect()
    }

    /// Takes out of `next` what changed together with what serves in its last good version: what names it or is named by it, in any of
    /// their versions, and so on.
    fn hold_back(
        &self,
        mut kept: Vec<ResourceKey>,
        next: &mut BTreeMap<ResourceKey, Good>,
        contents: &StoreContents,
    ) {
        kept.retain(|key| self.good.contains_key(key));
        if kept.is_empty() || next.is_empty() {
            return;
        }
        let texts = |key: &ResourceKey| {
            let mut texts = texts_of(self.good.get(key).map(|good| &*good.raw));
            texts.extend(texts_of(contents.resources.get(key).map(|raw| &**raw)));
            texts
        };
        let mut index = TextIndex::default();
        next.keys().for_each(|key| index.add(key, &texts(key)));
        while let Some(key) = kept.pop() {
            let with = index.connected(&key, &texts(&key)).into_iter();
            kept.extend(with.filter(|other| next.remove(other).is_some()));
        }
    }
}

/// Whether a resource is of a kind of the adapter.
fn is_own(key: &ResourceKey) -> bool {
    RbacKinds.kinds().contains(&&*key.kind)
}

/// File, namespace and name.
fn place_of(raw: &RawResource) -> [&str; 3] {
    [&raw.origin.file, &raw.key.namespace, &raw.key.name]
}

/// Whether the present contents of the file of a resource are unknown.
fn is_unread(contents: &StoreContents, raw: &RawResource) -> bool {
    let file = Path::new(&*raw.origin.file);
    let mut broken = contents.broken.iter().filter(|broken| broken.keeps_last);
    contents.changing.contains(&raw.origin.file) || broken.any(|broken| file.starts_with(&*broken.file))
}

/// A problem of a resource, at its place in the file.
fn placed(mut problem: Diagnostic, resource: &RawResource) -> Diagnostic {
    problem.file = Some(Arc::clone(&resource.origin.file));
    problem.span = problem.span.map(|span| resource.origin.in_file(span));
    problem
}

/// What a store calls an error, and reads all the same: of a resource that is written twice and differently, of duplicate keys, and of several
/// documents in one, it takes a part.
struct Doubtful<'c> {
    names: HashSet<&'c str>,
    /// File and first line.
    chunks: HashSet<(&'c str, u32)>,
}

impl<'c> Doubtful<'c> {
    fn of(contents: &'c StoreContents) -> Self {
        let errors = || contents.diagnostics.iter().filter(|problem| problem.severity == Severity::Error);
        let names = errors().map(|problem| problem.resource.as_str()).filter(|name| !name.is_empty());
        let chunks = errors().filter_map(|problem| Some((&**problem.file.as_ref()?, problem.chunk?.line)));
        Self { names: names.collect(), chunks: chunks.collect() }
    }

    fn has(&self, resource: &RawResource) -> bool {
        let chunk = || (&*resource.origin.file, resource.origin.first_line);
        !(self.names.is_empty() && self.chunks.is_empty())
            && (self.names.contains(&*resource.key.to_string()) || self.chunks.contains(&chunk()))
    }
}
