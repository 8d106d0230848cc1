//! What a running server does with mistakes in its configuration. tests/engine/on_config_error.rs has every case; these are through
//! the binary.

use std::path::Path;

use serde_json::Value;

use crate::support::{DEADLINE, Server, free_port, http, run_mixer as mixer, sample_configuration, wait_for};

pub(crate) fn copy_of_the_sample(to: &Path) {
    for entry in std::fs::read_dir(sample_configuration()).expect("the sample is there").flatten() {
        let name = entry.file_name();
        if entry.path().is_file() {
            std::fs::copy(entry.path(), to.join(name)).expect("writable");
        }
    }
}

/// Replaces text in a file, as an editor does: by a rename.
pub(crate) fn edit(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).expect("readable");
    assert!(text.contains(from), "{from}\n{text}");
    let beside = file.with_extension("new");
    std::fs::write(&beside, text.replace(from, to)).expect("writable");
    std::fs::rename(beside, file).expect("writable");
}

/// The first line of what `check` prints for the client that the sample denies.
pub(crate) fn check(server: &Server) -> String {
    let address = server.address();
    let request = ["-s", "destination.service=shop", "--stringmap-attributes", "request.headers=clnt:abc"];
    let finished = mixer(&[&["check", "-m", &address][..], &request].concat());
    format!("{}{}", finished.stdout, finished.stderr)
}

pub(crate) fn verbose(server: &Server) -> Value {
    let answer = http("GET", &server.monitoring_url("/readyz?verbose"), "").expect("an answer");
    serde_json::from_str(&answer.body).expect("JSON")
}

pub(crate) fn wait_for_kept(server: &Server, wanted: f64) {
    let kept = || (server.metric("mixer_last_good_resources") == wanted).then_some(());
    assert!(wait_for(DEADLINE, kept).is_some(), "{}", server.log());
}

#[test]
fn the_typo_of_the_readme_keeps_the_denial() {
    let directory = tempfile::tempdir().expect("a directory");
    copy_of_the_sample(directory.path());
    let server = Server::on(directory.path()).native().start();
    assert!(check(&server).contains("PERMISSION_DENIED"), "{}", server.log());
    let file = directory.path().join("deny.yaml");
    edit(&file, "handler: turn-away", "handler: turn-awya");
    wait_for_kept(&server, 2.0);
    assert!(check(&server).contains("PERMISSION_DENIED"), "{}", server.log());
    let why = "its new version has an error: Handler not found: handler='turn-awya'";
    let state = verbose(&server);
    assert_eq!(state["available"], true, "{state}");
    assert_eq!(state["configuration"]["keptResources"], 2, "{state}");
    assert_eq!(state["configuration"]["kept"][0]["resource"], "closed-service.rule.istio-system");
    assert_eq!(state["configuration"]["kept"][0]["why"], why);
    let first = &state["configuration"]["firstError"];
    assert_eq!(
        (&first["code"], &first["file"]),
        (&"handler-unknown".into(), &file.display().to_string().into())
    );
    assert_eq!(
        (&first["line"], &first["hint"]),
        (&32.into(), &"did you mean `turn-away`?".into()),
        "{first}"
    );
    // Times have the form of the log, wherever they are told.
    let time = regex::Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$").expect("a pattern");
    let since = state["configuration"]["kept"][0]["since"].as_str().unwrap_or_default().to_owned();
    assert!(time.is_match(&since), "{state}");
    server.wait_for_log(&format!(" serves, since {since}, because "));
    let controlz = format!("127.0.0.1:{}", server.ports.ctrlz);
    let page = http("GET", &format!("http://{controlz}/configz/"), "").expect("a page").body;
    assert!(page.contains("2 resources serve in their previous version"), "{page}");
    // The file no longer has the version that serves, nor its line.
    let request = ["-s", "destination.service=shop", "--stringmap-attributes", "request.headers=clnt:abc"];
    let address = server.address();
    let explained = mixer(&[&["check", "-m", &address, "--explain"][..], &request].concat()).stdout;
    let place = format!("previous version, since {since}, of {}", file.display());
    let rule = explained.lines().find(|line| line.contains("unwelcome-client.rule.istio-system"));
    assert!(rule.is_some_and(|line| line.ends_with(&place)), "{explained}");
    assert!(explained.contains(&format!("    the previous version serves: {why}\n")), "{explained}");
    assert!(!explained.contains("deny.yaml:"), "{explained}");
    let json = mixer(&[&["check", "-m", &address, "--explain", "-o", "json"][..], &request].concat()).stdout;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let rules = json["explanation"]["rules"].as_array().cloned().unwrap_or_default();
    let kept: Vec<_> = rules.iter().filter(|rule| !rule["kept"].is_null()).collect();
    assert_eq!(kept.len(), 2, "{json}");
    assert!(
        kept.iter().all(|rule| rule["line"].is_null() && rule["kept"]["since"] == since.as_str()),
        "{json}"
    );
    assert!(rules.iter().all(|rule| rule["kept"].is_null() == rule["line"].is_u64()), "{json}");
    let form = "attributes=destination.service%3Dshop%0Arequest.headers%5Bclnt%5D%3Dabc";
    let page = http("POST", &format!("http://{controlz}/explainz/"), form).expect("a page").body;
    assert!(page.contains(&place) && !page.contains("deny.yaml:"), "{page}");
    let url = format!("http://{controlz}/configz/resource?name=unwelcome-client.rule.istio-system");
    let page = http("GET", &url, "").expect("a page").body;
    assert!(page.contains(&format!("The previous version serves, not this one, since {since}: ")), "{page}");
    let live = mixer(&["validate", &directory.path().display().to_string(), "--live", &controlz]);
    let told =
        format!("{controlz}: warning[config-kept]: the previous version of closed-service.rule.istio-system");
    assert!(live.stdout.contains(&told), "{}{}", live.stdout, live.stderr);
    assert!(live.stdout.contains(&format!(" because {why}")), "{}", live.stdout);
    let kept = live.stdout.lines().filter(|line| line.contains("[config-kept]")).count();
    let only_kept = live.stdout.lines().skip_while(|line| !line.contains("[config-kept]")).count() == kept;
    assert!(only_kept && kept == 2, "what is kept is no difference: {}", live.stdout);
    assert!(!live.stderr.contains("has the same configuration"), "{}", live.stderr);
    edit(&file, "handler: turn-awya", "handler: turn-away");
    wait_for_kept(&server, 0.0);
    assert!(check(&server).contains("PERMISSION_DENIED"));
}

