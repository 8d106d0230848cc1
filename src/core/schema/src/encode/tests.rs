use mixer_config::yaml;
use serde_json::{Value as Json, json};

use super::*;
use crate::json::to_json;
use crate::kinds::{by_api, kinds};

fn node(text: &str) -> Node {
    yaml::parse(text).unwrap().root
}

/// The body of a kind and back.
fn through(api_version: &str, kind: &str, text: &str) -> Result<Json, Vec<Diagnostic>> {
    let encoded = encode(by_api(api_version, kind).unwrap(), &node(text))?;
    Ok(to_json(&encoded.type_url, &encoded.body).unwrap())
}

fn networking(kind: &str, text: &str) -> Result<Json, Vec<Diagnostic>> {
    through("networking.istio.io/v1alpha3", kind, text)
}

fn messages(problems: &[Diagnostic]) -> Vec<&str> {
    problems.iter().map(|problem| problem.message.as_str()).collect()
}

#[test]
fn null_is_an_absent_field_and_an_empty_choice() {
    let body =
        networking("VirtualService", "{http: null, hosts: [null], tls: [{match: [{port: null}]}]}").unwrap();
    assert_eq!(body, json!({"hosts": [""], "tls": [{"match": [{}]}]}));
    let port =
        networking("VirtualService", "{tcp: [{route: [{destination: {port: {number: null}}}]}]}").unwrap();
    assert_eq!(port["tcp"][0]["route"][0]["destination"]["port"], json!({"number": 0}));
    let policy = through("authentication.istio.io/v1alpha1", "Policy", "{peers: [{mtls: }, {}]}").unwrap();
    assert_eq!(policy, json!({"peers": [{"mtls": {}}, {}]}));
    assert_eq!(networking("Gateway", "").unwrap(), json!({}));
}

#[test]
fn an_item_without_a_value_is_an_error() {
    let errors = networking("Gateway", "servers:\n- hosts: [a.b]\n-\n").unwrap_err();
    assert_eq!(messages(&errors), ["an item of a list is null"]);
    assert_eq!(errors[0].field.to_string(), "spec.servers[1]");
}

#[test]
fn every_field_of_the_wrong_type_is_reported_where_it_is() {
    let text = "servers:\n- hosts: a.b\n  port: {number: x, name: 7}\n  tls: {mode: NONE}\n";
    let errors = networking("Gateway", text).unwrap_err();
    let found: Vec<_> = errors
        .iter()
        .map(|e| {
            (e.field.to_string(), e.span.map(|span| (span.start.line, span.start.column)).unwrap_or_default())
        })
        .collect();
    let expected = [
        ("spec.servers[0].port.number", (3, 18)),
        ("spec.servers[0].port.name", (3, 27)),
        ("spec.servers[0].hosts", (2, 10)),
        ("spec.servers[0].tls.mode", (4, 15)),
    ];
    assert_eq!(found, expected.map(|(field, at)| (field.to_owned(), at)));
    assert_eq!(errors[2].message, "json: cannot unmarshal string into Go value of type []json.RawMessage");
    assert!(errors[3].message.starts_with("unknown value \"NONE\" for enum"), "{}", errors[3].message);
    assert!(errors.iter().all(|error| error.code == "spec-decode"));
}

#[test]
fn fields_that_are_left_out_are_told() {
    let kind = by_api("networking.istio.io/v1alpha3", "VirtualService").unwrap();
    let text = "{hots: [a], tcp: [{route: [{destination: {port: {number: 1, name: a}}}]}]}";
    let encoded = encode(kind, &node(text)).unwrap();
    let found: Vec<_> =
        encoded.warnings.iter().map(|w| (w.code, w.field.to_string(), w.hint.clone())).collect();
    let hint = |text: &str| Some(text.to_owned());
    let expected = [
        ("field-ignored", "spec.hots".to_owned(), hint("did you mean `hosts`?")),
        (
            "field-ignored",
            "spec.tcp[0].route[0].destination.port.name".to_owned(),
            hint("remove one of them"),
        ),
    ];
    assert_eq!(found, expected);
    let body = to_json(&encoded.type_url, &encoded.body).unwrap();
    assert_eq!(
        body["tcp"][0]["route"][0]["destination"]["port"],
        json!({"name": "a"}),
        "the last one counts"
    );
}

#[test]
fn equal_documents_have_equal_bytes() {
    let kind = by_api("networking.istio.io/v1alpha3", "Gateway").unwrap();
    let bytes = |text: &str| encode(kind, &node(text)).unwrap().body;
    assert_eq!(
        bytes("{selector: {b: c, a: d}, servers: [{port: {number: 80, name: a}}]}"),
        bytes("servers:\n- port:\n    name: a\n    number: \"80\"\nselector:\n  a: d\n  b: c\n")
    );
}

#[test]
fn objects_of_kubernetes_are_read_as_it_reads_them() {
    let service = through(
        "v1",
        "Service",
        "{clusterIP: 10.0.0.1, ports: [{name: http, port: 80, targetPort: web}, {port: 81, targetPort: 8081}], new: 1}",
    );
    let ports = json!([{"name": "http", "port": 80, "targetPort": "web"}, {"port": 81, "targetPort": 8081}]);
    assert_eq!(service.unwrap(), json!({"clusterIP": "10.0.0.1", "ports": ports}));
    let pod = "metadata: {name: a, creationTimestamp: 2018-01-31T12:00:00Z, labels: {b: c}}
spec:
  containers: [{name: x, resources: {limits: {cpu: 100m, memory: 1}}, livenessProbe: {tcpSocket: {port: 80}}}]
  volumes: [{name: v, emptyDir: {}}]
status: {podIP: 10.0.0.2, phase: Running}
";
    let body = through("v1", "Pod", pod).unwrap();
    assert_eq!(body["metadata"]["creationTimestamp"], json!("2018-01-31T12:00:00Z"));
    let container = &body["spec"]["containers"][0];
    assert_eq!(container["resources"]["limits"], json!({"cpu": "100m", "memory": "1"}));
    assert_eq!(container["livenessProbe"], json!({"tcpSocket": {"port": 80}}));
    assert_eq!(body["spec"]["volumes"], json!([{"name": "v", "emptyDir": {}}]));
    assert_eq!(body["status"]["podIP"], json!("10.0.0.2"));
    let ingress =
        "{rules: [{host: a, http: {paths: [{path: /, backend: {serviceName: s, servicePort: 80}}]}}]}";
    let body = through("extensions/v1beta1", "Ingress", ingress).unwrap();
    assert_eq!(
        body["rules"][0]["http"]["paths"][0]["backend"],
        json!({"serviceName": "s", "servicePort": 80})
    );
}

#[test]
fn free_values_keep_what_they_are() {
    let text = "{a: [1, 1.5, yes, null, x, {b: []}], c: {}}";
    let body = through("config.istio.io/v1alpha2", "denier", text).unwrap();
    assert_eq!(body, json!({"a": [1, 1.5, true, null, "x", {"b": []}], "c": {}}));
    let errors = through("config.istio.io/v1alpha2", "denier", "[a]").unwrap_err();
    assert!(errors[0].message.starts_with("bad StructValue: json: cannot unmarshal array"), "{errors:?}");
}

/// What no document should do: end the process.
#[test]
fn every_kind_takes_any_value() {
    for kind in kinds() {
        for text in ["", "{}", "[]", "x", "7", "true", "{metadata: 1}", "{rules: [[]]}", "{a: {b: {c: [~]}}}"]
        {
            let _ = encode(kind, &node(text));
        }
    }
}
