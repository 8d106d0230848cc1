//! The messages of the modern kinds.

use std::collections::BTreeMap;

use mixer_attribute::{SignedDuration, ValueType};
use mixer_config::message::{DecodeContext, Field, find_field, json_kind};
use mixer_config::{Node, NodeKind};

mixer_config::message! {
    /// An attribute of a manifest.
    pub struct AttributeInfo: "istio.policy.v1beta1.AttributeManifest.AttributeInfo" {
        /// Not used.
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
        /// Declarations by attribute name.
        3 attributes: BTreeMap<String, AttributeInfo> = BTreeMap::new();
    }
}

mixer_config::message! {
    /// An action of a rule.
    pub struct Action: "istio.policy.v1beta1.Action" {
        /// Reference to a handler.
        2 handler: String = String::new();
        /// References to instances.
        3 instances: Vec<String> = Vec::new();
        /// Name by which header operations refer to its output.
        4 name: String = String::new();
    } elsewhere {
        "match" => "a condition is that of a whole rule: write it beside `actions`, and a rule for each condition",
        "requestHeaderOperations" => "it belongs to the rule: indent it less, beside `actions`",
        "responseHeaderOperations" => "it belongs to the rule: indent it less, beside `actions`",
        "instance" => "did you mean `instances`? It is a list: `instances: [NAME]`",
    }
}

mixer_config::message_enum! {
    /// The kind of a header operation.
    pub enum HeaderOperation: "istio.policy.v1beta1.Rule.HeaderOperationTemplate.Operation" {
        /// Sets the header.
        0 "REPLACE" Replace;
        /// Removes the header.
        1 "REMOVE" Remove;
        /// Appends a value.
        2 "APPEND" Append;
    }
}

mixer_config::message! {
    /// An operation on a header of the request or response.
    pub struct HeaderOperationTemplate: "istio.policy.v1beta1.Rule.HeaderOperationTemplate" {
        /// Header name.
        1 name: String = String::new();
        /// Expressions.
        2 values: Vec<String> = Vec::new();
        /// The kind of the operation.
        3 operation: HeaderOperation = HeaderOperation::Replace;
    }
}

mixer_config::message_enum! {
    /// The denominator of a fraction.
    pub enum Denominator: "istio.policy.v1beta1.FractionalPercent.DenominatorType" {
        /// Percent.
        0 "HUNDRED" Hundred;
        /// Hundredths of a percent.
        1 "TEN_THOUSAND" TenThousand;
    }
}

mixer_config::message! {
    /// A fraction.
    pub struct FractionalPercent: "istio.policy.v1beta1.FractionalPercent" {
        /// The numerator.
        1 numerator: u32 = 0;
        /// The denominator.
        2 denominator: Denominator = Denominator::Hundred;
    }
}

mixer_config::message! {
    /// Random sampling; accepted, not used.
    pub struct RandomSampling: "istio.policy.v1beta1.RandomSampling" {
        /// An expression.
        1 attribute_expression: String = String::new();
        /// The sampled fraction.
        2 percent_sampled: Option<FractionalPercent> = None;
        /// Whether to sample independently of the request ID.
        3 use_independent_randomness: bool = false;
    }
}

mixer_config::message! {
    /// Rate-based sampling; accepted, not used.
    pub struct RateLimitSampling: "istio.policy.v1beta1.RateLimitSampling" {
        /// The window.
        1 sampling_duration: SignedDuration = SignedDuration::ZERO;
        /// Number of entries per window before sampling starts.
        2 max_unsampled_entries: i64 = 0;
        /// One entry in this many is sampled.
        3 sampling_rate: i64 = 0;
    }
}

mixer_config::message! {
    /// Sampling; accepted, not used.
    pub struct Sampling: "istio.policy.v1beta1.Sampling" {
        /// Random.
        1 random: Option<RandomSampling> = None;
        /// Rate-based.
        2 rate_limit: Option<RateLimitSampling> = None;
    }
}

mixer_config::message! {
    /// A rule.
    pub struct Rule: "istio.policy.v1beta1.Rule" {
        /// The condition.
        1 condition as "match": String = String::new();
        /// The actions.
        2 actions: Vec<Action> = Vec::new();
        /// Operations on request headers.
        3 request_header_operations: Vec<HeaderOperationTemplate> = Vec::new();
        /// Operations on response headers.
        4 response_header_operations: Vec<HeaderOperationTemplate> = Vec::new();
        /// Accepted, not used.
        5 sampling: Option<Sampling> = None;
    } elsewhere {
        "when" => "did you mean `match`?",
        "if" => "did you mean `match`?",
        "condition" => "did you mean `match`?",
        "handler" => "it is a field of an action: `actions: [{handler: NAME, instances: [NAME]}]`",
        "instances" => "it is a field of an action: `actions: [{handler: NAME, instances: [NAME]}]`",
    }
}

mixer_config::message! {
    /// OAuth client credentials.
    pub struct OAuth: "istio.policy.v1beta1.OAuth" {
        /// The client ID.
        1 client_id: String = String::new();
        /// Path of the client secret.
        2 client_secret: String = String::new();
        /// URL of the token endpoint.
        3 token_url: String = String::new();
        /// Requested scopes.
        4 scopes: Vec<String> = Vec::new();
        /// Additional parameters of the token request.
        5 endpoint_params: BTreeMap<String, String> = BTreeMap::new();
    }
}