/// `validate --live` before a configuration with an error is rolled out.
#[test]
fn a_rule_that_would_be_kept_is_not_shown_as_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    for path in [&old, &new] {
        std::fs::create_dir(path).expect("writable");
        copy_of_the_sample(path);
    }
    edit(&new.join("deny.yaml"), "handler: turn-away", "handler: turn-awya");
    let server = Server::on(&old).native().start();
    let controlz = format!("127.0.0.1:{}", server.ports.ctrlz);
    let live = mixer(&["validate", &new.display().to_string(), "--live", &controlz]);
    assert_eq!(live.status, 1, "{live:?}");
    let note =
        "rules closed-service.rule.istio-system\n  has an error: the server goes on with its version, ";
    assert!(live.stdout.contains(note) && !live.stdout.contains("-match"), "{}", live.stdout);
    std::fs::remove_file(new.join("deny.yaml")).expect("it is there");
    let live = mixer(&["validate", &new.display().to_string(), "--live", &controlz]);
    let removed = "rules closed-service.rule.istio-system\n  @@";
    assert!(live.stdout.contains(removed), "{}", live.stdout);
}

/// What goes on beside a resource with an error is no removal either.
#[test]
fn what_is_missing_from_a_faulty_file_is_not_shown_as_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    for path in [&old, &new] {
        std::fs::create_dir(path).expect("writable");
        copy_of_the_sample(path);
    }
    let sample = std::fs::read_to_string(old.join("deny.yaml")).expect("readable");
    let (handler, rules) = sample.split_once("---\n").expect("several documents");
    for path in [&old, &new] {
        std::fs::write(path.join("handler.yaml"), handler).expect("writable");
        std::fs::write(path.join("deny.yaml"), rules).expect("writable");
    }
    let (rest, removed) = rules.rsplit_once("---\n").expect("several documents");
    assert!(removed.contains("name: unwelcome-client"), "{removed}");
    let file = new.join("deny.yaml");
    std::fs::write(&file, rest).expect("writable");
    edit(&file, "handler: turn-away", "handler: turn-awya");
    let server = Server::on(&old).native().start();
    let controlz = format!("127.0.0.1:{}", server.ports.ctrlz);
    let live = || mixer(&["validate", &new.display().to_string(), "--live", &controlz]).stdout;
    let told = live();
    let goes_on =
        "rules unwelcome-client.rule.istio-system\n  is gone from a file with an error: the server goes on";
    assert!(told.contains(goes_on) && !told.contains("-match"), "{told}");
    // As the server does.
    std::fs::copy(&file, old.join("deny.yaml")).expect("writable");
    wait_for_kept(&server, 2.0);
    assert!(check(&server).contains("PERMISSION_DENIED"), "{}", server.log());
    std::fs::write(old.join("deny.yaml"), rules).expect("writable");
    wait_for_kept(&server, 0.0);
    // A handler goes on that rules name.
    std::fs::write(&file, rules).expect("writable");
    std::fs::remove_file(new.join("handler.yaml")).expect("it is there");
    let told = live();
    let needed = "handlers turn-away.istio-system\n  is gone, and a rule that goes on needs it";
    assert!(told.contains(needed) && !told.contains("-adapter"), "{told}");
    std::fs::write(new.join("handler.yaml"), handler).expect("writable");
    // A new rule with an error may be an old one with another name.
    edit(&file, "name: unwelcome-client", "name: unwelcome-caller");
    edit(&file, "(request.headers[", "(request.headres[");
    let told = live();
    let renamed =
        "rules unwelcome-client.rule.istio-system\n  is gone, perhaps renamed, while a new rule has an error";
    assert!(told.contains(renamed) && !told.contains("-match"), "{told}");
}

/// One check, one text: of the server, of `server --dry-run`, `validate` and `doctor`.
#[test]
fn every_command_tells_that_a_configuration_is_empty() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().display().to_string();
    let server = Server::on(directory.path()).native().start();
    let why = verbose(&server)["configuration"]["withheld"].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        why,
        "the store has no configuration: check the path in --config-store-url, that the names of the files end in .yaml or .yml, and that their resources are of kinds of this server; only if every call is to be allowed, --allow-empty-config serves it"
    );
    drop(server);
    let store = format!("fs://{path}");
    let ports = [(); 4].map(|()| free_port());
    let address = format!("tcp://127.0.0.1:{}", ports[0]);
    let numbers = [ports[1], ports[2], ports[3]].map(|port| port.to_string());
    let flags = ["--config-store-url", &store, "--address", &address, "--monitoring-port", &numbers[0]];
    let flags = [&flags[..], &["--metrics-port", &numbers[1], "--ctrlz-port", &numbers[2]]].concat();
    let commands = [
        (&["validate", &path][..], &[][..], 1),
        (&["doctor"], &flags, 1),
        (&["server", "--dry-run", "--log-target", "stdout"], &flags, 3),
    ];
    for (command, flags, status) in commands {
        let refused = mixer(&[command, flags].concat());
        assert_eq!(refused.status, status, "{command:?}: {refused:?}");
        assert!(refused.stdout.contains(&why), "{command:?}: {refused:?}");
        let meant = mixer(&[command, flags, &["--allow-empty-config"]].concat());
        assert_eq!(meant.status, 0, "{command:?}: {meant:?}");
        assert!(!meant.stdout.contains(&why), "{command:?}: {meant:?}");
    }
}

