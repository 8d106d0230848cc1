//! `AdmissionReview`, as an API server sends it and expects it back.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A review. Of both versions the same fields are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Review {
    api_version: Option<String>,
    kind: Option<String>,
    /// What is to be reviewed.
    pub(super) request: Option<Request>,
}

/// What is to be reviewed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Request {
    uid: String,
    /// The kind under which the object was sent.
    pub(super) kind: GroupVersionKind,
    /// The resource of the API.
    pub(super) resource: GroupVersionResource,
    /// That of the object, if it has one. Empty for objects whose name is yet to be generated.
    pub(super) name: String,
    /// Empty for objects of the cluster.
    pub(super) namespace: String,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(super) operation: String,
    /// The new object.
    pub(super) object: Option<Value>,
}

/// A kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GroupVersionKind {
    /// For example `rule`.
    pub(super) kind: String,
}

/// A resource of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GroupVersionResource {
    pub(super) group: String,
    pub(super) version: String,
    /// Its plural.
    pub(super) resource: String,
}

/// The first version of the API whose answers must name themselves.
const V1: &str = "admission.k8s.io/v1";

impl Review {
    /// Errors: the body is no review; one line.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }

    /// The answer.
    pub(super) fn answer(&self, verdict: &Verdict) -> String {
        let mut response = Map::new();
        let uid = self.request.as_ref().map_or("", |request| &request.uid);
        response.insert("uid".to_owned(), json!(uid));
        response.insert("allowed".to_owned(), json!(verdict.allowed));
        if !verdict.allowed {
            response.insert("status".to_owned(), json!({ "metadata": {}, "message": verdict.message }));
        }
        if !verdict.warnings.is_empty() {
            response.insert("warnings".to_owned(), json!(verdict.warnings));
        }
        let mut answer = Map::new();
        if let (Some(V1), Some(kind)) = (self.api_version.as_deref(), &self.kind) {
            answer.insert("apiVersion".to_owned(), json!(V1));
            answer.insert("kind".to_owned(), json!(kind));
        }
        answer.insert("response".to_owned(), Value::Object(response));
        Value::Object(answer).to_string()
    }
}

/// Why a resource is refused: the label `reason` of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The operation is not one that is checked; it is allowed.
    UnsupportedOperation,
    /// The object is none.
    YamlDecode,
    /// Its kind is not known.
    UnknownType,
    /// Its `spec` is not that of its kind.
    Conversion,
    /// A check failed.
    Invalid,
}

impl Reason {
    pub(super) fn name(self) -> &'static str {
        match self {
            Reason::UnsupportedOperation => "unsupported_operation",
            Reason::YamlDecode => "yaml_decode_error",
            Reason::UnknownType => "unknown_type",
            Reason::Conversion => "crd_conversion_error",
            Reason::Invalid => "invalid_resource",
        }
    }
}

/// What the webhook answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    /// Why not; empty if it is allowed.
    pub(super) message: String,
    /// What it counts as; `None`: passed.
    pub(super) reason: Option<Reason>,
    /// For the user who sent the object, also if it is allowed.
    pub(super) warnings: Vec<String>,
}

impl Verdict {
    /// The object is allowed.
    pub(super) fn passed() -> Self {
        Self { allowed: true, message: String::new(), reason: None, warnings: Vec::new() }
    }

    /// The operation is none that is checked.
    pub(super) fn unsupported() -> Self {
        Self { reason: Some(Reason::UnsupportedOperation), ..Self::passed() }
    }

    /// The object is refused.
    pub(super) fn refused(reason: Reason, message: impl Into<String>) -> Self {
        Self { allowed: false, message: message.into(), reason: Some(reason), warnings: Vec::new() }
    }

    /// The body is no review.
    pub(super) fn undecodable(problem: &str) -> Self {
        Self::refused(Reason::YamlDecode, format!("could not decode body: {problem}"))
    }
}
