//! The decision log: refusals from the check cache, and a disk without room.

use serde_json::Value;

use crate::signals::{configuration, on};
use crate::support::bag::{Attribute, Attributes, Words, encode_alone};
use crate::support::rpc::{Client, mixer as wire};
use crate::support::{DEADLINE, Server, http, run_mixer as mixer, sample_configuration, wait_for};
use crate::tracing::decoding;

/// Why the decision log is degraded; empty if it is not.
fn why(server: &Server) -> String {
    let answer = http("GET", &server.monitoring_url("/readyz?verbose"), "").expect("an answer");
    assert_eq!(answer.status, 200, "the server answers calls all the same");
    let state: Value = serde_json::from_str(&answer.body).expect("JSON");
    state["degraded"]["decision-log"]["why"].as_str().unwrap_or_default().to_owned()
}

fn check(server: &Server) {
    let finished = mixer(&["check", "-m", &server.address(), "-s", "destination.service=shop"]);
    assert_eq!(finished.status, 0, "{}", finished.stderr);
}

#[test]
fn a_full_disk_is_a_degradation_until_lines_are_written_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("decisions");
    std::os::unix::fs::symlink("/dev/full", &log).expect("it is writable");
    let flags = ["--decision-log", log.to_str().expect("UTF-8")];
    let server = Server::on(&sample_configuration()).native().with(&flags).start();
    // It answers calls before its conditions were examined for the first time.
    let ready = server.monitoring_url("/readyz");
    let is_ready = || http("GET", &ready, "").is_ok_and(|answer| answer.status == 200).then_some(());
    assert!(wait_for(DEADLINE, is_ready).is_some(), "{}", server.log());
    assert_eq!(why(&server), "", "nothing was lost yet");
    check(&server);
    let told = wait_for(DEADLINE, || Some(why(&server)).filter(|why| !why.is_empty()));
    let expected = format!("decisions are lost: cannot write `{}`: no space left on device", log.display());
    assert_eq!(told, Some(expected), "{}", server.log());
    let metrics = http("GET", &server.monitoring_url("/metrics"), "").expect("metrics").body;
    assert!(metrics.contains("mixer_component_degraded{component=\"decision-log\"} 1"), "{metrics}");
    // Room is made.
    std::fs::remove_file(&log).expect("it is there");
    check(&server);
    let written = wait_for(DEADLINE, || why(&server).is_empty().then_some(()));
    assert!(written.is_some(), "{}\n{}", why(&server), server.log());
    assert!(std::fs::read_to_string(&log).is_ok_and(|text| text.contains("destination.service")));
}

/// What a cache answers was decided by a rule all the same.
#[test]
fn refusals_from_the_check_cache_name_the_rule_that_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("decisions");
    let flags = ["--num-check-cache-entries", "100", "--decision-log", log.to_str().expect("UTF-8")];
    let mut server = Server::on(&sample_configuration()).native().with(&flags).start();
    let address = server.address();
    let call = ["check", "-m", &address, "-s", "destination.service=shop"];
    for more in [&["--stringmap-attributes", "request.headers=clnt:abc"][..], &[]] {
        let status = i32::from(!more.is_empty());
        for _ in 0..2 {
            let finished = mixer(&[&call[..], more].concat());
            assert_eq!(finished.status, status, "{finished:?}");
        }
    }
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let text = std::fs::read_to_string(&log).expect("it was written");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let cached: Vec<bool> = lines.iter().map(|line| line["cached"] == true).collect();
    assert_eq!(cached, [false, true, false, true], "{text}");
    let by = |line: usize| lines[line]["rules"].as_array().cloned().unwrap_or_default();
    assert!(by(0).contains(&"unwelcome-client.rule.istio-system".into()), "{text}");
    assert_eq!(by(1), ["unwelcome-client.rule.istio-system"], "{text}");
    assert!(by(3).is_empty(), "nothing refused: {text}");
}

