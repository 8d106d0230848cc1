//! Combines the answers of handlers.

use std::sync::Arc;

use prost::Message as _;

use super::{HeaderChange, RouteDirective};
use crate::adapter::{CheckResult, Status, StatusDetail};
use crate::routing::{NamespaceFault, Refuser, Route};
use crate::secret_values::SecretValues;
use crate::snapshot::{Allowance, HeaderOperationKind};
use mixer_attribute::SignedDuration;
use mixer_base::warn_limited;

/// PERMISSION_DENIED: the code of refusals that no handler made.
pub(super) const PERMISSION_DENIED: i32 = 7;
/// Most bytes of the message of an answer. Of a longer one, which repeats what a caller sent, the rest is left out.
const MAX_MESSAGE: usize = 32 << 10;
/// Bytes of a name that a message has.
const MAX_SHOWN: usize = 128;
/// Validity of a check without any answer that states one.
const DEFAULT_VALID_DURATION: SignedDuration = SignedDuration::from_secs(60);
/// Use count of such a check.
const DEFAULT_VALID_USE_COUNT: i32 = 10_000;

/// What clients are told of a request whose evaluation failed.
pub const UNEVALUATED: &str = "the request cannot be evaluated";

/// The combined answer to a check. The rules are those of Istio Mixer 1.3.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckOutcome {
    /// Code of the first refusal in rule order; messages of all, each as `HANDLER:TEXT`, joined by `, `. Without a refusal
    /// the message of the first answer with a validity.
    pub status: Status,
    /// What a refusal says to the client: the texts of all refusals without the names of handlers and rules, joined by `, `, and
    /// [`UNEVALUATED`] for failures that refuse; empty without a refusal.
    pub public_message: String,
    /// The minimum of all answers; 0 if the failure of a handler was ignored or covered by its last answer.
    pub valid_duration: SignedDuration,
    /// The minimum of all answers; 0 if the failure of a handler was ignored or covered by its last answer.
    pub valid_use_count: i32,
    /// Header changes or a direct response.
    pub directive: Option<RouteDirective>,
    /// Which defaults the answers of handlers satisfy; a refusal by another one may be stronger.
    pub allowed: Allowance,
    /// The first rule that refused the request; `None` also for a refusal that no rule made.
    pub refused_by: Option<Refuser>,
    /// The answer depends on a whole map, which references cannot express: it must not be cached by the server.
    pub depends_on_map: bool,
    /// The secret values that generators made, which texts and header changes may repeat; `None` if there are none.
    pub made_secrets: Option<Arc<SecretValues>>,
}

impl CheckOutcome {
    /// Refuses a request that was allowed, because of failures. The answer is valid for this request only.
    pub(super) fn refuse(&mut self, texts: &[String]) {
        UNEVALUATED.clone_into(&mut self.public_message);
        let texts: Vec<String> = texts.iter().map(|text| format!("mixer:{text}")).collect();
        self.status = Status { code: PERMISSION_DENIED, message: texts.join(", "), details: [].into() };
        (self.valid_duration, self.valid_use_count) = (SignedDuration::ZERO, 0);
        self.directive = None;
    }
}

/// Combines answers, added in rule order.
#[derive(Debug, Default)]
pub(super) struct Combiner {
    status: Status,
    /// Whether the message of the status lacks some.
    is_full: bool,
    /// The message of the status without the names of handlers and rules.
    public_message: String,
    is_public_full: bool,
    validity: Option<(SignedDuration, i32)>,
    /// The message of an approval.
    approval: String,
    allowed: Allowance,
    covered_failure: bool,
    refused_by: Option<Refuser>,
}

impl Combiner {
    /// Notes that a handler allowed the request, for the defaults that its OK satisfies.
    pub(super) fn allow(&mut self, allowance: Allowance) {
        self.allowed = self.allowed.max(allowance);
    }

    /// Which defaults are satisfied.
    pub(super) fn allowance(&self) -> Allowance {
        self.allowed
    }

    /// Notes a failure of a handler that `on_error` ignores or covers with the last answer. The next request must ask the handler again,
    /// so that the answer is valid for this request only.
    pub(super) fn cover_failure(&mut self) {
        self.covered_failure = true;
    }

    /// Whether nothing refused the request, and a default may.
    pub(super) fn is_undecided(&self) -> bool {
        self.status.code == 0 && self.allowed != Allowance::Everywhere
    }

    /// Whether some answer refused the request.
    pub(super) fn is_refused(&self) -> bool {
        self.status.code != 0
    }

    /// Notes the rule whose answer was added last, if it is the first that refuses the request.
    pub(super) fn note_refuser(&mut self, route: &Route) {
        if self.status.code != 0 && self.refused_by.is_none() {
            self.refused_by = Some(Refuser::of(route));
        }
    }

    /// Refuses the request by the default of a rule. The answer is as valid as those of the handlers.
    pub(super) fn deny_by_default(&mut self, rule: &str) {
        self.status.code = PERMISSION_DENIED;
        let allowing = match self.allowed {
            Allowance::Nothing => "no rule",
            Allowance::Mesh | Allowance::Everywhere => "no rule of its namespace",
        };
        self.status.message = format!("mixer:{allowing} allows this request, default of {rule}");
        self.public_message = format!("{allowing} allows this request");
    }

