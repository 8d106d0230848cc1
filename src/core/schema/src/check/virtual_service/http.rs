//! HTTP routes.

use mixer_base::quote::quoted;

use super::super::checker::Checker;
use super::super::{code, text};
use super::{check_destination, check_route, check_weights};
use crate::messages::istio::networking::v1alpha3::http_fault_injection::abort::ErrorType;
use crate::messages::istio::networking::v1alpha3::http_fault_injection::delay::HttpDelayType;
use crate::messages::istio::networking::v1alpha3::http_fault_injection::{Abort, Delay};
use crate::messages::istio::networking::v1alpha3::{
    CorsPolicy, Headers, HttpFaultInjection, HttpMatchRequest, HttpRedirect, HttpRetry, HttpRoute,
    HttpRouteDestination,
};
use crate::place::Place;

const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"];

/// Conditions on which Envoy retries.
const RETRY_ON: [&str; 11] = [
    "5xx",
    "gateway-error",
    "connect-failure",
    "retriable-4xx",
    "refused-stream",
    "retriable-status-codes",
    "cancelled",
    "deadline-exceeded",
    "internal",
    "resource-exhausted",
    "unavailable",
];

pub(super) fn check(route: &HttpRoute, at: &Place<'_>, checker: &mut Checker<'_>) {
    check_conflicts(route, at, checker);
    checker.header_map(&at.field("appendHeaders"), &route.append_headers);
    checker.header_map(&at.field("appendRequestHeaders"), &route.append_request_headers);
    checker.header_list(&at.field("removeRequestHeaders"), &route.remove_request_headers);
    checker.header_map(&at.field("appendResponseHeaders"), &route.append_response_headers);
    checker.header_list(&at.field("removeResponseHeaders"), &route.remove_response_headers);
    check_headers(route.headers.as_ref(), at, checker);
    if let Some(policy) = &route.cors_policy {
        check_cors(policy, &at.field("corsPolicy"), checker);
    }
    if let Some(fault) = &route.fault {
        check_fault(fault, &at.field("fault"), checker);
    }
    let matches = at.field("match");
    for (index, condition) in route.r#match.iter().enumerate() {
        check_match(condition, &matches.index(index), checker);
    }
    check_destination(route.mirror.as_ref(), &at.field("mirror"), checker);
    if let Some(redirect) = &route.redirect {
        check_redirect(redirect, &at.field("redirect"), checker);
    }
    if let Some(retries) = &route.retries {
        check_retries(retries, &at.field("retries"), checker);
    }
    if let Some(rewrite) = &route.rewrite
        && rewrite.uri.is_empty()
        && rewrite.authority.is_empty()
    {
        let text = "rewrite must specify URI, authority, or both";
        checker.problem(code::MISSING, &at.field("rewrite"), text);
    }
    check_destinations(&route.route, &at.field("route"), checker);
    checker.optional_duration(&at.field("timeout"), route.timeout.as_ref());
}

fn check_conflicts(route: &HttpRoute, at: &Place<'_>, checker: &mut Checker<'_>) {
    if route.redirect.is_none() {
        if route.route.is_empty() {
            checker.problem(code::MISSING, at, "HTTP route or redirect is required");
        }
        return;
    }
    let conflicts = [
        (!route.route.is_empty(), "route", "HTTP route cannot contain both route and redirect"),
        (route.fault.is_some(), "fault", "HTTP route cannot contain both fault and redirect"),
        (route.rewrite.is_some(), "rewrite", "HTTP route rule cannot contain both rewrite and redirect"),
        (route.websocket_upgrade, "websocketUpgrade", "WebSocket upgrade is not allowed on redirect rules"),
    ];
    for (is_conflict, field, text) in conflicts {
        if is_conflict {
            checker.problem(code::CONFLICT, &at.field(field), text);
        }
    }
}

