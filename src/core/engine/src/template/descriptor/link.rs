//! From descriptors to linked types: only what the roots need, each type once.

use std::collections::HashMap;

use super::schema::{
    Cardinality, EnumId, EnumType, Kind, MessageField, MessageId, MessageType, Schema, WellKnown,
};
use super::wire::{Enum, Field, FileSet, Message};
use crate::template::Name;
use mixer_config::message::lower_camel;

/// The label of a repeated field.
const REPEATED: i32 = 3;

/// The types of a descriptor set by full name.
#[derive(Default)]
struct Declared<'d> {
    messages: HashMap<String, (&'d Message, bool)>,
    enums: HashMap<String, &'d Enum>,
}

impl<'d> Declared<'d> {
    fn of(set: &'d FileSet) -> Self {
        let mut declared = Self::default();
        for file in &set.files {
            let prefix = if file.package.is_empty() { String::new() } else { format!("{}.", file.package) };
            // Numbers are packed by default since proto3, and a file of editions has no `proto2`.
            let packs = !matches!(file.syntax.as_str(), "" | "proto2");
            declared.types(&prefix, &file.messages, &file.enums, packs);
        }
        declared
    }

    /// Adds types and those nested in them; descriptors nest no deeper than their decoder follows.
    fn types(&mut self, prefix: &str, messages: &'d [Message], enums: &'d [Enum], packs: bool) {
        for declared in enums {
            self.enums.entry(format!("{prefix}{}", declared.name)).or_insert(declared);
        }
        for message in messages {
            let name = format!("{prefix}{}", message.name);
            self.types(&format!("{name}."), &message.nested, &message.enums, packs);
            self.messages.entry(name).or_insert((message, packs));
        }
    }
}

/// The types that the messages `roots` need, and these messages.
pub(super) fn link(set: &FileSet, roots: &[&str]) -> (Schema, Vec<Option<MessageId>>) {
    let mut linker = Linker { declared: Declared::of(set), ..Linker::default() };
    let found = roots.iter().map(|root| linker.message(root)).collect();
    // Each type is asked for once and entered in the order of its index.
    let mut next = 0;
    while let Some(name) = linker.asked.get(next).cloned() {
        next += 1;
        let linked = linker.linked(&name);
        linker.schema.messages.push(linked);
    }
    (linker.schema, found)
}

#[derive(Default)]
struct Linker<'d> {
    declared: Declared<'d>,
    schema: Schema,
    /// Full names of messages by index.
    asked: Vec<String>,
    messages: HashMap<String, MessageId>,
    enums: HashMap<String, EnumId>,
}

impl<'d> Linker<'d> {
    /// The index of a message, which is linked later.
    fn message(&mut self, name: &str) -> Option<MessageId> {
        if let Some(id) = self.messages.get(name) {
            return Some(*id);
        }
        // Those with a meaning of their own need no descriptor.
        if !self.declared.messages.contains_key(name) && WellKnown::find(name).is_none() {
            return None;
        }
        let id = MessageId(u32::try_from(self.asked.len()).ok()?);
        self.asked.push(name.to_owned());
        self.messages.insert(name.to_owned(), id);
        Some(id)
    }

    fn enumeration(&mut self, name: &str) -> Option<EnumId> {
        if let Some(id) = self.enums.get(name) {
            return Some(*id);
        }
        let declared = self.declared.enums.get(name)?;
        let id = EnumId(u32::try_from(self.schema.enums.len()).ok()?);
        let values = declared.values.iter().map(|value| (Name::from(&*value.name), value.number)).collect();
        self.schema.enums.push(EnumType { name: name.into(), values });
        self.enums.insert(name.to_owned(), id);
        Some(id)
    }

    fn linked(&mut self, name: &str) -> MessageType {
        let mut fields = match self.declared.messages.get(name).copied() {
            Some((message, packs)) => message.fields.iter().map(|field| self.field(field, packs)).collect(),
            None => Vec::new(),
        };
        fields.sort_by_key(|field| field.number);
        MessageType { name: name.into(), fields, well_known: WellKnown::find(name) }
    }

    fn field(&mut self, field: &'d Field, packs: bool) -> MessageField {
        let is_many = field.label == REPEATED;
        let type_name = field.type_name.trim_start_matches('.');
        let entry = self.declared.messages.get(type_name).copied();
        let entry = entry.filter(|(message, _)| is_many && message.options.is_some_and(|o| o.map_entry));
        let (kind, cardinality) = match entry {
            Some((entry, _)) => {
                let part = |number| entry.fields.iter().find(|part| part.number == number);
                let mut kind_of = |number| part(number).map_or(Kind::Unsupported, |part| self.kind(part));
                let key = kind_of(1);
                (kind_of(2), Cardinality::Map { key })
            }
            None if is_many => {
                let packed = field.options.and_then(|options| options.packed).unwrap_or(packs);
                (self.kind(field), Cardinality::Many { packed })
            }
            None => (self.kind(field), Cardinality::One),
        };
        let json_name = match field.json_name.as_str() {
            "" => lower_camel(&field.name),
            name => name.to_owned(),
        };
        MessageField {
            number: u32::try_from(field.number).unwrap_or_default(),
            name: field.name.as_str().into(),
            json_name: json_name.into(),
            kind,
            cardinality,
            has_presence: field.oneof_index.is_some() || !packs,
        }
    }

    fn kind(&mut self, field: &Field) -> Kind {
        let name = field.type_name.trim_start_matches('.');
        match field.kind {
            1 => Kind::Double,
            2 => Kind::Float,
            3 => Kind::Int64,
            4 => Kind::Uint64,
            5 => Kind::Int32,
            6 => Kind::Fixed64,
            7 => Kind::Fixed32,
            8 => Kind::Bool,
            9 => Kind::String,
            11 => self.message(name).map_or_else(|| Kind::Missing(name.into()), Kind::Message),
            12 => Kind::Bytes,
            13 => Kind::Uint32,
            14 => self.enumeration(name).map_or_else(|| Kind::Missing(name.into()), Kind::Enum),
            15 => Kind::Sfixed32,
            16 => Kind::Sfixed64,
            17 => Kind::Sint32,
            18 => Kind::Sint64,
            _ => Kind::Unsupported,
        }
    }
}
