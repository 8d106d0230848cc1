//! Form and query parameters.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;

/// The query parameters in order.
#[derive(Debug)]
pub struct Parameters(pub Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Parameters {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }
}

/// The first value of a field; empty if absent.
pub fn value(body: &str, name: &str) -> String {
    let mut fields = form_urlencoded::parse(body.as_bytes());
    fields.find(|(known, _)| known == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// A percent-encoded parameter.
pub fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        assert_eq!(value("a=1&b=x+y%26z&b=2", "b"), "x y&z");
        assert_eq!(value("a=1", "c"), "");
        assert_eq!(encoded("a b&c"), "a+b%26c");
    }
}
