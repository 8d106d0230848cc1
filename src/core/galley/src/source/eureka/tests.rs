//! The source against a stand-in of a Eureka server, with the pipeline behind it. The stand-in keeps the contract of Eureka's REST
//! operations: everything with a hash, changes with the hash after them, and it refuses what is not asked for as it should be.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use serde_json::{Value, json};

use super::*;
use crate::Galley;
use crate::source::tests::{held, start, state, until, until_held};

/// What a server does instead of answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// It answers with this status.
    Status(u16),
    /// It answers with this text.
    Text(&'static str),
    /// It does not answer.
    Silence,
    /// It answers changes with this status.
    NoChanges(u16),
    /// Changes get lost.
    Forgets,
}

/// What the stand-in has.
struct Registry {
    /// Application and id of an instance; its address, port and status.
    instances: BTreeMap<(String, String), (String, u16, &'static str)>,
    /// What changed lately.
    changes: VecDeque<(&'static str, String, Value)>,
    version: u64,
    /// `user:password` that is asked for.
    wants: Option<&'static str>,
    fault: Fault,
    /// Questions for everything, and for changes.
    asked: (usize, usize),
    /// Questions that no client may ask.
    breaches: Vec<String>,
}

#[derive(Clone)]
struct Server {
    registry: Arc<Mutex<Registry>>,
    address: SocketAddr,
    task: Arc<Mutex<Option<tokio::task::AbortHandle>>>,
}

fn shown(id: &str, address: &str, port: u16, status: &str) -> Value {
    json!({
        "instanceId": id, "hostName": address, "app": "X", "ipAddr": address, "status": status, "overriddenStatus": "UNKNOWN",
        "port": {"$": port, "@enabled": "true"}, "securePort": {"$": 443, "@enabled": "false"}, "countryId": 1,
        "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
        "leaseInfo": {"renewalIntervalInSecs": 30, "durationInSecs": 90}, "metadata": {"version": "v1"},
        "lastUpdatedTimestamp": "1600000000000", "lastDirtyTimestamp": "1600000000000",
    })
}

impl Registry {
    fn hash(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.instances.values().for_each(|(_, _, status)| *counts.entry(status).or_default() += 1);
        counts.iter().map(|(status, count)| format!("{status}_{count}_")).collect()
    }

    /// Writes a list with one element as the element, as some servers do.
    fn list(mut all: Vec<Value>) -> Value {
        if all.len() == 1 { all.remove(0) } else { all.into() }
    }

    fn answer(&self, of: impl Iterator<Item = (String, Value)>) -> Value {
        let mut by_name: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        of.for_each(|(name, instance)| by_name.entry(name).or_default().push(instance));
        let application = |(name, instances)| json!({"name": name, "instance": Self::list(instances)});
        let all = Self::list(by_name.into_iter().map(application).collect());
        json!({"applications": {"versions__delta": self.version.to_string(), "apps__hashcode": self.hash(), "application": all}})
    }

    fn everything(&self) -> Value {
        let all = self.instances.iter();
        self.answer(
            all.map(|((name, id), (address, port, status))| {
                (name.clone(), shown(id, address, *port, status))
            }),
        )
    }

    fn delta(&self) -> Value {
        // A change may be told more than once.
        self.answer(self.changes.iter().map(|(action, name, instance)| {
            let mut instance = instance.clone();
            instance["actionType"] = (*action).into();
            (name.clone(), instance)
        }))
    }
}

async fn handle(State(registry): State<Arc<Mutex<Registry>>>, request: Request) -> Response {
    let (status, text) = {
        let mut registry = registry.lock();
        let header =
            |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (method, path) = (request.method().as_str(), request.uri().to_string());
        let expected = registry.wants.map_or(String::new(), |pair| {
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
        });
        let breach = match (method, &*path, header("accept")) {
            ("GET", "/eureka/apps" | "/eureka/apps/delta", "application/json") => None,
            other => Some(format!("{other:?}")),
        };
        registry.breaches.extend(breach.clone());
        let is_delta = path.ends_with("/delta");
        match is_delta {
            true => registry.asked.1 += 1,
            false => registry.asked.0 += 1,
        }
        match registry.fault {
            _ if breach.is_some() => (400, String::new()),
            _ if header("authorization") != expected => (401, String::new()),
            Fault::Status(status) => (status, "trouble".to_owned()),
            Fault::Text(text) => (200, text.to_owned()),
            Fault::NoChanges(status) if is_delta => (status, String::new()),
            Fault::Silence => (0, String::new()),
            _ if is_delta => (200, registry.delta().to_string()),
            _ => (200, registry.everything().to_string()),
        }
    };
    if status == 0 {
        std::future::pending::<()>().await;
    }
    (StatusCode::from_u16(status).unwrap(), [("content-type", "application/json")], text).into_response()
}

impl Server {
    async fn start() -> Self {
        let registry = Registry {
            instances: BTreeMap::new(),
            changes: VecDeque::new(),
            version: 1,
            wants: None,
            fault: Fault::None,
            asked: (0, 0),
            breaches: Vec::new(),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { registry: Arc::new(Mutex::new(registry)), address, task: Arc::default() };
        server.serve(listener);
        server
    }

    fn serve(&self, listener: tokio::net::TcpListener) {
        let routes = Router::new().fallback(handle).with_state(Arc::clone(&self.registry));
        // Each connection ends with the server.
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let service = hyper_util::service::TowerToHyperService::new(routes.clone());
                let http = hyper::server::conn::http1::Builder::new();
                connections.spawn(http.serve_connection(hyper_util::rt::TokioIo::new(stream), service));
            }
        });
        *self.task.lock() = Some(task.abort_handle());
    }

