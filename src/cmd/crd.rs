//! `crd`: custom resource definitions, for configuration stored in Kubernetes.

use std::io::Write as _;

use super::exit::{Exit, Outcome};
use super::io::Io;
use mixer_engine::template::TEMPLATES;

/// Flags of `crd`.
#[derive(Debug, Clone, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct CrdArgs {
    #[command(subcommand)]
    which: CrdCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum CrdCommand {
    /// List all kinds: core, adapters, instances
    All(CrdFlags),
    /// List adapter-specific kinds
    Adapter(CrdFlags),
    /// List template-specific kinds
    Instance(CrdFlags),
}

#[derive(Debug, Clone, clap::Args)]
struct CrdFlags {
    /// API version of the definitions: v1beta1 or v1.
    ///
    /// v1beta1 is the output of Istio 1.0; Kubernetes 1.22 and later accept v1 only, which has the kinds `handler`, `instance`,
    /// `template`, `adapter` and those of Envoy's services as well.
    #[arg(long, default_value = "v1beta1", value_parser = ["v1beta1", "v1"], value_name = "VERSION")]
    api_version: String,
}

/// Adapters with a kind of their own.
const ADAPTERS: [&str; 20] = [
    "bypass",
    "circonus",
    "cloudwatch",
    "denier",
    "dogstatsd",
    "fluentd",
    "kubernetesenv",
    "listchecker",
    "memquota",
    "noop",
    "opa",
    "prometheus",
    "rbac",
    "redisquota",
    "servicecontrol",
    "signalfx",
    "solarwinds",
    "stackdriver",
    "statsd",
    "stdio",
];

/// A custom resource kind.
struct CustomResource {
    name: &'static str,
    package: &'static str,
    role: &'static str,
}

/// Prints one definition per kind.
pub(crate) fn run(args: &CrdArgs, io: &mut Io) -> Outcome {
    let (flags, kinds) = match &args.which {
        CrdCommand::All(flags) => {
            let newer = if flags.api_version == "v1" { &NEWER[..] } else { &[] };
            let newer = newer.iter().copied().map(core_kind);
            (flags, core().chain(newer).chain(adapters()).chain(instances()).collect::<Vec<_>>())
        }
        CrdCommand::Adapter(flags) => (flags, adapters().collect()),
        CrdCommand::Instance(flags) => (flags, instances().collect()),
    };
    for kind in kinds {
        let document = if flags.api_version == "v1" { v1(&kind) } else { v1beta1(&kind) };
        write!(io.out, "{document}---\n\n")?;
    }
    Ok(Exit::Success)
}

/// Kinds of every configuration that the output of Istio 1.0 does not have.
// compat(1.0): v1beta1 has the kinds of that release.
const NEWER: [&str; 7] =
    ["adapter", "attributemapping", "envoybridge", "handler", "instance", "ratelimit", "template"];

fn core() -> impl Iterator<Item = CustomResource> {
    ["rule", "attributemanifest"].into_iter().map(core_kind)
}

fn core_kind(name: &'static str) -> CustomResource {
    CustomResource { name, package: "istio.io.mixer", role: "core" }
}

fn adapters() -> impl Iterator<Item = CustomResource> {
    ADAPTERS.into_iter().map(|name| CustomResource { name, package: name, role: "mixer-adapter" })
}

fn instances() -> impl Iterator<Item = CustomResource> {
    TEMPLATES.iter().map(|t| CustomResource { name: &t.name, package: &t.package, role: "mixer-instance" })
}

/// The plural of a kind. compat(1.0): `cloudwatch` becomes `cloudwatchs`; pinned by `plurals_follow_three_rules`.
fn plural(name: &str) -> String {
    if name.ends_with(['s', 'x']) {
        return format!("{name}es");
    }
    match name.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{name}s"),
    }
}

fn head(kind: &CustomResource, version: &str) -> String {
    let CustomResource { name, package, role } = kind;
    let plural = plural(name);
    format!(
        "kind: CustomResourceDefinition
apiVersion: apiextensions.k8s.io/{version}
metadata:
  name: {plural}.config.istio.io
  labels:
    package: {package}
    istio: {role}
spec:
  group: config.istio.io
  names:
    kind: {name}
    plural: {plural}
    singular: {name}
    categories:
    - istio-io
    - policy-istio-io
  scope: Namespaced
"
    )
}

fn v1beta1(kind: &CustomResource) -> String {
    head(kind, "v1beta1") + "  version: v1alpha2\n"
}

fn v1(kind: &CustomResource) -> String {
    head(kind, "v1")
        + "  versions:
  - name: v1alpha2
    served: true
    storage: true
    subresources:
      status: {}
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_follow_three_rules() {
        for (name, expected) in [
            ("bypass", "bypasses"),
            ("prometheus", "prometheuses"),
            ("apikey", "apikeies"),
            ("listentry", "listentries"),
            ("cloudwatch", "cloudwatchs"),
            ("signalfx", "signalfxes"),
            ("rule", "rules"),
        ] {
            assert_eq!(plural(name), expected);
        }
    }

    #[test]
    fn both_versions_are_yaml_documents() {
        for kind in core().chain(NEWER.into_iter().map(core_kind)).chain(adapters()).chain(instances()) {
            for text in [v1beta1(&kind), v1(&kind)] {
                let document: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
                assert_eq!(document["spec"]["names"]["kind"], kind.name);
            }
        }
    }
}
