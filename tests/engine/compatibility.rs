//! Where this engine differs from Istio Mixer on purpose: docs/compatibility.md names each of these differences, and was checked by
//! running mixs 1.3.0 on the same requests.

use std::sync::Arc;

use mixer_api::MixerService;
use mixer_api::grpc::GrpcError;
use mixer_api::proto::istio::mixer::v1::CheckResponse;
use mixer_api::worker::MessageLimits;
use mixer_base::budget::Share;
use mixer_base::metrics::Metrics;
use prost::Message as _;

use crate::fixture::{serve, serve_editable};

/// Attributes, and a rule that copies a header.
const RULES: &str = r#"
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec:
  attributes:
    request.headers: {valueType: STRING_MAP}
    source.ip: {valueType: IP_ADDRESS}
    source.user: {valueType: STRING}
    destination.namespace: {valueType: STRING}
---
kind: rule
metadata: {name: copy, namespace: istio-system}
spec: {requestHeaderOperations: [{name: x-user, values: ['request.headers["user"] | "none"']}]}
---
kind: instance
metadata: {name: by-address, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {from: source.ip}}}
---
kind: instance
metadata: {name: by-time, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {at: 'timestamp(source.user)'}}}
---
kind: handler
metadata: {name: few, namespace: istio-system}
spec:
  compiledAdapter: memquota
  params:
    quotas:
    - {name: by-address.instance.istio-system, maxAmount: 10, validDuration: 60s}
    - {name: by-time.instance.istio-system, maxAmount: 10, validDuration: 60s}
---
kind: rule
metadata: {name: limit, namespace: istio-system}
spec: {actions: [{handler: few, instances: [by-address, by-time]}]}
"#;

/// A request in protobuf's encoding, field by field.
#[derive(Default)]
struct Attributes {
    words: Vec<Vec<u8>>,
    entries: Vec<u8>,
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn delimited(field: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3 | 2, &mut out);
    varint(bytes.len() as u64, &mut out);
    out.extend(bytes);
    out
}

impl Attributes {
    /// A word of the message: -1, -2, … in zigzag encoding.
    fn word(&mut self, text: impl AsRef<[u8]>) -> u8 {
        self.words.push(text.as_ref().to_vec());
        self.words.len() as u8 * 2 - 1
    }

    fn text(mut self, name: &str, value: &str) -> Self {
        let entry = [8, self.word(name), 16, self.word(value)];
        self.entries.extend(delimited(2, &entry));
        self
    }

    fn address(mut self, name: &str, value: &[u8]) -> Self {
        let entry = [vec![8, self.word(name)], delimited(2, value)].concat();
        self.entries.extend(delimited(8, &entry));
        self
    }

    /// A string map with one entry, whose encoding is given for the words of its key and its value.
    fn map(mut self, name: &str, [key, value]: [&[u8]; 2], entry: impl Fn(u8, u8) -> Vec<u8>) -> Self {
        let (name, key, value) = (self.word(name), self.word(key), self.word(value));
        let map = delimited(1, &entry(key, value));
        self.entries.extend(delimited(9, &[vec![8, name], delimited(2, &map)].concat()));
        self
    }

    fn header(self, value: &[u8]) -> Self {
        self.map("request.headers", [b"user", value], |key, value| vec![8, key, 16, value])
    }

    fn encode(&self) -> Vec<u8> {
        let words = self.words.iter().flat_map(|word| delimited(1, word));
        words.chain(self.entries.iter().copied()).collect()
    }
}

/// An engine with these rules.
struct Engine {
    background: tokio::runtime::Runtime,
    service: MixerService,
    metrics: Arc<Metrics>,
}

impl Engine {
    fn on(rules: &str) -> Self {
        let (background, runtime, metrics) = serve(rules, None);
        let service = MixerService::new(runtime, Arc::clone(&metrics), Arc::default(), None);
        Self { background, service, metrics }
    }

    /// As called as `mixs`.
    fn as_istio_mixer(rules: &str) -> Self {
        let (background, runtime, metrics) = serve(rules, None);
        let service = MixerService::over(mixer_api::Engine {
            runtime,
            metrics: Arc::clone(&metrics),
            last_known: Arc::default(),
            shedder: None,
            observers: None,
            limits: MessageLimits::default(),
            waiting: Arc::new(Share::new(8 << 20)),
            as_istio_mixer: true,
        });
        Self { background, service, metrics }
    }