    /// Ends it with all connections.
    fn kill(&self) {
        self.task.lock().take().unwrap().abort();
    }

    /// Starts it again. It knows no changes from before.
    async fn restart(&self) {
        self.registry.lock().changes.clear();
        let listener = loop {
            match tokio::net::TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        self.serve(listener);
    }

    fn base(&self) -> String {
        format!("http://{}/eureka", self.address)
    }

    fn fault(&self, fault: Fault) {
        self.registry.lock().fault = fault;
    }

    fn put(&self, application: &str, id: &str, address: &str, status: &'static str) {
        let mut registry = self.registry.lock();
        let key = (application.to_owned(), id.to_owned());
        let old = registry.instances.insert(key, (address.to_owned(), 8080, status));
        let action = if old.is_some() { "MODIFIED" } else { "ADDED" };
        registry.note(action, application, shown(id, address, 8080, status));
    }

    fn remove(&self, application: &str, id: &str) {
        let mut registry = self.registry.lock();
        let (address, port, status) =
            registry.instances.remove(&(application.to_owned(), id.to_owned())).expect("it is there");
        registry.note("DELETED", application, shown(id, &address, port, status));
    }

    fn asked(&self) -> (usize, usize) {
        self.registry.lock().asked
    }
}

impl Registry {
    fn note(&mut self, action: &'static str, application: &str, instance: Value) {
        self.version += 1;
        if self.fault != Fault::Forgets {
            self.changes.push_back((action, application.to_owned(), instance));
        }
    }
}

fn settings(servers: &[&Server]) -> EurekaOptions {
    EurekaOptions {
        addresses: servers.iter().map(|server| server.base()).collect(),
        refresh: Duration::from_millis(100),
        ..EurekaOptions::default()
    }
}

fn galley(settings: &EurekaOptions) -> Galley {
    start(|options| Eureka::new(settings, options).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_read_once_and_then_changes() {
    let server = Server::start().await;
    server.put("SHOP", "1", "10.0.0.1", "UP");
    server.put("SHOP", "2", "10.0.0.2", "STARTING");
    server.put("MY_BANK", "3", "10.0.0.3", "UP");
    let galley = galley(&settings(&[&server]));
    galley.synced().await;
    assert_eq!(held(&galley), ["eureka/my-bank 10.0.0.3", "eureka/shop 10.0.0.1"]);
    // How far that was.
    let place = format!("eureka {}", server.base());
    let loads = mixer_base::load::ended().into_iter().filter(|load| load.what == place);
    let mut loads: Vec<_> =
        loads.map(|load| (load.unit, load.stage, load.documents, load.of_documents)).collect();
    loads.sort_unstable();
    assert_eq!(loads, [("applications", "converted", 2, 2), ("applications", "read", 2, 2)]);
    server.put("SHOP", "2", "10.0.0.2", "UP");
    until_held(&galley, &["eureka/my-bank 10.0.0.3", "eureka/shop 10.0.0.1 10.0.0.2"]).await;
    server.remove("MY_BANK", "3");
    server.put("SHOP", "1", "10.0.0.1", "DOWN");
    until_held(&galley, &["eureka/shop 10.0.0.2"]).await;
    server.put("SHOP", "2", "10.0.0.2", "OUT_OF_SERVICE");
    until_held(&galley, &[]).await;
    until("changes are asked for", &galley, || server.asked().1 > 10).await;
    assert_eq!(server.asked().0, 1, "everything was asked for once");
    let source = state(&galley);
    assert!(source.is_connected && source.is_synced() && source.last_error.is_none(), "{source:?}");
    assert_eq!(server.registry.lock().breaches, Vec::<String>::new());
    galley.stop().await;
    let asked = server.asked();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.asked(), asked, "nothing is asked after the stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_are_missing_are_noticed() {
    let server = Server::start().await;
    server.put("SHOP", "1", "10.0.0.1", "UP");
    let galley = galley(&settings(&[&server]));
    galley.synced().await;
    server.fault(Fault::Forgets);
    server.put("SHOP", "2", "10.0.0.2", "UP");
    until_held(&galley, &["eureka/shop 10.0.0.1 10.0.0.2"]).await;
    server.fault(Fault::None);
    server.remove("SHOP", "1");
    until_held(&galley, &["eureka/shop 10.0.0.2"]).await;
    assert_eq!(server.asked().0, 2, "once at the start, once for the gap");
    // A server without changes is asked for everything.
    server.fault(Fault::NoChanges(403));
    server.put("SHOP", "4", "10.0.0.4", "UP");
    until_held(&galley, &["eureka/shop 10.0.0.2 10.0.0.4"]).await;
    let before = server.asked();
    until("everything is asked for", &galley, || server.asked().0 > before.0 + 3).await;
    assert_eq!(server.asked().1, before.1);
    assert!(state(&galley).is_connected && state(&galley).last_error.is_none(), "{:?}", state(&galley));
    galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_fails_loses_nothing_and_another_one_takes_over() {
    let (first, second) = (Server::start().await, Server::start().await);
    for server in [&first, &second] {
        server.put("SHOP", "1", "10.0.0.1", "UP");
    }
    let galley = galley(&settings(&[&first, &second]));
    galley.synced().await;
    assert_eq!(second.asked(), (0, 0), "the first one is enough");
    first.kill();
    second.put("SHOP", "2", "10.0.0.2", "UP");
    until_held(&galley, &["eureka/shop 10.0.0.1 10.0.0.2"]).await;
    until("it is connected", &galley, || state(&galley).is_connected).await;
    second.kill();
    until("the outage is shown", &galley, || !state(&galley).is_connected).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(held(&galley), ["eureka/shop 10.0.0.1 10.0.0.2"], "what was known counts");
    let source = state(&galley);
    assert!(source.is_synced() && source.outages >= 2, "{source:?}");
    for server in [&first, &second] {
        server.put("BANK", "3", "10.0.0.3", "UP");
        server.remove("SHOP", "1");
    }
    first.put("SHOP", "2", "10.0.0.2", "UP");
    first.restart().await;
    let last = ["eureka/bank 10.0.0.3", "eureka/shop 10.0.0.2"];
    until_held(&galley, &last).await;
    assert_eq!(state(&galley).generation, 1, "the source was not started again");
    let fresh = self::galley(&settings(&[&first]));
    fresh.synced().await;
    assert_eq!(held(&fresh), last, "as a fresh start");
    fresh.stop().await;
    galley.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_server_is_told() {
    let server = Server::start().await;
    server.put("SHOP", "1", "10.0.0.1", "UP");
    server.registry.lock().wants = Some("reader:secret");
    let mut settings = settings(&[&server]);
    let refused = galley(&settings);
    until("it is told", &refused, || state(&refused).last_error.is_some()).await;
    let source = state(&refused);
    let (why, _) = source.last_error.clone().unwrap();
    assert!(
        why.contains("HTTP status 401 Unauthorized (name a user that may read it with --eureka-user"),
        "{why}"
    );
    assert!(!source.is_connected && !source.is_synced() && !refused.is_synced(), "{source:?}");
    refused.stop().await;
    let directory = tempfile::tempdir().unwrap();
    settings.password_file = directory.path().join("password");
    settings.user = "reader".to_owned();
    settings.timeout = Duration::from_millis(500);
    std::fs::write(&settings.password_file, "wrong\n").unwrap();
    let galley = galley(&settings);
    until("it is told", &galley, || state(&galley).last_error.is_some()).await;
    std::fs::write(&settings.password_file, "secret\n").unwrap();
    until("the new password is read", &galley, || galley.is_synced()).await;
    for (fault, text) in [
        (Fault::Status(500), "HTTP status 500"),
        (Fault::Status(404), "the address must be the base of Eureka"),
        (Fault::Status(302), "HTTP status 302"),
        (Fault::Text("<applications/>"), "no list of applications in JSON"),
        (Fault::Text("{\"applications\": {\"application\": [{\"instance\": []}]}}"), "missing field `name`"),
        (Fault::Silence, "no answer within 500ms"),
    ] {
        server.fault(fault);
        let is_told = || state(&galley).last_error.is_some_and(|(why, _)| why.contains(text));
        until(text, &galley, || !state(&galley).is_connected && is_told()).await;
        assert_eq!(held(&galley), ["eureka/shop 10.0.0.1"], "{fault:?}");
        server.fault(Fault::None);
        until("it is connected", &galley, || state(&galley).is_connected).await;
    }
    assert!(!format!("{:?}", state(&galley)).contains("secret"));
    // What cannot be used is told, and is no error of the rest.
    server.put("SHOP", "2", "", "UP");
    server.put("MY-SHOP", "3", "10.0.0.3", "UP");
    server.put("MY_SHOP", "4", "10.0.0.4", "UP");
    until("problems are shown", &galley, || state(&galley).skipped == 2).await;
    let problems: Vec<String> = state(&galley).problems.iter().map(Diagnostic::brief).collect();
    assert!(problems[0].starts_with("SHOP: instance `2`: it has neither"), "{problems:?}");
    assert!(problems[1].contains("`MY_SHOP` is that of `MY-SHOP` already"), "{problems:?}");
    galley.stop().await;
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    let refused = |change: &dyn Fn(&mut EurekaOptions)| {
        let addresses = vec!["http://127.0.0.1:8761/eureka".to_owned()];
        let mut settings = EurekaOptions { addresses, ..EurekaOptions::default() };
        change(&mut settings);
        Eureka::new(&settings, &Options::default()).expect_err("refused").to_string()
    };
    for address in
        ["", "host:8761", "ftp://host", "http://", "http://host/eureka?x=1", "http://u:hunter2@host/eureka"]
    {
        let text = refused(&|settings| settings.addresses = vec![address.to_owned()]);
        assert!(text.starts_with("--eureka-address: ") && !text.contains("hunter2"), "{address}: {text}");
    }
    assert!(refused(&|settings| settings.refresh = Duration::ZERO).contains("100ms to 1h"));
    assert!(refused(&|settings| settings.timeout = Duration::ZERO).contains("more than 0s"));
    assert!(refused(&|settings| settings.user = "a".to_owned()).contains("belong together"));
    let tls = ClientTlsOptions { ca_file: "/none/such".into(), ..ClientTlsOptions::default() };
    let text = refused(&|settings| {
        (settings.tls, settings.addresses) = (tls.clone(), vec!["https://localhost/eureka".to_owned()]);
    });
    assert!(text.contains("/none/such"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_takes_too_much_changes_nothing() {
    let server = Server::start().await;
    server.put("SHOP", "1", "10.0.0.1", "UP");
    let galley = galley(&settings(&[&server]));
    until_held(&galley, &["eureka/shop 10.0.0.1"]).await;
    let instances = vec!["{}"; 120_000].join(",");
    let text =
        format!(r#"{{"applications": {{"application": {{"name": "A", "instance": [{instances}]}}}}}}"#);
    let wanted = format!(
        "server `{}`: an answer of {} bytes: the instances take more than 33554432 bytes: register fewer of them, or less metadata",
        server.base(),
        text.len()
    );
    server.fault(Fault::Text(text.leak()));
    until("it is told", &galley, || {
        state(&galley).last_error.is_some_and(|(told, _)| told.contains(&wanted))
    })
    .await;
    assert_eq!(held(&galley), ["eureka/shop 10.0.0.1"]);
    server.fault(Fault::None);
    server.put("SHOP", "2", "10.0.0.2", "UP");
    until_held(&galley, &["eureka/shop 10.0.0.1 10.0.0.2"]).await;
}
