//! Virtual services.

mod http;

use mixer_base::quote::quoted;

use super::checker::Checker;
use super::code;
use super::text;
use crate::messages::istio::networking::v1alpha3::port_selector::Port;
use crate::messages::istio::networking::v1alpha3::{
    Destination, L4MatchAttributes, PortSelector, RouteDestination, TcpRoute, TlsMatchAttributes, TlsRoute,
    VirtualService,
};
use crate::place::Place;

/// The gateway that stands for all sidecars.
const MESH: &str = "mesh";

pub(super) fn check(service: &VirtualService, body: &Place<'_>, checker: &mut Checker<'_>) {
    let is_of_mesh = service.gateways.is_empty() || service.gateways.iter().any(|name| name == MESH);
    checker.gateway_names(body, &service.gateways);
    check_hosts(&service.hosts, is_of_mesh, &body.field("hosts"), checker);
    if service.http.is_empty() && service.tcp.is_empty() && service.tls.is_empty() {
        checker.problem(code::MISSING, body, "http, tcp or tls must be provided in virtual service");
    }
    let (http, tls, tcp) = (body.field("http"), body.field("tls"), body.field("tcp"));
    for (index, route) in service.http.iter().enumerate() {
        http::check(route, &http.index(index), checker);
    }
    for (index, route) in service.tls.iter().enumerate() {
        check_tls(route, service, &tls.index(index), checker);
    }
    for (index, route) in service.tcp.iter().enumerate() {
        check_tcp(route, &tcp.index(index), checker);
    }
    checker.export_to(body, &service.export_to);
}

fn check_hosts(hosts: &[String], is_of_mesh: bool, at: &Place<'_>, checker: &mut Checker<'_>) {
    if hosts.is_empty() {
        checker.problem(code::MISSING, at, "virtual service must have at least one host");
    }
    let before = checker.problems.len();
    for (index, host) in hosts.iter().enumerate() {
        match text::wildcard_domain(host) {
            Err(_) if text::is_ip(host) => {}
            Err(text) => checker.problem(code::HOST, &at.index(index), text),
            Ok(()) if is_of_mesh && host == "*" => checker.problem(
                code::HOST,
                &at.index(index),
                "wildcard host * is not allowed for virtual services bound to the mesh gateway",
            ),
            Ok(()) => {}
        }
    }
    if checker.problems.len() > before {
        return;
    }
    for (index, host) in hosts.iter().enumerate() {
        for (later, other) in hosts.iter().enumerate().skip(index + 1) {
            if text::hosts_overlap(host, other) {
                let text = format!("duplicate hosts in virtual service: {host} & {other}");
                checker.problem(code::DUPLICATE, &at.index(later), text);
            }
        }
    }
}

fn check_tls(route: &TlsRoute, service: &VirtualService, at: &Place<'_>, checker: &mut Checker<'_>) {
    let matches = at.field("match");
    if route.r#match.is_empty() {
        checker.problem(code::MISSING, &matches, "TLS route must have at least one match condition");
    }
    for (index, condition) in route.r#match.iter().enumerate() {
        check_tls_match(condition, service, &matches.index(index), checker);
    }
    if route.route.is_empty() {
        checker.problem(code::MISSING, &at.field("route"), "TLS route is required");
    }
    check_routes(&route.route, &at.field("route"), checker);
}

