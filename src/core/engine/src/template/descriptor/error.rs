//! What can be wrong with a descriptor.

use super::MAX_DESCRIPTOR_BYTES;

/// Why descriptors define no template, or no parameters.
///
/// The texts that Istio Mixer has too are its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// No base64. The position of the first character that is wrong.
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
    /// No descriptor set. The cause.
    #[error("no google.protobuf.FileDescriptorSet: {0}")]
    Malformed(String),
    /// Too many bytes.
    #[error("the descriptor set has {0} bytes; at most {MAX_DESCRIPTOR_BYTES} are read")]
    TooLarge(usize),
    /// No file is marked as that of a template.
    #[error(
        "there has to be one proto file that has the extension istio.mixer.adapter.model.v1beta1.template_variety"
    )]
    NoTemplate,
    /// Two files are.
    #[error(
        "proto files {0} and {1}, both have the option istio.mixer.adapter.model.v1beta1.template_variety. \
         Only one proto file is allowed with this options"
    )]
    SeveralTemplates(String, String),
    /// The file has no name for its template.
    #[error("proto files {0} is missing required template_name option")]
    Unnamed(String),
    /// The name is malformed.
    #[error("the template name '{0}' must match the regex '^[a-zA-Z]+$'")]
    TemplateName(String),
    /// A variety that does not exist.
    #[error("proto file {0} has template_variety {1}, which is unknown")]
    UnknownVariety(String, i32),
    /// A message of the template is missing.
    #[error("proto file {0} has no message {1}")]
    NoMessage(String, String),
    /// The parameters of an adapter are missing.
    #[error("cannot find message named 'Params' in the adapter configuration descriptor")]
    NoParams,
    /// No service has a method to call.
    #[error("there is no service whose name starts with Handle and that has a method")]
    NoMethod,
    /// A field of a type that a template built into the server may not have.
    #[error("field {field} of message {message} is {kind}, which a template may not have")]
    FieldKind {
        /// The message.
        message: String,
        /// The field.
        field: String,
        /// Its type, for example `a list of string`.
        kind: String,
    },
    /// A message that contains itself, or nests too deeply.
    #[error("message {0} contains itself, or nests more than {1} deep")]
    Recursive(String, usize),
}

impl DescriptorError {
    /// The error of base64 in a text of `len` characters.
    pub(super) fn of_base64(error: &base64::DecodeError, len: usize) -> Self {
        match error {
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => {
                Self::Base64(*at)
            }
            _ => Self::Base64(len),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Base64(_) => "the descriptor set in base64, padded: `base64 -w0 template.descriptor_set`",
            Self::Malformed(_) => {
                "made by `protoc --include_imports --descriptor_set_out=FILE template.proto`"
            }
            Self::TooLarge(_) => {
                "make it without source information, and import only what the template needs"
            }
            Self::NoTemplate | Self::Unnamed(_) | Self::TemplateName(_) | Self::UnknownVariety(..) => {
                "the file of the template has the options template_variety and template_name of \
                 istio.mixer.adapter.model.v1beta1"
            }
            Self::SeveralTemplates(..) => "make a descriptor set and a resource of each template",
            Self::NoMessage(..) | Self::NoMethod => {
                "the descriptors are those of the service of the template, which defines it"
            }
            Self::NoParams => "the parameters of an adapter are a message `Params` at the top of a file",
            Self::FieldKind { .. } | Self::Recursive(..) => {
                "a field is a value, a text, a number, a time, an address, a map of values, or a message of these"
            }
        }
    }
}
