//! Decoding, reading and reference encoding of one realistic request of 31 attributes.
//!
//! `global`: sent by a proxy that knows the whole global dictionary. `message`: sent by `mixc`, every word in the message.

#![expect(clippy::expect_used, reason = "a bench that cannot set up must stop")]

use std::hint::black_box;
use std::net::IpAddr;

use bumpalo::Bump;
use criterion::{Criterion, criterion_group, criterion_main};
use mixer_attribute::request::{
    CheckCall, CheckRequest, ReportRequest, ReportWords, Semantics, encode_check_request,
    encode_report_request,
};
use mixer_attribute::{
    AttributeBag, GLOBAL_WORDS, OwnedAttributes, Reads, ReportRecords, SignedDuration, SlotId, Timestamp,
    Value, ValueType, Vocabulary,
};

/// The attributes of an ingress gateway: 31, three of them string maps.
fn request() -> OwnedAttributes {
    let mut a = OwnedAttributes::new();
    for (name, text) in [
        ("connection.id", "8a8dd8a3-0bcd-4d75-a6b6-3ab0bb8a8a55-1437"),
        ("connection.requested_server_name", "outbound_.9080_._.productpage.default.svc.cluster.local"),
        ("context.protocol", "http"),
        ("context.proxy_version", "1.3.0"),
        ("context.reporter.kind", "inbound"),
        ("context.reporter.uid", "kubernetes://productpage-v1-8554d58bff-d7j8g.default"),
        ("destination.namespace", "default"),
        ("destination.service.host", "productpage.default.svc.cluster.local"),
        ("destination.service.name", "productpage"),
        ("destination.service.namespace", "default"),
        ("destination.service.uid", "istio://default/services/productpage"),
        ("destination.uid", "kubernetes://productpage-v1-8554d58bff-d7j8g.default"),
        ("request.host", "productpage:9080"),
        ("request.id", "5ff2b6b6-8a7b-4b5f-9a17-9d64d2dbe6d0"),
        ("request.method", "GET"),
        ("request.path", "/api/v1/products/0/reviews?lang=en"),
        ("request.scheme", "http"),
        ("request.url_path", "/api/v1/products/0/reviews"),
        ("request.useragent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"),
        ("source.namespace", "istio-system"),
        ("source.principal", "cluster.local/ns/istio-system/sa/istio-ingressgateway"),
        ("source.uid", "kubernetes://istio-ingressgateway-6b7bcdd6fd-n28qg.istio-system"),
    ] {
        a.insert(name, text);
    }
    a.insert("connection.mtls", true);
    a.insert("destination.ip", IpAddr::from([10, 44, 1, 17]));
    a.insert("destination.port", 9080);
    a.insert("origin.ip", IpAddr::from([10, 128, 0, 7]));
    a.insert("request.size", 0);
    a.insert("request.time", Timestamp { seconds: 1_569_000_000, nanos: 123_456_789 });
    a.insert("request.query_params", [("lang", "en")]);
    a.insert(
        "source.labels",
        [("app", "istio-ingressgateway"), ("istio", "ingressgateway"), ("pod-template-hash", "6b7bcdd6fd")],
    );
    a.insert(
        "request.headers",
        [
            (":authority", "productpage:9080"),
            (":method", "GET"),
            (":path", "/api/v1/products/0/reviews?lang=en"),
            ("accept", "*/*"),
            ("content-length", "0"),
            ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"),
            ("x-b3-sampled", "1"),
            ("x-b3-spanid", "f6e15ab7e1e2f8d7"),
            ("x-b3-traceid", "a1b2c3d4e5f60718293a4b5c6d7e8f90"),
            ("x-forwarded-for", "10.128.0.7"),
            ("x-forwarded-proto", "http"),
            ("x-request-id", "5ff2b6b6-8a7b-4b5f-9a17-9d64d2dbe6d0"),
        ],
    );
    a
}

/// The vocabulary of the request and about 150 further attributes.
fn vocabulary(request: &OwnedAttributes) -> Vocabulary {
    let mut builder = Vocabulary::builder();
    for word in GLOBAL_WORDS.iter().filter(|word| word.contains('.')) {
        builder.declare(word, ValueType::String);
    }
    for i in 0..40 {
        builder.declare(&format!("custom.attribute.number{i}"), ValueType::Int64);
    }
    for (name, value) in request.iter() {
        builder.declare(std::str::from_utf8(name).expect("UTF-8"), value.value_type());
    }
    builder.build()
}

