use prost::Message as _;

use super::encode_any;
use mixer_config::message::DecodeContext;
use mixer_config::{FieldPath, MappingEntry, Node, NodeKind, Span};
use mixer_engine::adapter::StatusDetail;

/// Encodes a single `Any`. Errors: the first problem.
fn parse(node: &Node) -> Result<StatusDetail, String> {
    let mut context = DecodeContext::at(FieldPath::root());
    let encoded = encode_any(node, &mut context, 0);
    match context.errors.into_iter().next() {
        Some(error) => Err(error.message),
        None => encoded.ok_or_else(|| "no value".to_owned()),
    }
}

fn text(value: &str) -> Node {
    Node::synthetic(NodeKind::String(value.into()))
}

fn int(value: i64) -> Node {
    Node::synthetic(NodeKind::Int(value))
}

fn list(items: Vec<Node>) -> Node {
    Node::synthetic(NodeKind::Sequence(items))
}

fn map(entries: Vec<(&str, Node)>) -> Node {
    let entries = entries
        .into_iter()
        .map(|(key, value)| MappingEntry { key: key.into(), key_span: Span::default(), value })
        .collect();
    Node::synthetic(NodeKind::Mapping(entries))
}

fn any(name: &str, mut fields: Vec<(&str, Node)>) -> Node {
    let url = format!("type.googleapis.com/{name}");
    fields.insert(0, ("@type", text(&url)));
    map(fields)
}

#[test]
fn a_direct_response_is_encoded_in_number_order() {
    let node = any(
        "istio.policy.v1beta1.DirectHttpResponse",
        vec![
            ("headers", map(vec![("b", text("2")), ("a", text(""))])),
            ("body", text("no")),
            ("code", text("Forbidden")),
        ],
    );
    let encoded = parse(&node).unwrap();
    assert_eq!(encoded.type_url, "type.googleapis.com/istio.policy.v1beta1.DirectHttpResponse");
    let wanted = b"\x08\x93\x03\x12\x02no\x1a\x05\x0a\x01a\x12\x00\x1a\x06\x0a\x01b\x12\x012";
    assert_eq!(encoded.value, wanted);
}

