//! `check` and `report`: documents, explanations, attribute files.

use crate::support::Server;
use crate::{Ran, json, run, run_with_input, scenario};

#[test]
fn answers_are_printed_as_json_and_yaml() {
    let target = scenario("harbor");
    let flags = ["mixer", "check", "--config", &target, "-s", "source.user=smuggler", "-q", "berths=3"];
    let one = json(&run(&[&flags[..], &["--output", "json", "--explain"]].concat()));
    assert_eq!(one["kind"], "CheckResult");
    assert_eq!(one["status"]["name"], "PERMISSION_DENIED");
    assert_eq!(one["validDuration"], "5s");
    assert_eq!(one["explanation"]["rules"][0]["verdict"], "matched");
    let many = json(&run(&[&flags[..], &["--output", "json", "-r", "3", "-c", "2"]].concat()));
    assert_eq!(many["items"].as_array().map(Vec::len), Some(6));
    assert_eq!(many["summary"]["denied"], 6);
    let lines = run(&[&flags[..], &["--output", "json-lines", "-r", "2"]].concat());
    assert_eq!(lines.out.lines().count(), 3);
    let yaml = run(&[&flags[..], &["--output", "yaml"]].concat());
    assert!(yaml.out.starts_with("apiVersion: mixer/v1\nkind: CheckResult\n"), "{}", yaml.out);
    let report = run(&["mixer", "report", "--config", &scenario("blank"), "--output", "json"]);
    assert_eq!(json(&report)["rpc"]["name"], "OK");
}

/// As in the commands that inspect it.
#[test]
fn the_configuration_may_be_on_standard_input() {
    let policy = "\
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: deny, namespace: istio-system}
spec: {compiledAdapter: denier}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: none, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: refuse, namespace: istio-system}
spec: {actions: [{handler: deny, instances: [none]}]}
";
    let ran = run_with_input(&["mixer", "check", "--config", "-", "-s", "source.user=ann"], policy);
    assert!(ran.code == 1 && ran.out.contains("deny.istio-system"), "{} {} {}", ran.code, ran.out, ran.err);
    let ran = run_with_input(&["mixer", "report", "--config", "-", "-s", "source.user=ann"], policy);
    assert!(ran.code == 0, "{}", ran.err);
}

/// All of them are one configuration, and one that cannot be read has the same words in all commands.
#[test]
fn several_configurations_are_one_and_mistakes_have_one_text() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let parts = file(
        "parts.yaml",
        "kind: handler\nmetadata: {name: deny, namespace: istio-system}\nspec: {compiledAdapter: denier}\n---\n\
         kind: instance\nmetadata: {name: none, namespace: istio-system}\nspec: {compiledTemplate: checknothing}\n",
    );
    let rule = file(
        "rule.yaml",
        "kind: rule\nmetadata: {name: refuse, namespace: istio-system}\n\
         spec: {actions: [{handler: deny, instances: [none]}]}\n",
    );
    let ran = run(&["mixer", "check", "--config", &parts, "--config", &rule, "-s", "source.user=ann"]);
    assert!(ran.code == 1 && ran.out.contains("deny.istio-system"), "{} {} {}", ran.code, ran.out, ran.err);
    for (config, cause) in [
        ("nosuch", "cannot read nosuch: no such file or directory"),
        ("http://localhost/x", "unknown config URL `http://localhost/x`"),
    ] {
        let told = format!("error: cannot read the configuration\n  cause: {cause}\n  hint: ");
        for command in [
            &["check", "-s", "source.user=ann"][..],
            &["report", "-s", "source.user=ann"],
            &["routes", "show"],
            &["snapshot", "dump"],
            &["validate"],
            &["eval", "true"],
        ] {
            let ran = run(&[&["mixer"][..], command, &["--config", config]].concat());
            assert!(ran.code == 3 && ran.err.starts_with(&told), "{command:?}: {} {}", ran.code, ran.err);
        }
    }
}

