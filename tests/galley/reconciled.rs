//! The webhook behind an API server, and the webhook configuration that says so: in memory, or in a real one.

use http::Method;
use serde_json::{Value, json};

use crate::cluster::{GATEWAY, NAMESPACE, RULE, Scene, WEBHOOKS, gateway, until};
use crate::support::free_port;
use crate::support::galley::Galley;

const NAME: &str = "mixer-test";
const CONFIG: &str = "webhook.yaml";

/// The webhook configuration as a file: both webhooks at this port.
fn config(port: u16) -> String {
    let webhook = |name: &str, path: &str, group: &str, version: &str, plural: &str| {
        format!(
            "- name: {name}.validation.istio.io
  clientConfig: {{url: 'https://localhost:{port}/{path}'}}
  rules: [{{operations: [CREATE, UPDATE], apiGroups: [{group}], apiVersions: [{version}], resources: [{plural}]}}]
  sideEffects: None
"
        )
    };
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {{name: of-the-file}}\nwebhooks:\n{}{}",
        webhook("pilot", "admitpilot", "networking.istio.io", "v1alpha3", "gateways"),
        webhook("mixer", "admitmixer", "config.istio.io", "v1alpha2", "rules"),
    )
}

/// The service of galley has a ready address, and galley a deployment.
fn deploy(scene: &Scene) {
    let put = |all: String, object: Value| {
        let name = object["metadata"]["name"].as_str().unwrap();
        let _ = scene.send(Method::DELETE, &format!("{all}/{name}"), None);
        scene.send(Method::POST, &all, Some(&object)).unwrap();
    };
    let metadata = json!({"name": "istio-galley", "namespace": NAMESPACE});
    put(
        format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments"),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"selector": {"matchLabels": {"app": "galley"}}, "template": {
                "metadata": {"labels": {"app": "galley"}}, "spec": {"containers": [{"name": "galley", "image": "i"}]},
            }},
        }),
    );
    put(
        format!("/api/v1/namespaces/{NAMESPACE}/endpoints"),
        json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": metadata,
            "subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 443}]}],
        }),
    );
}

/// Galley with its webhook, which keeps the webhook configuration.
fn galley(scene: &Scene, more: &[&str]) -> Galley {
    let name = format!("--webhook-name={NAME}");
    let namespace = format!("--deployment-namespace={NAMESPACE}");
    let arguments = [
        &[
            "--enable-validation",
            "--validation-depth=deep",
            "--enable-reconcile-webhook-configuration",
            &name,
            &namespace,
        ][..],
        more,
    ];
    scene.galley(&arguments.concat())
}

fn live(scene: &Scene) -> Option<Value> {
    scene.send(Method::GET, &format!("{WEBHOOKS}/{NAME}"), None).ok()
}

fn policies(scene: &Scene) -> Vec<Value> {
    let webhooks = live(scene).map(|live| live["webhooks"].clone());
    webhooks
        .iter()
        .flat_map(|all| all.as_array())
        .flatten()
        .map(|webhook| webhook["failurePolicy"].clone())
        .collect()
}

/// Writes a file of galley at once.
fn write(galley: &Galley, name: &str, text: &str) {
    std::fs::write(galley.path("new"), text).unwrap();
    std::fs::rename(galley.path("new"), galley.path(name)).unwrap();
}

fn ca_bundle(galley: &Galley) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(std::fs::read(galley.path("cert.pem")).unwrap())
}

