use mixer_config::yaml;

use super::*;

/// Documents with what analyzers read of each; those of other kinds are left out.
fn objects(documents: &[Node]) -> Vec<Object<'_>> {
    documents
        .iter()
        .filter_map(|document| {
            let part = |name: &str| text(document.member(name));
            let kind = analyzed_kind(part("apiVersion")?, part("kind")?)?;
            let namespace = if kind.cluster_scoped { "" } else { "shop" };
            let name = text(world::at(document, &["metadata", "name"]))?;
            let namespace = text(world::at(document, &["metadata", "namespace"])).unwrap_or(namespace);
            Some(Object { kind, name, namespace, document })
        })
        .collect()
}

/// What is said of documents in YAML, as Istio's log has it.
fn told_but(suppressed: &[&str], text: &str) -> Vec<String> {
    let documents: Vec<Node> = text.split("\n---\n").map(|text| yaml::parse(text).unwrap().root).collect();
    let objects = objects(&documents);
    let suppressed: Vec<Suppression> = suppressed.iter().map(|text| text.parse().unwrap()).collect();
    let told = |message: Message| {
        assert!(message.problem.span.is_some());
        message.line(&objects[message.object])
    };
    analyze(&objects, &suppressed, &|| false).into_iter().map(told).collect()
}

fn told(text: &str) -> Vec<String> {
    told_but(&[], text)
}

/// Kind, `NAME` or `NAME.NAMESPACE`, and the rest: of the metadata, if there is a `|`, and of the document.
type Part<'p> = (&'p str, &'p str, &'p str);

/// Documents of parts.
fn of(parts: &[Part<'_>]) -> String {
    let version = |kind: &str| match kind {
        "VirtualService" | "Gateway" | "DestinationRule" | "ServiceEntry" | "Sidecar" | "EnvoyFilter" => {
            "networking.istio.io/v1alpha3"
        }
        "Policy" | "MeshPolicy" => "authentication.istio.io/v1alpha1",
        "ServiceRole" | "ServiceRoleBinding" => "rbac.istio.io/v1alpha1",
        "Deployment" => "apps/v1",
        "CustomResourceDefinition" => "apiextensions.k8s.io/v1beta1",
        _ => "v1",
    };
    let document = |(kind, name, rest): &Part<'_>| {
        let (metadata, rest) = rest.split_once('|').unwrap_or(("", rest));
        let (name, namespace) = name
            .split_once('.')
            .map_or((*name, String::new()), |(name, namespace)| (name, format!(", namespace: {namespace}")));
        let name = name.replace('_', ".");
        format!(
            "apiVersion: {}\nkind: {kind}\nmetadata: {{name: {name}{namespace}{metadata}}}\n{rest}",
            version(kind)
        )
    };
    parts.iter().map(document).collect::<Vec<_>>().join("\n---\n")
}

const POD: Part<'static> = (
    "Pod",
    "web-1",
    ", labels: {app: web}|spec: {containers: [{name: istio-proxy, image: hub/proxyv2:1}, {name: web}]}",
);
const BARE: Part<'static> = ("Pod", "web-2", ", labels: {app: web}|spec: {containers: [{name: web}]}");
const SERVICE: Part<'static> =
    ("Service", "web", "spec: {selector: {app: web}, ports: [{name: http, port: 80}]}");

