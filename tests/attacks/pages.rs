//! Readers of large pages of ControlZ who do not read.

use std::fmt::Write as _;
use std::net::TcpStream;

use crate::scene::{Attacker, Scene};
use crate::support::wire::connect;
use crate::support::{DEADLINE, http};

/// Rules of a namespace that nobody calls, and the bytes of the condition of each: a snapshot of more than 8 MB.
const RULES: usize = 500;
const CONDITION: usize = 16 << 10;
/// Connections of an attacker. What they would hold if each had its own copy is beyond the bound many times.
const READERS: usize = 30;
fn large_configuration() -> String {
    let filler = "y".repeat(CONDITION);
    let mut text = String::new();
    for rule in 0..RULES {
        let _ = write!(
            text,
            "---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: r{rule}, namespace: quiet}}\n\
             spec:\n  match: source.user == \"{filler}\"\n  actions: [{{handler: refuse.istio-system, instances: [caller.istio-system]}}]\n"
        );
    }
    text
}

#[test]
fn readers_of_the_configuration_that_do_not_read() {
    let mut scene = Scene::start(&[]);
    scene.configure(&large_configuration());
    let introspection = scene.server.ports.ctrlz;
    let page = |path: &str| http("GET", &format!("http://127.0.0.1:{introspection}{path}"), "");
    let whole = page("/snapshotj/").expect("an answer");
    assert!((whole.status, whole.body.len() > 8 << 20) == (200, true), "{} bytes", whole.body.len());
    let reader = |path: &'static str| {
        let attacker = move || {
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let open = || connect(introspection, request.as_bytes());
            let readers: Result<Vec<TcpStream>, String> = (0..READERS).map(|_| open()).collect();
            let readers = readers?;
            for reader in &readers {
                // Where there are fewer places than readers, those before must first be cut off.
                reader.set_read_timeout(Some(DEADLINE)).map_err(|error| error.to_string())?;
                reader.peek(&mut [0]).map_err(|error| format!("{path} is not answered: {error}"))?;
            }
            Ok(())
        };
        Box::new(attacker) as Attacker
    };
    let outcome = scene.attack("unread configuration", &|| vec![reader("/snapshotj/"), reader("/routesj/")]);
    outcome.assert_attackers_succeeded();
    outcome.assert_within(128);
    let again = page("/snapshotj/").expect("an answer");
    assert_eq!(
        (again.status, again.body.len()),
        (whole.status, whole.body.len()),
        "those who read are served"
    );
    scene.end();
}