    fn call(&self, attributes: &Attributes, quota: Option<(&str, &str)>) -> Result<CheckResponse, GrpcError> {
        let mut request = delimited(1, &attributes.encode());
        if let Some((name, id)) = quota {
            request.extend(delimited(3, id.as_bytes()));
            // 7 of it.
            let amount = delimited(2, &[8, 7]);
            request.extend(delimited(4, &[delimited(1, name.as_bytes()), amount].concat()));
        }
        let framed = self.background.block_on(self.service.check(request.into(), None))?;
        Ok(CheckResponse::decode(framed.slice(5..)).unwrap())
    }

    /// The first header that the answer sets.
    fn copied(&self, attributes: &Attributes) -> String {
        let answer = self.call(attributes, None).unwrap().precondition.unwrap();
        let directive = answer.route_directive.unwrap_or_default();
        directive.request_header_operations.first().map(|header| header.value.clone()).unwrap_or_default()
    }

    fn granted(&self, attributes: &Attributes, quota: &str, id: &str) -> i64 {
        let answer = self.call(attributes, Some((quota, id))).unwrap();
        answer.quotas.get(quota).map_or(-1, |quota| quota.granted_amount)
    }
}

/// Istio Mixer sends the bytes as they are, in a field that protobuf defines as UTF-8.
#[test]
fn header_values_are_utf_8() {
    let engine = Engine::on(RULES);
    assert_eq!(engine.copied(&Attributes::default().header(b"ann")), "ann");
    assert_eq!(engine.copied(&Attributes::default().header(b"a\xff\xfeb")), "a\u{fffd}\u{fffd}b");
}

/// Istio Mixer counts them apart.
#[test]
fn an_address_is_one_quota_cell_in_4_and_in_16_bytes() {
    let engine = Engine::on(RULES);
    let mapped = [&[0; 10][..], &[0xff, 0xff, 1, 2, 3, 4]].concat();
    for (id, address, granted) in [("a", &[1, 2, 3, 4][..], 7), ("b", &mapped, 0), ("c", &[1, 2, 3, 5], 7)] {
        let attributes = Attributes::default().address("source.ip", address);
        assert_eq!(engine.granted(&attributes, "by-address", id), granted, "{address:?}");
    }
}

/// For mixs 1.3.0 all calls without an id are repetitions of the first: it grants 1 to each of 6 calls where 2 are allowed.
#[test]
fn a_call_without_an_id_repeats_no_other() {
    // However slow the machine is.
    let rules =
        RULES.replace("  params:\n    quotas:", "  params:\n    minDeduplicationDuration: 600s\n    quotas:");
    assert_ne!(rules, RULES);
    let attributes = Attributes::default().address("source.ip", &[1, 2, 3, 4]);
    let grants =
        |engine: &Engine, ids: [&str; 3]| ids.map(|id| engine.granted(&attributes, "by-address", id));
    assert_eq!(grants(&Engine::on(&rules), ["", "", ""]), [7, 0, 0]);
    assert_eq!(grants(&Engine::on(&rules), ["a", "a", "b"]), [7, 7, 0]);
    assert_eq!(grants(&Engine::as_istio_mixer(&rules), ["", "", ""]), [7, 7, 7]);
    assert_eq!(grants(&Engine::as_istio_mixer(&rules), ["a", "b", "a"]), [7, 0, 7]);
}

/// Istio Mixer counts them apart.
#[test]
fn a_time_is_one_quota_cell_in_all_zones() {
    let engine = Engine::on(RULES);
    for (time, granted) in
        [("2020-01-02T01:04:05Z", 7), ("2020-01-02T03:04:05+02:00", 0), ("2020-01-02T03:04:05Z", 7)]
    {
        let attributes = Attributes::default().text("source.user", time);
        assert_eq!(engine.granted(&attributes, "by-time", time), granted, "{time}");
    }
}

