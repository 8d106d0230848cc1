//! Filters of Envoy.

use mixer_expr::functions::Regex;

use super::checker::Checker;
use super::code;
use crate::encode;
use crate::messages::istio::networking::v1alpha3::EnvoyFilter;
use crate::messages::istio::networking::v1alpha3::envoy_filter::envoy_config_object_match::ObjectTypes;
use crate::messages::istio::networking::v1alpha3::envoy_filter::filter::FilterType;
use crate::messages::istio::networking::v1alpha3::envoy_filter::insert_position::Index;
use crate::messages::istio::networking::v1alpha3::envoy_filter::listener_match::FilterMatch;
use crate::messages::istio::networking::v1alpha3::envoy_filter::patch::Operation;
use crate::messages::istio::networking::v1alpha3::envoy_filter::{
    ApplyTo, EnvoyConfigObjectMatch, EnvoyConfigObjectPatch, Filter,
};
use crate::place::Place;

/// The network filter whose filters are those of HTTP.
const CONNECTION_MANAGER: &str = "envoy.http_connection_manager";

pub(super) fn check(filter: &EnvoyFilter, body: &Place<'_>, checker: &mut Checker<'_>) {
    if filter.workload_selector.is_some() {
        let selector = body.field("workloadSelector");
        if !checker.is_given(&selector.field("labels")) {
            let text = "envoy filter: workloadSelector cannot have empty labels";
            checker.problem(code::LABELS, &selector, text);
        }
    }
    let filters = body.field("filters");
    for (index, filter) in filter.filters.iter().enumerate() {
        check_filter(filter, &filters.index(index), checker);
    }
    let patches = body.field("configPatches");
    for (index, patch) in filter.config_patches.iter().enumerate() {
        let at = patches.index(index);
        let refusal = check_patch(patch).err();
        let is_last = refusal.as_ref().is_some_and(|refusal| refusal.is_last);
        if let Some(Refusal { code, text, .. }) = refusal {
            checker.problem(code, &at, format!("envoy filter: {text}"));
        }
        if !is_last && patch.patch.as_ref().is_some_and(|change| change.value.is_some()) {
            check_value(patch.apply_to, &at.field("patch").field("value"), checker);
        }
    }
}

/// The first problem of a part of Envoy's configuration. Its extensions are not looked into.
fn check_value(apply_to: i32, at: &Place<'_>, checker: &mut Checker<'_>) {
    let message = match ApplyTo::try_from(apply_to) {
        Ok(ApplyTo::Cluster) => "envoy.api.v2.Cluster",
        Ok(ApplyTo::Listener) => "envoy.api.v2.Listener",
        Ok(ApplyTo::RouteConfiguration) => "envoy.api.v2.RouteConfiguration",
        Ok(ApplyTo::FilterChain) => "envoy.api.v2.listener.FilterChain",
        Ok(ApplyTo::HttpFilter) => "envoy.config.filter.network.http_connection_manager.v2.HttpFilter",
        Ok(ApplyTo::NetworkFilter) => "envoy.api.v2.listener.Filter",
        Ok(ApplyTo::VirtualHost) => "envoy.api.v2.route.VirtualHost",
        Ok(ApplyTo::HttpRoute) => "envoy.api.v2.route.Route",
        Ok(ApplyTo::Invalid) | Err(_) => {
            let text = format!("envoy filter: unknown object type for applyTo {apply_to}");
            return checker.problem(code::UNSUPPORTED, at, text);
        }
    };
    let decoded = encode::decode_message(message, checker.node(at), &at.path());
    if let Some(error) = decoded.errors.into_iter().chain(decoded.unknown).next() {
        checker.undecodable("envoy filter", error);
    }
}

