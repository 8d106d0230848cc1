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

/// The good client beside callers of this check, which may be refused. Returns the bytes that the server logged meanwhile.
fn attack_with(name: &'static str, request: &mixer::CheckRequest) -> usize {
    let mut scene = Scene::start(&[]);
    let body = request.encode_to_vec();
    let address = scene.server.address();
    let attacker = |_| {
        let (mut client, body) = (Client::new(&address).expect("a client"), body.clone());
        let attacker = move || match client.call(CHECK, body.clone(), None) {
            Err(status) if status.code() != tonic::Code::InvalidArgument => Err(status.to_string()),
            _ => Ok(()),
        };
        Box::new(attacker) as Attacker
    };
    let logged = scene.server.log().len();
    let outcome = scene.attack(name, &|| (0..2).map(attacker).collect());
    outcome.assert_attackers_succeeded();
    outcome.assert_within(32);
    let logged = scene.server.log().len() - logged;
    scene.end();
    logged
}

#[test]
fn a_quota_with_a_name_of_a_megabyte_is_not_logged() {
    let quota = mixer::check_request::QuotaParams { amount: 1, best_effort: false };
    let quotas = [("\u{1}".repeat(1_000_000), quota)].into();
    let logged = attack_with("a quota of 1 MB", &mixer::CheckRequest { quotas, ..check("ann") });
    assert!(logged <= LOGGED, "{logged} bytes were logged");
}

#[test]
fn quotas_with_a_deduplication_id_of_a_megabyte() {
    let quota = mixer::check_request::QuotaParams { amount: 1, best_effort: false };
    // Names are case-insensitive: each is the same quota.
    let spelling = |bits: u32| {
        let letters = "request-count".chars().enumerate();
        letters
            .map(|(at, c)| if at < 6 && bits >> at & 1 == 1 { c.to_ascii_uppercase() } else { c })
            .collect()
    };
    let quotas = (0..64).map(|bits| (spelling(bits), quota)).collect();
    let request = mixer::CheckRequest { quotas, deduplication_id: "d".repeat(1_000_000), ..check("ann") };
    let logged = attack_with("64 quotas with an id of 1 MB", &request);
    assert!(logged <= LOGGED, "{logged} bytes were logged");
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
