//! Attributes and quotas as flags and files spell them, and their wire form.
//!
//! Syntax and error texts of the flags are those of Istio Mixer.

mod document;
mod mistyped;
mod quotas;
mod set;
mod value;
mod wire;

pub(crate) use document::parse_document;
pub(crate) use quotas::{Quotas, parse_quotas};
pub(crate) use set::{AttributeSet, entry_of_map};
pub(crate) use value::{AttributeType, AttributeValue};
pub(crate) use wire::{Dictionary, encode, from_wire};