/// Of each analyzer what it tells, and what it does not.
#[test]
fn analyzers_tell_what_resources_say_together() {
    let route =
        |to: &str| format!("spec: {{hosts: [a.com], http: [{{route: [{{destination: {{{to}}}}}]}}]}}");
    let routes = [
        route("host: web, port: {number: 80}"),
        route("host: x.any.com"),
        route("host: nobody"),
        route("host: web, port: {number: 81}"),
        route("host: own.com"),
        route("host: web, subset: v2"),
        route("host: many"),
    ];
    let gateway = "spec: {selector: {app: web}, servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: ['*'], \
                   tls: {mode: SIMPLE, credentialName: cert}}]}";
    let other_gateway = gateway.replace("app: web", "app: none");
    let jwt = "spec: {targets: [{name: web}], origins: [{jwt: {issuer: i, jwksUri: 'http://i'}}], principalBinding: USE_ORIGIN}";
    let mutual = "spec: {host: web, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}";
    let rows: Vec<(Vec<Part<'_>>, Vec<&str>)> = vec![
        // IST0002
        (
            vec![(
                "VirtualService",
                "v",
                "spec: {hosts: [a.com], http: [{fault: {delay: {percent: 5, fixedDelay: 1s}}, route: [{destination: {host: a.com}}]}]}",
            )],
            vec![
                "warning [IST0002](VirtualService v.shop) Deprecated: HTTPRoute.fault.delay.percent is deprecated; use HTTPRoute.fault.delay.percentage",
            ],
        ),
        (
            vec![
                (
                    "ServiceRoleBinding",
                    "b",
                    "spec: {subjects: [{group: g}], roleRef: {kind: ServiceRole, name: r}}",
                ),
                ("ServiceRole", "r", "spec: {rules: [{services: ['*'], methods: [GET]}]}"),
            ],
            vec![
                "warning [IST0002](ServiceRoleBinding b.shop) Deprecated: ServiceRoleBinding.subjects.group is deprecated",
            ],
        ),
        // IST0101: gateways
        (
            vec![
                (
                    "VirtualService",
                    "v",
                    "spec: {hosts: [a.com], gateways: [mesh, g, other/g, h.other.svc.cluster.local], http: [{route: [{destination: {host: a.com}}]}]}",
                ),
                (
                    "Gateway",
                    "g.other",
                    "spec: {servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}",
                ),
            ],
            vec![
                "error [IST0101](VirtualService v.shop) Referenced gateway not found: \"g\"",
                "error [IST0101](VirtualService v.shop) Referenced gateway not found: \"h.other.svc.cluster.local\"",
            ],
        ),
        // IST0101: hosts; a wildcard and a short name are found, another namespace's are not seen.
        (
            vec![
                ("VirtualService", "a", &routes[0]),
                ("VirtualService", "b", &routes[1]),
                ("VirtualService", "c", &routes[2]),
                ("VirtualService", "d", &routes[3]),
                ("VirtualService", "e", &routes[4]),
                (
                    "ServiceEntry",
                    "any",
                    "spec: {hosts: ['*.any.com'], resolution: NONE, ports: [{number: 80, name: http, protocol: HTTP}]}",
                ),
                (
                    "ServiceEntry",
                    "own.other",
                    "spec: {hosts: [own.com], resolution: DNS, exportTo: ['.'], ports: [{number: 80, name: http, protocol: HTTP}]}",
                ),
                SERVICE,
            ],
            vec![
                "error [IST0101](VirtualService c.shop) Referenced host not found: \"nobody\"",
                "error [IST0101](VirtualService d.shop) Referenced host:port not found: \"web:81\"",
                "error [IST0101](VirtualService e.shop) Referenced host not found: \"own.com\"",
            ],
        ),
        // IST0101: subsets
        (
            vec![
                ("VirtualService", "v", &routes[5]),
                ("DestinationRule", "d", "spec: {host: web, subsets: [{name: v1, labels: {version: v1}}]}"),
            ],
            vec![
                "error [IST0101](VirtualService v.shop) Referenced host+subset in destinationrule not found: \"web+v2\"",
            ],
        ),
        // IST0101: roles, and their services
        (
            vec![(
                "ServiceRoleBinding",
                "b",
                "spec: {subjects: [{user: u}], roleRef: {kind: ServiceRole, name: ghost}}",
            )],
            vec!["error [IST0101](ServiceRoleBinding b.shop) Referenced service role not found: \"ghost\""],
        ),
        (
            vec![
                (
                    "ServiceRole",
                    "r",
                    "spec: {rules: [{services: [web.shop.svc.cluster.local, 'web*', '*.svc.cluster.local', '*', ghost.shop.svc.cluster.local], methods: [GET]}]}",
                ),
                SERVICE,
            ],
            vec![
                "error [IST0101](ServiceRole r.shop) Referenced service not found: \"ghost.shop.svc.cluster.local\"",
            ],
        ),
        // IST0101, IST0104: workloads, ports and secrets of gateways
        (
            vec![
                ("Gateway", "g", gateway),
                ("Gateway", "h", &other_gateway),
                POD,
                SERVICE,
                ("Secret", "other", ""),
            ],
            vec![
                "error [IST0101](Gateway g.shop) Referenced credentialName not found: \"cert\"",
                "error [IST0101](Gateway h.shop) Referenced selector not found: \"app=none\"",
                "warning [IST0104](Gateway g.shop) The gateway refers to a port that is not exposed on the workload (pod selector app=web; port 443)",
            ],
        ),
        // IST0102, IST0103
        (
            vec![
                ("Namespace", "shop", ", labels: {istio-injection: enabled}|"),
                ("Namespace", "other", ""),
                ("Namespace", "kube-system", ""),
                POD,
                BARE,
                (
                    "Pod",
                    "out",
                    ", annotations: {sidecar.istio.io/inject: 'false'}|spec: {containers: [{name: web}]}",
                ),
            ],
            vec![
                "warning [IST0102](Namespace other) The namespace is not enabled for Istio injection. Run 'kubectl label namespace other istio-injection=enabled'",
                "warning [IST0103](Pod web-2.shop) The pod is missing the Istio proxy.",
            ],
        ),
        // IST0105
        (
            vec![
                ("Namespace", "shop", ", labels: {istio-injection: enabled}|"),
                POD,
                (
                    "ConfigMap",
                    "istio-sidecar-injector.istio-system",
                    "data: {values: '{\"global\": {\"hub\": \"hub\", \"tag\": \"2\", \"proxy\": {\"image\": \"proxyv2\"}}}'}",
                ),
            ],
            vec![
                "warning [IST0105](Pod web-1.shop) The image of the Istio proxy running on the pod does not match the image defined in the injection configuration (pod image: hub/proxyv2:1; injection configuration image: hub/proxyv2:2).",
            ],
        ),
        // IST0106
        (
            vec![("Gateway", "g", "spec: {servers: []}")],
            vec![
                "error [IST0106](Gateway g.shop) Schema validation error: gateway must have at least one server",
            ],
        ),
        // IST0107, IST0108
        (
            vec![
                (
                    "Service",
                    "s",
                    ", annotations: {sidecar.istio.io/inject: 'true', networking.istio.io/exportTo: '.', what.istio.io/ever: x, example.com/istio.io: x}|spec: {ports: [{name: http, port: 80}]}",
                ),
                (
                    "Deployment",
                    "d",
                    "spec: {template: {metadata: {annotations: {sidecar.istio.io/inject: 'false'}}}}",
                ),
            ],
            vec![
                "warning [IST0107](Service s.shop) Misplaced annotation: sidecar.istio.io/inject can only be applied to Pod",
                "warning [IST0108](Service s.shop) Unknown annotation: what.istio.io/ever",
            ],
        ),
        // IST0109: not for gateways, nor in another scope
        (
            vec![
                (
                    "VirtualService",
                    "a",
                    "spec: {hosts: [web], http: [{route: [{destination: {host: web}}]}]}",
                ),
                (
                    "VirtualService",
                    "b",
                    "spec: {hosts: [web.shop.svc.cluster.local], http: [{route: [{destination: {host: web}}]}]}",
                ),
                (
                    "VirtualService",
                    "c",
                    "spec: {hosts: [web], exportTo: ['.'], http: [{route: [{destination: {host: web}}]}]}",
                ),
            ],
            vec![
                "error [IST0109](VirtualService a.shop) The VirtualServices shop/a,shop/b associated with mesh gateway define the same host web.shop.svc.cluster.local which",
                "error [IST0109](VirtualService b.shop) The VirtualServices shop/a,shop/b associated",
            ],
        ),
        // IST0101, IST0110, IST0111: sidecars
        (
            vec![
                POD,
                (
                    "Sidecar",
                    "a",
                    "spec: {workloadSelector: {labels: {app: web}}, egress: [{hosts: ['*/*']}]}",
                ),
                (
                    "Sidecar",
                    "b",
                    "spec: {workloadSelector: {labels: {app: web}}, egress: [{hosts: ['*/*']}]}",
                ),
                (
                    "Sidecar",
                    "c",
                    "spec: {workloadSelector: {labels: {app: none}}, egress: [{hosts: ['*/*']}]}",
                ),
                ("Sidecar", "d", "spec: {egress: [{hosts: ['*/*']}]}"),
                ("Sidecar", "e", "spec: {egress: [{hosts: ['*/*']}]}"),
                ("Sidecar", "f.other", "spec: {egress: [{hosts: ['*/*']}]}"),
            ],
            vec![
                "error [IST0101](Sidecar c.shop) Referenced selector not found: \"app=none\"",
                "error [IST0110](Sidecar a.shop) The Sidecars [a b] in namespace \"shop\" select the same workload pod \"web-1\", which",
                "error [IST0110](Sidecar b.shop) The Sidecars [a b]",
                "error [IST0111](Sidecar d.shop) The Sidecars [d e] in namespace \"shop\" have no workload selector, which",
                "error [IST0111](Sidecar e.shop) The Sidecars [d e]",
            ],
        ),
        // IST0112
        (
            vec![
                ("VirtualService", "v", &routes[6]),
                ("Service", "many", "spec: {ports: [{name: http, port: 80}, {name: https, port: 443}]}"),
            ],
            vec![
                "error [IST0112](VirtualService v.shop) This VirtualService routes to a service \"many\" that exposes multiple ports [80 443]. Specifying",
            ],
        ),
        // IST0113: strict without a rule; a rule for a service without a policy; a port of its own; agreement
        (
            vec![("MeshPolicy", "default", "spec: {peers: [{mtls: {}}]}"), SERVICE],
            vec![
                "error [IST0113](MeshPolicy default) A DestinationRule and Policy are in conflict with regards to mTLS for host *.local. The DestinationRule \"(none)\" specifies that mTLS must be false but the Policy object \"default\" specifies STRICT.",
            ],
        ),
        (
            vec![
                ("DestinationRule", "d", mutual),
                SERVICE,
                ("Policy", "default.other", "spec: {peers: [{mtls: {}}]}"),
            ],
            vec![
                "error [IST0113](DestinationRule d.shop) A DestinationRule and Policy are in conflict with regards to mTLS for host web.shop.svc.cluster.local. The DestinationRule \"shop/d\" specifies that mTLS must be true but the Policy object \"(none)\" specifies Plaintext.",
            ],
        ),
        (
            vec![
                ("DestinationRule", "d", mutual),
                SERVICE,
                (
                    "Policy",
                    "p",
                    "spec: {targets: [{name: web, ports: [{number: 80}]}], peers: [{mtls: {mode: STRICT}}]}",
                ),
            ],
            vec![],
        ),
        (
            vec![
                ("Policy", "p", "spec: {targets: [{name: web}], peers: [{mtls: {mode: PERMISSIVE}}]}"),
                SERVICE,
            ],
            vec![],
        ),
        // IST0114
        (
            vec![
                (
                    "Policy",
                    "p",
                    "spec: {targets: [{name: web, ports: [{name: http}, {name: ghost}]}], peers: [{mtls: {mode: PERMISSIVE}}]}",
                ),
                SERVICE,
            ],
            vec![
                "warning [IST0114](Policy p.shop) Port name ghost could not be found for host web.shop.svc.cluster.local, which means the Policy won't be enforced.",
            ],
        ),
        // IST0115
        (
            vec![("DestinationRule", "d", mutual), SERVICE, POD, BARE],
            vec![
                "error [IST0115](DestinationRule d.shop) DestinationRule shop/d uses mTLS for workload web.shop.svc.cluster.local that has no sidecar. Traffic",
            ],
        ),
        (vec![("DestinationRule", "d", mutual), SERVICE, POD], vec![]),
        // IST0116, IST0117
        (
            vec![
                ("Namespace", "shop", ", labels: {istio-injection: enabled}|"),
                ("Deployment", "web", "spec: {template: {metadata: {labels: {app: web}}}}"),
                ("Deployment", "alone", "spec: {template: {metadata: {labels: {app: alone}}}}"),
                (
                    "Deployment",
                    "out",
                    "spec: {template: {metadata: {labels: {app: out}, annotations: {sidecar.istio.io/inject: 'false'}}}}",
                ),
                SERVICE,
                ("Service", "raw", "spec: {selector: {app: web}, ports: [{name: tcp, port: 80}]}"),
            ],
            vec![
                "warning [IST0116](Deployment web.shop) This deployment is associated with multiple services using port 80 but different protocols: [HTTP TCP]",
                "warning [IST0117](Deployment alone.shop) No service associated with this deployment.",
            ],
        ),
        // IST0118
        (
            vec![(
                "Service",
                "s",
                "spec: {ports: [{name: main, port: 90, targetPort: web}, {port: 3306}, {name: GRPC-web-x, port: 1}, {name: dns, port: 5353, protocol: UDP}]}",
            )],
            vec![
                "info [IST0118](Service s.shop) Port name main (port: 90, targetPort: web) doesn't follow the naming convention of Istio port.",
            ],
        ),
        // IST0119
        (
            vec![
                ("Policy", "p", jwt),
                SERVICE,
                ("Service", "web.other", "spec: {ports: [{name: tcp, port: 9}]}"),
            ],
            vec![],
        ),
        (
            vec![
                ("Policy", "p", jwt),
                ("Service", "web", "spec: {ports: [{name: tcp-x, port: 9, targetPort: 90}]}"),
            ],
            vec![
                "warning [IST0119](Policy p.shop) Authentication policy with JWT targets Service with invalid port specification (port: 9, name: tcp-x, protocol: TCP, targetPort: 90).",
            ],
        ),
        // IST0120, IST0121
        (
            vec![
                ("Policy", "default", "spec: {peers: [{mtls: {mode: PERMISSIVE}}]}"),
                ("MeshPolicy", "default", "spec: {peers: [{mtls: {mode: PERMISSIVE}}]}"),
                ("CustomResourceDefinition", "peerauthentications_security_istio_io", ""),
            ],
            vec![
                "info [IST0120](Policy default.shop) The Policy resource is deprecated and will be removed in a future Istio release. Migrate to the PeerAuthentication resource.",
                "info [IST0121](MeshPolicy default) The MeshPolicy resource is deprecated",
            ],
        ),
    ];
    for (parts, expected) in rows {
        let text = of(&parts);
        let found = told(&text);
        // Only what a row is about.
        let codes: BTreeSet<&str> =
            expected.iter().filter_map(|line| line.split(['[', ']']).nth(1)).collect();
        let found: Vec<&String> = match codes.is_empty() {
            true => found.iter().collect(),
            false => found.iter().filter(|line| codes.iter().any(|code| line.contains(code))).collect(),
        };
        assert_eq!(found.len(), expected.len(), "{found:#?}\n{text}");
        for (line, start) in found.iter().zip(&expected) {
            assert!(line.starts_with(start), "{line}\n{start}\n{text}");
        }
    }
}

