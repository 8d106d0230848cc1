//! What adapters send in outages of their backends: how each is configured, what receives it, and what arrived of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::certificates::{Authority, put};
use crate::otlp::{attributes, items, requests, strict};
use crate::outage_load::OF_CALL;
use crate::support::cloud::Cloud;
use crate::support::{Collector, free_port};
use crate::vendors::{Rsyslog, SECRET, plain};

/// Items of an adapter on their way to a backend.
pub(crate) struct Sent {
    /// In the table of results.
    pub(crate) title: &'static str,
    pub(crate) instance: &'static str,
    pub(crate) adapter: &'static str,
    pub(crate) params: fn(&Place<'_>) -> String,
    pub(crate) backend: fn() -> Backend,
    pub(crate) arrived: Arrived,
    /// The path of the entries of a call, by the number of its first one.
    pub(crate) path: fn(i64) -> String,
}

/// Where a handler sends to.
pub(crate) struct Place<'p> {
    /// The name of the handler, and of what is its own at the backend.
    pub(crate) name: &'p str,
    pub(crate) port: u16,
    pub(crate) is_secure: bool,
    /// The file with the trusted roots.
    pub(crate) root: &'p str,
    /// The key file of the account of a service.
    pub(crate) account: &'p str,
    pub(crate) timeout: &'p str,
}

impl Place<'_> {
    fn url(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://localhost:{}", self.port)
    }
}

/// What arrived, by all that a backend received and the name of a handler.
pub(crate) enum Arrived {
    /// What tells apart the items: what counts as delivered has arrived.
    Numbers(fn(&[Value], &str) -> Vec<String>),
    /// The same without acknowledgements: what the kernel took may be lost with a connection, unnoticed.
    Unacknowledged(fn(&[Value], &str) -> Vec<String>),
    /// The sum of what is added up in the server, with one for so many entries: nothing is lost.
    Total(fn(&[Value], &str) -> u64, i64),
}

/// What is behind fronts, and tells what it receives.
pub(crate) struct Backend {
    receiver: Receiver,
    pub(crate) port: u16,
    /// The port for what a front has decrypted.
    pub(crate) decrypted: u16,
    /// The root of its own certificate, PEM.
    pub(crate) root: String,
}

enum Receiver {
    Collector(Collector),
    Cloud(Cloud),
    Syslog(Rsyslog, #[expect(dead_code, reason = "its files")] tempfile::TempDir),
}

impl Backend {
    fn plain(receiver: Receiver, port: u16) -> Self {
        Self { receiver, port, decrypted: port, root: String::new() }
    }

    fn otlp(protocol: usize) -> Self {
        let ports = [free_port(), free_port()];
        Self::plain(Receiver::Collector(strict(ports, &[])), ports[protocol])
    }

    fn vendor(name: &str) -> Self {
        let collector = plain(name);
        let port = collector.port;
        Self::plain(Receiver::Collector(collector), port)
    }

    fn aws() -> Self {
        let cloud = Cloud::start("aws", &["AKIDLAB", "labsecret"]).unwrap();
        let port = cloud.port;
        Self::plain(Receiver::Cloud(cloud), port)
    }

    /// Google's services over HTTP, or over gRPC.
    fn google(has_grpc: bool) -> Self {
        let grpc = free_port();
        let options = [format!("plain={grpc}")];
        let options: Vec<&str> = options.iter().filter(|_| has_grpc).map(String::as_str).collect();
        let cloud = Cloud::start("gcp", &options).unwrap();
        let port = if has_grpc { grpc } else { cloud.port };
        Self::plain(Receiver::Cloud(cloud), port)
    }

    fn syslog(has_tls: bool) -> Self {
        let files = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let root = put(files.path(), "root.pem", &authority.certificate);
        let issued = authority.issue(&["localhost"]).put(files.path(), "server");
        let ports @ [_, tcp, tls] = [free_port(), free_port(), free_port()];
        let rsyslog = Rsyslog::start(files.path(), ports, &issued, &root);
        Self {
            receiver: Receiver::Syslog(rsyslog, files),
            port: if has_tls { tls } else { tcp },
            decrypted: tcp,
            root: authority.certificate,
        }
    }