    /// Refuses a request that names no namespace, or misspells one. The answer is as valid as those of the handlers.
    pub(super) fn deny_without_namespace(&mut self, fault: &NamespaceFault) {
        self.status.code = PERMISSION_DENIED;
        let (message, public) = match fault {
            NamespaceFault::Missing => {
                let why = "the request names no namespace, and rules of a namespace may refuse it (defaultNamespace of the envoybridge)";
                (why.to_owned(), "the request names no namespace")
            }
            NamespaceFault::Misspelt { named, meant } => {
                let named =
                    named.get(..named.floor_char_boundary(MAX_SHOWN)).unwrap_or_default().escape_debug();
                let why = format!("the request names namespace `{named}`, and the rules are in `{meant}`");
                warn_limited!(1, "a request of Envoy is refused: {why}");
                (why, "the request names an unknown namespace")
            }
        };
        self.status.message = format!("mixer:{message}");
        public.clone_into(&mut self.public_message);
    }

    /// Adds the answer of a handler.
    pub(super) fn add(&mut self, handler: &str, result: &CheckResult) {
        self.add_as(handler, result, &result.status.message);
    }

    /// Adds a failure that `on_error` turned into a refusal. Its text is for operators: it has addresses, names of resources and what
    /// a backend wrote.
    pub(super) fn add_failure(&mut self, handler: &str, refusal: &CheckResult) {
        self.add_as(handler, refusal, UNEVALUATED);
    }

    /// Adds an answer with what a refusal says to the client.
    fn add_as(&mut self, handler: &str, result: &CheckResult, public: &str) {
        let refused = result.status.code != 0;
        // An approval without validity does not limit the result; a refusal without validity is not cacheable.
        let is_first = self.validity.is_none();
        if refused || result.valid_duration != SignedDuration::ZERO || result.valid_use_count != 0 {
            let (duration, uses) = self.validity.unwrap_or((result.valid_duration, result.valid_use_count));
            self.validity = Some((duration.min(result.valid_duration), uses.min(result.valid_use_count)));
        }
        if !refused {
            if is_first {
                self.approval.clone_from(&result.status.message);
            }
            return;
        }
        let is_repeated = public == UNEVALUATED && self.public_message.ends_with(UNEVALUATED);
        if self.status.code == 0 {
            self.status.code = result.status.code;
            self.status.details = result.status.details.clone();
        } else {
            append(&mut self.status.message, &mut self.is_full, &[", "]);
            if !is_repeated {
                append(&mut self.public_message, &mut self.is_public_full, &[", "]);
            }
        }
        if !is_repeated {
            append(&mut self.public_message, &mut self.is_public_full, &[public]);
        }
        append(&mut self.status.message, &mut self.is_full, &[handler, ":", &result.status.message]);
    }

    pub(super) fn finish(mut self, depends_on_map: bool) -> CheckOutcome {
        if self.status.code == 0 {
            self.status.message = self.approval;
        }
        let (valid_duration, valid_use_count) = match self.validity {
            _ if self.covered_failure => (SignedDuration::ZERO, 0),
            // To proxies, a negative use count would mean that there is no limit.
            Some((duration, uses)) => (duration.max(SignedDuration::ZERO), uses.max(0)),
            None => (DEFAULT_VALID_DURATION, DEFAULT_VALID_USE_COUNT),
        };
        let directive = direct_response(&self.status);
        CheckOutcome {
            status: self.status,
            public_message: self.public_message,
            valid_duration,
            valid_use_count,
            directive,
            allowed: self.allowed,
            refused_by: self.refused_by,
            depends_on_map,
            made_secrets: None,
        }
    }
}

/// Appends to a message of at most [`MAX_MESSAGE`] bytes, unless it `is_full`. What does not fit is left out as a whole, because a part of a secret
/// is not known to be one, and so is what follows; the message ends in `…` then.
fn append(message: &mut String, is_full: &mut bool, parts: &[&str]) {
    for part in parts {
        if *is_full {
            return;
        }
        if message.len() + part.len() > MAX_MESSAGE {
            message.push('…');
            *is_full = true;
        } else {
            message.push_str(part);
        }
    }
}

/// `istio.policy.v1beta1.DirectHttpResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct DirectHttpResponse {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    body: String,
    #[prost(btree_map = "string, string", tag = "3")]
    headers: std::collections::BTreeMap<String, String>,
}

/// The directive that a refusal carries in its details, if any.
fn direct_response(status: &Status) -> Option<RouteDirective> {
    let is_direct = |d: &&StatusDetail| d.type_url.ends_with("/istio.policy.v1beta1.DirectHttpResponse");
    let detail = status.details.iter().find(is_direct)?;
    let response = DirectHttpResponse::decode(detail.value.as_slice()).ok()?;
    // compat(1.3): a negative code is passed on as the unsigned number with the same bits.
    let code = match response.code {
        0 => http_status(status.code),
        code => code.cast_unsigned(),
    };
    let mut response_headers = Vec::new();
    for (name, value) in response.headers {
        if name.eq_ignore_ascii_case("set-cookie") {
            response_headers.extend(value.split(',').map(|part| HeaderChange {
                name: name.clone(),
                value: part.to_owned(),
                kind: HeaderOperationKind::Append,
            }));
        } else {
            response_headers.push(HeaderChange { name, value, kind: HeaderOperationKind::Replace });
        }
    }
    Some(RouteDirective {
        request_headers: Vec::new(),
        unset_request_headers: Vec::new(),
        response_headers,
        direct_response_code: code,
        direct_response_body: response.body,
    })
}

/// The HTTP status of an RPC code.
fn http_status(code: i32) -> u32 {
    match code {
        0 => 200,
        1 => 408,
        3 | 11 => 400,
        9 => 412,
        4 => 504,
        5 => 404,
        6 | 10 => 409,
        7 => 403,
        8 => 429,
        12 => 501,
        14 => 503,
        16 => 401,
        _ => 500,
    }
}

#[cfg(test)]
mod tests;
