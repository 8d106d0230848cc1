//! A configuration that denies every check with a message, and what checks of it are answered.

use std::time::{Duration, Instant};

use super::bag::{self, Attribute, Attributes, Words};
use super::rpc::{Client, mixer};
use super::{DEADLINE, wait_for};

/// The vocabulary of these configurations, and an instance for checks.
pub(crate) const VOCABULARY: &str = "
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: m, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    request.size: {valueType: INT64}
    request.time: {valueType: TIMESTAMP}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: caller, namespace: istio-system}
spec: {compiledTemplate: checknothing}
";

/// A rule that denies every check with a message.
pub(crate) fn deny(message: &str) -> String {
    format!(
        "
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {{name: deny, namespace: istio-system}}
spec:
  compiledAdapter: denier
  params: {{status: {{code: 7, message: {message}}}}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {{name: deny, namespace: istio-system}}
spec:
  actions:
  - handler: deny
    instances: [caller]
"
    )
}

pub(crate) fn request(user: &str) -> mixer::CheckRequest {
    let attributes = Attributes::from([("source.user".to_owned(), Attribute::Text(user.to_owned()))]);
    let message = bag::encode_alone(&attributes, Words::of_message());
    mixer::CheckRequest { attributes: Some(message), global_word_count: 222, ..Default::default() }
}

/// The message of a denial, empty when the check is allowed; the error is a failed call.
pub(crate) fn ask(client: &mut Client) -> Result<String, String> {
    ask_as(client, "ann")
}

/// [`ask`] with another `source.user`.
pub(crate) fn ask_as(client: &mut Client, user: &str) -> Result<String, String> {
    let answer = client.check(&request(user), None).map_err(|status| status.to_string())?;
    let status = answer.precondition.unwrap_or_default().status.unwrap_or_default();
    Ok(status.message.strip_prefix("deny.istio-system:").unwrap_or(&status.message).to_owned())
}

/// Checks until the message is `wanted`; returns how long that took.
pub(crate) fn until(client: &mut Client, wanted: &str) -> Duration {
    let started = Instant::now();
    let mut last = String::new();
    let seen = wait_for(DEADLINE, || {
        last = ask(client).expect("no call fails");
        (last == wanted).then_some(())
    });
    assert!(seen.is_some(), "expected {wanted:?}, found {last:?}");
    started.elapsed()
}
