//! Checks of keys, and the cache of their answers.

use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;
use serde_json::{Value, json};

use mixer_attribute::{SignedDuration, Timestamp};
use mixer_base::bounded::key_digest;
use mixer_engine::adapter::{CheckResult, Clock, Status};
use mixer_remote::foreign;

use super::client::{Client, Failure};
use super::codes::{OK, of_check_error};

/// What Google says about a key and an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) code: i32,
    pub(super) message: Box<str>,
    /// The number of the project whose key it is; empty if it is not known.
    pub(super) project: Box<str>,
    /// Monotonic time.
    expires: Duration,
}

/// Checks keys.
pub(super) struct Checks {
    pub(super) client: Client,
    clock: Arc<dyn Clock>,
    /// By digests: a caller chooses the length of a key.
    cache: Option<Cache<[u8; 32], Arc<Checked>>>,
    /// How long answers are valid.
    pub(super) expiration: SignedDuration,
}

impl Checks {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>, size: i32, expiration: SignedDuration) -> Self {
        let size = usize::try_from(size).unwrap_or(0);
        let cache = (size > 0).then(|| Cache::new(size));
        Self { client, clock, cache, expiration }
    }

    /// What Google said about a key and an operation, if it is still valid.
    pub(super) fn known(&self, service: &str, key: &str, operation: &str) -> Option<Arc<Checked>> {
        let found = self.cache.as_ref()?.get(&digest(service, key, operation))?;
        Some(found).filter(|found| self.clock.monotonic() < found.expires)
    }

    /// Asks Google about a key and an operation of a call.
    pub(super) async fn ask(
        &self,
        service: &str,
        key: &str,
        operation: &str,
        at: Timestamp,
    ) -> Result<Arc<Checked>, Failure> {
        let at = Timestamp { nanos: 0, ..at };
        let body = json!({ "operation": {
            "consumerId": format!("api_key:{key}"),
            "operationId": crate::uuid::random(),
            "operationName": operation,
            "startTime": at.rfc3339().to_string(),
        }});
        let answer = self.client.call(service, "check", &body).await?;
        let checked = Arc::new(self.understood(&answer)?);
        if let Some(cache) = &self.cache {
            cache.insert(digest(service, key, operation), Arc::clone(&checked));
        }
        Ok(checked)
    }

    /// What an answer says. Errors: it has errors in another shape than Google's; that there are none cannot be told from it.
    fn understood(&self, answer: &Value) -> Result<Checked, Failure> {
        let expires = self.clock.monotonic() + self.expiration.to_std_or_zero();
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(foreign).unwrap_or_default();
        let error = match answer.get("checkErrors") {
            None | Some(Value::Null) => None,
            Some(Value::Array(errors)) => errors.first(),
            Some(_) => {
                let why = "`checkErrors` of the answer is no list".to_owned();
                return Err(Failure { why, again: Some(Duration::ZERO) });
            }
        };
        let (code, message) = match error {
            None => (OK, String::new()),
            Some(error) => {
                let (code, detail) = (text(error.get("code")), text(error.get("detail")));
                (of_check_error(&code), format!("{code}: {detail}"))
            }
        };
        let project = answer.get("checkInfo").and_then(|info| info.get("consumerInfo")?.get("projectNumber"));
        let project = match project {
            Some(Value::Number(number)) => number.to_string(),
            other => text(other),
        };
        Ok(Checked { code, message: message.into(), project: project.into(), expires })
    }

    /// The result of a check.
    pub(super) fn result(&self, checked: &Checked) -> CheckResult {
        let left = checked.expires.saturating_sub(self.clock.monotonic());
        let nanos = i64::try_from(left.as_nanos()).unwrap_or(i64::MAX);
        self.result_of(checked.code, checked.message.to_string(), SignedDuration::from_nanos(nanos))
    }

    pub(super) fn result_of(
        &self,
        code: i32,
        message: String,
        valid_duration: SignedDuration,
    ) -> CheckResult {
        let status = Status { code, message, details: Vec::new() };
        CheckResult { status, valid_duration, valid_use_count: i32::MAX, ..CheckResult::default() }
    }
}

fn digest(service: &str, key: &str, operation: &str) -> [u8; 32] {
    // Lengths keep apart what would read alike.
    let text = format!("{} {} {service}{key}{operation}", service.len(), key.len());
    key_digest(text.as_bytes())
}
