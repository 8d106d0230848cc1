//! Mutual TLS and tokens, of authentication policies and of destination rules.

use std::collections::{BTreeSet, HashMap};

use mixer_config::Node;

use super::workloads::{protocol, proxy};
use super::world::{DOMAIN, Port, ROOT, World, at, full_host, integer, items, labels, ports, shown, text};
use super::{Found, Object, field};

/// Namespaces of Kubernetes itself.
const SYSTEM: [&str; 2] = ["kube-system", "kube-public"];

/// What a policy asks of those who call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Strict,
    Permissive,
    Plaintext,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Strict => "STRICT",
            Mode::Permissive => "PERMISSIVE",
            Mode::Plaintext => "Plaintext",
        }
    }

    /// Whether calls with (or without) mutual TLS are refused.
    fn contradicts(self, is_mutual: bool) -> bool {
        self == if is_mutual { Mode::Plaintext } else { Mode::Strict }
    }
}

fn mode_of(policy: &Object<'_>) -> Mode {
    let peers = items(policy.document, &["spec", "peers"]);
    let Some(mutual) = peers.iter().find_map(|peer| peer.get("mtls")) else { return Mode::Plaintext };
    match text(mutual.member("mode")) {
        Some("PERMISSIVE") => Mode::Permissive,
        _ => Mode::Strict,
    }
}

/// A policy, or a destination rule, that was looked up.
#[derive(Debug, Clone, Copy)]
struct Side<'d, T> {
    object: usize,
    of: &'d Object<'d>,
    says: T,
}

/// Of a service, and of one of its ports.
type Targets<'d> = HashMap<(&'d str, &'d str), Vec<(&'d Node, Side<'d, Mode>)>>;

/// The policies of all services.
struct Policies<'d> {
    mesh: Option<Side<'d, Mode>>,
    namespaces: HashMap<&'d str, Side<'d, Mode>>,
    targets: Targets<'d>,
}

impl<'d> Policies<'d> {
    fn of(world: &World<'d>) -> Self {
        let side = |(object, of): (usize, &'d Object<'d>)| Side { object, of, says: mode_of(of) };
        let mesh = world.all("MeshPolicy").find(|(_, policy)| policy.name == "default").map(side);
        let (mut namespaces, mut targets) = (HashMap::new(), Targets::new());
        for (object, of) in world.all("Policy") {
            let targeted = items(of.document, &["spec", "targets"]);
            if targeted.is_empty() {
                namespaces.insert(of.namespace, side((object, of)));
            }
            for target in targeted {
                if let Some(name) = field(target, "name") {
                    targets.entry((of.namespace, name)).or_default().push((target, side((object, of))));
                }
            }
        }
        Self { mesh, namespaces, targets }
    }

    /// The policy of a port: one for the port goes before one for the service, the namespace and the mesh.
    fn of_port(&self, service: &Object<'d>, port: &Port<'d>) -> Option<Side<'d, Mode>> {
        let targets =
            self.targets.get(&(service.namespace, service.name)).map(Vec::as_slice).unwrap_or_default();
        let of_port = targets
            .iter()
            .find(|(target, _)| items(target, &["ports"]).iter().any(|selector| selects(selector, port)));
        let of_service = || targets.iter().find(|(target, _)| items(target, &["ports"]).is_empty());
        let found = of_port.or_else(of_service).map(|(_, side)| *side);
        found.or_else(|| self.namespaces.get(service.namespace).copied()).or(self.mesh)
    }
}

/// Whether the selector of a port of a target means a port.
fn selects(selector: &Node, port: &Port<'_>) -> bool {
    let number = integer(selector.member("number"));
    number == Some(port.number) || field(selector, "name").is_some_and(|name| name == port.name)
}

