//! The answer to a check, printable.

use serde::{Deserialize, Serialize};

use mixer_attribute::{GLOBAL_WORDS, SignedDuration};
use mixer_base::rpc_code;
use mixer_wire::istio::mixer::v1::header_operation::Operation;
use mixer_wire::istio::mixer::v1::referenced_attributes::Condition;
use mixer_wire::istio::mixer::v1::{CheckResponse, HeaderOperation, ReferencedAttributes};

/// For example `PERMISSION_DENIED`; the number for codes that have no name.
pub fn status_name(code: i32) -> String {
    rpc_code::name(code).map_or_else(|| code.to_string(), str::to_owned)
}

/// Code, name and message of a status.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StatusText {
    /// 0 is OK.
    pub code: i32,
    /// For example `OK`.
    #[serde(default)]
    pub name: String,
    /// Human-readable; often empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl StatusText {
    /// A status with its name.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, name: status_name(code), message: message.into() }
    }
}

/// One change to headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderText {
    /// Header name.
    pub name: String,
    /// Its value; empty for REMOVE.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `REPLACE`, `REMOVE` or `APPEND`.
    pub operation: String,
}

/// `REPLACE x-user: ann`.
impl std::fmt::Display for HeaderText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.operation, self.name)?;
        if self.operation == "REMOVE" { Ok(()) } else { write!(f, ": {}", self.value) }
    }
}

/// Header changes, or a direct response, that the proxy applies.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DirectiveText {
    /// Changes to the request, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub request_headers: Vec<HeaderText>,
    /// Changes to the response, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub response_headers: Vec<HeaderText>,
    /// HTTP status of a direct response; 0 for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub direct_response_code: u32,
    /// Its body.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub direct_response_body: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A grant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaText {
    /// The granted amount.
    pub granted: i64,
    /// Its validity, for example `1m0s`.
    pub valid_duration: String,
}

/// A referenced attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReferenceText {
    /// Its name.
    pub name: String,
    /// The key of a map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `EXACT` or `ABSENCE`.
    pub condition: String,
}

/// `request.headers[accept] EXACT`.
impl std::fmt::Display for ReferenceText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{}[{key}] {}", self.name, self.condition),
            None => write!(f, "{} {}", self.name, self.condition),
        }
    }
}

/// The answer to a check.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// OK or the refusal.
    pub status: StatusText,
    /// How long it may be reused, for example `5s`.
    pub valid_duration: String,
    /// How often it may be reused.
    pub valid_use_count: i32,
    /// The route directive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directive: Option<DirectiveText>,
    /// Grants by name.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub quotas: std::collections::BTreeMap<String, QuotaText>,
    /// Referenced attributes, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub referenced: Vec<ReferenceText>,
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerFailure {
    /// gRPC code.
    pub code: i32,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The error.
    pub message: String,
}

impl From<&CheckResponse> for Answer {
    fn from(response: &CheckResponse) -> Self {
        let precondition = response.precondition.clone().unwrap_or_default();
        let status = precondition.status.unwrap_or_default();
        Self {
            status: StatusText::new(status.code, status.message),
            valid_duration: duration_text(precondition.valid_duration),
            valid_use_count: precondition.valid_use_count,
            directive: precondition.route_directive.map(|directive| DirectiveText {
                request_headers: directive.request_header_operations.iter().map(header).collect(),
                response_headers: directive.response_header_operations.iter().map(header).collect(),
                direct_response_code: directive.direct_response_code,
                direct_response_body: directive.direct_response_body,
            }),
            quotas: response
                .quotas
                .iter()
                .map(|(name, quota)| {
                    let valid_duration = duration_text(quota.valid_duration);
                    (name.clone(), QuotaText { granted: quota.granted_amount, valid_duration })
                })
                .collect(),
            referenced: precondition.referenced_attributes.map_or_else(Vec::new, |r| references(&r)),
        }
    }
}

fn duration_text(duration: Option<prost_types::Duration>) -> String {
    let duration = duration.unwrap_or_default();
    let nanos = duration.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(duration.nanos));
    SignedDuration::from_nanos(nanos).to_string()
}

fn header(operation: &HeaderOperation) -> HeaderText {
    let kind = match operation.operation() {
        Operation::Replace => "REPLACE",
        Operation::Remove => "REMOVE",
        Operation::Append => "APPEND",
    };
    HeaderText { name: operation.name.clone(), value: operation.value.clone(), operation: kind.to_owned() }
}

fn references(found: &ReferencedAttributes) -> Vec<ReferenceText> {
    let word = |index: i32| {
        let text = match usize::try_from(index) {
            Ok(global) => GLOBAL_WORDS.get(global).map(|word| (*word).to_owned()),
            Err(_) => usize::try_from(!index)
                .ok()
                .and_then(|own| found.words.get(own).map(|word| String::from_utf8_lossy(word).into_owned())),
        };
        text.unwrap_or_else(|| format!("#{index}"))
    };
    let mut references: Vec<ReferenceText> = found
        .attribute_matches
        .iter()
        .map(|reference| ReferenceText {
            name: word(reference.name),
            key: (reference.map_key != 0).then(|| word(reference.map_key)),
            condition: match reference.condition() {
                Condition::Absence => "ABSENCE",
                Condition::Exact => "EXACT",
                Condition::Regex => "REGEX",
                Condition::Unspecified => "UNSPECIFIED",
            }
            .to_owned(),
        })
        .collect();
    references.sort();
    references
}
