//! What one message may have, and what is kept of it.

use mixer_wire::envoy::data::accesslog::v3::{AccessLogCommon, TcpAccessLogEntry};
use mixer_wire::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use mixer_wire::envoy::service::accesslog::v3::{StreamAccessLogsMessage, stream_access_logs_message};
use mixer_wire::envoy::service::auth::v3::CheckResponse;
use mixer_wire::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost::Message as _;

use super::{AUTHORIZATION, LIMITS, LOGS, OVER_LIMIT, Setting, lines_with};
use crate::support::http;

#[test]
fn messages_with_too_many_parts_are_refused() {
    let setting = Setting::start(&[]);
    let mut client = setting.client();
    // HTTP entries of two bytes each.
    let entries = |count: usize| {
        let list = [0x0a, 0].repeat(count);
        let mut message = vec![0x12];
        prost::encoding::encode_varint(list.len() as u64, &mut message);
        [message, list].concat()
    };
    assert!(client.call(LOGS, entries(20_000), None).is_ok());
    for count in [20_001, 500_000] {
        let refused = client.call(LOGS, entries(count), None).expect_err("an error");
        let text = "the message has more than 20000 entries (--max-report-records)";
        assert_eq!((refused.code(), refused.message()), (tonic::Code::InvalidArgument, text));
    }
    let descriptors = |count: usize| {
        let descriptors = vec![RateLimitDescriptor::default(); count];
        RateLimitRequest { domain: "shop".to_owned(), descriptors, hits_addend: 0 }.encode_to_vec()
    };
    assert!(client.call(LIMITS, descriptors(64), None).is_ok());
    let refused = client.call(LIMITS, descriptors(65), None).expect_err("an error");
    let text = "the call has 65 descriptors; at most 64 are allowed (--max-check-quotas)";
    assert_eq!((refused.code(), refused.message()), (tonic::Code::InvalidArgument, text));
}

/// A length-delimited field.
fn field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, &mut out);
    prost::encoding::encode_varint(content.len() as u64, &mut out);
    [out, content.to_vec()].concat()
}

#[test]
fn messages_with_too_many_fields_are_refused() {
    const LIMIT: usize = 16 << 10;
    let setting = Setting::start(&[]);
    let mut client = setting.client();
    // A list of empty parts, in the messages with these numbers.
    let of = |outer: &[u32], part: u32, count: usize| {
        let parts = field(part, &[]).repeat(count);
        outer.iter().rev().fold(parts, |inner, number| field(*number, &inner))
    };
    let domain = field(1, b"shop");
    for (what, path, outer, part, before) in [
        ("headers", AUTHORIZATION, &[1, 4, 2][..], 3, &[][..]),
        ("headers of a list", AUTHORIZATION, &[1, 4, 2, 13], 1, &[]),
        ("extensions", AUTHORIZATION, &[1], 10, &[]),
        ("labels", AUTHORIZATION, &[1, 1], 3, &[]),
        ("metadata", AUTHORIZATION, &[1, 11, 1, 2], 1, &[]),
        ("fields that nobody reads", AUTHORIZATION, &[1, 4, 2], 14, &[]),
        ("entries", LIMITS, &[2], 1, &domain),
    ] {
        let at_bound = LIMIT - outer.len() - usize::from(!before.is_empty());
        // Callers choose how many there are, and so no error for which a proxy may let them pass.
        for (count, is_refused) in [(at_bound, false), (at_bound + 1, true), (500_000, true)] {
            let message = [before.to_vec(), of(outer, part, count)].concat();
            let answer = client.call(path, message, None).expect("an answer");
            let told = match path {
                LIMITS => RateLimitResponse::decode(answer).expect("an answer").overall_code == OVER_LIMIT,
                _ => {
                    let status = CheckResponse::decode(answer).expect("an answer").status.unwrap_or_default();
                    let text = "the message has more than 16384 fields";
                    status.code == tonic::Code::InvalidArgument as i32 && status.message.contains(text)
                }
            };
            assert_eq!(told, is_refused, "{count} {what}");
        }
    }
    let answer = client.call(LIMITS, [domain, of(&[], 2, 500_000)].concat(), None);
    let told = RateLimitResponse::decode(answer.expect("an answer")).expect("an answer");
    assert_eq!(told.overall_code, OVER_LIMIT);
    // Other entries of the message are reported.
    let entries = [of(&[1, 3], 13, LIMIT), of(&[1, 4], 4, LIMIT), of(&[1, 1], 22, LIMIT), of(&[], 1, 2)];
    client.call(LOGS, field(2, &entries.concat()), None).expect("an answer");
    let metrics = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
    for (result, count) in [("error", 3), ("reported", 2)] {
        let line =
            format!("bridge_als_entries_total{{log_name=\"\",result=\"{result}\",type=\"http\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{}", lines_with(&metrics, "bridge_als"));
    }
    let refused = client.call(LOGS, of(&[1, 1], 4, LIMIT), None).expect_err("an error");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
}

#[test]
fn what_callers_name_is_not_kept() {
    let setting = Setting::start(&[]);
    let mut client = setting.client();
    let long = "x".repeat(1 << 19);
    let entry = TcpAccessLogEntry {
        common_properties: Some(AccessLogCommon {
            access_log_type: 2,
            stream_id: long.clone(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let entries = stream_access_logs_message::TcpAccessLogEntries { log_entry: vec![entry] };
    let message = StreamAccessLogsMessage {
        identifier: Some(stream_access_logs_message::Identifier { node: None, log_name: long.clone() }),
        log_entries: Some(stream_access_logs_message::LogEntries::TcpLogs(entries)),
    };
    client.call(LOGS, message.encode_to_vec(), None).expect("it is taken");
    let request =
        RateLimitRequest { domain: long, descriptors: vec![RateLimitDescriptor::default()], hits_addend: 0 };
    client.call(LIMITS, request.encode_to_vec(), None).expect("it is answered");
    let metrics = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
    let longest = metrics.lines().map(str::len).max();
    assert!(longest < Some(1200), "{longest:?}");
    for line in [
        "bridge_tcp_state_entries 0",
        r#"bridge_ratelimit_total{domain="other",result="no_match"} 1"#,
        r#"result="reported",type="tcp"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{}", lines_with(&metrics, "bridge_"));
    }
}