#[test]
fn well_known_types_keep_their_json_under_value() {
    let rows: Vec<(&str, Node, Vec<u8>)> = vec![
        ("google.protobuf.StringValue", text("hello"), b"\x0a\x05hello".to_vec()),
        ("google.protobuf.StringValue", text(""), vec![]),
        ("google.protobuf.Int64Value", text("-1"), b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01".to_vec()),
        ("google.protobuf.UInt64Value", text("18446744073709551615"), u64::MAX.encode_to_vec()),
        ("google.protobuf.BytesValue", text("CgECAw=="), b"\x0a\x04\x0a\x01\x02\x03".to_vec()),
        ("google.protobuf.DoubleValue", int(2), 2.0_f64.encode_to_vec()),
        ("google.protobuf.Empty", map(vec![]), vec![]),
    ];
    for (name, value, wanted) in rows {
        assert_eq!(parse(&any(name, vec![("value", value)])).unwrap().value, wanted, "{name}");
    }
}

#[test]
fn structs_hold_anything() {
    let value = map(vec![
        ("n", Node::synthetic(NodeKind::Null)),
        ("l", list(vec![int(1), text("x"), Node::synthetic(NodeKind::Bool(false))])),
        ("m", map(vec![("k", text("v"))])),
    ]);
    let encoded = parse(&any("google.protobuf.Struct", vec![("value", value)])).unwrap();
    let decoded = prost_types::Struct::decode(encoded.value.as_slice()).unwrap();
    assert_eq!(decoded.fields.len(), 3);
    let Some(prost_types::value::Kind::ListValue(items)) = &decoded.fields["l"].kind else {
        panic!("{decoded:?}")
    };
    assert_eq!(items.values.len(), 3);
}

#[test]
fn nested_details_are_encoded() {
    let violation = map(vec![("field", text("f")), ("description", text("d"))]);
    let bad = any("google.rpc.BadRequest", vec![("fieldViolations", list(vec![violation]))]);
    let status = any("google.rpc.Status", vec![("code", int(3)), ("details", list(vec![bad.clone()]))]);
    let inner = parse(&bad).unwrap();
    assert_eq!(inner.value, b"\x0a\x06\x0a\x01f\x12\x01d");
    let outer = parse(&status).unwrap();
    assert!(outer.value.windows(inner.value.len()).any(|w| w == inner.value));
}

#[test]
fn problems_are_told() {
    let rows = vec![
        (map(vec![]), "Any JSON doesn't have '@type'"),
        (text("x"), "json: cannot unmarshal string into Go value of type map[string]*json.RawMessage"),
        (map(vec![("@type", int(1))]), "can't unmarshal Any's '@type': \"1\""),
        (any("example.Nobody", vec![]), "unknown message type \"example.Nobody\""),
        (any("google.protobuf.StringValue", vec![]), "Any JSON doesn't have 'value'"),
        (
            any("google.protobuf.StringValue", vec![("value", int(1))]),
            "can't unmarshal Any nested proto *types.StringValue: \
             json: cannot unmarshal number into Go value of type string",
        ),
        (
            any("istio.policy.v1beta1.DirectHttpResponse", vec![("cod", int(1))]),
            "can't unmarshal Any nested proto *v1beta1.DirectHttpResponse: \
             unknown field \"cod\" in v1beta1.DirectHttpResponse",
        ),
        (
            any("istio.policy.v1beta1.DirectHttpResponse", vec![("code", text("Teapot"))]),
            "can't unmarshal Any nested proto *v1beta1.DirectHttpResponse: \
             unknown value \"Teapot\" for enum istio.policy.v1beta1.HttpStatusCode",
        ),
        (
            any("google.protobuf.BytesValue", vec![("value", text("?"))]),
            "can't unmarshal Any nested proto *types.BytesValue: illegal base64 data",
        ),
    ];
    for (node, wanted) in rows {
        assert_eq!(parse(&node).unwrap_err(), wanted);
    }
}

#[test]
fn an_enum_takes_any_whole_number_but_no_quoted_one() {
    let response = |code: Node| parse(&any("istio.policy.v1beta1.DirectHttpResponse", vec![("code", code)]));
    let float = |value: f64| Node::synthetic(NodeKind::Float(value));
    assert_eq!(response(int(418)).unwrap().value, b"\x08\xa2\x03");
    assert_eq!(response(float(418.0)).unwrap().value, b"\x08\xa2\x03");
    assert_eq!(response(int(-1)).unwrap().value, b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    assert!(
        response(text("404"))
            .unwrap_err()
            .ends_with("unknown value \"404\" for enum istio.policy.v1beta1.HttpStatusCode")
    );
    assert!(response(float(1.5)).is_err());
}

#[test]
fn a_message_that_does_not_decode_leaves_its_type() {
    use mixer_config::message::{DecodeContext, Field};
    let node =
        any("istio.policy.v1beta1.DirectHttpResponse", vec![("code", text("Teapot")), ("body", text("b"))]);
    let mut field = super::AnyField::default();
    let mut context = DecodeContext::at(mixer_config::FieldPath::root());
    field.merge(&node, &mut context);
    assert_eq!(context.errors.len(), 1);
    assert_eq!(field.encoded.type_url, "type.googleapis.com/istio.policy.v1beta1.DirectHttpResponse");
    assert!(field.encoded.value.is_empty());
}

#[test]
fn depth_is_bounded() {
    let mut node = text("x");
    for _ in 0..200 {
        node = list(vec![node]);
    }
    assert!(parse(&any("google.protobuf.Value", vec![("value", node)])).is_err());
}
