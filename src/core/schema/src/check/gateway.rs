//! Gateways.

use std::collections::BTreeSet;

use mixer_base::quote::quoted;

use super::Subject;
use super::checker::Checker;
use super::code;
use super::text::{self, Protocol};
use crate::messages::istio::networking::v1alpha3::server::TlsOptions;
use crate::messages::istio::networking::v1alpha3::server::tls_options::TlSmode;
use crate::messages::istio::networking::v1alpha3::{Gateway, Port, Server};
use crate::place::Place;

pub(super) fn check(gateway: &Gateway, subject: &Subject<'_>, body: &Place<'_>, checker: &mut Checker<'_>) {
    if !text::is_label(subject.name) {
        checker.name_problem(format!("invalid gateway name: {}", quoted(subject.name)), code::NAME.cure);
    }
    let servers = body.field("servers");
    if gateway.servers.is_empty() {
        checker.problem(code::MISSING, &servers, "gateway must have at least one server");
    }
    for (index, server) in gateway.servers.iter().enumerate() {
        check_server(server, &servers.index(index), checker);
    }
    let mut names = BTreeSet::new();
    for (index, server) in gateway.servers.iter().enumerate() {
        if let Some(port) = &server.port
            && !names.insert(&port.name)
        {
            let text = format!("port names in servers must be unique: duplicate name {}", port.name);
            checker.problem(code::DUPLICATE, &servers.index(index).field("port").field("name"), text);
        }
    }
}

fn check_server(server: &Server, at: &Place<'_>, checker: &mut Checker<'_>) {
    let hosts = at.field("hosts");
    if server.hosts.is_empty() {
        checker.problem(code::MISSING, &hosts, "server config must contain at least one host");
    }
    for (index, host) in server.hosts.iter().enumerate() {
        checker.namespaced_host(&hosts.index(index), host, true);
    }
    let before = checker.problems.len();
    check_port(server.port.as_ref(), &at.field("port"), checker);
    let port = server.port.as_ref().filter(|_| checker.problems.len() == before);
    let tls = at.field("tls");
    if let Some(options) = &server.tls {
        check_tls(options, &tls, checker);
    }
    let Some(protocol) = port.and_then(|port| text::protocol(&port.protocol)) else { return };
    let text = match (&server.tls, protocol) {
        (None, Protocol::Tls) => "server must have TLS settings for HTTPS/TLS protocols",
        (Some(options), Protocol::Http) if !is_redirect_only(options) => {
            "server cannot have TLS settings for plain text HTTP ports"
        }
        (Some(_), Protocol::Other) => "server cannot have TLS settings for non HTTPS/TLS ports",
        _ => return,
    };
    checker.problem(code::TLS, &tls, text);
}

/// Whether a port without TLS may have the settings: they redirect at most.
fn is_redirect_only(options: &TlsOptions) -> bool {
    let passes_through =
        [TlSmode::Passthrough as i32, TlSmode::AutoPassthrough as i32].contains(&options.mode);
    passes_through
        && options.ca_certificates.is_empty()
        && options.private_key.is_empty()
        && options.server_certificate.is_empty()
}

fn check_port(port: Option<&Port>, at: &Place<'_>, checker: &mut Checker<'_>) {
    let Some(port) = port else {
        return checker.problem(code::MISSING, at, "port is required");
    };
    if text::protocol(&port.protocol).is_none() {
        let text = format!(
            "invalid protocol {}, supported protocols are HTTP, HTTP2, GRPC, MONGO, REDIS, MYSQL, TCP",
            quoted(&port.protocol)
        );
        checker.problem(code::PROTOCOL, &at.field("protocol"), text);
    }
    if port.number > 0 {
        checker.port(&at.field("number"), port.number);
    }
    if port.name.is_empty() {
        checker.problem(code::PORT, at, format!("port name must be set: {}", shown(port)));
    }
}

/// A port as Go prints its message.
fn shown(port: &Port) -> String {
    let mut text = String::new();
    if port.number != 0 {
        text.push_str(&format!("number:{} ", port.number));
    }
    if !port.protocol.is_empty() {
        text.push_str(&format!("protocol:{} ", quoted(&port.protocol)));
    }
    text
}

fn check_tls(options: &TlsOptions, at: &Place<'_>, checker: &mut Checker<'_>) {
    let files = [
        ("serverCertificate", &options.server_certificate, "server certificate"),
        ("privateKey", &options.private_key, "private key"),
        ("caCertificates", &options.ca_certificates, "CA bundle"),
    ];
    let is = |mode: TlSmode| options.mode == mode as i32;
    if is(TlSmode::IstioMutual) {
        for (field, file, what) in files {
            if !file.is_empty() {
                let text = format!("ISTIO_MUTUAL TLS cannot have associated {what}");
                checker.problem(code::TLS, &at.field(field), text);
            }
        }
        return;
    }
    let (mode, needed) = if is(TlSmode::Simple) {
        ("SIMPLE", 2)
    } else if is(TlSmode::Mutual) {
        ("MUTUAL", 3)
    } else {
        return;
    };
    if !options.credential_name.is_empty() {
        return;
    }
    for (_, file, what) in files.into_iter().take(needed) {
        if file.is_empty() {
            let what = if what == "CA bundle" { "client CA bundle" } else { what };
            checker.problem(code::TLS, at, format!("{mode} TLS requires a {what}"));
        }
    }
}
