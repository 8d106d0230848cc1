//! The answers of a sink to the messages of the golden cases, and what they leave in it.

use serde_json::Value;

use super::*;
use crate::message::google::protobuf::Any;
use crate::message::{Metadata, Resource as Message, Resources};

const RULES: &str = "istio/policy/v1beta1/rules";
const RULE: &str = "type.googleapis.com/istio.policy.v1beta1.Rule";

/// Keeps the last change.
#[derive(Default)]
struct Last(Option<Change>, Option<Refusal>);

impl Updater for Last {
    fn apply(&mut self, change: Change) -> Result<(), Refusal> {
        self.0 = Some(change);
        self.1.take().map_or(Ok(()), Err)
    }
}

fn sink(incremental: bool) -> Arc<Sink> {
    let rules = SinkCollection { name: RULES.into(), type_url: Some(RULE.into()), incremental };
    Sink::new(SinkOptions::new("mixer", vec![rules]), &Arc::new(Metrics::new()))
}

fn resource(name: &str, version: &str, type_url: &str) -> Message {
    let metadata = Metadata { name: name.to_owned(), version: version.to_owned(), ..Metadata::default() };
    let body = Any { type_url: type_url.to_owned(), value: Default::default() };
    Message { metadata: Some(metadata), body: Some(body) }
}

