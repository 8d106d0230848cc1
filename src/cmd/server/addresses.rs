//! Addresses of settings in texts that are shown: without users, passwords and parameters.

use mixer_base::secrets::{mask_address, mask_text};
use mixer_server::ServerOptions;

/// A text without what is secret in the addresses of the settings, however the text came to have them.
pub(crate) fn without_secrets(text: &str, options: &ServerOptions) -> String {
    let tracing = &options.tracing;
    let mut secret: Vec<(&str, String)> = [
        &options.address,
        &options.monitoring_address,
        &options.metrics_address,
        &options.introspection.address,
        &options.envoy_http_address,
        &options.envoy_ratelimit_http_address,
        &options.config_store_url,
        &tracing.zipkin_url,
        &tracing.jaeger_url,
        &tracing.otlp_url,
    ]
    .into_iter()
    .filter_map(|address| {
        let shown = mask_address(address);
        (shown != address.as_str()).then(|| (address.as_str(), shown.into_owned()))
    })
    .collect();
    // One may be a part of another.
    secret.sort_by_key(|(address, _)| std::cmp::Reverse(address.len()));
    let mut shown = text.to_owned();
    for (address, masked) in secret {
        shown = shown.replace(address, &masked);
        // Without its scheme, as listeners name it.
        if let (Some((_, place)), Some((_, masked))) = (address.split_once("://"), masked.split_once("://")) {
            shown = shown.replace(place, masked);
        }
    }
    mask_text(&shown).into_owned()
}
