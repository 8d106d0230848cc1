//! Secrets in what `validate` tells of a configuration with errors.

use crate::run;

/// Values that must not be shown begin like this.
const SECRET: &str = "hunter2";

const DOCUMENTS: [&str; 5] = [
    "kind: instance
metadata: {name: unparsed, namespace: istio-system}
spec:
  compiledTemplate: apikey
  params: {api: '\"shop\"', apiKey: hunter2a hunter2b}
",
    "kind: instance
metadata: {name: unknown, namespace: istio-system}
spec:
  compiledTemplate: apikey
  params: {api: '\"shop\"', apiKey: hunter2word}
",
    "kind: handler
metadata: {name: quota, namespace: istio-system}
spec:
  compiledAdapter: redisquota
  params: {redisServerUrl: 'redis://hunter2user:hunter2@host:port:port', quotas: [{name: q.instance.istio-system, maxAmount: 1, validDuration: 1s}]}
",
    "kind: handler
metadata: {name: quotas, namespace: istio-system}
spec:
  compiledAdapter: redisquota
  params: {redisServerUrl: 'redis://hunter2user:hunter2/x@host:port', quotas: [{name: q.instance.istio-system, maxAmount: 1, validDuration: 1s}]}
",
    "kind: handler
metadata: {name: list, namespace: istio-system}
spec:
  compiledAdapter: listchecker
  params: {providerUrl: 'https://hunter2user:hunter2@[bad'}
",
];

#[test]
fn nothing_that_validate_tells_repeats_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.yaml");
    for document in DOCUMENTS {
        std::fs::write(&path, format!("apiVersion: config.istio.io/v1alpha2\n{document}")).unwrap();
        for format in ["table", "text", "plain", "json", "yaml", "github", "sarif"] {
            let told = run(&["mixer", "validate", "-o", format, &directory.path().display().to_string()]);
            let (out, err) = (&told.out, &told.err);
            assert!(!out.contains(SECRET) && !err.contains(SECRET), "{format}: {document}{out}{err}");
            assert!(format != "table" || out.contains("***"), "{format}: {document}{out}{err}");
            assert!(out.contains("istio-system"), "a problem is told: {format}: {document}{out}{err}");
        }
    }
}
