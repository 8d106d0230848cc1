//! Why contents of a directory are not taken over.

use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use mixer_base::load::{self, Load};
use mixer_config::store::read_document;
use mixer_config::store::refill::{LIMIT, QUIET, no_configuration};
use mixer_config::{Diagnostic, FieldPath, NodeKind, RawResource, ResourceKey, Severity};

use super::meant::{group_of, is_meant_for_us, stands_for_ours};
use super::{Files, Found, Kept, Source, placed};
use crate::convert::{decides, is_of_engine};

/// The code of a directory or file that cannot be read.
const STORE: &str = "store-unreadable";
/// What to do about a directory that is empty at a start.
const MAY_BE_EMPTY: &str = "it may not be mounted yet: fill it, or set --allow-empty-config if that is meant";
/// When a directory without resources is meant.
const ONLY: &str = "if sinks are to have nothing of it, --allow-empty-config publishes that";
/// The code of a field, or a name, that has no effect.
const POLICY: &str = "document-field";
/// Kinds of which a resource without a spec means nothing, unlike those of some adapters and templates.
const NEED_SPEC: [&str; 8] = [
    "adapter",
    "attributemanifest",
    "handler",
    "instance",
    "rule",
    "template",
    "ServiceRole",
    "ServiceRoleBinding",
];

/// Why contents are not taken over.
pub(super) struct Flaw {
    pub(super) problem: Diagnostic,
    /// They are after some time.
    pub(super) is_delay: bool,
}

/// That a file is not read because of its name which has what is gone with another file.
fn misnamed(found: &Found<'_>) -> Option<String> {
    let &Found { contents: next, gone, .. } = found;
    if next.misnamed.is_empty() || gone.is_empty() {
        return None;
    }
    let read: FxHashSet<&str> = next.resources.iter().map(|resource| &*resource.origin.file).collect();
    let gone = gone.iter().filter(|resource| !read.contains(&*resource.origin.file));
    let gone: FxHashSet<&ResourceKey> = gone.map(|resource| &resource.key).collect();
    let (_, file) = next.misnamed.iter().find(|(key, _)| gone.contains(key))?;
    Some(format!(
        "{file} is not read, and has what is gone with another file: its name does not end in .yaml or .yml"
    ))
}

impl From<Diagnostic> for Flaw {
    fn from(problem: Diagnostic) -> Self {
        Self { problem, is_delay: false }
    }
}

impl Files {
    /// Why contents are not taken over: what they lack may not have been deleted.
    pub(super) fn flaw(&self, found: &Found<'_>, state: &Kept) -> Option<Flaw> {
        let &Found { contents: next, gone, changed, .. } = found;
        if !self.options.keeps_last {
            return None;
        }
        let about_store = |why: String| Flaw::from(Diagnostic::error(STORE, FieldPath::root(), why));
        if let Some(why) = &state.mismatch {
            return Some(about_store(why.clone()));
        }
        if let Some(unread) = next.unread().into_iter().next() {
            return Some(unread.problem.into());
        }
        if let Some(why) = &next.unavailable {
            return Some(about_store(why.clone()));
        }
        if let Some(file) = next.unsettled() {
            return Some(about_store(format!("{file} is being changed")));
        }
        if self.is_emptied(found) {
            return Some(about_store(no_configuration("--config-path", ONLY)));
        }
        // What it had before this start is unknown, or is there no more.
        let may_be_lost = |directory: &&Arc<str>| {
            let is_below =
                |resource: &Arc<RawResource>| Path::new(&*resource.origin.file).starts_with(&***directory);
            !state.has_read || gone.iter().any(is_below)
        };
        let lost = next.always_empty.iter().find(may_be_lost).filter(|_| !self.options.allows_empty);
        if let Some(directory) = lost {
            return Some(about_store(format!("{directory} is empty; {MAY_BE_EMPTY}")));
        }
        if let Some(why) = misnamed(found) {
            return Some(about_store(why));
        }
        if let Some(cause) = state.refill.expected() {
            let (quiet, limit) = (QUIET.as_secs(), LIMIT.as_secs());
            let why = format!(
                "{}: it is published when nothing has changed for {quiet} s, or after {limit} s",
                cause.text()
            );
            // What is empty is not filled by itself.
            let is_delay = state.refill.due().is_some();
            return Some(Flaw { is_delay, ..about_store(why) });
        }
        let mut errors =
            next.diagnostics.iter().filter(|problem| problem.severity == Severity::Error).peekable();
        let of_store = errors.peek().is_some().then(|| {
            // What another document replaces may be a rule that has the wrong name: it is gone, and nothing of what is seen has changed.
            let deciding = changed.iter().chain(&next.overridden).filter(|resource| self.decides(resource));
            let names: FxHashSet<String> = deciding.map(|resource| resource.key.to_string()).collect();
            errors.find(|problem| names.contains(&problem.resource)).cloned()
        });
        let load = Load::begin(self.name(), "documents", "checked", changed.len());
        let error_of = |resource: &Arc<RawResource>| {
            let error = self.error_of(resource);
            load::documents_done(load.id(), 1);
            error
        };
        let found = of_store.flatten().or_else(|| changed.iter().find_map(error_of));
        found.map(Flaw::from)
    }