    /// The requests that it received, or those with an outcome.
    pub(crate) fn requests(&self, outcome: &str) -> Vec<Value> {
        match &self.receiver {
            Receiver::Collector(collector) => requests(collector, outcome),
            Receiver::Cloud(cloud) => {
                let mut all = cloud.requests().unwrap_or_else(|error| panic!("{error}"));
                all.retain(|request| outcome.is_empty() || request["outcome"] == outcome);
                all
            }
            Receiver::Syslog(rsyslog, _) => rsyslog.texts().into_iter().map(Value::from).collect(),
        }
    }

    /// The key file of the account of a service that gives tokens, and has no front.
    pub(crate) fn account(&self) -> String {
        match &self.receiver {
            Receiver::Cloud(cloud) => cloud.file("sa.json"),
            Receiver::Collector(_) | Receiver::Syslog(..) => String::new(),
        }
    }
}

/// Instances beside `hits` and `entry`, with the number of what was reported.
pub(crate) const INSTANCES: &str = r#"
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: span, namespace: istio-system}
spec:
  compiledTemplate: tracespan
  params:
    traceId: '"463ac35c9f6413ad48485a3953bb6124"'
    spanId: '"a2fb4a1d1a96d312"'
    startTime: timestamp("2019-03-01T10:00:00Z")
    endTime: timestamp("2019-03-01T10:00:01Z")
    spanTags: {number: request.size | 0}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: number, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: request.size | 0}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: call, namespace: istio-system}
spec: {compiledTemplate: servicecontrolreport, params: {apiService: '"books"', apiOperation: '"GET"', apiKey: '"KEY"'}}
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

const HITS: &str = "hits.instance.istio-system";
const ENTRY: &str = "entry.instance.istio-system";

const BASE: Sent = Sent {
    title: "",
    instance: "entry",
    adapter: "otlp",
    params: |_| String::new(),
    backend: || Backend::otlp(0),
    arrived: Arrived::Numbers(|_, _| Vec::new()),
    path: |_| "/".to_owned(),
};

// otlp

fn otlp(place: &Place<'_>, protocol: &str) -> String {
    let Place { name, root, timeout, .. } = place;
    let tls = if place.is_secure { format!(", tls: {{caFile: '{root}'}}") } else { String::new() };
    format!(
        "endpoint: '{}', protocol: {protocol}, timeout: {timeout}, queueKilobytes: 64, exportInterval: 100ms, \
         metrics: {{{HITS}: {{kind: COUNTER}}}}, resourceAttributes: {{front: {name}}}{tls}",
        place.url()
    )
}

/// The numbers of records or spans.
fn otlp_numbers(all: &[Value], signal: &str, name: &str) -> Vec<String> {
    let of_front = items(all, signal).into_iter().filter(|(resource, _)| resource["front"] == name);
    of_front.map(|(_, item)| text(&attributes(&item)["number"])).collect()
}

/// The last point of a cumulative sum.
fn otlp_total(all: &[Value], name: &str) -> u64 {
    let of_front = items(all, "metrics").into_iter().filter(|(resource, _)| resource["front"] == name);
    let points = of_front.flat_map(|(_, metric)| list(&metric, "/sum/data_points"));
    points.map(|point| whole(&point["as_int"])).max().unwrap_or_default()
}

const OTLP_LOGS: Sent =
    Sent { arrived: Arrived::Numbers(|all, name| otlp_numbers(all, "logs", name)), ..BASE };
const OTLP_SPANS: Sent = Sent {
    instance: "span",
    arrived: Arrived::Numbers(|all, name| otlp_numbers(all, "traces", name)),
    ..BASE
};
const OTLP_METRICS: Sent = Sent { instance: "hits", arrived: Arrived::Total(otlp_total, 1), ..BASE };