/// The attributes of a telemetry rule: 17, two of them map entries, three of them absent.
const READ: [&str; 17] = [
    "context.reporter.kind",
    "destination.namespace",
    "destination.service.host",
    "destination.service.name",
    "destination.uid",
    "source.uid",
    "source.principal",
    "source.workload.name",
    "destination.workload.name",
    "response.code",
    "request.method",
    "request.path",
    "request.size",
    "request.time",
    "connection.mtls",
    "destination.ip",
    "request.headers",
];

fn read<'a>(bag: &AttributeBag<'a>, slots: &[SlotId]) -> usize {
    let mut found = 0;
    for slot in slots {
        match bag.get(*slot) {
            Some(Value::StringMap(map)) => found += usize::from(bag.lookup(map, b"user-agent").is_some()),
            Some(_) => found += 1,
            None => {}
        }
    }
    found
}

fn attributes(c: &mut Criterion) {
    let request = request();
    assert_eq!(request.len(), 31);
    let vocabulary = vocabulary(&request);
    let slots: Vec<SlotId> =
        READ.iter().map(|name| vocabulary.slot(name.as_bytes()).expect("declared")).collect();
    let all_words = u32::try_from(GLOBAL_WORDS.len()).expect("few");
    for (kind, count) in [("global", all_words), ("message", 0)] {
        let body = request.to_bytes(count);
        let mut arena = Bump::with_capacity(64 * 1024);
        {
            let bag = AttributeBag::decode(&body, None, &vocabulary, &arena).expect("well-formed");
            assert_eq!(OwnedAttributes::from_bag(&bag), request);
            assert_eq!(read(&bag, &slots), 14);
        }
        c.bench_function(&format!("attribute/decode/{kind}"), |b| {
            b.iter(|| {
                arena.reset();
                black_box(AttributeBag::decode(black_box(&body), None, &vocabulary, &arena).is_ok())
            });
        });
        let mut out = Vec::with_capacity(4096);
        c.bench_function(&format!("attribute/decode, read 17, encode references/{kind}"), |b| {
            b.iter(|| {
                arena.reset();
                let Ok(bag) = AttributeBag::decode(black_box(&body), None, &vocabulary, &arena) else {
                    return;
                };
                black_box(read(&bag, &slots));
                out.clear();
                bag.encode_references(count, Reads::All, &mut out);
                black_box(&out);
            });
        });
        c.bench_function(&format!("attribute/decode, read 17/{kind}"), |b| {
            b.iter(|| {
                arena.reset();
                let Ok(bag) = AttributeBag::decode(black_box(&body), None, &vocabulary, &arena) else {
                    return 0;
                };
                read(&bag, &slots)
            });
        });
        let check = encode_check_request(&request, count, &CheckCall::default());
        c.bench_function(&format!("attribute/decode check request/{kind}"), |b| {
            b.iter(|| {
                arena.reset();
                black_box(CheckRequest::decode(black_box(&check), &arena).is_ok())
            });
        });
    }
    warm(c, &request, &vocabulary, &slots, all_words);
    report(c, &request, &vocabulary, &slots, all_words);
}

/// Reading alone, from a bag whose values are resolved.
fn warm(c: &mut Criterion, request: &OwnedAttributes, vocabulary: &Vocabulary, slots: &[SlotId], count: u32) {
    let body = request.to_bytes(count);
    let arena = Bump::new();
    let bag = AttributeBag::decode(&body, None, vocabulary, &arena).expect("well-formed");
    c.bench_function("attribute/get 17", |b| b.iter(|| black_box(read(&bag, black_box(slots)))));
}

/// A batch of 25 records as proxies send it: shared words, each record on its own.
fn report(
    c: &mut Criterion,
    request: &OwnedAttributes,
    vocabulary: &Vocabulary,
    slots: &[SlotId],
    count: u32,
) {
    let records: Vec<OwnedAttributes> = (0..25i64)
        .map(|i| {
            let mut record = request.clone();
            record.insert("response.code", 200 + i);
            record.insert("response.duration", SignedDuration::from_millis(i));
            record
        })
        .collect();
    for (kind, words, semantics) in [
        ("independent", ReportWords::Shared, Semantics::Independent),
        ("delta", ReportWords::Own, Semantics::Delta),
    ] {
        let body = encode_report_request(&records, count, words, semantics);
        let mut arena = Bump::with_capacity(1024 * 1024);
        c.bench_function(&format!("attribute/report of 25, read 17 each/{kind}"), |b| {
            b.iter(|| {
                arena.reset();
                let Ok(request) = ReportRequest::decode(black_box(&body), &arena) else { return 0 };
                let mut records = ReportRecords::new(&request, vocabulary, &arena);
                let mut found = 0;
                while let Some(Ok(bag)) = records.next() {
                    found += read(bag, slots);
                }
                found
            });
        });
    }
}

criterion_group!(benches, attributes);
criterion_main!(benches);
