//! The adapters for cloud services: CloudWatch as moto has it, and stand-ins that verify signatures and tokens and decode every field.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::adapter_examples::{MANIFEST, example};
use crate::senders::{count, handler, report, until};
use crate::support::bag::{Attribute, Attributes, Words, encode_alone};
use crate::support::cloud::Cloud;
use crate::support::rpc::{Client, mixer};
use crate::support::{DEADLINE, Process, Server, ServerBuilder, free_port, is_listening, python, wait_for};

const WORDS: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec:
  attributes:
    request.size: {valueType: INT64}
    request.path: {valueType: STRING}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: hits, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: "1", dimensions: {path: request.path | ""}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: entry, namespace: istio-system}
spec: {compiledTemplate: logentry, params: {severity: '"info"', variables: {number: request.size | 0}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: span, namespace: istio-system}
spec:
  compiledTemplate: tracespan
  params:
    traceId: '"463ac35c9f6413ad48485a3953bb6124"'
    spanId: '"a2fb4a1d1a96d312"'
    spanName: request.path | "/"
    startTime: timestamp("2019-03-01T10:00:00Z")
    endTime: timestamp("2019-03-01T10:00:01Z")
    spanTags: {number: request.size | 0}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: edge, namespace: istio-system}
spec:
  compiledTemplate: edge
  params:
    sourceUid: '"kubernetes://web-1.shop"'
    sourceOwner: '"unknown"'
    sourceWorkloadName: '"web"'
    sourceWorkloadNamespace: '"shop"'
    destinationUid: request.path | "Unknown"
    destinationOwner: '"unknown"'
    destinationServiceName: '"db"'
    destinationServiceNamespace: '"shop"'
    contextProtocol: '"tcp"'
"#;

fn on(directory: &Path, text: &str) -> ServerBuilder {
    std::fs::write(directory.join("config.yaml"), text).unwrap();
    Server::on(directory).native()
}

fn cloudwatch(port: u16, more: &str) -> String {
    let params = format!(
        "namespace: mesh, region: us-east-1, metricsEndpoint: 'http://127.0.0.1:{port}', logsEndpoint: 'http://127.0.0.1:{port}', \
         metricInfo: {{hits.instance.istio-system: {{unit: Count}}}}, logGroupName: grp, logStreamName: st, wait: 50ms, \
         logs: {{entry.instance.istio-system: {{payloadTemplate: 'number {{{{.number}}}}'}}}}{more}"
    );
    format!("{WORDS}{}", handler("cloud", "hits, entry", "cloudwatch", &params))
}

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "AKIDLAB"), ("AWS_SECRET_ACCESS_KEY", "labsecret")];

fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

#[test]
fn a_strict_cloudwatch_takes_everything_once_although_it_is_busy_and_keys_expire() {
    let directory = tempfile::tempdir().unwrap();
    let cloud = Cloud::start("aws", &["AKIDLAB", "labsecret", "instance", "busy=2", "expired=2"]).unwrap();
    let here = format!("http://127.0.0.1:{}", cloud.port);
    let more = format!(", instanceEndpoint: '{here}'");
    // The keys are those of the role of the instance.
    let none = directory.path().join("none").display().to_string();
    let server = on(directory.path(), &cloudwatch(cloud.port, &more))
        .env("AWS_SHARED_CREDENTIALS_FILE", &none)
        .env("AWS_CONFIG_FILE", &none)
        .start();
    report(&server, 0..150, "a b");
    // What the service takes from nobody.
    report(&server, 150..151, "");
    report(&server, 151..152, "\u{e9}\n");
    for sender in ["cloudwatch metric sender", "cloudwatch log sender"] {
        until(&server, sender, "all is delivered", |of| count(of, "delivered") == 152);
    }
    let taken = cloud.taken(2).unwrap();
    let data: Vec<&Value> = taken.iter().flat_map(|request| list(request, "/form/MetricData")).collect();
    let of = |path: &str| data.iter().filter(|datum| datum["Dimensions"]["path"] == path).count();
    assert_eq!((of("a b"), of("-"), of("___"), data.len()), (150, 1, 1, 152));
    let mut messages: Vec<&str> = taken
        .iter()
        .flat_map(|request| list(request, "/json/logEvents"))
        .map(|event| event["message"].as_str().unwrap())
        .collect();
    messages.sort_unstable();
    messages.dedup();
    assert_eq!(messages.len(), 152);
    let outcomes: Vec<Value> = cloud.requests().unwrap();
    for outcome in ["busy", "expired"] {
        assert_eq!(outcomes.iter().filter(|request| request["outcome"] == outcome).count(), 2);
    }
    assert!(!server.log().contains("labsecret") && !server.log().contains("session/token"));
}

