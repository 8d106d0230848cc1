//! A policy server whose configuration comes from a galley.

use serde_json::Value;

use crate::support::galley::Galley;
use crate::support::{DEADLINE, Server, http, run_mixer, sample_configuration, wait_for};

/// What `check` prints for the client that the sample denies.
fn check(server: &Server) -> String {
    let address = server.address();
    let headers = "request.headers=clnt:abc";
    let finished = run_mixer(&[
        "check",
        "-m",
        &address,
        "-s",
        "destination.service=shop",
        "--stringmap-attributes",
        headers,
    ]);
    format!("{}{}", finished.stdout, finished.stderr)
}

fn is_denied(server: &Server) -> bool {
    check(server).contains("PERMISSION_DENIED")
}

/// The source of files, with its last error.
fn source(galley: &Galley) -> Value {
    let sources = galley.document("/statusj/")["sources"].clone();
    let of_files = sources
        .as_array()
        .unwrap()
        .iter()
        .find(|source| source["name"].as_str().is_some_and(|name| name.starts_with("files ")));
    of_files.cloned().unwrap_or_default()
}

#[test]
fn a_file_with_an_error_opens_nothing() {
    let sample = sample_configuration();
    let mut files: Vec<(String, String)> = Vec::new();
    for entry in std::fs::read_dir(&sample).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        files.push((name, std::fs::read_to_string(&path).unwrap()));
    }
    let deny = files.iter().find(|(name, _)| name == "deny.yaml").unwrap().1.clone();
    let all: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let galley = Galley::of_files(&all, &[]);
    galley.synced();
    let server = Server::on_store(&format!("mcp://127.0.0.1:{}", galley.sinks)).native().start();
    assert!(is_denied(&server), "{}", server.log());
    for (what, text) in [
        ("a document that is not YAML", format!("{deny}---\n: - ]x {{\n")),
        ("a file that is cut off", deny[..deny.len() / 2].to_owned()),
        ("an empty file", String::new()),
        ("a kind that is misspelt", deny.replace("kind: rule", "kind: ruel")),
        ("a field that is misspelt", deny.replace("match:", "macth:")),
    ] {
        let before = source(&galley)["lastErrorAt"].clone();
        galley.write("deny.yaml", &text);
        let told = wait_for(DEADLINE, || {
            let now = source(&galley);
            let is_told = now["lastError"]
                .as_str()
                .is_some_and(|why| why.contains("the configuration is not published"));
            (is_told && now["lastErrorAt"] != before).then_some(())
        });
        assert!(told.is_some(), "{what}: {}\n{}", source(&galley), galley.log());
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(is_denied(&server), "{what}: {}", check(&server));
        let page = http("GET", &server.monitoring_url("/readyz"), "").unwrap();
        assert_eq!(page.status, 200, "{what}");
        galley.write("deny.yaml", &deny);
    }
    galley.write("deny.yaml", &deny.replace("\"abc\"", "\"xyz\""));
    let opened = wait_for(DEADLINE, || (!is_denied(&server)).then_some(()));
    assert!(opened.is_some(), "{}\n{}", galley.log(), server.log());
}
