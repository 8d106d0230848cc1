//! Links the binary with packed relocations where the system loads them.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if loads_packed_relocations() {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the target supports packed relocations; the loader reads all of the plain table, which takes 0.8 MB of memory. They need
/// glibc 2.36, and the linker that Rust uses on x86-64. Only a native build can check that.
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
