//! The cost of each adapter: of a bag that is reported, or of a check, with one handler of it. Backends are [sinks](super::sinks).
//!
//! Left out are `bypass`, which calls a backend for every instance and so measures that, and `kubernetesenv`, which needs an API server.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result};
use mixer_attribute::GLOBAL_WORDS;
use mixer_attribute::request::{CheckCall, encode_check_request};
use tokio::runtime::Runtime;

use super::client::Call;
use super::measure::Figures;
use super::options::Options;
use super::process::Program;
use super::scenario::{self, Stage, VARIETY};
use super::sinks::{Backend, Sink};
use super::{attributes, configuration, reports};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Bags of reports.
    Bags,
    /// Checks that are allowed, without a cache.
    Checks,
    /// The same that are denied.
    Denials,
    /// Checks with a quota of one.
    Quotas,
}

/// An adapter at work.
struct Row {
    adapter: &'static str,
    /// What its handler gets: a template, `logentry` and so on, and the part of [`INSTANCES`] that is named after it.
    instance: &'static str,
    asked: Asked,
    backend: Backend,
    /// Parameters; `PORT` is that of the backend, `DIRECTORY` a directory of the run.
    params: &'static str,
    /// Whether Istio Mixer has the adapter, with these parameters.
    has_peer: bool,
    /// Microseconds.
    budget: Option<Budget>,
    /// What tells it from another row of the same adapter and template.
    note: &'static str,
}

#[derive(Clone, Copy)]
enum Budget {
    /// Of all.
    Whole(f64),
    /// Of what is on top of the same with `noop`.
    OnTop(f64),
}

/// The instances; the name of each is that of its template.
const INSTANCES: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: metric, namespace: istio-system}
spec:
  compiledTemplate: metric
  params:
    value: response.size | 0
    dimensions: {method: request.method | "", service: destination.service | "", workload: source.workload.name | "", scheme: request.scheme | ""}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: logentry, namespace: istio-system}
spec:
  compiledTemplate: logentry
  params:
    severity: '"info"'
    timestamp: request.time
    variables:
      agent: request.useragent | ""
      code: response.code | 0
      duration: response.duration | "0ms"
      host: request.host | ""
      method: request.method | ""
      path: request.path | ""
      principal: source.principal | ""
      received: request.size | 0
      service: destination.service | ""
      sourceIp: source.ip | ip("0.0.0.0")
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: tracespan, namespace: istio-system}
spec:
  compiledTemplate: tracespan
  params:
    traceId: request.headers["x-b3-traceid"] | ""
    spanId: request.headers["x-b3-spanid"] | ""
    spanName: request.path | "/"
    startTime: request.time
    endTime: request.time
    clientSpan: "false"
    httpStatusCode: response.code | 0
    spanTags: {method: request.method | "", host: request.host | "", agent: request.useragent | "", size: response.size | 0}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: checknothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: listentry, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: source.namespace | ""}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: quota, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {workload: source.workload.name | ""}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: authorization, namespace: istio-system}
spec:
  compiledTemplate: authorization
  params:
    subject: {user: source.principal | "", groups: source.namespace | ""}
    action: {namespace: destination.service.namespace | "", service: destination.service.name | "", method: request.method | "", path: request.path | ""}
"#;

/// For `servicecontrol`, whose template Istio Mixer 1.3 does not have.
const CALL: &str = r#"
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: servicecontrolreport, namespace: istio-system}
spec:
  compiledTemplate: servicecontrolreport
  params:
    apiService: destination.service.name | ""
    apiOperation: request.method | ""
    requestMethod: request.method | ""
    requestPath: request.path | ""
    responseCode: response.code | 0
    responseTime: request.time
    requestTime: request.time
    requestBytes: request.size | 0
    responseLatency: response.duration | "0ms"
"#;

