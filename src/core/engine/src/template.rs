//! The twelve templates as data: which fields an instance has, of which types, and what it is for.
//!
//! A template says what adapters of a kind want to be told: a metric has a value and dimensions, a quota has dimensions. An
//! instance fills the fields with expressions. This room holds the schemas only; checking an instance against its schema is
//! [`config`](mixer_config)'s work. Spec: runtime.md section 5, adapters-inprocess.md section 2.

mod inventory;

pub use inventory::TEMPLATES;

use mixer_attribute::ValueType;

/// What the instances of a template are for. The discriminants are those of `TemplateVariety`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Variety {
    /// Decide whether a request may pass.
    Check = 0,
    /// Record what happened.
    Report = 1,
    /// Hand out amounts.
    Quota = 2,
    /// Add attributes before everything else.
    AttributeGenerator = 3,
    /// Decide, and give values to header operations.
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

/// What a field of an instance holds. In configuration every leaf is the text of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A value of whatever type its expression has.
    Value,
    /// A map from text to values of any type.
    ValueMap,
    /// A value of one type.
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
    /// What it holds.
    pub kind: FieldKind,
}

/// A value that an attribute-generating template gives back.
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
    /// What its instances are for.
    pub variety: Variety,
    /// The protobuf package, for error texts: `listentry.InstanceParam`.
    pub package: &'static str,
    /// Fields in number order.
    pub fields: &'static [FieldInfo],
    /// Values given back, for attribute generators.
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