/// A constant is its value.
#[test]
fn explanations_do_not_say_that_false_is_false() {
    let rule = |name: &str, text: &str| {
        format!(
            "---\nkind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\n\
             spec: {{match: '{text}', actions: [{{handler: deny, instances: [none]}}]}}\n"
        )
    };
    let policy = "kind: handler\nmetadata: {name: deny, namespace: istio-system}\nspec: {compiledAdapter: denier}\n---\n\
                  kind: instance\nmetadata: {name: none, namespace: istio-system}\nspec: {compiledTemplate: checknothing}\n"
        .to_owned()
        + &rule("never", "false")
        + &rule("near", "(request.path == \"/y\" || false) && source.user == \"ann\"");
    let check = ["mixer", "check", "--config", "-", "--explain", "-s", "source.user=ann,request.path=/x"];
    let ran = run_with_input(&check, &policy);
    assert!(ran.out.contains("\n    false\n"), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains(" is not true: request.path is \"/x\"\n"), "{}{}", ran.out, ran.err);
    assert!(!ran.out.lines().any(|line| line.trim() == "false  is false"), "{}", ran.out);
    assert!(!ran.out.contains(", false is false"), "{}", ran.out);
    let table =
        run(&["mixer", "eval", "request.path == \"/y\" || false", "-s", "request.path=/x", "-o", "table"]);
    assert!(table.out.contains("\n  false\n"), "{}{}", table.out, table.err);
}

#[test]
fn explanations_name_rules_values_and_handlers() {
    let ran = run(&[
        "mixer",
        "check",
        "--config",
        &scenario("parlour"),
        "--explain",
        "-s",
        "source.user=night,destination.namespace=tea",
    ]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    for text in [
        "always-polite.rule.tea  not matched",
        "late.rule.tea  matched",
        "source.user  is \"night\"",
        "calls butler.denier.tea",
        "butler.denier.tea (denier): refused with code 7",
    ] {
        assert!(ran.out.contains(text), "{text} in {}", ran.out);
    }
}

/// One idea of what is secret: `mixer_base::secrets`. A value of a header with such a name is masked wherever it occurs.
#[test]
fn explanations_mask_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let config = r#"
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: m, namespace: istio-system}
spec: {attributes: {request.headers: {valueType: STRING_MAP}, request.path: {valueType: STRING}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: who, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: '"id " + (request.headers["cookie"] | "nobody")'}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: known, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {overrides: [nobody]}}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: first, namespace: istio-system}
spec:
  match: request.headers["cookie"] == "session=hunter2" && request.path != "/"
  actions: [{handler: known, instances: [who]}]
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: nearly, namespace: istio-system}
spec:
  match: request.path != "/" && request.headers["x-api-key"] == "k2"
  actions: [{handler: known, instances: [who]}]
"#;
    std::fs::write(directory.path().join("all.yaml"), config).unwrap();
    let target = directory.path().display().to_string();
    let headers = "request.headers=cookie:session=hunter2;x-api-key:k1;accept:text";
    let path = "request.path=/login?token=letmein";
    let flags = ["mixer", "check", "--config", &target, "--explain", "-s", path];
    for format in ["plain", "json"] {
        let more = ["--stringmap-attributes", headers, "--output", format];
        let ran = run(&[&flags[..], &more].concat());
        assert_eq!(ran.code, 1, "{} {}", ran.out, ran.err);
        let explained = match format {
            "json" => json(&ran)["explanation"].to_string(),
            _ => ran.out.split("Why").nth(1).unwrap_or_default().to_owned(),
        };
        for secret in ["hunter2", "k1", "letmein"] {
            assert!(!explained.contains(secret), "{secret} in {explained}");
        }
        for shown in ["***", "/login?token=***", "id ***", "x-api-key"] {
            assert!(explained.contains(shown), "{shown} in {explained}");
        }
    }
}

#[test]
fn explanations_name_the_single_term_that_prevented_a_match() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = "
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: m, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    source.labels: {valueType: STRING_MAP}
    request.path: {valueType: STRING}
    destination.port: {valueType: INT64}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: deny, namespace: istio-system}
