//! Descriptors of templates and of the parameters of adapters, from a `google.protobuf.FileDescriptorSet` to linked types.
//!
//! Descriptors come from outside. They are bounded in bytes and in nesting, and types refer to each other by index, so that neither
//! recursion nor types that contain each other many times cost anything.

mod error;
mod link;
mod schema;
mod wire;

pub use error::DescriptorError;
pub use schema::{
    Cardinality, EnumType, Kind, MessageField, MessageId, MessageType, Method, Schema, WellKnown,
};

use std::hash::{DefaultHasher, Hasher as _};

use base64::Engine as _;
use prost::Message as _;

use super::Variety;
use wire::{File, FileSet};

/// Most bytes of a descriptor set. Those of Istio have up to 110 kB.
pub(crate) const MAX_DESCRIPTOR_BYTES: usize = 1 << 20;

/// The number of the field for the full name of the instance, which is none of its parameters.
pub(crate) const INSTANCE_NAME: u32 = 72_295_727;

/// The digest of descriptors as resources have them: two independent 64-bit hashes.
pub(crate) fn digest(text: &str) -> u128 {
    let half = |salt: usize| {
        let mut half = DefaultHasher::new();
        half.write_usize(salt);
        half.write(text.as_bytes());
        u128::from(half.finish())
    };
    half(0) << 64 | half(1)
}

/// A descriptor set.
#[derive(Debug)]
pub(crate) struct Descriptors {
    set: FileSet,
}

impl Descriptors {
    /// Reads an encoded descriptor set.
    ///
    /// Errors: it is too large, or no descriptor set.
    pub(crate) fn decode(encoded: &[u8]) -> Result<Self, DescriptorError> {
        if encoded.len() > MAX_DESCRIPTOR_BYTES {
            return Err(DescriptorError::TooLarge(encoded.len()));
        }
        let set = FileSet::decode(encoded).map_err(|error| DescriptorError::Malformed(error.to_string()))?;
        Ok(Self { set })
    }

    /// Reads a descriptor set as resources have it: in base64, which may contain line breaks.
    ///
    /// Errors: those of base64 and of [`decode`](Self::decode).
    pub(crate) fn decode_base64(text: &str) -> Result<Self, DescriptorError> {
        // Compared before anything is decoded; a third of it is lost to base64.
        let bytes = text.len() / 4 * 3;
        if bytes > MAX_DESCRIPTOR_BYTES + 2 {
            return Err(DescriptorError::TooLarge(bytes));
        }
        let text: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
        let encoded = base64::engine::general_purpose::STANDARD
            .decode(&text)
            .map_err(|error| DescriptorError::of_base64(&error, text.len()))?;
        Self::decode(&encoded)
    }

    /// The only file that defines a template.
    ///
    /// Errors: there is none, or another one.
    pub(crate) fn template(&self) -> Result<TemplateFile<'_>, DescriptorError> {
        let mut files = self.marked();
        let (file, variety) = files.next().ok_or(DescriptorError::NoTemplate)?;
        match files.next() {
            Some((other, _)) => Err(DescriptorError::SeveralTemplates(other.name.clone(), file.name.clone())),
            None => self.template_file(file, variety),
        }
    }

    /// All files that define a template.
    ///
    /// Errors: the first defect of any of them.
    pub(crate) fn templates(&self) -> impl Iterator<Item = Result<TemplateFile<'_>, DescriptorError>> {
        self.marked().map(|(file, variety)| self.template_file(file, variety))
    }

    /// Files with the option that makes them templates.
    fn marked(&self) -> impl Iterator<Item = (&File, i32)> {
        self.set.files.iter().filter_map(|file| Some((file, file.options.as_ref()?.variety?)))
    }

    fn template_file<'d>(
        &'d self,
        file: &'d File,
        variety: i32,
    ) -> Result<TemplateFile<'d>, DescriptorError> {
        let name = file.options.as_ref().and_then(|options| options.template_name.as_deref());
        let Some(name) = name else {
            return Err(DescriptorError::Unnamed(file.name.clone()));
        };
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Err(DescriptorError::TemplateName(name.to_owned()));
        }
        let known = Variety::ALL.into_iter().find(|known| *known as i32 == variety);
        let Some(variety) = known else {
            return Err(DescriptorError::UnknownVariety(file.name.clone(), variety));
        };
        Ok(TemplateFile { descriptors: self, file, name, variety })
    }

    /// The package of the last file with a message `Params` at its top.
    ///
    /// Errors: there is none.
    pub(crate) fn params_package(&self) -> Result<&str, DescriptorError> {
        let has_params = |file: &&File| file.messages.iter().any(|message| message.name == "Params");
        let file = self.set.files.iter().rfind(has_params).ok_or(DescriptorError::NoParams)?;
        Ok(&file.package)
    }

    /// The types that the messages with these full names need.
    pub(crate) fn link(&self, roots: &[&str]) -> (Schema, Vec<Option<MessageId>>) {
        link::link(&self.set, roots)
    }

    /// The method that a process of its own is called by: the first one of the first service whose name starts with `Handle`.
    pub(crate) fn handle_method(&self) -> Option<Method> {
        let mut services =
            self.set.files.iter().flat_map(|file| file.services.iter().map(move |s| (file, s)));
        let (file, service) = services.find(|(_, service)| service.name.starts_with("Handle"))?;
        let method = service.methods.first()?;
        let full = |name: &str| name.trim_start_matches('.').to_owned();
        let dot = if file.package.is_empty() { "" } else { "." };
        Some(Method {
            path: format!("/{}{dot}{}/{}", file.package, service.name, method.name).into(),
            request: full(&method.input),
            response: full(&method.output),
        })
    }
}

/// A file that defines a template.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TemplateFile<'d> {
    descriptors: &'d Descriptors,
    file: &'d File,
    /// Its name.
    pub(crate) name: &'d str,
    /// Its variety.
    pub(crate) variety: Variety,
}

impl TemplateFile<'_> {
    /// Its protobuf package.
    pub(crate) fn package(&self) -> &str {
        &self.file.package
    }

    /// The full name of a message of its package.
    fn message(&self, name: &str) -> String {
        match self.package() {
            "" => name.to_owned(),
            package => format!("{package}.{name}"),
        }
    }

    /// Its types: those of the instance, and of the output if it has one.
    ///
    /// Errors: a message is missing.
    pub(crate) fn types(&self) -> Result<TemplateTypes, DescriptorError> {
        let (instance_name, output_name) = (self.message("InstanceMsg"), self.message("OutputMsg"));
        let (schema, found) = self.descriptors.link(&[&instance_name, &output_name]);
        let at = |index: usize| found.get(index).copied().flatten();
        let missing = |name: &str| DescriptorError::NoMessage(self.file.name.clone(), name.to_owned());
        let has_output = matches!(self.variety, Variety::AttributeGenerator | Variety::CheckWithOutput);
        let output = at(1).filter(|_| has_output);
        if has_output && output.is_none() {
            return Err(missing(&output_name));
        }
        let instance = at(0).ok_or_else(|| missing(&instance_name))?;
        Ok(TemplateTypes { schema, instance, output })
    }
}

/// The types of a template.
#[derive(Debug)]
pub(crate) struct TemplateTypes {
    pub(crate) schema: Schema,
    pub(crate) instance: MessageId,
    pub(crate) output: Option<MessageId>,
}

#[cfg(test)]
mod tests;