/// Whether the webhook is asked and denies what is wrong.
#[track_caller]
fn assert_admission(scene: &Scene, galley: &Galley, good: &str) {
    let without_servers = GATEWAY.of("bad", &json!({}));
    until("a new certificate is known", || {
        let refused = scene.create(GATEWAY, &without_servers).expect_err("it is not valid");
        assert!(refused.contains("pilot.validation.istio.io"), "{refused}");
        refused.contains("admission webhook \"pilot.validation.istio.io\" denied the request: ")
            && refused.ends_with("configuration is invalid: gateway must have at least one server")
    });
    scene
        .create(GATEWAY, &gateway(good, "shop.example.com"))
        .unwrap_or_else(|why| panic!("{why}\n{}", galley.log()));
    let refused = scene.create(RULE, &RULE.of("bad", &json!({"match": "source.user == ("}))).unwrap_err();
    let denied = "admission webhook \"mixer.validation.istio.io\" denied the request: error[";
    assert!(refused.contains(denied) && refused.contains("spec.match: "), "{refused}");
    let header = json!({"name": "x-shop", "values": ["\"open\""]});
    let rule = RULE.of(good, &json!({"match": "true", "requestHeaderOperations": [header]}));
    scene.create(RULE, &rule).unwrap_or_else(|why| panic!("{why}\n{}", galley.log()));
}