pub(crate) const OTLP_OVER_GRPC: [Sent; 3] = {
    const GRPC: fn(&Place<'_>) -> String = |place| otlp(place, "GRPC");
    [
        Sent { title: "otlp, gRPC, logs", params: GRPC, ..OTLP_LOGS },
        Sent { title: "otlp, gRPC, spans", params: GRPC, ..OTLP_SPANS },
        Sent { title: "otlp, gRPC, metrics", params: GRPC, ..OTLP_METRICS },
    ]
};

pub(crate) const OTLP_OVER_HTTP: [Sent; 3] = {
    const HTTP: fn(&Place<'_>) -> String = |place| otlp(place, "HTTP_PROTOBUF");
    const BACKEND: fn() -> Backend = || Backend::otlp(1);
    [
        Sent { title: "otlp, HTTP, logs", params: HTTP, backend: BACKEND, ..OTLP_LOGS },
        Sent { title: "otlp, HTTP, spans", params: HTTP, backend: BACKEND, ..OTLP_SPANS },
        Sent { title: "otlp, HTTP, metrics", params: HTTP, backend: BACKEND, ..OTLP_METRICS },
    ]
};

// zipkin

pub(crate) const ZIPKIN: [Sent; 1] = [Sent {
    title: "zipkin",
    instance: "span",
    adapter: "zipkin",
    params: |place| {
        let Place { name, root, .. } = place;
        format!(
            "url: '{}/api/v2/spans?front={name}', sampleProbability: 1, queueKilobytes: 64, caFile: '{root}'",
            place.url()
        )
    },
    backend: || Backend::otlp(1),
    arrived: Arrived::Numbers(|all, name| {
        each(all, |request| request["front"] == name, "/spans", |span| text(&span["tags"]["number"]))
    }),
    ..BASE
}];

// solarwinds, circonus, signalfx

/// The items of requests to a path of a front.
fn vendor_items(all: &[Value], name: &str, path: &str) -> Vec<Value> {
    let path = format!("/front-{name}{path}");
    let of_front = all.iter().filter(|request| text(&request["path"]).starts_with(&path));
    of_front.flat_map(|request| list(request, "/items")).collect()
}

/// Messages of syslog: `NAME NUMBER`.
fn syslog_numbers(all: &[Value], name: &str) -> Vec<String> {
    let of_front = all.iter().filter_map(|line| text(line).strip_prefix(name).map(str::to_owned));
    of_front.map(|rest| rest.strip_prefix(' ').expect("a number").to_owned()).collect()
}

fn syslog(place: &Place<'_>, protocol: &str) -> String {
    let Place { name, port, root, .. } = place;
    format!(
        "papertrailAddress: 'localhost:{port}', papertrailProtocol: {protocol}, caFile: '{root}', queueKilobytes: 64, \
         logs: {{{ENTRY}: {{payloadTemplate: '{name} {{{{.number}}}}'}}}}"
    )
}

fn signalfx(place: &Place<'_>, metrics: &str) -> String {
    format!(
        "accessToken: {SECRET}, ingestUrl: '{}/front-{}', caFile: '{}', queueKilobytes: 64, datapointInterval: 1s, \
         whenFull: DROP_OLDEST, {metrics}",
        place.url(),
        place.name,
        place.root
    )
}

pub(crate) const SYSLOG: [Sent; 2] = [
    Sent {
        title: "solarwinds, messages over TLS",
        adapter: "solarwinds",
        params: |place| syslog(place, "TLS"),
        backend: || Backend::syslog(true),
        arrived: Arrived::Numbers(syslog_numbers),
        ..BASE
    },
    Sent {
        title: "solarwinds, messages over TCP",
        adapter: "solarwinds",
        params: |place| syslog(place, if place.is_secure { "TLS" } else { "TCP" }),
        backend: || Backend::syslog(false),
        arrived: Arrived::Unacknowledged(syslog_numbers),
        ..BASE
    },
];

pub(crate) const PAID: [Sent; 4] = [
    Sent {
        title: "solarwinds, metrics",
        instance: "number",
        adapter: "solarwinds",
        params: |place| {
            format!(
                "appopticsAccessToken: {SECRET}, appopticsUrl: '{}/front-{}/v1/measurements', queueKilobytes: 64, caFile: '{}', \
                 metrics: {{number.instance.istio-system: {{}}}}",
                place.url(),
                place.name,
                place.root
            )
        },
        backend: || Backend::vendor("appoptics"),
        arrived: Arrived::Numbers(|all, name| {
            vendor_items(all, name, "/v1/measurements").iter().map(|item| item["value"].to_string()).collect()
        }),
        ..BASE
    },
    Sent {
        title: "circonus",
        instance: "hits",
        adapter: "circonus",
        params: |place| {
            format!(
                "submissionUrl: '{}/front-{}/module/httptrap/check/{SECRET}', caFile: '{}', submissionInterval: 1s, \
                 metrics: [{{name: {HITS}, type: COUNTER}}]",
                place.url(),
                place.name,
                place.root
            )
        },
        backend: || Backend::vendor("circonus"),
        arrived: Arrived::Total(
            |all, name| {
                vendor_items(all, name, "/").iter().map(|item| item["_value"].as_u64().unwrap()).sum()
            },
            1,
        ),
        ..BASE
    },
    Sent {
        title: "signalfx, metrics",
        instance: "hits",
        adapter: "signalfx",
        params: |place| signalfx(place, &format!("metrics: [{{name: {HITS}, type: COUNTER}}]")),
        backend: || Backend::vendor("signalfx"),
        // It is cumulative.
        arrived: Arrived::Total(
            |all, name| {
                let points = vendor_items(all, name, "/v2/datapoint");
                points.iter().map(|point| whole(&point["value"]["intValue"])).max().unwrap_or_default()
            },
            1,
        ),
        ..BASE
    },
    Sent {
        title: "signalfx, spans",
        instance: "span",
        adapter: "signalfx",
        params: |place| signalfx(place, "enableMetrics: false"),
        backend: || Backend::vendor("signalfx"),
        arrived: Arrived::Numbers(|all, name| {
            let spans = vendor_items(all, name, "/v1/trace");
            spans.iter().map(|span| text(&span["tags"]["number"])).collect()
        }),
        ..BASE
    },
];

// cloudwatch

fn cloudwatch(place: &Place<'_>, what: &str) -> String {
    let (url, Place { name, root, timeout, .. }) = (place.url(), place);
    format!(
        "namespace: {name}, region: us-east-1, metricsEndpoint: '{url}', logsEndpoint: '{url}', caFile: '{root}', \
         timeout: {timeout}, wait: 20ms, queueKilobytes: 64, {what}"
    )
}

pub(crate) const CLOUDWATCH: [Sent; 2] = [
    Sent {
        title: "cloudwatch, metrics",
        instance: "number",
        adapter: "cloudwatch",
        params: |place| cloudwatch(place, "metricInfo: {number.instance.istio-system: {unit: Count}}"),
        backend: Backend::aws,
        arrived: Arrived::Numbers(|all, name| {
            let belongs = |request: &Value| request["form"]["Namespace"] == name;
            each(all, belongs, "/form/MetricData", |datum| text(&datum["Value"]))
        }),
        ..BASE
    },
    Sent {
        title: "cloudwatch, logs",
        adapter: "cloudwatch",
        params: |place| {
            let logs = format!("logs: {{{ENTRY}: {{payloadTemplate: '{{{{.number}}}}'}}}}");
            cloudwatch(place, &format!("logGroupName: {}, logStreamName: st, {logs}", place.name))
        },
        backend: Backend::aws,
        arrived: Arrived::Numbers(|all, name| {
            let belongs = |request: &Value| request["json"]["logGroupName"] == name;
            each(all, belongs, "/json/logEvents", |event| text(&event["message"]))
        }),
        ..BASE
    },
];

// stackdriver, servicecontrol

fn stackdriver(place: &Place<'_>) -> String {
    let Place { name, root, account, timeout, .. } = place;
    format!(
        "endpoint: '{}', projectId: {name}, serviceAccountPath: '{account}', caFile: '{root}', timeout: {timeout}, \
         queueKilobytes: 64, pushInterval: 1s, graphInterval: 100ms, trace: {{sampleProbability: 1}}, \
         metricInfo: {{{HITS}: {{kind: DELTA, value: INT64}}}}, logInfo: {{{ENTRY}: {{labelNames: [number]}}}}",
        place.url()
    )
}

/// The sum of all intervals: Google, too, takes none of them twice.
fn time_series(all: &[Value], name: &str) -> u64 {
    let project = format!("projects/{name}");
    let of_front = all.iter().filter(|call| call["request"]["name"] == project.as_str());
    let points = of_front.flat_map(|call| list(call, "/request/time_series")).map(|series| {
        let point = series.pointer("/points/0").expect("a point");
        let [start, end] = ["start_time", "end_time"].map(|end| text(&point["interval"][end]));
        ((series["metric"].to_string(), start, end), whole(&point["value"]["int64_value"]))
    });
    points.collect::<BTreeMap<_, _>>().values().sum()
}

/// The number of workloads that were called.
fn called(all: &[Value], name: &str) -> u64 {
    let project = format!("//istio.io/projects/{name}/");
    let assertions = all.iter().flat_map(|call| list(call, "/request/entity_present_assertions"));
    let names = assertions.map(|assertion| text(&assertion["entity"]["full_name"]));
    let is_called = |name: &String| name.starts_with(&project) && name.contains("/workloadInstances/");
    let names: BTreeSet<String> = names.filter(is_called).filter(|name| name.contains("db-")).collect();
    names.len() as u64
}

const OF_GOOGLE: Sent =
    Sent { adapter: "stackdriver", params: stackdriver, backend: || Backend::google(true), ..BASE };

pub(crate) const STACKDRIVER: [Sent; 4] = [
    Sent {
        title: "stackdriver, logs",
        arrived: Arrived::Numbers(|all, name| {
            let start = format!("projects/{name}/");
            let belongs = |request: &Value| text(&request["request"]["log_name"]).starts_with(&start);
            each(all, belongs, "/request/entries", |entry| text(&entry["labels"]["number"]))
        }),
        ..OF_GOOGLE
    },
    Sent {
        title: "stackdriver, spans",
        instance: "span",
        arrived: Arrived::Numbers(|all, name| {
            let project = format!("projects/{name}");
            let belongs = |request: &Value| request["request"]["name"] == project.as_str();
            let number = "/attributes/attribute_map/number/int_value";
            each(all, belongs, "/request/spans", |span| text(span.pointer(number).expect("a number")))
        }),
        ..OF_GOOGLE
    },
    Sent {
        title: "stackdriver, metrics",
        instance: "hits",
        arrived: Arrived::Total(time_series, 1),
        ..OF_GOOGLE
    },
    // What is known already is not sent again.
    Sent {
        title: "stackdriver, edges",
        instance: "edge",
        arrived: Arrived::Total(called, OF_CALL),
        path: |first| format!("kubernetes://db-{first}.shop"),
        ..OF_GOOGLE
    },
];

pub(crate) const SERVICE_CONTROL: [Sent; 1] = [Sent {
    title: "servicecontrol, reports",
    instance: "call",
    adapter: "servicecontrol",
    params: |place| {
        let Place { name, root, account, timeout, .. } = place;
        format!(
            "endpoint: '{}', credentialPath: '{account}', caFile: '{root}', timeout: {timeout}, queueKilobytes: 64, \
             runtimeConfig: {{checkCacheSize: 10, checkResultExpiration: 600s}}, \
             serviceConfigs: [{{meshServiceName: books, googleServiceName: {name}}}]",
            place.url()
        )
    },
    backend: || Backend::google(false),
    arrived: Arrived::Numbers(|all, name| {
        let path = format!("/v1/services/{name}:report");
        let belongs = |request: &Value| text(&request["path"]).starts_with(&path);
        each(all, belongs, "/json/operations", |operation| text(&operation["operationId"]))
    }),
    ..BASE
}];

// Values

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// A number that JSON has as text.
fn whole(value: &Value) -> u64 {
    text(value).parse().unwrap_or_else(|_| panic!("{value}"))
}

fn list(value: &Value, pointer: &str) -> Vec<Value> {
    value.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The numbers of the items in requests that belong to a front.
fn each(
    all: &[Value],
    belongs: impl Fn(&Value) -> bool,
    pointer: &str,
    number: impl Fn(&Value) -> String,
) -> Vec<String> {
    let of_front = all.iter().filter(|request| belongs(request));
    of_front.flat_map(|request| list(request, pointer)).map(|item| number(&item)).collect()
}