/// For `rbac`, which Istio Mixer 1.3 does not have.
const ROLES: &str = r#"
---
apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRole
metadata: {name: reader, namespace: default}
spec: {rules: [{services: [productpage], methods: [GET], paths: ["/api/*"]}]}
---
apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRoleBinding
metadata: {name: reader, namespace: default}
spec: {subjects: [{user: "*"}], roleRef: {kind: ServiceRole, name: reader}}
"#;

/// The name of the rows of an adapter that is a server of its own.
const OUT_OF_PROCESS: &str = "out of process";

/// For an adapter out of process: its templates, the adapter, and an instance of each.
fn out_of_process() -> Result<String> {
    let mut text = String::new();
    let params = "{value: source.namespace | \"\"}";
    let dimensions = "{dimensions: {workload: source.workload.name | \"\"}}";
    let variables = "{severity: '\"info\"', variables: {agent: request.useragent | \"\", code: response.code | 0, host: request.host | \"\", \
                     method: request.method | \"\", path: request.path | \"\", service: destination.service | \"\"}}";
    let templates = [("listentry", params), ("quota", dimensions), ("logentry", variables)];
    for (template, params) in templates {
        let path = configuration::testdata().join("conformance/adapters-remote/descriptors");
        let descriptor = std::fs::read_to_string(path.join(template).with_extension("b64"))?;
        text += &format!(
            "---\napiVersion: config.istio.io/v1alpha2\nkind: template\nmetadata: {{name: {template}, namespace: istio-system}}\n\
             spec: {{descriptor: \"{}\"}}\n---\napiVersion: config.istio.io/v1alpha2\nkind: instance\n\
             metadata: {{name: {template}, namespace: istio-system}}\nspec: {{template: {template}, params: {params}}}\n",
            descriptor.trim()
        );
    }
    text += "---\napiVersion: config.istio.io/v1alpha2\nkind: adapter\nmetadata: {name: measured, namespace: istio-system}\n\
             spec: {templates: [listentry, quota, logentry], session_based: false}\n";
    Ok(text)
}

const fn row(
    adapter: &'static str,
    instance: &'static str,
    asked: Asked,
    backend: Backend,
    params: &'static str,
) -> Row {
    Row { adapter, instance, asked, backend, params, has_peer: true, budget: None, note: "" }
}

const fn own(row: Row) -> Row {
    Row { has_peer: false, ..row }
}

const fn within(budget: Budget, row: Row) -> Row {
    Row { budget: Some(budget), ..row }
}

const fn noted(note: &'static str, row: Row) -> Row {
    Row { note, ..row }
}

const POLICY: &str = r#"{checkMethod: data.gate.allow, policy: ["package gate\ndefault allow = false\nallow { input.action.method == \"PUT\"; input.subject.user == \"root\" }\nallow { input.action.method == \"GET\"; startswith(input.action.path, \"/api/\") }\n"]}"#;

/// One that the engine evaluates.
const POLICY_WITH_LOOP: &str = r#"{checkMethod: data.gate.allow, policy: ["package gate\ndefault allow = false\nprefixes = {\"/api/\", \"/static/\"}\nallow { input.action.method == \"PUT\"; input.subject.user == \"root\" }\nallow { input.action.method == \"GET\"; prefixes[prefix]; startswith(input.action.path, prefix) }\n"]}"#;

const CLOUDWATCH: &str = "{namespace: mesh, region: us-east-1, metricsEndpoint: 'http://127.0.0.1:PORT', logsEndpoint: 'http://127.0.0.1:PORT', \
     credentialsFile: DIRECTORY/credentials, ";

const STACKDRIVER: &str =
    "{endpoint: 'http://127.0.0.1:PORT', projectId: lab, metadataEndpoint: 'http://127.0.0.1:TOKENS', ";

