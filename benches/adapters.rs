//! The cost of reports in the adapters `stdio`, `otlp` and `prometheus`, from evaluated instances to lines, records or counts, of checks in `opa` and
//! `rbac`, and of allocations in `redisquota`, from an evaluated instance to an answer.
//!
//! Input: one instance per call. The log entry has 10 variables (path, method, user agent, sizes, an address, a time, a
//! duration, a code), and a collector on a loopback port takes its records; the metric has the 17 string dimensions of a service mesh counter, and its series exists. Four
//! metrics of one request over the same dimensions are measured as well. The policy has two rules with a default, one of which holds; of
//! roles there are 1 and 10 000, each of a service of its own. Quotas are in a Redis that the bench starts, on a loopback port; 1 and 64
//! allocations are in flight, each with an id and an amount of its own. Each result is verified once before.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a bench stops when its input is wrong"
)]

use std::io::{BufRead as _, Read as _, Write as _};
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mixer_adapters::prometheus::{self, Endpoint, MetricInfo, MetricKind, Prometheus};
use mixer_adapters::stdio::{self, LogStream, Stdio};
use mixer_adapters::{INVENTORY, RbacKinds};
use mixer_attribute::{SignedDuration, Timestamp, Value, ValueType, Vocabulary};
use mixer_config::store::read_document;
use mixer_config::{FieldPath, Origin, yaml};
use mixer_engine::adapter::{
    Adapter, AdapterResources, BoundInstance, Env, Handler, Instance, Leaf, QuotaCall, QuotaResult, Reply,
    SystemClock, TaskSpawner,
};
use mixer_engine::snapshot::SnapshotExtension as _;
use mixer_engine::template;

const DIMENSIONS: [&str; 17] = [
    "connection_security_policy",
    "destination_app",
    "destination_principal",
    "destination_service",
    "destination_service_name",
    "destination_service_namespace",
    "destination_version",
    "destination_workload",
    "destination_workload_namespace",
    "permissive_response_code",
    "permissive_response_policyid",
    "reporter",
    "request_protocol",
    "response_code",
    "source_app",
    "source_principal",
    "source_workload",
];

const VARIABLES: [&str; 10] =
    ["agent", "code", "duration", "host", "method", "mtls", "path", "received", "sourceIp", "when"];

fn bound(name: &str, template: &str, map: &str, keys: &[&str], fields: &[&str]) -> BoundInstance {
    let keyed = keys.iter().map(|key| Leaf::new(map, Some(key), ValueType::String));
    let plain = fields.iter().map(|field| Leaf::new(field, None, ValueType::String));
    BoundInstance {
        name: format!("{name}.instance.istio-system").into(),
        template: template::find(template).unwrap(),
        leaves: keyed.chain(plain).collect(),
        messages: Vec::new(),
        plan: None,
        read_outputs: Arc::default(),
    }
}

fn env(runtime: &tokio::runtime::Runtime) -> Env {
    Env {
        handler_name: "h.istio-system".into(),
        clock: Arc::new(SystemClock),
        tasks: TaskSpawner::new(runtime.handle().clone()),
        metrics_port: 0,
        metrics: Arc::default(),
        commons: Arc::default(),
        resources: None,
    }
}