#[test]
fn a_server_without_configuration_answers_no_call_until_there_is_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("conf");
    let server = Server::on(&root).native().start();
    let said = check(&server);
    assert!(said.contains("no configuration is served: cannot read "), "{said}");
    let report = mixer(&["report", "-m", &server.address(), "-s", "destination.service=shop"]);
    assert!(report.stdout.contains("no configuration is served: cannot read "), "{report:?}");
    let state = verbose(&server);
    assert_eq!(state["available"], false, "{state}");
    let why = state["configuration"]["withheld"].as_str().unwrap_or_default().to_owned();
    assert!(why.starts_with("cannot read "), "{state}");
    let probe = mixer(&["probe", "--grpc", &server.address()]);
    assert_eq!(probe.status, 1, "{probe:?}");
    // The directory appears as a whole.
    let prepared = directory.path().join("prepared");
    std::fs::create_dir(&prepared).expect("writable");
    copy_of_the_sample(&prepared);
    std::fs::rename(&prepared, &root).expect("writable");
    let ready = || (verbose(&server)["available"] == true).then_some(());
    assert!(wait_for(DEADLINE, ready).is_some(), "{}\n{}", verbose(&server), server.log());
    assert!(check(&server).contains("PERMISSION_DENIED"), "{}", server.log());
}

#[test]
fn a_restart_serves_the_cached_configuration() {
    let directory = tempfile::tempdir().expect("a directory");
    let (root, cache) = (directory.path().join("conf"), directory.path().join("cache"));
    std::fs::create_dir(&root).expect("writable");
    copy_of_the_sample(&root);
    let start = || {
        let flags = ["--config-cache".to_owned(), cache.display().to_string()];
        Server::on(&root).native().with(&flags).start()
    };
    let mut server = start();
    assert!(check(&server).contains("PERMISSION_DENIED"), "{}", server.log());
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    edit(&root.join("deny.yaml"), "kind: handler", "kind: [handler");
    let mut server = start();
    assert!(check(&server).contains("PERMISSION_DENIED"), "{}", server.log());
    assert_eq!(server.metric("mixer_serving_withheld"), 0.0);
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    // A damaged cache is ignored, so that nothing serves.
    let file = cache.join("last-good.cache");
    let mut bytes = std::fs::read(&file).expect("the cache is there");
    bytes.truncate(bytes.len() / 2);
    std::fs::write(&file, bytes).expect("writable");
    let server = start();
    let said = check(&server);
    assert!(said.contains("no configuration is served: "), "{said}");
    server.wait_for_log("is ignored: it is damaged: its checksum does not match");
}

#[test]
fn called_as_mixs_the_rest_serves() {
    let directory = tempfile::tempdir().expect("a directory");
    copy_of_the_sample(directory.path());
    let server = Server::on(directory.path()).start();
    assert!(check(&server).contains("PERMISSION_DENIED"), "{}", server.log());
    edit(&directory.path().join("deny.yaml"), "handler: turn-away", "handler: turn-awya");
    let opened = || check(&server).contains("Check status was OK").then_some(());
    assert!(wait_for(DEADLINE, opened).is_some(), "as Istio Mixer does\n{}", server.log());
}

#[test]
fn a_misspelt_annotation_is_one_error_for_everybody() {
    let directory = tempfile::tempdir().expect("a directory");
    copy_of_the_sample(directory.path());
    let file = directory.path().join("deny.yaml");
    let annotated = "  name: unwelcome-client\n  annotations: {mixer.dev/on-eror: deny}\n";
    edit(&file, "  name: unwelcome-client\n", annotated);
    let root = directory.path().display().to_string();
    let validated = mixer(&["validate", "-o", "plain", &root]);
    assert_eq!(validated.status, 1, "{validated:?}");
    assert!(
        validated.stdout.contains(":39:36: error[annotation-unknown]: unwelcome-client.rule.istio-system: "),
        "{validated:?}"
    );
    assert!(validated.stderr.contains(": 1 error, 0 warnings"), "{validated:?}");
    let store = format!("fs://{root}");
    let ports = ["--address", "tcp://127.0.0.1:0", "--metrics-port", "0"];
    let rehearsed = mixer(&[&["server", "--dry-run", "--config-store-url", &store], &ports[..]].concat());
    assert!(rehearsed.status != 0 && rehearsed.stdout.contains(" 1 error, 0 warnings"), "{rehearsed:?}");
    let diagnosed = mixer(&[&["doctor", "-o", "plain", "--config-store-url", &store], &ports[..]].concat());
    let finding = diagnosed.stdout.lines().find(|line| line.contains("configuration"));
    assert!(
        finding.is_some_and(|line| line.starts_with("fail") && line.contains(" 1 error, ")),
        "{diagnosed:?}"
    );
    assert_eq!(diagnosed.status, 1, "{diagnosed:?}");
    let server = Server::on(directory.path()).native().start();
    let why = format!(
        "{root}/deny.yaml:39: unwelcome-client.rule.istio-system: annotation mixer.dev/on-eror is not supported on a rule \
         (did you mean `mixer.dev/on-error`?)"
    );
    let said = check(&server);
    let place = format!("of unwelcome-client.rule.istio-system in {root}/deny.yaml, line 39");
    assert!(said.contains("no configuration is served: error `") && said.contains(&place), "{said}");
    assert_eq!(verbose(&server)["configuration"]["withheld"], why);
    assert!(!server.log().contains("Built new config.Snapshot"), "nothing serves\n{}", server.log());
    let page =
        http("GET", &format!("http://127.0.0.1:{}/configz/", server.ports.ctrlz), "").expect("a page").body;
    assert!(page.contains(">1</span>"), "{page}");
    drop(server);
    // As Istio Mixer does.
    let server = Server::on(directory.path()).start();
    assert!(check(&server).contains("PERMISSION_DENIED"), "{}", server.log());
}

