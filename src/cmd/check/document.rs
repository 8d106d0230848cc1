//! Results of `check` as documents.

use serde_json::{Value, json};

use super::response::{ReferencedAttribute, operation, references, status};
use super::result::CheckResult;
use crate::cmd::attributes::{Quotas, from_wire};
use crate::cmd::call::{FinishedCall, seconds_text, status_code_name};
use mixer_wire::istio::mixer::v1::HeaderOperation;

/// The document of one call.
pub(super) fn document(finished: &FinishedCall<CheckResult>, quotas: &Quotas) -> Value {
    let latency = seconds_text(finished.latency);
    let response = match &finished.answer.response {
        Ok(response) => response,
        Err(error) => {
            let rpc = error.document(finished.latency);
            let mut document = json!({"apiVersion": "mixer/v1", "kind": "CheckResult", "rpc": rpc});
            if let (Some(members), Some(Ok(found))) = (document.as_object_mut(), &finished.answer.explanation)
            {
                members.insert("explanation".to_owned(), json!(found));
            }
            return document;
        }
    };
    let precondition = response.precondition.as_ref();
    let (code, message) = status(precondition);
    let mut references = references(precondition);
    references.sort_by_key(ReferencedAttribute::title);
    let mut document = json!({
        "apiVersion": "mixer/v1",
        "kind": "CheckResult",
        "status": {"code": code, "name": status_code_name(code), "message": message},
        "validUseCount": precondition.map_or(0, |p| p.valid_use_count),
        "validDuration": from_wire(precondition.and_then(|p| p.valid_duration)).to_string(),
        "referencedAttributes": references.iter().map(|r| json!({
            "name": r.name,
            "mapKey": r.map_key,
            "condition": r.condition,
            "regex": (!r.regex.is_empty()).then_some(&r.regex),
        })).collect::<Vec<_>>(),
        "quotas": response.quotas.iter().map(|(name, result)| json!({
            "name": name,
            "requested": quotas.get(name),
            "granted": result.granted_amount,
            "duration": from_wire(result.valid_duration).to_string(),
        })).collect::<Vec<_>>(),
    });
    if let Some(members) = document.as_object_mut() {
        if let Some(directive) = precondition.and_then(|p| p.route_directive.as_ref()) {
            let operations = |list: &[HeaderOperation]| -> Vec<Value> {
                list.iter()
                    .map(|o| json!({"operation": operation(o), "name": o.name, "value": o.value}))
                    .collect()
            };
            let directive = json!({
                "requestHeaderOperations": operations(&directive.request_header_operations),
                "responseHeaderOperations": operations(&directive.response_header_operations),
                "directResponseCode": directive.direct_response_code,
                "directResponseBody": directive.direct_response_body,
            });
            members.insert("routeDirective".to_owned(), directive);
        }
        members.insert("rpc".to_owned(), json!({"code": 0, "latency": latency}));
        if let Some(Ok(found)) = &finished.answer.explanation {
            members.insert("explanation".to_owned(), json!(found));
        }
    }
    document
}