fn check_filter(filter: &Filter, at: &Place<'_>, checker: &mut Checker<'_>) {
    if let Some(position) = &filter.insert_position
        && [Index::Before as i32, Index::After as i32].contains(&position.index)
        && position.relative_to.is_empty()
    {
        let text = "envoy filter: missing relativeTo filter with BEFORE/AFTER index";
        checker.problem(code::MISSING, &at.field("insertPosition"), text);
    }
    let missing = [
        (filter.filter_type == FilterType::Invalid as i32, "type"),
        (filter.filter_name.is_empty(), "name"),
        (filter.filter_config.is_none(), "config"),
    ];
    for (is_missing, what) in missing {
        if is_missing {
            checker.problem(code::MISSING, at, format!("envoy filter: missing filter {what}"));
        }
    }
}

/// Why a patch is refused.
struct Refusal {
    code: code::Code,
    text: String,
    /// Whether the rest of the patch is not looked at.
    is_last: bool,
}

fn refused(code: code::Code, text: impl Into<String>) -> Result<(), Refusal> {
    Err(Refusal { code, text: text.into(), is_last: true })
}

fn missing(what: &str) -> Result<(), Refusal> {
    refused(code::MISSING, format!("missing {what}"))
}

/// The first problem of a patch.
fn check_patch(patch: &EnvoyConfigObjectPatch) -> Result<(), Refusal> {
    if patch.apply_to == ApplyTo::Invalid as i32 {
        return missing("applyTo");
    }
    let Some(change) = &patch.patch else { return missing("patch") };
    if change.operation == Operation::Invalid as i32 {
        return missing("patch operation");
    }
    if change.operation != Operation::Remove as i32 && change.value.is_none() {
        return missing("patch value for non-remove operation");
    }
    let Some(condition) = &patch.r#match else { return Ok(()) };
    if let Some(proxy) = &condition.proxy
        && let Err(why) = Regex::compile(proxy.proxy_version.as_bytes())
    {
        return refused(code::VALUE, format!("invalid regex for proxy version, [{why}]"));
    }
    check_class(patch.apply_to, condition)
}

/// Whether a patch matches objects of the class that it changes.
fn check_class(apply_to: i32, condition: &EnvoyConfigObjectMatch) -> Result<(), Refusal> {
    let Some(object) = &condition.object_types else { return Ok(()) };
    let mismatch = |class: &str, object: &str| {
        let text = format!("applyTo for {class} class objects cannot have non {object} match");
        Err(Refusal { code: code::CONFLICT, text, is_last: class == "listener" })
    };
    match ApplyTo::try_from(apply_to) {
        Ok(ApplyTo::Listener | ApplyTo::FilterChain | ApplyTo::NetworkFilter | ApplyTo::HttpFilter) => {
            let ObjectTypes::Listener(listener) = object else { return mismatch("listener", "listener") };
            let filter = listener.filter_chain.as_ref().and_then(|chain| chain.filter.as_ref());
            filter.map_or(Ok(()), |filter| check_filter_match(apply_to, filter))
        }
        Ok(ApplyTo::RouteConfiguration | ApplyTo::VirtualHost | ApplyTo::HttpRoute) => match object {
            ObjectTypes::RouteConfiguration(_) => Ok(()),
            _ => mismatch("http route", "route configuration"),
        },
        Ok(ApplyTo::Cluster) => match object {
            ObjectTypes::Cluster(_) => Ok(()),
            _ => mismatch("cluster", "cluster"),
        },
        _ => Ok(()),
    }
}

fn check_filter_match(apply_to: i32, filter: &FilterMatch) -> Result<(), Refusal> {
    let refused = |text: &str| refused(code::CONFLICT, text);
    if filter.name.is_empty() {
        return refused("filter match has no name to match on");
    }
    let Some(inner) = &filter.sub_filter else { return Ok(()) };
    if apply_to != ApplyTo::HttpFilter as i32 {
        return refused("subfilter match can be used with applyTo HTTP_FILTER only");
    }
    if filter.name != CONNECTION_MANAGER {
        return refused("subfilter match requires filter match with envoy.http_connection_manager");
    }
    if inner.name.is_empty() {
        return refused("subfilter match has no name to match on");
    }
    Ok(())
}
