//! Fuzz targets. Each takes bytes and panics when a property does not hold.
//!
//! `fuzz/run` drives them with libFuzzer; `cargo test -p mixer-fuzz` replays the seeds. See docs/testing.md.

mod attribute;
mod envoy;
mod expr;
mod hpack;
mod http2;
mod input;
mod names;
mod regex;
mod yaml;

/// A target: takes the bytes of one execution and panics when the property does not hold.
pub type Target = fn(&[u8]);

/// Every target with its name, which is also the name of its directory of seeds.
pub const TARGETS: [(&str, Target); 8] = [
    ("attribute", attribute::run),
    ("envoy", envoy::run),
    ("expr", expr::run),
    ("hpack", hpack::run),
    ("http2", http2::run),
    ("names", names::run),
    ("regex", regex::run),
    ("yaml", yaml::run),
];

/// The target of this name.
pub fn target(name: &str) -> Option<fn(&[u8])> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