/// What a route does with headers.
fn check_headers(headers: Option<&Headers>, outer: &Place<'_>, checker: &mut Checker<'_>) {
    let Some(headers) = headers else { return };
    let at = outer.field("headers");
    for (field, operations) in [("request", &headers.request), ("response", &headers.response)] {
        if let Some(operations) = operations {
            let at = at.field(field);
            checker.header_map(&at.field("add"), &operations.add);
            checker.header_map(&at.field("set"), &operations.set);
            checker.header_list(&at.field("remove"), &operations.remove);
        }
    }
}

fn check_match(condition: &HttpMatchRequest, at: &Place<'_>, checker: &mut Checker<'_>) {
    let headers = at.field("headers");
    for name in condition.headers.keys() {
        let at = headers.key(name);
        if checker.is_null_entry(&at) {
            checker.problem(code::MISSING, &at, format!("header match {name} cannot be null"));
        }
        checker.header_name(&at, name);
    }
    if condition.port != 0 {
        checker.port(&at.field("port"), condition.port);
    }
    checker.labels(&at.field("sourceLabels"), &condition.source_labels);
    checker.gateway_names(at, &condition.gateways);
}

fn check_redirect(redirect: &HttpRedirect, at: &Place<'_>, checker: &mut Checker<'_>) {
    if redirect.uri.is_empty() && redirect.authority.is_empty() {
        checker.problem(code::MISSING, at, "redirect must specify URI, authority, or both");
    } else if redirect.redirect_code != 0 && !(300..=399).contains(&redirect.redirect_code) {
        let text = format!("{} is not a valid redirect code, must be 3xx", redirect.redirect_code);
        checker.problem(code::VALUE, &at.field("redirectCode"), text);
    }
}

fn check_retries(retries: &HttpRetry, at: &Place<'_>, checker: &mut Checker<'_>) {
    if retries.attempts < 0 {
        checker.listed(code::VALUE, &at.field("attempts"), "attempts cannot be negative");
    }
    if retries.attempts == 0 && (retries.per_try_timeout.is_some() || !retries.retry_on.is_empty()) {
        let text = "http retry policy configured when attempts are set to 0 (disabled)";
        checker.problem(code::CONFLICT, &at.field("attempts"), text);
    }
    checker.optional_duration(&at.field("perTryTimeout"), retries.per_try_timeout.as_ref());
    if retries.retry_on.is_empty() {
        return;
    }
    for policy in retries.retry_on.split(',') {
        let is_status = policy.parse::<i64>().is_ok_and(is_known_status);
        if !is_status && !RETRY_ON.contains(&policy) {
            let text = format!("{} is not a valid retryOn policy", quoted(policy));
            checker.problem(code::VALUE, &at.field("retryOn"), text);
        }
    }
}

/// Whether an HTTP status has a name in Go.
fn is_known_status(status: i64) -> bool {
    matches!(
        status,
        100..=103 | 200..=208 | 226 | 300..=305 | 307 | 308 | 400..=418 | 421..=426 | 428 | 429 | 431 | 451
            | 500..=508 | 510 | 511
    )
}

fn check_destinations(routes: &[HttpRouteDestination], at: &Place<'_>, checker: &mut Checker<'_>) {
    for (index, route) in routes.iter().enumerate() {
        let at = at.index(index);
        if route.destination.is_none() {
            checker.listed(code::MISSING, &at, "destination is required");
        }
        checker.header_map(&at.field("appendRequestHeaders"), &route.append_request_headers);
        checker.header_map(&at.field("appendResponseHeaders"), &route.append_response_headers);
        checker.header_list(&at.field("removeRequestHeaders"), &route.remove_request_headers);
        checker.header_list(&at.field("removeResponseHeaders"), &route.remove_response_headers);
        check_headers(route.headers.as_ref(), &at, checker);
        if route.destination.is_some() {
            check_route(route.destination.as_ref(), route.weight, &at, checker);
        } else {
            checker.percent(&at.field("weight"), route.weight);
        }
    }
    check_weights(routes.iter().map(|route| route.weight), at, checker);
}