spec: {compiledAdapter: denier}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: caller, namespace: istio-system}
spec: {compiledTemplate: checknothing}
"
    .to_owned();
    // The user is ann, the label db, the path /x; there is no port.
    let rules = [
        (
            r#"source.user == "ann" && source.labels["app"] == "web""#,
            Some(r#"only `source.labels["app"] == "web"` is not true: source.labels["app"] is "db""#),
        ),
        (
            r#"(source.labels["tier"] | "none") == "front" && (source.user | "") == "ann" && request.path != "/y""#,
            Some(
                r#"only `(source.labels["tier"] | "none") == "front"` is not true: source.labels["tier"] is absent"#,
            ),
        ),
        (
            r#"destination.port == 80 && source.user == "ann""#,
            Some("only `destination.port == 80` is not true: lookup failed: 'destination.port'"),
        ),
        (r#"source.user == "ann" && request.path != "/x" && source.labels["app"] == "web""#, None),
        (r#"source.user == "bob""#, None),
    ];
    for (i, (text, _)) in rules.iter().enumerate() {
        config += &format!(
            "---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {{name: rule{i}, namespace: istio-system}}
spec:
  match: '{text}'
  actions: [{{handler: deny, instances: [caller]}}]
"
        );
    }
    std::fs::write(directory.path().join("rules.yaml"), config).unwrap();
    let url = format!("fs://{}", directory.path().display());
    let attributes = "source.user=ann,request.path=/x";
    let labels = "source.labels=app:db";
    let flags = ["mixer", "check", "--config", &url, "-s", attributes, "--stringmap-attributes", labels];
    let answer = json(&run(&[&flags[..], &["--explain", "--output", "json"]].concat()));
    let explained = answer["explanation"]["rules"].as_array().unwrap();
    assert_eq!(explained.len(), rules.len(), "{answer}");
    for (rule, (text, near_miss)) in explained.iter().zip(rules) {
        assert_eq!(rule["match"], text);
        assert_eq!(rule["nearMiss"].as_str(), near_miss, "{text}");
    }
    let printed = run(&[&flags[..], &["--explain"]].concat());
    assert_eq!(printed.out.matches("    near miss: only `").count(), 3, "{}", printed.out);
}

#[test]
fn attributes_come_from_files_and_standard_input() {
    let target = scenario("harbor");
    let ran = run_with_input(
        &["mixer", "check", "--config", &target, "--attributes-file", "@-"],
        "source.user: smuggler\nrequest.time: {timestamp: 2017-07-04T00:01:10Z}\n",
    );
    assert_eq!(ran.code, 1, "{}", ran.err);
    let ran = run_with_input(
        &["mixer", "check", "--config", &target, "--attributes-file", "-", "-s", "source.user=ann"],
        "source.user: smuggler\n",
    );
    assert_eq!(ran.code, 0, "flags win over the file: {}", ran.err);
    let ran = run_with_input(&["mixer", "check", "--attributes-file", "-"], "- a\n");
    assert_eq!(ran.code, 3, "{}", ran.err);
}

#[test]
fn both_dictionaries_give_the_same_answer() {
    let target = scenario("harbor");
    let check = |dictionary: &str| {
        let flags = ["-s", "source.user=smuggler,request.path=/x", "--dictionary", dictionary];
        run(&[&["mixer", "check", "--config", &target][..], &flags].concat()).out
    };
    assert_eq!(check("message"), check("global"));
}

#[test]
fn what_the_configuration_does_not_know_is_said() {
    let target = scenario("harbor");
    let ran = run(&["mixer", "check", "--config", &target, "-s", "source.usr=ann", "-q", "nosuch=1"]);
    let undeclared = "warning: the attribute `source.usr` is not declared: no rule can use it; did you mean `source.user`?\n";
    let unallocated = "warning: no rule allocates the quota `nosuch`: it is granted";
    assert!(ran.err.contains(undeclared) && ran.err.contains(unallocated), "{}", ran.err);
    let known = run(&["mixer", "check", "--config", &target, "-s", "source.user=ann"]);
    assert!(!known.err.contains("warning"), "{}", known.err);
    let report = run(&["mixer", "report", "--config", &target, "-s", "source.usr=ann"]);
    assert!(report.err.contains(undeclared), "{}", report.err);
}

#[test]
fn without_configuration_the_usual_attributes_are_known() {
    // Nobody listens there.
    let with = |program: &str, command: &str, more: &[&str]| {
        let target = ["-m", "127.0.0.1:1", "-s", "source.usr=ann,destination.service=shop"];
        run(&[&[program, command], &target[..], more].concat()).err
    };
    let unusual = "warning: the attribute `source.usr` is none of the usual ones: no rule can use it unless the server \
                   declares it; did you mean `source.user`?\n";
    for command in ["check", "report"] {
        let told = with("mixer", command, &[]);
        assert_eq!(told.matches("warning").count(), 1, "{told}");
        assert!(told.contains(unusual), "{told}");
        assert!(!with("mixer", command, &["--quiet"]).contains("usual"));
        assert!(!with("mixc", command, &[]).contains("usual"), "as Istio's client");
    }
}

/// A value of another type is sent, as with Istio's client: conditions then fail as if there were no such attribute, or with an error.
#[test]
fn attributes_that_are_sent_with_another_type_are_told() {
    let given = [
        "-s",
        "source.ip=10.1.2.3,request.headers=x-user:ann,request.size=12,destination.service=shop",
        "-a",
        "source.uid=kubernetes://web",
    ];
    let told = "\
warning: the attribute `source.ip` is IP_ADDRESS and sent as STRING: no rule can use it; write `--ip-attributes source.ip=10.1.2.3`
warning: the attribute `request.headers` is STRING_MAP and sent as STRING: no rule can use it; write \
`--stringmap-attributes request.headers=x-user:ann`
warning: the attribute `request.size` is INT64 and sent as STRING: no rule can use it; write `-i request.size=12`
warning: the attribute `source.uid` is STRING and sent as STRING_MAP: no rule can use it; write `-s source.uid=kubernetes://web`
";
    let with = |program: &str, command: &str, target: &[&str], more: &[&str]| {
        run(&[&[program, command], target, &given[..], more].concat()).err
    };
    let in_process = ["--config", "embedded://sample"];
    // Nobody listens there: what is said comes before the call.
    for target in [&in_process[..], &["-m", "127.0.0.1:1"]] {
        for command in ["check", "report"] {
            let all = with("mixer", command, target, &[]);
            assert!(all.starts_with(told) && all.matches("warning").count() == 4, "{all}");
            assert!(!with("mixer", command, target, &["--quiet"]).contains("warning"));
            assert!(!with("mixc", command, target, &[]).contains("sent as"), "as Istio's client");
        }
    }
    let typed = ["-i", "request.size=12", "--ip-attributes", "source.ip=10.1.2.3"];
    let ran = run(&[&["mixer", "check", "--config", "embedded://sample"], &typed[..]].concat());
    assert_eq!(ran.err, "");
    let file = "{source.ip: 10.1.2.3, request.size: 12}";
    let ran =
        run_with_input(&["mixer", "check", "--config", "embedded://sample", "--attributes-file", "-"], file);
    assert!(ran.err.contains("write `--ip-attributes source.ip=10.1.2.3`"), "{}", ran.err);
    assert_eq!(ran.err.matches("warning").count(), 1, "{}", ran.err);
}

#[test]
fn an_invalid_value_is_named_with_its_attribute() {
    let ran = run(&["mixer", "check", "-i", "a=1,b=x"]);
    let text =
        "error: invalid value `x` of the attribute `b`\n  cause: expected a whole number, for example 12\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, text));
    let legacy = run(&["mixc", "check", "-i", "a=1,b=x"]);
    assert!(legacy.err.contains("strconv.ParseInt: parsing \"x\": invalid syntax"), "{}", legacy.err);
}

/// Envoy does not tell the namespace of a service: its calls get another answer than those of Mixer's API.
const FOR_ENVOY: &str = r#"kind: envoybridge
metadata: {name: default, namespace: istio-system}
spec: {SETTINGS}
---
kind: handler
metadata: {name: deny, namespace: shop}
spec: {compiledAdapter: denier}
---
kind: instance
metadata: {name: all, namespace: shop}
spec: {compiledTemplate: checknothing}
---
kind: rule
metadata: {name: deny, namespace: shop}
spec: {actions: [{handler: deny, instances: [all]}]}
"#;

#[test]
fn what_envoy_gets_without_a_namespace_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().display().to_string();
    let told = |settings: &str, attributes: &str| {
        std::fs::write(directory.path().join("a.yaml"), FOR_ENVOY.replace("SETTINGS", settings)).unwrap();
        let ran = run(&["mixer", "check", "--config", &target, "-s", attributes]);
        let about_namespaces = ran.err.lines().filter(|line| line.contains("namespace")).collect::<Vec<_>>();
        Ran { err: about_namespaces.join("\n"), ..ran }
    };
    let warning = |what: &str| {
        format!(
            "warning: the request names no namespace: a call of Envoy without one {what}; the answer is that of the Mixer API, by the \
             rules of the mesh"
        )
    };
    let ran = told("check: {}", "source.user=ann");
    assert_eq!((ran.code, ran.err), (0, warning("is refused")), "{}", ran.out);
    let ran = told("defaultNamespace: shop", "source.user=ann");
    assert_eq!(
        (ran.code, ran.err),
        (0, warning("gets the rules of `shop` (defaultNamespace)")),
        "{}",
        ran.out
    );
    let ran = told("defaultNamespace: shop", "destination.namespace=shop");
    assert_eq!((ran.code, ran.err.contains("Envoy")), (1, false), "{}", ran.out);
    // The configuration itself names one.
    let ran = told("check: {staticAttributes: {destination.namespace: shop}}", "source.user=ann");
    assert_eq!((ran.code, ran.err.contains("Envoy")), (0, false), "{}", ran.out);
}

#[test]
fn diff_tells_what_envoy_gets_without_a_namespace() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    for (name, settings) in [("from", "check: {}"), ("to", "defaultNamespace: shop")] {
        std::fs::create_dir(path(name)).unwrap();
        std::fs::write(format!("{}/a.yaml", path(name)), FOR_ENVOY.replace("SETTINGS", settings)).unwrap();
    }
    let call = |name: &str| {
        let attributes = format!(r#"{{"{name}": "shop"}}"#);
        format!(
            r#"{{"time": "2026-01-02T03:04:05Z", "id": "1", "method": "check", "attributes": {attributes}}}"#
        )
    };
    let calls = path("calls.jsonl");
    std::fs::write(&calls, [call("source.user"), call("destination.namespace")].join("\n")).unwrap();
    let arguments = ["mixer", "diff", "--from", &path("from"), "--to", &path("to"), "--requests", &calls];
    let ran = run(&arguments);
    let text = "1 name no namespace and are compared as calls of the Mixer API; from Envoy such a call is refused with --from, and gets \
                the rules of `shop` (defaultNamespace) with --to\n";
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains(text), "{}", ran.out);
    assert!(ran.out.contains("spec.defaultNamespace (none) -> \"shop\""), "{}", ran.out);
    let found = json(&run(&[&arguments[..], &["-o", "json"]].concat()));
    assert_eq!(found["summary"]["unnamed"], 1, "{found}");
}

