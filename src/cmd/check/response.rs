//! Accessors of a Check response.

use crate::cmd::attributes::Quotas;
use mixer_attribute::GLOBAL_WORDS;
use mixer_wire::istio::mixer::v1::check_response::PreconditionResult;
use mixer_wire::istio::mixer::v1::header_operation::Operation;
use mixer_wire::istio::mixer::v1::referenced_attributes::Condition;
use mixer_wire::istio::mixer::v1::{CheckResponse, HeaderOperation, ReferencedAttributes};

/// Code and message of the status; OK without one.
pub(super) fn status(precondition: Option<&PreconditionResult>) -> (i32, String) {
    let status = precondition.and_then(|p| p.status.as_ref());
    status.map_or((0, String::new()), |s| (s.code, s.message.clone()))
}

/// The quotas of which something was asked for and nothing granted, with what was asked for. None of a denied check, which allocates nothing.
pub(super) fn refused_quotas<'q>(response: &CheckResponse, asked: &'q Quotas) -> Vec<(&'q str, i64)> {
    if status(response.precondition.as_ref()).0 != 0 {
        return Vec::new();
    }
    let granted = |name: &str| response.quotas.get(name).map_or(0, |result| result.granted_amount);
    let refused = asked.iter().filter(|(name, amount)| **amount > 0 && granted(name) <= 0);
    refused.map(|(name, amount)| (name.as_str(), *amount)).collect()
}

/// `nothing was granted of berths (3 asked for)`; `None` if nothing was refused.
pub(super) fn refusal(response: &CheckResponse, asked: &Quotas) -> Option<String> {
    let refused = refused_quotas(response, asked);
    let names = refused.iter().map(|(name, amount)| format!("{name} ({amount} asked for)"));
    let names = names.collect::<Vec<_>>().join(", ");
    (!refused.is_empty()).then(|| format!("nothing was granted of {names}"))
}

/// The name of a header operation.
pub(super) fn operation(operation: &HeaderOperation) -> &'static str {
    match Operation::try_from(operation.operation) {
        Ok(Operation::Remove) => "REMOVE",
        Ok(Operation::Append) => "APPEND",
        _ => "REPLACE",
    }
}

/// A referenced attribute or map key.
pub(super) struct ReferencedAttribute {
    pub(super) name: String,
    pub(super) map_key: Option<String>,
    pub(super) condition: &'static str,
    pub(super) regex: String,
}

impl ReferencedAttribute {
    /// `name` or `name::map_key`.
    pub(super) fn title(&self) -> String {
        match &self.map_key {
            Some(key) => format!("{}::{key}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The referenced attributes in the order of the response.
pub(super) fn references(precondition: Option<&PreconditionResult>) -> Vec<ReferencedAttribute> {
    let Some(referenced) = precondition.and_then(|p| p.referenced_attributes.as_ref()) else {
        return Vec::new();
    };
    referenced
        .attribute_matches
        .iter()
        .map(|found| ReferencedAttribute {
            name: word(referenced, found.name),
            map_key: (found.map_key != 0).then(|| word(referenced, found.map_key)),
            condition: match Condition::try_from(found.condition) {
                Ok(Condition::Absence) => "ABSENCE",
                Ok(Condition::Exact) => "EXACT",
                Ok(Condition::Regex) => "REGEX",
                _ => "CONDITION_UNSPECIFIED",
            },
            regex: found.regex.clone(),
        })
        .collect()
}

/// The word of an index: negative indices are words of the message, others of the global dictionary.
fn word(referenced: &ReferencedAttributes, index: i32) -> String {
    let found = if index < 0 {
        let position = usize::try_from(i64::from(index).unsigned_abs() - 1).ok();
        position.and_then(|p| referenced.words.get(p)).map(|w| String::from_utf8_lossy(w).into_owned())
    } else {
        usize::try_from(index).ok().and_then(|i| GLOBAL_WORDS.get(i)).map(|w| (*w).to_owned())
    };
    found.unwrap_or_else(|| format!("<word {index}>"))
}