/// All rows. The first of a kind is the base of the others.
fn rows() -> Vec<Row> {
    use Asked::{Bags, Checks, Denials, Quotas};
    use Backend::{Grpc, Http, None, Redis, Tcp, Udp};
    let quotas = "{quotas: [{name: quota.instance.istio-system, maxAmount: 1000000000, validDuration: 60s}]}";
    let redis = "{redisServerUrl: '127.0.0.1:PORT', quotas: [{name: quota.instance.istio-system, maxAmount: 1000000000, validDuration: 60s}]}";
    vec![
        row("noop", "metric", Bags, None, "{}"),
        row(
            "circonus",
            "metric",
            Bags,
            Http("{\"stats\": 1}"),
            "{submissionUrl: 'http://127.0.0.1:PORT/trap', submissionInterval: 1s, metrics: [{name: metric.instance.istio-system, type: COUNTER}]}",
        ),
        row(
            "dogstatsd",
            "metric",
            Bags,
            Udp,
            "{address: '127.0.0.1:PORT', bufferLength: 50, sampleRate: 1, metrics: {metric.instance.istio-system: {name: size, type: COUNTER}}}",
        ),
        row(
            "fluentd",
            "logentry",
            Bags,
            Tcp,
            "{address: '127.0.0.1:PORT', pushIntervalDuration: 100ms, instanceBufferSize: 100000}",
        ),
        row(
            "prometheus",
            "metric",
            Bags,
            None,
            "{metrics: [{name: size, instanceName: metric.instance.istio-system, kind: COUNTER, labelNames: [method, service, workload, scheme]}]}",
        ),
        row(
            "signalfx",
            "metric",
            Bags,
            Http("\"OK\""),
            "{ingestUrl: 'http://127.0.0.1:PORT', accessToken: token, datapointInterval: 1s, metrics: [{name: metric.instance.istio-system, type: COUNTER}]}",
        ),
        row(
            "statsd",
            "metric",
            Bags,
            Udp,
            "{address: '127.0.0.1:PORT', metrics: {metric.instance.istio-system: {type: COUNTER, nameTemplate: 'size.{{.method}}.{{.workload}}'}}}",
        ),
        row(
            "stdio",
            "logentry",
            Bags,
            None,
            "{logStream: FILE, outputPath: DIRECTORY/entries.log, outputAsJson: true}",
        ),
        row(
            "zipkin",
            "tracespan",
            Bags,
            Http(""),
            "{url: 'http://127.0.0.1:PORT/api/v2/spans', sampleProbability: 1}",
        ),
        own(row(
            "cloudwatch",
            "metric",
            Bags,
            Http(""),
            "CLOUDWATCHmetricInfo: {metric.instance.istio-system: {unit: Bytes}}}",
        )),
        own(row(
            "cloudwatch",
            "logentry",
            Bags,
            Http("{}"),
            "CLOUDWATCHlogGroupName: g, logStreamName: s, logs: {logentry.instance.istio-system: {payloadTemplate: '{{.method}} {{.path}}'}}}",
        )),
        own(row(
            "otlp",
            "metric",
            Bags,
            Grpc,
            "{endpoint: 'http://127.0.0.1:PORT', exportInterval: 1s, metrics: {metric.instance.istio-system: {kind: COUNTER}}}",
        )),
        within(
            Budget::OnTop(2.5),
            own(row("otlp", "logentry", Bags, Grpc, "{endpoint: 'http://127.0.0.1:PORT'}")),
        ),
        own(row("otlp", "tracespan", Bags, Grpc, "{endpoint: 'http://127.0.0.1:PORT'}")),
        own(row(
            "servicecontrol",
            "servicecontrolreport",
            Bags,
            Http("{}"),
            "{endpoint: 'http://127.0.0.1:PORT', metadataEndpoint: 'http://127.0.0.1:PORT', runtimeConfig: {checkCacheSize: 100, checkResultExpiration: 60s}, serviceConfigs: [{meshServiceName: productpage, googleServiceName: books}]}",
        )),
        own(row(
            "solarwinds",
            "metric",
            Bags,
            Http("{}"),
            "{appopticsAccessToken: t, appopticsUrl: 'http://127.0.0.1:PORT/m', metrics: {metric.instance.istio-system: {labelNames: [method, workload]}}}",
        )),
        own(row(
            "solarwinds",
            "logentry",
            Bags,
            Udp,
            "{papertrailAddress: '127.0.0.1:PORT', logs: {logentry.instance.istio-system: {payloadTemplate: '{{.method}} {{.path}}'}}}",
        )),
        own(row(
            "stackdriver",
            "metric",
            Bags,
            Grpc,
            "STACKDRIVERpushInterval: 1s, metricInfo: {metric.instance.istio-system: {kind: DELTA, value: INT64}}}",
        )),
        own(row(
            "stackdriver",
            "logentry",
            Bags,
            Grpc,
            "STACKDRIVERlogInfo: {logentry.instance.istio-system: {labelNames: [code, host], payloadTemplate: '{{.method}} {{.path}}'}}}",
        )),
        row(OUT_OF_PROCESS, "logentry", Bags, Grpc, ""),
        own(row("stackdriver", "tracespan", Bags, Grpc, "STACKDRIVERtrace: {sampleProbability: 1}}")),
        row("noop", "checknothing", Checks, None, "{}"),
        row("denier", "checknothing", Denials, None, "{status: {code: 7, message: denied}}"),
        row("listchecker", "listentry", Checks, None, "{overrides: [default, istio-system, prod, shop]}"),
        within(Budget::Whole(10.0), row("opa", "authorization", Checks, None, POLICY)),
        noted(", with a loop", row("opa", "authorization", Checks, None, POLICY_WITH_LOOP)),
        own(row("rbac", "authorization", Checks, None, "{}")),
        within(Budget::Whole(15.0), row(OUT_OF_PROCESS, "listentry", Checks, Grpc, "")),
        row("memquota", "quota", Quotas, None, quotas),
        row("redisquota", "quota", Quotas, Redis, redis),
    ]
}