/// Addresses as one writes them, of both versions.
#[test]
fn addresses_are_attributes() {
    let with = |list: &str| {
        run(&["mixer", "check", "--config", "embedded://sample", "--explain", "--ip-attributes", list])
    };
    let ran = with("source.ip=192.0.2.1,destination.ip=2001:db8::1");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let wrong = with("source.ip=192.0.2");
    let text = "error: invalid value `192.0.2` of the attribute `source.ip`\n  cause: expected an IP address, for example \
                192.0.2.1 or 2001:db8::1\n";
    assert_eq!((wrong.code, wrong.err.as_str()), (2, text));
    let hexadecimal =
        run(&["mixer", "check", "-m", "127.0.0.1:1", "--ip-attributes", "source.ip=192.0.2.1", "-o", "json"]);
    let bytes = run(&[
        "mixer",
        "check",
        "-m",
        "127.0.0.1:1",
        "--bytes-attributes",
        "source.ip=c0:0:2:1",
        "-o",
        "json",
    ]);
    assert_eq!((hexadecimal.code, hexadecimal.err), (bytes.code, bytes.err));
}

/// The exit status tells the result.
#[test]
fn a_quiet_check_prints_nothing() {
    for (command, code) in [("check", 0), ("report", 0)] {
        let quiet = ["mixer", command, "--config", "embedded://sample", "-s", "source.user=ann", "--quiet"];
        let ran = run(&quiet);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (code, "", ""), "{command}");
        let asked = run(&[&quiet[..], &["-o", "json"]].concat());
        assert!(asked.out.starts_with('{'), "{}", asked.out);
        // Nobody listens there.
        let failed = run(&["mixer", command, "-m", "127.0.0.1:1", "-s", "source.user=ann", "--quiet"]);
        assert_eq!(failed.out, "");
        assert!(failed.code != 0 && failed.err.contains("Unavailable"), "{}", failed.err);
    }
}

