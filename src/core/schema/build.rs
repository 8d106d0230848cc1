//! Compiles the messages of `proto/` that resources have as bodies: their types, and descriptors of all of them.

use std::error::Error;
use std::path::PathBuf;

/// Messages with types in Rust: those that are checked.
const TYPED: &[&str] = &[
    "istio/authentication/v1alpha1/policy.proto",
    "istio/mesh/v1alpha1/config.proto",
    "istio/mixer/v1/config/client/api_spec.proto",
    "istio/mixer/v1/config/client/quota.proto",
    "istio/networking/v1alpha3/destination_rule.proto",
    "istio/networking/v1alpha3/envoy_filter.proto",
    "istio/networking/v1alpha3/gateway.proto",
    "istio/networking/v1alpha3/service_entry.proto",
    "istio/networking/v1alpha3/sidecar.proto",
    "istio/networking/v1alpha3/virtual_service.proto",
    "istio/rbac/v1alpha1/rbac.proto",
    "istio/security/v1beta1/authorization_policy.proto",
    "istio/security/v1beta1/peer_authentication.proto",
    "istio/security/v1beta1/request_authentication.proto",
];

/// Messages with descriptors only.
const DESCRIBED: &[&str] = &[
    "envoy/api/v2/cds.proto",
    "envoy/api/v2/lds.proto",
    "envoy/api/v2/rds.proto",
    "envoy/config/filter/network/http_connection_manager/v2/http_connection_manager.proto",
    "istio/policy/v1beta1/cfg.proto",
    "k8s.io/api/apps/v1/generated.proto",
    "k8s.io/api/core/v1/generated.proto",
    "k8s.io/api/extensions/v1beta1/generated.proto",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1/generated.proto",
];

/// The `.proto` files, at the top of the repository.
const PROTO_DIR: &str = "../../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO_DIR}");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut compiler = protox::Compiler::new([PROTO_DIR])?;
    compiler.include_imports(true).open_files(TYPED)?.open_files(DESCRIBED)?;
    std::fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    let typed = protox::compile(TYPED, [PROTO_DIR])?;
    prost_build::Config::new()
        .bytes(["."])
        .btree_map(["."])
        .include_file("messages.rs")
        .compile_fds(typed)?;
    Ok(())
}
