//! Addresses of servers in every form, ports of something else, and the token of ControlZ.

use std::path::Path;

use crate::support::galley::Galley;
use crate::support::{DEADLINE, Finished, Server, programs, run as run_program};
use crate::{Ran, json, run, scenario};

/// Commands that ask ControlZ of a server, without the address.
const OF_CONTROLZ: [&[&str]; 3] = [
    &["snapshot", "dump", "-o", "json", "--server"],
    &["routes", "show", "--server"],
    &["validate", "CONFIG", "--server"],
];
/// Commands that ask ControlZ of galley, without the address.
const OF_GALLEY: [&[&str]; 6] = [
    &["galley", "status", "--server"],
    &["galley", "sinks", "--server"],
    &["galley", "wait", "--sinks", "0", "--server"],
    &["galley", "watch", "--once", "--server"],
    &["galley", "snapshot", "dump", "--server"],
    &["galley", "snapshot", "diff", "CONTROLZ", "--server"],
];
/// Commands that call the API, without the address.
const OF_API: [&[&str]; 4] = [
    &["check", "--server"],
    &["check", "--explain", "-o", "plain", "--server"],
    &["report", "--server"],
    &["probe", "--server"],
];

const HANDLER: &str = "apiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {name: pass, namespace: istio-system}\n\
    spec: {compiledAdapter: noop}\n";

fn with_address(command: &[&str], address: &str, more: &[&str]) -> Ran {
    let config = scenario("harbor");
    let replaced = command.iter().map(|argument| match *argument {
        "CONFIG" => config.as_str(),
        "CONTROLZ" => address,
        other => other,
    });
    let arguments: Vec<&str> =
        std::iter::once("mixer").chain(replaced).chain([address]).chain(more.iter().copied()).collect();
    run(&arguments)
}

fn served() -> Server {
    Server::on(Path::new(&scenario("harbor"))).native().start()
}

#[test]
fn every_command_takes_an_address_as_a_url() {
    let server = served();
    let (api, controlz) = (server.ports.api, server.ports.ctrlz);
    for command in OF_API.into_iter().filter(|command| command[0] != "report") {
        for address in
            [format!("127.0.0.1:{api}"), format!("http://127.0.0.1:{api}"), format!("tcp://127.0.0.1:{api}/")]
        {
            let ran = with_address(command, &address, &[]);
            assert_eq!(ran.code, 0, "{command:?} {address}: {}{}", ran.out, ran.err);
        }
        let path = with_address(command, &format!("http://127.0.0.1:{api}/check"), &[]);
        let told = format!("has no path: write `127.0.0.1:{api}`");
        assert!(path.code == 2 && path.err.contains(&told), "{command:?}: {}", path.err);
    }
    for command in OF_CONTROLZ {
        for address in [
            format!("127.0.0.1:{controlz}"),
            format!("http://127.0.0.1:{controlz}/"),
            format!("tcp://127.0.0.1:{controlz}"),
        ] {
            let ran = with_address(command, &address, &[]);
            assert_eq!(ran.code, 0, "{command:?} {address}: {}{}", ran.out, ran.err);
        }
        let page = with_address(command, &format!("http://127.0.0.1:{controlz}/rulez/"), &[]);
        assert!(
            page.code == 4 && page.err.contains("without the path of a page"),
            "{command:?}: {}",
            page.err
        );
        let socket = with_address(command, "unix:///run/mixer.sock", &[]);
        assert!(socket.code == 2 && socket.err.contains("write HOST:PORT"), "{command:?}: {}", socket.err);
    }
    // Istio's client takes none of them.
    let legacy = run(&["mixc", "check", "-m", &format!("http://127.0.0.1:{api}")]);
    assert!(legacy.out.contains("too many colons in address"), "{}", legacy.out);
}

/// `https://` is TLS; a server without TLS, and one with TLS that is called without, are told.
#[test]
fn an_address_says_whether_tls_is_spoken() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name).display().to_string());
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let flags = ["--tls-cert-file", &cert, "--tls-key-file", &key];
    let server = Server::on(Path::new(&scenario("harbor"))).native().with(&flags).start();
    let port = server.ports.api;
    let https = format!("https://localhost:{port}");
    for command in OF_API.into_iter().filter(|command| command[0] != "report") {
        let secured = with_address(command, &https, &["--ca-file", &cert]);
        assert_eq!(secured.code, 0, "{command:?}: {}{}", secured.out, secured.err);
        let plain = with_address(command, &format!("localhost:{port}"), &[]);
        let told = plain.out + &plain.err;
        assert!(
            told.contains("speaks TLS") && told.contains(&format!("write {https}, or add --tls")),
            "{told}"
        );
    }
    let without = served();
    let address = format!("127.0.0.1:{}", without.ports.api);
    for command in OF_API {
        let ran = with_address(command, &format!("https://{address}"), &["--ca-file", &cert]);
        let told = ran.out + &ran.err;
        assert!(
            told.contains("speaks no TLS") && told.contains(&format!("write {address} without")),
            "{told}"
        );
    }
    let controlz = with_address(
        &["routes", "show", "--server"],
        &format!("https://127.0.0.1:{}", without.ports.ctrlz),
        &[],
    );
    assert!(controlz.err.contains("no TLS is spoken there: write --server HOST:PORT"), "{}", controlz.err);
}