impl Row {
    /// Writes the configuration.
    fn configure(&self, into: &Path, directory: &Path, backend: &Sink, tokens: &Sink) -> Result<()> {
        configuration::vocabulary(into)?;
        let key = "[default]\naws_access_key_id = AKIDLAB\naws_secret_access_key = labsecret\n";
        std::fs::write(directory.join("credentials"), key)?;
        let params = self
            .params
            .replace("CLOUDWATCH", CLOUDWATCH)
            .replace("STACKDRIVER", STACKDRIVER)
            .replace("PORT", &backend.port.to_string())
            .replace("TOKENS", &tokens.port.to_string())
            .replace("DIRECTORY", &directory.display().to_string());
        let (adapter, instance) = (self.adapter, self.instance);
        let more = match adapter {
            "servicecontrol" => CALL,
            "rbac" => ROLES,
            _ => "",
        };
        let (instances, spec) = match adapter {
            OUT_OF_PROCESS => {
                let address = format!("127.0.0.1:{}", backend.port);
                (out_of_process()?, format!("{{adapter: measured, connection: {{address: '{address}'}}}}"))
            }
            _ => (INSTANCES.to_owned(), format!("{{compiledAdapter: {adapter}, params: {params}}}")),
        };
        let text = format!(
            "{instances}{more}---\napiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {{name: measured, namespace: istio-system}}\n\
             spec: {spec}\n---\napiVersion: config.istio.io/v1alpha2\nkind: rule\n\
             metadata: {{name: measured, namespace: istio-system}}\nspec: {{actions: [{{handler: measured, instances: [{instance}]}}]}}\n"
        );
        std::fs::write(into.join("measured.yaml"), text)?;
        Ok(())
    }

    fn calls(&self, bags: usize) -> Vec<Call> {
        let check = |number: usize| {
            let bag = attributes::request(number, "productpage.default.svc.cluster.local", "istio-system");
            let mut call = CheckCall::default();
            let id = format!("call-{number}");
            if self.asked == Asked::Quotas {
                call.deduplication_id = &id;
                call.quotas.insert("quota".to_owned(), (1, true));
            }
            let words = u32::try_from(GLOBAL_WORDS.len()).unwrap_or(0);
            let code = if self.asked == Asked::Denials { 7 } else { 0 };
            Call::check(&encode_check_request(&bag, words, &call), code)
        };
        match self.asked {
            Asked::Bags => (0..VARIETY).map(|number| Call::report(&reports::report(number, bags))).collect(),
            Asked::Checks | Asked::Denials | Asked::Quotas => (0..VARIETY).map(check).collect(),
        }
    }

