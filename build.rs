//! Compiles the wire contracts in `proto/` with a compiler written in Rust, so that a bare machine needs only cargo.

use std::error::Error;

const PROTOS: &[&str] = &["istio/mixer/v1/mixer.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(PROTOS, ["proto"])?;
    tonic_prost_build::configure().bytes(".").btree_map(".").compile_fds(descriptors)?;
    Ok(())
}
