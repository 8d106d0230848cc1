//! Whether a request names its namespace.

/// Whether attributes name the namespace of the request. `text`: the value of a string attribute.
pub fn names_namespace(text: impl Fn(&str) -> Option<String>) -> bool {
    let attribute = match text("context.reporter.kind").as_deref() {
        Some("outbound") => "source.namespace",
        None | Some("inbound") => "destination.namespace",
        Some(_) => return false,
    };
    text(attribute).is_some_and(|namespace| !namespace.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reporter_decides_which_attribute_counts() {
        let named = |attributes: &[(&str, &str)]| {
            let of = |name: &str| attributes.iter().find(|(known, _)| *known == name);
            names_namespace(|name| of(name).map(|(_, value)| (*value).to_owned()))
        };
        let kind = "context.reporter.kind";
        for (attributes, expected) in [
            (&[][..], false),
            (&[("destination.namespace", "shop")], true),
            (&[("destination.namespace", "")], false),
            (&[("source.namespace", "shop")], false),
            (&[(kind, "outbound"), ("source.namespace", "shop")], true),
            (&[(kind, "outbound"), ("destination.namespace", "shop")], false),
            (&[(kind, "inbound"), ("destination.namespace", "shop")], true),
            (&[(kind, "x"), ("destination.namespace", "shop")], false),
        ] {
            assert_eq!(named(attributes), expected, "{attributes:?}");
        }
    }
}