/// Each pair of a port that is expected and one that is given.
#[test]
fn a_port_of_something_else_is_told() {
    let server = served();
    let galley = Galley::of_files(&[("handler.yaml", HANDLER)], &[]);
    galley.synced();
    let local = |port: u16| format!("127.0.0.1:{port}");
    for command in OF_API {
        for (port, name) in [
            (server.ports.ctrlz, "ControlZ of a mixer server answers at"),
            (galley.ctrlz, "ControlZ of galley answers at"),
            (server.ports.monitoring, "metrics and health answers at"),
        ] {
            let ran = with_address(command, &local(port), &[]);
            let told = ran.out + &ran.err;
            assert_ne!(ran.code, 0, "{command:?}");
            assert!(told.contains(name), "{command:?} {name}: {told}");
            assert!(
                told.contains("the API is at 127.0.0.1:9091, unless --address"),
                "{command:?} {name}: {told}"
            );
        }
    }
    let documents = run(&["mixer", "check", "-o", "json", "--server", &local(server.ports.ctrlz)]);
    let rpc = &json(&documents)["rpc"];
    assert!(rpc["message"].as_str().unwrap().starts_with("ControlZ of a mixer server answers"), "{rpc}");
    assert!(rpc["hint"].as_str().unwrap().contains("the API is at"), "{rpc}");
    for command in OF_CONTROLZ {
        for (port, name) in [
            (server.ports.api, "a gRPC API answers there, not ControlZ of a mixer server"),
            (server.ports.monitoring, "metrics and health answers there, not ControlZ of a mixer server"),
        ] {
            let ran = with_address(command, &local(port), &[]);
            assert_eq!(ran.code, 4, "{command:?}");
            assert!(ran.err.contains(name), "{command:?}: {}", ran.err);
            assert!(
                ran.err.contains("--server HOST:PORT") && ran.err.contains(":9876"),
                "{command:?}: {}",
                ran.err
            );
        }
    }
    for command in OF_GALLEY {
        for (port, name) in [
            (server.ports.ctrlz, "ControlZ of a mixer server answers there, not ControlZ of galley"),
            (server.ports.api, "a gRPC API answers there, not ControlZ of galley"),
            (galley.monitoring, "metrics and health answers there, not ControlZ of galley"),
        ] {
            let ran = with_address(command, &local(port), &[]);
            // Both have snapshots: that of a server is none of galley.
            assert_eq!((ran.code, &*ran.out), (4, ""), "{command:?}");
            assert!(ran.err.contains(name) && ran.err.contains(":9876"), "{command:?}: {}", ran.err);
        }
    }
    // `validate` waits for the sinks of galley.
    for (command, other) in [(OF_CONTROLZ[0], "snapshot dump"), (OF_CONTROLZ[1], "status")] {
        let ran = with_address(command, &galley.address(), &[]);
        let name = "ControlZ of galley answers there, not ControlZ of a mixer server";
        let told = format!("as in `mixer galley {other} --server {}`", galley.address());
        assert!(ran.code == 4 && ran.out.is_empty() && ran.err.contains(name), "{}", ran.err);
        assert!(ran.err.contains(&told), "{}", ran.err);
    }
    // A dump of a server is none of galley.
    let directory = tempfile::tempdir().unwrap();
    let dump = directory.path().join("dump.json").display().to_string();
    let of_server = with_address(OF_CONTROLZ[0], &local(server.ports.ctrlz), &[]);
    std::fs::write(&dump, of_server.out).unwrap();
    let compared = run(&["mixer", "galley", "snapshot", "diff", &dump, "--server", &galley.address()]);
    assert!(
        compared.code == 3
            && compared.out.is_empty()
            && compared.err.contains("is no dump of galley, but Snapshot"),
        "{}{}",
        compared.out,
        compared.err
    );
    for (port, path, told) in [
        (server.ports.api, "", "gRPC answers there: probe it with --server HOST:PORT"),
        (
            server.ports.ctrlz,
            "/readyz",
            "ControlZ answers there, which has no health: probe http://HOST:15014/readyz",
        ),
        (server.ports.monitoring, "/ready", "health is at the paths /readyz and /healthz"),
    ] {
        let ran = with_address(&["probe", "--http"], &format!("http://127.0.0.1:{port}{path}"), &[]);
        assert!(ran.code == 1 && ran.err.contains(told), "{told}: {}", ran.err);
    }
}

