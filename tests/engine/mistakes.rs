//! Mistakes in configurations: the rows of the tables of docs/configuration.md.

use crate::refusal::{BESIDE, HANDLER, INSTANCE, MANIFEST, REPORTING, RULE, deny};
use crate::stage::Files;

/// A report rule whose handler does not exist.
pub(crate) const BROKEN_REPORT: &str = "---
kind: instance
metadata: {name: line, namespace: istio-system}
spec: {compiledTemplate: logentry, params: {severity: '\"info\"'}}
---
kind: rule
metadata: {name: log, namespace: istio-system}
spec: {actions: [{handler: nowhere, instances: [line]}]}
";

/// An attribute with another type than that with which Envoy sends it.
pub(crate) const CONTRADICTION: &str = "kind: attributemanifest
metadata: {name: more, namespace: istio-system}
spec: {attributes: {source.ip: {valueType: STRING}}}
---
kind: envoybridge
metadata: {name: default, namespace: istio-system}
spec: {}
";

/// Settings that name another namespace than that of the rule, in which there is none.
pub(crate) const NAMESPACE_MISSPELT: &str = "kind: envoybridge
metadata: {name: default, namespace: istio-system}
spec: {defaultNamespace: shpo}
---
kind: rule
metadata: {name: closed, namespace: shop, annotations: {mixer.dev/default: deny}}
---
kind: handler
metadata: {name: pass, namespace: shop}
spec: {compiledAdapter: noop}
---
kind: rule
metadata: {name: log, namespace: shop}
spec: {actions: [{handler: pass, instances: [user.instance.istio-system]}]}
";

/// The rule with a condition on that attribute.
pub(crate) fn on_address() -> String {
    RULE.replace("source.user == \"bob\"", "source.user == \"bob\" || source.ip == \"10.0.0.1\"")
}

/// The rule with the handler, or the instance, of a rule that reports.
pub(crate) fn mixed_up(part: &str) -> String {
    match part {
        "handler" => RULE.replace("handler: closed-list", "handler: log"),
        _ => RULE.replace("instances: [user]", "instances: [line]"),
    }
}

/// The rule, of which `spec` lost its indentation.
pub(crate) fn dedented() -> String {
    RULE.replace("spec: {match: ", "spec:\nmatch: ")
        .replace(", actions: ", "\nactions: ")
        .replace("]}]}", "]}]")
}

/// The instance and the rule, without the lines from the `spec` of the one to that of the other.
pub(crate) fn lines_lost() -> String {
    let (head, _) = INSTANCE.split_once("spec:").unwrap_or_default();
    let (_, spec) = RULE.split_once("spec:").unwrap_or_default();
    deny([HANDLER, &format!("{head}spec:{spec}"), "# The end.\n"])
}

/// What is left of a document that was cut off after its first line.
pub(crate) const GROUP: &str = "apiVersion: config.istio.io/v1alpha2\n";

/// The rule with another API group and kind.
pub(crate) fn in_group(api_version: &str, kind: &str) -> String {
    format!("apiVersion: {api_version}\n{}", RULE.replace("kind: rule", &format!("kind: {kind}")))
}

/// The rule with an annotation.
pub(crate) fn annotated(annotation: &str) -> String {
    RULE.replace("istio-system}", &format!("istio-system, annotations: {{{annotation}}}}}"))
}

/// The rule with an operation on a header of the request.
pub(crate) fn with_header(operation: &str) -> String {
    RULE.replace("spec: {", &format!("spec: {{requestHeaderOperations: [{operation}], "))
}

/// The rule, which asks another adapter with an instance of `authorization`.
pub(crate) fn by_policy(handler: &str) -> String {
    const WHO: &str = "kind: instance
metadata: {name: user, namespace: istio-system}
spec:
  compiledTemplate: authorization
  params:
    subject: {user: 'source.user | \"\"'}
    action: {namespace: '\"lib\"', service: '\"shelf\"', method: '\"GET\"', path: '\"/\"'}
";
    deny([handler, WHO, RULE])
}

