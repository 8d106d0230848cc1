//! Hostile callers and hostile configuration. Each attack runs against a server with an address space of 1 GB while a client beside it
//! makes calls that must all be answered right; memory must stay within a bound.
//!
//! `cargo test --test attacks` runs every attack for half a second and asserts answers and memory. Latencies are printed, not asserted:
//! `MIXER_ATTACK_SECONDS=5 cargo test --release --test attacks -- --nocapture` prints the figures.

#![cfg(test)]

#[path = "support/support.rs"]
mod support;

#[path = "attacks/bodies.rs"]
mod bodies;
#[path = "attacks/descriptors.rs"]
mod descriptors;
#[path = "attacks/files.rs"]
mod files;
#[path = "attacks/flow_control.rs"]
mod flow_control;
#[path = "attacks/labels.rs"]
mod labels;
#[path = "attacks/quotas.rs"]
mod quotas;
#[path = "attacks/records.rs"]
mod records;
#[path = "attacks/scene.rs"]
mod scene;
#[path = "attacks/wire.rs"]
mod wire;
