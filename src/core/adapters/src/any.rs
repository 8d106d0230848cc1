//! `google.protobuf.Any` in parameters: JSON with an `@type`, kept as written and as its protobuf encoding.
//!
//! Encoding needs the schema of the message: `schema` has the well-known types, the error details of Google APIs and direct
//! responses. Any other `@type` is a configuration error.

mod encode;
mod schema;

use mixer_config::Node;
use mixer_config::NodeKind;
use mixer_config::message::{DecodeContext, Field, go_type, json_kind, suggestion};
use mixer_engine::adapter::StatusDetail;

/// An `Any` of the configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AnyField {
    /// The URL as written and the encoded message.
    pub encoded: StatusDetail,
    /// As written.
    source: Node,
}

impl Field for AnyField {
    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        if matches!(node.kind, NodeKind::Null) {
            return;
        }
        let before = context.errors.len();
        let encoded = encode_any(node, context, 0);
        if context.errors.len() == before {
            *self = AnyField { encoded: encoded.unwrap_or_default(), source: node.clone() };
        } else if let Some(url) = node.get("@type").and_then(Node::as_str)
            && schema::find(url.rsplit('/').next().unwrap_or(url)).is_some()
        {
            // compat(1.3): the type is kept if its message does not decode, so that a direct response remains one.
            self.encoded = StatusDetail { type_url: url.to_owned(), value: Vec::new() };
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.source.to_json()
    }
}

/// Encodes the message in `node`; errors are added to `context`.
fn encode_any(node: &Node, context: &mut DecodeContext, depth: usize) -> Option<StatusDetail> {
    if !matches!(node.kind, NodeKind::Mapping(_)) {
        let text = format!(
            "json: cannot unmarshal {} into Go value of type map[string]*json.RawMessage",
            json_kind(node)
        );
        context.error_with_hint(node, text, Some("a mapping with `@type` is expected here".to_owned()));
        return None;
    }
    let Some(type_node) = node.get("@type").filter(|n| !matches!(n.kind, NodeKind::Null)) else {
        let hint = "for example `\"@type\": type.googleapis.com/istio.policy.v1beta1.DirectHttpResponse`";
        context.error_with_hint(node, "Any JSON doesn't have '@type'", Some(hint.to_owned()));
        return None;
    };
    let Some(url) = type_node.as_str() else {
        context.error(type_node, format!("can't unmarshal Any's '@type': \"{}\"", type_node.to_json()));
        return None;
    };
    let name = url.rsplit('/').next().unwrap_or(url);
    let Some(found) = schema::find(name) else {
        let names = schema::SCHEMAS.iter().map(|s| s.name);
        let hint = suggestion(name, names).unwrap_or_else(|| {
            format!("known are {}", schema::SCHEMAS.iter().map(|s| s.name).collect::<Vec<_>>().join(", "))
        });
        let path = context.path().field("@type");
        context.within(path, |c| {
            c.error_with_hint(type_node, format!("unknown message type \"{name}\""), Some(hint))
        });
        return None;
    };
    let mut value = Vec::new();
    let before = context.errors.len();
    if found.is_well_known() {
        let Some(inner) = node.get("value") else {
            context.error(node, "Any JSON doesn't have 'value'");
            return None;
        };
        let path = context.path().field("value");
        context.within(path, |c| encode::message(found, inner, None, c, &mut value, depth + 1));
    } else {
        encode::message(found, node, Some("@type"), context, &mut value, depth + 1);
    }
    for error in context.errors.iter_mut().skip(before) {
        error.message = format!("can't unmarshal Any nested proto *{}: {}", go_type(name), error.message);
    }
    Some(StatusDetail { type_url: url.to_owned(), value })
}

#[cfg(test)]
mod tests;