/// Istio Mixer reads any wire type of key and value as a varint, and skips field 0 and the end of a group.
#[test]
fn malformed_map_entries_are_an_error() {
    type Entry = fn(u8, u8) -> Vec<u8>;
    let engine = Engine::on(RULES);
    let with = |entry: Entry| {
        let attributes = Attributes::default().map("request.headers", [b"user", b"ann"], entry);
        engine.call(&attributes, None).err().map(|error| error.message)
    };
    let accepted: [Entry; 3] = [
        |key, value| vec![8, key, 16, value],
        |key, value| vec![16, value, 8, key],
        // Field 3.
        |key, value| vec![8, key, 16, value, 24, 1],
    ];
    for entry in accepted {
        assert_eq!(with(entry), None);
    }
    let refused: [(Entry, &str); 5] = [
        (|key, value| vec![8, key, 16 + 5, value], "wrong wire type 5 for field 2"),
        (|key, value| vec![8, key, 16 + 2, value], "wrong wire type 2 for field 2"),
        (|key, value| vec![8 + 1, key, 16, value], "wrong wire type 1 for field 1"),
        (|key, value| vec![8, key, 16, value, 0, 0], "illegal tag 0"),
        (|key, value| vec![8, key, 16, value, 24 + 4], "group ends that did not begin"),
    ];
    for (entry, why) in refused {
        assert_eq!(with(entry), Some(format!("grpc: error unmarshalling request: {why}")));
    }
}

/// Istio Mixer calls the handler once a namespace.
#[test]
fn a_report_calls_a_handler_of_two_namespaces_once() {
    let parts = ["istio-system", "shop"].map(|namespace| {
        format!(
            "---\nkind: instance\nmetadata: {{name: seen, namespace: {namespace}}}\nspec: {{compiledTemplate: reportnothing}}\n\
             ---\nkind: rule\nmetadata: {{name: tell, namespace: {namespace}}}\n\
             spec: {{actions: [{{handler: sink.istio-system, instances: [seen]}}]}}\n"
        )
    });
    let handler = "---\nkind: handler\nmetadata: {name: sink, namespace: istio-system}\nspec: {compiledAdapter: noop}\n";
    let engine = Engine::on(&(RULES.to_owned() + handler + &parts.concat()));
    let attributes = Attributes::default().text("destination.namespace", "shop");
    let request = delimited(1, &attributes.encode());
    engine.background.block_on(engine.service.report(request.into(), None)).unwrap();
    let mut exposition = Vec::new();
    engine.metrics.write(&mut exposition);
    let exposition = String::from_utf8(exposition).unwrap();
    let is_sink = |line: &&str| {
        line.starts_with("mixer_runtime_dispatches_total{") && line.contains("\"sink.istio-system\"")
    };
    let dispatched: Vec<&str> = exposition.lines().filter(is_sink).collect();
    assert!(dispatched.len() == 1 && dispatched[0].ends_with(" 1"), "{dispatched:?}");
}

/// Istio Mixer leaves out a document that its reader refuses, and accepts the others.
#[test]
fn yaml_that_is_read_and_yaml_that_is_refused() {
    let metadata = "metadata: {name: odd, namespace: istio-system}";
    let operation = r#"{name: x-odd, values: ['"yes"']}"#;
    let spec = format!("spec: {{requestHeaderOperations: [{operation}]}}");
    let escape = r#"spec: {match: "\"a\/b\" == \"a/b\"", "#.to_owned() + spec.trim_start_matches("spec: {");
    for text in [
        format!("kind: rule\n{metadata}\n{escape}\n"),
        format!("kind: rule\n{metadata}\n\t\n{spec}\n"),
        format!("kind: rule\n{metadata}\nspec:\n  requestHeaderOperations:\n  -\t{operation}\n"),
        format!("%YAML 1.2\n--- \nkind: rule\n{metadata}\n{spec}\n"),
        format!("%FOO bar\n--- \nkind: rule\n{metadata}\n{spec}\n"),
    ] {
        let (background, runtime, metrics) = serve(&text, None);
        let service = MixerService::new(runtime, Arc::clone(&metrics), Arc::default(), None);
        let engine = Engine { background, service, metrics };
        assert_eq!(engine.copied(&Attributes::default()), "yes", "{text}");
    }
    for (value, why) in
        [("{~: 1}", "Unsupported map key of type: "), ("{a: .inf}", "json: unsupported value: +Inf")]
    {
        let text = format!("kind: rule\n{metadata}\nspec: {value}\n{spec}\n");
        let (_, runtime, ..) = serve_editable(&text, None);
        let problems: Vec<String> =
            runtime.load_full().diagnostics.iter().map(|problem| problem.message.clone()).collect();
        assert!(problems.iter().any(|problem| problem.contains(why)), "{value}: {problems:?}");
    }
}