fn message(nonce: &str, names: &[(&str, &str)]) -> Resources {
    Resources {
        collection: RULES.to_owned(),
        nonce: nonce.to_owned(),
        system_version_info: format!("version of {nonce}"),
        resources: names.iter().map(|(name, version)| resource(name, version, RULE)).collect(),
        ..Resources::default()
    }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

#[test]
fn answers_are_those_of_istio_mixer() {
    let case =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../testdata/conformance/galley/sink-acks/expected.json");
    let case: Value = serde_json::from_str(&std::fs::read_to_string(case).unwrap()).unwrap();
    let (sink, mut updater) = (sink(false), Last::default());
    let steps = case["transcript"].as_array().unwrap();
    assert!(!steps.is_empty());
    for step in steps {
        let source = &step["source"];
        let resources = source["resources"].as_array().unwrap().iter().map(|given| {
            let metadata = &given["metadata"];
            resource(&text(metadata, "name"), &text(metadata, "version"), &text(&given["body"], "@type"))
        });
        let message = Resources {
            collection: text(source, "collection"),
            nonce: text(source, "nonce"),
            system_version_info: text(source, "systemVersionInfo"),
            resources: resources.collect(),
            ..Resources::default()
        };
        let answer = sink.handle(message, &mut updater);
        let expected = &step["sink"];
        let error = answer.error_detail.map(|error| (i64::from(error.code), error.message));
        let expected_error =
            expected.get("errorDetail").map(|e| (e["code"].as_i64().unwrap(), text(e, "message")));
        assert_eq!((error, answer.collection), (expected_error, text(expected, "collection")));
        assert_eq!(answer.response_nonce, text(expected, "responseNonce"));
        assert_eq!(answer.sink_node.unwrap_or_default().id, text(&expected["sinkNode"], "id"));
        assert!(!answer.incremental);
    }
}

#[test]
fn what_is_refused_changes_nothing_and_says_why() {
    let (sink, mut updater) = (sink(true), Last::default());
    sink.initial_requests();
    sink.handle(message("1", &[("a", "1")]), &mut updater);
    let refuse = |updater: &mut Last, change: &dyn Fn(&mut Resources)| {
        let mut message = message("2", &[("a", "2"), ("b", "1")]);
        message.incremental = true;
        change(&mut message);
        let answer = sink.handle(message, updater);
        assert!(!answer.incremental, "not in a NACK");
        let error = answer.error_detail.unwrap();
        (error.code, error.message)
    };
    assert_eq!(
        refuse(&mut updater, &|message| message.resources[1].body = None),
        (2, "resource `b` has no body".to_owned())
    );
    let (code, text) = refuse(&mut updater, &|message| message.resources[1] = resource("b", "1", "t"));
    assert_eq!((code, text.contains("resource `b` has type `t`")), (3, true), "{text}");
    updater.1 = Some("no".to_owned().into());
    assert_eq!(refuse(&mut updater, &|_| {}), (3, "no".to_owned()));
    updater.1 = Some(Refusal::from("ü".repeat(1 << 20)));
    let (code, text) = refuse(&mut updater, &|_| {});
    assert_eq!((code, text.chars().count(), text.ends_with("ü…")), (3, 2_049, true));
    updater.1 = Some(Refusal::undecodable("garbage"));
    assert_eq!(refuse(&mut updater, &|_| {}), (2, "garbage".to_owned()));
    let status = &sink.status().collections[RULES];
    assert_eq!((status.changes, status.version.as_deref()), ((1, 5), Some("version of 1")));
    assert_eq!(status.refusal, Some(Refusal::undecodable("garbage")));
    let requests = sink.initial_requests();
    let has = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
    assert_eq!(requests[0].initial_resource_versions, has);
}

#[test]
fn what_exceeds_a_bound_is_refused_before_it_is_read() {
    let (sink, mut updater) = (sink(false), Last::default());
    let mut refuse = |change: &dyn Fn(&mut Resources)| {
        let mut message = message("1", &[("shop/a", "1"), ("shop/b", "1")]);
        change(&mut message);
        let error = sink.handle(message, &mut updater).error_detail;
        assert_eq!(error.is_none(), updater.0.take().is_some());
        error.map(|error| (error.code, error.message))
    };
    let labels = |count: usize| {
        move |message: &mut Resources| {
            let metadata = message.resources[1].metadata.as_mut().unwrap();
            metadata.labels = (0..count / 2).map(|n| (format!("{n:04}"), "b".to_owned())).collect();
            metadata.annotations = metadata.labels.clone();
        }
    };
    // An entry has 9 bytes beside the 128.
    assert_eq!(refuse(&labels(7_652)), None);
    let text = "resource `shop/b` has 7654 labels and annotations that take 1048598 bytes, of which each counts 128 beside its text, \
                more than 1 MiB: remove those that nothing reads";
    assert_eq!(refuse(&labels(7_654)), Some((3, text.to_owned())));
    let body = |size: usize| {
        move |message: &mut Resources| {
            message.resources[0].body.as_mut().unwrap().value = vec![0; size].into();
        }
    };
    assert_eq!(refuse(&body((2 << 20) - 100)), None);
    let (code, text) = refuse(&body(2 << 20)).unwrap();
    assert!(code == 3 && text.ends_with("bytes, more than 2 MiB: divide it into several"), "{text}");
    let long = "x".repeat(1 << 20);
    let (_, text) = refuse(&|message| message.resources[0] = resource(&long, "1", &long)).unwrap();
    assert!(text.len() < 1_000, "{}", text.len());
    assert!(refuse(&|message| message.nonce = "n".repeat(60_000)).is_none());
    let too_long = Resources { nonce: "n".repeat(70_000), ..message("", &[]) };
    use crate::grpc::Receivable as _;
    let error = Arrived::receive(prost::Message::encode_to_vec(&too_long).into()).unwrap_err();
    assert!(error.starts_with("version, collection and nonce have 70"), "{error}");
}

#[test]
fn what_cannot_be_decoded_is_refused() {
    let (sink, mut updater) = (sink(false), Last::default());
    let bytes = |resource: &[u8]| {
        let head = prost::Message::encode_to_vec(&message("1", &[("shop/a", "1")]));
        [&head[..], &[3 << 3 | 2, u8::try_from(resource.len()).unwrap()], resource].concat()
    };
    use crate::grpc::Receivable as _;
    use futures_util::FutureExt as _;
    // A length that is more than there is; a label that is no text.
    let length = u8::try_from(RULE.len()).unwrap();
    let rule: Vec<u8> = [&[0x12, length + 2, 0x0a, length][..], RULE.as_bytes()].concat();
    for resource in [vec![0x0a, 9], [&rule[..], &[0x0a, 6, 0x22, 4, 0x0a, 2, 0xff, 0xff]].concat()] {
        let arrived = Arrived::receive(bytes(&resource).into()).unwrap();
        updater.0 = None;
        let answer = sink.take(arrived, &mut updater).now_or_never().unwrap();
        let error = match answer.error_detail {
            Some(error) => error.message,
            None => {
                let read: Result<Vec<_>, _> = updater.0.take().unwrap().resources.into_iter().collect();
                read.unwrap_err().message
            }
        };
        assert!(error.starts_with("resource 2 of the message cannot be decoded: "), "{error}");
    }
    assert!(Arrived::receive(vec![3 << 3 | 2, 9].into()).is_err(), "the message itself is cut off");
}

#[test]
fn without_versions_in_the_request_the_first_difference_is_everything() {
    let (sink, mut updater) = (sink(true), Last::default());
    assert!(sink.initial_requests()[0].incremental);
    let mut first = message("1", &[("a", "1"), ("b", "1")]);
    first.incremental = true;
    assert!(sink.handle(first, &mut updater).incremental);
    assert!(!updater.0.take().unwrap().incremental);
    let mut second = message("2", &[("c", "1")]);
    (second.incremental, second.removed_resources) = (true, vec!["a".to_owned()]);
    sink.handle(second, &mut updater);
    let change = updater.0.take().unwrap();
    assert_eq!((change.incremental, change.removed), (true, vec!["a".to_owned()]));
    assert_eq!(sink.status().collections[RULES].resources, 2);
}

#[test]
fn differences_that_say_two_things_or_were_not_asked_for_are_refused() {
    let (sink, mut updater) = (sink(true), Last::default());
    sink.initial_requests();
    sink.handle(message("1", &[("a", "1")]), &mut updater);
    let mut both = message("2", &[("a", "1"), ("b", "1")]);
    (both.incremental, both.removed_resources) = (true, vec!["a".to_owned()]);
    let error = sink.handle(both, &mut updater).error_detail.unwrap();
    assert_eq!((error.code, error.message.as_str()), (3, "a is there and removed"));
    let whole = self::sink(false);
    whole.initial_requests();
    let mut first = message("1", &[("a", "1")]);
    first.incremental = true;
    assert_eq!(whole.handle(first.clone(), &mut updater).error_detail, None, "it has everything");
    (first.nonce, first.removed_resources) = ("2".to_owned(), vec!["b".to_owned()]);
    let error = whole.handle(first, &mut updater).error_detail.unwrap();
    assert_eq!((error.code, error.message.as_str()), (3, "differences were not asked for"));
    assert_eq!(whole.status().collections[RULES].changes, (1, 1));
}

#[test]
fn the_journal_has_the_last_requests() {
    let (sink, mut updater) = (sink(false), Last::default());
    for nonce in 0..40 {
        sink.handle(message(&nonce.to_string(), &[]), &mut updater);
    }
    let journal = sink.journal();
    assert_eq!(journal.len(), 32);
    assert_eq!((journal[0].nonce.as_str(), journal[31].nonce.as_str()), ("8", "39"));
}

#[test]
fn pauses_double_up_to_the_longest_and_start_over() {
    let mut pauses = Pauses::new((Duration::from_secs(1), Duration::from_secs(30)));
    for expected in [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
        let pause = pauses.next().as_secs_f64();
        assert!((expected * 0.79..=expected * 1.21).contains(&pause), "{pause} instead of {expected}");
    }
    pauses.reset();
    assert!(pauses.next() < Duration::from_millis(1300));
}
