//! Allocations of quota.

use serde_json::{Value, json};

use mixer_attribute::SignedDuration;
use mixer_engine::adapter::QuotaResult;

use super::client::{Client, Failure};

/// The metric of an answer that says how much was granted.
const GRANTED: &str = "serviceruntime.googleapis.com/api/consumer/quota_used_count";

/// An allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allocation {
    /// At Google.
    pub(super) service: Box<str>,
    pub(super) key: String,
    pub(super) operation: String,
    /// The metric of the quota.
    pub(super) metric: Box<str>,
    pub(super) amount: i64,
    pub(super) best_effort: bool,
    /// How long a grant is valid.
    pub(super) expiration: SignedDuration,
}

impl Allocation {
    pub(super) async fn ask(&self, client: &Client) -> Result<QuotaResult, Failure> {
        let body = json!({ "allocateOperation": {
            "consumerId": format!("api_key:{}", self.key),
            "methodName": self.operation,
            "operationId": crate::uuid::random(),
            "quotaMetrics": [{
                "metricName": self.metric,
                "metricValues": [{ "int64Value": self.amount.to_string() }],
            }],
            "quotaMode": if self.best_effort { "BEST_EFFORT" } else { "NORMAL" },
        }});
        let answer = client.call(&self.service, "allocateQuota", body.to_string().into()).await?;
        Ok(QuotaResult { granted: self.granted(&answer), valid_duration: self.expiration })
    }

    /// How much an answer grants: what was asked for, if it does not say less. Nothing, if it has errors or an amount that is none.
    fn granted(&self, answer: &Value) -> i64 {
        let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
        match answer.get("allocateErrors") {
            None | Some(Value::Null) => {}
            Some(Value::Array(errors)) if errors.is_empty() => {}
            Some(_) => return 0,
        }
        let sets = list(answer.get("quotaMetrics"));
        let of_grant = sets.iter().filter(|set| set.get("metricName").is_some_and(|name| name == GRANTED));
        let values: Vec<Value> = of_grant.flat_map(|set| list(set.get("metricValues"))).collect();
        let named = values.iter().find(|value| {
            let name = value.get("labels").and_then(|labels| labels.get("/quota_name"));
            name.and_then(Value::as_str) == Some(&*self.metric)
        });
        let granted = named.map(|value| match value.get("int64Value") {
            Some(Value::String(text)) => text.parse().unwrap_or(0),
            number => number.and_then(Value::as_i64).unwrap_or(0),
        });
        // Google grants no more than it is asked for.
        granted.unwrap_or(self.amount).clamp(0, self.amount.max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_what_the_answer_says() {
        let allocation = Allocation {
            service: "s".into(),
            key: "k".to_owned(),
            operation: "o".to_owned(),
            metric: "reads".into(),
            amount: 5,
            best_effort: true,
            expiration: SignedDuration::from_secs(1),
        };
        let used = |name: &str, value: Value| {
            json!({ "quotaMetrics": [{ "metricName": GRANTED,
                "metricValues": [{ "labels": { "/quota_name": name }, "int64Value": value }] }] })
        };
        for (answer, granted) in [
            (json!({}), 5),
            (json!({ "allocateErrors": [] }), 5),
            (json!({ "allocateErrors": [{ "code": "RESOURCE_EXHAUSTED" }] }), 0),
            (used("reads", json!("2")), 2),
            (used("reads", json!(3)), 3),
            (used("reads", json!("0")), 0),
            (used("reads", json!("99")), 5),
            (used("reads", json!("-1")), 0),
            (used("reads", json!("five")), 0),
            (used("reads", json!(null)), 0),
            (used("writes", json!("2")), 5),
            (json!({ "allocateErrors": null }), 5),
            (json!({ "allocateErrors": { "code": "RESOURCE_EXHAUSTED" } }), 0),
            (json!({ "allocateErrors": "RESOURCE_EXHAUSTED" }), 0),
        ] {
            assert_eq!(allocation.granted(&answer), granted, "{answer}");
        }
    }
}