fn report(handler: &dyn Handler, instances: &[Instance<'_>]) {
    match handler.as_report().unwrap().report(instances) {
        Reply::Ready(result) => result.unwrap(),
        Reply::Later(_) => panic!("an answer at once is expected"),
    }
}

/// The values of a log entry: [`VARIABLES`], `timestamp` and `severity`.
fn entry_values() -> [Option<Value<'static>>; 12] {
    [
        Some(Value::String(b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)")),
        Some(Value::Int64(200)),
        Some(Value::Duration(SignedDuration::from_nanos(12_345_678))),
        Some(Value::String(b"productpage.default.svc.cluster.local")),
        Some(Value::String(b"GET")),
        Some(Value::Bool(true)),
        Some(Value::String(b"/api/v1/products/17/reviews?page=3")),
        Some(Value::Int64(1024)),
        Some(Value::Bytes(&[10, 1, 2, 3])),
        Some(Value::Timestamp(Timestamp { seconds: 1_546_398_245, nanos: 678_901_234 })),
        Some(Value::Timestamp(Timestamp { seconds: 1_546_398_245, nanos: 678_901_234 })),
        Some(Value::String(b"info")),
    ]
}

fn json_lines(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let values = entry_values();
    let entry = bound("accesslog", "logentry", "variables", &VARIABLES, &["timestamp", "severity"]);
    let instances = [Instance { bound: 0, name: "accesslog.instance.istio-system", values: &values }; 25];
    let build = |path: &str| {
        let params = stdio::Params {
            log_stream: LogStream::File,
            output_path: path.to_owned(),
            ..stdio::Params::default()
        };
        runtime.block_on(Stdio::build(params, vec![entry.clone()], env(&runtime))).unwrap()
    };

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.log");
    report(&*build(&path.display().to_string()), &instances[..1]);
    // A task writes the line.
    let line = || serde_json::from_slice::<serde_json::Value>(&std::fs::read(&path).ok()?).ok();
    let line = std::iter::repeat_with(line).inspect(|line| {
        if line.is_none() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    });
    let line = line.take(1000).flatten().next().unwrap();
    assert_eq!((line.as_object().unwrap().len(), &line["sourceIp"]), (13, &"10.1.2.3".into()));

    let mut group = criterion.benchmark_group("adapters/stdio");
    let handler = build("/dev/null");
    group.throughput(Throughput::Elements(25));
    group.bench_function("json line of 10 variables, 25 a report", |b| {
        b.iter(|| report(&*handler, &instances))
    });
    group.finish();
}

fn metrics(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let env = env(&runtime);
    let names = ["requests_total", "request_duration_seconds", "request_bytes", "response_bytes"];
    let infos = names.iter().enumerate().map(|(i, name)| MetricInfo {
        name: (*name).to_owned(),
        instance_name: format!("{name}.instance.istio-system"),
        kind: if i == 0 { MetricKind::Counter } else { MetricKind::Distribution },
        label_names: DIMENSIONS.iter().map(|d| (*d).to_owned()).collect(),
        ..MetricInfo::default()
    });
    let params = prometheus::Params { metrics: infos.collect(), ..prometheus::Params::default() };
    let bound: Vec<BoundInstance> =
        names.iter().map(|name| bound(name, "metric", "dimensions", &DIMENSIONS, &["value"])).collect();
    let handler = runtime.block_on(Prometheus::build(params, bound.clone(), env.clone())).unwrap();

    // 500 requests that differ in two dimensions.
    let labels: Vec<Vec<String>> = (0..500)
        .map(|request| {
            let value = |(i, dimension): (usize, &&str)| match i {
                13 => [200, 404, 503][request % 3].to_string(),
                16 => format!("workload-{}", request / 3),
                _ => format!("{dimension}.value.cluster.local"),
            };
            DIMENSIONS.iter().enumerate().map(value).collect()
        })
        .collect();
    let values: Vec<Vec<Option<Value<'_>>>> = labels
        .iter()
        .map(|l| {
            let strings = l.iter().map(|v| Some(Value::String(v.as_bytes())));
            strings.chain([Some(Value::Double(0.03))]).collect()
        })
        .collect();
    let instance = |request: usize, metric: usize| Instance {
        bound: metric,
        name: &bound[metric].name,
        values: &values[request],
    };
    let one: Vec<Instance<'_>> = (0..500).map(|request| instance(request, 0)).collect();
    let four: Vec<Instance<'_>> = (0..500)
        .flat_map(|request| (0..4).map(move |metric| (request, metric)))
        .map(|(r, m)| instance(r, m))
        .collect();
    report(&*handler, &four);
    report(&*handler, &one);
    let text = String::from_utf8(env.commons.get::<Endpoint>().text()).unwrap();
    let series =
        text.lines().filter(|l| l.starts_with("istio_requests_total{") && l.ends_with(" 0.06")).count();
    assert_eq!(series, 500);

    let mut group = criterion.benchmark_group("adapters/prometheus");
    group.throughput(Throughput::Elements(500));
    group.bench_function("one counter of 17 dimensions, 500 series warm", |b| {
        b.iter(|| report(&*handler, &one))
    });
    group.throughput(Throughput::Elements(2000));
    group.bench_function("four metrics of 17 equal dimensions, 500 series warm", |b| {
        b.iter(|| report(&*handler, &four));
    });
    group.throughput(Throughput::Elements(2000));
    group.bench_function("scrape of 500 counters and 1500 histograms", |b| {
        b.iter(|| env.commons.get::<Endpoint>().text());
    });
    group.finish();
    runtime.block_on(handler.close(std::time::Duration::from_secs(1))).unwrap();
}

/// A collector over HTTP that takes everything, without looking at it. Returns its port, and what it receives: the size of each request.
fn collector() -> (u16, std::sync::mpsc::Receiver<usize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, received) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, sender) = (stream.unwrap(), sender.clone());
            std::thread::spawn(move || serve(stream, &sender));
        }
    });
    (port, received)
}

