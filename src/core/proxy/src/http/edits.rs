//! What a connection manager changes in heads: hop-by-hop headers, headers that Envoy adds, and edits of the configuration.

use super::HttpManager;
use super::routes::Levels;
use crate::bootstrap::{Addition, AdditionMode, Edits};
use crate::connection_info::ConnectionInfo;
use crate::head::Head;
use crate::inline_headers;
use crate::uuid;

/// The most names that `connection` may list, as with Envoy.
const MAX_NAMED: usize = 9;

/// Headers of Envoy's, after `x-envoy-`, that no client may say.
fn is_internal_header(name: &[u8]) -> bool {
    name.strip_prefix(b"x-envoy-").is_some_and(|name| {
        matches!(
            name,
            b"internal"
                | b"retriable-status-codes"
                | b"retriable-header-names"
                | b"retry-on"
                | b"retry-grpc-on"
                | b"max-retries"
                | b"upstream-alt-stat-name"
                | b"upstream-rq-timeout-ms"
                | b"upstream-rq-per-try-timeout-ms"
                | b"upstream-rq-timeout-alt-response"
                | b"upstream-stream-duration-ms"
                | b"expected-rq-timeout-ms"
                | b"force-trace"
                | b"ip-tags"
                | b"original-url"
                | b"hedge-on-per-try-timeout"
        )
    })
}

/// Headers of Envoy's, after `x-envoy-`, that a proxy before this one may say, and clients at the edge may not: they name the path in access
/// logs, for example.
fn is_edge_header(name: &[u8]) -> bool {
    name.strip_prefix(b"x-envoy-").is_some_and(|name| {
        matches!(
            name,
            b"decorator-operation"
                | b"downstream-service-cluster"
                | b"downstream-service-node"
                | b"original-host"
                | b"original-path"
        )
    })
}

/// Whether a header concerns more than one connection, in any case: who the client is, what it may do, where the request goes.
fn is_end_to_end(name: &[u8]) -> bool {
    let begins =
        |prefix: &&[u8]| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let names = [&b"forwarded"[..], b"authorization", b"cookie", b"x-request-id"];
    [&b":"[..], b"x-forwarded-", b"x-envoy-", b"x-istio-"].iter().any(begins)
        || names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Whether `connection` of a request names a header that this proxy and those behind it rely on, so that it would be removed, or more names
/// than Envoy takes. Envoy refuses `x-forwarded-for`, `-host` and `-proto`.
pub(super) fn names_what_stays(head: &Head) -> bool {
    let names = || head.elements("connection").filter(|name| !name.is_empty());
    names().count() > MAX_NAMED || names().any(is_end_to_end)
}

fn is_hop_by_hop(name: &[u8]) -> bool {
    matches!(name, b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade")
}

/// Removes the headers that concern one connection. Those that `connection` names are among them.
pub(super) fn remove_hop_by_hop(head: &mut Head) {
    remove_named_by_connection(head);
    head.remove_where(|name, _| is_hop_by_hop(name));
}

fn remove_named_by_connection(head: &mut Head) {
    let names_others = head
        .elements("connection")
        .any(|token| !token.eq_ignore_ascii_case(b"close") && !token.eq_ignore_ascii_case(b"keep-alive"));
    if names_others {
        let named: Vec<Vec<u8>> = head.elements("connection").map(<[u8]>::to_ascii_lowercase).collect();
        for token in named {
            // Framing and the host are not a matter of a connection, whatever it says; `te`, `connection` and `upgrade` are treated by themselves.
            if !matches!(
                token.as_slice(),
                b"" | b"content-length" | b"host" | b"te" | b"connection" | b"upgrade"
            ) {
                head.remove(&token);
            }
        }
    }
}

/// Leaves of `te` that trailers are taken.
pub(super) fn settle_te(head: &mut Head) {
    match head.has_element("te", b"trailers") {
        true => head.set("te", b"trailers"),
        false => {
            head.remove(b"te");
        }
    }
}

/// `http` or `https`, if a text is one of them in any case.
fn http_scheme(text: &[u8]) -> Option<&'static [u8]> {
    let known = [&b"http"[..], b"https"];
    known.into_iter().find(|scheme| text.eq_ignore_ascii_case(scheme))
}

/// The scheme of a connection.
fn own_scheme(info: &ConnectionInfo) -> &'static [u8] {
    if info.tls.is_some() { b"https" } else { b"http" }
}

