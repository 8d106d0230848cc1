//! `snapshot dump`, and the comparison of two dumps.

use crate::{json, run, scenario};

#[test]
fn snapshots_are_dumped_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let before = dir.path().join("before.json");
    let dump = run(&["mixer", "snapshot", "dump", "--config", &scenario("harbor"), "-o", "json"]);
    let document = json(&dump);
    assert_eq!(document["kind"], "Snapshot");
    assert_eq!(document["id"], 1);
    std::fs::write(&before, &dump.out).unwrap();
    let before = before.display().to_string();
    let diff =
        |name: &str| run(&["mixer", "snapshot", "dump", "--config", &scenario(name), "--diff", &before]);
    let same = diff("harbor");
    assert_eq!((same.code, same.out.as_str()), (0, ""));
    let other = diff("blank");
    assert_eq!(other.code, 1);
    assert!(other.out.contains("rules close-pier.rule.istio-system"), "{}", other.out);
    let section = run(&[
        "mixer",
        "snapshot",
        "dump",
        "--config",
        &scenario("harbor"),
        "--section",
        "rules",
        "-o",
        "json",
    ]);
    let section = json(&section);
    assert!(section.get("handlers").is_none() && section["rules"].is_array());
    let tables = run(&["mixer", "snapshot", "dump", "--config", &scenario("harbor")]);
    assert!(tables.out.starts_with("RULES\nNAME "), "{}", tables.out);
}

/// Conditions have secrets, too.
#[test]
fn masked_conditions_of_snapshots_are_not_told_to_be_equal() {
    let directory = tempfile::tempdir().unwrap();
    let [config, before] =
        ["config", "before.json"].map(|name| directory.path().join(name).display().to_string());
    std::fs::create_dir(&config).unwrap();
    let write = |token: &str| {
        let text = format!(
            "kind: handler\nmetadata: {{name: deny, namespace: istio-system}}\nspec: {{compiledAdapter: denier}}\n\
             ---\nkind: instance\nmetadata: {{name: any, namespace: istio-system}}\nspec: {{compiledTemplate: checknothing}}\n\
             ---\nkind: rule\nmetadata: {{name: keys, namespace: istio-system}}\nspec:\n\
             \x20 match: '(request.headers[\"authorization\"] | \"\") != \"Bearer {token}\"'\n\
             \x20 actions: [{{handler: deny, instances: [any]}}]\n"
        );
        std::fs::write(format!("{config}/a.yaml"), text).unwrap();
    };
    let dump =
        |flags: &[&str]| run(&[&["mixer", "snapshot", "dump", "--config", &config][..], flags].concat());
    write("hunter2");
    std::fs::write(&before, dump(&["-o", "json"]).out).unwrap();
    for token in ["hunter2", "hunter3"] {
        write(token);
        let diff = dump(&["--diff", &before]);
        let expected = "rules keys.rule.istio-system\n  masked values cannot be compared\n";
        assert_eq!((diff.code, &*diff.out), (1, expected), "{token} {}", diff.err);
    }
}

/// A secret that was masked may be another one by now: it is never told to be equal, and never shown.
#[test]
fn secrets_of_snapshots_are_compared_or_told_to_be_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let [config, masked, whole] =
        ["config", "masked.json", "whole.json"].map(|name| directory.path().join(name).display().to_string());
    std::fs::create_dir(&config).unwrap();
    let write = |token: &str| {
        let text = format!(
            "apiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {{name: sfx, namespace: istio-system}}\n\
             spec:\n  compiledAdapter: signalfx\n  params: {{accessToken: {token}, datapointInterval: 10s, metrics: [{{name: requests, type: COUNTER}}]}}\n"
        );
        std::fs::write(format!("{config}/sfx.yaml"), text).unwrap();
    };
    let dump =
        |flags: &[&str]| run(&[&["mixer", "snapshot", "dump", "--config", &config][..], flags].concat());
    write("hunter2secret");
    std::fs::write(&masked, dump(&["-o", "json"]).out).unwrap();
    std::fs::write(&whole, dump(&["-o", "json", "--show-secrets"]).out).unwrap();
    let unknown = "handlers sfx.istio-system\n  masked values cannot be compared\n";
    let secret = "handlers sfx.istio-system\n  a secret differs, which is not shown\n";
    for (token, before, flags, expected) in [
        ("hunter2secret", &masked, &[][..], (1, unknown)),
        ("hunter2secret", &masked, &["--show-secrets"], (1, unknown)),
        ("hunter2secret", &whole, &[], (0, "")),
        ("hunter3secret", &masked, &[], (1, unknown)),
        ("hunter3secret", &whole, &[], (1, secret)),
        ("hunter3secret", &whole, &["--show-secrets"], (1, secret)),
    ] {
        write(token);
        let diff = dump(&[&["--diff", before], flags].concat());
        assert_eq!((diff.code, &*diff.out), expected, "{token} {before} {flags:?} {}", diff.err);
    }
    // What differs besides is shown without it.
    write("hunter3secret, ingestUrl: 'http://other'");
    for before in [&masked, &whole] {
        let diff = dump(&["--diff", before, "--show-secrets"]);
        assert!(diff.code == 1 && diff.out.contains("http://other"), "{}{}", diff.out, diff.err);
        assert!(!diff.out.contains("hunter"), "{}", diff.out);
    }
}
