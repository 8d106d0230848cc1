//! The templates that a new adapter can take: those that are built in, and one of its own for each variety.

use super::names;
use mixer_engine::template::Variety;

/// A template that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TemplateChoice {
    /// A built-in one.
    BuiltIn(&'static BuiltInTemplate),
    /// One of its own.
    Own {
        /// Its name and package.
        name: String,
        /// Its variety.
        variety: Variety,
    },
}

/// A built-in template, and what the code and the resources of a new adapter do with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BuiltInTemplate {
    name: &'static str,
    variety: Variety,
    package: &'static str,
    /// The method of its service.
    method: &'static str,
    proto: &'static str,
    /// The text of an instance that the code looks at, in Rust.
    subject: &'static str,
    /// The output that the code sets.
    output: &'static str,
    /// The parameters of an instance, in YAML.
    params: &'static str,
}

macro_rules! proto {
    ($name:literal) => {
        include_str!(concat!("../../../proto/istio/template/", $name, ".proto"))
    };
}

/// The built-in templates that a process can serve, in name order.
static BUILT_IN: [BuiltInTemplate; 11] = [
    BuiltInTemplate {
        name: "apikey",
        variety: Variety::Check,
        package: "apikey",
        method: "HandleApiKey",
        proto: proto!("apikey"),
        subject: "instance.api_key",
        output: "",
        params: "{api: \"'shop'\", api_operation: request.path | \"/\", api_key: source.user | \"\"}",
    },
    BuiltInTemplate {
        name: "authorization",
        variety: Variety::Check,
        package: "authorization",
        method: "HandleAuthorization",
        proto: proto!("authorization"),
        subject: "instance.subject.unwrap_or_default().user",
        output: "",
        params: "{subject: {user: source.user | \"\"}, action: {path: request.path | \"/\"}}",
    },
    BuiltInTemplate {
        name: "checknothing",
        variety: Variety::Check,
        package: "checknothing",
        method: "HandleCheckNothing",
        proto: proto!("checknothing"),
        subject: "instance.name",
        output: "",
        params: "{}",
    },
    BuiltInTemplate {
        name: "edge",
        variety: Variety::Report,
        package: "edge",
        method: "HandleEdge",
        proto: proto!("edge"),
        subject: "",
        output: "",
        params: "{source_uid: source.user | \"\", destination_uid: request.path | \"/\"}",
    },
    BuiltInTemplate {
        name: "kubernetes",
        variety: Variety::AttributeGenerator,
        package: "adapter.template.kubernetes",
        method: "HandleKubernetes",
        proto: proto!("kubernetes"),
        subject: "instance.source_uid",
        output: "source_namespace",
        params: "{source_uid: source.user | \"\"}",
    },
    BuiltInTemplate {
        name: "listentry",
        variety: Variety::Check,
        package: "listentry",
        method: "HandleListEntry",
        proto: proto!("listentry"),
        subject: "text(instance.value)",
        output: "",
        params: "{value: source.user | \"\"}",
    },
    BuiltInTemplate {
        name: "logentry",
        variety: Variety::Report,
        package: "logentry",
        method: "HandleLogEntry",
        proto: proto!("logentry"),
        subject: "",
        output: "",
        params: "{severity: \"'info'\", variables: {user: source.user | \"\", path: request.path | \"/\", code: response.code | 0}}",
    },
    BuiltInTemplate {
        name: "metric",
        variety: Variety::Report,
        package: "metric",
        method: "HandleMetric",
        proto: proto!("metric"),
        subject: "",
        output: "",
        params: "{value: response.code | 0, dimensions: {user: source.user | \"\", path: request.path | \"/\"}}",
    },
    BuiltInTemplate {
        name: "quota",
        variety: Variety::Quota,
        package: "quota",
        method: "HandleQuota",
        proto: proto!("quota"),
        subject: "",
        output: "",
        params: "{dimensions: {user: source.user | \"\"}}",
    },
    BuiltInTemplate {
        name: "reportnothing",
        variety: Variety::Report,
        package: "reportnothing",
        method: "HandleReportNothing",
        proto: proto!("reportnothing"),
        subject: "",
        output: "",
        params: "{}",
    },
    BuiltInTemplate {
        name: "tracespan",
        variety: Variety::Report,
        package: "tracespan",
        method: "HandleTraceSpan",
        proto: proto!("tracespan"),
        subject: "",
        output: "",
        params: "{span_name: request.path | \"/\", source_name: source.user | \"\", httpStatusCode: response.code | 0}",
    },
];

/// A template of its own.
const OWN_PROTO: &str = include_str!("scaffold/template.proto");