/// Whether a destination rule has calls of a port use mutual TLS of the mesh; `None` if it does not say.
fn is_mutual(rule: &Object<'_>, port: Option<i64>) -> Option<bool> {
    let policy = at(rule.document, &["spec", "trafficPolicy"])?;
    let of_port = items(policy, &["portLevelSettings"]).iter().find(|settings| {
        let number = settings.member("port").and_then(|port| integer(port.member("number")));
        number.is_some() && number == port
    });
    let tls = of_port.and_then(|settings| settings.member("tls")).or_else(|| policy.member("tls"))?;
    Some(text(tls.member("mode")) == Some("ISTIO_MUTUAL"))
}

/// Destination rules by namespace and full host.
fn rules_by_host<'d>(world: &World<'d>) -> HashMap<&'d str, HashMap<String, (usize, &'d Object<'d>)>> {
    let mut rules: HashMap<_, HashMap<_, _>> = HashMap::new();
    for (object, rule) in world.all("DestinationRule") {
        if let Some(host) = rule.document.member("spec").and_then(|spec| field(spec, "host")) {
            let of_namespace = rules.entry(rule.namespace).or_default();
            of_namespace.entry(full_host(host, rule.namespace)).or_insert((object, rule));
        }
    }
    rules
}

/// IST0113
pub(super) fn conflicts(world: &World<'_>, found: &mut Found) {
    let (policies, rules) = (Policies::of(world), rules_by_host(world));
    let named = |rule: Option<&Object<'_>>| {
        rule.map_or("(none)".to_owned(), |rule| format!("{}/{}", rule.namespace, rule.name))
    };
    let mut tell = |host: &str, rule: Option<Side<'_, bool>>, policy: Option<Side<'_, Mode>>| {
        let (mutual, mode) =
            (rule.is_some_and(|rule| rule.says), policy.map_or(Mode::Plaintext, |policy| policy.says));
        if !mode.contradicts(mutual) {
            return;
        }
        let Some((object, place)) = rule
            .map(|rule| (rule.object, rule.of.document))
            .or(policy.map(|policy| (policy.object, policy.of.document)))
        else {
            return;
        };
        let policy = policy.map_or("(none)".to_owned(), |policy| match policy.of.namespace {
            "" => policy.of.name.to_owned(),
            namespace => format!("{namespace}/{}", policy.of.name),
        });
        let text = format!(
            "A DestinationRule and Policy are in conflict with regards to mTLS for host {host}. The DestinationRule \"{}\" specifies that mTLS must be \
             {mutual} but the Policy object \"{policy}\" specifies {}.",
            named(rule.map(|rule| rule.of)),
            mode.name()
        );
        found.error(object, place, "IST0113", text);
    };
    let side = |namespace: &str, host: &str, port: Option<i64>| {
        let (object, of) = *rules.get(namespace)?.get(host)?;
        Some(Side { object, of, says: is_mutual(of, port)? })
    };
    let global = side(ROOT, "*.local", None);
    if global.is_some() || policies.mesh.is_some() {
        tell("*.local", global, policies.mesh);
    }
    let clients: BTreeSet<&str> = world.namespaces();
    for (_, service) in world.all("Service") {
        let of = labels(at(service.document, &["metadata", "labels"]));
        let is_of_control_plane = of.contains_key("istio") || of.get("release") == Some(&"istio");
        if SYSTEM.contains(&service.namespace) || is_of_control_plane {
            continue;
        }
        let host = full_host(service.name, service.namespace);
        let wildcard = format!("*.{}.{DOMAIN}", service.namespace);
        let hosts = [&*host, &*wildcard, "*.local"];
        for port in ports(service) {
            let policy = policies.of_port(service, &port);
            for client in &clients {
                // The rules of the client go before those of the service, and those before all others.
                let from = [*client, service.namespace, ROOT];
                let number = Some(port.number);
                let rule =
                    from.iter().find_map(|from| hosts.iter().find_map(|host| side(from, host, number)));
                let is_global = rule.map(|rule| rule.object) == global.map(|rule| rule.object)
                    && policy.map(|policy| policy.object) == policies.mesh.map(|policy| policy.object);
                // Told once for all hosts.
                if !is_global {
                    tell(&host, rule, policy);
                }
            }
        }
    }
}

