//! Compiles the wire contracts in `proto/` with a compiler written in Rust, so that a bare machine needs only cargo, and
//! gathers the sample configuration that the binary carries.

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

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rustc-env=MIXER_BUILD_TOOLCHAIN={}", toolchain());
    if loads_packed_relocations() {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    let descriptors = protox::compile(PROTOS, ["proto"])?;
    // For reflection, so that generic clients can be pointed at a server.
    let encoded = protox::prost::Message::encode_to_vec(&descriptors);
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("descriptors.bin"), encoded)?;
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .include_file("wire.rs")
        .compile_fds(descriptors)?;
    embed_sample()
}

/// Whether the program will run where packed relocations are understood: the table of plain ones takes 0.8 MB of memory, all of which
/// the loader reads. They came with glibc 2.36; Rust links for x86-64 with a linker that makes them. Only a build for the machine
/// that it runs on can know.
fn loads_packed_relocations() -> bool {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    if variable("TARGET") != variable("HOST") || variable("TARGET") != "x86_64-unknown-linux-gnu" {
        return false;
    }
    let Ok(said) = std::process::Command::new("ldd").arg("--version").output() else { return false };
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = said.lines().next().and_then(|line| line.split_whitespace().last()).and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    version.is_some_and(|version| version >= (2, 36))
}

/// Writes `sample.rs`: name and text of every file below testdata/config, in path order.
fn embed_sample() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=testdata/config");
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("testdata/config");
    let mut files = Vec::new();
    gather(&root, &mut files)?;
    files.sort();
    let mut code = "&[\n".to_owned();
    for file in files {
        let name = file.strip_prefix(&root)?;
        code.push_str(&format!("    ({:?}, include_str!({:?})),\n", name.to_string_lossy(), file));
    }
    code.push_str("]\n");
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("sample.rs"), code)?;
    Ok(())
}

fn gather(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    if !directory.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            files.push(path);
        }
    }
    Ok(())
}

/// Name and version of the compiler, for example `rustc 1.95.0`.
fn toolchain() -> String {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = std::process::Command::new(compiler).arg("--version").output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    if words.is_empty() { "unknown".to_owned() } else { words.join(" ") }
}
