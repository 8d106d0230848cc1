//! Outages of a backend that calls need, such as Redis, an adapter out of process or the API server of a cluster, behind a front that refuses,
//! hangs, resets, is slow, talks nonsense or shows a wrong certificate. Calls of other rules are answered as ever, those of its own rule within
//! the time limit of the handler, and once the front is mended they are granted again without a restart.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::adapter_examples::redis;
use crate::adapter_failures::{self, Adapter, Mode};
use crate::certificates::{Authority, put};
use crate::fronts::Front;
use crate::outage_load::{Round, Scene, measure};
use crate::outages::{FAULTS, Fault};
use crate::support::cloud::Cloud;
use crate::support::kube_api::{KubeApi, TOKEN, kubeconfig};
use crate::support::policy::attributes;
use crate::support::rpc::{Client, mixer};
use crate::support::{Collector, DEADLINE, Server, free_port, http, python, wait_for};

/// How long a call waits for its backend.
const TIMEOUT: Duration = Duration::from_millis(300);
/// How much longer an answer may take on a machine that does much else, and with `bypass`, whose limit is 10 s.
const SLACK: Duration = Duration::from_secs(20);

/// What calls need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    Redis,
    Process,
    /// The other way to an adapter out of process, in plain text only.
    Bypass,
    /// Its pods are not known before they were listed once, and calls that look for one fail until then.
    Cluster,
    /// The same with a list.
    List,
    Keys,
    Quotas,
}

/// A pod with the label `app=web`.
const POD: &str = "web-1";

/// What is behind the fronts.
struct Behind {
    port: u16,
    /// The key file of an account.
    account: String,
}

impl From<u16> for Behind {
    fn from(port: u16) -> Self {
        Self { port, account: String::new() }
    }
}

/// A handler that gets the instance `held`, for the user of the same name.
fn of_user(name: &str, adapter: &str, params: &str) -> String {
    format!(
        "---\napiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{compiledAdapter: {adapter}, params: {{{params}}}}}\n\
         ---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{match: source.user == \"{name}\", actions: [{{handler: {name}, instances: [held]}}]}}\n"
    )
}

/// The instance `held`.
fn held(template: &str, params: &str) -> String {
    format!(
        "\n---\napiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {{name: held, namespace: istio-system}}\n\
         spec: {{compiledTemplate: {template}, params: {params}}}\n"
    )
}

impl Waited {
    /// Whether a backend can have a fault.
    fn has(self, fault: Fault) -> bool {
        self != Waited::Bypass || fault != Fault::ShowsWrongCertificate
    }

