//! The configuration of a mesh.

mod locality;

use std::fmt::Display;

use mixer_base::quote::quoted;
use mixer_base::time::SignedDuration;
use prost_types::Duration;

use super::checker::Checker;
use super::code;
use super::text;
use crate::messages::istio::mesh::v1alpha1::tracing::{Lightstep, Tracer};
use crate::messages::istio::mesh::v1alpha1::{AuthenticationPolicy, MeshConfig, ProxyConfig};
use crate::place::Place;

/// Bounds of the time for a connection.
const CONNECT_TIMES: [SignedDuration; 2] = [SignedDuration::from_millis(1), SignedDuration::from_secs(30)];
/// The longest time that a proxy drains, or waits for another one to do so.
const MAX_DRAIN: SignedDuration = SignedDuration::from_secs(3600);

pub(super) fn check(mesh: &MeshConfig, body: &Place<'_>, checker: &mut Checker<'_>) {
    let servers = [
        ("mixerCheckServer", &mesh.mixer_check_server, "invalid Policy Check Server address:"),
        ("mixerReportServer", &mesh.mixer_report_server, "invalid Telemetry Server address:"),
    ];
    for (field, address, what) in servers {
        if !address.is_empty() {
            part(checker, &body.field(field), what, proxy_address(address));
        }
    }
    let port = text::port(i64::from(mesh.proxy_listen_port));
    part(checker, &body.field("proxyListenPort"), "invalid proxy listen port:", port);
    check_connect_timeout(mesh.connect_timeout.as_ref(), body, checker);
    match &mesh.default_config {
        None => checker.problem(code::MISSING, body, "missing default config"),
        Some(proxy) => check_proxy(proxy, &body.field("defaultConfig"), checker),
    }
    if let Some(setting) = &mesh.locality_lb_setting
        && let Err(text) = locality::check(setting)
    {
        checker.problem(code::VALUE, &body.field("localityLbSetting"), text);
    }
}

/// Adds a problem of a setting with what the setting is.
fn part(checker: &mut Checker<'_>, at: &Place<'_>, what: impl Display, result: Result<(), String>) {
    if let Err(why) = result {
        checker.problem(code::VALUE, at, format!("{what} {why}"));
    }
}

fn check_proxy(proxy: &ProxyConfig, at: &Place<'_>, checker: &mut Checker<'_>) {
    let needed = [
        ("configPath", &proxy.config_path, "config path must be set"),
        ("binaryPath", &proxy.binary_path, "binary path must be set"),
        ("serviceCluster", &proxy.service_cluster, "service cluster must be set"),
    ];
    for (field, value, text) in needed {
        if value.is_empty() {
            checker.problem(code::MISSING, &at.field(field), text);
        }
    }
    check_drain(proxy, at, checker);
    let discovery = at.field("discoveryAddress");
    if proxy.discovery_address.is_empty() {
        let text = "discovery address must be set to the proxy discovery service";
        checker.problem(code::MISSING, &discovery, text);
    } else {
        let result = proxy_address(&proxy.discovery_address);
        part(checker, &discovery, "invalid discovery address:", result);
    }
    check_tracing(proxy, &at.field("tracing"), checker);
    check_connect_timeout(proxy.connect_timeout.as_ref(), at, checker);
    let metrics = proxy.envoy_metrics_service.as_ref().map_or("", |service| service.address.as_str());
    let log = proxy.envoy_access_log_service.as_ref().map_or("", |service| service.address.as_str());
    let services = [
        ("statsdUdpAddress", proxy.statsd_udp_address.as_str(), "statsd udp address"),
        (
            "envoyMetricsServiceAddress",
            proxy.envoy_metrics_service_address.as_str(),
            "envoy metrics service address",
        ),
        ("envoyMetricsService", metrics, "envoy metrics service address"),
        ("envoyAccessLogService", log, "envoy access log service address"),
    ];
    for (field, address, what) in services {
        if !address.is_empty() {
            let what = format!("invalid {what} {}:", quoted(address));
            part(checker, &at.field(field), what, proxy_address(address));
        }
    }
    let port = text::port(i64::from(proxy.proxy_admin_port));
    part(checker, &at.field("proxyAdminPort"), "invalid proxy admin port:", port);
    let known = [AuthenticationPolicy::None as i32, AuthenticationPolicy::MutualTls as i32];
    if !known.contains(&proxy.control_plane_auth_policy) {
        let name = proxy.control_plane_auth_policy().as_str_name();
        let text = format!("unrecognized control plane auth policy {}", quoted(name));
        checker.problem(code::UNSUPPORTED, &at.field("controlPlaneAuthPolicy"), text);
    }
}

