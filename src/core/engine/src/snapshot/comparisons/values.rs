//! The values that attributes can have: what Envoy and the proxies of Istio set.

use mixer_config::message::resembles;

/// Attributes of which the values are known.
const KNOWN: [(&str, Known); 10] = [
    ("context.protocol", Known::Protocol),
    ("context.reporter.kind", Known::OneOf(&["inbound", "outbound"])),
    ("destination.principal", Known::Principal),
    ("request.host", Known::Host),
    ("request.method", Known::Method),
    ("request.path", Known::Path { has_query: true }),
    ("request.scheme", Known::Scheme),
    ("request.url_path", Known::Path { has_query: false }),
    ("source.principal", Known::Principal),
    ("source.user", Known::Principal),
];

/// Headers that have the value of an attribute.
const PSEUDO_HEADERS: [(&str, &str); 4] = [
    (":authority", "request.host"),
    (":method", "request.method"),
    (":path", "request.path"),
    (":scheme", "request.scheme"),
];

/// The methods of HTTP requests.
const METHODS: [&str; 9] = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];

/// Protocols that proxies name, of those that are often written otherwise.
const PROTOCOLS: [&str; 4] = ["http", "https", "grpc", "tcp"];

/// Names of directions that other products have.
const DIRECTIONS: [(&str, &str); 4] =
    [("client", "outbound"), ("destination", "inbound"), ("server", "inbound"), ("source", "outbound")];

/// The scheme that principals do not have.
const SPIFFE: &str = "spiffe://";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Protocol,
    OneOf(&'static [&'static str]),
    Principal,
    Host,
    Method,
    Path { has_query: bool },
    Scheme,
}

/// The part of a value that a constant is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Start,
    End,
    Within,
}

impl Part {
    /// Whether a value has the constant there.
    pub(super) fn is(self, value: &str, constant: &str) -> bool {
        match self {
            Part::Whole => value == constant,
            Part::Start => value.starts_with(constant),
            Part::End => value.ends_with(constant),
            Part::Within => value.contains(constant),
        }
    }

    fn is_start(self) -> bool {
        matches!(self, Part::Whole | Part::Start)
    }
}

/// Why no value has a constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Never {
    /// The code of the warning.
    pub(super) code: &'static str,
    /// What values are like.
    pub(super) why: &'static str,
    /// What to write.
    pub(super) cure: Cure,
}

/// What to write instead of a constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cure {
    /// Another constant.
    Text(String),
    /// Another constant for each alternative.
    AnyOf(Vec<String>),
    /// A regular expression.
    Regex,
    /// Something else.
    Advice(&'static str),
}

/// The attribute with the value of an entry of the request headers.
pub(super) fn attribute_of_header(key: &str) -> Option<&'static str> {
    PSEUDO_HEADERS.iter().find(|(name, _)| *name == key).map(|(_, attribute)| *attribute)
}

/// Why no value of an attribute has this constant; `None` if one may, or its values are unknown.
///
/// `is_lower`: the value is compared in lower case. The empty constant stands for what is absent.
pub(super) fn never(attribute: &str, part: Part, constant: &str, is_lower: bool) -> Option<Never> {
    if constant.is_empty() {
        return None;
    }
    let (_, known) = KNOWN.iter().find(|(name, _)| *name == attribute)?;
    let never = |why, cure| Some(Never { code: "value-never", why, cure });
    match *known {
        Known::Path { has_query } => path(part, constant, has_query),
        Known::Method => method(part, constant, is_lower),
        Known::OneOf(values) => {
            if values.iter().any(|value| part.is(value, constant)) {
                return None;
            }
            let lower = constant.trim().to_ascii_lowercase();
            let other = DIRECTIONS.iter().find(|(name, _)| *name == lower).map(|(_, value)| *value);
            let meant = values.iter().copied().find(|value| *value == lower).or(other);
            let near = || values.iter().copied().find(|value| resembles(&lower, value));
            let cure = meant.or_else(near).map_or(Cure::Advice("write `inbound` or `outbound`"), text);
            never("it is `inbound` or `outbound`", cure)
        }
        Known::Principal => {
            let is_scheme = part.is_start() && constant.starts_with("spiffe:");
            if !is_scheme && !constant.contains(SPIFFE) {
                return None;
            }
            let name = constant.split_once(SPIFFE).map_or("", |(_, name)| name);
            let cure = if name.is_empty() {
                Cure::Advice("leave the test out: every SPIFFE identity begins with its trust domain")
            } else {
                text(name)
            };
            never("principals are without `spiffe://`", cure)
        }
        Known::Host => {
            if !constant.contains('/') {
                return None;
            }
            let name = constant.split_once("://").map_or(constant, |(_, name)| name);
            let name = name.split('/').next().unwrap_or_default();
            let cure = if name.is_empty() {
                Cure::Advice("test `request.url_path` for the path")
            } else {
                text(name)
            };
            never("it is a name, and the port if the client sends one", cure)
        }
        Known::Scheme => {
            let is_scheme =
                |c: char| c.is_ascii_alphanumeric() && !c.is_ascii_uppercase() || "+-.".contains(c);
            if constant.chars().all(is_scheme) {
                return None;
            }
            let name = constant.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
            let cure = if name.is_empty() { Cure::Advice("write `http` or `https`") } else { text(&name) };
            never("schemes are names in lower case", cure)
        }
        Known::Protocol => {
            let has_version = ["h2", "h2c", "http1", "http2", "http3"].contains(&constant);
            let is_other = |c: char| c.is_ascii_uppercase() || c == '/' || c.is_whitespace();
            if !has_version && !constant.contains(is_other) {
                return None;
            }
            let lower = constant.trim().to_ascii_lowercase();
            let name =
                lower.split('/').next().unwrap_or_default().trim_end_matches(|c: char| c.is_ascii_digit());
            let cure = if PROTOCOLS.contains(&name) {
                text(name)
            } else {
                Cure::Advice("write `http`, `grpc` or `tcp`")
            };
            never("protocols are names in lower case, without version", cure)
        }
    }
}

