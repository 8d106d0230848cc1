//! The crate of a new adapter.

use std::fmt::Write as _;

use super::names;
use super::new::NewAdapter;
use super::template::TemplateChoice;
use mixer_engine::template::Variety;

/// The proto of the parameters.
pub(super) const PARAMS_PROTO: &str = "params.proto";

const CARGO: &str = include_str!("scaffold/Cargo.toml.txt");
const BUILD: &str = include_str!("scaffold/build.rs.txt");
const MAIN: &str = include_str!("scaffold/main.rs.txt");
const ADAPTER: &str = include_str!("scaffold/adapter.rs.txt");
const README: &str = include_str!("scaffold/README.md");
const CHECK: &str = include_str!("scaffold/check.rs.txt");
const CHECK_WITH_OUTPUT: &str = include_str!("scaffold/check_with_output.rs.txt");
const QUOTA: &str = include_str!("scaffold/quota.rs.txt");
const REPORT: &str = include_str!("scaffold/report.rs.txt");
const GENERATOR: &str = include_str!("scaffold/generator.rs.txt");

/// The package of the parameters: that of the adapter, as a module of Rust can be named.
fn package(adapter: &NewAdapter<'_>) -> String {
    format!("{}.config", adapter.name.replace('-', "_"))
}

fn has(adapter: &NewAdapter<'_>, varieties: &[Variety]) -> bool {
    adapter.templates.iter().any(|template| varieties.contains(&template.variety()))
}

fn checks(adapter: &NewAdapter<'_>) -> bool {
    has(adapter, &[Variety::Check, Variety::CheckWithOutput])
}

/// The proto of the parameters.
pub(super) fn params(adapter: &NewAdapter<'_>) -> String {
    let mut fields = String::new();
    if checks(adapter) {
        fields += "  // Who is refused.\n  repeated string refused = 1;\n";
    }
    if has(adapter, &[Variety::Quota]) {
        fields += "  // The most that a call is granted.\n  int64 limit = 2;\n";
    }
    if has(adapter, &[Variety::Report, Variety::AttributeGenerator, Variety::CheckWithOutput]) {
        fields += "  // What is put before each text.\n  string prefix = 3;\n";
    }
    let package = package(adapter);
    format!(
        "syntax = \"proto3\";\n\npackage {package};\n\n// The parameters of a handler.\nmessage Params {{\n{fields}}}\n"
    )
}

/// The files of the crate but its protos.
pub(super) fn files(adapter: &NewAdapter<'_>) -> impl Iterator<Item = (&'static str, String)> {
    [
        (".gitignore", "/target\n".to_owned()),
        ("Cargo.toml", adapter.named(CARGO)),
        ("README.md", readme(adapter)),
        ("build.rs", BUILD.replace("{{protos}}", &protos(adapter))),
        ("src/adapter.rs", source(adapter)),
        ("src/main.rs", adapter.named(MAIN).replace("{{services}}", &services(adapter))),
    ]
    .into_iter()
}

fn protos(adapter: &NewAdapter<'_>) -> String {
    let paths = adapter.templates.iter().map(|template| format!(", {:?}", template.path()));
    paths.fold(format!("{PARAMS_PROTO:?}"), |list, path| list + &path)
}

fn module(template: &TemplateChoice) -> String {
    format!("{}::{}_service_server", template.module(), names::snake(&template.method()))
}

fn services(adapter: &NewAdapter<'_>) -> String {
    let mut text = String::new();
    for template in adapter.templates {
        let (module, method) = (module(template), template.method());
        let _ = writeln!(text, "        .add_service(proto::{module}::{method}ServiceServer::new(Adapter))");
    }
    text
}

/// The implementations of the services, and what they share.
fn source(adapter: &NewAdapter<'_>) -> String {
    let mut imports = String::new();
    let quota = has(adapter, &[Variety::Quota]);
    for (is_used, name) in [
        (checks(adapter), "CheckResult"),
        (quota, "QuotaResult"),
        (has(adapter, &[Variety::Report]), "ReportResult"),
        (quota, "quota_result"),
    ] {
        if is_used {
            let _ = writeln!(imports, "use proto::istio::mixer::adapter::model::v1beta1::{name};");
        }
    }
    let package = package(adapter).replace('.', "::");
    let head = adapter.named(ADAPTER).replace("{{imports}}", &imports).replace("{{package}}", &package);
    let mut text = String::new();
    for (is_used, part) in parts(adapter, &head) {
        if is_used {
            text += part;
        }
    }
    for template in adapter.templates {
        let part = match template.variety() {
            Variety::Check => CHECK,
            Variety::CheckWithOutput => CHECK_WITH_OUTPUT,
            Variety::Quota => QUOTA,
            Variety::Report => REPORT,
            Variety::AttributeGenerator => GENERATOR,
        };
        text.push('\n');
        text += &part
            .replace("{{server}}", &module(template))
            .replace("{{module}}", &template.module())
            .replace("{{method}}", &template.method())
            .replace("{{function}}", &names::snake(&template.method()))
            .replace("{{subject}}", template.subject())
            .replace("{{output}}", template.output())
            .replace("{{others}}", template.other_outputs());
    }
    text
}

/// The parts of the head, between its marks, and whether they are used.
fn parts<'t>(adapter: &NewAdapter<'_>, head: &'t str) -> impl Iterator<Item = (bool, &'t str)> {
    let used = [
        true,
        checks(adapter),
        checks(adapter) || has(adapter, &[Variety::Quota]),
        adapter.templates.iter().any(|template| template.subject().starts_with("text(")),
    ];
    used.into_iter().zip(head.split("// ----\n"))
}

fn readme(adapter: &NewAdapter<'_>) -> String {
    let template = |template: &&TemplateChoice| format!("--template {} ", template.path());
    let templates: String = adapter.templates.iter().map(template).collect();
    let mut calls = String::new();
    if checks(adapter) || has(adapter, &[Variety::AttributeGenerator]) {
        calls += "mixer check -s source.user=ann\n";
    }
    if checks(adapter) {
        calls += "mixer check -s source.user=eve        # is refused\n";
    }
    for quota in adapter.templates.iter().filter(|template| template.variety() == Variety::Quota) {
        let _ = writeln!(calls, "mixer check -s source.user=ann -q {{{{name}}}}-{}=3", quota.name());
    }
    if has(adapter, &[Variety::Report]) {
        calls += "mixer report -s source.user=ann,request.path=/books -i response.code=200\n";
    }
    adapter.named(&README.replace("{{templates}}", &templates).replace("{{calls}}", &calls))
}