fn check_tracing(proxy: &ProxyConfig, at: &Place<'_>, checker: &mut Checker<'_>) {
    let address = |address: &str| address.to_owned();
    let (name, address) = match proxy.tracing.as_ref().and_then(|tracing| tracing.tracer.as_ref()) {
        Some(Tracer::Lightstep(tracer)) => return check_lightstep(tracer, &at.field("lightstep"), checker),
        Some(Tracer::Zipkin(tracer)) => ("zipkin", address(&tracer.address)),
        // The address of the node stands for any.
        Some(Tracer::Datadog(tracer)) => ("datadog", tracer.address.replacen("$(HOST_IP)", "127.0.0.1", 1)),
        Some(Tracer::Stackdriver(_)) | None => return,
    };
    part(checker, &at.field(name), format!("invalid {name} config:"), proxy_address(&address));
}

fn check_lightstep(tracer: &Lightstep, at: &Place<'_>, checker: &mut Checker<'_>) {
    let mut add =
        |text: String| checker.problem(code::VALUE, at, format!("invalid lightstep config: {text}"));
    if tracer.address.is_empty() {
        add("address is required".to_owned());
    }
    if let Err(why) = proxy_address(&tracer.address) {
        add(format!("invalid lightstep address: {why}"));
    }
    if tracer.access_token.is_empty() {
        add("access token is required".to_owned());
    }
    if tracer.secure && tracer.cacert_path.is_empty() {
        add("cacertPath is required".to_owned());
    }
}

/// A duration of at least a millisecond, in whole ones.
fn whole_millis(duration: Option<&Duration>) -> Result<SignedDuration, String> {
    let Some(duration) = duration else { return Err("duration: nil Duration".to_owned()) };
    let nanos = duration.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(duration.nanos));
    let duration = SignedDuration::from_nanos(nanos);
    if duration < SignedDuration::from_millis(1) {
        Err("duration must be greater than 1ms".to_owned())
    } else if nanos % 1_000_000 != 0 {
        Err("only durations to ms precision are supported".to_owned())
    } else {
        Ok(duration)
    }
}

fn check_connect_timeout(timeout: Option<&Duration>, outer: &Place<'_>, checker: &mut Checker<'_>) {
    let [least, most] = CONNECT_TIMES;
    let result = whole_millis(timeout).and_then(|timeout| {
        let is_possible = (least..=most).contains(&timeout);
        if is_possible { Ok(()) } else { Err(format!("time {timeout} must be >{least} and <{most}")) }
    });
    part(checker, &outer.field("connectTimeout"), "invalid connect timeout:", result);
}

