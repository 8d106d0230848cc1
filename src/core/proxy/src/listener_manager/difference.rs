//! What an update of a listener changes.

use serde_json::Value;

use crate::bootstrap::ListenerConfig;

/// What an update changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    /// Nothing.
    None,
    /// There is no listener of this name.
    New,
    /// Filter chains only.
    Chains,
    /// More, but the address is the same.
    Fields,
    /// The address.
    Address,
}

/// Names of the fields of filter chains: as they are written in YAML, and in JSON.
const CHAINS: [&str; 2] = ["filter_chains", "filterChains"];
const DEFAULT: [&str; 2] = ["default_filter_chain", "defaultFilterChain"];

/// What of a listener an update changes.
pub(super) fn compare(before: &ListenerConfig, after: &ListenerConfig) -> Difference {
    if before.document == after.document {
        return Difference::None;
    }
    if before.address != after.address || before.is_udp() != after.is_udp() {
        return Difference::Address;
    }
    if !after.is_udp() && without_chains(&before.document) == without_chains(&after.document) {
        return Difference::Chains;
    }
    Difference::Fields
}

fn without_chains(document: &Value) -> Value {
    let mut document = document.clone();
    if let Some(fields) = document.as_object_mut() {
        fields.retain(|name, _| !CHAINS.contains(&name.as_str()) && !DEFAULT.contains(&name.as_str()));
    }
    document
}

/// The documents of the filter chains, the default one last.
pub(super) fn chain_documents(document: &Value) -> Vec<&Value> {
    let field = |names: [&str; 2]| names.into_iter().find_map(|name| document.get(name));
    let chains = field(CHAINS).and_then(Value::as_array);
    let default = field(DEFAULT).filter(|chain| !chain.is_null());
    chains.into_iter().flatten().chain(default).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn chains_are_found_however_they_are_written() {
        let snake = json!({"name": "l", "filter_chains": [1, 2], "default_filter_chain": 3});
        let camel = json!({"name": "l", "filterChains": [1, 2], "defaultFilterChain": 3});
        for document in [&snake, &camel] {
            assert_eq!(chain_documents(document), [&json!(1), &json!(2), &json!(3)]);
            assert_eq!(without_chains(document), json!({"name": "l"}));
        }
        assert_eq!(chain_documents(&json!({"default_filter_chain": null})), Vec::<&Value>::new());
    }
}
