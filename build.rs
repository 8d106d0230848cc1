//! Links the binary with packed relocations where the system loads them, and stamps release builds with the commit that is checked out.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // A build of a developer would be made again for every commit.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && let Some((revision, status)) = checked_out()
    {
        println!("cargo:rustc-env=MIXER_CHECKOUT_REVISION={revision}");
        println!("cargo:rustc-env=MIXER_CHECKOUT_STATUS={status}");
    }
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

/// The commit that is checked out, and whether tracked files differ from it; `None` without a repository of this package.
fn checked_out() -> Option<(String, &'static str)> {
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // Of a package in a repository of something else nothing is known.
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let revision = git(&["rev-parse", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    // The log of HEAD has a line for every commit that was checked out.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", file]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    Some((revision, if changes.is_empty() { "Clean" } else { "Modified" }))
}
