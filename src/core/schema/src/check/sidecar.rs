//! Sidecars.

use std::collections::BTreeSet;

use super::checker::{Checker, UNIX};
use super::code;
use super::text;
use crate::messages::istio::networking::v1alpha3::{
    CaptureMode, IstioEgressListener, IstioIngressListener, Port, Sidecar,
};
use crate::place::Place;

pub(super) fn check(sidecar: &Sidecar, body: &Place<'_>, checker: &mut Checker<'_>) {
    let before = checker.problems.len();
    if sidecar.workload_selector.is_some() {
        let selector = body.field("workloadSelector");
        if !checker.is_given(&selector.field("labels")) {
            let text = "sidecar: workloadSelector cannot have empty labels";
            checker.problem(code::LABELS, &selector, text);
        }
    }
    if sidecar.egress.is_empty() {
        // compat(1.3): nothing else is reported.
        checker.problems.truncate(before);
        return checker.problem(code::MISSING, body, "sidecar: missing egress");
    }
    let ingress = body.field("ingress");
    let mut ports = BTreeSet::new();
    for (index, listener) in sidecar.ingress.iter().enumerate() {
        check_ingress(listener, &mut ports, &ingress.index(index), checker);
    }
    check_egress(&sidecar.egress, &body.field("egress"), checker);
}

/// The problem of a second listener on a port.
fn check_unique(port: &Port, ports: &mut BTreeSet<u32>, at: &Place<'_>, checker: &mut Checker<'_>) {
    if !ports.insert(port.number) {
        let text = "sidecar: ports on IP bound listeners must be unique";
        checker.problem(code::DUPLICATE, &at.field("port"), text);
    }
}

/// The port and address of a listener that is no Unix domain socket.
fn check_address(port: &Port, bind: &str, at: &Place<'_>, checker: &mut Checker<'_>) {
    let port_at = at.field("port");
    checker.protocol(&port_at.field("protocol"), &port.protocol);
    checker.port(&port_at.field("number"), port.number);
    if !bind.is_empty() {
        checker.ipv4(&at.field("bind"), bind);
    }
}

fn check_port_name(port: &Port, at: &Place<'_>, checker: &mut Checker<'_>) {
    if !port.name.is_empty() {
        checker.port_name(&at.field("port").field("name"), &port.name);
    }
}

fn check_ingress(
    listener: &IstioIngressListener,
    ports: &mut BTreeSet<u32>,
    at: &Place<'_>,
    checker: &mut Checker<'_>,
) {
    let Some(port) = &listener.port else {
        return checker.problem(code::PORT, at, "sidecar: port is required for ingress listeners");
    };
    check_port_name(port, at, checker);
    check_address(port, &listener.bind, at, checker);
    check_unique(port, ports, at, checker);
    check_default_endpoint(&listener.default_endpoint, &at.field("defaultEndpoint"), checker);
}

fn check_default_endpoint(endpoint: &str, at: &Place<'_>, checker: &mut Checker<'_>) {
    const FORM: &str = "sidecar: defaultEndpoint must be of form 127.0.0.1:<port>";
    if endpoint.is_empty() {
        let text = "sidecar: default endpoint must be set for all ingress listeners";
        return checker.problem(code::MISSING, at, text);
    }
    if let Some(path) = endpoint.strip_prefix(UNIX) {
        return checker.unix_path(at, path);
    }
    let mut parts = endpoint.split(':');
    let address = parts.next().unwrap_or_default();
    let Some(port) = parts.next() else {
        return checker.problem(code::ADDRESS, at, FORM);
    };
    if !matches!(address, "" | "127.0.0.1") {
        checker.problem(code::ADDRESS, at, FORM);
    }
    match port.parse::<i64>() {
        Ok(port) => checker.port(at, port),
        Err(_) => {
            let why = text::not_a_number(port);
            let text = format!("sidecar: defaultEndpoint port ({port}) is not a number: {why}");
            checker.problem(code::PORT, at, text);
        }
    }
}

fn check_egress(listeners: &[IstioEgressListener], list: &Place<'_>, checker: &mut Checker<'_>) {
    let (mut ports, mut sockets) = (BTreeSet::new(), BTreeSet::new());
    for (index, listener) in listeners.iter().enumerate() {
        let at = list.index(index);
        match &listener.port {
            None if index + 1 < listeners.len() => checker.problem(
                code::PORT,
                &at,
                "sidecar: the egress listener with empty port should be the last listener in the list",
            ),
            None => {}
            Some(port) => {
                check_egress_port(port, listener, &at, checker);
                if port.number != 0 {
                    check_unique(port, &mut ports, &at, checker);
                } else if !sockets.insert(&listener.bind) {
                    let text = "sidecar: unix domain socket values for listeners must be unique";
                    checker.problem(code::DUPLICATE, &at.field("bind"), text);
                }
            }
        }
        let hosts = at.field("hosts");
        if listener.hosts.is_empty() {
            let text = "sidecar: egress listener must contain at least one host";
            checker.problem(code::MISSING, &at, text);
        }
        for (index, host) in listener.hosts.iter().enumerate() {
            checker.namespaced_host(&hosts.index(index), host, false);
        }
    }
}

fn check_egress_port(port: &Port, listener: &IstioEgressListener, at: &Place<'_>, checker: &mut Checker<'_>) {
    check_port_name(port, at, checker);
    if port.number != 0 {
        return check_address(port, &listener.bind, at, checker);
    }
    checker.protocol(&at.field("port").field("protocol"), &port.protocol);
    match listener.bind.strip_prefix(UNIX) {
        Some(path) => checker.unix_path(&at.field("bind"), path),
        None => {
            let text = "sidecar: ports with 0 value must have a unix domain socket bind address";
            checker.problem(code::ADDRESS, &at.field("bind"), text);
        }
    }
    if ![CaptureMode::Default as i32, CaptureMode::None as i32].contains(&listener.capture_mode) {
        let text = "sidecar: captureMode must be DEFAULT/NONE for unix domain socket listeners";
        checker.problem(code::CONFLICT, &at.field("captureMode"), text);
    }
}
