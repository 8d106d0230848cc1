//! Compiles the messages of the protocol with a compiler written in Rust, so that the build needs no protoc.

use std::error::Error;

/// The `.proto` files, at the top of the repository.
const PROTO_DIR: &str = "../../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO_DIR}/istio/mcp");
    println!("cargo:rerun-if-changed={PROTO_DIR}/google/rpc/status.proto");
    let descriptors = protox::compile(["istio/mcp/v1alpha1/mcp.proto"], [PROTO_DIR])?;
    // Bodies are slices of the message that they came with; services are served and called without generated code, because their messages
    // are encoded once for all streams.
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .compile_well_known_types(true)
        .build_client(false)
        .build_server(false)
        .include_file("messages.rs")
        .compile_fds(descriptors)?;
    Ok(())
}
