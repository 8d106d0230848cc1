//! Names of attributes: those of OpenTelemetry's semantic conventions for what is named after an attribute of Istio.

use std::borrow::Cow;

use super::params::Params;

/// Attributes of Istio's vocabulary whose value is exactly that of a convention. Spelled without separators and capitals, so that
/// `response.code`, `response_code` and `responseCode` are one.
const CONVENTIONS: [(&str, &str); 18] = [
    ("apiprotocol", "network.protocol.name"),
    ("connectionrequestedservername", "tls.client.server_name"),
    ("contextprotocol", "network.protocol.name"),
    ("destinationip", "destination.address"),
    ("destinationport", "destination.port"),
    ("originip", "client.address"),
    ("requestmethod", "http.request.method"),
    // With the query.
    ("requestpath", "url.original"),
    ("requestscheme", "url.scheme"),
    ("requestsize", "http.request.body.size"),
    ("requesttotalsize", "http.request.size"),
    ("requesturlpath", "url.path"),
    ("requestuseragent", "user_agent.original"),
    ("responsecode", "http.response.status_code"),
    ("responsesize", "http.response.body.size"),
    ("responsetotalsize", "http.response.size"),
    ("sourceip", "source.address"),
    ("sourceport", "source.port"),
];

/// The name of the attribute of a dimension, variable or tag.
pub(super) fn name<'p>(params: &'p Params, key: &'p str) -> Cow<'p, str> {
    if let Some(name) = params.attribute_names.get(key) {
        return name.into();
    }
    let convention = || {
        let is_separator = |c: char| matches!(c, '.' | '_' | '-');
        let plain: String =
            key.chars().filter(|c| !is_separator(*c)).collect::<String>().to_ascii_lowercase();
        CONVENTIONS.iter().find(|(of, _)| *of == plain).map(|(_, name)| *name)
    };
    match params.semantic_conventions {
        true => convention().unwrap_or(key).into(),
        false => key.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_istio_names_has_the_name_of_its_convention_unless_configured() {
        let names = |key: &str| (key.to_owned(), "own".to_owned());
        let mut params = Params { attribute_names: [names("response.code")].into(), ..Params::default() };
        let all = |params: &Params| {
            ["response.code", "responseCode", "response_size", "source-ip", "app"]
                .map(|key| name(params, key).into_owned())
        };
        let body = "http.response.body.size";
        assert_eq!(all(&params), ["own", "http.response.status_code", body, "source.address", "app"]);
        params.semantic_conventions = false;
        assert_eq!(all(&params), ["own", "responseCode", "response_size", "source-ip", "app"]);
        assert!(CONVENTIONS.is_sorted());
    }
}
