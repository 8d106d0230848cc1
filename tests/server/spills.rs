//! Entries that are kept on disk, or are to be: directories of several handlers, what earlier handlers left, and stops while something hangs.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::on_config_error::verbose;
use crate::support::sending::{WORDS, count, deliveries, delivery, handler, report, until};
use crate::support::{DEADLINE, Server, http, run_mixer, wait_for};

/// A fluentd handler whose server is not there, with a directory.
fn fluentd(name: &str, directory: &Path) -> String {
    let directory = directory.display();
    let params = format!("address: '127.0.0.1:1', pushIntervalDuration: 10ms, spillDirectory: '{directory}'");
    handler(name, "entry", "fluentd", &params)
}

fn first_error(server: &Server) -> Value {
    verbose(server)["configuration"]["firstError"].clone()
}

/// The handlers that have a sender.
fn senders(server: &Server) -> Vec<String> {
    let list = deliveries(server);
    let live = list.as_array().unwrap().iter().filter(|of| of["name"] == "fluentd sender");
    live.filter(|of| of["state"] != "left").map(|of| of["detail"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_directory_of_another_handler_is_an_error_of_the_one_that_is_new() {
    let [directory, spill] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [new, old] = ["0.yaml", "config.yaml"].map(|name| directory.path().join(name));
    let path = spill.path().join("kept");
    std::fs::write(&old, format!("{WORDS}{}", fluentd("old", &path))).unwrap();
    let mut server = Server::on(directory.path()).native().start();
    assert_eq!(senders(&server), ["old.istio-system"]);
    for (written, code) in [
        (spill.path().join("./kept/"), "spill-shared"),
        (path.join("below"), "spill-nested"),
        (spill.path().to_owned(), "spill-nested"),
    ] {
        std::fs::write(&new, fluentd("new", &written)).unwrap();
        let shown = format!("`{}`", written.display());
        let told = || {
            let error = first_error(&server);
            (error["code"] == code && error["message"].as_str()?.contains(&shown)).then_some(error)
        };
        let error = wait_for(DEADLINE, told).unwrap_or_else(|| panic!("{code}: {}", server.log()));
        assert_eq!(error["resource"], "new.handler.istio-system", "{error}");
        assert_eq!(
            (&error["file"], &error["line"]),
            (&new.display().to_string().into(), &5.into()),
            "{error}"
        );
        let (message, hint) = (error["message"].as_str().unwrap(), error["hint"].as_str().unwrap());
        let other = format!("`old.handler.istio-system` (at {}:", old.display());
        assert!(message.contains(&other), "{message}");
        assert!(hint.starts_with("give each handler a directory of its own, for example `"), "{hint}");
        let state = verbose(&server);
        assert_eq!(state["available"], true, "{state}");
        assert_eq!(senders(&server), ["old.istio-system"], "the old one keeps it");
        let handlers =
            http("GET", &format!("http://127.0.0.1:{}/handlerj/", server.ports.ctrlz), "").unwrap().body;
        let handlers: Value = serde_json::from_str(&handlers).unwrap();
        let failed = handlers.as_array().unwrap().iter().find(|one| one["state"] == "failed").cloned();
        assert_eq!(failed.unwrap_or_default()["trouble"], message, "{handlers}");
        server.wait_for_log(message);
        let validated = run_mixer(&["validate", &directory.path().display().to_string(), "-o", "json"]);
        assert!(validated.stdout.contains(code), "{}", validated.stdout);
    }
    // A start knows none of the two.
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    let server = Server::on(directory.path()).native().start();
    assert_eq!(first_error(&server)["resource"], "old.handler.istio-system", "{}", server.log());
    assert_eq!(senders(&server), ["new.istio-system"]);
    std::fs::write(&new, fluentd("new", &spill.path().join("other"))).unwrap();
    let mended = || (senders(&server) == ["new.istio-system", "old.istio-system"]).then_some(());
    assert!(wait_for(DEADLINE, mended).is_some(), "{}", server.log());
    assert_eq!(first_error(&server), Value::Null);
}

/// What `doctor` says of a server with these flags about entries that nobody sends.
fn diagnosed(directory: &Path, more: &[&str], server: Option<&Server>) -> Vec<String> {
    let config = format!("fs://{}", directory.display());
    let mut flags = vec!["doctor".to_owned(), "--config-store-url".to_owned(), config];
    if let Some(server) = server {
        let ports = server.ports;
        for (flag, port) in [
            ("--port", ports.api),
            ("--monitoring-port", ports.monitoring),
            ("--metrics-port", ports.metrics),
            ("--ctrlz-port", ports.ctrlz),
        ] {
            flags.extend([flag.to_owned(), port.to_string()]);
        }
    } else {
        // Nobody listens there.
        flags.extend(["--monitoring-port".to_owned(), crate::support::free_port().to_string()]);
    }
    flags.extend(more.iter().map(|flag| (*flag).to_owned()));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let told = run_mixer(&flags).stdout;
    told.lines().filter(|line| line.contains("no handler sends what is in")).map(str::to_owned).collect()
}

#[test]
fn what_a_handler_left_is_told_by_later_servers_that_do_not_have_it() {
    let [directory, spill, cache] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let config = directory.path().join("config.yaml");
    let [one, two] = ["one", "two"].map(|name| spill.path().join(name));
    let cache = cache.path().join("cache").display().to_string();
    let with_cache = ["--config-cache", cache.as_str()];
    std::fs::write(&config, format!("{WORDS}{}", fluentd("one", &one))).unwrap();
    let start = |flags: &[&str]| Server::on(directory.path()).native().with(flags).start();
    let mut server = start(&with_cache);
    report(&server, 0..100, "/");
    until(&server, "fluentd sender", "entries are on disk", |of| {
        count(of, "queued") == 0 && count(of, "spilled") + count(of, "inFlight") == 100
    });
    assert!(diagnosed(directory.path(), &with_cache, Some(&server)).is_empty(), "they are sent");
    // Until the directory is remembered.
    let remembered = || std::fs::read_to_string(Path::new(&cache).join("spill-directories")).ok();
    assert!(wait_for(DEADLINE, remembered).is_some(), "{}", server.log());
    assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    for (handlers, flags) in [
        // It is beside another one.
        (fluentd("two", &two), &[][..]),
        // It is remembered.
        (String::new(), &with_cache[..]),
    ] {
        std::fs::write(&config, format!("{WORDS}{handlers}")).unwrap();
        let told = diagnosed(directory.path(), flags, None);
        assert!(
            matches!(&told[..], [line] if line.contains("100 items of one.istio-system of adapter fluentd")),
            "{told:?}"
        );
        // The first one may serve what the cache has, for a while.
        let mut first = start(flags);
        first.wait_for_log("stay on disk and are not sent");
        assert_eq!(first.terminate(), Ok(Some(0)), "{}", first.log());
        let mut server = start(flags);
        server.wait_for_log("100 items of one.istio-system of adapter fluentd stay on disk and are not sent");
        let left = wait_for(DEADLINE, || Some(delivery(&server, "spill")).filter(|of| of["state"] == "left"));
        let left = left.unwrap_or_else(|| panic!("{}", deliveries(&server)));
        assert_eq!(
            (&left["detail"], count(&left, "onDisk")),
            (&"one.istio-system of adapter fluentd".into(), 100)
        );
        assert!(left["trouble"].as_str().unwrap().contains(&one.display().to_string()), "{left}");
        let told = diagnosed(directory.path(), flags, Some(&server));
        assert!(
            matches!(&told[..], [line] if line.contains("100 items of one.istio-system of adapter fluentd")),
            "{told:?}"
        );
        // The cure.
        std::fs::write(&config, format!("{WORDS}{handlers}{}", fluentd("one", &one))).unwrap();
        let taken = || {
            let list = deliveries(&server);
            let all = list.as_array().unwrap();
            let recovered = all.iter().find(|of| of["detail"] == "one.istio-system")?["recovered"] == 100;
            (recovered && all.iter().all(|of| of["state"] != "left")).then_some(())
        };
        assert!(wait_for(DEADLINE, taken).is_some(), "{}", deliveries(&server));
        assert_eq!(server.terminate(), Ok(Some(0)), "{}", server.log());
    }
}

/// A fluentd handler whose server accepts and never answers, so that nothing is delivered.
fn silent(listener: &TcpListener, wait: &str) -> String {
    let address = listener.local_addr().unwrap();
    let params = format!("address: '{address}', acknowledge: true, pushIntervalDuration: {wait}");
    handler("silent", "entry", "fluentd", &params)
}

const LIMIT: Duration = Duration::from_secs(4);

/// Stops a server with a limit of [`LIMIT`]. Returns its exit status.
fn stop_in_time(server: &mut Server) -> Option<i32> {
    let started = Instant::now();
    let status = server.terminate().unwrap_or_else(|error| panic!("{error}\n{}", server.log()));
    // What is abandoned is given half a second more, and threads two.
    assert!(started.elapsed() < LIMIT + Duration::from_secs(5), "{:?}\n{}", started.elapsed(), server.log());
    status
}

#[test]
fn a_build_that_hangs_at_the_stop_hides_no_loss() {
    let directory = tempfile::tempdir().unwrap();
    let [listener, provider] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    std::fs::write(directory.path().join("config.yaml"), format!("{WORDS}{}", silent(&listener, "10ms")))
        .unwrap();
    let mut server = Server::on(directory.path()).native().with(&["--shutdown-timeout", "4s"]).start();
    report(&server, 0..50, "/");
    until(&server, "fluentd sender", "entries wait", |of| count(of, "queued") + count(of, "inFlight") == 50);
    let list = format!(
        "---\napiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {{name: who, namespace: istio-system}}\n\
         spec: {{compiledTemplate: listentry, params: {{value: '\"ann\"'}}}}\n{}",
        handler(
            "list",
            "who",
            "listchecker",
            &format!("providerUrl: 'http://{}/list'", provider.local_addr().unwrap())
        )
    );
    std::fs::write(directory.path().join("list.yaml"), list).unwrap();
    // Its answer never comes.
    provider.set_nonblocking(true).unwrap();
    let asked = wait_for(DEADLINE, || provider.accept().ok());
    assert!(asked.is_some(), "{}", server.log());
    stop_in_time(&mut server);
    let log = server.log();
    assert!(log.contains("50 items were neither delivered nor kept at the stop"), "{log}");
    let last = log.lines().find(|line| line.contains("not all items were delivered")).unwrap_or_default();
    for count in ["accepted", "closed"] {
        assert!(last.contains(&format!("\"{count}\": 50")), "{log}");
    }
}

#[test]
fn a_replaced_handler_that_hangs_at_the_stop_hides_no_loss() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = directory.path().join("config.yaml");
    std::fs::write(&config, format!("{WORDS}{}", silent(&listener, "10ms"))).unwrap();
    let mut server = Server::on(directory.path()).native().with(&["--shutdown-timeout", "4s"]).start();
    report(&server, 0..50, "/");
    until(&server, "fluentd sender", "entries wait", |of| count(of, "queued") + count(of, "inFlight") == 50);
    std::fs::write(&config, format!("{WORDS}{}", silent(&listener, "20ms"))).unwrap();
    let both = || (senders(&server).len() == 2).then_some(());
    assert!(wait_for(DEADLINE, both).is_some(), "the old one is being closed: {}", server.log());
    stop_in_time(&mut server);
    let log = server.log();
    assert!(log.contains("50 items were neither delivered nor kept at the stop"), "{log}");
    let last = log.lines().find(|line| line.contains("not all items were delivered")).unwrap_or_default();
    for count in ["accepted", "closed"] {
        assert!(last.contains(&format!("\"{count}\": 50")), "{log}");
    }
}
