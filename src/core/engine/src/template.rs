//! The schemas of the twelve templates: variety, fields and types.
//!
//! A template is the input schema of adapters: a metric has a value and dimensions, a quota has dimensions. An instance assigns
//! expressions to the fields. This module holds the schemas only; `snapshot` checks instances against them.

mod inventory;

pub use inventory::TEMPLATES;

use mixer_attribute::ValueType;

/// The variety of a template. The discriminants are those of `TemplateVariety`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Variety {
    /// Allows or denies a request.
    Check = 0,
    /// Reports telemetry.
    Report = 1,
    /// Allocates quota.
    Quota = 2,
    /// Generates attributes, before all other varieties.
    AttributeGenerator = 3,
    /// Allows or denies a request, and returns values for header operations.
    CheckWithOutput = 4,
}

impl Variety {
    /// Every variety, in number order.
    pub const ALL: [Variety; 5] = [
        Variety::Check,
        Variety::Report,
        Variety::Quota,
        Variety::AttributeGenerator,
        Variety::CheckWithOutput,
    ];

    /// For example `TEMPLATE_VARIETY_CHECK`.
    pub fn name(self) -> &'static str {
        match self {
            Variety::Check => "TEMPLATE_VARIETY_CHECK",
            Variety::Report => "TEMPLATE_VARIETY_REPORT",
            Variety::Quota => "TEMPLATE_VARIETY_QUOTA",
            Variety::AttributeGenerator => "TEMPLATE_VARIETY_ATTRIBUTE_GENERATOR",
            Variety::CheckWithOutput => "TEMPLATE_VARIETY_CHECK_WITH_OUTPUT",
        }
    }

    /// For example `check`.
    pub fn short_name(self) -> &'static str {
        match self {
            Variety::Check => "check",
            Variety::Report => "report",
            Variety::Quota => "quota",
            Variety::AttributeGenerator => "attribute-generator",
            Variety::CheckWithOutput => "check-with-output",
        }
    }
}

/// The type of a field of an instance. In configuration every leaf is the text of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A value of any type.
    Value,
    /// A map from strings to values of any type.
    ValueMap,
    /// A value of a fixed type.
    Typed(ValueType),
    /// A nested message.
    Message(&'static [FieldInfo]),
}

/// A field of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldInfo {
    /// Protobuf field number; fields are checked and evaluated in this order.
    pub number: u32,
    /// The proto name; lowerCamelCase is accepted too.
    pub name: &'static str,
    /// Its type.
    pub kind: FieldKind,
}

/// An output of an attribute-generating template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputInfo {
    /// Protobuf field number.
    pub number: u32,
    /// The proto name.
    pub name: &'static str,
    /// Its type.
    pub value_type: ValueType,
}

/// A template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateInfo {
    /// The name in `compiledTemplate` and the legacy kind, for example `metric`.
    pub name: &'static str,
    /// Its variety.
    pub variety: Variety,
    /// The protobuf package, for error texts: `listentry.InstanceParam`.
    pub package: &'static str,
    /// Fields in number order.
    pub fields: &'static [FieldInfo],
    /// Outputs, for attribute generators.
    pub output: &'static [OutputInfo],
}

impl TemplateInfo {
    /// The prefix that `$out.` stands for in attribute bindings, for example `adapter_template_kubernetes.output.`.
    pub(crate) fn output_prefix(&self) -> String {
        format!("{}.output.", self.package.replace('.', "_"))
    }
}

/// The template with this name.
pub fn find(name: &str) -> Option<&'static TemplateInfo> {
    TEMPLATES.iter().find(|t| t.name == name)
}