#[test]
fn a_problem_is_logged_once_and_when_it_has_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    copy_of_the_sample(directory.path());
    let server = Server::on(directory.path()).native().start();
    let file = directory.path().join("deny.yaml");
    edit(&file, "handler: turn-away", "handler: turn-awya");
    wait_for_kept(&server, 2.0);
    let count = |text: &str| server.log().matches(text).count();
    server.wait_for_log("the previous version of unwelcome-client.rule.istio-system serves");
    let problems = count("Handler not found: handler='turn-awya'");
    // Another change.
    let built = count("Built new config.Snapshot");
    edit(&file, "# Refuses what must not pass", "# The first line.\n# Refuses what must not pass");
    edit(&file, "validUseCount: 1000", "validUseCount: 1001");
    let changed = || (count("Built new config.Snapshot") > built).then_some(());
    assert!(wait_for(DEADLINE, changed).is_some(), "{}", server.log());
    assert_eq!(count("Handler not found: handler='turn-awya'"), problems, "{}", server.log());
    assert!(!server.log().contains("\"line\": 0"), "{}", server.log());
    edit(&file, "handler: turn-awya", "handler: turn-away");
    wait_for_kept(&server, 0.0);
    server.wait_for_log("no longer a problem: ");
    // The rule, its file, and the handler, whose change waited for the rule.
    assert_eq!(count("no longer a problem: the previous version of "), 3, "{}", server.log());
}

#[test]
fn a_server_that_serves_nothing_is_compared_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    copy_of_the_sample(directory.path());
    let file = directory.path().join("deny.yaml");
    edit(&file, "handler: turn-away", "handler: turn-awya");
    let server = Server::on(directory.path()).native().start();
    let live = || {
        let controlz = format!("127.0.0.1:{}", server.ports.ctrlz);
        let ran = mixer(&["validate", &directory.path().display().to_string(), "--live", &controlz]);
        ran.stdout.lines().filter(|line| line.starts_with(&controlz)).map(str::to_owned).collect::<Vec<_>>()
    };
    let found = live();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("error[config-withheld]"), "{found:?}");
    assert!(found[1].contains(" serves nothing; these files have "), "{found:?}");
    // Nor do its routes look like those of a server without rules.
    let controlz = format!("127.0.0.1:{}", server.ports.ctrlz);
    let routes = mixer(&["routes", "show", "--server", &controlz, "--handler", "turn-away*"]);
    assert_eq!(routes.status, 1, "{routes:?}");
    let last = routes.stdout.lines().last().unwrap_or_default();
    assert!(last.starts_with("nothing serves: ") && last.ends_with("answered with UNAVAILABLE"), "{last}");
    let json = mixer(&["routes", "show", "--server", &controlz, "-o", "json"]);
    let json: Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert!(json["withheld"].is_string(), "{json}");
    edit(&file, "handler: turn-awya", "handler: turn-away");
    let is_served = wait_for(DEADLINE, || {
        let routes = mixer(&["routes", "show", "--server", &controlz]);
        (routes.status == 0 && !routes.stdout.contains("nothing serves")).then_some(())
    });
    assert!(is_served.is_some(), "{}", server.log());
}

/// Denies one user.
fn denial(user: &str) -> String {
    format!(
        "apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: no-{user}, namespace: istio-system}}\n\
         spec: {{match: '(source.user | \"\") == \"{user}\"', actions: [{{handler: turn-away, instances: [caller]}}]}}\n"
    )
}

const REFUSAL: &str = "apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec: {attributes: {source.user: {valueType: STRING}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: turn-away, namespace: istio-system}
spec: {compiledAdapter: denier}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: caller, namespace: istio-system}
spec: {compiledTemplate: checknothing}
";

/// The cells of docs/configuration.md for a file that cannot be read, with the files of a system that says so.
#[test]
fn a_file_that_becomes_unreadable_goes_on_with_what_was_read() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    // Root reads every file, unless it gives up that capability.
    let limited = ["--bounding-set", "-dac_override,-dac_read_search"].map(str::to_owned);
    for (mode, applies_beside) in [("keep-last", true), ("serve-valid", true), ("refuse", false)] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("base.yaml"), REFUSAL).expect("writable");
        std::fs::write(path("bob.yaml"), denial("bob")).expect("writable");
        let server = Server::on(directory.path()).native().with(&["--config-on-error", mode]);
        let is_root = directory.path().metadata().expect("readable").uid() == 0;
        let server = match is_root {
            true => server.through(Path::new("setpriv"), &limited).start(),
            false => server.start(),
        };
        let is_denied = |user: &str| {
            let attribute = format!("source.user={user}");
            mixer(&["check", "-m", &server.address(), "-s", &attribute])
                .stdout
                .contains("FAILED_PRECONDITION")
        };
        assert_eq!([is_denied("bob"), is_denied("carol")], [true, false], "{mode}");
        let mode_of = |bits: u32| {
            let permissions = std::fs::Permissions::from_mode(bits);
            std::fs::set_permissions(path("bob.yaml"), permissions).expect("it is our own");
        };
        mode_of(0);
        std::fs::write(path("carol.new"), denial("carol")).expect("writable");
        std::fs::rename(path("carol.new"), path("carol.yaml")).expect("writable");
        let problems = || server.metric("mixer_diagnostics_total");
        let is_said = || (problems() > 0.0 && is_denied("carol") == applies_beside).then_some(());
        assert!(wait_for(DEADLINE, is_said).is_some(), "{mode}\n{}", server.log());
        assert!(is_denied("bob"), "{mode}\n{}", server.log());
        mode_of(0o644);
        let is_mended = || (problems() == 0.0 && is_denied("carol") && is_denied("bob")).then_some(());
        assert!(wait_for(DEADLINE, is_mended).is_some(), "{mode}\n{}", server.log());
    }
}

