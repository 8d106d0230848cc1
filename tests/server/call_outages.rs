//! Outages of a backend that calls need, Redis, an adapter out of process or the API server of a cluster, behind a front that refuses, hangs, resets, is slow, talks nonsense or shows a wrong
//! certificate. Calls of other rules are answered as ever, those of its own rule within the time limit of the handler, and once the front is
//! mended they are granted again without a restart.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::adapter_examples::redis;
use crate::adapter_failures::{self, Adapter, Mode};
use crate::certificates::{Authority, put};
use crate::fronts::Front;
use crate::outage_load::{Round, Scene, measure};
use crate::outages::{FAULTS, Fault};
use crate::support::kube_api::{KubeApi, TOKEN, kubeconfig};
use crate::support::policy::attributes;
use crate::support::rpc::{Client, mixer};
use crate::support::{DEADLINE, Server, free_port, http, wait_for};

/// How long a call waits for its backend.
const TIMEOUT: Duration = Duration::from_millis(300);
/// How much longer an answer may take on a machine that does much else.
const SLACK: Duration = Duration::from_secs(20);

/// What calls need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    Redis,
    Process,
    /// Its pods are not known before they were listed once, and calls that look for one fail until then.
    Cluster,
}

/// A pod with the label `app=web`.
const POD: &str = "web-1";

impl Waited {
    /// The handler and the rule of a front, for the user of the same name.
    fn handler(self, front: &Front, root: &str) -> String {
        let (name, port) = (front.fault.name(), front.port());
        let is_secure = front.fault == Fault::ShowsWrongCertificate;
        let millis = TIMEOUT.as_millis();
        match self {
            Waited::Redis => {
                let (url, tls) = match is_secure {
                    true => (format!("rediss://localhost:{port}"), format!(", tls: {{caFile: '{root}'}}")),
                    false => (format!("127.0.0.1:{port}"), String::new()),
                };
                format!(
                    "---\napiVersion: config.istio.io/v1alpha2\nkind: handler\n\
                     metadata: {{name: {name}, namespace: istio-system}}\n\
                     spec: {{compiledAdapter: redisquota, params: {{redisServerUrl: '{url}', timeout: {millis}ms{tls}, quotas: \
                     [{{name: held.instance.istio-system, maxAmount: 1000000000, validDuration: 3600s}}]}}}}\n\
                     ---\napiVersion: config.istio.io/v1alpha2\nkind: rule\n\
                     metadata: {{name: {name}, namespace: istio-system}}\n\
                     spec: {{match: source.user == \"{name}\", actions: [{{handler: {name}, instances: [held]}}]}}\n"
                )
            }
            Waited::Process => {
                let token = root.replace("root.pem", "token");
                let authentication = match is_secure {
                    true => format!(
                        ", authentication: {{tls: {{caCertificates: '{root}', tokenPath: '{token}', authHeader: PLAIN}}}}"
                    ),
                    false => String::new(),
                };
                let address = format!("address: \"127.0.0.1:{port}\", timeout: {millis}ms{authentication}");
                adapter_failures::handler(&name, &address, "")
            }
            Waited::Cluster => {
                let scheme = if is_secure { "https" } else { "http" };
                let mut text =
                    kubeconfig(&format!("{scheme}://localhost:{port}"), &format!("token: {TOKEN}"));
                if is_secure {
                    text = text.replace(
                        "cluster: {server",
                        &format!("cluster: {{certificate-authority: '{root}', server"),
                    );
                }
                let path = root.replace("root.pem", &name);
                std::fs::write(&path, text).unwrap();
                format!(
                    "---\napiVersion: config.istio.io/v1alpha2\nkind: handler\n\
                     metadata: {{name: {name}, namespace: istio-system}}\n\
                     spec: {{compiledAdapter: kubernetesenv, params: {{kubeconfigPath: '{path}', remoteClusters: false, syncTimeout: 50ms}}}}\n\
                     ---\napiVersion: config.istio.io/v1alpha2\nkind: rule\n\
                     metadata: {{name: {name}, namespace: istio-system}}\n\
                     spec: {{match: source.user == \"{name}\", actions: [{{handler: {name}, instances: [held]}}]}}\n\
                     ---\napiVersion: config.istio.io/v1alpha2\nkind: rule\n\
                     metadata: {{name: web-{name}, namespace: istio-system}}\n\
                     spec: {{match: 'source.user == \"{name}\" && (source.labels[\"app\"] | \"\") != \"web\"', \
                     actions: [{{handler: refuse, instances: [caller]}}]}}\n"
                )
            }
        }
    }

    /// What all handlers have in common.
    fn common(self) -> String {
        match self {
            Waited::Redis => "\n---\napiVersion: config.istio.io/v1alpha2\nkind: instance\n\
                 metadata: {name: held, namespace: istio-system}\nspec: {compiledTemplate: quota, params: {dimensions: {}}}\n"
                .to_owned(),
            Waited::Process => {
                // The manifest is that of the policy.
                let common = adapter_failures::common(false);
                format!("\n---\n{}", common.split_once("---\n").expect("several documents").1)
            }
            Waited::Cluster => format!(
                "\n---\napiVersion: config.istio.io/v1alpha2\nkind: attributemanifest\n\
                 metadata: {{name: pods, namespace: istio-system}}\nspec: {{attributes: {{source.labels: {{valueType: STRING_MAP}}}}}}\n\
                 ---\napiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {{name: held, namespace: istio-system}}\n\
                 spec: {{compiledTemplate: kubernetes, params: {{source_uid: '\"{POD}.shop\"'}}, \
                 attributeBindings: {{source.labels: $out.source_labels | emptyStringMap()}}}}\n"
            ),
        }
    }