/// The flag, the address, and how to be reachable there.
#[test]
fn a_controlz_that_is_not_there_is_told_with_the_flag() {
    for (command, program) in [
        (OF_GALLEY[0], "mixer galley server"),
        (OF_GALLEY[2], "mixer galley server"),
        (OF_CONTROLZ[1], "mixer server"),
    ] {
        let ran = with_address(command, "127.0.0.1:1", &[]);
        assert_eq!(ran.code, 4, "{}", ran.err);
        assert!(ran.err.contains("http://127.0.0.1:1/"), "{}", ran.err);
        for part in [
            &*format!("`{program}` serves it at localhost:9876"),
            "--ctrlz-port",
            "--server HOST:PORT names another one",
        ] {
            assert!(ran.err.contains(part), "{part}: {}", ran.err);
        }
    }
    let configuration = run(&["mixer", "check", "--config", "http://127.0.0.1:9091"]);
    assert!(
        configuration.err.contains("a running server is named with --server HOST:PORT"),
        "{}",
        configuration.err
    );
}

/// Every command sends it, none prints it, and one that has none is told the flag.
#[test]
fn the_token_of_controlz_is_sent() {
    const TOKEN: &str = "open-sesame";
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (right, wrong) = (file("token", &format!("{TOKEN}\n")), file("wrong", "sesame-shut"));
    let (empty, odd) = (file("empty", " \n"), file("odd", "open\nsesame"));
    let flag = format!("--ctrlz-token-file={right}");
    let server = Server::on(Path::new(&scenario("harbor"))).native().with(&[&flag]).start();
    let galley = Galley::of_files(&[("handler.yaml", HANDLER)], &[&flag]);
    let asked = OF_CONTROLZ.into_iter().map(|command| (command, format!("127.0.0.1:{}", server.ports.ctrlz)));
    let asked: Vec<_> =
        asked.chain(OF_GALLEY.into_iter().map(|command| (command, galley.address()))).collect();
    for (command, address) in &asked {
        let ran = with_address(command, address, &["--ctrlz-token-file", &right]);
        assert_eq!(ran.code, 0, "{command:?}: {}{}", ran.out, ran.err);
        for (more, code, told) in [
            (&[][..], 4, "--ctrlz-token-file FILE, or MIXER_CTRLZ_TOKEN_FILE, names the file with the token"),
            (
                &["--ctrlz-token-file", &wrong],
                4,
                "(--ctrlz-token-file) is not the one that is asked for there",
            ),
            (&["--ctrlz-token-file", &empty], 3, "the file is empty"),
            (&["--ctrlz-token-file", &odd], 3, "characters that no header can have"),
            (&["--ctrlz-token-file", "/nowhere"], 3, "no such file or directory"),
        ] {
            let ran = with_address(command, address, more);
            assert_eq!(ran.code, code, "{command:?} {more:?}: {}", ran.err);
            assert!(ran.err.contains(told), "{command:?} {more:?}: {}", ran.err);
            for secret in [TOKEN, "sesame"] {
                assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "{command:?}: {}", ran.err);
            }
        }
    }
    // A variable sets it for all of them.
    let environment = [("MIXER_CTRLZ_TOKEN_FILE".to_owned(), right.clone())];
    let arguments = |command: &[&str], address: &str| -> Vec<String> {
        command.iter().map(|part| (*part).to_owned()).chain([address.to_owned()]).collect()
    };
    for (command, address) in
        asked.iter().filter(|(command, _)| !command.contains(&"CONFIG") && !command.contains(&"CONTROLZ"))
    {
        let arguments = arguments(command, address);
        let ran: Finished =
            run_program(&programs().path("mixer"), &arguments, &environment, None, None, DEADLINE).unwrap();
        assert_eq!(ran.status, 0, "{command:?}: {}", ran.stderr);
    }
    // What asks no server needs no token.
    let offline = run(&["mixer", "routes", "show", "--ctrlz-token-file", "/nowhere"]);
    assert_eq!(offline.code, 0, "{}", offline.err);
    assert!(!server.log().contains(TOKEN) && !galley.log().contains(TOKEN));
}
