//! Service entries.

use std::collections::BTreeSet;

use mixer_base::quote::quoted;

use super::checker::{Checker, UNIX};
use super::code;
use super::text::{self, Protocol};
use crate::messages::istio::networking::v1alpha3::ServiceEntry;
use crate::messages::istio::networking::v1alpha3::service_entry::{Endpoint, Resolution};
use crate::place::Place;

pub(super) fn check(entry: &ServiceEntry, body: &Place<'_>, checker: &mut Checker<'_>) {
    let is = |resolution: Resolution| entry.resolution == resolution as i32;
    check_hosts(entry, &body.field("hosts"), checker);
    let addresses = body.field("addresses");
    for (index, address) in entry.addresses.iter().enumerate() {
        checker.ipv4_subnet(&addresses.index(index), address);
    }
    let has_network = entry.addresses.iter().any(|address| address.contains('/'));
    if has_network && !is(Resolution::None) && !is(Resolution::Static) {
        let text = "CIDR addresses are allowed only for NONE/STATIC resolution types";
        checker.problem(code::ADDRESS, &addresses, text);
    }
    let ports = body.field("ports");
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (index, port) in entry.ports.iter().enumerate() {
        let at = ports.index(index);
        if !names.insert(port.name.as_str()) {
            let text = format!("service entry port name {} already defined", quoted(&port.name));
            checker.problem(code::DUPLICATE, &at.field("name"), text);
        }
        if !numbers.insert(port.number) {
            let text = format!("service entry port {} already defined", port.number);
            checker.problem(code::DUPLICATE, &at.field("number"), text);
        }
    }
    let endpoints = body.field("endpoints");
    match entry.resolution {
        r if r == Resolution::None as i32 => {
            if !entry.endpoints.is_empty() {
                let text = "no endpoints should be provided for resolution type none";
                checker.problem(code::CONFLICT, &endpoints, text);
            }
        }
        r if r == Resolution::Static as i32 => check_static(entry, &names, &endpoints, checker),
        r if r == Resolution::Dns as i32 => check_dns(entry, &names, body, &endpoints, checker),
        _ => checker.problem(code::VALUE, &body.field("resolution"), "unsupported resolution type "),
    }
    if !is(Resolution::None) && entry.hosts.len() > 1 {
        let tells_hosts_apart =
            |name: &str| matches!(text::protocol(name), Some(Protocol::Http | Protocol::Tls));
        if !entry.ports.iter().all(|port| tells_hosts_apart(&port.protocol)) {
            let text = "multiple hosts provided with non-HTTP, non-TLS ports";
            checker.problem(code::CONFLICT, &body.field("hosts"), text);
        }
    }
    for (index, port) in entry.ports.iter().enumerate() {
        let at = ports.index(index);
        checker.port_name(&at.field("name"), &port.name);
        checker.protocol(&at.field("protocol"), &port.protocol);
        checker.port(&at.field("number"), port.number);
    }
    checker.export_to(body, &entry.export_to);
}

fn check_hosts(entry: &ServiceEntry, at: &Place<'_>, checker: &mut Checker<'_>) {
    if entry.hosts.is_empty() {
        checker.problem(code::MISSING, at, "service entry must have at least one host");
    }
    for (index, host) in entry.hosts.iter().enumerate() {
        if host == "*" {
            checker.problem(code::HOST, &at.index(index), "invalid host *");
        } else {
            checker.wildcard_domain(&at.index(index), host);
        }
    }
}

/// The problem of a port of an endpoint that the entry does not declare.
fn check_port_name(name: &str, port: u32, names: &BTreeSet<&str>, at: &Place<'_>, checker: &mut Checker<'_>) {
    if !names.contains(name) {
        let text = format!("endpoint port {port} is not defined by the service entry");
        checker.problem(code::PORT, &at.key(name), text);
    }
}

fn check_static(entry: &ServiceEntry, names: &BTreeSet<&str>, list: &Place<'_>, checker: &mut Checker<'_>) {
    if entry.endpoints.is_empty() {
        let text = "endpoints must be provided if service entry resolution mode is static";
        checker.problem(code::MISSING, list, text);
    }
    let mut has_unix = false;
    for (index, Endpoint { address, ports, labels, .. }) in entry.endpoints.iter().enumerate() {
        let at = list.index(index);
        if let Some(path) = address.strip_prefix(UNIX) {
            has_unix = true;
            checker.unix_path(&at.field("address"), path);
            if !ports.is_empty() {
                let text = format!("unix endpoint {address} must not include ports");
                checker.problem(code::CONFLICT, &at.field("ports"), text);
            }
        } else {
            checker.ipv4(&at.field("address"), address);
            for (name, port) in ports {
                check_port_name(name, *port, names, &at.field("ports"), checker);
            }
        }
        checker.labels(&at.field("labels"), labels);
    }
    if has_unix && entry.ports.len() != 1 {
        checker.problem(code::PORT, list, "exactly 1 service port required for unix endpoints");
    }
}

fn check_dns(
    entry: &ServiceEntry,
    names: &BTreeSet<&str>,
    body: &Place<'_>,
    list: &Place<'_>,
    checker: &mut Checker<'_>,
) {
    if entry.endpoints.is_empty() {
        let hosts = body.field("hosts");
        for (index, host) in entry.hosts.iter().enumerate() {
            if text::domain(host).is_err() {
                let text = "hosts must be FQDN if no endpoints are provided for resolution mode DNS";
                checker.problem(code::HOST, &hosts.index(index), text);
            }
        }
    }
    for (index, Endpoint { address, ports, labels, .. }) in entry.endpoints.iter().enumerate() {
        let at = list.index(index);
        if !text::is_ip(address) && text::domain(address).is_err() {
            let text = format!("endpoint address {} is not a valid FQDN or an IP address", quoted(address));
            checker.problem(code::ADDRESS, &at.field("address"), text);
        }
        checker.labels(&at.field("labels"), labels);
        let ports_at = at.field("ports");
        for (name, port) in ports {
            check_port_name(name, *port, names, &ports_at, checker);
            checker.port_name(&ports_at.key(name), name);
            checker.port(&ports_at.key(name), *port);
        }
    }
}
