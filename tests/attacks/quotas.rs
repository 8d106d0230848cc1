//! Checks that ask for very many quotas.

use prost::Message as _;

use crate::scene::{Attacker, Scene, check};
use crate::support::rpc::{CHECK, Client, mixer};

/// Most bytes that the server may log for an attack of a few seconds.
const LOGGED: usize = 1 << 20;

#[test]
fn a_check_of_eighty_thousand_quotas() {
    let mut scene = Scene::start(&[]);
    let quota = mixer::check_request::QuotaParams { amount: 1, best_effort: false };
    let quotas = (0..80_000).map(|number| (format!("{number:05}"), quota)).collect();
    let body = mixer::CheckRequest { quotas, ..check("ann") }.encode_to_vec();
    assert!(body.len() <= 1 << 20, "{}", body.len());
    let address = scene.server.address();
    let attacker = |_| {
        let (mut client, body) = (Client::new(&address).expect("a client"), body.clone());
        let attacker = move || match client.call(CHECK, body.clone(), None) {
            Ok(answer) if answer.len() > body.len() => Err(format!("an answer of {} bytes", answer.len())),
            Ok(_) => Ok(()),
            Err(status) => Err(status.to_string()),
        };
        Box::new(attacker) as Attacker
    };
    let logged = scene.server.log().len();
    let outcome = scene.attack("80 000 quotas", &|| (0..2).map(attacker).collect());
    outcome.assert_within(32);
    let logged = scene.server.log().len() - logged;
    assert!(logged <= LOGGED, "{logged} bytes were logged");
    scene.end();
}

#[test]
fn a_name_with_a_line_feed_forges_no_log_line() {
    let scene = Scene::start(&[]);
    let quota = mixer::check_request::QuotaParams { amount: 1, best_effort: false };
    let quotas = [("a\n2026-01-01T00:00:00.000000Z\terror\tforged".to_owned(), quota)].into();
    let mut client = Client::new(&scene.server.address()).expect("a client");
    // Whether it is refused or answered does not matter.
    let _ = client.check(&mixer::CheckRequest { quotas, ..check("ann") }, None);
    let log = scene.server.log();
    assert!(!log.lines().any(|line| line.starts_with("2026-01-01T00:00:00.000000Z")), "{log}");
    scene.end();
}
