//! Sources of configuration whose messages take more memory than they have bytes, or more than there is.

use std::collections::BTreeMap;
use std::path::Path;

use mixer_mcp::message::google::protobuf::Any;
use mixer_mcp::message::{Metadata, Resource};

use crate::support::mcp_source::McpSource;
use crate::support::{DEADLINE, Server, http, sample_configuration, wait_for};

const RULES: &str = "istio/policy/v1beta1/rules";
const RULE: &str = "type.googleapis.com/istio.policy.v1beta1.Rule";
/// Most resident memory of the server, in MiB.
const BOUND: u64 = 256;

/// A server with an address space of 1 GB that has the sample configuration from a source.
struct Stage {
    source: McpSource,
    server: Server,
}

impl Stage {
    fn start() -> Self {
        let source = McpSource::serving(&sample_configuration());
        let launcher = ["-c", "ulimit -v 1048576; exec \"$@\"", "sh"].map(str::to_owned);
        let server = Server::on_store(&source.url())
            .native()
            .env("RUST_BACKTRACE", "0")
            .through(Path::new("/bin/sh"), &launcher)
            .start();
        source.refusals();
        Self { source, server }
    }

    /// Sends a collection. Returns why it is refused.
    fn send(&self, what: &str, collection: &str, resources: Vec<Resource>) -> Option<String> {
        self.source.put(collection, resources);
        let answered = wait_for(DEADLINE, || self.source.is_answered(collection).then_some(()));
        assert!(answered.is_some(), "{what}: no answer\n{}", self.server.log());
        self.source.refusals().pop()
    }

    /// The server has served all the time, within the bound.
    #[track_caller]
    fn end(self, what: &str) {
        self.end_within(what, BOUND);
    }

    /// [`end`](Self::end), within a bound of its own, in MiB.
    #[track_caller]
    fn end_within(mut self, what: &str, bound: u64) {
        let peak = self.server.peak_kib() >> 10;
        println!("{what}: {peak} MiB");
        let ready = http("GET", &self.server.monitoring_url("/readyz"), "").expect("an answer");
        assert_eq!(ready.status, 200, "{what}: {}", self.server.log());
        assert_eq!(self.source.streams(), 1, "{what}: {}", self.server.log());
        assert!(peak <= bound, "{what} takes {peak} MiB, more than {bound}");
        assert_eq!(self.server.terminate(), Ok(Some(0)), "{}", self.server.log());
    }
}

fn resource(name: String, type_url: &str, body: Vec<u8>) -> Resource {
    let metadata = Metadata { name, version: "1".to_owned(), ..Metadata::default() };
    let body = Any { type_url: type_url.to_owned(), value: body.into() };
    Resource { metadata: Some(metadata), body: Some(body) }
}

/// A rule without actions.
fn rule(name: String) -> Resource {
    resource(name, RULE, b"\x0a\x12source.name == \"a\"".to_vec())
}

fn labels(count: usize) -> BTreeMap<String, String> {
    (0..count).map(|number| (format!("a{number}"), "b".to_owned())).collect()
}

#[test]
fn labels_and_annotations_that_nothing_reads() {
    let stage = Stage::start();
    let labels = labels(1_000);
    let rules = (0..1_000).map(|number| {
        let mut rule = rule(format!("istio-system/r{number}"));
        let metadata = rule.metadata.as_mut().expect("it has some");
        (metadata.labels, metadata.annotations) = (labels.clone(), labels.clone());
        rule
    });
    assert_eq!(stage.send("labels", RULES, rules.collect()), None);
    stage.end("1 000 x 2 000 labels and annotations");
}

#[test]
fn labels_of_one_resource() {
    let stage = Stage::start();
    let mut all = vec![rule("istio-system/r".to_owned())];
    all.iter_mut()
        .filter_map(|rule| rule.metadata.as_mut())
        .for_each(|metadata| metadata.labels = labels(100_000));
    let refusal = stage.send("labels", RULES, all).expect("a refusal");
    assert!(refusal.starts_with("resource `istio-system/r` has 100000 labels and annotations"), "{refusal}");
    stage.end("100 000 labels");
}

#[test]
fn very_many_resources() {
    let stage = Stage::start();
    let rules = |count: usize| (0..count).map(|number| rule(format!("istio-system/r{number}"))).collect();
    let refusal = stage.send("rules", RULES, rules(500_000)).expect("a refusal");
    assert!(refusal.contains("all may take 318767104, and half as much"), "{refusal}");
    stage.end("500 000 rules");
}