fn check_drain(proxy: &ProxyConfig, at: &Place<'_>, checker: &mut Checker<'_>) {
    const WHAT: &str = "invalid parent and drain time combination";
    let drain = whole_millis(proxy.drain_duration.as_ref());
    let parent = whole_millis(proxy.parent_shutdown_duration.as_ref());
    let (drain_at, parent_at) = (at.field("drainDuration"), at.field("parentShutdownDuration"));
    let (drain, parent) = match (drain, parent) {
        (Ok(drain), Ok(parent)) => (drain, parent),
        (drain, parent) => {
            part(checker, &drain_at, format!("{WHAT} invalid drain duration:"), drain.map(|_| ()));
            part(
                checker,
                &parent_at,
                format!("{WHAT} invalid parent shutdown duration:"),
                parent.map(|_| ()),
            );
            return;
        }
    };
    let is_whole = |time: SignedDuration| time.nanos % 1_000_000_000 == 0;
    let unless = |condition: bool, text: String| if condition { Ok(()) } else { Err(text) };
    let results = [
        (
            &drain_at,
            unless(is_whole(drain), "drain time only supports durations to seconds precision".to_owned()),
        ),
        (
            &parent_at,
            unless(
                is_whole(parent),
                "parent shutdown time only supports durations to seconds precision".to_owned(),
            ),
        ),
        (
            &parent_at,
            unless(
                parent > drain,
                format!("parent shutdown time {parent} must be greater than drain time {drain}"),
            ),
        ),
        (&drain_at, unless(drain <= MAX_DRAIN, format!("drain time {drain} must be <{MAX_DRAIN}"))),
        (
            &parent_at,
            unless(parent <= MAX_DRAIN, format!("parent shutdown time {parent} must be <{MAX_DRAIN}")),
        ),
    ];
    for (at, result) in results {
        part(checker, at, WHAT, result);
    }
}

/// Whether a text is a host, or an address, with a port.
fn proxy_address(address: &str) -> Result<(), String> {
    let (host, port) = split(address)
        .map_err(|why| format!("unable to split {}: address {address}: {why}", quoted(address)))?;
    let number = port
        .parse::<i64>()
        .map_err(|_| format!("port ({port}) is not a number: {}", text::not_a_number(port)))?;
    text::port(number)?;
    if text::domain(host).is_ok() || text::is_ip(host) {
        return Ok(());
    }
    Err(format!("{} is not a valid hostname or an IP address", quoted(host)))
}

/// Host and port, divided as Go's `net.SplitHostPort` divides them.
fn split(address: &str) -> Result<(&str, &str), &'static str> {
    const MISSING_PORT: &str = "missing port in address";
    const TOO_MANY: &str = "too many colons in address";
    let (before, port) = address.rsplit_once(':').ok_or(MISSING_PORT)?;
    let host = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("missing ']' in address")?;
            match after.strip_prefix(':') {
                None if after.contains(':') || after.is_empty() => {
                    return Err(if after.is_empty() { MISSING_PORT } else { TOO_MANY });
                }
                None => return Err(MISSING_PORT),
                Some(rest) if rest.contains(':') => return Err(TOO_MANY),
                Some(_) => host,
            }
        }
        None if before.contains(':') => return Err(TOO_MANY),
        None => before,
    };
    let rest = [host, port];
    if rest.iter().any(|part| part.contains('[')) {
        return Err("unexpected '[' in address");
    }
    if rest.iter().any(|part| part.contains(']')) {
        return Err("unexpected ']' in address");
    }
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for address in ["a:1", "10.0.0.1:80", "[::1]:80", "zipkin.istio-system:9411"] {
            assert_eq!(proxy_address(address), Ok(()), "{address}");
        }
        for (address, why) in [
            ("a", "unable to split \"a\": address a: missing port in address"),
            ("::1:80", "unable to split \"::1:80\": address ::1:80: too many colons in address"),
            ("[::1:80", "unable to split \"[::1:80\": address [::1:80: missing ']' in address"),
            ("a:b", "port (b) is not a number: strconv.Atoi: parsing \"b\": invalid syntax"),
            ("a:0", "port number 0 must be in the range 1..65535"),
            ("a_b:1", "\"a_b\" is not a valid hostname or an IP address"),
        ] {
            assert_eq!(proxy_address(address), Err(why.to_owned()));
        }
    }
}
