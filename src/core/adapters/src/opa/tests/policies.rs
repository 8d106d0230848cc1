//! Policies as people write them: nothing is wrong with any of them.

use super::names::{found, with_leaves};
use super::*;

/// Modules, and the data that they read.
struct Written {
    name: &'static str,
    modules: &'static [&'static str],
    data: &'static str,
}

const POLICIES: [Written; 14] = [
    Written {
        name: "roles, a function, membership",
        modules: &[r#"package gate
import rego.v1
default allow := false
role_permissions := {"admin": {"GET", "POST", "DELETE"}, "reader": {"GET"}}
allow if {
	some role in roles_of(input.subject.user)
	input.action.method in role_permissions[role]
}
roles_of(user) := {role | some role, users in data.bindings; user in users}
"#],
        data: r#"{"bindings": {"admin": ["ann"], "reader": ["bob"]}}"#,
    },
    Written {
        name: "v0: partial sets of violations",
        modules: &[r#"package gate
default allow = false
allow { count(violation) == 0 }
violation[msg] {
	input.action.method == "DELETE"
	not is_admin
	msg := sprintf("%s may not delete %v", [input.subject.user, input.action.path])
}
violation[{"code": 1, "msg": "blocked"}] { data.blocked[_] == input.subject.user }
is_admin { admins[input.subject.user] }
admins = {"ann", "bob"}
"#],
        data: r#"{"blocked": ["eve"]}"#,
    },
    Written {
        name: "every, patterns, a map",
        modules: &[r#"package gate
default allow := false
segments := split(trim(input.action.path, "/"), "/")
allow if {
	every segment in segments { regex.match(`^[a-z0-9-]+$`, segment) }
	every i, _ in segments { i < 8 }
	not "admin" in segments
}
allow if {
	["admin", _] = segments
	input.subject.properties.labels["team"] == "ops"
}
allow if [_, "health"] := segments
"#],
        data: "",
    },
    Written {
        name: "v0: some, elements of data",
        modules: &[r#"package gate
default allow = false
allow {
	some i, j
	data.users[i].name == input.subject.user
	data.users[i].grants[j].path == input.action.path
	data.users[i].grants[j].methods[_] == input.action.method
}
allow { user := data.users[_]; user.name = input.subject.user; user.admin }
allow { path = ["users", id]; id == input.subject.user }
allow { {"user": u} = input.subject; u == "root" }
path = split(trim_left(input.action.path, "/"), "/")
"#],
        data: r#"{"users": [{"name": "ann", "admin": true, "grants": [{"path": "/a", "methods": ["GET"]}]}]}"#,
    },
    Written {
        name: "packages, imports, functions by their paths",
        modules: &[
            r#"package gate
import data.lib.people
import data.lib.config as cfg
import input.subject
default allow := false
allow if {
	data.lib.net.is_office(input.action.properties.ip)
	data.lib.clock.is_daytime(input.action.properties.at)
	subject.user
}
allow if people.is_staff
allow if cfg.mode == "open"
"#,
            r#"package lib.net
offices := ["10.0.0.0/8", "192.168.0.0/16"]
is_office(ip) if {
	some office in offices
	net.cidr_contains(office, ip)
}
"#,
            r#"package lib.clock
is_daytime(at) if {
	[hour, _, _] := time.clock(time.parse_rfc3339_ns(at))
	hour >= 8
	hour < 20
}
"#,
            r#"package lib.people
is_staff if { some group in input.subject.groups; group in data.lib.config.groups }
"#,
            "package lib.config\nmode := \"closed\"\ngroups := {\"staff\", \"ops\"}\n",
        ],
        data: "",
    },
    Written {
        name: "else, functions of constants and with unused arguments",
        modules: &[r#"package gate
default allow := false
allow := true if {
	input.subject.properties.role == "admin"
} else := false if {
	input.action.path == "/admin"
} else := limit(input.action.properties.size, "any")
limit(size, _) := true if size <= 1000
else := false
kind("GET") := "read"
kind(m) := "other" if not m in {"GET"}
allow if kind(input.action.method) == "read"
"#],
        data: "",
    },
    Written {
        name: "partial rules of v1",
        modules: &[r#"package gate
default allow := false
methods contains "GET"
methods contains "POST" if input.subject.properties.role == "writer"
owners[path] := owner if some path, owner in data.owners
grants[role] contains action if {
	some grant in data.grants
	role := grant.role
	some action in grant.actions
}
team.size := count(data.owners)
allow if input.action.method in methods
allow if owners[input.action.path] == input.subject.user
allow if grants[input.subject.properties.role][input.action.method]
allow if team.size == 0
"#],
        data: r#"{"owners": {"/a": "ann"}, "grants": [{"role": "r", "actions": ["GET"]}]}"#,
    },
    Written {
        name: "tests within the policy, and a module of tests",
        modules: &[
            r#"package gate
default allow := false
allow if { input.subject.user in data.admins; not deny }
deny if input.action.path == "/secret"
test_admin if { allow with input as {"subject": {"user": "ann"}, "action": {"path": "/"}} with data.admins as ["ann"] }
test_secret if { not allow with input.action.path as "/secret" with data.admins as ["ann"] }
test_all if { every f in fixtures { f.expected == allow with input as f.input with data.admins as ["ann"] } }
fixtures := [{"input": {"subject": {"user": "ann"}}, "expected": true}, {"input": {}, "expected": false}]
"#,
            r#"package gate_test
import data.gate
test_bob if not gate.allow with input as {"subject": {"user": "bob"}}
test_mock if { gate.allow with input as mocks.ann }
mocks := {"ann": {"subject": {"user": "ann", "tenant": input.tenant}}}
"#,
        ],
        data: r#"{"admins": ["ann"]}"#,
    },
    Written {
        name: "comprehensions, keywords imported",
        modules: &[r#"package gate
import future.keywords.if
import future.keywords.in
default allow := false
prefixes := [p | p := data.public[_].prefix; p != ""]
by_prefix := {p: m | some e in data.public; p := e.prefix; m := e.methods}
longest := max([count(p) | some p in prefixes; startswith(input.action.path, p)])
allow if { longest > 0; some p in prefixes; count(p) == longest; input.action.method in by_prefix[p] }
headers := {lower(k): v | some k, v in input.subject.properties.labels}
allow if headers["x-debug"] == "on"
allow if object.get(input.subject.properties.labels, "team", "none") == "ops"
"#],
        data: r#"{"public": [{"prefix": "/", "methods": ["GET"]}]}"#,
    },
    Written {
        name: "v0: functions of objects",
        modules: &[r#"package gate
default allow = false
allow { fits(input.action.path, data.rules[i].path); permitted(data.rules[i], input.subject) }
fits(path, pattern) { glob.match(pattern, ["/"], path) }
fits(_, "*")
permitted({"groups": groups, "deny": false}, subject) { subject.groups[_] == groups[_] }
permitted(rule, _) { rule.anonymous == true }
"#],
        data: r#"{"rules": [{"path": "/a", "anonymous": true, "groups": ["x"], "deny": false}]}"#,
    },
    Written {
        name: "reasons to deny",
        modules: &[r#"package gate
default allow := false
default deny := false
allow if not deny
deny if count(reasons) > 0
reasons contains "blocked" if input.subject.user in object.get(data, ["lists", "blocked"], [])
reasons contains "size" if input.action.properties.size > 1048576
reasons contains "no user" if not input.subject.user
reasons contains sprintf("path %q", [input.action.path]) if {
	startswith(input.action.path, "/internal")
	not startswith(input.action.path, "/internal/health")
}
reasons contains "mtls" if input.subject.properties.mtls == false
reasons contains "method" if not input.action.method in {"GET", "HEAD"}
"#],
        data: "",
    },
    Written {
        name: "tokens, walk",
        modules: &[r#"package gate
default allow := false
allow if { claims.sub == input.subject.user; "admin" in claims.roles }
claims := json.unmarshal(base64url.decode(token))
token := t if [_, t, _] := split(input.subject.properties.labels.authorization, ".")
found contains value if { walk(data.tree, [path, value]); path[count(path) - 1] == "owner" }
allow if input.subject.user in found
allow if { some name, _ in data.tree; name == input.action.service }
"#],
        data: r#"{"tree": {"a": {"owner": "ann"}}}"#,
    },
    Written {
        name: "v0: names that hide others",
        modules: &[r#"package gate
import data.acl
import input.action as act
default allow = false
user = input.subject
allow { user.user == "ann" }
allow { user := {"usr": "x"}; user.usr == input.subject.user }
allow { is_bob({"usr": input.subject.user}) }
is_bob(user) { user.usr == "bob" }
allow { names := {user | user := data.people[_].usr}; names[input.subject.user] }
allow { acl.paths[act.path][act.method] }
allow { data["acl"]["paths"]["/x"]; input["action"]["path"] == "/x" }
"#],
        data: r#"{"people": {"a": {"usr": "x"}}, "acl": {"paths": {"/x": {"GET": true}}}}"#,
    },
    Written {
        name: "with in what decides, sets, times",
        modules: &[
            r#"package gate
default allow := false
allow if { decision.ok with input as normalized }
normalized := {"who": lower(input.subject.user), "what": trim_suffix(input.action.path, "/")}
decision := {"ok": ok} if ok := input.who == "ann"
allow if count([1 | some t in data.tenants; check(t)]) > 0
check(t) if data.lib.valid with input.tenant as t
have := {g | some g in input.subject.groups} | {input.subject.properties.role}
allow if have & {"root"} != set()
allow if {
	print("checking", input.subject.user)
	some window in data.windows
	time.now_ns() >= time.parse_rfc3339_ns(window.from)
	window.users[_] == input.subject.user
}
"#,
            "package lib\nvalid if { input.tenant.name == \"shop\"; input.subject.user }\n",
        ],
        data: r#"{"tenants": [{"name": "shop"}], "windows": [{"from": "2026-01-01T00:00:00Z", "users": ["ann"]}]}"#,
    },
];

/// What calls of these policies bring.
fn caller() -> BoundInstance {
    with_leaves(&[
        ("subject.user", None, ValueType::String),
        ("subject.groups", None, ValueType::String),
        ("subject.properties", Some("role"), ValueType::String),
        ("subject.properties", Some("labels"), ValueType::StringMap),
        ("subject.properties", Some("mtls"), ValueType::Bool),
        ("action.service", None, ValueType::String),
        ("action.method", None, ValueType::String),
        ("action.path", None, ValueType::String),
        ("action.properties", Some("size"), ValueType::Int64),
        ("action.properties", Some("ip"), ValueType::IpAddress),
        ("action.properties", Some("at"), ValueType::Timestamp),
    ])
}

#[tokio::test]
async fn valid_policies_have_no_problems() {
    let directory = tempfile::tempdir().unwrap();
    for Written { name, modules, data } in POLICIES {
        let file = directory.path().join("data.json");
        std::fs::write(&file, data).unwrap();
        let data_files = if data.is_empty() { Vec::new() } else { vec![file.display().to_string()] };
        let policy = modules.iter().map(ToString::to_string).collect();
        let params = Params { policy, data_files, fail_close: true, ..params("") };
        let params = Params { check_method: "data.gate.allow".to_owned(), ..params };
        assert_eq!(found(&params, &[caller()]), [], "{name}");
        let built = Opa::build(params, vec![caller()], test_env("h.istio-system")).await;
        assert!(built.is_ok(), "{name}: {:?}", built.err());
    }
}

/// The engine does not find a function by an import, unlike OPA: what calls it would fail with each call that comes so far.
#[test]
fn functions_are_called_by_their_whole_paths() {
    let lib = "package lib.net\nis_office(ip) if ip == \"a\"\nclock(_) := 1\n";
    let path = "write `data.lib.net.is_office(…)`";
    for (import, call, hint) in [
        ("import data.lib.net as n", "n.is_office(\"a\")", path),
        ("import data.lib.net", "net.is_office(\"a\")", path),
        ("import data.lib", "lib.net.is_office(\"a\")", path),
        ("import data.lib.net.is_office", "is_office(\"a\")", path),
        // The engine would call its own.
        ("import data.lib.net as time", "time.clock(0)", "write `data.lib.net.clock(…)`"),
        ("import data.lib.net as n", "data.lib.net.is_office(\"a\")", ""),
        ("import data.lib.net as n", "is_office(\"a\")\nis_office(ip) if ip == \"a\"", ""),
        ("import data.lib.net as n", "time.clock(0)", ""),
    ] {
        let gate = format!(
            "package gate\n{import}\ndefault allow := false\nallow if {{ input.subject.user == \"ann\"; input.action.path }}\nallow if {call}\n"
        );
        let params = Params { policy: vec![gate, lib.to_owned()], fail_close: true, ..params("") };
        let params = Params { check_method: "data.gate.allow".to_owned(), ..params };
        let found = found(&params, &[caller()]);
        let hints: Vec<&str> = found.iter().filter_map(|problem| problem.hint.as_deref()).collect();
        let expected: &[&str] = if hint.is_empty() { &[] } else { &[hint] };
        assert_eq!(hints, expected, "{import} {call}: {found:?}");
        assert_eq!(found.len(), expected.len(), "{import} {call}: {found:?}");
    }
}
