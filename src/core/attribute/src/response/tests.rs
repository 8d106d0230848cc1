use prost::Message as _;

use super::*;
use mixer_wire::google::rpc;
use mixer_wire::istio::mixer::v1 as proto;
use mixer_wire::istio::mixer::v1::check_response::{PreconditionResult, QuotaResult};

#[test]
fn prost_decodes_a_response() {
    let mut directive = Vec::new();
    let operation = |name, value, action| HeaderOperation { name, value, action };
    RouteDirective {
        request_headers: [
            operation("a", "1", HeaderAction::Append),
            operation("b", "", HeaderAction::Remove),
        ],
        response_headers: [operation("c", "3", HeaderAction::Replace)],
        direct_response_code: 302,
        direct_response_body: "elsewhere",
    }
    .encode(&mut directive);
    let precondition = Precondition {
        status_code: 7,
        status_message: "denied",
        valid_duration: SignedDuration::from_millis(-1500),
        valid_use_count: -1,
        route_directive: Some(&directive),
    };
    let references = |out: &mut Vec<u8>| put_bytes(out, 1, &[b'w'; 200]);
    let mut out = Vec::new();
    push_precondition(&mut out, &precondition, references);
    let grant = QuotaGrant { valid_duration: SignedDuration::from_secs(60), granted_amount: -3 };
    push_quota(&mut out, "q", grant, references);
    let referenced =
        Some(proto::ReferencedAttributes { words: vec![vec![b'w'; 200].into()], attribute_matches: vec![] });
    let header = |name: &str, value: &str, operation| proto::HeaderOperation {
        name: name.into(),
        value: value.into(),
        operation,
    };
    let expected = proto::CheckResponse {
        precondition: Some(PreconditionResult {
            status: Some(rpc::Status { code: 7, message: "denied".into(), details: vec![] }),
            valid_duration: Some(prost_types::Duration { seconds: -1, nanos: -500_000_000 }),
            valid_use_count: -1,
            referenced_attributes: referenced.clone(),
            route_directive: Some(proto::RouteDirective {
                request_header_operations: vec![header("a", "1", 2), header("b", "", 1)],
                response_header_operations: vec![header("c", "3", 0)],
                direct_response_code: 302,
                direct_response_body: "elsewhere".into(),
            }),
        }),
        quotas: [(
            "q".to_owned(),
            QuotaResult {
                valid_duration: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
                granted_amount: -3,
                referenced_attributes: referenced,
                status: None,
            },
        )]
        .into(),
    };
    assert_eq!(proto::CheckResponse::decode(&*out).unwrap(), expected);
}

#[test]
fn an_empty_precondition_has_all_parts() {
    let mut out = Vec::new();
    push_precondition(&mut out, &Precondition::default(), |_| {});
    // Status, duration and references are present and empty.
    assert_eq!(out, [0x12, 6, 0x0a, 0, 0x12, 0, 0x2a, 0]);
}
