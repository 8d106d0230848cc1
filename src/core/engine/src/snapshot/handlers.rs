//! Handlers: adapters with parameters.

use std::borrow::Cow;
use std::sync::Arc;

use super::annotations;
use super::decode::Handler;
use super::external::{self, ExternalTable, HandlerSource};
use super::forgotten::{self, empty_parameter};
use super::model::HandlerConfig;
use super::problems::ResourceProblems;
use super::unit::{Built, Located};
use crate::adapter::{ErasedAdapter, ErasedParams, Inventory};
use crate::template::{self, Variety};
use mixer_config::message::{decode_over, suggestion};
use mixer_config::{Diagnostic, FieldPath, MappingEntry, Node, NodeKind, Origin, RawResource};

/// The state of a handler resource.
#[derive(Debug, Clone)]
pub(super) enum HandlerState {
    /// Of a built-in adapter.
    Static(Arc<HandlerConfig>),
    /// Of an adapter out of process.
    External {
        /// `None` after an error.
        config: Option<Arc<HandlerConfig>>,
        /// The full names of adapters that it looked up.
        references: Box<[Arc<str>]>,
    },
    /// Of an unknown adapter.
    Unknown,
}

impl HandlerState {
    /// The handler, unless it has an error.
    pub(super) fn config(&self) -> Option<&Arc<HandlerConfig>> {
        match self {
            HandlerState::Static(config) => Some(config),
            HandlerState::External { config, .. } => config.as_ref(),
            HandlerState::Unknown => None,
        }
    }
}

impl Located for HandlerState {
    fn relocate(&mut self, origin: &Origin) {
        if let HandlerState::Static(config) | HandlerState::External { config: Some(config), .. } = self {
            *config = Arc::new(HandlerConfig { origin: origin.clone(), ..HandlerConfig::clone(config) });
        }
    }
}

/// Builds a resource of kind `handler`.
pub(super) fn build_handler(
    resource: &RawResource,
    inventory: Inventory,
    table: &ExternalTable,
    failure: &dyn Fn(&str) -> String,
) -> Built<HandlerState> {
    let mut problems = ResourceProblems::new(resource);
    let path = FieldPath::root().field("spec");
    let mut handler = Handler::default();
    let errors = problems.spec().map_or_else(Vec::new, |spec| decode_over(&mut handler, spec, path.clone()));
    if !errors.is_empty() {
        problems.decode_errors("spec-decode", errors, failure);
        return Built::Unconvertible(problems.list);
    }
    if handler.compiled_adapter.is_empty() {
        let source = HandlerSource { handler, inventory, table };
        let (config, references) = external::build_handler(resource, source, &mut problems);
        return Built::Done(HandlerState::External { config, references }, problems.list);
    }
    let Some(adapter) = inventory.find(&handler.compiled_adapter) else {
        problems.push(unknown_adapter(inventory, &handler.compiled_adapter, path.field("compiledAdapter")));
        return Built::Done(HandlerState::Unknown, problems.list);
    };
    let given = handler.params_in(problems.spec()).map(without_empty_lists);
    let (params, errors) = adapter.decode(given.as_deref(), path.field("params"));
    let null = decides(adapter).then(|| forgotten::in_field(problems.document(), "params"));
    null.into_iter().flatten().for_each(|found| problems.push(empty_parameter(found)));
    // compat(1.3): fields decoded before the first error apply; see the scenario handler-unknown-param.
    problems.decode_errors("spec-decode", errors, |text| {
        format!("could not convert handler params; using default config: {text}")
    });
    let name = format!("{}.{}", resource.key.name, resource.key.namespace).into();
    let config = config(resource, name, adapter, params, &mut problems);
    Built::Done(HandlerState::Static(config), problems.list)
}

/// Whether an adapter decides something: a parameter whose value was forgotten would have its default. Istio Mixer accepts it.
fn decides(adapter: &dyn ErasedAdapter) -> bool {
    let decides =
        |name: &&str| template::built_in(name).is_some_and(|template| template.variety != Variety::Report);
    adapter.info().templates.iter().any(decides)
}

