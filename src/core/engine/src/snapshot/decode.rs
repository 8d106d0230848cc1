//! The messages of the modern kinds. Spec: runtime.md 1.2.

use std::collections::BTreeMap;

use mixer_attribute::{SignedDuration, ValueType};
use mixer_config::message::{DecodeContext, Field, json_kind};
use mixer_config::{Node, NodeKind};

mixer_config::message! {
    /// An attribute of a manifest.
    pub struct AttributeInfo: "istio.policy.v1beta1.AttributeManifest.AttributeInfo" {
        /// For people.
        1 description: String = String::new();
        /// Its type.
        2 value_type: ValueType = ValueType::Unspecified;
    }
}

mixer_config::message! {
    /// Declares attributes.
    pub struct AttributeManifest: "istio.policy.v1beta1.AttributeManifest" {
        /// Not used.
        1 revision: String = String::new();
        /// Not used.
        2 name: String = String::new();
        /// By attribute name.
        3 attributes: BTreeMap<String, AttributeInfo> = BTreeMap::new();
    }
}

mixer_config::message! {
    /// What to do when a rule applies.
    pub struct Action: "istio.policy.v1beta1.Action" {
        /// Reference to a handler.
        2 handler: String = String::new();
        /// References to instances.
        3 instances: Vec<String> = Vec::new();
        /// For header operations that use its output.
        4 name: String = String::new();
    }
}

mixer_config::message_enum! {
    /// What a header operation does.
    pub enum HeaderOperation: "istio.policy.v1beta1.Rule.HeaderOperationTemplate.Operation" {
        /// Sets the header.
        0 "REPLACE" Replace;
        /// Removes the header.
        1 "REMOVE" Remove;
        /// Adds a value.
        2 "APPEND" Append;
    }
}

mixer_config::message! {
    /// A change to the headers of a request or response.
    pub struct HeaderOperationTemplate: "istio.policy.v1beta1.Rule.HeaderOperationTemplate" {
        /// The header.
        1 name: String = String::new();
        /// Expressions.
        2 values: Vec<String> = Vec::new();
        /// What to do with them.
        3 operation: HeaderOperation = HeaderOperation::Replace;
    }
}

mixer_config::message_enum! {
    /// Out of how many.
    pub enum Denominator: "istio.policy.v1beta1.FractionalPercent.DenominatorType" {
        /// Percent.
        0 "HUNDRED" Hundred;
        /// Hundredths of a percent.
        1 "TEN_THOUSAND" TenThousand;
    }
}

mixer_config::message! {
    /// A share.
    pub struct FractionalPercent: "istio.policy.v1beta1.FractionalPercent" {
        /// How many.
        1 numerator: u32 = 0;
        /// Out of how many.
        2 denominator: Denominator = Denominator::Hundred;
    }
}

mixer_config::message! {
    /// Sampling by chance; accepted, not used.
    pub struct RandomSampling: "istio.policy.v1beta1.RandomSampling" {
        /// An expression.
        1 attribute_expression: String = String::new();
        /// How much is kept.
        2 percent_sampled: Option<FractionalPercent> = None;
        /// Whether the chance is thrown anew.
        3 use_independent_randomness: bool = false;
    }
}

mixer_config::message! {
    /// Sampling by rate; accepted, not used.
    pub struct RateLimitSampling: "istio.policy.v1beta1.RateLimitSampling" {
        /// The window.
        1 sampling_duration: SignedDuration = SignedDuration::ZERO;
        /// From how many on.
        2 max_unsampled_entries: i64 = 0;
        /// One out of how many.
        3 sampling_rate: i64 = 0;
    }
}

mixer_config::message! {
    /// Sampling; accepted, not used.
    pub struct Sampling: "istio.policy.v1beta1.Sampling" {
        /// By chance.
        1 random: Option<RandomSampling> = None;
        /// By rate.
        2 rate_limit: Option<RateLimitSampling> = None;
    }
}

mixer_config::message! {
    /// A rule.
    pub struct Rule: "istio.policy.v1beta1.Rule" {
        /// The condition.
        1 condition as "match": String = String::new();
        /// What to do.
        2 actions: Vec<Action> = Vec::new();
        /// Changes to the request.
        3 request_header_operations: Vec<HeaderOperationTemplate> = Vec::new();
        /// Changes to the response.
        4 response_header_operations: Vec<HeaderOperationTemplate> = Vec::new();
        /// Accepted, not used.
        5 sampling: Option<Sampling> = None;
    }
}