/// A pattern that needs 1 MiB compiled, which counts as 4 MiB; patterns with other numbers match other paths.
fn large_pattern(number: usize) -> String {
    format!("^/{number}/|{}", "[ac]{1000}".repeat(20))
}

/// Rules that deny what 40 patterns match, which take more than half the budget for patterns.
fn with_large_patterns(first: usize) -> String {
    let rule = |number: usize| {
        format!(
            "---\nkind: rule\nmetadata: {{name: r{number}, namespace: istio-system}}\nspec: {{match: '\"{}\".matches(request.path | \
             \"\")', actions: [{{handler: turn-away, instances: [nothing]}}]}}\n",
            large_pattern(first + number)
        )
    };
    let parts = "kind: handler\nmetadata: {name: turn-away, namespace: istio-system}\nspec: {compiledAdapter: denier}\n---\n\
                 kind: instance\nmetadata: {name: nothing, namespace: istio-system}\nspec: {compiledTemplate: checknothing}\n";
    parts.to_owned() + &(0..40).map(rule).collect::<String>()
}

/// Waits until a request with this attribute is denied.
fn wait_until_denied(server: &Server, attribute: &str) {
    let address = server.address();
    let denied = || {
        let answer = mixer(&["check", "-m", &address, "-s", attribute]);
        answer.stdout.contains("FAILED_PRECONDITION").then_some(())
    };
    assert!(wait_for(DEADLINE, denied).is_some(), "{attribute} is not denied: {}", server.log());
}

#[test]
fn a_configuration_that_takes_half_the_budget_of_patterns_can_be_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let put = |name: &str, text: &str| {
        let beside = directory.path().join("new");
        std::fs::write(&beside, text).expect("writable");
        std::fs::rename(beside, directory.path().join(name)).expect("writable");
    };
    let words = |more: &str| {
        format!(
            "kind: attributemanifest\nmetadata: {{name: words, namespace: istio-system}}\nspec: {{attributes: {{source.user: \
             {{valueType: STRING}}, request.path: {{valueType: STRING}}{more}}}}}\n"
        )
    };
    put("words.yaml", &words(""));
    put("patterns.yaml", &with_large_patterns(0));
    let server = Server::on(directory.path()).native().start();
    wait_until_denied(&server, "request.path=/39/");
    // Every expression is compiled again.
    put("words.yaml", &words(", test.word: {valueType: STRING}"));
    put(
        "bob.yaml",
        "kind: rule\nmetadata: {name: no-bob, namespace: istio-system}\nspec: {match: '(source.user | \"\") == \"bob\" && \
         (test.word | \"\") == \"\"', actions: [{handler: turn-away, instances: [nothing]}]}\n",
    );
    wait_until_denied(&server, "source.user=bob");
    wait_for_kept(&server, 0.0);
    wait_until_denied(&server, "request.path=/39/");
    // All patterns change at once.
    put("patterns.yaml", &with_large_patterns(100));
    wait_until_denied(&server, "request.path=/139/");
    wait_for_kept(&server, 0.0);
    wait_until_denied(&server, "request.path=/100/");
}

/// A document that was cut off before its kind, or whose kind cannot be told: one error for everybody, and a start serves nothing.
#[test]
fn every_command_refuses_a_document_that_is_no_resource() {
    for (text, told) in [
        ("{}\n", "[document-identity]"),
        ("apiVersion: config.istio.io/v1alpha2\n", "[document-identity]"),
        ("apiVersion: config.istio.io/v1alpha2\nkind: rule\n", "[document-identity]"),
        (
            "apiVersion: security.istio.io/v1\nkind: Ruel\nmetadata: {name: no-bob, namespace: istio-system}\n",
            "[kind-unknown]",
        ),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("base.yaml"), REFUSAL).expect("writable");
        std::fs::write(path("bob.yaml"), text).expect("writable");
        let root = directory.path().display().to_string();
        let validated = mixer(&["validate", "-o", "plain", &root]);
        assert!(validated.status == 1 && validated.stdout.contains(&format!("error{told}")), "{validated:?}");
        let store = format!("fs://{root}");
        let flags = ["--config-store-url", &store, "--address", "tcp://127.0.0.1:0", "--metrics-port", "0"];
        let diagnosed = mixer(&[&["doctor", "-o", "plain"], &flags[..]].concat());
        let finding = diagnosed.stdout.lines().find(|line| line.contains("configuration"));
        assert!(
            finding.is_some_and(|line| line.starts_with("fail") && line.contains(" 1 error, ")),
            "{diagnosed:?}"
        );
        let rehearsed = mixer(&[&["server", "--dry-run"], &flags[..]].concat());
        assert!(rehearsed.status == 3 && rehearsed.stdout.contains(" 1 error, 0 warnings"), "{rehearsed:?}");
        for mode in ["keep-last", "refuse"] {
            let server = Server::on(directory.path()).native().with(&["--config-on-error", mode]).start();
            let said = check(&server);
            assert!(
                said.contains("no configuration is served: ") && said.contains("bob.yaml,"),
                "{mode}: {said}"
            );
        }
        // As Istio Mixer the server serves the rest, and logs the same error.
        let server =
            Server::on(directory.path()).native().with(&["--config-on-error", "serve-valid"]).start();
        assert!(check(&server).contains("Check status was OK"), "{}", server.log());
        server.wait_for_log("\terror\t");
        let errors = server.log().lines().filter(|line| line.contains("\terror\t")).count();
        assert_eq!(errors, 1, "{}", server.log());
    }
}

/// What no build finds: labels that are not the dimensions, a refusal that refuses nothing, a name that is not in full, and a policy for proxies.
const SUSPICIOUS: &str = "apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: allow-all, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 0}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: \"1\", dimensions: {caller: source.user | \"\"}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: counts, namespace: istio-system}
spec:
  compiledAdapter: prometheus
  params:
    metrics:
    - {name: calls, instanceName: calls.instance.istio-system, kind: COUNTER, labelNames: [path]}
    - {name: others, instanceName: others, kind: COUNTER, labelNames: []}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: count, namespace: istio-system}