fn check_tls_match(
    condition: &TlsMatchAttributes,
    service: &VirtualService,
    at: &Place<'_>,
    checker: &mut Checker<'_>,
) {
    let hosts = at.field("sniHosts");
    if condition.sni_hosts.is_empty() {
        checker.problem(code::MISSING, &hosts, "TLS match must have at least one SNI host");
    }
    for (index, host) in condition.sni_hosts.iter().enumerate() {
        let at = hosts.index(index);
        match text::wildcard_domain(host) {
            Err(text) if !text::is_ip(host) => checker.problem(code::HOST, &at, text),
            _ if service.hosts.iter().any(|of| text::is_subset_of_host(host, of)) => {}
            _ => {
                let text = format!(
                    "SNI host {} is not a compatible subset of any of the virtual service hosts: [{}]",
                    quoted(host),
                    service.hosts.join(", ")
                );
                checker.problem(code::HOST, &at, text);
            }
        }
    }
    check_subnets(&condition.destination_subnets, at, checker);
    if condition.port != 0 {
        checker.port(&at.field("port"), condition.port);
    }
    checker.labels(&at.field("sourceLabels"), &condition.source_labels);
    checker.gateway_names(at, &condition.gateways);
}

fn check_subnets(subnets: &[String], outer: &Place<'_>, checker: &mut Checker<'_>) {
    let list = outer.field("destinationSubnets");
    for (index, subnet) in subnets.iter().enumerate() {
        checker.ipv4_subnet(&list.index(index), subnet);
    }
}

fn check_tcp(route: &TcpRoute, at: &Place<'_>, checker: &mut Checker<'_>) {
    let matches = at.field("match");
    for (index, condition) in route.r#match.iter().enumerate() {
        check_tcp_match(condition, &matches.index(index), checker);
    }
    if route.route.is_empty() {
        checker.problem(code::MISSING, &at.field("route"), "TCP route is required");
    }
    check_routes(&route.route, &at.field("route"), checker);
}

fn check_tcp_match(condition: &L4MatchAttributes, at: &Place<'_>, checker: &mut Checker<'_>) {
    check_subnets(&condition.destination_subnets, at, checker);
    if !condition.source_subnet.is_empty() {
        checker.ipv4_subnet(&at.field("sourceSubnet"), &condition.source_subnet);
    }
    if condition.port != 0 {
        checker.port(&at.field("port"), condition.port);
    }
    checker.labels(&at.field("sourceLabels"), &condition.source_labels);
    checker.gateway_names(at, &condition.gateways);
}

/// The destinations of a route of TLS or TCP.
fn check_routes(routes: &[RouteDestination], at: &Place<'_>, checker: &mut Checker<'_>) {
    for (index, route) in routes.iter().enumerate() {
        let at = at.index(index);
        check_route(route.destination.as_ref(), route.weight, &at, checker);
    }
    check_weights(routes.iter().map(|route| route.weight), at, checker);
}

/// A destination with its weight.
fn check_route(destination: Option<&Destination>, weight: i32, at: &Place<'_>, checker: &mut Checker<'_>) {
    if destination.is_none() {
        checker.listed(code::MISSING, at, "destination is required");
    }
    check_destination(destination, &at.field("destination"), checker);
    checker.percent(&at.field("weight"), weight);
}

fn check_weights(weights: impl ExactSizeIterator<Item = i32>, at: &Place<'_>, checker: &mut Checker<'_>) {
    let is_several = weights.len() > 1;
    let total = weights.fold(0i32, i32::wrapping_add);
    if is_several && total != 100 {
        checker.problem(code::WEIGHT, at, format!("total destination weight {total} != 100"));
    }
}

fn check_destination(destination: Option<&Destination>, at: &Place<'_>, checker: &mut Checker<'_>) {
    let Some(Destination { host, subset, port }) = destination else { return };
    if host == "*" {
        checker.problem(code::HOST, &at.field("host"), "invalid destination host *");
    } else {
        checker.wildcard_domain(&at.field("host"), host);
    }
    if !subset.is_empty() {
        checker.subset_name(&at.field("subset"), subset);
    }
    let at = at.field("port");
    match port {
        Some(PortSelector { port: Some(Port::Name(name)) }) if !name.is_empty() => {
            let text = format!("port.name {name} is no longer supported for destination");
            checker.problem(code::PORT, &at.field("name"), text);
        }
        Some(PortSelector { port: Some(Port::Number(number)) }) if *number != 0 => {
            checker.port(&at.field("number"), *number);
        }
        _ => {}
    }
}
