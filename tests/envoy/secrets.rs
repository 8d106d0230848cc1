//! What a request keeps secret is secret under the name of an attribute, too: in logs, recordings, ControlZ and explanations.

use mixer_wire::envoy::service::auth::v3::{
    AttributeContext, CheckRequest, CheckResponse, attribute_context,
};
use prost::Message as _;

use crate::direct::{AUTHORIZATION, Setting};
use crate::support::http;

/// The value of a cookie, in capitals for the handler that repeats it.
const SECRET: &str = "TOPSECRET12345";

/// A list that refuses a cookie, a header and a query parameter that are mapped to attributes, and repeats them in its message.
const POLICY: &str = r#"
kind: attributemanifest
metadata: {name: mapped, namespace: istio-system}
spec:
  attributes:
    request.path: {valueType: STRING}
    request.caller: {valueType: STRING}
    request.pass: {valueType: STRING}
    request.session: {valueType: STRING}
---
kind: attributemapping
metadata: {name: mapped, namespace: istio-system}
spec:
  mappings:
  - {attribute: request.session, from: {cookie: session}}
  - {attribute: request.caller, from: {requestHeader: x-api-key}}
  - {attribute: request.pass, from: {queryParameter: access_token}}
---
kind: handler
metadata: {name: nobody, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {overrides: [nobody]}}
---
kind: instance
metadata: {name: caller, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: 'request.session | request.caller | request.pass | request.path'}}
---
kind: rule
metadata: {name: refuse, namespace: istio-system}
spec:
  match: (request.session | "") != "nobody"
  actions: [{handler: nobody, instances: [caller]}]
"#;

fn request(path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let http = attribute_context::HttpRequest {
        method: "GET".to_owned(),
        path: path.to_owned(),
        headers: headers.collect(),
        ..Default::default()
    };
    let request = attribute_context::Request { time: None, http: Some(http) };
    let attributes = AttributeContext { request: Some(request), ..Default::default() };
    CheckRequest { attributes: Some(attributes) }.encode_to_vec()
}

#[test]
fn attributes_from_secret_parts_of_a_request_are_masked_everywhere() {
    let arguments = ["--decision-log=$DIRECTORY/log", "--record-requests=$DIRECTORY/calls"];
    let mut setting = Setting::on(POLICY, &arguments);
    let mut client = setting.client();
    let mut refused = |path: &str, headers: &[(&str, &str)]| {
        let answer = client.call(AUTHORIZATION, request(path, headers), None).expect("an answer");
        let code = CheckResponse::decode(answer).expect("a response").status.expect("a status").code;
        assert_ne!(code, 0, "{path} {headers:?}");
    };
    let cookie = format!("a=b; session={SECRET}");
    // The second one is answered by the cache.
    refused("/", &[("cookie", &cookie)]);
    refused("/", &[("cookie", &cookie)]);
    refused("/", &[("x-api-key", SECRET)]);
    refused(&format!("/x?access_token={SECRET}"), &[]);
    refused(&format!("/x?a=1;token={SECRET}"), &[]);
    refused(&format!("/x?%74oken={SECRET}"), &[]);

    let ctrlz = |path: &str| format!("http://127.0.0.1:{}{path}", setting.server.ports.ctrlz);
    for path in ["/denialj/", "/denialz/", "/explainz/?denial=1"] {
        let page = http("GET", &ctrlz(path), "").expect("a page").body;
        assert!(page.contains("request.session"), "{path}: {page}");
        assert!(!page.contains(SECRET), "{path}: {page}");
    }
    // The text that a caller of the page typed is his own; what is evaluated from it is masked.
    let form = format!("attributes=request.session%3D{SECRET}");
    let page = http("POST", &ctrlz("/explainz/"), &form).expect("a page").body;
    let (_, answer) = page.split_once("id=\"answer\"").expect("an answer");
    assert!(answer.contains("request.session") && !answer.contains(SECRET), "{answer}");

    assert_eq!(setting.server.terminate(), Ok(Some(0)));
    for file in ["log", "calls"] {
        let lines = setting.lines(file);
        assert_eq!(lines.len(), 6, "{file}: {lines:#?}");
        assert!(lines.iter().all(|line| !line.to_string().contains(SECRET)), "{file}: {lines:#?}");
        assert_eq!(lines[0]["attributes"]["request.session"], "***", "{file}: {lines:#?}");
        let message = "nobody.istio-system:*** is not whitelisted";
        assert_eq!(lines[0]["answer"]["status"]["message"], message, "{file}: {lines:#?}");
        assert_eq!(lines[1]["cached"], true, "{file}: {lines:#?}");
        // The rule is known without an evaluation; what its handler was asked is not.
        let refused_by = serde_json::json!(["refuse.rule.istio-system"]);
        assert_eq!(
            (&lines[0]["rules"], &lines[1]["rules"]),
            (&refused_by, &refused_by),
            "{file}: {lines:#?}"
        );
        assert!(lines[1]["handlers"].is_null(), "{file}: {lines:#?}");
    }
}
