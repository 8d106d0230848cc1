//! Handlers of adapters out of process.

use std::sync::Arc;

use super::{ExternalTable, params};
use crate::adapter::{ErasedAdapter, ErasedParams, Inventory};
use crate::snapshot::annotations;
use crate::snapshot::decode::{Connection, Handler};
use crate::snapshot::forgotten::{self, empty_parameter};
use crate::snapshot::model::HandlerConfig;
use crate::snapshot::problems::ResourceProblems;
use crate::template::{Name, TemplateInfo, Variety};
use mixer_config::message::Field as _;
use mixer_config::{Diagnostic, FieldPath, RawResource, ResourceKey};

/// A handler of an adapter out of process: what its adapter needs to call it.
#[derive(Debug, Clone)]
pub struct ExternalHandler {
    /// The full name of its adapter.
    pub adapter: Name,
    /// The resource of its adapter.
    pub key: ResourceKey,
    /// The templates whose instances its adapter takes.
    pub templates: Vec<Arc<TemplateInfo>>,
    /// Its parameters as a `google.protobuf.Any`; `None` if the adapter has none.
    pub config: Option<AdapterConfig>,
    /// Whether its adapter takes the parameters once, in a session.
    pub session_based: bool,
    /// How to reach it.
    pub connection: Connection,
    /// The digest of the descriptors of its parameters.
    pub(crate) digest: u128,
}

/// Encoded parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterConfig {
    /// For example `type.googleapis.com/lab.config.Params`.
    pub type_url: String,
    /// The encoded message.
    pub value: Vec<u8>,
}

/// What a handler is built from.
pub(in crate::snapshot) struct HandlerSource<'s> {
    pub(in crate::snapshot) handler: Handler,
    pub(in crate::snapshot) inventory: Inventory,
    pub(in crate::snapshot) table: &'s ExternalTable,
}

/// Builds a handler of an adapter out of process, with the names that it looked up; `None` after an error.
pub(in crate::snapshot) fn build(
    resource: &RawResource,
    source: HandlerSource<'_>,
    problems: &mut ResourceProblems<'_>,
) -> (Option<Arc<HandlerConfig>>, Box<[Arc<str>]>) {
    let HandlerSource { handler, inventory, table } = source;
    annotations::check(resource, annotations::OF_HANDLERS, problems);
    let (key, path) = (&resource.key, FieldPath::root().field("spec"));
    let (adapter, references) = table.adapter(&handler.adapter, &key.namespace);
    let references = references.into();
    let Some(adapter) = adapter else {
        unknown_adapter(key, &handler.adapter, inventory, table, problems);
        return (None, references);
    };
    let Some(process) = inventory.external() else {
        let text = "this program runs no adapters out of process";
        problems.push(Diagnostic::error("adapter-unknown", path.field("adapter"), text));
        return (None, references);
    };
    let schema = &adapter.schema;
    let mut failed = false;
    // Also of its connection: without `authentication` it is plain text.
    let decides = adapter.templates.iter().any(|template| template.variety != Variety::Report);
    let null = if decides { forgotten::in_spec(problems.document()) } else { Vec::new() };
    null.into_iter().for_each(|found| problems.push(empty_parameter(found)));
    let config = schema.params.as_ref().map(|declared| {
        let given = handler.params_in(problems.spec());
        let (value, errors) = params::encode(&declared.schema, declared.message, given);
        for (index, error) in errors.into_iter().enumerate() {
            failed = true;
            let field = path.field("params").join(&error.field);
            let mut problem = Diagnostic::error("params-invalid", field, error.text);
            problem.hint = error.hint;
            if index == 0 {
                problem.legacy = Some(format!("handler='{key}'.params: {}", problem.message));
            }
            problems.push(problem);
        }
        AdapterConfig { type_url: declared.type_url.clone(), value }
    });
    if schema.params.is_none() && handler.params.is_some() {
        let text = format!("adapter '{}' has no parameters, so that these are not sent", handler.adapter);
        let problem = Diagnostic::warning("params-unused", path.field("params"), text);
        problems.push(problem.with_hint("remove them, or add `config` to the adapter"));
    }
    let Some(connection) = handler.connection.clone() else {
        let text = "the handler has no connection, so that its adapter cannot be called";
        let legacy = format!("handler='{key}'.connection: {text}");
        let problem = Diagnostic::error("connection-missing", path, text).with_legacy(legacy);
        problems.push(problem.with_hint("write `connection: {address: HOST:PORT}`"));
        return (None, references);
    };
    if failed {
        return (None, references);
    }
    let external = Arc::new(ExternalHandler {
        adapter: schema.key.to_string().into(),
        key: schema.key.clone(),
        templates: adapter.templates.clone(),
        config,
        session_based: schema.session_based,
        connection,
        digest: schema.digest,
    });
    let params = handler.params_in(problems.spec());
    let params = params.map_or(serde_json::Value::Null, |params| params.to_json());
    let config = HandlerConfig {
        key: key.clone(),
        name: key.to_string().into(),
        adapter: process,
        params: erased(&external, params),
        external: Some(external),
        on_error: annotations::on_error(resource, problems),
        origin: resource.origin.clone(),
    };
    (Some(Arc::new(config)), references)
}

fn erased(external: &Arc<ExternalHandler>, params: serde_json::Value) -> ErasedParams {
    let json = serde_json::json!({ "params": params, "connection": external.connection.to_json() });
    ErasedParams::new(Arc::clone(external), json)
}

fn unknown_adapter(
    key: &ResourceKey,
    adapter: &str,
    inventory: Inventory,
    table: &ExternalTable,
    problems: &mut ResourceProblems<'_>,
) {
    let field = FieldPath::root().field("spec").field("adapter");
    let text = format!("adapter '{adapter}' not found");
    let legacy = format!("handler='{key}'.adapter: {text}");
    let mut problem = Diagnostic::error("adapter-unknown", field, text).with_legacy(legacy);
    problem.hint = if adapter.is_empty() {
        Some("name a built-in adapter with compiledAdapter".to_owned())
    } else if inventory.find(adapter).is_some() {
        Some(format!("for the built-in adapter write compiledAdapter: {adapter}"))
    } else {
        table.hint(adapter, "adapter", &key.namespace)
    };
    problems.push(problem);
}

impl HandlerConfig {
    /// The name of its adapter: that in `compiledAdapter`, or the full name of the resource of one out of process.
    pub fn adapter_name(&self) -> &str {
        let adapter: &'static dyn ErasedAdapter = self.adapter;
        self.external.as_ref().map_or(adapter.info().name, |external| &external.adapter)
    }

    /// The templates whose instances its adapter takes.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &TemplateInfo> {
        let own = self.external.iter().flat_map(|external| &external.templates).map(|template| &**template);
        let built_in = match self.external {
            Some(_) => &[],
            None => self.adapter.info().templates,
        };
        let built_in = built_in.iter().filter_map(|name| crate::template::built_in(name));
        own.chain(built_in.map(|template| &**template))
    }
}
