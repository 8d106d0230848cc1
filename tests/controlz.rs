//! ControlZ of a running server, in a browser and over plain HTTP.
//!
//! `UPDATE_SCREENSHOTS=1 cargo test --test controlz` writes the pictures in docs/img/.

#![cfg(test)]

#[path = "support/support.rs"]
mod support;

#[path = "controlz/access.rs"]
mod access;
#[path = "controlz/endpoints.rs"]
mod endpoints;
#[path = "controlz/envoy.rs"]
mod envoy;
#[path = "controlz/explain.rs"]
mod explain;
#[cfg(not(feature = "profiling"))]
#[path = "controlz/no_profiler.rs"]
mod no_profiler;
#[path = "controlz/numbers.rs"]
mod numbers;
#[path = "controlz/pages.rs"]
mod pages;
#[cfg(feature = "profiling")]
#[path = "controlz/profiles.rs"]
mod profiles;
#[path = "controlz/quotas.rs"]
mod quotas;
#[path = "controlz/stage.rs"]
mod stage;
