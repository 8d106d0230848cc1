//! Authentication policies.

use std::collections::BTreeSet;

use mixer_base::quote::quoted;
use mixer_expr::functions::scheme_and_port;

use super::Subject;
use super::checker::Checker;
use super::code;
use super::text;
use crate::messages::istio::authentication::v1alpha1::peer_authentication_method::Params;
use crate::messages::istio::authentication::v1alpha1::port_selector::Port;
use crate::messages::istio::authentication::v1alpha1::{Jwt, Policy, TargetSelector};
use crate::place::Place;

/// The name of the policy of a whole namespace or mesh.
const DEFAULT: &str = "default";

pub(super) fn check(policy: &Policy, subject: &Subject<'_>, body: &Place<'_>, checker: &mut Checker<'_>) {
    check_scope(policy, subject, body, checker);
    let mut issuers = BTreeSet::new();
    let peers = body.field("peers");
    for (index, peer) in policy.peers.iter().enumerate() {
        if let Some(Params::Jwt(jwt)) = &peer.params {
            check_issuer(jwt, &mut issuers, &peers.index(index).field("jwt"), checker);
        }
    }
    let origins = body.field("origins");
    for (index, origin) in policy.origins.iter().enumerate() {
        let at = origins.index(index);
        match &origin.jwt {
            None => checker.listed(code::MISSING, &at, "jwt cannot be empty"),
            Some(jwt) => check_issuer(jwt, &mut issuers, &at.field("jwt"), checker),
        }
    }
}

/// What a policy is for: its name says so, if it has no targets.
fn check_scope(policy: &Policy, subject: &Subject<'_>, body: &Place<'_>, checker: &mut Checker<'_>) {
    let targets = body.field("targets");
    let name = subject.name;
    if subject.namespace.is_empty() {
        if name != DEFAULT {
            let text = format!(
                "cluster-scoped authentication policy name must be \"{DEFAULT}\", found {}",
                quoted(name)
            );
            checker.name_problem(text, "there is one policy of the mesh, named `default`");
        }
        if !policy.targets.is_empty() {
            let text = "cluster-scoped authentication policy must not have targets";
            checker.problem(code::CONFLICT, &targets, text);
        }
        return;
    }
    if policy.targets.is_empty() && name != DEFAULT {
        let text = format!(
            "authentication policy with no target rules  must be named \"{DEFAULT}\", found {}",
            quoted(name)
        );
        checker.name_problem(text, "name what it is for under `targets`, or rename it to `default`");
    }
    if !policy.targets.is_empty() && name == DEFAULT {
        let text = format!("authentication policy with name {} must not have any target rules", quoted(name));
        checker.problem(code::CONFLICT, &targets, text);
    }
    for (index, target) in policy.targets.iter().enumerate() {
        check_target(target, &targets.index(index), checker);
    }
}

fn check_target(target: &TargetSelector, at: &Place<'_>, checker: &mut Checker<'_>) {
    if !text::is_label(&target.name) {
        let text = format!("target name {} must be a valid label", quoted(&target.name));
        checker.listed(code::NAME, &at.field("name"), text);
    }
    let ports = at.field("ports");
    for (index, selector) in target.ports.iter().enumerate() {
        let at = ports.index(index);
        match &selector.port {
            Some(Port::Number(number)) if *number != 0 => checker.port(&at, *number),
            Some(Port::Name(name)) if !name.is_empty() => checker.subset_name(&at, name),
            _ => {
                checker.subset_name(&at, "");
                checker.port(&at, 0);
            }
        }
    }
}

/// A way to verify tokens of an issuer, of whom there is one only.
fn check_issuer(jwt: &Jwt, issuers: &mut BTreeSet<String>, at: &Place<'_>, checker: &mut Checker<'_>) {
    if !issuers.insert(jwt.issuer.clone()) {
        let text = format!("jwt with issuer {} already defined", quoted(&jwt.issuer));
        checker.problem(code::DUPLICATE, &at.field("issuer"), text);
    }
    if jwt.issuer.is_empty() {
        checker.listed(code::MISSING, at, "issuer must be set");
    }
    let lists = [
        ("audiences", &jwt.audiences, "audience must be non-empty string"),
        ("jwtHeaders", &jwt.jwt_headers, "location header must be non-empty string"),
        ("jwtParams", &jwt.jwt_params, "location query must be non-empty string"),
    ];
    for (field, texts, message) in lists {
        for (index, _) in texts.iter().enumerate().filter(|(_, text)| text.is_empty()) {
            checker.listed(code::MISSING, &at.field(field).index(index), message);
        }
        if field == "audiences"
            && let Err(text) = jwks_uri(&jwt.jwks_uri)
        {
            checker.listed(code::VALUE, &at.field("jwksUri"), text);
        }
    }
}

/// Whether keys can be fetched from a URI; an empty one is none.
pub(super) fn jwks_uri(uri: &str) -> Result<(), String> {
    if uri.is_empty() {
        return Ok(());
    }
    let (scheme, port) = scheme_and_port(uri)?;
    match scheme.as_str() {
        "http" | "https" if port.is_empty() || port.parse::<i64>().is_ok() => Ok(()),
        "http" | "https" => Err(text::not_a_number(&port)),
        scheme => Err(format!("URI scheme {} is not supported", quoted(scheme))),
    }
}
