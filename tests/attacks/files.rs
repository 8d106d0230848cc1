//! Files in the configuration directory that cost more than they say.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::scene::{Attacker, Scene, check, code};
use crate::support::rpc::Client;
use crate::support::{DEADLINE, put, wait_for};

/// Most memory that reading one file may take, in MiB.
const BOUND: u64 = 160;

/// Attacks with one file, which is written again and again. Beside it, a later edit is made each time that must come to serve.
fn attack_with(name: &'static str, scene: &mut Scene, write: impl Fn(&Path) + Send + Sync + 'static) {
    let (hostile, later) = (scene.file("hostile.yaml"), scene.file("later.yaml"));
    let (write, address) = (Arc::new(write), scene.server.address());
    let edits = Arc::new(AtomicUsize::new(0));
    let attackers = || {
        let (write, edits) = (Arc::clone(&write), Arc::clone(&edits));
        let (hostile, later) = (hostile.clone(), later.clone());
        let mut client = Client::new(&address).expect("a client");
        let attacker = move || {
            write(&hostile);
            // The hostile file is read first, or at the same time.
            std::thread::sleep(Duration::from_millis(100));
            let user = format!("later {}", edits.fetch_add(1, Ordering::Relaxed));
            put(&later, &rule("later", &format!("source.user == \"{user}\"")));
            let denied = || (code(&client.check(&check(&user), None)) == Ok(7)).then_some(());
            let served = wait_for(DEADLINE, denied).ok_or_else(|| "a later edit does not serve".to_owned());
            // Another file of the same kind is new to the server.
            let _ = std::fs::remove_file(&hostile);
            served
        };
        vec![Box::new(attacker) as Attacker]
    };
    let outcome = scene.attack(name, &attackers);
    outcome.assert_attackers_succeeded();
    outcome.assert_within(BOUND);
}

fn rule(name: &str, condition: &str) -> String {
    let kind = "apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata:";
    let condition = condition.replace('\'', "''");
    let actions = "actions: [{handler: refuse, instances: [caller]}]";
    format!(
        "{kind} {{name: {name}, namespace: istio-system}}\nspec: {{match: '{condition}', {actions}}}\n---\n"
    )
}

#[test]
fn aliases_of_aliases() {
    let mut scene = Scene::start(&[]);
    let mut text = String::from("apiVersion: config.istio.io/v1alpha2\nkind: handler\n");
    text.push_str("metadata: {name: aliases, namespace: istio-system}\nspec:\n");
    text.push_str("  compiledAdapter: stdio\n  params:\n");
    writeln!(text, "    big: &a \"{}\"", "x".repeat(500_000)).expect("it fits");
    text.push_str("    list:\n");
    for _ in 0..4_000 {
        text.push_str("    - [*a, *a]\n");
    }
    attack_with("aliases", &mut scene, move |path| put(path, &text));
    scene.end();
}

#[test]
fn an_unknown_identifier_of_ten_megabytes() {
    let mut scene = Scene::start(&[]);
    let text = rule("long", &format!("{} == \"a\"", "source.".to_owned() + &"x".repeat(10_000_000)));
    attack_with("identifier of 10 MB", &mut scene, move |path| put(path, &text));
    scene.end();
}

#[test]
fn patterns_that_compile_to_very_much() {
    let mut scene = Scene::start(&[]);
    let text: String = (0..20)
        .map(|number| {
            rule(&format!("p{number}"), &format!("\"(\\\\pL{{800}}){number}\".matches(source.user)"))
        })
        .collect();
    attack_with("patterns", &mut scene, move |path| put(path, &text));
    scene.end();
}

#[test]
fn a_file_of_two_hundred_megabytes() {
    let mut scene = Scene::start(&[]);
    attack_with("file of 200 MB", &mut scene, |path| {
        let file = File::create(path).expect("it is writable");
        // A hole: it takes no place on the disk.
        file.set_len(200_000_000).expect("it is writable");
    });
    scene.end();
}

#[test]
fn a_pipe_without_a_writer() {
    let mut scene = Scene::start(&[]);
    attack_with("pipe", &mut scene, |path| {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.is_ok_and(|status| status.success()));
    });
    scene.end();
}

#[test]
fn a_hundred_thousand_documents_that_are_none() {
    let mut scene = Scene::start(&[]);
    let text = "---\na\n".repeat(100_000);
    attack_with("broken documents", &mut scene, move |path| put(path, &text));
    scene.end();
}

/// Each action is a problem of its own.
#[test]
fn a_rule_with_very_many_empty_actions() {
    let mut scene = Scene::start(&[]);
    let actions = "{},".repeat(900_000);
    let text = format!(
        "kind: rule\nmetadata: {{name: many, namespace: istio-system}}\nspec: {{match: 'false', actions: [{actions}]}}\n"
    );
    attack_with("empty actions", &mut scene, move |path| put(path, &text));
    scene.end();
}

#[test]
fn millions_of_documents() {
    let mut scene = Scene::start(&[]);
    let text = "---\na\n".repeat(2_500_000);
    attack_with("millions of documents", &mut scene, move |path| put(path, &text));
    scene.end();
}

#[test]
fn a_hundred_thousand_resources_of_unknown_kind() {
    let mut scene = Scene::start(&[]);
    let text: String = (0..100_000)
        .map(|number| {
            format!("---\napiVersion: v1\nkind: \"<k>{number}\"\nmetadata: {{name: \"<n>{number}\"}}\nspec: {{}}\n")
        })
        .collect();
    attack_with("unknown kinds", &mut scene, move |path| put(path, &text));
    scene.end();
}