fn check_cors(policy: &CorsPolicy, at: &Place<'_>, checker: &mut Checker<'_>) {
    let first = checker.problems.len();
    let origins = at.field("allowOrigin");
    for (index, origin) in policy.allow_origin.iter().enumerate() {
        check_origin(origin, first, &origins.index(index), checker);
    }
    let methods = at.field("allowMethods");
    for (index, method) in policy.allow_methods.iter().enumerate() {
        if !METHODS.contains(&method.as_str()) {
            let text = format!("{} is not a supported HTTP method", quoted(method));
            checker.problem(code::VALUE, &methods.index(index), text);
        }
    }
    checker.header_list(&at.field("allowHeaders"), &policy.allow_headers);
    checker.header_list(&at.field("exposeHeaders"), &policy.expose_headers);
    if let Some(age) = &policy.max_age {
        let at = at.field("maxAge");
        checker.duration(&at, age);
        if age.nanos > 0 {
            let text = "max_age duration is accurate only to seconds precision";
            checker.listed(code::DURATION, &at, text);
        }
    }
}

/// `first` is the number of problems that there were before the policy.
fn check_origin(origin: &str, first: usize, at: &Place<'_>, checker: &mut Checker<'_>) {
    if origin == "*" {
        return;
    }
    let host = origin.strip_prefix("https://").unwrap_or(origin);
    let host = host.strip_prefix("http://").unwrap_or(host);
    let host = match host.split_once(':') {
        None => host,
        Some((_, rest)) if rest.contains(':') => {
            let text = "CORS Allow Origin must be '*' or of [http[s]://]host[:port] format";
            return checker.problem(code::VALUE, at, text);
        }
        Some((host, port)) => {
            match port.parse::<i64>() {
                Ok(number) => {
                    // compat(1.3): a port discards what was found in the policy before.
                    checker.problems.truncate(first);
                    checker.port(at, number);
                }
                Err(_) => {
                    let text = format!("port in CORS Allow Origin is not a number: {port}");
                    checker.problem(code::PORT, at, text);
                }
            }
            host
        }
    };
    checker.part(code::HOST, at, text::domain(host));
}

fn check_fault(fault: &HttpFaultInjection, at: &Place<'_>, checker: &mut Checker<'_>) {
    if fault.abort.is_none() && fault.delay.is_none() {
        checker.listed(code::MISSING, at, "HTTP fault injection must have an abort and/or a delay");
    }
    if let Some(abort) = &fault.abort {
        check_abort(abort, &at.field("abort"), checker);
    }
    if let Some(delay) = &fault.delay {
        check_delay(delay, &at.field("delay"), checker);
    }
}

fn check_abort(abort: &Abort, at: &Place<'_>, checker: &mut Checker<'_>) {
    checker.percentage(at, abort.percentage.as_ref(), abort.percent);
    match &abort.error_type {
        Some(ErrorType::GrpcStatus(_)) => {
            let text = "gRPC abort fault injection not supported yet";
            checker.listed(code::UNSUPPORTED, &at.field("grpcStatus"), text);
        }
        Some(ErrorType::Http2Error(_)) => {
            let text = "HTTP/2 abort fault injection not supported yet";
            checker.listed(code::UNSUPPORTED, &at.field("http2Error"), text);
        }
        Some(ErrorType::HttpStatus(status)) if !(200..=600).contains(status) => {
            let text = format!("HTTP status {status} is not in range 200-599");
            checker.problem(code::VALUE, &at.field("httpStatus"), text);
        }
        _ => {}
    }
}

fn check_delay(delay: &Delay, at: &Place<'_>, checker: &mut Checker<'_>) {
    checker.percentage(at, delay.percentage.as_ref(), delay.percent);
    match &delay.http_delay_type {
        Some(HttpDelayType::FixedDelay(duration)) => checker.duration(&at.field("fixedDelay"), duration),
        Some(HttpDelayType::ExponentialDelay(duration)) => {
            let at = at.field("exponentialDelay");
            checker.duration(&at, duration);
            checker.listed(code::UNSUPPORTED, &at, "exponentialDelay not supported yet");
        }
        None => {}
    }
}