/// Answers requests until the connection ends.
fn serve(stream: std::net::TcpStream, sender: &std::sync::mpsc::Sender<usize>) -> Option<()> {
    let mut reader = std::io::BufReader::with_capacity(1 << 16, stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        std::io::copy(&mut (&mut reader).take(length as u64), &mut std::io::sink()).ok()?;
        // An empty answer is that of a collector that took everything.
        reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
        sender.send(length).ok()?;
    }
}

/// What a log entry costs its report: encoded, and handed to the delivery, which sends it meanwhile.
fn log_records(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let values = entry_values();
    let entry = bound("accesslog", "logentry", "variables", &VARIABLES, &["timestamp", "severity"]);
    let instances = [Instance { bound: 0, name: "accesslog.instance.istio-system", values: &values }; 25];
    let (port, received) = collector();
    let mut group = criterion.benchmark_group("adapters/otlp");
    group.throughput(Throughput::Elements(25));
    for compression in ["NONE", "GZIP"] {
        let params = format!(
            "{{endpoint: 'http://127.0.0.1:{port}', protocol: HTTP_PROTOBUF, compression: {compression}}}"
        );
        let handler = from_text("otlp", &params, entry.clone(), env(&runtime), &runtime);
        report(&*handler, &instances);
        let size = received.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        assert!(if compression == "NONE" { size > 25 * 300 } else { (100..5000).contains(&size) }, "{size}");
        group.bench_function(
            format!("log record of 10 variables, 25 a report, compression {compression}"),
            |b| {
                b.iter(|| report(&*handler, &instances));
            },
        );
        let _ = runtime.block_on(handler.close(std::time::Duration::from_secs(1)));
        while received.recv_timeout(std::time::Duration::from_millis(100)).is_ok() {}
    }
    group.finish();
}

