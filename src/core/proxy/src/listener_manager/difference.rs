//! What an update of a listener changes.

use crate::bootstrap::{FilterChainConfig, Fingerprint, ListenerConfig};

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

/// What of a listener an update changes.
pub(super) fn compare(before: &ListenerConfig, after: &ListenerConfig) -> Difference {
    if before.address != after.address || before.is_udp() != after.is_udp() {
        return Difference::Address;
    }
    if before.written != after.written {
        return Difference::Fields;
    }
    if chains_written(before) != chains_written(after) {
        return Difference::Chains;
    }
    Difference::None
}

/// What was written of the filter chains, and of the default one.
fn chains_written(config: &ListenerConfig) -> (Vec<Fingerprint>, Option<Fingerprint>) {
    let written = |chain: &FilterChainConfig| chain.written;
    (config.chains.iter().map(written).collect(), config.default_chain.as_ref().map(written))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::{KnownClusters, read_listeners};

    fn listener(fields: &str) -> ListenerConfig {
        let text = format!(
            "resources:\n- '@type': type.googleapis.com/envoy.config.listener.v3.Listener\n  name: l\n{fields}"
        );
        let mut update = read_listeners(&text, "lds.yaml", &KnownClusters::default()).unwrap();
        update.listeners.remove(0).config.unwrap()
    }

    const ADDRESS: &str = "  address: {socket_address: {address: 127.0.0.1, port_value: 1}}\n";

    /// A filter chain that refuses requests without this token.
    fn chain(token: &str) -> String {
        let manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
        let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
        format!(
            "{{filters: [{{name: h, typed_config: {{'@type': {manager}, stat_prefix: p, http_filters: [{{name: r, typed_config: {{'@type': {router}}}}}], route_config: {{virtual_hosts: [{{name: v, domains: ['*'], routes: [{{match: {{prefix: /, headers: [{{name: x-token, string_match: {{exact: {token}}}}}]}}, direct_response: {{status: 200}}}}]}}]}}}}}}]}}"
        )
    }

    #[test]
    fn what_dumps_do_not_show_is_a_difference() {
        // As long as keys, and beginning as they do.
        let [one, other] = ["A", "B"].map(|letter| format!("MIIB{}", letter.repeat(70)));
        let with = |token: &str, fields: &str| {
            listener(&format!("{ADDRESS}  filter_chains: [{}]\n{fields}", chain(token)))
        };
        let (before, after) = (with(&one, ""), with(&other, ""));
        assert_eq!(before.document, after.document, "neither is shown");
        assert_eq!(compare(&before, &after), Difference::Chains);
        assert_eq!(compare(&before, &with(&one, "")), Difference::None);
        let default = |token: &str| listener(&format!("{ADDRESS}  default_filter_chain: {}\n", chain(token)));
        assert_eq!(compare(&default(&one), &default(&other)), Difference::Chains);
        assert_eq!(compare(&default(&one), &with(&one, "")), Difference::Chains);
        let [one, other] = [&one, &other].map(|prefix| with("t", &format!("  stat_prefix: {prefix}\n")));
        assert_eq!(compare(&one, &other), Difference::Fields);
    }

    #[test]
    fn the_same_may_be_written_otherwise() {
        let snake = listener(&format!("{ADDRESS}  filter_chains: [{}]\n", chain("t")));
        let camel =
            listener(&format!("  filterChains: [{}]\n  defaultFilterChain: null\n{ADDRESS}", chain("t")));
        assert_eq!(compare(&snake, &camel), Difference::None);
        let moved = listener(&format!(
            "{}  filter_chains: [{}]\n",
            ADDRESS.replace("value: 1", "value: 2"),
            chain("t")
        ));
        assert_eq!(compare(&snake, &moved), Difference::Address);
    }
}