/// A policy of `opa` that denies bob.
pub(crate) fn by_opa() -> String {
    by_policy(
        "kind: handler
metadata: {name: closed-list, namespace: istio-system}
spec:
  compiledAdapter: opa
  params:
    checkMethod: data.gate.open
    policy: ['package gate\n\ndefault open = false\n\nopen { input.subject.user != \"bob\" }']
",
    )
}

/// Roles that permit bob nothing.
pub(crate) fn by_rbac() -> String {
    const ROLES: &str = "---
apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRole
metadata: {name: reader, namespace: lib}
spec: {rules: [{services: [shelf], methods: [GET], paths: [/]}]}
---
apiVersion: rbac.istio.io/v1alpha1
kind: ServiceRoleBinding
metadata: {name: readers, namespace: lib}
spec: {subjects: [{user: ann}], roleRef: {kind: ServiceRole, name: reader}}
";
    let handler = "kind: handler
metadata: {name: closed-list, namespace: istio-system}
spec: {compiledAdapter: rbac}
";
    by_policy(handler) + ROLES
}

/// A quota of descriptors, which have no user.
pub(crate) const UNCHARGEABLE: &str = "kind: attributemanifest
metadata: {name: requests, namespace: istio-system}
spec: {attributes: {request.headers: {valueType: STRING_MAP}}}
---
kind: handler
metadata: {name: memory, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 9, validDuration: 9s}]}}
---
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {}}}
---
kind: rule
metadata: {name: calls, namespace: istio-system}
spec: {match: '(request.headers[\"x-plan\"] | \"\") != \"\"', actions: [{handler: memory, instances: [calls]}]}
---
kind: envoybridge
metadata: {name: default, namespace: istio-system}
spec: {ratelimit: {quotas: [{domain: shop, entries: {plan: '*'}, quota: calls}]}}
";

/// A quota with a misspelt dimension. Nobody listens on the port.
pub(crate) const QUOTA: &str = "kind: handler
metadata: {name: limits, namespace: istio-system}
spec:
  compiledAdapter: redisquota
  params:
    redisServerUrl: 127.0.0.1:1
    quotas:
    - name: requests.instance.istio-system
      maxAmount: 10
      validDuration: 60s
      overrides: [{dimensions: {usr: ann}, maxAmount: 1}]
---
kind: instance
metadata: {name: requests, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {user: 'source.user | \"\"'}}}
---
kind: rule
metadata: {name: limit, namespace: istio-system}
spec: {actions: [{handler: limits, instances: [requests]}]}
";

/// A quota of `memquota` with a misspelt dimension.
pub(crate) fn by_memquota() -> String {
    QUOTA
        .replace("compiledAdapter: redisquota", "compiledAdapter: memquota")
        .replace("    redisServerUrl: 127.0.0.1:1\n", "")
}

/// Limits of Envoy that replace each other.
pub(crate) const REPLACED: &str = "domain: shop
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 2, name: a, replaces: [{name: b}]}
- key: ip
  rate_limit: {unit: minute, requests_per_unit: 2, name: b, replaces: [{name: a}]}
";

/// The limits as a resource.
pub(crate) fn replaced() -> String {
    format!(
        "kind: ratelimit\nmetadata: {{name: limits, namespace: istio-system}}\nspec:\n  {}",
        REPLACED.trim_end().replace('\n', "\n  ") + "\n"
    )
}

/// Settings of Envoy.
pub(crate) fn bridge(spec: &str) -> String {
    format!("kind: envoybridge\nmetadata: {{name: default, namespace: istio-system}}\nspec: {spec}\n")
}