    /// Whether a call of a rule is granted something, or allowed. It is answered in time.
    fn is_served(self, client: &mut Client, name: &str, id: &str) -> bool {
        let quota = mixer::check_request::QuotaParams { amount: 1, best_effort: true };
        let asked_for = match self {
            Waited::Redis => Some("held"),
            Waited::Process => Some("quota"),
            Waited::Cluster => None,
        };
        let request = mixer::CheckRequest {
            attributes: Some(attributes(name)),
            deduplication_id: id.to_owned(),
            quotas: asked_for.map(|asked_for| (asked_for.to_owned(), quota)).into_iter().collect(),
            ..Default::default()
        };
        let asked = Instant::now();
        let answer = client.check(&request, None);
        assert!(asked.elapsed() < TIMEOUT + SLACK, "{name}: {:?}", asked.elapsed());
        answer.is_ok_and(|answer| match asked_for {
            Some(asked_for) => answer.quotas.get(asked_for).is_some_and(|held| held.granted_amount == 1),
            None => answer.precondition.and_then(|of| of.status).is_some_and(|status| status.code == 0),
        })
    }

    /// How its handlers are called in ControlZ.
    fn name(self, front: &Front) -> String {
        let kind = if self == Waited::Process { ".handler" } else { "" };
        format!("{}{kind}.istio-system", front.fault.name())
    }
}

/// Why a handler does not work, by ControlZ.
fn trouble(server: &Server, name: &str) -> Option<String> {
    let url = format!("http://127.0.0.1:{}/handlerj/", server.ports.ctrlz);
    let all: serde_json::Value = serde_json::from_str(&http("GET", &url, "").unwrap().body).unwrap();
    let handler = all.as_array().unwrap().iter().find(|of| of["name"] == name);
    let handler = handler.unwrap_or_else(|| panic!("no handler {name}: {all}"));
    handler["trouble"].as_str().map(str::to_owned)
}

/// `port` is that of the backend.
fn outages_end(waited: Waited, port: u16) -> Round {
    let files = tempfile::tempdir().unwrap();
    let [trusted, other] = [Authority::new(), Authority::new()];
    let root = put(files.path(), "root.pem", &trusted.certificate);
    put(files.path(), "token", "secret");
    let fronts = FAULTS.map(Front::new);
    let mut text = waited.common();
    for front in &fronts {
        text += &waited.handler(front, &root);
        match front.fault {
            Fault::Refuses => {}
            Fault::ShowsWrongCertificate => {
                let both = [&other, &trusted].map(|authority| authority.issue(&["localhost", "127.0.0.1"]));
                front.listen(port, Some(both));
            }
            _ => front.listen(port, None),
        }
    }
    let mut scene = Scene::start(&text, &[]);
    let served = AtomicU64::new(0);
    let load = |scene: &Scene, calls: &AtomicI64, stop: &AtomicBool| {
        std::thread::scope(|scope| {
            for front in &fronts {
                let (name, address, served) = (front.fault.name(), scene.server.address(), &served);
                scope.spawn(move || {
                    let mut client = Client::new(&address).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        let call = calls.fetch_add(1, Ordering::Relaxed);
                        let is_served = waited.is_served(&mut client, &name, &format!("load-{call}"));
                        served.fetch_add(u64::from(is_served), Ordering::Relaxed);
                        // The rate.
                        std::thread::sleep(Duration::from_millis(2));
                    }
                });
            }
        });
    };
    let outage = scene.turn_with(&load);
    let (calls, during) = (scene.reported, served.load(Ordering::Relaxed));
    let server = &scene.server;
    for front in fronts.iter().filter(|front| front.fault != Fault::IsSlow) {
        let name = waited.name(front);
        let told = wait_for(DEADLINE, || trouble(server, &name));
        assert!(told.is_some(), "{name} has no trouble\n{}", server.log());
    }
    let mended = Instant::now();
    fronts.iter().for_each(|front| front.mend(port));
    let mut client = Client::new(&server.address()).unwrap();
    for front in &fronts {
        let (user, name) = (front.fault.name(), waited.name(front));
        let mut turn = 0;
        let again = wait_for(DEADLINE, || {
            turn += 1;
            waited.is_served(&mut client, &user, &format!("again-{user}-{turn}")).then_some(())
        });
        assert!(again.is_some(), "{name} is granted nothing: {:?}\n{}", trouble(server, &name), server.log());
        assert_eq!(wait_for(DEADLINE, || trouble(server, &name).is_none().then_some(())), Some(()), "{name}");
    }
    let recovery = mended.elapsed();
    scene.round_of_calls(outage, recovery, calls.unsigned_abs(), during, &load)
}

#[test]
fn outages_of_redis_hold_up_no_other_call_and_end_without_a_restart() {
    let port = free_port();
    let _redis = redis(port);
    measure("redisquota", || outages_end(Waited::Redis, port));
}

#[test]
fn outages_of_adapters_out_of_process_hold_up_no_other_call_and_end_without_a_restart() {
    let adapter = Adapter::listening(Mode::Well);
    measure("out of process", || outages_end(Waited::Process, adapter.port));
}

#[test]
fn outages_of_api_servers_hold_up_no_other_call_and_end_without_a_restart() {
    let api = KubeApi::start();
    api.put(serde_json::json!({
        "kind": "Pod", "metadata": {"namespace": "shop", "name": POD, "labels": {"app": "web"}}, "status": {"phase": "Running"},
    }));
    let port = api.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    measure("kubernetesenv", || outages_end(Waited::Cluster, port));
}
