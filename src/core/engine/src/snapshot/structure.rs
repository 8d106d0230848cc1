//! The structure of one resource: whether its `spec` decodes into the message of its kind. No expression, reference or parameter of a
//! modern handler is looked at, as by the admission webhook of Istio.

use super::decode::{AttributeManifest, Handler, Info, Instance, Rule, Template};
use super::kind::ResourceKind;
use super::options::SnapshotOptions;
use super::params;
use crate::adapter::ErasedAdapter;
use mixer_config::message::{DecodeError, Message, decode_over};
use mixer_config::{FieldPath, Node};

/// The errors of decoding the `spec` of a resource of this kind, the one that Istio Mixer reports first. `None` if the kind is none of Istio
/// Mixer's.
///
/// Spec: galley.md, 19.4 step 6.
pub fn structure(kind: &str, spec: Option<&Node>, options: &SnapshotOptions) -> Option<Vec<DecodeError>> {
    let null = Node::default();
    let spec = spec.unwrap_or(&null);
    let path = FieldPath::root().field("spec");
    Some(match ResourceKind::find(kind, options) {
        ResourceKind::Manifest => of::<AttributeManifest>(spec, path),
        ResourceKind::Handler(None) => of::<Handler>(spec, path),
        ResourceKind::Handler(Some(adapter)) => of_adapter(adapter, spec, path),
        ResourceKind::Instance(None) => of::<Instance>(spec, path),
        ResourceKind::Instance(Some(template)) => params::decode(template, Some(spec), path).1,
        ResourceKind::Rule => of::<Rule>(spec, path),
        ResourceKind::External if kind == "template" => of::<Template>(spec, path),
        ResourceKind::External => of::<Info>(spec, path),
        ResourceKind::Extended(_) | ResourceKind::Unknown => return None,
    })
}

fn of<M: Message>(spec: &Node, path: FieldPath) -> Vec<DecodeError> {
    decode_over(&mut M::default(), spec, path)
}

fn of_adapter(adapter: &dyn ErasedAdapter, spec: &Node, path: FieldPath) -> Vec<DecodeError> {
    adapter.decode(Some(spec), path).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Registry;

    fn first_error(kind: &str, spec: &str) -> Option<String> {
        let parsed = mixer_config::yaml::parse(spec).expect("a document");
        let errors = structure(kind, Some(&parsed.root), &SnapshotOptions::new(Registry::default()))?;
        Some(errors.into_iter().next().map(|error| error.message).unwrap_or_default())
    }

    #[test]
    fn every_kind_is_decoded_into_its_message() {
        for (kind, spec, expected) in [
            ("rule", "match: a == (", ""),
            ("rule", "mtch: \"true\"", "unknown field \"mtch\" in v1beta1.Rule"),
            ("handler", "{compiledAdapter: nosuch, params: {nope: 1}}", ""),
            ("handler", "compliedAdapter: x", "unknown field \"compliedAdapter\" in v1beta1.Handler"),
            ("instance", "{compiledTemplate: metric, params: {value: \"1\"}}", ""),
            ("metric", "valu: \"1\"", "unknown field \"valu\" in metric.InstanceParam"),
            ("checknothing", "null", ""),
            ("template", "descriptor: CgNhYmM=", ""),
            ("adapter", "sessionbased: true", "unknown field \"sessionbased\" in v1beta1.Info"),
            ("attributemanifest", "attributes: {x: {valueType: STRING}}", ""),
        ] {
            assert_eq!(first_error(kind, spec).as_deref(), Some(expected), "{kind} {spec}");
        }
        assert_eq!(first_error("mystery", "anything: 1"), None, "of an unknown kind");
    }
}