/// The services that policies have as targets.
fn targeted<'d>(world: &World<'d>) -> Vec<(usize, &'d Object<'d>, &'d Node, &'d Object<'d>)> {
    let services: HashMap<(&str, &str), &Object<'_>> =
        world.all("Service").map(|(_, service)| ((service.namespace, service.name), service)).collect();
    let mut all = Vec::new();
    for (object, policy) in world.all("Policy") {
        for target in items(policy.document, &["spec", "targets"]) {
            let service = field(target, "name").and_then(|name| services.get(&(policy.namespace, name)));
            all.extend(service.map(|service| (object, policy, target, *service)));
        }
    }
    all
}

/// IST0114
pub(super) fn policy_ports(world: &World<'_>, found: &mut Found) {
    for (object, _, target, service) in targeted(world) {
        for selector in items(target, &["ports"]) {
            let Some(name) = field(selector, "name") else { continue };
            if ports(service).iter().all(|port| port.name != name) {
                let host = full_host(service.name, service.namespace);
                let text = format!(
                    "Port name {name} could not be found for host {host}, which means the Policy won't be enforced."
                );
                found.warning(object, selector, "IST0114", text);
            }
        }
    }
}

/// IST0115
pub(super) fn without_sidecar(world: &World<'_>, found: &mut Found) {
    let services: HashMap<String, &Object<'_>> = world
        .all("Service")
        .map(|(_, service)| (full_host(service.name, service.namespace), service))
        .collect();
    for (object, rule) in world.all("DestinationRule") {
        let Some(spec) = rule.document.member("spec") else { continue };
        let Some(host) = field(spec, "host").map(|host| full_host(host, rule.namespace)) else { continue };
        let levels = items(spec, &["trafficPolicy", "portLevelSettings"]).iter();
        let numbers =
            levels.map(|level| level.member("port").and_then(|port| integer(port.member("number"))));
        let is_used = std::iter::once(None).chain(numbers).any(|port| is_mutual(rule, port) == Some(true));
        let Some(service) = services.get(&host).filter(|_| is_used) else { continue };
        let pods = world.pods(Some(service.namespace), &labels(at(service.document, &["spec", "selector"])));
        if pods.is_empty() || pods.iter().any(|(_, pod)| proxy(pod).is_none()) {
            let text = format!(
                "DestinationRule {}/{} uses mTLS for workload {host} that has no sidecar. Traffic from workloads with sidecars will fail.",
                rule.namespace, rule.name
            );
            found.error(object, spec, "IST0115", text);
        }
    }
}

/// IST0119
pub(super) fn jwt_ports(world: &World<'_>, found: &mut Found) {
    for (object, policy, target, service) in targeted(world) {
        let origins = items(policy.document, &["spec", "origins"]);
        if origins.iter().all(|origin| origin.member("jwt").is_none()) {
            continue;
        }
        let selectors = items(target, &["ports"]);
        for (port, node) in ports(service).iter().zip(items(service.document, &["spec", "ports"])) {
            let is_meant = selectors.is_empty() || selectors.iter().any(|selector| selects(selector, port));
            let said = protocol(port.name, port.protocol, port.number);
            let is_http =
                matches!(said, Some("HTTP" | "HTTP2" | "HTTPS")) && matches!(port.protocol, "" | "TCP");
            if !is_meant || is_http {
                continue;
            }
            let (own, target_port) =
                (if port.protocol.is_empty() { "TCP" } else { port.protocol }, node.member("targetPort"));
            let text = format!(
                "Authentication policy with JWT targets Service with invalid port specification (port: {}, name: {}, protocol: {own}, targetPort: \
                 {}).",
                port.number,
                port.name,
                shown(target_port.or_else(|| node.member("port")))
            );
            found.warning(object, target, "IST0119", text);
        }
    }
}
