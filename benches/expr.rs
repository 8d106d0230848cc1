//! Cost of compiling and evaluating the expressions of a realistic configuration.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a bench that cannot run must say so")]

use std::hint::black_box;

use bumpalo::Bump;
use criterion::{Criterion, criterion_group, criterion_main};
use mixer_attribute::{AttributeBag, OwnedAttributes, OwnedValue, Value, ValueType, Vocabulary};
use mixer_expr::{Language, Program, compile};

/// Conditions of rules.
const CONDITIONS: [(&str, &str); 6] = [
    ("equality", r#"destination.service == "ratings.prod.svc.cluster.local""#),
    ("map_equality", r#"request.headers["user-agent"] == "curl/7.64""#),
    ("map_default", r#"(source.labels["version"] | "none") == "v3""#),
    (
        "conjunction_of_4",
        r#"context.protocol == "http" && context.reporter.kind == "inbound" && destination.namespace == "prod" && match(request.path, "/health*") == false"#,
    ),
    ("glob", r#"match(request.path, "/productpage*")"#),
    (
        "conditional",
        r#"conditional((context.reporter.kind | "inbound") == "outbound", "client", "server") == "server""#,
    ),
];

/// The dimensions of a request metric.
const DIMENSIONS: [&str; 17] = [
    r#"conditional((context.reporter.kind | "inbound") == "outbound", "source", "destination")"#,
    r#"source.workload.name | "unknown""#,
    r#"source.workload.namespace | "unknown""#,
    r#"source.principal | "unknown""#,
    r#"source.labels["app"] | "unknown""#,
    r#"source.labels["version"] | "unknown""#,
    r#"destination.workload.name | "unknown""#,
    r#"destination.workload.namespace | "unknown""#,
    r#"destination.principal | "unknown""#,
    r#"destination.labels["app"] | "unknown""#,
    r#"destination.labels["version"] | "unknown""#,
    r#"destination.service.host | request.host | "unknown""#,
    r#"destination.service.name | "unknown""#,
    r#"destination.service.namespace | "unknown""#,
    r#"context.protocol | "unknown""#,
    r#"response.code | 200"#,
    r#"conditional((context.reporter.kind | "inbound") == "outbound", "unknown", conditional(connection.mtls | false, "mutual_tls", "none"))"#,
];

fn attributes() -> OwnedAttributes {
    let mut attributes = OwnedAttributes::new();
    for (name, text) in [
        ("context.protocol", "http"),
        ("context.reporter.kind", "inbound"),
        ("destination.namespace", "prod"),
        ("destination.principal", "cluster.local/ns/prod/sa/ratings"),
        ("destination.service", "ratings.prod.svc.cluster.local"),
        ("destination.service.host", "ratings.prod.svc.cluster.local"),
        ("destination.service.name", "ratings"),
        ("destination.service.namespace", "prod"),
        ("destination.workload.name", "ratings-v1"),
        ("destination.workload.namespace", "prod"),
        ("request.host", "ratings"),
        ("request.path", "/productpage/7"),
        ("source.principal", "cluster.local/ns/prod/sa/reviews"),
        ("source.workload.name", "reviews-v3"),
        ("source.workload.namespace", "prod"),
    ] {
        attributes.insert(name, text);
    }
    attributes.insert("response.code", 200);
    attributes.insert("connection.mtls", true);
    attributes
        .insert("destination.labels", [("app", "ratings"), ("pod-template-hash", "123"), ("version", "v1")]);
    attributes.insert("source.labels", [("app", "reviews"), ("pod-template-hash", "456"), ("version", "v3")]);
    attributes.insert(
        "request.headers",
        [
            (":authority", "ratings"),
            (":method", "GET"),
            (":path", "/productpage/7"),
            ("user-agent", "curl/7.64"),
        ],
    );
    attributes
}

fn vocabulary(attributes: &OwnedAttributes) -> Vocabulary {
    let mut builder = Vocabulary::builder();
    for (name, value) in attributes.iter() {
        builder.declare(&String::from_utf8_lossy(name), OwnedValue::value_type(value));
    }
    builder.declare("source.user", ValueType::String);
    builder.build()
}

fn program(text: &str, vocabulary: &Vocabulary) -> Program {
    compile(Language::Cexl, text, vocabulary).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn evaluation(criterion: &mut Criterion) {
    let attributes = attributes();
    let vocabulary = vocabulary(&attributes);
    let conditions = CONDITIONS.map(|(name, text)| (name, program(text, &vocabulary)));
    let dimensions = DIMENSIONS.map(|text| program(text, &vocabulary));
    let absent = program(r#"source.user == "ann""#, &vocabulary);
    let body = attributes.to_bytes(222);
    let arena = Bump::new();
    let bag = AttributeBag::decode(&body, None, &vocabulary, &arena).unwrap();
    let mut group = criterion.benchmark_group("expr");
    for (name, program) in &conditions {
        assert_eq!(program.eval(&bag), Ok(Value::Bool(true)), "{}", program.text());
        group.bench_function(*name, |b| b.iter(|| black_box(program.eval(black_box(&bag)))));
    }
    group.bench_function("17_dimensions", |b| {
        b.iter(|| {
            for program in &dimensions {
                let _ = black_box(program.eval(black_box(&bag)));
            }
        });
    });
    group.bench_function("absent_attribute", |b| b.iter(|| black_box(absent.eval(black_box(&bag)))));
    group.finish();
}

fn compilation(criterion: &mut Criterion) {
    let vocabulary = vocabulary(&attributes());
    let mut group = criterion.benchmark_group("expr_compile");
    for (name, text) in CONDITIONS {
        group.bench_function(name, |b| b.iter(|| program(black_box(text), &vocabulary)));
    }
    group.finish();
}

criterion_group!(benches, evaluation, compilation);
criterion_main!(benches);