mixer_config::message_enum! {
    /// Format of the authorization header.
    pub enum AuthHeader: "istio.policy.v1beta1.Tls.AuthHeader" {
        /// The bare token.
        0 "PLAIN" Plain;
        /// A bearer token.
        1 "BEARER" Bearer;
    }
}

mixer_config::message! {
    /// TLS with token authentication.
    pub struct Tls: "istio.policy.v1beta1.Tls" {
        /// Path of a CA bundle.
        1 ca_certificates: String = String::new();
        /// Path of a token file.
        2 token_path: Option<String> = None;
        /// OAuth client that fetches the token.
        3 oauth: Option<OAuth> = None;
        /// Format of the authorization header.
        4 auth_header: Option<AuthHeader> = None;
        /// Name of the header that carries the token.
        5 custom_header: Option<String> = None;
        /// Expected name in the server certificate.
        6 server_name: String = String::new();
    }
}

mixer_config::message! {
    /// Mutual TLS.
    pub struct Mutual: "istio.policy.v1beta1.Mutual" {
        /// Path of the private key.
        1 private_key: String = String::new();
        /// Path of the client certificate.
        2 client_certificate: String = String::new();
        /// Path of a CA bundle.
        3 ca_certificates: String = String::new();
        /// Expected name in the server certificate.
        4 server_name: String = String::new();
    }
}

mixer_config::message! {
    /// Client authentication.
    pub struct Authentication: "istio.policy.v1beta1.Authentication" {
        /// TLS with a token.
        1 tls: Option<Tls> = None;
        /// Mutual TLS.
        2 mutual: Option<Mutual> = None;
    }
}

mixer_config::message! {
    /// Connection to an out-of-process adapter.
    pub struct Connection: "istio.policy.v1beta1.Connection" {
        /// Address of the adapter.
        2 address: String = String::new();
        /// Timeout of a call.
        3 timeout: Option<SignedDuration> = None;
        /// Client authentication.
        4 authentication: Option<Authentication> = None;
    }
}

mixer_config::message! {
    /// A configured adapter.
    pub struct Handler: "istio.policy.v1beta1.Handler" {
        /// Not used.
        1 name: String = String::new();
        /// Name of an out-of-process adapter.
        2 adapter: String = String::new();
        /// Whether it has parameters. They may be large, and are decoded where they are.
        3 params: Option<Present> = None;
        /// Connection to the out-of-process adapter.
        4 connection: Option<Connection> = None;
        /// Name of a built-in adapter.
        67794676 compiled_adapter: String = String::new();
    }
}

mixer_config::message! {
    /// An instance: a template with expressions.
    pub struct Instance: "istio.policy.v1beta1.Instance" {
        /// Not used.
        1 name: String = String::new();
        /// Name of an out-of-process template.
        2 template: String = String::new();
        /// Expressions.
        3 params: Option<Struct> = None;
        /// Attributes set from outputs.
        4 attribute_bindings: BTreeMap<String, String> = BTreeMap::new();
        /// Name of a built-in template.
        67794676 compiled_template: String = String::new();
    }
}

mixer_config::message! {
    /// An out-of-process template.
    pub struct Template: "istio.mixer.adapter.model.v1beta1.Template" {
        /// A base64-encoded descriptor set.
        1 descriptor: String = String::new();
    }
}

mixer_config::message! {
    /// An out-of-process adapter.
    pub struct Info: "istio.mixer.adapter.model.v1beta1.Info" {
        /// Its name.
        1 name: String = String::new();
        /// Description.
        2 description: String = String::new();
        /// References to templates.
        3 templates: Vec<String> = Vec::new();
        /// A base64-encoded descriptor set.
        4 config: String = String::new();
        /// Whether it is session-based.
        5 session_based: bool = false;
    }
}

/// A `google.protobuf.Struct`: an undecoded mapping.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Struct(pub Node);

impl Field for Struct {
    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        if is_struct(node, context) {
            self.0.clone_from(node);
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.0.to_json()
    }
}

/// Whether a node is a mapping; adds an error unless it is.
fn is_struct(node: &Node, context: &mut DecodeContext) -> bool {
    let is_mapping = matches!(node.kind, NodeKind::Mapping(_));
    if !is_mapping {
        let text = format!(
            "bad StructValue: json: cannot unmarshal {} into Go value of type map[string]json.RawMessage",
            json_kind(node)
        );
        context.error_with_hint(node, text, Some("a mapping is expected here".to_owned()));
    }
    is_mapping
}

/// A `google.protobuf.Struct` that stays in its document.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Present;

impl Field for Present {
    fn merge(&mut self, node: &Node, context: &mut DecodeContext) {
        is_struct(node, context);
    }

    fn to_json(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

impl Handler {
    /// The parameters, in the `spec` from which the handler was decoded.
    pub fn params_in<'n>(&self, spec: Option<&'n Node>) -> Option<&'n Node> {
        self.params.as_ref()?;
        find_field(spec?, "params")
    }
}
