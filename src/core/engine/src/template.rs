//! The schemas of templates: variety, fields and types.
//!
//! A template is the input schema of adapters: a metric has a value and dimensions, a quota has dimensions. An instance assigns
//! expressions to the fields. This module holds the schemas only; `snapshot` checks instances against them.
//!
//! Every template comes from descriptors: the built-in ones from those of `proto/istio/template/`, the others from resources. What
//! refers to a template shares it.

mod descriptor;
mod fields;
mod inventory;
mod name;
mod plan;

pub use descriptor::{
    Cardinality, DescriptorError, EnumType, Kind, MessageField, MessageId, MessageType, Method, Schema,
    WellKnown,
};
pub(crate) use inventory::built_in;
pub use inventory::{TEMPLATES, find};
pub use name::Name;
pub(crate) use plan::{Form, PackedItem, Step, put_duration, put_timestamp, unknown_enum_value};
pub use plan::{Plan, PlanError, WireType, put_bytes, put_length, put_tag, put_varint, put_zigzag};

use std::sync::Arc;

use descriptor::TemplateFile;
pub(crate) use descriptor::{Descriptors, INSTANCE_NAME, digest};
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldKind {
    /// A value of any type.
    Value,
    /// A map from strings to values of any type.
    ValueMap,
    /// A value of a fixed type.
    Typed(ValueType),
    /// A nested message.
    Message(Arc<[FieldInfo]>),
}

/// A field of a built-in template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldInfo {
    /// Protobuf field number; fields are checked and evaluated in this order.
    pub number: u32,
    /// The proto name; lowerCamelCase is accepted too.
    pub name: Name,
    /// The names of the fields that lead to it, with dots: `subject.user`.
    pub path: Name,
    /// Its type.
    pub kind: FieldKind,
}

/// An output of a template that has some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputInfo {
    /// Protobuf field number.
    pub number: u32,
    /// The proto name.
    pub name: Name,
    /// Its type.
    pub value_type: ValueType,
}

/// The first number of what Istio's templates do not have, as of parameters of adapters.
const FIRST_EXTENSION: u32 = 1000;

impl OutputInfo {
    /// Whether Istio's template does not have it; of a built-in template.
    pub(crate) fn is_extension(&self) -> bool {
        self.number >= FIRST_EXTENSION
    }
}

/// A template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateInfo {
    /// The name in `compiledTemplate` and the legacy kind, for example `metric`; the full name of the resource if there is one.
    pub name: Name,
    /// Its variety.
    pub variety: Variety,
    /// The protobuf package, for error texts: `listentry.InstanceParam`.
    pub package: Name,
    /// Fields in number order; none of a template out of process, whose messages are in `external`.
    pub fields: Arc<[FieldInfo]>,
    /// Outputs in number order, for attribute generators and checks with output.
    pub output: Arc<[OutputInfo]>,
    /// The messages of a template out of process.
    pub external: Option<ExternalTemplate>,
}

/// The messages by which a process serves a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalTemplate {
    /// The types of all messages.
    pub schema: Schema,
    /// The message of an instance.
    pub instance: MessageId,
    /// The message of the output, if the template has some.
    pub output: Option<MessageId>,
    /// The method that is called.
    pub method: Method,
    /// The digest of its descriptors.
    pub(crate) digest: u128,
}

impl TemplateInfo {
    /// A built-in template.
    ///
    /// Errors: a message is missing, or has a field that adapters in process cannot take.
    pub(crate) fn built_in(file: &TemplateFile<'_>) -> Result<Self, DescriptorError> {
        let types = file.types()?;
        Ok(Self {
            name: file.name.into(),
            variety: file.variety,
            package: file.package().into(),
            fields: fields::of_instance(&types.schema, types.instance)?,
            output: types.output.map_or_else(Default::default, |id| fields::of_output(&types.schema, id)),
            external: None,
        })
    }

    /// The template of a resource with this full name, from its descriptor set in base64.
    ///
    /// Errors: it is too large or no descriptor set, or does not define exactly one template.
    pub fn from_descriptor(name: impl Into<Name>, descriptor: &str) -> Result<Self, DescriptorError> {
        let descriptors = Descriptors::decode_base64(descriptor)?;
        let file = descriptors.template()?;
        let types = file.types()?;
        Ok(Self {
            name: name.into(),
            variety: file.variety,
            package: file.package().into(),
            fields: Arc::default(),
            output: types.output.map_or_else(Default::default, |id| fields::of_output(&types.schema, id)),
            external: Some(ExternalTemplate {
                schema: types.schema,
                instance: types.instance,
                output: types.output,
                method: descriptors.handle_method().ok_or(DescriptorError::NoMethod)?,
                digest: digest(descriptor),
            }),
        })
    }

    /// The position of an output in [`output`](Self::output), by its proto name.
    pub fn output_position(&self, name: &str) -> Option<usize> {
        self.output.iter().position(|output| output.name == *name)
    }

    /// The prefix that `$out.` stands for in attribute bindings, for example `adapter_template_kubernetes.output.`.
    pub(crate) fn output_prefix(&self) -> String {
        match self.external {
            Some(_) => "output.".to_owned(),
            None => format!("{}.output.", self.package.replace('.', "_")),
        }
    }
}

/// Checks the descriptor set, in base64, of the parameters of an adapter out of process.
///
/// Errors: it is too large or no descriptor set, or has no message `Params`.
pub fn check_params(descriptor: &str) -> Result<(), DescriptorError> {
    Descriptors::decode_base64(descriptor)?.params_package().map(drop)
}

#[cfg(test)]
mod tests;
