//! What of a request decides to which host it goes.

use super::reader::{Fields, Message};

static POLICY: Message = Message { name: "HashPolicy", unsupported: &["filter_state"] };
static HEADER: Message = Message { name: "Header", unsupported: &["regex_rewrite"] };
static COOKIE: Message = Message { name: "Cookie", unsupported: &["ttl", "path", "attributes"] };
static CONNECTION: Message = Message { name: "ConnectionProperties", unsupported: &[] };
static QUERY: Message = Message { name: "QueryParameter", unsupported: &[] };

/// What is hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashPolicy {
    /// A header, in lower case.
    Header(String),
    /// A cookie.
    Cookie(String),
    /// The address of the client.
    SourceAddress,
    /// A parameter of the query.
    Query(String),
}

/// Reads the field `hash_policy`: policies, each with whether it is the last if it finds something.
pub(super) fn read(holder: &Fields<'_>) -> Vec<(HashPolicy, bool)> {
    let mut found = Vec::new();
    for item in holder.items("hash_policy") {
        let Some(policy) = item.message(&POLICY) else { continue };
        let named = |value: &super::reader::Value<'_>, message: &'static Message, field: &str, kind: &str| {
            let fields = value.message(message)?;
            let name = fields.text(field).filter(|name| !name.is_empty()).map(str::to_owned);
            if name.is_none() {
                fields.required(format!(
                    "{kind}ValidationError.{field}: value length must be at least 1 characters"
                ));
            }
            fields.finish();
            name
        };
        let read = match policy.one_of(&["header", "cookie", "connection_properties", "query_parameter"]) {
            Some(("header", value)) => named(&value, &HEADER, "header_name", "Header")
                .map(|name| HashPolicy::Header(name.to_ascii_lowercase())),
            Some(("cookie", value)) => named(&value, &COOKIE, "name", "Cookie").map(HashPolicy::Cookie),
            Some(("query_parameter", value)) => {
                named(&value, &QUERY, "name", "QueryParameter").map(HashPolicy::Query)
            }
            Some((_, value)) => value.message(&CONNECTION).and_then(|connection| {
                let is_source = connection.boolean("source_ip");
                connection.finish();
                is_source.then_some(HashPolicy::SourceAddress)
            }),
            None => {
                if policy.value.node.get("filter_state").is_none() {
                    policy.required(
                        "HashPolicyValidationError: field: \"policy_specifier\", reason: is required",
                    );
                }
                None
            }
        };
        let is_terminal = policy.boolean("terminal");
        policy.finish();
        found.extend(read.map(|policy| (policy, is_terminal)));
    }
    found
}