/// The server tells it: a grant does not.
#[test]
fn quotas_that_a_server_does_not_allocate_are_told() {
    // A grant of a quota without dimensions looks as one that no rule allocates.
    const LIMITED: &str = "kind: handler\nmetadata: {name: limits, namespace: istio-system}\nspec: {compiledAdapter: memquota, \
        params: {quotas: [{name: requests.instance.istio-system, maxAmount: 50, validDuration: 60s}, \
        {name: uploads.instance.istio-system, maxAmount: 50, validDuration: 60s}]}}\n---\n\
        kind: instance\nmetadata: {name: requests, namespace: istio-system}\nspec: {compiledTemplate: quota}\n---\n\
        kind: instance\nmetadata: {name: uploads, namespace: istio-system}\nspec: {compiledTemplate: quota}\n---\n\
        kind: rule\nmetadata: {name: limit, namespace: istio-system}\nspec: {actions: [{handler: limits, instances: [requests]}]}\n---\n\
        kind: rule\nmetadata: {name: limit-bob, namespace: istio-system}\nspec: {match: source.user == \"bob\", \
        actions: [{handler: limits, instances: [uploads]}]}\n";
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("policy.yaml"), LIMITED).unwrap();
    let server = Server::on(directory.path()).native().start();
    let check = |program: &str, user: &str, quotas: &str, more: &[&str]| {
        let address = server.address();
        let user = format!("source.user={user}");
        let ran = run(&[&[program, "check", "-m", &address, "-s", &user, "-q", quotas], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran
    };
    let unknown = "warning: no rule of the server allocates the quota `request`: what no rule allocates is granted; did you mean \
                   `requests`?\n";
    let told = check("mixer", "ann", "request=1,Requests=1", &["-r", "3"]).err;
    assert!(told.starts_with(unknown) && told.matches("warning").count() == 1, "once a run: {told}");
    let other = "warning: no rule of the server allocates the quota `uploads` for this request: what no rule allocates is granted\n";
    assert_eq!(check("mixer", "ann", "uploads=1", &[]).err, other);
    for (program, user, quotas, more) in [
        ("mixer", "bob", "uploads=1,requests=1", &[][..]),
        ("mixer", "ann", "request=1", &["--quiet"][..]),
        ("mixc", "ann", "request=1", &[]),
    ] {
        assert_eq!(check(program, user, quotas, more).err, "");
    }
    // Nothing was allocated for it: three of the calls with `requests` above, and one.
    let left = check("mixer", "ann", "requests=50", &["-o", "json", "--explain"]);
    let document = json(&left);
    assert_eq!(document["quotas"][0]["granted"], 46, "{document}");
    let explained = serde_json::json!([{"name": "requests", "allocated": true, "rules": ["limit.rule.istio-system"], "known": true}]);
    assert_eq!(document["explanation"]["quotas"], explained);
    let text = check("mixer", "ann", "uploads=1", &["--explain"]).out;
    assert!(
        text.contains("Quotas\n  uploads: no rule allocates it for this request: it is granted\n"),
        "{text}"
    );
}

/// The sample has the quota that the example of the help asks for.
#[test]
fn the_example_of_the_help_asks_for_a_quota_that_there_is() {
    let help = run(&["mixer", "check", "--help"]).out;
    let example =
        help.split("Example: ").nth(1).and_then(|text| text.split("\n\n").next()).expect("an example");
    let words: Vec<&str> = example.split_whitespace().chain(["--config", "embedded://sample"]).collect();
    let ran = run(&words);
    assert!(ran.code == 0 && !ran.err.contains("no rule allocates"), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("request-count"), "{}", ran.out);
}

/// A quota of which nothing is granted is a refusal: in words, in color, and in the exit status. Of Istio's client it is none.
#[test]
fn a_quota_without_a_grant_is_a_refusal() {
    const NOTHING: &str = "kind: handler\nmetadata: {name: limits, namespace: istio-system}\nspec: {compiledAdapter: memquota, \
        params: {quotas: [{name: berths.instance.istio-system, maxAmount: 0, validDuration: 60s}]}}\n---\n\
        kind: instance\nmetadata: {name: berths, namespace: istio-system}\nspec: {compiledTemplate: quota}\n---\n\
        kind: rule\nmetadata: {name: limit, namespace: istio-system}\nspec: {actions: [{handler: limits, instances: [berths]}]}\n";
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("policy.yaml"), NOTHING).unwrap();
    let target = directory.path().display().to_string();
    let check =
        |program: &str, more: &[&str]| run(&[&[program, "check", "--config", &target][..], more].concat());
    let told = "nothing was granted of berths (3 asked for)";
    let plain = check("mixer", &["-q", "berths=3"]);
    assert_eq!(plain.code, 1, "{}", plain.err);
    assert!(plain.out.ends_with(&format!("\n\n  But {told}\n\n")), "{}", plain.out);
    let table = check("mixer", &["-q", "berths=3", "-o", "table", "--color", "always"]);
    assert_eq!(table.code, 1, "{}", table.err);
    let first = format!("\u{1b}[1;31mOK\u{1b}[0m  \u{1b}[1;31mbut {told}\u{1b}[0m\n");
    assert!(table.out.starts_with(&first), "{:?}", table.out);
    let many = check("mixer", &["-q", "berths=3", "-r", "2"]);
    assert!(many.code == 1 && many.err.contains(": 0 ok, 2 denied, 0 failed"), "{}", many.err);
    assert_eq!(check("mixer", &["-q", "berths=3", "--exit-zero"]).code, 0);
    assert_eq!(check("mixer", &["-q", "berths=0"]).code, 0, "nothing was asked for");
    assert_eq!(check("mixer", &["-q", "other=3"]).code, 0, "what no rule allocates is granted");
    let legacy = check("mixc", &["-q", "berths=3"]);
    assert!(legacy.code == 0 && !legacy.out.contains("granted of"), "{}", legacy.out);
}