/// Prepares a request before a route is chosen. `protocol`: the one to which it asks to change; routes and filters see that it does, as with Envoy.
pub(super) fn prepare_request(
    head: &mut Head,
    manager: &HttpManager,
    info: &ConnectionInfo,
    protocol: Option<&[u8]>,
) {
    let remote = info.remote.ip();
    // All of it, though what it names besides is removed.
    let connection = protocol.and_then(|_| head.joined("connection"));
    remove_named_by_connection(head);
    // As Envoy 1.40, to which no address is internal unless the configuration says so.
    let is_edge = manager.use_remote_address;
    if protocol.is_none() {
        settle_te(head);
    }
    head.remove_where(|name, _| match name {
        // What the last one says of clients of another proxy is not known to be true.
        b"host" | b"expect" | b"x-forwarded-client-cert" => true,
        b"connection" | b"upgrade" => protocol.is_none(),
        name => is_hop_by_hop(name) || is_internal_header(name) || (is_edge && is_edge_header(name)),
    });
    if let (Some(connection), Some(protocol)) = (connection, protocol) {
        head.set("connection", &connection);
        head.set("upgrade", protocol);
        if let Some(te) = head.joined("te") {
            head.set("te", &te);
        }
    }
    inline_headers::join_repeated(head);
    if manager.use_remote_address {
        head.append("x-forwarded-for", remote.to_string().as_bytes());
        head.set("x-envoy-external-address", remote.to_string().as_bytes());
    }
    // At the edge, what clients say of it is not known to be true.
    let said = head.get("x-forwarded-proto").filter(|_| !is_edge).and_then(http_scheme);
    let scheme = said.unwrap_or(own_scheme(info));
    if said.is_none() {
        head.set("x-forwarded-proto", scheme);
    }
    // As Envoy: the connection may be that of a balancer, which ends TLS.
    if head.scheme().is_empty() {
        head.set_scheme(scheme);
    }
    if manager.generate_request_id
        && ((is_edge && !manager.preserve_external_request_id) || head.get("x-request-id").is_none())
    {
        head.set("x-request-id", &uuid::random());
    }
}

/// Replaces a scheme that is none of HTTP before the request is forwarded, as Envoy's router does.
pub(super) fn settle_scheme(head: &mut Head, info: &ConnectionInfo) {
    if http_scheme(head.scheme()).is_none() {
        let said = head.get("x-forwarded-proto").and_then(http_scheme);
        head.set_scheme(said.unwrap_or(own_scheme(info)));
    }
}

/// Applies edits of requests: those of the most specific level first, of the table last.
pub(crate) fn edit_request<const N: usize>(head: &mut Head, levels: [&Edits; N]) {
    for edits in levels {
        edit(head, &edits.remove_request, &edits.add_request);
    }
}

/// Applies edits of responses.
pub(super) fn edit_response(head: &mut Head, levels: Levels<'_>) {
    for edits in levels {
        edit(head, &edits.remove_response, &edits.add_response);
    }
}

/// Applies the edits of one level as Envoy does: first what is removed. What is added depends on what is there then, and what is replaced comes
/// before what is added.
fn edit(head: &mut Head, removals: &[String], additions: &[Addition]) {
    for name in removals {
        head.remove(name.as_bytes());
    }
    if additions.iter().all(|addition| addition.mode == AdditionMode::Append) {
        additions.iter().filter(|addition| has_value(addition)).for_each(|addition| add(head, addition));
        return;
    }
    let applies = |addition: &&Addition| {
        let is_there = || head.get(&addition.name).is_some();
        has_value(addition)
            && match addition.mode {
                AdditionMode::Append | AdditionMode::Overwrite => true,
                AdditionMode::AddIfAbsent => !is_there(),
                AdditionMode::OverwriteIfExists => is_there(),
            }
    };
    let (replaced, added): (Vec<&Addition>, Vec<&Addition>) =
        additions.iter().filter(applies).partition(|addition| {
            matches!(addition.mode, AdditionMode::Overwrite | AdditionMode::OverwriteIfExists)
        });
    for addition in replaced {
        head.set(&addition.name, addition.value.as_bytes());
    }
    added.into_iter().for_each(|addition| add(head, addition));
}

fn has_value(addition: &Addition) -> bool {
    addition.keeps_empty || !addition.value.is_empty()
}

fn add(head: &mut Head, addition: &Addition) {
    inline_headers::add(head, &addition.name, addition.value.as_bytes());
}
