//! The parameters of a request.

/// Parameters in their order. One that is given several times has its first value, as with Envoy.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Those of a query. Only escapes are decoded: a `+` stands for itself, as in regular expressions.
    pub(super) fn of(query: &str) -> Self {
        let parts = query.split('&').filter(|part| !part.is_empty());
        Self(
            parts
                .map(|part| part.split_once('=').unwrap_or((part, "")))
                .map(|(name, value)| (decoded(name), decoded(value)))
                .collect(),
        )
    }

    /// The value of a parameter; empty if it has none.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All names and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// A text without its escapes; what is none stays.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let digit = |place: usize| char::from(*rest.get(place)?).to_digit(16);
        let escaped = || u8::try_from(digit(1)? << 4 | digit(2)?).ok();
        match escaped().filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = rest.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_counts_and_a_plus_is_one() {
        let parameters = Parameters::of("filter=a.%2Bb+&usedonly&filter=c&&x=%zz%4&=y&b=1=2");
        let all: Vec<(&str, &str)> = parameters.iter().collect();
        let expected =
            [("filter", "a.+b+"), ("usedonly", ""), ("filter", "c"), ("x", "%zz%4"), ("", "y"), ("b", "1=2")];
        assert_eq!(all, expected);
        assert_eq!((parameters.get("filter"), parameters.get("usedonly")), (Some("a.+b+"), Some("")));
        assert!(parameters.has("usedonly") && !parameters.has("Filter"));
        assert_eq!(Parameters::of(""), Parameters::default());
    }
}