    /// Whether a document is of a kind that decides about requests.
    pub(super) fn decides(&self, resource: &RawResource) -> bool {
        self.kind(resource).is_ok_and(decides)
    }

    /// Why a document that decides about requests, or may be meant to, does not do what it says.
    pub(super) fn error_of(&self, resource: &RawResource) -> Option<Diagnostic> {
        let error =
            |field: FieldPath, text: String| Some(placed(Diagnostic::error(POLICY, field, text), resource));
        // With what an object of Kubernetes needs no more than a name for.
        let whole = read_document(resource.origin.clone());
        let kind = match self.kind(resource) {
            Ok(kind) => kind,
            Err(problems) => {
                let is_ours = is_meant_for_us(resource)
                    || stands_for_ours(resource)
                    || whole.is_some_and(|whole| whole.envelope.is_like_ours);
                return problems
                    .into_iter()
                    .next()
                    .filter(|_| is_ours)
                    .map(|problem| placed(problem, resource));
            }
        };
        let group = group_of(resource);
        if is_of_engine(group) && !is_of_engine(kind.group) {
            let field = FieldPath::root().field("kind");
            return error(field, format!("`{}` is no kind of {group}: correct one of them", kind.kind));
        }
        if !decides(kind) {
            // Of its own kind it says nothing: it may be a rule that has the wrong one.
            if !whole.is_some_and(|whole| whole.envelope.is_like_ours) {
                return None;
            }
            if !self.options.reads(kind) {
                let field = FieldPath::root().field("kind");
                return error(field, format!("`{}` is no kind with such contents: correct it", kind.kind));
            }
            let converted = self.converter.convert(kind, &resource.document(), "");
            let problems = converted.map_or_else(|all| all, |good| good.warnings);
            return problems.into_iter().next().map(|problem| placed(problem, resource));
        }
        if !self.options.reads(kind) {
            return None;
        }
        let Some(whole) = whole else {
            let text = "it has no name or no namespace, or one that YAML reads as something else than text";
            return error(FieldPath::root().field("metadata"), text.to_owned());
        };
        if let Some(field) = whole.envelope.unknown.first() {
            let text = match &*field.name {
                name @ ("name" | "namespace") => {
                    format!(
                        "`{name}` is no text, or not where it has an effect: quote its value in `metadata`"
                    )
                }
                name => format!("`{name}` has no effect where it is"),
            };
            return error(FieldPath::root(), text);
        }
        if let Some(name) = whole.envelope.untyped_annotations.first() {
            return error(
                FieldPath::root(),
                format!("the value of annotation `{name}` is no text: quote it"),
            );
        }
        let document = resource.document();
        let has_spec = document.get("spec").is_some_and(|spec| !matches!(spec.kind, NodeKind::Null));
        if !has_spec && NEED_SPEC.contains(&kind.kind) {
            return error(
                FieldPath::root().field("spec"),
                "it has no spec: it may have been cut off".to_owned(),
            );
        }
        let problems = self.converter.convert(kind, &document, "").err();
        problems.into_iter().flatten().next().map(|problem| placed(problem, resource))
    }
}