/// Parameters with null in place of empty lists.
// compat(1.3): a google.protobuf.Struct writes an empty list as null; see the scenario handler-empty-list-is-null.
fn without_empty_lists(node: &Node) -> Cow<'_, Node> {
    let changed = |kind| Cow::Owned(Node { kind, span: node.span });
    match &node.kind {
        NodeKind::Sequence(items) if items.is_empty() => changed(NodeKind::Null),
        NodeKind::Sequence(items) => {
            let items: Vec<Cow<'_, Node>> = items.iter().map(without_empty_lists).collect();
            match items.iter().any(|item| matches!(item, Cow::Owned(_))) {
                true => changed(NodeKind::Sequence(items.into_iter().map(Cow::into_owned).collect())),
                false => Cow::Borrowed(node),
            }
        }
        NodeKind::Mapping(entries) => {
            let values: Vec<Cow<'_, Node>> = entries.iter().map(|e| without_empty_lists(&e.value)).collect();
            if !values.iter().any(|value| matches!(value, Cow::Owned(_))) {
                return Cow::Borrowed(node);
            }
            let entries = entries.iter().zip(values);
            let entries = entries.map(|(entry, value)| MappingEntry {
                key: entry.key.clone(),
                key_span: entry.key_span,
                value: value.into_owned(),
            });
            changed(NodeKind::Mapping(entries.collect()))
        }
        _ => Cow::Borrowed(node),
    }
}

/// Builds a resource of a legacy kind, which is the name of an adapter.
pub(super) fn build_legacy_handler(
    resource: &RawResource,
    adapter: &'static dyn ErasedAdapter,
    failure: &dyn Fn(&str) -> String,
) -> Built<HandlerState> {
    let mut problems = ResourceProblems::new(resource);
    let (params, errors) = adapter.decode(problems.spec(), FieldPath::root().field("spec"));
    if !errors.is_empty() {
        problems.decode_errors("spec-decode", errors, failure);
        return Built::Unconvertible(problems.list);
    }
    let null = decides(adapter).then(|| forgotten::in_spec(problems.document()));
    null.into_iter().flatten().for_each(|found| problems.push(empty_parameter(found)));
    let config = config(resource, resource.key.to_string().into(), adapter, params, &mut problems);
    Built::Done(HandlerState::Static(config), problems.list)
}

fn config(
    resource: &RawResource,
    name: Arc<str>,
    adapter: &'static dyn ErasedAdapter,
    params: ErasedParams,
    problems: &mut ResourceProblems<'_>,
) -> Arc<HandlerConfig> {
    annotations::check(resource, annotations::OF_HANDLERS, problems);
    Arc::new(HandlerConfig {
        key: resource.key.clone(),
        name,
        adapter,
        params,
        external: None,
        on_error: annotations::on_error(resource, problems),
        origin: resource.origin.clone(),
    })
}

/// What adapters may be called by those who do not know their names.
const OTHER_NAMES: [(&[&str], &str); 6] = [
    (&["deny", "refuse", "reject", "block"], "denier"),
    (
        &["list", "whitelist", "blacklist", "allowlist", "denylist", "ipwhitelist", "ipblacklist"],
        "listchecker",
    ),
    (&["quota", "ratelimit", "rateLimit", "rate-limit", "limit"], "memquota"),
    (&["redis", "redis-quota"], "redisquota"),
    (&["log", "logger", "stdout", "console", "file"], "stdio"),
    (&["prom", "metrics"], "prometheus"),
];

fn unknown_adapter(inventory: Inventory, name: &str, field: FieldPath) -> Diagnostic {
    let names = inventory.names().collect::<Vec<_>>();
    let meant = OTHER_NAMES.iter().find(|(of, _)| of.contains(&name)).map(|(_, adapter)| *adapter);
    let hint = match meant.filter(|adapter| names.contains(adapter)) {
        Some("listchecker") if name != "list" => {
            "did you mean `listchecker`? with `blacklist: true` it refuses what it has, without it what it lacks".to_owned()
        }
        Some("listchecker") => "the list adapter is called `listchecker`".to_owned(),
        Some(adapter) => format!("did you mean `{adapter}`?"),
        None => suggestion(name, names.iter().copied())
            .unwrap_or_else(|| format!("this build has {}", names.join(", "))),
    };
    Diagnostic::error("adapter-unknown", field, format!("adapter '{name}' not found")).with_hint(hint)
}
