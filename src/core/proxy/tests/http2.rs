//! HTTP/2 of clients and of hosts: requests beside each other, limits, and peers that break the rules.

#![cfg(test)]

#[path = "support/http2.rs"]
mod client;
#[path = "support/http2_host.rs"]
mod host;
#[path = "http2/hostile.rs"]
mod hostile;
#[path = "http2/mixer.rs"]
mod mixer;
#[path = "support/peers.rs"]
mod peers;
#[path = "http2/policy.rs"]
mod policy;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "http2/raw.rs"]
mod raw;
#[path = "http2/requests.rs"]
mod requests;
#[path = "http2/scene.rs"]
mod scene;
#[path = "http2/smuggling.rs"]
mod smuggling;
#[path = "http2/upstream.rs"]
mod upstream;