/// Conditions, a metric and a quota that convert what is secret.
const CONVERTING: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: refuse, namespace: istio-system}
spec: {compiledAdapter: denier, params: {}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: address, namespace: istio-system, annotations: {mixer.dev/on-error: deny}}
spec: {match: 'ip(request.headers["x-api-key"] | "1.1.1.1") == ip("1.2.3.4")', actions: [{handler: refuse, instances: [nothing]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: page, namespace: istio-system, annotations: {mixer.dev/on-error: deny}}
spec: {match: 'uri(request.headers["x-password"] | "http://b") == uri("http://a")', actions: [{handler: refuse, instances: [nothing]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: mail, namespace: istio-system, annotations: {mixer.dev/on-error: deny}}
spec: {match: 'email(request.headers["x-token"] | "a@b.c") == email("b@b.c")', actions: [{handler: refuse, instances: [nothing]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: value, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: 'request.headers["authorization"]', dimensions: {from: '"x"'}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: headers, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: request.headers, dimensions: {from: '"x"'}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: chosen, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: 'request.headers[source.name | "authorization"]', dimensions: {from: '"x"'}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: series, namespace: istio-system}
spec:
  compiledAdapter: prometheus
  params:
    metrics:
    - {instance_name: value.instance.istio-system, name: value, kind: COUNTER, label_names: [from]}
    - {instance_name: headers.instance.istio-system, name: headers, kind: COUNTER, label_names: [from]}
    - {instance_name: chosen.instance.istio-system, name: chosen, kind: COUNTER, label_names: [from]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: series, namespace: istio-system}
spec: {match: 'request.headers["authorization"] != ""', actions: [{handler: series, instances: [value, headers, chosen]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: seen, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: "1", dimensions: {from: 'ip(request.headers["authorization"])'}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: print, namespace: istio-system}
spec: {compiledAdapter: stdio, params: {}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: seen, namespace: istio-system}
spec: {match: 'request.headers["authorization"] != ""', actions: [{handler: print, instances: [seen]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {from: 'ip(request.headers["cookie"] | "1.1.1.1")'}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: limit, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 10, validDuration: 1s}]}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: calls, namespace: istio-system}
spec: {actions: [{handler: limit, instances: [calls]}]}
"#;

/// Errors repeat what could not be converted or delivered: as it is, in quotes with escapes, cut, and in part.
#[test]
fn no_secret_that_an_error_repeats_is_in_a_log_in_a_span_or_on_a_page() {
    let directory = configuration(CONVERTING);
    let decisions = directory.path().join("decisions");
    let collector = decoding();
    let spans = format!("http://127.0.0.1:{}/api/v2/spans", collector.port);
    let spans = ["--trace-zipkin-url", &spans, "--trace-sampling-rate", "1"];
    let log = ["--decision-log", decisions.to_str().expect("UTF-8"), "--decision-log-select", "all"];
    let flags = [log, spans].concat();
    let mut server = on(&directory).native().with(&flags).start();
    let mut client = Client::new(&server.address()).expect("a client");
    let secrets = [
        "hunter2-x".to_owned(),
        "hunter2\"\\x\ty".to_owned(),
        "hunter2\u{e9}\u{1}z".to_owned(),
        "%zzhunter2\"\u{1}".to_owned(),
        "a@b.c hunter2".to_owned(),
        "http://an.example/hunter2#of %zz".to_owned(),
        format!("hunter2{}", "b".repeat(4100)),
        "hunter2".repeat(1300),
    ];
    let attributes = |header: &str, secret: &str| {
        let map = [(header.to_owned(), secret.to_owned())].into();
        let named = [("request.headers".to_owned(), Attribute::StringMap(map))];
        Some(encode_alone(&Attributes::from(named), Words::of_message()))
    };
    for secret in &secrets {
        for header in ["x-api-key", "x-password", "x-token"] {
            let attributes = attributes(header, secret);
            // Some are addresses of pages.
            client.check(&wire::CheckRequest { attributes, ..Default::default() }, None).expect("an answer");
        }
        let params = wire::check_request::QuotaParams { amount: 1, best_effort: true };
        let (attributes_of_quota, quotas) =
            (attributes("cookie", secret), [("calls".to_owned(), params)].into());
        let check = wire::CheckRequest { attributes: attributes_of_quota, quotas, ..Default::default() };
        client.check(&check, None).expect("an answer");
        let attributes = attributes("authorization", secret).into_iter().collect();
        let report = wire::ReportRequest { attributes, ..Default::default() };
        client.report(&report, None).expect_err("the dimension cannot be converted");
    }
    let pages = ["/denialj/", "/denialz/", "/", "/callz/", "/rulez/", "/handlerz/"];
    let pages = pages.map(|page| http("GET", &server.ctrlz_url(page), "").expect("a page").body);
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let log = server.log();
    for told in ["Report failed", "Quota failure", "failed to report all values", "parsing"] {
        assert!(log.contains(told), "{log}");
    }
    let decisions = std::fs::read_to_string(&decisions).expect("they were written");
    assert!(decisions.contains("could not convert"), "{decisions}");
    let spans = collector.printed();
    assert!(spans.contains("could not convert"), "{spans}");
    for text in pages.iter().chain([&log, &decisions, &spans]) {
        let shown = text.find("hunter2").map(|at| text.get(at.saturating_sub(200)..).unwrap_or(text));
        assert_eq!(shown, None);
    }
}
