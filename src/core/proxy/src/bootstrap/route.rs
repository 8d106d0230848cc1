//! Reads route tables.

use std::time::Duration;

use mixer_expr::functions::Regex;

use super::hash;
use super::listener::timeout;
use super::manager;
use super::reader::{Fields, Message, Value};
use super::table::{
    Action, Addition, AdditionMode, Edits, HostConfig, Redirect, RetryConfig, RetryOn, RouteAction,
    RouteConfig, RouteTableConfig, WeightedCluster,
};
use super::{filter, matching, mirror, rate_limit};
use crate::head::is_bodiless;
use crate::header_changes::{is_protected, is_value_byte};

static TABLE: Message = Message {
    name: "RouteConfiguration",
    unsupported: &[
        "vhds",
        "internal_only_headers",
        "most_specific_header_mutations_wins",
        "cluster_specifier_plugins",
        "ignore_port_in_host_matching",
        "ignore_path_parameters_in_path_matching",
        "max_direct_response_body_size_bytes",
        "metadata",
    ],
};
static HOST: Message = Message {
    name: "VirtualHost",
    unsupported: &[
        "matcher",
        "require_tls",
        "virtual_clusters",
        "cors",
        "retry_policy",
        "include_request_attempt_count",
        "include_attempt_count_in_response",
        "retry_policy_typed_config",
        "hedge_policy",
        "per_request_buffer_limit_bytes",
        "metadata",
        "include_is_timeout_retry_header",
        "request_body_buffer_limit",
    ],
};
static ROUTE: Message = Message {
    name: "Route",
    unsupported: &[
        "metadata",
        "decorator",
        "tracing",
        "per_request_buffer_limit_bytes",
        "filter_action",
        "non_forwarding_action",
        "stat_prefix",
        "request_body_buffer_limit",
    ],
};
static ACTION: Message = Message {
    name: "RouteAction",
    unsupported: &[
        "cluster_header",
        "cluster_specifier_plugin",
        "inline_cluster_specifier_plugin",
        "metadata_match",
        "path_rewrite_policy",
        "path_rewrite",
        "regex_rewrite",
        "auto_host_rewrite",
        "host_rewrite_header",
        "host_rewrite_path_regex",
        "host_rewrite",
        "append_x_forwarded_host",
        "early_data_policy",
        "retry_policy_typed_config",
        "priority",
        "cors",
        "max_grpc_timeout",
        "grpc_timeout_offset",
        "internal_redirect_policy",
        "internal_redirect_action",
        "max_internal_redirects",
        "hedge_policy",
        "max_stream_duration",
        "flush_timeout",
        "idle_timeout",
    ],
};
static REDIRECT: Message = Message { name: "RedirectAction", unsupported: &["regex_rewrite"] };
static DIRECT: Message = Message { name: "DirectResponseAction", unsupported: &["body_format"] };
static SOURCE: Message = Message {
    name: "DataSource",
    unsupported: &["filename", "inline_bytes", "environment_variable", "watched_directory"],
};
static RETRY: Message = Message {
    name: "RetryPolicy",
    unsupported: &[
        "per_try_idle_timeout",
        "retry_priority",
        "retry_host_predicate",
        "retry_options_predicates",
        "host_selection_retry_max_attempts",
        "rate_limited_retry_back_off",
        "retriable_headers",
        "retriable_request_headers",
    ],
};
static BACK_OFF: Message = Message { name: "RetryBackOff", unsupported: &[] };
static WEIGHTED: Message = Message {
    name: "WeightedCluster",
    unsupported: &["total_weight", "runtime_key_prefix", "header_name", "use_hash_policy"],
};
static CLUSTER_WEIGHT: Message = Message {
    name: "ClusterWeight",
    unsupported: &["cluster_header", "metadata_match", "host_rewrite_literal"],
};
static HEADER_OPTION: Message = Message { name: "HeaderValueOption", unsupported: &["append"] };
static HEADER: Message = Message { name: "HeaderValue", unsupported: &["raw_value"] };