spec: {actions: [{handler: counts, instances: [calls]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: refuse, namespace: istio-system}
spec: {match: (source.user | \"\") == \"eve\", actions: [{handler: allow-all, instances: [caller]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: no-eve, namespace: istio-system}
spec: {action: DENY, rules: [{from: [{source: {principals: [eve]}}]}]}
";

/// A server, `validate`, `doctor`, `--dry-run`, ControlZ and the metrics have the same problems, and what a build does not find changes nothing of
/// what serves.
#[test]
fn a_server_and_every_command_tell_the_same() {
    let directory = tempfile::tempdir().expect("a directory");
    let put = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("writable");
    put("base.yaml", REFUSAL);
    put("more.yaml", SUSPICIOUS);
    let root = directory.path().display().to_string();
    let validated = mixer(&["validate", "-o", "json", &root]);
    let document: Value = serde_json::from_str(&validated.stdout).expect("JSON");
    let codes = |problems: &Value| -> Vec<String> {
        let codes = problems.as_array().into_iter().flatten();
        let mut codes: Vec<_> = codes.map(|p| p["code"].as_str().unwrap_or_default().to_owned()).collect();
        codes.sort();
        codes
    };
    let expected = codes(&document["diagnostics"]);
    assert_eq!(expected, ["denier-allows", "instance-name-unknown", "labels-differ", "policy-unenforced"]);
    assert_eq!(validated.status, 1);

    let store = format!("fs://{root}");
    let flags = ["--config-store-url", &store, "--address", "tcp://127.0.0.1:0", "--metrics-port", "0"];
    let diagnosed = mixer(&[&["doctor", "-o", "plain"], &flags[..]].concat());
    let finding = diagnosed.stdout.lines().find(|line| line.contains("configuration")).unwrap_or_default();
    assert!(finding.starts_with("fail") && finding.contains(" 1 error, 3 warnings"), "{diagnosed:?}");
    let rehearsed = mixer(&[&["server", "--dry-run", "--log-target=stderr"], &flags[..]].concat());
    assert!(rehearsed.status == 3 && rehearsed.stdout.contains(" 1 error, 3 warnings"), "{rehearsed:?}");
    assert!(
        rehearsed.stderr.contains("every report of calls.instance.istio-system will fail"),
        "{rehearsed:?}"
    );

    let server = Server::on(directory.path()).native().start();
    server.wait_for_log("every report of calls.instance.istio-system will fail");
    let log = server.log();
    for text in ["allows every check", "does not enforce it", "there is no instance `others`"] {
        let is_warned = log.lines().any(|line| line.contains("\twarn\t") && line.contains(text));
        assert!(is_warned, "{text}: {log}");
    }
    let page = |path: &str| {
        let url = format!("http://127.0.0.1:{}{path}", server.ports.ctrlz);
        http("GET", &url, "").expect("an answer").body
    };
    let problems: Value = serde_json::from_str(&page("/diagnosticsj/")).expect("JSON");
    assert_eq!(codes(&problems), expected);
    assert!(page("/configz/").contains("labels-differ") && page("/").contains("labels-differ"));
    assert_eq!(server.metric("mixer_diagnostics_total"), 4.0);
    let state = verbose(&server);
    assert_eq!(state["configuration"]["firstError"]["code"], "labels-differ", "{state}");
    let is_well = state["available"] == true && state["degraded"].get("configuration").is_none();
    assert!(is_well, "{state}");
    put("more.yaml", &denial("bob"));
    let mended = || (server.log().matches("no longer a problem: ").count() == 4).then_some(());
    assert!(wait_for(DEADLINE, mended).is_some(), "{}", server.log());
    assert_eq!(server.metric("mixer_diagnostics_total"), 0.0);
}

/// With `serve-valid`, and only with it, a link that leads nowhere leaves the rest serving; the server is not ready.
#[test]
fn a_dangling_link_at_the_start_is_not_ready() {
    for (mode, answer) in [("keep-last", "Unavailable"), ("serve-valid", "FAILED_PRECONDITION")] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("base.yaml"), REFUSAL).expect("writable");
        std::fs::write(path("bob.yaml"), denial("bob")).expect("writable");
        std::os::unix::fs::symlink("nowhere", path("carol.yaml")).expect("writable");
        let server = Server::on(directory.path()).native().with(&["--config-on-error", mode]).start();
        let is_ready = || http("GET", &server.monitoring_url("/readyz"), "").is_ok_and(|a| a.status == 200);
        let said = mixer(&["check", "-m", &server.address(), "-s", "source.user=bob"]).stdout;
        assert!(said.contains(answer), "{mode}: {said}");
        assert!(!is_ready(), "{mode}");
        std::fs::remove_file(path("carol.yaml")).expect("it is there");
        std::fs::write(path("carol.yaml"), denial("carol")).expect("writable");
        wait_until_denied(&server, "source.user=carol");
        assert!(wait_for(DEADLINE, || is_ready().then_some(())).is_some(), "{mode}\n{}", server.log());
    }
}

/// compat(1.3): what Istio Mixer reads past without a word is not logged when called as `mixs`; `mixer` logs it.
#[test]
fn mixs_does_not_log_what_istio_mixer_accepts() {
    let rule =
        |metadata: &str| denial("bob").replace("istio-system}", &format!("istio-system, {metadata}}}"));
    for (text, code) in [
        ("replicas: 2\nimage: {tag: a}\n".to_owned(), "document-identity"),
        (String::new(), "file-empty"),
        (rule("annotations: {mixer.io/default: deny}"), "annotation-unknown"),
        (rule("labels: {mixer.dev/default: deny}"), "document-field"),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("base.yaml"), REFUSAL).expect("writable");
        std::fs::write(directory.path().join("values.yaml"), &text).expect("writable");
        let is_told =
            |log: &str| log.lines().any(|line| line.contains("\terror\t") || line.contains("\twarn\t"));
        let legacy = Server::on(directory.path()).start();
        // Problems are logged before a configuration is published.
        legacy.wait_for_log("Built new config.Snapshot");
        assert!(!is_told(&legacy.log()), "{code}: {}", legacy.log());
        let native =
            Server::on(directory.path()).native().with(&["--config-on-error", "serve-valid"]).start();
        native.wait_for_log(code);
        assert!(is_told(&native.log()), "{code}: {}", native.log());
    }
}

/// The cache of one store is not replaced by another, which may be a mistake: the sample in the place of a variable that is not set. Nor does
/// that serve, which would open what the store closes.
#[test]
fn the_cache_of_another_store_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let (root, cache) = (directory.path().join("conf"), directory.path().join("cache"));
    std::fs::create_dir(&root).expect("writable");
    copy_of_the_sample(&root);
    let flags = ["--config-cache".to_owned(), cache.display().to_string()];
    let mut server = Server::on(&root).native().with(&flags).start();
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let file = cache.join("last-good.cache");
    let before = std::fs::read(&file).expect("the cache is there");
    let differs = format!(
        "is not used: it is of the store fs://{}, and this server has embedded://sample; it is not replaced",
        root.display()
    );
    let mut server = Server::on_store("embedded://sample").native().with(&flags).spawn().expect("it starts");
    server.wait_for_log(&differs);
    server.wait_for_log("choose another --config-cache, or delete the file");
    assert!(check(&server).contains("Unavailable"), "{}", check(&server));
    let state = verbose(&server);
    assert_eq!(
        (&state["available"], &state["configuration"]["store"]),
        (&false.into(), &"embedded://sample".into())
    );
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    // Of the same store, but the rules of the mesh would be others.
    let namespace = ["--config-default-namespace", "istio-sytem"];
    let mut server = Server::on(&root).native().with(&flags).with(&namespace).spawn().expect("it starts");
    server.wait_for_log("it is of the default namespace istio-system, and this server has istio-sytem");
    server.wait_for_log("correct --config-default-namespace; or");
    assert!(check(&server).contains("Unavailable"), "{}", check(&server));
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    assert_eq!(std::fs::read(&file).expect("the cache is there"), before);
    let url = ["--config-store-url", "embedded://sample"];
    let examined = mixer(&[&["doctor", "--config-cache", &flags[1]], &url[..]].concat());
    assert!(examined.stdout.contains("it is not replaced"), "{examined:?}");
    std::fs::remove_file(&file).expect("it is ours");
    let mut server = Server::on_store("embedded://sample").native().with(&flags).start();
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    assert!(file.exists());
}