fn text(text: &str) -> Cure {
    Cure::Text(text.to_owned())
}

fn path(part: Part, constant: &str, has_query: bool) -> Option<Never> {
    let never = |why, cure| Some(Never { code: "value-never", why, cure });
    if !has_query && let Some((path, query)) = constant.split_once(['?', '#']) {
        if constant.get(path.len()..).is_some_and(|rest| rest.starts_with('#')) {
            let cure = Cure::Advice("leave the fragment out: clients do not send it");
            return never("it has no fragment", cure);
        }
        let cure = if part == Part::Whole && path.starts_with('/') && query.is_empty() {
            text(path)
        } else {
            Cure::Advice("test the query with `request.query_params`, or `request.path`, which contains it")
        };
        return never("it is the path without the query", cure);
    }
    if !part.is_start() || constant.starts_with('/') {
        return None;
    }
    let why = "paths begin with `/`";
    if constant.starts_with('^') {
        return never(why, Cure::Regex);
    }
    if let Some((_, behind)) = constant.split_once("://") {
        let path = behind.find('/').and_then(|at| behind.get(at..)).unwrap_or("/");
        return never("paths begin with `/`, without scheme and host", text(path));
    }
    never(why, Cure::Text(format!("/{}", constant.trim_start().trim_start_matches('/'))))
}

fn method(part: Part, constant: &str, is_lower: bool) -> Option<Never> {
    let upper = constant.to_ascii_uppercase();
    if METHODS.contains(&upper.as_str()) {
        let is_other = !is_lower && part != Part::End && constant != upper;
        let why = "methods are in upper case";
        return is_other.then_some(Never { code: "method-case", why, cure: Cure::Text(upper) });
    }
    let is_separator = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_');
    if !constant.contains(is_separator) {
        return None;
    }
    let names: Vec<String> =
        constant.split(is_separator).filter(|name| !name.is_empty()).map(to_method).collect();
    let names = names.into_iter().map(|name| if is_lower { name.to_ascii_lowercase() } else { name });
    let cure = if constant.starts_with('^') {
        Cure::Regex
    } else if part == Part::Whole {
        Cure::AnyOf(names.collect())
    } else {
        Cure::Advice("compare it with each of the methods")
    };
    Some(Never { code: "value-never", why: "a method is one word", cure })
}

/// A method as requests have it.
fn to_method(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    if METHODS.contains(&upper.as_str()) { upper } else { name.to_owned() }
}

/// Why request headers have no entry with this name, and what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoHeader {
    /// The code of the warning.
    pub(super) code: &'static str,
    /// What names are like.
    pub(super) why: &'static str,
    /// What to write.
    pub(super) cure: HeaderCure,
}

/// What to write instead of the name of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HeaderCure {
    /// Another name.
    Name(String),
    /// Another attribute.
    Attribute(&'static str),
}

/// Why no message has a header with this name; `None` if one may.
pub(super) fn no_header(key: &str) -> Option<NoHeader> {
    let name: String = key.chars().filter(|c| !c.is_whitespace()).collect();
    let (pseudo, name) = name.strip_prefix(':').map_or(("", &*name), |name| (":", name));
    let name = format!("{pseudo}{}", name.replace(':', ""));
    let lower = name.to_ascii_lowercase();
    if name != key {
        let why = "header names have no blank, and no colon but the first of `:path`";
        return Some(NoHeader { code: "value-never", why, cure: HeaderCure::Name(lower) });
    }
    if lower == "host" {
        let why = "Envoy and Istio's proxies send it as `:authority`";
        return Some(NoHeader { code: "value-never", why, cure: HeaderCure::Attribute("request.host") });
    }
    let why = "header names are in lower case";
    (lower != key).then_some(NoHeader { code: "header-key-case", why, cure: HeaderCure::Name(lower) })
}

#[cfg(test)]
mod tests;