#[test]
fn the_webhook_configuration_of_an_api_server_in_memory_or_a_real_one_is_kept_as_its_file_says() {
    let scene = Scene::new();
    deploy(&scene);
    let file = format!("--validation-webhook-config-file={CONFIG}");
    let galley = galley(&scene, &[&file]);
    let is = |what: &str, is_so: &dyn Fn() -> bool| {
        until(&format!("{what}: {:?}", live(&scene)), is_so);
    };
    // Nothing listens there: what cannot be asked stays open.
    write(&galley, CONFIG, &config(free_port()));
    is("it is created", &|| policies(&scene) == ["Ignore", "Ignore"]);
    let made = live(&scene).unwrap();
    assert_eq!(made["metadata"]["name"], NAME);
    let owner = &made["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("Deployment"), &json!("istio-galley")), "{made}");
    scene.create(GATEWAY, &GATEWAY.of("unchecked", &json!({}))).unwrap();
    scene.delete(GATEWAY, "unchecked");
    assert_eq!(policies(&scene), ["Ignore", "Ignore"], "it is not proved to refuse");
    // It is proved in a dry run.
    write(&galley, CONFIG, &config(galley.webhook));
    is("it fails closed", &|| policies(&scene) == ["Fail", "Fail"]);
    assert!(
        scene
            .send(
                Method::GET,
                &format!(
                    "/apis/networking.istio.io/v1alpha3/namespaces/{NAMESPACE}/gateways/invalid-gateway"
                ),
                None
            )
            .is_err()
    );
    assert_admission(&scene, &galley, "good");
    // What it is changed to is corrected; what others have set stays. Nothing else is written.
    let drift = json!({
        "metadata": {"labels": {"team": "mesh"}},
        "webhooks": [{
            "name": "pilot.validation.istio.io", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
            "clientConfig": {"url": "https://localhost:1/admitpilot"}, "rules": [],
        }],
    });
    scene.send(Method::PATCH, &format!("{WEBHOOKS}/{NAME}"), Some(&drift)).unwrap();
    is("a drift is corrected", &|| policies(&scene) == ["Fail", "Fail"]);
    let corrected = live(&scene).unwrap();
    assert_eq!(corrected["metadata"]["labels"], json!({"team": "mesh"}));
    assert_eq!(corrected["webhooks"][0]["clientConfig"]["url"], made_url(&galley, "admitpilot"));
    assert_admission(&scene, &galley, "good-2");
    assert_eq!(live(&scene), Some(corrected), "what is as it should be is not written");
    // One that is deleted is made again.
    scene.send(Method::DELETE, &format!("{WEBHOOKS}/{NAME}"), None).unwrap();
    is("it is made again", &|| policies(&scene) == ["Fail", "Fail"]);
    // A file that is broken, empty or gone changes nothing, and is counted.
    let before = live(&scene).unwrap();
    for (text, why) in [
        ("webhooks: [", "the webhook configuration file: "),
        ("", "the webhook configuration file has no webhooks"),
    ] {
        write(&galley, CONFIG, text);
        is("it is told", &|| {
            galley.log().contains(&format!("the webhook configuration stays as it was: {why}"))
        });
    }
    std::fs::remove_file(galley.path(CONFIG)).unwrap();
    is("it is told", &|| {
        galley.log().contains(&format!("the webhook configuration stays as it was: {CONFIG}: "))
    });
    assert_eq!(live(&scene), Some(before));
    assert!(galley.metrics().contains("galley_validation_config_load_error"));
    let delete = format!("{WEBHOOKS}/{NAME}");
    scene.send(Method::DELETE, &delete, None).unwrap();
    is("it is made of the last content", &|| policies(&scene) == ["Fail", "Fail"]);
    // The file decides about the policy.
    let open =
        config(galley.webhook).replace("sideEffects: None", "failurePolicy: Ignore\n  sideEffects: None");
    write(&galley, CONFIG, &open);
    is("the policy of the file", &|| policies(&scene) == ["Ignore", "Ignore"]);
    write(&galley, CONFIG, &config(galley.webhook));
    is("the default", &|| policies(&scene) == ["Fail", "Fail"]);
    // A certificate is renewed.
    galley.renew_certificate();
    is("its root is known", &|| {
        live(&scene).unwrap()["webhooks"][1]["clientConfig"]["caBundle"] == ca_bundle(&galley)
    });
    assert_admission(&scene, &galley, "good-3");
    let dump = galley.document("/admissionj/");
    assert!(dump["failed"].as_u64() >= Some(6) && dump["passed"].as_u64() >= Some(6), "{dump}");
    // Without galley, nothing is admitted unchecked.
    drop(galley);
    let closed = scene.create(GATEWAY, &gateway("late", "shop.example.com")).unwrap_err();
    assert!(closed.contains("failed calling webhook \"pilot.validation.istio.io\""), "{closed}");
}

fn made_url(galley: &Galley, path: &str) -> String {
    format!("https://localhost:{}/{path}", galley.webhook)
}

#[test]
fn without_a_file_the_webhook_configuration_of_an_api_server_in_memory_or_a_real_one_is_completed() {
    let scene = Scene::new();
    deploy(&scene);
    let galley = galley(&scene, &[]);
    until("it is missed", || {
        galley.log().contains("there is no webhook configuration mixer-test to complete")
    });
    assert_eq!(live(&scene), None, "it is never created");
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME, "annotations": {"of": "the chart"}},
        "webhooks": [{
            "name": "pilot.validation.istio.io", "sideEffects": "None", "admissionReviewVersions": ["v1", "v1beta1"],
            "failurePolicy": "Ignore", "clientConfig": {"url": made_url(&galley, "admitpilot")},
            "rules": [{"operations": ["CREATE"], "apiGroups": ["networking.istio.io"], "apiVersions": ["v1alpha3"], "resources": ["gateways"]}],
        }],
    });
    scene.send(Method::POST, WEBHOOKS, Some(&object)).unwrap();
    until("it is completed", || policies(&scene) == ["Fail"]);
    let completed = live(&scene).unwrap();
    assert_eq!(completed["webhooks"][0]["clientConfig"]["caBundle"], ca_bundle(&galley));
    assert_eq!(completed["metadata"]["annotations"], json!({"of": "the chart"}));
    assert!(completed["metadata"]["ownerReferences"].is_null(), "{completed}");
    let refused = scene.create(GATEWAY, &GATEWAY.of("bad", &json!({}))).unwrap_err();
    assert!(
        refused.ends_with("configuration is invalid: gateway must have at least one server"),
        "{refused}"
    );
    scene.send(Method::DELETE, &format!("{WEBHOOKS}/{NAME}"), None).unwrap();
    let told = "there is no webhook configuration mixer-test to complete";
    until("it is missed again", || galley.log().matches(told).count() >= 2);
    assert_eq!(live(&scene), None);
}