pub(super) fn read(value: &Value<'_>) -> Option<RouteTableConfig> {
    let table = value.message(&TABLE)?;
    let hosts = table.items("virtual_hosts").iter().filter_map(read_host).collect::<Vec<_>>();
    let config = RouteTableConfig {
        name: table.text("name").unwrap_or_default().to_owned(),
        validate_clusters: table.get("validate_clusters").is_none_or(|value| value.boolean() != Some(false)),
        edits: read_edits(&table),
        filters: filter::per_filter(&table),
        mirrors: mirror::read(&table),
        hosts,
    };
    let mut seen: Vec<&str> = Vec::new();
    for domain in config.hosts.iter().flat_map(|host| &host.domains) {
        if seen.contains(&domain.as_str()) {
            table.required(match domain.as_str() {
                "*" => format!("Only a single wildcard domain is permitted in route {}", config.name),
                _ => format!(
                    "Only unique values for domains are permitted. Duplicate entry of domain {domain} in route {}",
                    config.name
                ),
            });
        }
        seen.push(domain);
    }
    table.finish();
    Some(config)
}

fn read_host(value: &Value<'_>) -> Option<HostConfig> {
    let host = value.message(&HOST)?;
    let name = match host.get("name") {
        Some(name) => name.nonempty("VirtualHost", "Name").unwrap_or_default(),
        None => {
            host.required("VirtualHostValidationError.Name: value length must be at least 1 characters");
            ""
        }
    };
    let domains = host.get("domains").map(|domains| domains.texts()).unwrap_or_default();
    if domains.is_empty() {
        host.required("VirtualHostValidationError.Domains: value must contain at least 1 item(s)");
    }
    let routes = host.items("routes").iter().filter_map(read_route).collect();
    let edits = read_edits(&host);
    let filters = filter::per_filter(&host);
    let limits = rate_limit::limits(&host);
    let mirrors = mirror::read(&host);
    host.finish();
    let domains = domains.into_iter().map(str::to_ascii_lowercase).collect();
    Some(HostConfig { name: name.to_owned(), domains, edits, filters, limits, mirrors, routes })
}

fn read_route(value: &Value<'_>) -> Option<RouteConfig> {
    let route = value.message(&ROUTE)?;
    let name = route.text("name").unwrap_or_default().to_owned();
    let matching = match route.get("match") {
        Some(matching) => matching::read(&matching),
        None => {
            route.required("RouteValidationError.Match: value is required");
            None
        }
    };
    let has_other =
        ["filter_action", "non_forwarding_action"].iter().any(|name| route.value.node.get(name).is_some());
    let action = match route.one_of(&["route", "redirect", "direct_response"]) {
        Some(("route", action)) => read_action(&action).map(|action| Action::Route(Box::new(action))),
        Some(("redirect", redirect)) => {
            read_redirect(&redirect).map(|redirect| Action::Redirect(Box::new(redirect)))
        }
        Some((_, direct)) => read_direct(&direct),
        None => {
            if !has_other {
                route.required("RouteValidationError: field: \"action\", reason: is required");
            }
            None
        }
    };
    let edits = read_edits(&route);
    let filters = filter::per_filter(&route);
    route.finish();
    Some(RouteConfig { name, matching: matching?, action: action?, edits, filters })
}

