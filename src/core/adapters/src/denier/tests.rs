use super::*;
use crate::testing::{instance, problems, ready, test_env};
use mixer_config::message::decode_over;
use mixer_config::{FieldPath, MappingEntry, Node, NodeKind, Span};

fn node(json: &serde_json::Value) -> Node {
    use serde_json::Value as Json;
    Node::synthetic(match json {
        Json::Null => NodeKind::Null,
        Json::Bool(value) => NodeKind::Bool(*value),
        Json::Number(value) => {
            value.as_i64().map_or_else(|| NodeKind::Float(value.as_f64().unwrap()), NodeKind::Int)
        }
        Json::String(text) => NodeKind::String(text.as_str().into()),
        Json::Array(items) => NodeKind::Sequence(items.iter().map(node).collect()),
        Json::Object(entries) => NodeKind::Mapping(
            entries
                .iter()
                .map(|(key, value)| MappingEntry {
                    key: key.as_str().into(),
                    key_span: Span::default(),
                    value: node(value),
                })
                .collect(),
        ),
    })
}

async fn check(params: Params) -> CheckResult {
    let handler = Denier::build(params, Vec::new(), test_env("h.istio-system")).await.unwrap();
    let result = ready(handler.as_check().unwrap().check(&instance("i", &[])));
    let call = QuotaCall { amount: 5, best_effort: true, deduplication_id: "x" };
    assert_eq!(ready(handler.as_quota().unwrap().quota(&instance("q", &[]), call)), QuotaResult::default());
    handler.close(std::time::Duration::ZERO).await.unwrap();
    result
}

#[tokio::test]
async fn params_table() {
    let rows = [
        ("nothing given", serde_json::json!({}), (9, "", 5_000, 1000)),
        (
            "message only keeps the code",
            serde_json::json!({"status": {"message": "no"}}),
            (9, "no", 5_000, 1000),
        ),
        ("code only", serde_json::json!({"status": {"code": 7}}), (7, "", 5_000, 1000)),
        ("code outside the enum", serde_json::json!({"status": {"code": 99}}), (99, "", 5_000, 1000)),
        (
            "both spellings",
            serde_json::json!({"valid_use_count": 3, "status": {"code": 16.0}}),
            (16, "", 5_000, 3),
        ),
        ("negative count", serde_json::json!({"validUseCount": "-1"}), (9, "", 5_000, -1)),
    ];
    for (name, json, wanted) in rows {
        let mut params = Params::default();
        let errors = decode_over(&mut params, &node(&json), FieldPath::root());
        assert!(errors.is_empty(), "{name}: {errors:?}");
        let warned = ["code outside the enum", "negative count"].contains(&name);
        assert_eq!(problems::<Denier>(&params).len(), usize::from(warned), "{name}");
        let got = check(params).await;
        let shown = (
            got.status.code,
            got.status.message.as_str(),
            got.valid_duration.nanos / 1_000_000,
            got.valid_use_count,
        );
        assert_eq!(shown, wanted, "{name}");
    }
}

#[tokio::test]
async fn a_direct_response_is_passed_on() {
    let json = serde_json::json!({"status": {"details": [{
        "@type": "type.googleapis.com/istio.policy.v1beta1.DirectHttpResponse",
        "code": "MovedPermanently", "body": "gone", "headers": {"location": "/new"},
    }]}});
    let mut params = Params::default();
    assert!(decode_over(&mut params, &node(&json), FieldPath::root()).is_empty());
    let got = check(params).await;
    assert_eq!(got.status.details.len(), 1);
    assert_eq!(got.status.details[0].value, b"\x08\xad\x02\x12\x04gone\x1a\x10\x0a\x08location\x12\x04/new");
}

#[test]
fn an_unknown_detail_is_diagnosed_with_its_position() {
    let json = serde_json::json!({"status": {"code": 7, "details": [{"@type": "t/istio.policy.v1beta1.DirectHttpRespons"}]}});
    let mut params = Params::default();
    let errors = decode_over(&mut params, &node(&json), FieldPath::root());
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].message, "unknown message type \"istio.policy.v1beta1.DirectHttpRespons\"");
    assert_eq!(errors[0].field.to_string(), "status.details[0].@type");
    assert_eq!(errors[0].hint.as_deref(), Some("did you mean `istio.policy.v1beta1.DirectHttpResponse`?"));
    assert_eq!(params.status.code, 7);
    assert!(encoded_details(params.status.details).is_empty());
}