#[test]
fn what_is_suppressed_is_not_told() {
    let parts = [("Namespace", "shop", ""), ("Namespace", "other", "")];
    let first = |suppressed: &[&str], text: &str| {
        told_but(suppressed, text)
            .iter()
            .map(|line| line.split(')').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let both = ["warning [IST0102](Namespace other", "warning [IST0102](Namespace shop"];
    assert_eq!(first(&[], &of(&parts)), both);
    assert_eq!(first(&["IST0102=Namespace shop"], &of(&parts)), both[..1]);
    assert_eq!(first(&["IST01*=Namespace o*r"], &of(&parts)), both[1..]);
    assert_eq!(first(&["IST0103=*", "*=Pod *"], &of(&parts)), both);
    assert!(first(&["*=*"], &of(&parts)).is_empty());
    for (muted, count) in [("IST0102", 0), ("IST0101, IST0102", 0), ("'*'", 0), ("IST0101", 1)] {
        let metadata = format!(", annotations: {{{SUPPRESS}: {muted}}}|");
        let metadata = metadata.replace("IST0101, IST0102", "'IST0101, IST0102'");
        assert_eq!(told(&of(&[("Namespace", "shop", &metadata)])).len(), count, "{muted}");
    }
    let wrong = "IST0102".parse::<Suppression>().unwrap_err();
    assert!(wrong.contains("is not CODE=KIND NAME.NAMESPACE"), "{wrong}");
}

/// Without pods, nothing is said of workloads; nor is anything said twice, and an analysis ends early.
#[test]
fn analyzers_without_inputs_do_not_run() {
    let gateway = (
        "Gateway",
        "g",
        "spec: {selector: {app: web}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}",
    );
    let service =
        ("VirtualService", "v", "spec: {hosts: [a.com], http: [{route: [{destination: {host: web}}]}]}");
    assert_eq!(told(&of(&[gateway, service])), Vec::<String>::new());
    let mirrored =
        "spec: {hosts: [a.com], http: [{mirror: {host: ghost}, route: [{destination: {host: ghost}}]}]}";
    assert_eq!(told(&of(&[("VirtualService", "v", mirrored), SERVICE])).len(), 1);
    let documents = [yaml::parse(&of(&[("Namespace", "n", "")])).unwrap().root];
    assert!(analyze(&objects(&documents), &[], &|| true).is_empty());
}

#[test]
fn the_table_names_each_analyzer_once() {
    let names: Vec<&str> = analyzers().map(|(name, _)| name).collect();
    assert!(names.is_sorted() && names.len() == names.iter().collect::<BTreeSet<_>>().len(), "{names:?}");
    let kinds: BTreeSet<&str> = ANALYZERS.iter().flat_map(|analyzer| analyzer.needs.concat()).collect();
    let known =
        |kind: &str| crate::kinds::kinds().iter().chain(analyzed_kinds()).any(|known| known.kind == kind);
    assert!(kinds.iter().all(|kind| known(kind)), "{kinds:?}");
}
