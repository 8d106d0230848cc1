//! Checks of keys, and the cache of their answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use mixer_attribute::{SignedDuration, Timestamp};
use mixer_base::bounded::key_digest;
use mixer_base::budget::Account;
use mixer_engine::adapter::{CheckResult, Clock, Status};
use mixer_remote::foreign;

use super::cache::{AnswerCache, Checked, Digest};
use super::client::{Client, Failure};
use super::codes::{OK, of_check_error};

/// What became of a question, once it is answered.
type Answer = Result<Arc<Checked>, Failure>;

/// The questions that Google is being asked, each on behalf of all calls that wait for its answer. At most as many as there are calls, which
/// the pool of the handler bounds.
#[derive(Default)]
struct Questions(Mutex<HashMap<Digest, watch::Receiver<Option<Answer>>>>);

/// A question of this call. If it is dropped before it is answered, its caller has left: one of those who wait asks instead.
struct Asking<'q> {
    questions: &'q Questions,
    digest: Digest,
    told: watch::Sender<Option<Answer>>,
}

impl Questions {
    /// A question that no call asks yet. Errors: one that does; its answer is there once it is `Some`.
    fn begin(&self, digest: Digest) -> Result<Asking<'_>, watch::Receiver<Option<Answer>>> {
        let mut questions = self.0.lock();
        if let Some(asked) = questions.get(&digest) {
            return Err(asked.clone());
        }
        let (told, asked) = watch::channel(None);
        questions.insert(digest, asked);
        Ok(Asking { questions: self, digest, told })
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        // Before those who wait notice that nobody answers them.
        self.questions.0.lock().remove(&self.digest);
    }
}

/// Checks keys.
pub(super) struct Checks {
    pub(super) client: Client,
    clock: Arc<dyn Clock>,
    /// By digests: a caller chooses the length of a key.
    cache: Option<AnswerCache>,
    questions: Questions,
    /// How long answers are valid.
    pub(super) expiration: SignedDuration,
}

impl Checks {
    /// Checks by a client; at most `size` answers are cached, whose memory is of `account`.
    pub(super) fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        size: i32,
        expiration: SignedDuration,
        account: &Arc<Account>,
    ) -> Self {
        let size = usize::try_from(size).unwrap_or(0);
        let cache = (size > 0).then(|| AnswerCache::new(size, account));
        Self { client, clock, cache, questions: Questions::default(), expiration }
    }

    /// What Google said about a key and an operation, if it is still valid.
    pub(super) fn known(&self, service: &str, key: &str, operation: &str) -> Option<Arc<Checked>> {
        self.cache.as_ref()?.get(&digest(service, key, operation), self.clock.monotonic())
    }

    /// Asks Google about a key and an operation of a call, or waits for the answer to a call that does.
    pub(super) async fn ask(&self, service: &str, key: &str, operation: &str, at: Timestamp) -> Answer {
        let digest = digest(service, key, operation);
        loop {
            let mut asked = match self.questions.begin(digest) {
                Ok(asking) => {
                    // Another call may have got it since this one looked.
                    let answer = match self.known(service, key, operation) {
                        Some(known) => Ok(known),
                        None => self.ask_google(service, key, operation, at).await,
                    };
                    if let (Ok(checked), Some(cache)) = (&answer, &self.cache) {
                        cache.insert(digest, Arc::clone(checked), self.clock.monotonic());
                    }
                    asking.told.send_replace(Some(answer.clone()));
                    return answer;
                }
                Err(asked) => asked,
            };
            if let Ok(answer) = asked.wait_for(Option::is_some).await
                && let Some(answer) = &*answer
            {
                return answer.clone();
            }
        }
    }

    async fn ask_google(&self, service: &str, key: &str, operation: &str, at: Timestamp) -> Answer {
        let at = Timestamp { nanos: 0, ..at };
        let body = json!({ "operation": {
            "consumerId": format!("api_key:{key}"),
            "operationId": crate::uuid::random(),
            "operationName": operation,
            "startTime": at.rfc3339().to_string(),
        }});
        let answer = self.client.call(service, "check", body.to_string().into()).await?;
        Ok(Arc::new(self.understood(&answer)?))
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

fn digest(service: &str, key: &str, operation: &str) -> Digest {
    // Lengths keep apart what would read alike.
    let text = format!("{} {} {service}{key}{operation}", service.len(), key.len());
    key_digest(text.as_bytes())
}