fn read_action(value: &Value<'_>) -> Option<RouteAction> {
    let action = value.message(&ACTION)?;
    let others = ["cluster_header", "cluster_specifier_plugin", "inline_cluster_specifier_plugin"];
    let clusters = match action.one_of(&["cluster", "weighted_clusters"]) {
        Some(("cluster", name)) => name.nonempty("RouteAction", "Cluster").map(|name| {
            vec![WeightedCluster { name: name.to_owned(), weight: 1, ..WeightedCluster::default() }]
        }),
        Some((_, weighted)) => read_weighted(&weighted),
        None => {
            if !others.iter().any(|name| action.value.node.get(name).is_some()) {
                action.required(
                    "RouteActionValidationError: field: \"cluster_specifier\", reason: is required",
                );
            }
            None
        }
    };
    let codes = [("SERVICE_UNAVAILABLE", 0), ("NOT_FOUND", 1), ("INTERNAL_SERVER_ERROR", 2)];
    let not_found_status =
        match action.get("cluster_not_found_response_code").and_then(|value| value.choice(&codes)) {
            Some(1) => 404,
            Some(2) => 500,
            _ => 503,
        };
    let text = |name: &str| action.line(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let read = RouteAction {
        clusters: clusters.unwrap_or_default(),
        not_found_status,
        prefix_rewrite: text("prefix_rewrite"),
        host_rewrite: text("host_rewrite_literal"),
        timeout: timeout(&action, "timeout", Duration::from_secs(15)),
        limits: rate_limit::limits(&action),
        include_host_limits: action.boolean("include_vh_rate_limits"),
        retry: action.get("retry_policy").and_then(|value| read_retry(&value)),
        hash: hash::read(&action),
        upgrades: manager::read_upgrades(&action),
        mirrors: mirror::read(&action),
    };
    action.finish();
    Some(read)
}

fn read_weighted(value: &Value<'_>) -> Option<Vec<WeightedCluster>> {
    let weighted = value.message(&WEIGHTED)?;
    let mut clusters = Vec::new();
    let mut sum = 0_u64;
    for item in weighted.items("clusters") {
        let Some(cluster) = item.message(&CLUSTER_WEIGHT) else { continue };
        let name = cluster.get("name").and_then(|name| name.nonempty("ClusterWeight", "Name"));
        if cluster.get("name").is_none() && item.node.get("cluster_header").is_none() {
            cluster.required("At least one of name or cluster_header need to be specified");
        }
        let weight = match cluster.get("weight") {
            Some(weight) => weight.u32().unwrap_or(0),
            None => {
                cluster.required("Field 'weight' is missing");
                0
            }
        };
        sum += u64::from(weight);
        let (edits, filters) = (read_edits(&cluster), filter::per_filter(&cluster));
        clusters.extend(name.map(|name| WeightedCluster { name: name.to_owned(), weight, edits, filters }));
        cluster.finish();
    }
    if sum == 0 {
        weighted.required("Sum of weights in the weighted_cluster must be greater than 0.");
    } else if sum > u64::from(u32::MAX) {
        weighted.required("the sum of weights exceeds 4294967295");
    }
    weighted.finish();
    Some(clusters)
}

/// Tokens of `retry_on` that Envoy knows and this version does not act on.
const UNSUPPORTED_TOKENS: [&str; 3] = ["retriable-headers", "http3-post-connect-failure", "none"];

/// Tokens of `retry_on` that name a status of gRPC, and its number.
const GRPC_TOKENS: [(&str, u32); 5] = [
    ("cancelled", 1),
    ("deadline-exceeded", 4),
    ("resource-exhausted", 8),
    ("internal", 13),
    ("unavailable", 14),
];

fn read_retry(value: &Value<'_>) -> Option<RetryConfig> {
    let retry = value.message(&RETRY)?;
    let mut on = RetryOn::default();
    if let Some(conditions) = retry.get("retry_on")
        && let Some(text) = conditions.text()
    {
        for token in text.split(',').map(str::trim).filter(|token| !token.is_empty()) {
            if let Some((_, status)) = GRPC_TOKENS.iter().find(|(name, _)| *name == token) {
                on.grpc_statuses |= 1 << status;
                continue;
            }
            let flag = match token {
                "5xx" => &mut on.server_error,
                "gateway-error" => &mut on.gateway_error,
                "reset" => &mut on.reset,
                "reset-before-request" => &mut on.reset_before_request,
                "connect-failure" => &mut on.connect_failure,
                "retriable-4xx" => &mut on.retriable_4xx,
                "retriable-status-codes" => &mut on.statuses,
                "refused-stream" => &mut on.refused_stream,
                "envoy-ratelimited" => &mut on.ratelimited,
                _ if UNSUPPORTED_TOKENS.contains(&token) => {
                    conditions.unsupported(&format!("retry_on `{token}`"));
                    continue;
                }
                _ => {
                    conditions.warn(format!(
                        "Unknown retry_on policy token(s) [{token}] in retry_on config '{text}'. These tokens will be silently ignored."
                    ));
                    continue;
                }
            };
            *flag = true;
        }
    }
    let (mut base, mut max) = (Duration::from_millis(25), None);
    if let Some(back_off) = retry.message("retry_back_off", &BACK_OFF) {
        if back_off.get("base_interval").is_none() {
            back_off.required("RetryBackOffValidationError.BaseInterval: value is required");
        }
        base = back_off.duration("base_interval").unwrap_or(base).max(Duration::from_millis(1));
        max = back_off.duration("max_interval");
        if max.is_some_and(|max| max < base) {
            back_off.required("retry_policy.max_interval must greater than or equal to the base_interval");
        }
        back_off.finish();
    }
    let statuses = retry.items("retriable_status_codes");
    let config = RetryConfig {
        on,
        statuses: statuses.iter().filter_map(|value| u16::try_from(value.number(999)?).ok()).collect(),
        retries: retry.get("num_retries").and_then(|value| value.u32()).unwrap_or(1),
        per_try_timeout: timeout(&retry, "per_try_timeout", Duration::ZERO),
        back_off: (base, max.unwrap_or(base * 10)),
    };
    retry.finish();
    Some(config)
}

fn read_redirect(value: &Value<'_>) -> Option<Redirect> {
    let redirect = value.message(&REDIRECT)?;
    let codes = [
        ("MOVED_PERMANENTLY", 0),
        ("FOUND", 1),
        ("SEE_OTHER", 2),
        ("TEMPORARY_REDIRECT", 3),
        ("PERMANENT_REDIRECT", 4),
    ];
    let code = redirect.get("response_code").and_then(|value| value.choice(&codes)).unwrap_or(0);
    // An empty text is one that is not there, as with Envoy.
    let scheme = match redirect.one_of(&["https_redirect", "scheme_redirect"]) {
        Some(("https_redirect", value)) => value.boolean().filter(|https| *https).map(|_| "https".to_owned()),
        Some((_, value)) => value.line().filter(|scheme| !scheme.is_empty()).map(str::to_owned),
        None => None,
    };
    let path = redirect.one_of(&["path_redirect", "prefix_rewrite"]);
    let path = path.and_then(|(name, value)| Some((name, value.line()?.to_owned())));
    let path = path.filter(|(_, text)| !text.is_empty());
    let of = |wanted: &str| path.as_ref().filter(|(name, _)| *name == wanted).map(|(_, text)| text.clone());
    let port = redirect
        .get("port_redirect")
        .and_then(|value| value.number(65535))
        .and_then(|p| u16::try_from(p).ok());
    let read = Redirect {
        status: [301, 302, 303, 307, 308].get(usize::try_from(code).unwrap_or(0)).copied().unwrap_or(301),
        scheme,
        host: redirect.line("host_redirect").filter(|host| !host.is_empty()).map(str::to_owned),
        port: port.filter(|port| *port > 0),
        path: of("path_redirect"),
        prefix_rewrite: of("prefix_rewrite"),
        strip_query: redirect.boolean("strip_query"),
    };
    redirect.finish();
    Some(read)
}

fn read_direct(value: &Value<'_>) -> Option<Action> {
    let direct = value.message(&DIRECT)?;
    let status = direct.get("status").and_then(|status| {
        let number = status.number(999).and_then(|number| u16::try_from(number).ok());
        if !number.is_some_and(|number| (200..600).contains(&number)) {
            status
                .invalid("DirectResponseActionValidationError.Status: value must be inside range [200, 600)");
            return None;
        }
        number
    });
    if status.is_none() && direct.value.node.get("status").is_none() {
        direct.required("DirectResponseActionValidationError.Status: value must be inside range [200, 600)");
    }
    let written = direct.get("body");
    let body = written.as_ref().and_then(|body| body.message(&SOURCE)).and_then(|source| {
        if source.is_empty() {
            source.required("DataSourceValidationError: field: \"specifier\", reason: is required");
        }
        let text = source.text("inline_string").map(str::to_owned);
        source.finish();
        text
    });
    if let (Some(number), Some(written)) = (status.filter(|status| is_bodiless(*status)), written)
        && body.as_ref().is_some_and(|body| !body.is_empty())
    {
        written.invalid(format!(
            "a response with the status {number} has no body; remove the field, or choose another status"
        ));
    }
    direct.finish();
    Some(Action::Direct { status: status?, body: body.unwrap_or_default() })
}

fn read_edits(holder: &Fields<'_>) -> Edits {
    let removed = |name: &str| -> Vec<String> {
        let mut names = Vec::new();
        for value in holder.items(name) {
            let Some(name) = value.text().map(str::to_ascii_lowercase) else { continue };
            if name.starts_with(':') || name == "host" {
                value.invalid(":-prefixed or host headers may not be removed");
            }
            names.push(name);
        }
        names
    };
    Edits {
        add_request: read_additions(holder, "request_headers_to_add"),
        remove_request: removed("request_headers_to_remove"),
        add_response: read_additions(holder, "response_headers_to_add"),
        remove_response: removed("response_headers_to_remove"),
    }
}

pub(super) fn read_additions(holder: &Fields<'_>, field: &str) -> Vec<Addition> {
    holder.items(field).iter().filter_map(read_addition).collect()
}

fn read_addition(value: &Value<'_>) -> Option<Addition> {
    let option = value.message(&HEADER_OPTION)?;
    let modes = [
        ("APPEND_IF_EXISTS_OR_ADD", 0),
        ("ADD_IF_ABSENT", 1),
        ("OVERWRITE_IF_EXISTS_OR_ADD", 2),
        ("OVERWRITE_IF_EXISTS", 3),
    ];
    let mode = match option.get("append_action").and_then(|value| value.choice(&modes)) {
        Some(1) => AdditionMode::AddIfAbsent,
        Some(2) => AdditionMode::Overwrite,
        Some(3) => AdditionMode::OverwriteIfExists,
        _ => AdditionMode::Append,
    };
    let Some(header) = option.message("header", &HEADER) else {
        option.required("HeaderValueOptionValidationError.Header: value is required");
        return None;
    };
    let name = header.get("key");
    let text = name.as_ref().and_then(|name| name.nonempty("HeaderValue", "Key"));
    let text = text.map(str::to_ascii_lowercase);
    if let (Some(text), Some(name)) = (&text, &name) {
        let is_token = text.bytes().all(crate::head::is_token_byte);
        if text.starts_with(':') || text == "host" {
            name.invalid(":-prefixed or host headers may not be modified");
        } else if !is_token {
            name.invalid(format!("`{text}` is not the name of a header"));
        } else if is_protected(text) {
            // Two readers could find the end of the message in two places.
            name.unsupported(&format!(
                "adding `{text}`, which says where a message ends or is about one connection,"
            ));
        }
    } else {
        header.required("HeaderValueValidationError.Key: value length must be at least 1 characters");
    }
    let written = header.get("value");
    let value = written.as_ref().and_then(|value| value.text()).unwrap_or_default();
    if let Some(written) = &written {
        if !value.bytes().all(is_value_byte) {
            written.invalid("a header value must not contain control characters other than tabs");
        } else if value.replace("%%", "").contains('%') {
            written.unsupported("a command operator (%…%) in a header value");
        }
    }
    let keeps_empty = option.boolean("keep_empty_value");
    header.finish();
    option.finish();
    Some(Addition { name: text?, value: value.replace("%%", "%"), mode, keeps_empty })
}

/// Compiles a pattern that must match a whole text. Reports what is wrong with it.
pub(super) fn whole(value: &Value<'_>, pattern: &str) -> Option<Regex> {
    // By itself first: `a)(b` would be valid within the group.
    let compiled = Regex::compile(pattern.as_bytes());
    match compiled.and_then(|_| Regex::compile(format!(r"\A(?:{pattern})\z").as_bytes())) {
        Ok(regex) => Some(regex),
        Err(problem) => {
            value.invalid(problem);
            None
        }
    }
}
