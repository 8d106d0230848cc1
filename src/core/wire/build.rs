//! Compiles `proto/` with a compiler written in Rust, so that the build needs no protoc.

use std::error::Error;
use std::path::{Path, PathBuf};

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

/// The templates, which have descriptors also if they have no code.
const TEMPLATES: &[&str] = &[
    "istio/template/apikey.proto",
    "istio/template/authorization.proto",
    "istio/template/checknothing.proto",
    "istio/template/edge.proto",
    "istio/template/kubernetes.proto",
    "istio/template/listentry.proto",
    "istio/template/logentry.proto",
    "istio/template/metric.proto",
    "istio/template/quota.proto",
    "istio/template/reportnothing.proto",
    "istio/template/servicecontrolreport.proto",
    "istio/template/tracespan.proto",
];

/// The `.proto` files, at the top of the repository.
const PROTO_DIR: &str = "../../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO_DIR}");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let descriptors = protox::compile(PROTOS, [PROTO_DIR])?;
    // For server reflection.
    let encoded = protox::prost::Message::encode_to_vec(&descriptors);
    std::fs::write(out.join("descriptors.bin"), encoded)?;
    templates(&out)?;
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .include_file("wire.rs")
        .compile_fds(descriptors)?;
    Ok(())
}

/// Writes the descriptors of the templates, with their options.
fn templates(out: &Path) -> Result<(), Box<dyn Error>> {
    let mut compiler = protox::Compiler::new([PROTO_DIR])?;
    compiler.include_imports(true).open_files(TEMPLATES)?;
    std::fs::write(out.join("templates.bin"), compiler.encode_file_descriptor_set())?;
    Ok(())
}
