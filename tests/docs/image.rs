//! What the image would hold, in a root file system with nothing else, read-only, as user 65532.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::packages::{image_command, instruction, last_stage};
use crate::repository;
use crate::support::{DEADLINE, Ports, Process, http, is_listening, run_mixer, wait_for};

/// What images `distroless/cc` have of shared libraries.
const BASE: [&str; 7] = [
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
];

/// The libraries of a program, by the paths where it looks for them.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().expect("ldd");
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().expect("a parent")).expect("it is writable");
    // The program is large; a link is as good, where it is possible.
    if std::fs::hard_link(from, to).is_err() {
        std::fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    }
}

/// Does the steps of the last stage of the Dockerfile in a directory.
fn build(root: &Path) {
    let program = Path::new(env!("CARGO_BIN_EXE_mixer"));
    for library in libraries(program) {
        let name = library.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        assert!(BASE.contains(&name.as_str()), "the base image has no {name}");
        let at = root.join(library.strip_prefix("/").expect("an absolute path"));
        std::fs::create_dir_all(at.parent().expect("a parent")).expect("it is writable");
        std::fs::copy(&library, at).expect("it is readable");
    }
    for (name, arguments) in last_stage().iter().filter(|(name, _)| name == "COPY") {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        assert_eq!(words[..2], ["--from=build", "/src/target/release/mixer"], "{name}");
        copy(program, &root.join(words[2].trim_start_matches('/')));
    }
    // The volume with the policy.
    copy(&repository("deploy/kubernetes/policy/policy.yaml"), &root.join("etc/mixer/policy.yaml"));
    std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o755)).expect("its own directory");
}

/// Whether this test runs as root.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Starts a program in a root directory that cannot be written to, as a user without rights.
///
/// As root in a mount namespace, as somebody else in a user namespace; both are of the command `unshare`.
fn start(root: &Path, user: &str, command: &[String], log: std::fs::File) -> Process {
    // The mount is private to the new namespace.
    let read_only = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && cd / && exec chroot";
    let (flags, script) = if is_root() {
        (&["--mount"][..], format!("{read_only} --userspec={user} \"$0\" \"$@\""))
    } else {
        (&["--user", "--map-root-user", "--mount"][..], format!("{read_only} \"$0\" \"$@\""))
    };
    let mut unshare = Command::new("unshare");
    unshare.args(flags).args(["--", "sh", "-c", &script]).arg(root).args(command);
    unshare.env_clear().env("PATH", "/usr/bin:/usr/sbin:/bin:/sbin");
    unshare.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
    Process::spawn(&mut unshare).expect("unshare, of the Debian package util-linux")
}

#[test]
fn what_the_image_holds_serves_without_rights_and_without_a_writable_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("root");
    build(&root);
    let ports = Ports::free();
    let mut command = image_command();
    command.extend([
        format!("--address=tcp://127.0.0.1:{}", ports.api),
        format!("--monitoring-port={}", ports.monitoring),
        format!("--metrics-port={}", ports.metrics),
        format!("--ctrlz-port={}", ports.ctrlz),
    ]);
    let log = directory.path().join("log");
    let mut process =
        start(&root, &instruction("USER"), &command, std::fs::File::create(&log).expect("a file"));
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    let serves = wait_for(DEADLINE, || match process.ended() {
        Some(_) => Some(false),
        None => is_listening(ports.api).then_some(true),
    });
    assert_eq!(serves, Some(true), "{}", text());
    let ready = format!("http://127.0.0.1:{}/readyz", ports.monitoring);
    let ready = wait_for(DEADLINE, || http("GET", &ready, "").ok().filter(|answer| answer.status == 200));
    assert!(ready.is_some(), "{}", text());
    let server = format!("127.0.0.1:{}", ports.api);
    for (user, status) in [("ann", 0), ("mallory", 1)] {
        let header = format!("request.headers=x-user:{user}");
        let ran = run_mixer(&["check", "-m", &server, "--stringmap-attributes", &header]);
        assert_eq!(ran.status, status, "{user}: {}{}", ran.stdout, ran.stderr);
    }
    if is_root() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).expect("it runs");
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of("Uid:"), ["65532"; 4]);
        assert_eq!(of("CapEff:"), ["0000000000000000"]);
    }
    process.signal("TERM");
    assert_eq!(process.wait(DEADLINE), Some(Some(0)), "{}", text());
}
