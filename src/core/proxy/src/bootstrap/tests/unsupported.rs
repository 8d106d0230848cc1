//! Fields of Envoy that are not supported: each is refused by its name, with its path, line and column.

use super::*;

const CASES: &str = include_str!("unsupported.txt");

/// A bootstrap with a place, in angle brackets, for other fields in each message.
const BASE: &str = "node: {id: a}<bootstrap>
static_resources:
  clusters:
  - {name: c, connect_timeout: 1s, load_assignment: {cluster_name: c<assignment>}<cluster>}<static>
  listeners:
  - name: l
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: h
        typed_config:
          '@type': $MANAGER
          stat_prefix: s
          http_filters: [<filter>{name: r, typed_config: {'@type': $ROUTER<router>}}]
          route_config:
            name: t
            virtual_hosts:
            - name: v
              domains: ['*']
              routes:
              - {match: {prefix: /<match>}, route: {cluster: c<action>}<route>}
              - {match: {prefix: /w}, route: {weighted_clusters: {clusters: [{name: c, weight: 1<weight>}]<weighted>}}}
              - {match: {prefix: /c}, route: {<choice>}}
              - {match: {prefix: /d}, direct_response: {status: 200<direct>}}
              - {match: {prefix: /r}, redirect: {https_redirect: true<redirect>}}<host><table><manager><chain><listener>
";

/// How fields of the messages that are written in lines are separated from what is before.
const LINES: [(&str, &str); 7] = [
    ("bootstrap", "\n"),
    ("static", "\n  "),
    ("host", "\n              "),
    ("table", "\n            "),
    ("manager", "\n          "),
    ("chain", "\n      "),
    ("listener", "\n    "),
];

/// The bootstrap with a field at a place.
fn with(place: &str, field: &str) -> String {
    let lines = LINES.iter().find(|(name, _)| *name == place);
    let written = match (place, lines) {
        (_, Some((_, between))) => format!("{between}{field}"),
        ("choice", None) => field.to_owned(),
        ("filter", None) => format!("{field}, "),
        _ => format!(", {field}"),
    };
    assert!(BASE.contains(&format!("<{place}>")), "{place}");
    let text = BASE.replace(&format!("<{place}>"), &written);
    // Without one, the route has none of the clusters that it could have.
    let text = text.replace("<choice>", "cluster: c");
    let rest = CASES.lines().filter_map(|line| Some(line.split_once(" | ")?.0));
    let text = rest.fold(text, |text, other| text.replace(&format!("<{other}>"), ""));
    expanded(&text)
}

/// The text with the types that it names.
fn expanded(text: &str) -> String {
    let of = |name: &str| format!("type.googleapis.com/envoy.extensions.{name}");
    text.replace("$MANAGER", MANAGER)
        .replace("$ROUTER", ROUTER)
        .replace("$TLS", &of("transport_sockets.tls.v3.DownstreamTlsContext"))
        .replace("$FILE", &of("access_loggers.file.v3.FileAccessLog"))
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let (bootstrap, _) = read(&with("bootstrap", "{}").replace("\n{}", ""), "b.yaml").unwrap();
    assert_eq!(bootstrap.listeners.len(), 1);
    let mut count = 0;
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split(" | ").collect();
        let [place, field, path] = parts[..] else { panic!("{line}") };
        let text = with(place, field);
        let problems = read(&text, "b.yaml").expect_err(line);
        let found = problems.iter().find(|problem| {
            problem.severity == mixer_config::Severity::Error && problem.message.contains("not supported")
        });
        let found = found.unwrap_or_else(|| panic!("{line}: {problems:?}"));
        let shown = found.field.to_string();
        assert!(shown.ends_with(path), "{line}: {shown}");
        // The line on which it is written.
        let written = text.lines().position(|line| line.contains(&expanded(field))).expect("it is there") + 1;
        let start = found.span.expect(line).start;
        assert_eq!(usize::try_from(start.line), Ok(written), "{line}");
        assert!(start.column > 1 || matches!(place, "bootstrap"), "{line}");
        count += 1;
    }
    assert!(count >= 180, "{count}");
}
