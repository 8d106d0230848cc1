//! The example of examples/mesh.

use std::path::Path;

use regex::Regex;

use crate::support::{DEADLINE, free_port, rotel, run};

/// What the script takes from its environment.
const PORTS: [&str; 14] = [
    "OUTBOUND_PORT",
    "INBOUND_PORT",
    "APP_PORT",
    "OUTBOUND_ADMIN_PORT",
    "INBOUND_ADMIN_PORT",
    "SINK_PORT",
    "CTRLZ_PORT",
    "GALLEY_MONITORING_PORT",
    "MIXER_PORT",
    "MONITORING_PORT",
    "METRICS_PORT",
    "PROMETHEUS_PORT",
    "COLLECTOR_PORT",
    "COLLECTOR_HTTP_PORT",
];

/// What it prints, in this order. Ports, ids and counts differ.
const PRINTED: [&str; 16] = [
    r"== the server has the configuration of galley's directory\n  acknowledged by 1 sink\n",
    // The app does not see what the proxies tell each other.
    r"curl \S+/orders\n  200 orders of /orders, without attributes of proxies\n",
    r"curl \S+/admin\n  403 PERMISSION_DENIED:closed\.istio-system:this part is closed\n",
    r"== without a certificate nobody reaches the app\n.*\n  refused\n",
    r"== a policy change takes effect: .*\n.* sed .*\n.* mixer galley wait \d+\n  acknowledged by 1 sink\n",
    r"curl \S+/orders\n  403 PERMISSION_DENIED:callers\.istio-system:mesh\.example/ns/front/sa/web is not whitelisted\n",
    r"== and is taken back\n.* sed .*\n.* mixer galley wait \d+\n  acknowledged by 1 sink\n",
    r"curl \S+/orders\n  200 orders of /orders, without attributes of proxies\n",
    r"== metrics in Prometheus: every target is scraped\n(  \{__name__=up, .*\} 1\n){5}==",
    r"  answered with 200: \d+\n  answered with 403: \d+\n",
    // The client's proxy knows its own workload; that of the app knows it by what that one told, and by its certificate.
    r"\{code=200, destination=orders\.shop\.svc\.cluster\.local, mtls=false, reporter=outbound, source=kubernetes://web-1\.front, source_principal=unknown\} \d+\n",
    r"\{code=200, destination=orders\.shop\.svc\.cluster\.local, mtls=true, reporter=inbound, source=kubernetes://web-1\.front, source_principal=mesh\.example/ns/front/sa/web\} \d+\n",
    r"\{code=403, .* mtls=true, reporter=inbound, .*\} \d+\n",
    r"== a trace in the collector: .*\n.*\n  200 orders of /orders, .*\n(  kind=SPAN_KIND_(CLIENT|SERVER) name=/orders id=\w{16} parent-id=(\w{16})?\n){2}==",
    r"  kind=SPAN_KIND_SERVER name=/istio\.mixer\.v1\.Mixer/Check id=\w{16} parent-id=\n  kind=SPAN_KIND_INTERNAL name=listentry:callers\.istio-system\(listchecker\) id=\w{16} parent-id=\w{16}\n  kind=SPAN_KIND_INTERNAL name=checknothing:closed\.istio-system\(denier\) id=\w{16} parent-id=\w{16}\n",
    r"== everything has stopped\n",
];

/// The first capture of an expression in what was printed.
fn found<'p>(expression: &str, printed: &'p str) -> &'p str {
    let found = Regex::new(expression).expect("an expression").captures(printed);
    found.and_then(|found| found.get(1)).unwrap_or_else(|| panic!("{expression}\n{printed}")).as_str()
}

#[test]
fn the_mesh_runs_with_one_command() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/mesh/run.sh");
    let mut environment = vec![
        ("MIXER".to_owned(), env!("CARGO_BIN_EXE_mixer").to_owned()),
        ("ROTEL".to_owned(), rotel().display().to_string()),
    ];
    environment.extend(PORTS.map(|name| (name.to_owned(), free_port().to_string())));
    let finished = run(&script, &[], &environment, None, None, 3 * DEADLINE).expect("it ends");
    let printed = &finished.stdout;
    assert_eq!(finished.status, 0, "{printed}{}", finished.stderr);
    let mut rest = printed.as_str();
    for part in PRINTED {
        let at = Regex::new(part).expect("an expression").find(rest);
        let at = at.unwrap_or_else(|| panic!("{part} is missing or out of order:\n{printed}"));
        // The heading that ends a part may begin the next one.
        rest = &rest[at.end() - if part.ends_with("==") { 2 } else { 0 }..];
    }
    // Both proxies count what the client got, and Prometheus has it.
    for code in ["200", "403"] {
        let answered = found(&format!(r"answered with {code}: (\d+)\n"), printed);
        for reporter in ["outbound", "inbound"] {
            let counted = found(&format!(r"\{{code={code}, .* reporter={reporter}, .*\}} (\d+)\n"), printed);
            assert_eq!(counted, answered, "{code} {reporter}\n{printed}");
        }
    }
    let answered: u32 = found(r"answered with 200: (\d+)\n", printed).parse().expect("a number");
    assert!(answered >= 12, "{printed}");
    // One trace: the server's span is below the client's.
    let client = found(r"KIND_CLIENT name=/orders id=(\w+) ", printed);
    assert_eq!(found(r"KIND_SERVER name=/orders id=\w+ parent-id=(\w+)\n", printed), client);
}