mixer_config::message! {
    /// OAuth client credentials.
    pub struct OAuth: "istio.policy.v1beta1.OAuth" {
        /// The client.
        1 client_id: String = String::new();
        /// Path of the file with its secret.
        2 client_secret: String = String::new();
        /// Where tokens come from.
        3 token_url: String = String::new();
        /// What for.
        4 scopes: Vec<String> = Vec::new();
        /// More parameters.
        5 endpoint_params: BTreeMap<String, String> = BTreeMap::new();
    }
}

mixer_config::message_enum! {
    /// How a token is sent.
    pub enum AuthHeader: "istio.policy.v1beta1.Tls.AuthHeader" {
        /// As it is.
        0 "PLAIN" Plain;
        /// As a bearer token.
        1 "BEARER" Bearer;
    }
}

mixer_config::message! {
    /// TLS with a token.
    pub struct Tls: "istio.policy.v1beta1.Tls" {
        /// Path of a bundle.
        1 ca_certificates: String = String::new();
        /// Path of a token.
        2 token_path: Option<String> = None;
        /// Where a token comes from.
        3 oauth: Option<OAuth> = None;
        /// How the token is sent.
        4 auth_header: Option<AuthHeader> = None;
        /// In which header it is sent.
        5 custom_header: Option<String> = None;
        /// Name in the certificate.
        6 server_name: String = String::new();
    }
}

mixer_config::message! {
    /// Mutual TLS.
    pub struct Mutual: "istio.policy.v1beta1.Mutual" {
        /// Path of a key.
        1 private_key: String = String::new();
        /// Path of a certificate.
        2 client_certificate: String = String::new();
        /// Path of a bundle.
        3 ca_certificates: String = String::new();
        /// Name in the certificate.
        4 server_name: String = String::new();
    }
}

mixer_config::message! {
    /// How to prove who we are.
    pub struct Authentication: "istio.policy.v1beta1.Authentication" {
        /// With a token.
        1 tls: Option<Tls> = None;
        /// With a certificate.
        2 mutual: Option<Mutual> = None;
    }
}

mixer_config::message! {
    /// How to reach an adapter out of process.
    pub struct Connection: "istio.policy.v1beta1.Connection" {
        /// Where.
        2 address: String = String::new();
        /// Longest call.
        3 timeout: Option<SignedDuration> = None;
        /// How to prove who we are.
        4 authentication: Option<Authentication> = None;
    }
}

mixer_config::message! {
    /// A configured adapter.
    pub struct Handler: "istio.policy.v1beta1.Handler" {
        /// Not used.
        1 name: String = String::new();
        /// An adapter out of process.
        2 adapter: String = String::new();
        /// Parameters.
        3 params: Option<Struct> = None;
        /// How to reach it.
        4 connection: Option<Connection> = None;
        /// A built-in adapter.
        67794676 compiled_adapter: String = String::new();
    }
}

mixer_config::message! {
    /// A template filled with expressions.
    pub struct Instance: "istio.policy.v1beta1.Instance" {
        /// Not used.
        1 name: String = String::new();
        /// A template out of process.
        2 template: String = String::new();
        /// Expressions.
        3 params: Option<Struct> = None;
        /// Attributes from outputs.
        4 attribute_bindings: BTreeMap<String, String> = BTreeMap::new();
        /// A built-in template.
        67794676 compiled_template: String = String::new();
    }
}

mixer_config::message! {
    /// A template out of process.
    pub struct Template: "istio.mixer.adapter.model.v1beta1.Template" {
        /// A descriptor set in base64.
        1 descriptor: String = String::new();
    }
}

mixer_config::message! {
    /// An adapter out of process.
    pub struct Info: "istio.mixer.adapter.model.v1beta1.Info" {
        /// Its name.
        1 name: String = String::new();
        /// For people.
        2 description: String = String::new();
        /// References to templates.
        3 templates: Vec<String> = Vec::new();
        /// A descriptor set in base64.
        4 config: String = String::new();
        /// Whether it keeps sessions.
        5 session_based: bool = false;
    }
}

/// A `google.protobuf.Struct`: any mapping, as it was written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Struct(pub Node);

impl Field for Struct {
    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        if matches!(node.kind, NodeKind::Mapping(_)) {
            self.0.clone_from(node);
        } else {
            let text = format!(
                "bad StructValue: json: cannot unmarshal {} into Go value of type map[string]json.RawMessage",
                json_kind(node)
            );
            context.error_with_hint(node, text, Some("a mapping is expected here".to_owned()));
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.0.to_json()
    }
}