/// With `serve-valid` what a rule refused is allowed while it has an error: every interface tells, as does a dry run.
#[test]
fn what_serve_valid_leaves_out_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    copy_of_the_sample(directory.path());
    let policy = ["--config-on-error", "serve-valid"];
    let server = Server::on(directory.path()).native().with(&policy).start();
    assert!(check(&server).contains("PERMISSION_DENIED"), "{}", server.log());
    assert_eq!(verbose(&server)["degraded"], serde_json::json!({}), "{}", server.log());
    edit(&directory.path().join("deny.yaml"), "handler: turn-away", "handler: turn-awya");
    let why = "what has an error does not serve (serve-valid): ";
    let told = wait_for(DEADLINE, || {
        let state = verbose(&server);
        state["degraded"]["configuration"]["why"].as_str()?.starts_with(why).then_some(state)
    });
    let state = told.unwrap_or_else(|| panic!("{}\n{}", verbose(&server), server.log()));
    assert_eq!(state["configuration"]["onConfigError"], "serve-valid");
    let metrics = http("GET", &server.monitoring_url("/metrics"), "").expect("metrics").body;
    assert!(metrics.contains("mixer_on_config_error{policy=\"serve-valid\"} 1"), "{metrics}");
    assert!(metrics.contains("mixer_component_degraded{component=\"configuration\"} 1"), "{metrics}");
    let page = http("GET", &format!("http://127.0.0.1:{}/configz/", server.ports.ctrlz), "").expect("a page");
    assert!(page.body.contains("serve-valid"), "{}", page.body);
    let store = format!("fs://{}", directory.path().display());
    let [monitoring, metrics, ctrlz] = [(); 3].map(|()| free_port().to_string());
    let flags = ["server", "--dry-run", "--config-store-url", &store, "--address", "tcp://127.0.0.1:0"];
    let ports = ["--monitoring-port", &monitoring, "--metrics-port", &metrics, "--ctrlz-port", &ctrlz];
    let rehearsed = mixer(&[&flags[..], &policy, &ports].concat());
    assert_eq!(rehearsed.status, 3, "{rehearsed:?}");
    assert!(rehearsed.stdout.contains(&format!("  degraded       configuration: {why}")), "{rehearsed:?}");
    // Without a last good version, keep-last serves nothing.
    let rehearsed = mixer(&[&flags[..], &ports].concat());
    assert!(rehearsed.stdout.contains("not ready, UNAVAILABLE: "), "{rehearsed:?}");
}

#[test]
fn what_a_change_removes_is_logged() {
    let directory = tempfile::tempdir().expect("a directory");
    copy_of_the_sample(directory.path());
    let server = Server::on(directory.path()).native().start();
    assert!(check(&server).contains("PERMISSION_DENIED"), "{}", server.log());
    std::fs::remove_file(directory.path().join("deny.yaml")).expect("it is there");
    server.wait_for_log("removed: unwelcome-client.rule.istio-system, which may have refused calls");
    server.wait_for_log("removed: turn-away.handler.istio-system");
    let log = server.log();
    let line = log.lines().find(|line| line.contains("removed: unwelcome-client")).unwrap_or_default();
    assert!(line.contains("warn") && line.contains("deny.yaml"), "{line}");
}

