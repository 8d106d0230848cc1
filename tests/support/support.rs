//! What the integration tests share: servers and other programs as child processes, clients, and waiting for conditions.

#![allow(
    clippy::allow_attributes,
    dead_code,
    unused_imports,
    reason = "each test binary uses its part of the support"
)]

mod arrival;
pub(crate) mod bag;
pub(crate) mod browser;
pub(crate) mod cloud;
mod collector;
pub(crate) mod cores;
pub(crate) mod denier;
pub(crate) mod docs;
pub(crate) mod envoy;
pub(crate) mod galley;
pub(crate) mod good_client;
mod http;
pub(crate) mod http2;
pub(crate) mod kube_api;
pub(crate) mod lost_time;
pub(crate) mod mcp_source;
pub(crate) mod msgpack;
pub(crate) mod policy;
mod ports;
mod process;
pub(crate) mod prometheus;
pub(crate) mod reader;
pub(crate) mod rpc;
pub(crate) mod sending;
mod server;
pub(crate) mod tasks;
mod wait;
pub(crate) mod wire;
pub(crate) mod zookeeper;

pub(crate) use self::collector::{Collector, rotel};
pub(crate) use self::http::{HttpAnswer, http, http_with};
pub(crate) use process::{Finished, Process, fatal, node_modules, programs, put, python, run, run_mixer};
pub(crate) use server::{Holdings, Ports, Server, ServerBuilder, sample_configuration, sum_of_samples};
pub(crate) use wait::{DEADLINE, POLL_INTERVAL, eventually, free_port, is_listening, wait_for};