/// What was sent, and what the server says of it.
#[test]
fn the_summary_of_reports_counts_records() {
    let target = scenario("harbor");
    let report = |more: &[&str]| run(&[&["mixer", "report", "--config", &target][..], more].concat());
    let batches = ["-r", "5", "--report-batch-size", "2", "-t", "request.time=2017-07-04T00:01:10Z"];
    let taken = report(&batches);
    assert_eq!(taken.code, 0, "{}{}", taken.out, taken.err);
    assert!(
        taken.err.contains("3 calls in") && taken.err.contains(": 3 ok, 0 failed; 5 records sent, 5 taken\n"),
        "{}",
        taken.err
    );
    // Its log entry needs the time.
    let refused = report(&["-r", "3", "-c", "2"]);
    assert_eq!(refused.code, 4, "{}", refused.out);
    assert!(refused.err.contains(": 0 ok, 6 failed; 6 records sent, 0 taken\n"), "{}", refused.err);
    let one = json(&report(&["-o", "json", "-t", "request.time=2017-07-04T00:01:10Z"]));
    assert_eq!(one["records"], serde_json::json!({"sent": 1, "taken": 1}));
    let many = json(&report(&[&batches[..], &["-o", "json"]].concat()));
    assert_eq!(many["summary"]["records"], serde_json::json!({"sent": 5, "taken": 5}));
    assert_eq!(many["items"][2]["records"]["sent"], 1);
    // Failures and the summary are documents, too.
    let failed = report(&["-r", "2", "--error-format", "json"]);
    let lines: Vec<serde_json::Value> =
        failed.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = lines.iter().filter_map(|line| line["kind"].as_str()).collect();
    assert_eq!(kinds, ["Error", "Error", "CallSummary"], "{}", failed.err);
    assert_eq!(lines[2]["summary"]["records"], serde_json::json!({"sent": 2, "taken": 0}));
    let legacy = run(&["mixc", "report", "--config", &target, "-r", "3"]);
    assert!(!legacy.err.contains("records"), "{}", legacy.err);
}