/// Two attributes by which rules refuse, one of them in an instance, and one that is only reported.
const MAPPED: &str = "kind: attributemanifest
metadata: {name: own, namespace: istio-system}
spec: {attributes: {request.level: {valueType: INT64}, request.note: {valueType: STRING}, request.tenant: {valueType: STRING}}}
---
kind: handler
metadata: {name: deny, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7}}}
---
kind: handler
metadata: {name: list, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {overrides: [eve], blacklist: true}}
---
kind: handler
metadata: {name: log, namespace: istio-system}
spec: {compiledAdapter: stdio}
---
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
kind: instance
metadata: {name: tenant, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: request.tenant | \"\"}}
---
kind: instance
metadata: {name: line, namespace: istio-system}
spec: {compiledTemplate: logentry, params: {severity: '\"info\"', variables: {note: request.note | \"\"}}}
---
kind: rule
metadata: {name: levels, namespace: istio-system}
spec: {match: (request.level | 0) > 5, actions: [{handler: deny, instances: [nothing]}]}
---
kind: rule
metadata: {name: tenants, namespace: istio-system}
spec: {actions: [{handler: list, instances: [tenant]}]}
---
kind: rule
metadata: {name: log, namespace: istio-system}
spec: {actions: [{handler: log, instances: [line]}]}
---
kind: attributemapping
metadata: {name: own, namespace: istio-system}
spec:
  mappings:
  - {attribute: request.reason, from: {queryParameter: reason}}
";

#[test]
fn a_mapping_that_a_change_removes_is_logged_if_calls_may_be_refused_by_its_attribute() {
    let directory = tempfile::tempdir().expect("a directory");
    let of = |name: &str| format!("  - {{attribute: request.{name}, from: {{queryParameter: {name}}}}}\n");
    let mapped = format!("{MAPPED}{}{}{}", of("level"), of("note"), of("tenant"));
    let file = directory.path().join("policy.yaml");
    std::fs::write(&file, &mapped).expect("writable");
    let server = Server::on(directory.path()).native().start();
    edit(&file, &mapped, MAPPED);
    for name in ["level", "tenant"] {
        server.wait_for_log(&format!(
            "removed: request.{name} of own.attributemapping.istio-system, by which calls may have been refused"
        ));
    }
    let log = server.log();
    let line = log.lines().find(|line| line.contains("removed: request.level")).unwrap_or_default();
    assert!(line.contains("warn") && line.contains("policy.yaml"), "{line}");
    assert!(!log.contains("removed: request.note"), "it is only reported: {log}");
}

#[test]
fn a_server_without_any_configuration_is_degraded() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::on(directory.path()).native().with(&["--allow-empty-config"]).start();
    let told =
        wait_for(DEADLINE, || verbose(&server)["degraded"]["store-empty"]["why"].as_str().map(str::to_owned));
    assert!(told.is_some_and(|why| why.contains("every call is allowed")), "{}", verbose(&server));
    copy_of_the_sample(directory.path());
    let over = wait_for(DEADLINE, || verbose(&server)["degraded"]["store-empty"].is_null().then_some(()));
    assert!(over.is_some(), "{}", verbose(&server));
}

/// What an adapter rejects has the place that `validate` tells, and the cure: also where there is no version from before.
#[test]
fn what_an_adapter_rejects_at_a_first_start_is_told_with_place_and_cure() {
    const REST: &str = "
---
kind: instance
metadata: {name: address, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: source.ip}}
---
kind: rule
metadata: {name: networks, namespace: istio-system}
spec: {actions: [{handler: networks, instances: [address]}]}
";
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("networks.yaml");
    let name = file.display();
    for (params, column, message, hint) in [
        (
            "{entryType: IP_ADDRESSES, overrides: [10.0.0.0/8, 10.1.0.0/99]}",
            61,
            "overrides: could not parse ip address override 10.1.0.0/99: invalid CIDR address: 10.1.0.0/99",
            "the length of an IPv4 network is a number from 0 to 32: `10.1.0.0/32` is the address alone",
        ),
        (
            "{entryType: REGEX, overrides: [\"*.php\"]}",
            42,
            "overrides: could not parse regex override *.php: error parsing regexp: missing argument to repetition operator: `*`",
            "an entry is a regular expression, in which `.*` is any text",
        ),
        // It is found out when the handler is built.
        (
            "{providerUrl: \"ftp://lists/denied\"}",
            25,
            "providerUrl: the scheme `ftp` is not supported",
            "write `http://` or `https://`",
        ),
    ] {
        let handler = format!(
            "kind: handler\nmetadata: {{name: networks, namespace: istio-system}}\nspec:\n  compiledAdapter: listchecker\n  params: {params}"
        );
        std::fs::write(&file, format!("{handler}{REST}")).expect("writable");
        let server = Server::on(directory.path()).native().start();
        let state = verbose(&server);
        let first = &state["configuration"]["firstError"];
        let expected = serde_json::json!({
            "code": "handler-build",
            "resource": "networks.handler.istio-system",
            "file": name.to_string(),
            "line": 5,
            "column": column,
            "message": message,
            "hint": hint,
        });
        assert_eq!(*first, expected, "{}", server.log());
        let withheld = format!("{name}:5: networks.handler.istio-system: {message} ({hint})");
        assert_eq!(state["configuration"]["withheld"], withheld);
        let validated = mixer(&["validate", &directory.path().display().to_string(), "-o", "json"]);
        let found: Value = serde_json::from_str(&validated.stdout).expect("JSON");
        let problem = &found["diagnostics"][0];
        assert_eq!((&problem["line"], &problem["column"]), (&first["line"], &first["column"]), "{found}");
        assert_eq!(problem["hint"], hint, "{found}");
    }
}
