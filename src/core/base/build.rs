//! Stamps the build with the compiler version.

fn main() {
    println!("cargo:rustc-env=MIXER_BUILD_TOOLCHAIN={}", toolchain());
}

/// Name and version of the compiler, for example `rustc 1.95.0`.
fn toolchain() -> String {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = std::process::Command::new(compiler).arg("--version").output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    if words.is_empty() { "unknown".to_owned() } else { words.join(" ") }
}