/// `(row, edit)`: the first column of the table, and the mistake.
pub(crate) type Row = (&'static str, fn(&mut Files));

/// Mistakes in a configuration that serves.
pub(crate) const EDITS: &[Row] = &[
    ("a rule names a handler that does not exist", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("closed-list", "closed-lsit")]));
    }),
    ("a rule names a handler that only reports", |files| {
        files.put("/conf/report.yaml", REPORTING);
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &mixed_up("handler")]));
    }),
    ("a rule names an instance that is only reported", |files| {
        files.put("/conf/report.yaml", REPORTING);
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &mixed_up("instance")]));
    }),
    ("a rule is renamed and names a handler that only reports", |files| {
        files.put("/conf/report.yaml", REPORTING);
        let rule = mixed_up("handler").replace("no-bob", "no-robert");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a rule is renamed and names an instance that is only reported", |files| {
        files.put("/conf/report.yaml", REPORTING);
        let rule = mixed_up("instance").replace("no-bob", "no-robert");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a condition does not compile", |files| {
        files.put(
            "/conf/deny.yaml",
            deny([HANDLER, INSTANCE, &RULE.replace("source.user ==", "sorce.user ==")]),
        );
    }),
    ("a condition fails for every request, `\"(\".matches(source.user)`", |files| {
        let rule = RULE.replace("source.user == \"bob\"", "\"(\".matches(source.user)");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("the language of a rule does not exist, `policy.istio.io/lang: cel`", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &annotated("policy.istio.io/lang: cel")]));
    }),
    ("an annotation of a rule has a value that does not exist, `mixer.dev/allows: everywere`", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &annotated("mixer.dev/allows: everywere")]));
    }),
    ("an operation of a rule on a header has no values", |files| {
        let rule = with_header("{name: x-role, values: , operation: REPLACE}");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("an operation of a rule is on a name that no header has", |files| {
        let rule = with_header("{name: x-*, operation: REMOVE}");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a rule has an unknown field", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("actions", "actoins")]));
    }),
    ("a document is not YAML", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("spec: {", "spec: {{")]));
    }),
    ("a document has no name", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("name: no-bob, ", "")]));
    }),
    ("a kind is misspelt", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("kind: rule", "kind: ruel")]));
    }),
    ("a document is cut off before its kind", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, GROUP]));
    }),
    ("a document is `{}`", |files| files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, "{}\n"]))),
    ("a kind is misspelt, in another API group", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &in_group("security.istio.io/v1", "Ruel")]));
    }),
    ("a rule has the kind of another program", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &in_group("policy.example.com/v1", "policy")]));
    }),
    ("a file is empty", |files| files.put("/conf/deny.yaml", "")),
    ("a file has comments only", |files| files.put("/conf/deny.yaml", "# Everybody is welcome.\n")),
    ("a file cannot be read", |files| files.unreadable.push("/conf/deny.yaml".to_owned())),
    ("a file is renamed and is not YAML", |files| {
        files.remove("/conf/deny.yaml");
        files.put("/conf/denials.yaml", "kind: {rule");
    }),
    ("the directory cannot be read", |files| files.lost = true),
    ("a rule has its spec beside `spec`", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &dedented()]))
    }),
    ("a condition is there twice", |files| {
        let rule = RULE.replace("\"bob\"'", "\"bob\"', match: 'source.user == \"adam\"'");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a rule is put in dry run without quotes, `mixer.dev/dry-run: on`", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &annotated("mixer.dev/dry-run: on")]));
    }),
    ("the namespace of a rule is no text, `namespace: no`", |files| {
        let rule = RULE.replace("namespace: istio-system", "namespace: no");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a merge key replaces a condition", |files| {
        let rule = RULE.replace("\"bob\"'", "\"bob\"', <<: {match: 'false'}");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("the separator of a rule and the document after it is lost", |files| {
        let other = RULE.replace("no-bob", "no-adam").replace("\"bob\"", "\"adam\"");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, RULE]) + &other);
    }),
    ("the lines between two documents are lost", |files| files.put("/conf/deny.yaml", lines_lost())),
    ("a rule is deleted, and another resource of its file has an error", |files| {
        files.put("/conf/deny.yaml", [HANDLER, &INSTANCE.replace("source.user", "sorce.user")].join("---\n"));
    }),
    ("the separator of two documents has a blank at its end", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, ""]).trim_end().to_owned() + " \n" + RULE);
    }),
    ("a document follows the end of another, `...`", |files| {
        files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n") + "...\n" + RULE);
    }),
    ("a file has another version of a resource", |files| {
        files.put("/conf/z.yaml", RULE.replace("\"bob\"", "\"adam\""));
    }),
    ("a handler names an adapter that does not exist", |files| {
        files.put("/conf/deny.yaml", deny([&HANDLER.replace("listchecker", "lsitchecker"), INSTANCE, RULE]));
    }),
    ("a parameter of a handler is misspelt", |files| {
        files.put(
            "/conf/deny.yaml",
            deny([
                &HANDLER.replace("blacklist: true, overrides", "blacklist: true, overides"),
                INSTANCE,
                RULE,
            ]),
        );
    }),
    ("a parameter of a handler has no value, `blacklist:`", |files| {
        let handler = HANDLER.replace("blacklist: true", "blacklist: ");
        files.put("/conf/deny.yaml", deny([&handler, INSTANCE, RULE]));
    }),
    ("a handler does not build", |files| {
        let handler = HANDLER.replace("params: {", "params: {cachingUseCount: -1, ");
        files.put("/conf/deny.yaml", deny([&handler, INSTANCE, RULE]));
    }),
    ("the entries of a blacklist are null", |files| {
        let handler = HANDLER.replace("overrides: [bob]", "overrides:");
        files.put("/conf/deny.yaml", deny([&handler, INSTANCE, RULE]));
    }),
    ("an entry of a blacklist is null", |files| {
        let handler = HANDLER.replace("overrides: [bob]", "overrides: [~]");
        files.put("/conf/deny.yaml", deny([&handler, INSTANCE, RULE]));
    }),
    ("an entry of a blacklist is between slashes, `/^bob$/`", |files| {
        let handler = HANDLER.replace("overrides: [bob]", "overrides: [/^bob$/]");
        files.put("/conf/deny.yaml", deny([&handler, INSTANCE, RULE]));
    }),
    ("an expression of an instance does not compile", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, &INSTANCE.replace("source.user", "sorce.user"), RULE]));
    }),
    ("an instance gets a template that its handler does not take", |files| {
        let instance = INSTANCE.replace("listentry, params: {value: 'source.user | \"\"'}", "reportnothing");
        files.put("/conf/deny.yaml", deny([HANDLER, &instance, RULE]));
    }),
    ("a handler is deleted that a rule names", |files| {
        files.put("/conf/deny.yaml", [INSTANCE, RULE].join("---\n"));
    }),
    ("an instance is deleted that a rule names", |files| {
        files.put("/conf/deny.yaml", [HANDLER, RULE].join("---\n"));
    }),
    ("an attribute is no longer declared that a rule uses", |files| {
        // The rule beside it needs no attribute.
        files.put("/conf/words.yaml", MANIFEST.replace("source.user", "source.usr"));
        files.put(
            "/conf/beside.yaml",
            BESIDE.replace("match: '(source.user | \"\") == \"carol\"', ", "match: 'false', "),
        );
    }),
    ("a rule is renamed and has an error", |files| {
        files.put(
            "/conf/deny.yaml",
            deny([
                HANDLER,
                INSTANCE,
                &RULE.replace("no-bob", "no-robert").replace("closed-list", "closed-lsit"),
            ]),
        );
    }),
    ("a rule is moved to another namespace and has an error", |files| {
        let rule = RULE.replace("namespace: istio-system", "namespace: shop");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a rule is renamed with its file and has an error", |files| {
        files.remove("/conf/deny.yaml");
        files.put(
            "/conf/denials.yaml",
            deny([
                HANDLER,
                INSTANCE,
                &RULE.replace("no-bob", "no-robert").replace("closed-list", "closed-lsit"),
            ]),
        );
    }),
    ("a rule is renamed in another file and has an error", |files| {
        files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
        files.put(
            "/conf/denials.yaml",
            RULE.replace("no-bob", "no-robert").replace("closed-list", "closed-lsit"),
        );
    }),
    ("a rule is renamed in another file and its kind is misspelt", |files| {
        files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
        let rule = RULE.replace("kind: rule", "kind: ruel").replace("no-bob", "no-robert");
        files.put("/conf/denials.yaml", rule);
    }),
    ("a rule's kind becomes another kind of this server", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("kind: rule", "kind: handler")]));
    }),
    ("a rule's kind becomes that of an adapter or a template", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("kind: rule", "kind: metric")]));
    }),
    ("a rule's kind becomes one of Istio that this server does not have", |files| {
        files.put(
            "/conf/deny.yaml",
            deny([HANDLER, INSTANCE, &RULE.replace("kind: rule", "kind: QuotaSpec")]),
        );
    }),
    ("a rule is renamed in another file and its kind becomes another kind of this server", |files| {
        files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
        let rule = RULE.replace("kind: rule", "kind: instance").replace("no-bob", "no-robert");
        files.put("/conf/denials.yaml", rule);
    }),
    ("a rule is split and a part has an error", |files| {
        let part = RULE.replace("\"bob\"", "\"bobby\"");
        let rest = RULE.replace("no-bob", "no-robert").replace("closed-list", "closed-lsit");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &part]) + "---\n" + &rest);
    }),
    ("a rule is deleted", |files| files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"))),
    ("a file is deleted", |files| files.remove("/conf/deny.yaml")),
    ("everything is deleted", |files| *files = Files::default()),
    ("requests of Envoy get a namespace without rules, and rules of another one may refuse", |files| {
        files.put("/conf/envoy.yaml", NAMESPACE_MISSPELT);
    }),
    ("an override of a quota, by `memquota`, names a dimension that there is not", |files| {
        files.put("/conf/quota.yaml", by_memquota());
    }),
    ("the condition of a rule is null, `match:`", |files| {
        let rule = RULE.replace("match: 'source.user == \"bob\"'", "match: ");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("limits of Envoy replace each other", |files| files.put("/conf/limits.yaml", replaced())),
    ("a setting of Envoy has no such value", |files| {
        files.put("/conf/envoy.yaml", bridge("{check: {httpPathPrefix: check}}"));
    }),
    ("Envoy needs a quota that no rule configures", |files| {
        files
            .put("/conf/envoy.yaml", bridge("{check: {quotaSpec: [{rules: [{quotas: [{quota: calls}]}]}]}}"));
    }),
    ("there are two `envoybridge`", |files| {
        let other = bridge("{}").replace("name: default", "name: other");
        files.put("/conf/envoy.yaml", bridge("{}") + "---\n" + &other);
    }),
    ("a new rule has an error", |files| {
        files.put("/conf/new.yaml", RULE.replace("no-bob", "no-dave").replace("closed-list", "nowhere"));
        files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n"));
        files.put("/conf/kept.yaml", RULE);
    }),
];

/// The first configuration of a server.
pub(crate) const STARTS: &[Row] = &[
    ("no mistake", |_| {}),
    ("a check rule has an error", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("closed-list", "closed-lsit")]));
    }),
    ("a check rule names a handler that only reports", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &mixed_up("handler")]) + "---\n" + REPORTING);
    }),
    ("a check rule names an instance that is only reported", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &mixed_up("instance")]) + "---\n" + REPORTING);
    }),
    ("an annotation of a check rule is misspelt", |files| {
        let rule = RULE.replace("istio-system}", "istio-system, annotations: {mixer.dev/defualt: deny}}");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("the prefix of an annotation of a check rule is misspelt", |files| {
        let rule = RULE.replace("istio-system}", "istio-system, annotations: {mixer.dve/default: deny}}");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("an annotation of a check rule has the prefix `mixer.io`", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &annotated("mixer.io/default: deny")]));
    }),
    ("an annotation of a check rule has no prefix", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &annotated("default: deny")]));
    }),
    ("a check rule has an annotation of another program", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &annotated("example.com/default: deny")]));
    }),
    ("the value of an annotation of a check rule is misspelt", |files| {
        let rule = RULE.replace("istio-system}", "istio-system, annotations: {mixer.dev/on-error: dney}}");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a check rule is put in dry run without quotes, `mixer.dev/dry-run: on`", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &annotated("mixer.dev/dry-run: on")]));
    }),
    ("the namespace of a check rule is no text, `namespace: no`", |files| {
        let rule = RULE.replace("namespace: istio-system", "namespace: no");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("the condition of a check rule fails for every request", |files| {
        let rule = RULE.replace("source.user == \"bob\"", "\"(\".matches(source.user)");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("the language of a check rule does not exist", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &annotated("policy.istio.io/lang: cel")]));
    }),
    ("a handler of a check rule does not build", |files| {
        let handler = HANDLER.replace("params: {", "params: {cachingUseCount: -1, ");
        files.put("/conf/deny.yaml", deny([&handler, INSTANCE, RULE]));
    }),
    ("the entries of a blacklist are null, or one is", |files| {
        let handler = HANDLER.replace("overrides: [bob]", "overrides:");
        files.put("/conf/deny.yaml", deny([&handler, INSTANCE, RULE]));
    }),
    ("the kind of a check rule is one of Istio that this server does not have", |files| {
        files.put(
            "/conf/deny.yaml",
            deny([HANDLER, INSTANCE, &RULE.replace("kind: rule", "kind: QuotaSpec")]),
        );
    }),
    ("the policy of a check rule, by `opa`, does not compile", |files| {
        files.put("/conf/deny.yaml", by_opa().replace("input.subject", "inptu.subject"));
    }),
    ("the policy of a check rule, by `opa`, reads a name that does not exist", |files| {
        let text = by_opa().replace("open { input.subject.user !=", "open { not input.subject.usr ==");
        files.put("/conf/deny.yaml", text);
    }),
    ("an override of a quota, by `redisquota`, names a dimension that there is not", |files| {
        files.put("/conf/quota.yaml", QUOTA);
    }),
    ("the condition of a rule for `ratelimit.quotas` reads what no descriptor has", |files| {
        files.put("/conf/quota.yaml", UNCHARGEABLE);
    }),
    ("a value in an override of a quota, by `redisquota`, is null", |files| {
        files.put("/conf/quota.yaml", QUOTA.replace("usr: ann", "user: "));
    }),
    ("a quota is there twice, in `redisquota`", |files| {
        let limit = "- {name: requests.instance.istio-system, maxAmount: 100, validDuration: 60s}\n---\n";
        let quota = QUOTA.replace(
            "      overrides: [{dimensions: {usr: ann}, maxAmount: 1}]\n---\n",
            &format!("    {limit}"),
        );
        files.put("/conf/quota.yaml", quota);
    }),
    ("a role or binding of a check rule, by `rbac`, has an error", |files| {
        files.put("/conf/deny.yaml", by_rbac().replace("methods", "method"));
    }),
    ("a binding of a check rule, by `rbac`, is `PERMISSIVE`", |files| {
        files.put(
            "/conf/deny.yaml",
            by_rbac().replace("subjects: [{user: ann}]", "mode: PERMISSIVE, subjects: [{user: bob}]"),
        );
    }),
    ("a restriction of a role or binding is empty", |files| {
        let text = by_rbac().replace("user: ann", "user: bob").replace("paths: [/]", "paths: []");
        files.put("/conf/deny.yaml", text);
    }),
    ("a property of a subject is empty", |files| {
        let text = by_rbac().replace("subjects: [{user: ann}]", "subjects: [{properties: {team: }}]");
        let text = text
            .replace("user: 'source.user | \"\"'", "user: 'source.user | \"\"', properties: {team: '\"\"'}");
        files.put("/conf/deny.yaml", text);
    }),
    ("a report rule has an error", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, RULE]) + BROKEN_REPORT);
    }),
    ("a manifest contradicts the types that Envoy sends, on which a check rule depends", |files| {
        files.put("/conf/more.yaml", CONTRADICTION);
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &on_address()]));
    }),
    ("requests of Envoy get a namespace without rules, and rules of another one may refuse", |files| {
        files.put("/conf/envoy.yaml", NAMESPACE_MISSPELT);
    }),
    ("an override of a quota, by `memquota`, names a dimension that there is not", |files| {
        files.put("/conf/quota.yaml", by_memquota());
    }),
    ("the condition of a check rule is null, `match:`", |files| {
        let rule = RULE.replace("match: 'source.user == \"bob\"'", "match: ");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("limits of Envoy replace each other", |files| files.put("/conf/limits.yaml", replaced())),
    ("a setting of Envoy has no such value", |files| {
        files.put("/conf/envoy.yaml", bridge("{check: {httpPathPrefix: check}}"));
    }),
    ("Envoy needs a quota that no rule configures", |files| {
        files
            .put("/conf/envoy.yaml", bridge("{check: {quotaSpec: [{rules: [{quotas: [{quota: calls}]}]}]}}"));
    }),
    ("there are two `envoybridge`", |files| {
        let other = bridge("{}").replace("name: default", "name: other");
        files.put("/conf/envoy.yaml", bridge("{}") + "---\n" + &other);
    }),
    ("a document is not YAML", |files| files.put("/conf/more.yaml", "kind: {rule")),
    ("the kind of a check rule is misspelt", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("kind: rule", "kind: ruel")]));
    }),
    ("the kind of a check rule is another kind of this server", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("kind: rule", "kind: handler")]));
    }),
    ("the kind of a check rule is that of an adapter or a template", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &RULE.replace("kind: rule", "kind: noop")]));
    }),
    ("a resource has a kind of another API group", |files| {
        files.put(
            "/conf/more.yaml",
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: x}\n",
        );
    }),
    ("a check rule is cut off before its kind", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, GROUP]));
    }),
    ("a check rule is cut off behind its kind", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &format!("{GROUP}kind: rule")]));
    }),
    ("a document is `{}`", |files| files.put("/conf/more.yaml", "{}\n")),
    ("a document is `null`, `~` or nothing", |files| {
        files.put("/conf/more.yaml", "null\n---\n~\n---\n---\n# nothing\n");
    }),
    ("a document is a list or a text", |files| files.put("/conf/more.yaml", "- kind: rule\n---\ntext\n")),
    ("the kind of a check rule is misspelt, in another API group", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &in_group("security.istio.io/v1", "Ruel")]));
    }),
    ("a check rule has the kind of another program", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &in_group("policy.example.com/v1", "policy")]));
    }),
    ("a check rule has another API group", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &in_group("security.istio.io/v1", "rule")]));
    }),
    ("a check rule has its spec beside `spec`", |files| {
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &dedented()]));
    }),
    ("the condition of a check rule is there twice", |files| {
        let rule = RULE.replace("\"bob\"'", "\"bob\"', match: 'source.user == \"adam\"'");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a merge key replaces the condition of a check rule", |files| {
        let rule = RULE.replace("\"bob\"'", "\"bob\"', <<: {match: 'false'}");
        files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, &rule]));
    }),
    ("a check rule follows the end of a document, `...`", |files| {
        files.put("/conf/deny.yaml", [HANDLER, INSTANCE].join("---\n") + "...\n" + RULE);
    }),
    ("two files have different versions of a check rule", |files| {
        files.put("/conf/z.yaml", RULE.replace("\"bob\"", "\"adam\""));
    }),
    ("a file cannot be read", |files| files.unreadable.push("/conf/more.yaml".to_owned())),
    ("a file is empty", |files| files.put("/conf/more.yaml", "")),
    ("a file has white space only", |files| files.put("/conf/more.yaml", " \n\n")),
    ("a file has comments only", |files| files.put("/conf/more.yaml", "# For later.\n")),
    ("the directory does not exist or cannot be read", |files| files.lost = true),
    ("nothing could be read yet, with `--allow-empty-config`", |files| {
        *files = Files { failed: true, ..Files::default() };
    }),
    ("there is no resource", |files| *files = Files::default()),
    ("there is no resource, with `--allow-empty-config`", |files| *files = Files::default()),
    ("`--config-default-namespace` names a namespace in which nothing is", |_| {}),
];
