//! The configuration that tests of mistakes begin with: bob is denied.

use mixer_engine::runtime::OnConfigError;

use crate::stage::Files;

pub(crate) const MANIFEST: &str = "kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec: {attributes: {source.user: {valueType: STRING}}}
";

/// Denies bob.
pub(crate) const HANDLER: &str = "kind: handler
metadata: {name: closed-list, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {blacklist: true, overrides: [bob]}}
";

pub(crate) const INSTANCE: &str = "kind: instance
metadata: {name: user, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: 'source.user | \"\"'}}
";

pub(crate) const RULE: &str = "kind: rule
metadata: {name: no-bob, namespace: istio-system}
spec: {match: 'source.user == \"bob\"', actions: [{handler: closed-list, instances: [user]}]}
";

/// What refuses everybody whom a rule selects.
pub(crate) const REFUSE: &str = "kind: handler
metadata: {name: refuse, namespace: istio-system}
spec: {compiledAdapter: denier}
---
kind: instance
metadata: {name: any, namespace: istio-system}
spec: {compiledTemplate: checknothing}
";

/// A handler and an instance that only report.
pub(crate) const REPORTING: &str = "kind: handler
metadata: {name: log, namespace: istio-system}
spec: {compiledAdapter: stdio}
---
kind: instance
metadata: {name: line, namespace: istio-system}
spec: {compiledTemplate: logentry, params: {severity: '\"info\"'}}
";

/// A valid change beside each mistake: denies carol.
pub(crate) const BESIDE: &str = "kind: handler
metadata: {name: turn-away, namespace: istio-system}
spec: {compiledAdapter: denier}
---
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
kind: rule
metadata: {name: no-carol, namespace: istio-system}
spec: {match: '(source.user | \"\") == \"carol\"', actions: [{handler: turn-away, instances: [nothing]}]}
";

pub(crate) fn deny(parts: [&str; 3]) -> String {
    parts.join("---\n")
}

pub(crate) fn good() -> Files {
    let mut files = Files::default();
    files.put("/conf/words.yaml", MANIFEST);
    files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, RULE]));
    files
}

pub(crate) const MODES: [OnConfigError; 3] =
    [OnConfigError::KeepLast, OnConfigError::ServeValid, OnConfigError::Refuse];