/// An instance of `authorization` with its values.
fn authorization() -> (BoundInstance, [Option<Value<'static>>; 6]) {
    let fields: [&'static str; 6] = [
        "subject.user",
        "subject.groups",
        "action.namespace",
        "action.service",
        "action.method",
        "action.path",
    ];
    let mut bound = bound("who", "authorization", "action.properties", &[], &fields);
    bound.messages = vec!["subject".into(), "action".into()];
    let values = ["ann", "staff", "shop", "cart7", "GET", "/items/17"];
    (bound, values.map(|text| Some(Value::String(text.as_bytes()))))
}

/// A handler from parameters as written.
fn from_text(
    adapter: &str,
    params: &str,
    instance: BoundInstance,
    env: Env,
    runtime: &tokio::runtime::Runtime,
) -> Box<dyn Handler> {
    let adapter = INVENTORY.find(adapter).unwrap();
    let (params, errors) = adapter.decode(Some(&yaml::parse(params).unwrap().root), FieldPath::root());
    assert!(errors.is_empty(), "{errors:?}");
    runtime.block_on(adapter.build(&params, vec![instance], env)).unwrap()
}

fn allows(handler: &dyn Handler, instance: &Instance<'_>) -> bool {
    match handler.as_check().unwrap().check(instance) {
        Reply::Ready(result) => result.unwrap().status.code == 0,
        Reply::Later(_) => panic!("an answer at once is expected"),
    }
}

fn decisions(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (_, values) = authorization();
    let instance = Instance { bound: 0, name: "who.instance.istio-system", values: &values };
    let mut group = criterion.benchmark_group("adapters/decisions");
    let policy = r#"{checkMethod: data.gate.allow, policy: ["package gate\ndefault allow = false\nallow { input.action.method == \"PUT\"; input.subject.user == \"root\" }\nallow { input.action.method == \"GET\"; startswith(input.action.path, \"/items/\") }\n"]}"#;
    let handler = from_text("opa", policy, authorization().0, env(&runtime), &runtime);
    assert!(allows(&*handler, &instance));
    group.bench_function("opa, a policy of two rules", |b| b.iter(|| allows(&*handler, &instance)));
    // One that the engine evaluates.
    let policy = r#"{checkMethod: data.gate.allow, policy: ["package gate\ndefault allow = false\nprefixes = {\"/items/\", \"/static/\"}\nallow { input.action.method == \"PUT\"; input.subject.user == \"root\" }\nallow { input.action.method == \"GET\"; prefixes[prefix]; startswith(input.action.path, prefix) }\n"]}"#;
    let handler = from_text("opa", policy, authorization().0, env(&runtime), &runtime);
    assert!(allows(&*handler, &instance));
    group.bench_function("opa, a policy with a loop", |b| b.iter(|| allows(&*handler, &instance)));
    for roles in [1, 10_000] {
        let texts = (0..roles).flat_map(|i| {
            // The service of the request is among them.
            let number = i + 7;
            [
                format!("kind: ServiceRole\nmetadata: {{name: r{number}, namespace: shop}}\nspec: {{rules: [{{services: [cart{number}], methods: [GET], paths: [/items/*]}}]}}"),
                format!("kind: ServiceRoleBinding\nmetadata: {{name: b{number}, namespace: shop}}\nspec: {{subjects: [{{user: ann}}], roleRef: {{kind: ServiceRole, name: r{number}}}}}"),
            ]
        });
        let raw: Vec<_> = texts
            .map(|text| {
                read_document(Origin { file: "r.yaml".into(), text: text.into(), first_line: 1 }).unwrap()
            })
            .collect();
        let decoded: Vec<_> =
            raw.iter().map(|raw| RbacKinds.decode(raw, &|text| text.to_owned()).unwrap()).collect();
        let all: Vec<_> = raw.iter().zip(&decoded).map(|(raw, decoded)| (&**raw, &**decoded)).collect();
        let (config, _) = RbacKinds.assemble(&all, &Vocabulary::builder().build(), "istio-system");
        let env = Env { resources: Some(AdapterResources::new(config, 1)), ..env(&runtime) };
        let handler = from_text("rbac", "{}", authorization().0, env, &runtime);
        assert!(allows(&*handler, &instance));
        group.bench_function(format!("rbac, {roles} roles"), |b| b.iter(|| allows(&*handler, &instance)));
    }
    group.finish();
}

/// A Redis without a disk; ends with the value.
struct Redis(std::process::Child, u16);

impl Redis {
    fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = std::process::Command::new("redis-server");
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        let process = command.stdout(std::process::Stdio::null()).spawn();
        // `.ci/run needs` installs it.
        Self(process.unwrap(), port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn allocate(handler: &dyn Handler, id: usize) -> Option<QuotaResult> {
    let reply = {
        let values = [Some(Value::String(b"books"))];
        let instance = Instance { bound: 0, name: "q.instance.istio-system", values: &values };
        let id = format!("{id}q");
        let call = QuotaCall { amount: 1, best_effort: false, deduplication_id: &id };
        handler.as_quota().unwrap().quota(&instance, call)
    };
    match reply {
        Reply::Ready(result) => result.ok(),
        Reply::Later(later) => later.await.ok(),
    }
}

fn quotas(criterion: &mut Criterion) {
    let redis = Redis::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut group = criterion.benchmark_group("adapters/quotas");
    let mut id = 0;
    for algorithm in ["FIXED_WINDOW", "ROLLING_WINDOW"] {
        // Answers are forgotten soon, so that Redis does not grow.
        let params = format!(
            "{{redisServerUrl: '127.0.0.1:{}', timeout: 10s, quotas: [{{name: q.instance.istio-system, maxAmount: 1000000000, \
             validDuration: 2s, bucketDuration: 500ms, rateLimitAlgorithm: {algorithm}}}]}}",
            redis.1
        );
        let instance = bound("q", "quota", "dimensions", &["svc"], &[]);
        let handler = from_text("redisquota", &params, instance, env(&runtime), &runtime);
        let answer = runtime.block_on(async {
            loop {
                if let Some(answer) = allocate(&*handler, 0).await {
                    return answer;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        });
        assert_eq!(answer.granted, 1);
        for in_flight in [1, 64] {
            group.throughput(Throughput::Elements(in_flight as u64));
            group.bench_function(format!("redisquota, {algorithm}, {in_flight} in flight"), |b| {
                b.iter(|| {
                    let calls = (0..in_flight).map(|_| {
                        id += 1;
                        allocate(&*handler, id)
                    });
                    runtime.block_on(futures_util::future::join_all(calls))
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, json_lines, log_records, metrics, decisions, quotas);
criterion_main!(benches);