/// What the client of moto prints.
fn boto(port: u16, arguments: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/moto_client.py");
    let url = format!("http://127.0.0.1:{port}");
    let output = Command::new(python()).arg(script).arg(url).args(arguments).output().expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

#[test]
fn moto_has_every_value_and_every_entry() {
    let port = free_port();
    let mut command = Command::new(python().with_file_name("moto_server"));
    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _moto = Process::spawn(&mut command).expect("moto is installed: `.ci/run needs` does it");
    assert!(wait_for(DEADLINE, || is_listening(port).then_some(())).is_some(), "moto does not listen");
    let directory = tempfile::tempdir().unwrap();
    // The server is there before the log group and the stream are.
    let mut builder = on(directory.path(), &cloudwatch(port, ""));
    for (name, value) in KEYS {
        builder = builder.env(name, value);
    }
    let server = builder.start();
    report(&server, 0..60, "/a");
    until(&server, "cloudwatch log sender", "the group is missing", |of| of["state"] == "failing");
    assert!(
        server
            .log()
            .contains("could not retrieve Log Stream info from cloudwatch: ResourceNotFoundException")
    );
    boto(port, &["create", "grp", "st"]);
    report(&server, 60..100, "/b");
    for sender in ["cloudwatch metric sender", "cloudwatch log sender"] {
        until(&server, sender, "all is delivered", |of| count(of, "delivered") == 100);
    }
    let sums = boto(port, &["metrics", "mesh"]);
    let sum = |path: &str| sums[format!("hits.instance.istio-system path={path}")].as_f64();
    assert_eq!((sum("/a"), sum("/b")), (Some(60.0), Some(40.0)), "{sums}");
    let events = boto(port, &["events", "grp", "st"]);
    let mut numbers: Vec<i64> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message.as_str().unwrap().strip_prefix("number ").unwrap().parse().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
}

#[test]
fn roles_are_assumed_for_a_token_and_by_a_profile() {
    let arn = "arn:aws:iam::123456789012:role/mixer";
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (token, none) = (file("token", "a.web.token\n"), files.path().join("none").display().to_string());
    let config = file(
        "config",
        &format!(
            "[profile mesh]\nrole_arn = {arn}\nsource_profile = keys\nrole_session_name = lab\nexternal_id = 7x\nduration_seconds = 900\n\
             [profile keys]\naws_access_key_id = AKIDLAB\naws_secret_access_key = labsecret\n"
        ),
    );
    let by_token =
        [("AWS_WEB_IDENTITY_TOKEN_FILE", token.as_str()), ("AWS_ROLE_ARN", arn), ("AWS_CONFIG_FILE", &none)];
    let by_profile = [("AWS_PROFILE", "mesh"), ("AWS_CONFIG_FILE", config.as_str())];
    let role = format!("role={arn}");
    for (variables, options, form) in [
        (&by_token[..], &[role.as_str(), "web=a.web.token"][..], ["mixer", ""]),
        (&by_profile[..], &[role.as_str()][..], ["lab", "7x"]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let cloud = Cloud::start("aws", &[&["AKIDLAB", "labsecret"], options].concat()).unwrap();
        let here = format!("http://127.0.0.1:{}", cloud.port);
        let mut builder = on(directory.path(), &cloudwatch(cloud.port, ""))
            .env("AWS_SHARED_CREDENTIALS_FILE", &none)
            .env("AWS_ENDPOINT_URL_STS", &here);
        for (name, value) in variables {
            builder = builder.env(name, value);
        }
        let server = builder.start();
        report(&server, 0..20, "/");
        for sender in ["cloudwatch metric sender", "cloudwatch log sender"] {
            until(&server, sender, "all is delivered", |of| count(of, "delivered") == 20);
        }
        let all = cloud.requests().unwrap();
        let roles: Vec<&Value> = all.iter().filter(|request| request["outcome"] == "role").collect();
        // One of each sender, which keeps its key.
        assert_eq!(roles.len(), 2, "{}", cloud.printed());
        let of = |name: &str| roles[0]["role"][name].as_str().unwrap_or_default();
        assert_eq!([of("RoleSessionName"), of("ExternalId")], form);
        for secret in ["labsecret", "rolesecret", "a.web.token"] {
            assert!(!server.log().contains(secret), "{}", server.log());
        }
    }
}

fn environment(builder: ServerBuilder, cloud: &Cloud) -> ServerBuilder {
    let here = format!("127.0.0.1:{}", cloud.port);
    builder
        .env("SSL_CERT_FILE", &cloud.file("ca.crt"))
        .env("GCE_METADATA_HOST", &here)
        .env("HTTPS_PROXY", &format!("http://{here}"))
        .env("NO_PROXY", "127.0.0.1")
}

#[test]
fn strict_services_of_google_take_everything_once_although_they_are_busy_and_tokens_expire() {
    let directory = tempfile::tempdir().unwrap();
    let grpc = free_port();
    let cloud = Cloud::start("gcp", &[&format!("grpc={grpc}"), "busy=2", "expired=2"]).unwrap();
    let params = format!(
        "endpoint: '127.0.0.1:{grpc}', projectId: lab-proj, serviceAccountPath: '{}', pushInterval: 100ms, graphInterval: 100ms, \
         trace: {{sampleProbability: 1}}, metricInfo: {{hits.instance.istio-system: {{kind: DELTA, value: INT64}}}}, \
         logInfo: {{entry.instance.istio-system: {{labelNames: [number], payloadTemplate: 'number {{{{.number}}}}', \
         sinkInfo: {{id: there, destination: storage.googleapis.com/b, filter: severity>=ERROR, UpdateFilter: true}}}}}}",
        cloud.file("sa.json")
    );
    let text = format!("{WORDS}{}", handler("gcp", "hits, entry, span, edge", "stackdriver", &params));
    let server = environment(on(directory.path(), &text), &cloud).start();
    report(&server, 0..100, "kubernetes://db-1.shop");
    for sender in ["stackdriver log sender", "stackdriver span sender"] {
        until(&server, sender, "all is delivered", |of| count(of, "delivered") == 100);
    }
    let of_method = |name: &str| -> Vec<Value> {
        let taken = cloud.taken(0).unwrap();
        taken.into_iter().filter(|call| call["method"].as_str().unwrap().ends_with(name)).collect()
    };
    let total = || -> i64 {
        let calls = of_method("/CreateTimeSeries");
        let series = calls.iter().flat_map(|call| list(call, "/request/time_series"));
        let value = |of: &Value| {
            let text = of.pointer("/points/0/value/int64_value").and_then(Value::as_str);
            text.and_then(|text| text.parse::<i64>().ok()).expect("a number")
        };
        series.map(value).sum()
    };
    assert!(wait_for(DEADLINE, || (total() == 100).then_some(())).is_some(), "{}", total());
    let entries = of_method("/WriteLogEntries");
    let mut numbers: Vec<i64> = entries
        .iter()
        .flat_map(|call| list(call, "/request/entries"))
        .map(|entry| {
            assert_eq!(entry["severity"], "INFO", "{entry}");
            let number = entry["labels"]["number"].as_str().unwrap();
            assert_eq!(entry["text_payload"], format!("number {number}"));
            number.parse().unwrap()
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    let spans = of_method("/BatchWriteSpans");
    assert_eq!(spans.iter().map(|call| list(call, "/request/spans").len()).sum::<usize>(), 100);
    let asserted = || of_method("/AssertBatch");
    assert!(wait_for(DEADLINE, || (!asserted().is_empty()).then_some(())).is_some());
    let graph = asserted();
    assert_eq!(graph.len(), 1, "it is new once");
    // Both ends have the same unknown owner.
    assert_eq!(list(&graph[0], "/request/entity_present_assertions").len(), 6);
    // The sink was there already. Nothing waits for it.
    let updates = || Some(of_method("/UpdateSink")).filter(|updates| !updates.is_empty());
    let update = wait_for(DEADLINE, updates).expect("the sink is updated");
    assert_eq!(update[0]["request"]["sink_name"], "projects/lab-proj/sinks/there");
    assert_eq!(update[0]["request"]["update_mask"], "filter");
    assert!(!server.log().contains("Bearer") && !server.log().contains("PRIVATE"));
}

/// A check of a key, and its code.
fn check(client: &mut Client, key: &str) -> Result<i32, String> {
    let text = |name: &str, value: &str| (name.to_owned(), Attribute::Text(value.to_owned()));
    let bag: Attributes = [
        text("destination.service", "books.shop"),
        text("request.method", "GET"),
        text("request.path", "/books"),
        text("request.api_key", key),
    ]
    .into_iter()
    .collect();
    let attributes = Some(encode_alone(&bag, Words::of_message()));
    let request = mixer::CheckRequest { attributes, ..Default::default() };
    let answer = client.check(&request, None).map_err(|status| status.to_string())?;
    Ok(answer.precondition.and_then(|precondition| precondition.status).unwrap_or_default().code)
}

#[test]
fn the_example_of_servicecontrol_checks_and_reports_and_nothing_is_allowed_without_google() {
    let directory = tempfile::tempdir().unwrap();
    let cloud = Cloud::start("gcp", &["expired=1"]).unwrap();
    let manifest = MANIFEST.replace("source.user", "request.api_key");
    let text = example("servicecontrol").replace("/etc/mixer/service-account.json", &cloud.file("sa.json"));
    let server = environment(on(directory.path(), &format!("{manifest}{text}")), &cloud).start();
    let mut client = Client::new(&server.address()).unwrap();
    assert_eq!(check(&mut client, "KEY1"), Ok(0), "{}", cloud.printed());
    let mut request = mixer::ReportRequest {
        repeated_attributes_semantics: 1,
        global_word_count: 222,
        ..Default::default()
    };
    let bag: Attributes =
        [("destination.service", "books.shop"), ("request.method", "GET"), ("request.api_key", "KEY1")]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), Attribute::Text(value.to_owned())))
            .collect();
    request.attributes.push(encode_alone(&bag, Words::of_message()));
    client.report(&request, None).unwrap();
    until(&server, "servicecontrol sender", "the report is delivered", |of| count(of, "delivered") == 1);
    let taken = cloud.taken(2).unwrap();
    let operation = &taken.last().unwrap()["json"]["operations"][0];
    assert_eq!(
        (&operation["operationName"], &operation["consumerId"]),
        (&"GET".into(), &"api_key:KEY1".into())
    );
    drop(cloud);
    // The answer of a known key is cached; for another one, Google would have to be asked.
    assert!(check(&mut client, "KEY2") != Ok(0));
}

#[test]
fn the_examples_of_cloudwatch_and_stackdriver_count_requests() {
    let cloud = Cloud::start("aws", &["AKIDLAB", "labsecret"]).unwrap();
    let here = format!("http://127.0.0.1:{}", cloud.port);
    let directory = tempfile::tempdir().unwrap();
    let text = format!("{MANIFEST}{}", example("cloudwatch"));
    let mut builder = on(directory.path(), &text).env("AWS_ENDPOINT_URL", &here);
    for (name, value) in KEYS {
        builder = builder.env(name, value);
    }
    let mut server = builder.start();
    report(&server, 0..7, "/");
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let taken = cloud.taken(1).unwrap();
    let data: Vec<&Value> = taken.iter().flat_map(|request| list(request, "/form/MetricData")).collect();
    assert_eq!(data.len(), 7, "{}", cloud.printed());
    assert_eq!((&data[0]["Unit"], &data[0]["Value"]), (&"Count".into(), &"1".into()));
    assert_eq!(taken.iter().map(|request| list(request, "/json/logEvents").len()).sum::<usize>(), 7);

    let grpc = free_port();
    let cloud = Cloud::start("gcp", &[&format!("grpc={grpc}")]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let text = example("stackdriver")
        .replace("/etc/mixer/service-account.json", &cloud.file("sa.json"))
        .replace("projectId:", &format!("endpoint: '127.0.0.1:{grpc}'\n    projectId:"));
    let mut server = environment(on(directory.path(), &format!("{MANIFEST}{text}")), &cloud).start();
    report(&server, 0..7, "/");
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let taken = cloud.taken(2).unwrap();
    let series: Vec<&Value> = taken.iter().flat_map(|call| list(call, "/request/time_series")).collect();
    let value = |of: &Value| of.pointer("/points/0/value/int64_value").cloned();
    assert_eq!(series.iter().map(|of| value(of)).collect::<Vec<_>>(), [Some("7".into())]);
    assert_eq!(taken.iter().map(|call| list(call, "/request/entries").len()).sum::<usize>(), 7);
}
