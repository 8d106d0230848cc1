//! A server on the sample configuration and an invalid rule, with traffic.

use crate::support::browser::Browser;
use crate::support::{DEADLINE, Server, http, programs, run, sample_configuration};

/// A rule with two errors.
pub(crate) const INVALID_RULE: &str = r#"apiVersion: config.istio.io/v1alpha2
kind: rule
metadata:
  name: only-ann
  namespace: istio-system
spec:
  match: source.user = = "ann"
  actions:
  - handler: gate-keeper
    instances: [caller]
"#;

/// An environment variable of every server here.
pub(crate) const SECRET: (&str, &str) = ("BACKEND_PASSWORD", "open sesame");

/// A server and its configuration directory.
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) configuration: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new(more: &[&str]) -> Self {
        let configuration = tempfile::Builder::new().prefix("mixer-conf").tempdir().unwrap();
        for entry in std::fs::read_dir(sample_configuration()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), configuration.path().join(entry.file_name())).unwrap();
        }
        std::fs::write(configuration.path().join("only-ann.yaml"), INVALID_RULE).unwrap();
        let server = Server::on(configuration.path());
        // Pictures show the product under its name.
        let server = match Browser::writes_pictures() {
            true => {
                server.native().with(&["--num-check-cache-entries=1000", "--config-on-error=serve-valid"])
            }
            false => server.with(&["--numCheckCacheEntries=1000"]),
        };
        let server = server.with(more);
        let server = server.env(SECRET.0, SECRET.1).start();
        Self { server, configuration }
    }

    pub(crate) fn call(&self, arguments: &[&str]) {
        let mut all = vec![arguments[0].to_owned(), "--mixer".to_owned(), self.server.address()];
        all.extend(arguments[1..].iter().map(|a| (*a).to_owned()));
        let done = run(&programs().path("mixc"), &all, &[], None, None, DEADLINE).unwrap();
        assert_eq!(done.status, 0, "{}", done.stderr);
    }

    pub(crate) fn traffic(&self) {
        let name = "source.name=web,destination.service=reviews";
        self.call(&["check", "-r", "200", "-s", name, "-q", "request-count=1"]);
        let refused = "request.headers=clnt:abc;authorization:Bearer 123";
        self.call(&["check", "-r", "3", "-s", name, "--stringmap_attributes", refused]);
        let report = "context.protocol=http,source.workload.name=web,destination.service.host=reviews";
        self.call(&["report", "-r", "20", "-s", report, "-t", "request.time=2019-01-02T03:04:05Z"]);
    }

    /// The calls of a busy client in about a second.
    pub(crate) fn calls_of(&self, caller: &str) {
        let names = format!("source.name={caller},destination.service=reviews.shop.svc.cluster.local");
        let quiet = ["--rate", "400", "--print_response=false", "-s", &names];
        let with = |first: &[&str], more: &[&str]| self.call(&[first, &quiet, more].concat());
        with(&["check", "-r", "300"], &["-q", "request-count=1"]);
        let refused = "request.headers=clnt:abc;:path:/cart;authorization:Bearer 123";
        with(&["check", "-r", "2"], &["--stringmap_attributes", refused]);
        let closed = format!("source.name={caller},destination.service=closed.ns.svc.cluster.local");
        self.call(&["check", "-s", &closed]);
        let reported =
            format!("context.protocol=http,source.workload.name={caller},destination.service.host=reviews");
        self.call(&["report", "-r", "30", "-s", &reported, "-t", "request.time=2019-01-02T03:04:05Z"]);
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.server.ports.ctrlz)
    }
}

pub(crate) fn get_json(url: &str) -> serde_json::Value {
    serde_json::from_str(&http("GET", url, "").unwrap().body).unwrap()
}