    /// The handler and the rule of a front, for the user of the same name.
    fn handler(self, front: &Front, root: &str, account: &str) -> String {
        let (name, port) = (front.fault.name(), front.port());
        let is_secure = front.fault == Fault::ShowsWrongCertificate;
        let url = format!("{}://localhost:{port}", if is_secure { "https" } else { "http" });
        let millis = TIMEOUT.as_millis();
        match self {
            Waited::Redis => {
                let (url, tls) = match is_secure {
                    true => (format!("rediss://localhost:{port}"), format!(", tls: {{caFile: '{root}'}}")),
                    false => (format!("127.0.0.1:{port}"), String::new()),
                };
                let quotas =
                    "[{name: held.instance.istio-system, maxAmount: 1000000000, validDuration: 3600s}]";
                let params = format!("redisServerUrl: '{url}', timeout: {millis}ms{tls}, quotas: {quotas}");
                of_user(&name, "redisquota", &params)
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
            Waited::Bypass => of_user(&name, "bypass", &format!("backendAddress: '127.0.0.1:{port}'")),
            Waited::Cluster => {
                let mut text = kubeconfig(&url, &format!("token: {TOKEN}"));
                if is_secure {
                    text = text.replace(
                        "cluster: {server",
                        &format!("cluster: {{certificate-authority: '{root}', server"),
                    );
                }
                let path = root.replace("root.pem", &name);
                std::fs::write(&path, text).unwrap();
                let params = format!("kubeconfigPath: '{path}', remoteClusters: false, syncTimeout: 50ms");
                format!(
                    "{}---\napiVersion: config.istio.io/v1alpha2\nkind: rule\n\
                     metadata: {{name: web-{name}, namespace: istio-system}}\n\
                     spec: {{match: 'source.user == \"{name}\" && (source.labels[\"app\"] | \"\") != \"web\"', \
                     actions: [{{handler: refuse, instances: [caller]}}]}}\n",
                    of_user(&name, "kubernetesenv", &params)
                )
            }
            Waited::List => {
                let params = format!("providerUrl: '{url}/{LIST}', refreshInterval: 1s, ttl: 300s");
                of_user(&name, "listchecker", &params)
            }
            Waited::Keys | Waited::Quotas => {
                let params = format!(
                    "endpoint: '{url}', credentialPath: '{account}', caFile: '{root}', timeout: {millis}ms, \
                     runtimeConfig: {{checkResultExpiration: 1s}}, serviceConfigs: [{{meshServiceName: books, \
                     googleServiceName: {name}, quotas: [{{name: held.instance.istio-system, expiration: 1s}}]}}]"
                );
                of_user(&name, "servicecontrol", &params)
            }
        }
    }

    /// What all handlers have in common.
    fn common(self) -> String {
        match self {
            Waited::Redis | Waited::Bypass => held("quota", "{dimensions: {}}"),
            Waited::Process => {
                // The manifest is that of the policy.
                let common = adapter_failures::common(false);
                format!("\n---\n{}", common.split_once("---\n").expect("several documents").1)
            }
            Waited::Cluster => {
                let outputs = "attributeBindings: {source.labels: $out.source_labels | emptyStringMap()}";
                format!(
                    "\n---\napiVersion: config.istio.io/v1alpha2\nkind: attributemanifest\n\
                     metadata: {{name: pods, namespace: istio-system}}\n\
                     spec: {{attributes: {{source.labels: {{valueType: STRING_MAP}}}}}}\n{}",
                    held("kubernetes", &format!("{{source_uid: '\"{POD}.shop\"'}}, {outputs}"))
                )
            }
            Waited::List => held("listentry", "{value: source.user}"),
            Waited::Keys => held("apikey", r#"{api: '"books"', apiOperation: '"GET"', apiKey: '"KEY"'}"#),
            Waited::Quotas => held("quota", r#"{dimensions: {api_key: '"KEY"', api_operation: '"GET"'}}"#),
        }
    }

    /// Whether a call of a rule is granted something, or allowed. It is answered in time.
    fn is_served(self, client: &mut Client, name: &str, id: &str) -> bool {
        let quota = mixer::check_request::QuotaParams { amount: 1, best_effort: true };
        let asked_for = match self {
            Waited::Redis | Waited::Bypass | Waited::Quotas => Some("held"),
            Waited::Process => Some("quota"),
            Waited::Cluster | Waited::List | Waited::Keys => None,
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

fn outages_end(waited: Waited, behind: &Behind) -> Round {
    let port = behind.port;
    let files = tempfile::tempdir().unwrap();
    let [trusted, other] = [Authority::new(), Authority::new()];
    let root = put(files.path(), "root.pem", &trusted.certificate);
    put(files.path(), "token", "secret");
    let faults = FAULTS.into_iter().filter(|fault| waited.has(*fault));
    let fronts: Vec<Front> = faults.map(Front::new).collect();
    let mut text = waited.common();
    for front in &fronts {
        text += &waited.handler(front, &root, &behind.account);
        match front.fault {
            Fault::Refuses => {}
            Fault::ShowsWrongCertificate => {
                let both = [&other, &trusted].map(|authority| authority.issue(&["localhost", "127.0.0.1"]));
                front.listen(port, Some(both));
            }
            _ => front.listen(port, None),
        }
    }
    let mut scene = Scene::start(&text, &[("SSL_CERT_FILE", &root)]);
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
    measure("redisquota", || outages_end(Waited::Redis, &port.into()));
}

#[test]
fn outages_of_adapters_out_of_process_hold_up_no_other_call_and_end_without_a_restart() {
    let adapter = Adapter::listening(Mode::Well);
    measure("out of process", || outages_end(Waited::Process, &adapter.port.into()));
}

#[test]
fn outages_of_adapters_behind_bypass_hold_up_no_other_call_and_end_without_a_restart() {
    let adapter = Adapter::listening(Mode::Well);
    measure("bypass", || outages_end(Waited::Bypass, &adapter.port.into()));
}

#[test]
fn outages_of_api_servers_hold_up_no_other_call_and_end_without_a_restart() {
    let api = KubeApi::start();
    api.put(serde_json::json!({
        "kind": "Pod", "metadata": {"namespace": "shop", "name": POD, "labels": {"app": "web"}}, "status": {"phase": "Running"},
    }));
    let port: u16 = api.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    measure("kubernetesenv", || outages_end(Waited::Cluster, &port.into()));
}

/// The list of all users of handlers.
const LIST: &str = "list.txt";

#[test]
fn outages_of_the_provider_of_a_list_hold_up_no_other_call_and_end_without_a_restart() {
    let files = tempfile::tempdir().unwrap();
    put(files.path(), LIST, &FAULTS.map(Fault::name).join("\n"));
    let provider = Collector::start(&python(), |port| {
        let files = files.path().display().to_string();
        ["-m", "http.server", "--bind", "127.0.0.1", "--directory", &files, &port.to_string()]
            .map(str::to_owned)
            .into()
    });
    measure("listchecker", || outages_end(Waited::List, &provider.port.into()));
}

#[test]
fn outages_of_google_hold_up_no_other_call_and_end_without_a_restart() {
    for (title, waited) in
        [("servicecontrol, checks", Waited::Keys), ("servicecontrol, quotas", Waited::Quotas)]
    {
        let cloud = Cloud::start("gcp", &[]).unwrap();
        let behind = Behind { port: cloud.port, account: cloud.file("sa.json") };
        measure(title, || outages_end(waited, &behind));
    }
}