    fn measure(&self, runtime: &Runtime, options: &Options, program: &Program) -> Result<Figures> {
        let bags = if self.asked == Asked::Bags { options.bags } else { 1 };
        let (backend, tokens) = (Sink::start(self.backend)?, Sink::start(Backend::Http(""))?);
        let received = backend.received();
        let has_backend = self.backend != Backend::None;
        let is_reached = move || !has_backend || received.load(Ordering::Relaxed) > 0;
        let stage = Stage::of(self.calls(bags), bags, is_reached)?;
        self.configure(&stage.configuration(), stage.directory(), &backend, &tokens)?;
        runtime.block_on(scenario::measure_stage(options, program, &stage))
    }
}

/// Prints a table: a row an adapter and template.
pub(crate) fn run(
    runtime: &Runtime,
    options: &Options,
    programs: &[Program],
    out: &mut dyn Write,
) -> Result<()> {
    let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
    writeln!(
        out,
        "| adapter | template | of | {} | on top | budget | in budget | less than peer by |",
        names.join(" | ")
    )?;
    writeln!(out, "| --- | --- | --- | {}--- | --- | --- | --- |", "--- | ".repeat(names.len()))?;
    let (mut of_bag, mut of_check) = (None, None);
    let is_asked = |row: &Row| {
        row.adapter == "noop" || options.adapter.as_ref().is_none_or(|adapter| *adapter == row.adapter)
    };
    for row in rows().into_iter().filter(is_asked) {
        let able = programs.iter().map(|program| (program.is_own() || row.has_peer).then_some(program));
        let able: Vec<Option<&Program>> = able.collect();
        let mut runs: Vec<Vec<Figures>> = able.iter().map(|_| Vec::new()).collect();
        for _ in 0..options.runs {
            for (program, runs) in able.iter().zip(&mut runs) {
                let Some(program) = program else { continue };
                let figures = row.measure(runtime, options, program);
                runs.push(
                    figures
                        .with_context(|| format!("{}, {} of {}", program.name, row.instance, row.adapter))?,
                );
            }
        }
        let micros: Vec<Option<f64>> = runs.iter().map(|runs| Figures::median(runs).cpu_micros).collect();
        let own = micros.first().copied().flatten();
        let of_bags = row.asked == Asked::Bags;
        let base = if of_bags { &mut of_bag } else { &mut of_check };
        if row.adapter == "noop" {
            *base = own;
        }
        let on_top = own.zip(*base).map(|(own, base)| own - base);
        let shown = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2} us"));
        let (budget, verdict) = match row.budget {
            None => (String::new(), None),
            Some(Budget::Whole(most)) => (format!("<= {most:.2} us"), own.map(|own| own <= most)),
            Some(Budget::OnTop(most)) => {
                (format!("<= {most:.2} us on top"), on_top.map(|on_top| on_top <= most))
            }
        };
        let ratio = match (own, micros.get(1).copied().flatten()) {
            (Some(own), Some(peer)) if own > 0.0 => format!("{:.1} x", peer / own),
            _ => String::new(),
        };
        writeln!(
            out,
            "| `{}` | {}{} | {} | {} | {} | {budget} | {} | {ratio} |",
            row.adapter,
            row.instance,
            row.note,
            if of_bags { "a bag" } else { "a check" },
            micros.iter().map(|value| shown(*value)).collect::<Vec<_>>().join(" | "),
            shown(on_top),
            verdict.map_or("", |is_within| if is_within { "yes" } else { "no" }),
        )?;
    }
    Ok(())
}
