//! Compiles `proto/` with a compiler written in Rust, so that the build needs no protoc.

use std::error::Error;
use std::path::Path;

const PROTOS: &[&str] = &[
    "envoy/service/accesslog/v3/als.proto",
    "envoy/service/auth/v3/external_auth.proto",
    "envoy/service/ratelimit/v3/rls.proto",
    "istio/mixer/v1/mixer.proto",
    "istio/mixer/adapter/model/v1beta1/adapter.proto",
    "istio/policy/v1beta1/value.proto",
    "istio/template/checknothing.proto",
    "istio/template/metric.proto",
    "istio/template/quota.proto",
    "istio/template/reportnothing.proto",
];

/// The `.proto` files, at the top of the repository.
const PROTO_DIR: &str = "../../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO_DIR}");
    let descriptors = protox::compile(PROTOS, [PROTO_DIR])?;
    // For server reflection.
    let encoded = protox::prost::Message::encode_to_vec(&descriptors);
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("descriptors.bin"), encoded)?;
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .include_file("wire.rs")
        .compile_fds(descriptors)?;
    Ok(())
}