impl TemplateChoice {
    /// The name of a built-in template, or `NAME:VARIETY`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let built_in = BUILT_IN.iter().find(|template| template.name == text);
        let Some((name, variety)) = text.split_once(':') else {
            return built_in.map(Self::BuiltIn).ok_or_else(|| unknown(text));
        };
        let known = Variety::ALL.into_iter().find(|known| known.short_name() == variety);
        let Some(variety) = known else {
            let names = Variety::ALL.map(Variety::short_name).join(", ");
            return Err(format!("`{variety}` is no variety; one of {names}"));
        };
        let name = names::template(name)?;
        if BUILT_IN.iter().any(|template| template.name == name) {
            return Err(format!("`{name}` is built in: leave out its variety"));
        }
        Ok(Self::Own { name, variety })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::BuiltIn(template) => template.name,
            Self::Own { name, .. } => name,
        }
    }

    pub(super) fn variety(&self) -> Variety {
        match self {
            Self::BuiltIn(template) => template.variety,
            Self::Own { variety, .. } => *variety,
        }
    }

    fn package(&self) -> &str {
        match self {
            Self::BuiltIn(template) => template.package,
            Self::Own { name, .. } => name,
        }
    }

    /// The module of its package.
    pub(super) fn module(&self) -> String {
        self.package().replace('.', "::")
    }

    /// The method that is called, for example `HandleListEntry`.
    pub(super) fn method(&self) -> String {
        match self {
            Self::BuiltIn(template) => template.method.to_owned(),
            Self::Own { name, .. } => format!("Handle{}", names::camel(name)),
        }
    }

    /// The text of an instance that the code looks at, in Rust.
    pub(super) fn subject(&self) -> &str {
        match self {
            Self::BuiltIn(template) => template.subject,
            Self::Own { .. } => "instance.value",
        }
    }

    /// The output that the code sets.
    pub(super) fn output(&self) -> &str {
        match self {
            Self::BuiltIn(template) => template.output,
            Self::Own { .. } => "result",
        }
    }

    /// What sets the other outputs.
    pub(super) fn other_outputs(&self) -> &str {
        match self {
            Self::BuiltIn(_) => "\n            ..Default::default()",
            Self::Own { .. } => "",
        }
    }

    /// The parameters of an instance, in YAML.
    pub(super) fn params(&self) -> &str {
        match self {
            Self::BuiltIn(template) => template.params,
            Self::Own { .. } => "{value: source.user | \"\"}",
        }
    }

    /// The path of its proto, relative to those of the others.
    pub(super) fn path(&self) -> String {
        match self {
            Self::BuiltIn(template) => format!("istio/template/{}.proto", template.name),
            Self::Own { name, .. } => format!("{name}.proto"),
        }
    }

    /// The text of its proto.
    pub(super) fn proto(&self) -> String {
        let (name, variety) = match self {
            Self::BuiltIn(template) => return template.proto.to_owned(),
            Self::Own { name, variety } => (name, *variety),
        };
        let model = "istio.mixer.adapter.model.v1beta1";
        let method = self.method();
        let response = match variety {
            Variety::Check => format!("{model}.CheckResult"),
            Variety::Report => format!("{model}.ReportResult"),
            Variety::Quota => format!("{model}.QuotaResult"),
            Variety::AttributeGenerator => "OutputMsg".to_owned(),
            Variety::CheckWithOutput => format!("{method}Response"),
        };
        let instances = if variety == Variety::Report {
            "repeated InstanceMsg instances"
        } else {
            "InstanceMsg instance"
        };
        let quota = if variety == Variety::Quota {
            format!("\n  {model}.QuotaRequest quota_request = 4;")
        } else {
            String::new()
        };
        let mut text = OWN_PROTO
            .replace("{{package}}", name)
            .replace("{{variety}}", variety.name())
            .replace("{{method}}", &method)
            .replace("{{response}}", &response)
            .replace("{{instances}}", instances)
            .replace("{{quota}}", &quota);
        if variety == Variety::CheckWithOutput {
            text += &format!(
                "\nmessage {response} {{\n  {model}.CheckResult result = 1;\n  OutputMsg output = 2;\n}}\n"
            );
        }
        if matches!(variety, Variety::CheckWithOutput | Variety::AttributeGenerator) {
            text += "\n// Rules read it as `output.result`.\nmessage OutputMsg {\n  string result = 1;\n}\n";
        }
        text
    }
}

fn unknown(name: &str) -> String {
    let known = BUILT_IN.iter().map(|template| template.name);
    if name == "servicecontrolreport" {
        return format!("no process serves the template `{name}`: it has no service");
    }
    match mixer_config::message::suggested(name, known) {
        Some(near) => format!(
            "`{name}` is no built-in template: did you mean `{near}`, or one of its own (`{name}:VARIETY`)?"
        ),
        None => format!("`{name}` is no built-in template: write `{name}:VARIETY` for one of its own"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_engine::template::TEMPLATES;

    #[test]
    fn the_table_has_the_templates_that_are_built_in() {
        let served = TEMPLATES.iter().filter(|template| template.name != "servicecontrolreport");
        let served: Vec<_> = served.map(|t| (t.name.to_string(), t.variety, t.package.to_string())).collect();
        let table: Vec<_> =
            BUILT_IN.iter().map(|t| (t.name.to_owned(), t.variety, t.package.to_owned())).collect();
        assert_eq!(table, served);
    }

    #[test]
    fn services_are_those_of_the_protos() {
        for template in &BUILT_IN {
            let method = template.method;
            for part in
                [format!("service {method}Service {{"), format!("rpc {method}({method}Request) returns")]
            {
                assert!(template.proto.contains(&part), "{}: {part}", template.name);
            }
        }
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for (text, why) in [
            (
                "listentri",
                "`listentri` is no built-in template: did you mean `listentry`, or one of its own (`listentri:VARIETY`)?",
            ),
            ("owner", "`owner` is no built-in template: write `owner:VARIETY` for one of its own"),
            (
                "owner:checks",
                "`checks` is no variety; one of check, report, quota, attribute-generator, check-with-output",
            ),
            ("quota:quota", "`quota` is built in: leave out its variety"),
            ("Owner:check", "`Owner` is no name of a template: it must have lower-case letters only"),
            (
                "servicecontrolreport",
                "no process serves the template `servicecontrolreport`: it has no service",
            ),
        ] {
            assert_eq!(TemplateChoice::parse(text), Err(why.to_owned()));
        }
    }
}