/// Handlers with very many parameters take several times as much as rules of the same length.
#[test]
fn long_objects_count_with_what_they_take_while_they_serve() {
    const HANDLERS: usize = 4;
    const OVERRIDES: usize = 14_000;
    // What the tables of so many have free, and what a burst leaves behind.
    const SPARE: u64 = 8 << 20;
    // What reading one of them takes for a moment, in MiB; before it was returned to the system at once, each took as much more.
    const PEAK: u64 = 448;
    let directory = tempfile::tempdir().expect("a directory");
    let overrides: String = (0..OVERRIDES)
        .map(|number| {
            format!("      - {{dimensions: {{a: \"user-{number:07}\"}}, maxAmount: 7, validDuration: 1s}}\n")
        })
        .collect();
    for number in 0..HANDLERS {
        let text = format!(
            "apiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {{name: long{number}, namespace: istio-system}}\nspec:\n  \
             compiledAdapter: memquota\n  params:\n    quotas:\n    - name: q.instance.istio-system\n      maxAmount: 1\n      \
             validDuration: 1s\n      overrides:\n{overrides}"
        );
        std::fs::write(directory.path().join(format!("{number}.yaml")), text).expect("a file");
    }
    let stage = Stage::start();
    let private = || {
        stage.server.return_memory();
        stage.server.metric("mixer_process_memory_bytes{kind=\"private\"}") as u64
    };
    for entry in std::fs::read_dir(sample_configuration()).expect("a directory").flatten() {
        std::fs::copy(entry.path(), directory.path().join(entry.file_name())).expect("a file");
    }
    let handlers = || stage.server.metric("mixer_config_handler_configs_total") as usize;
    let (before, known) = (private(), handlers());
    let collection = "istio/policy/v1beta1/handlers";
    stage.source.set_collection(directory.path(), collection);
    let answered = wait_for(DEADLINE, || stage.source.is_answered(collection).then_some(()));
    assert!(answered.is_some(), "{}", stage.server.log());
    assert_eq!(stage.source.refusals(), Vec::<String>::new());
    let serves = || handlers() == known + HANDLERS;
    assert!(wait_for(DEADLINE, || serves().then_some(())).is_some(), "{}", stage.server.log());
    // Of an override 71 bytes of text, three times, and nine values of 48 bytes.
    let counted = (HANDLERS * OVERRIDES * (3 * 71 + 9 * 48)) as u64;
    let mut taken = u64::MAX;
    let within = wait_for(DEADLINE, || {
        taken = private().saturating_sub(before);
        (taken <= counted + SPARE).then_some(())
    });
    println!("{HANDLERS} long handlers take {taken} bytes, and count {counted}");
    assert!(within.is_some(), "{HANDLERS} long handlers take {taken} bytes, and count {counted}");
    assert!(taken >= counted / 3, "they take {taken} bytes, and count {counted}");
    stage.end_within("long handlers", PEAK);
}

#[test]
fn objects_count_with_what_they_take_while_they_serve() {
    const RULES_SENT: usize = 8_000;
    // What the tables of so many have free, and what a burst leaves behind.
    const SPARE: u64 = 6 << 20;
    let stage = Stage::start();
    let private = || {
        stage.server.return_memory();
        stage.server.metric("mixer_process_memory_bytes{kind=\"private\"}") as u64
    };
    let before = private();
    let rules = (0..RULES_SENT).map(|number| {
        // `source.name == "aNUMBER"`, with the handler and the instance of the sample configuration.
        let condition = format!("source.name == \"a{number}\"");
        let action = [&[0x12, 9][..], b"turn-away", &[0x1a, 6], b"caller"].concat();
        let mut body = [&[0x0a, condition.len() as u8], condition.as_bytes()].concat();
        body.extend([0x12, action.len() as u8]);
        body.extend(action);
        resource(format!("istio-system/r{number}"), RULE, body)
    });
    assert_eq!(stage.send("rules", RULES, rules.collect()), None);
    let serves = || stage.server.metric("mixer_config_rule_configs_total") >= RULES_SENT as f64;
    assert!(wait_for(DEADLINE, || serves().then_some(())).is_some(), "{}", stage.server.log());
    // Each counts three times its text of 330 bytes, and 2 KiB.
    let counted = RULES_SENT as u64 * (3 * 330 + (2 << 10));
    let mut taken = u64::MAX;
    let within = wait_for(DEADLINE, || {
        taken = private().saturating_sub(before);
        (taken <= counted + SPARE).then_some(())
    });
    println!("{RULES_SENT} rules take {taken} bytes, and count {counted}");
    assert!(within.is_some(), "{RULES_SENT} rules take {taken} bytes, and count {counted}");
    stage.end("8 000 rules");
}
