use super::{Cure, HeaderCure, KNOWN, Part, never, no_header};

/// What to write, or the advice; empty if a value may have the constant.
fn cure(attribute: &str, part: Part, constant: &str) -> String {
    match never(attribute, part, constant, false).map(|never| never.cure) {
        None => String::new(),
        Some(Cure::Text(text)) => text,
        Some(Cure::AnyOf(texts)) => texts.join(" or "),
        Some(Cure::Regex) => "a pattern".to_owned(),
        Some(Cure::Advice(text)) => format!("advice: {text}"),
    }
}

#[test]
fn every_attribute_of_the_table_has_its_values() {
    use Part::{End, Start, Whole, Within};
    for (attribute, part, constant, expected) in [
        ("request.path", Whole, "/admin", ""),
        ("request.path", Whole, "/admin?a=1#x", ""),
        ("request.path", Whole, "", ""),
        ("request.path", Whole, "admin", "/admin"),
        ("request.path", Start, "admin", "/admin"),
        ("request.path", Start, "https://shop.example/admin", "/admin"),
        ("request.path", Whole, "https://shop.example", "/"),
        ("request.path", Whole, "^/admin$", "a pattern"),
        ("request.path", End, "admin", ""),
        ("request.path", Within, "admin", ""),
        ("request.url_path", Whole, "/admin", ""),
        ("request.url_path", Whole, " /admin", "/admin"),
        ("request.url_path", Start, "https://shop.example/admin", "/admin"),
        ("request.url_path", Whole, "/admin?", "/admin"),
        ("request.url_path", Whole, "/admin?debug=1", "advice: test the query"),
        ("request.url_path", End, "?debug=1", "advice: test the query"),
        ("request.url_path", Within, "#top", "advice: leave the fragment out"),
        ("request.method", Whole, "GET", ""),
        ("request.method", Whole, "get", "GET"),
        ("request.method", Start, "Post", "POST"),
        ("request.method", End, "get", ""),
        ("request.method", Whole, "purge", ""),
        ("request.method", Whole, "M-SEARCH", ""),
        ("request.method", Whole, "DELETE,PUT", "DELETE or PUT"),
        ("request.method", Whole, "DELETE|put", "DELETE or PUT"),
        ("request.method", Whole, "GET ", "GET"),
        ("request.method", Whole, "^GET$", "a pattern"),
        ("request.method", End, ",PUT", "advice: compare it"),
        ("request.scheme", Whole, "https", ""),
        ("request.scheme", Start, "http", ""),
        ("request.scheme", Whole, "HTTPS", "https"),
        ("request.scheme", Whole, "https://", "https"),
        ("request.scheme", Whole, "://", "advice: write `http`"),
        ("context.protocol", Whole, "http", ""),
        ("context.protocol", Whole, "ratelimit", ""),
        ("context.protocol", Whole, "HTTP", "http"),
        ("context.protocol", Whole, "HTTP/1.1", "http"),
        ("context.protocol", Whole, "http2", "http"),
        ("context.protocol", Whole, "gRPC", "grpc"),
        ("context.protocol", Whole, "h2", "advice: write `http`"),
        ("context.reporter.kind", Whole, "inbound", ""),
        ("context.reporter.kind", Start, "in", ""),
        ("context.reporter.kind", End, "bound", ""),
        ("context.reporter.kind", Whole, "server", "inbound"),
        ("context.reporter.kind", Whole, "client", "outbound"),
        ("context.reporter.kind", Whole, "Inbound", "inbound"),
        ("context.reporter.kind", Whole, "inbuond", "inbound"),
        ("context.reporter.kind", Whole, "gateway", "advice: write `inbound`"),
        ("source.principal", Whole, "cluster.local/ns/shop/sa/till", ""),
        (
            "source.principal",
            Whole,
            "spiffe://cluster.local/ns/shop/sa/till",
            "cluster.local/ns/shop/sa/till",
        ),
        ("source.principal", Start, "spiffe://", "advice: leave the test out"),
        ("source.principal", Start, "spi", ""),
        ("destination.principal", Start, "spiffe://a/", "a/"),
        ("source.user", Whole, "spiffe://a/b", "a/b"),
        ("source.user", Whole, "eve", ""),
        ("request.host", Whole, "Shop.example:443", ""),
        ("request.host", Whole, "https://shop.example/", "shop.example"),
        ("request.host", End, "/admin", "advice: test `request.url_path`"),
        ("request.useragent", Whole, "HTTP/1.1 *", ""),
        // The name that the client of a proxy has.
        ("context.reporter.principal", Whole, "spiffe://a/b", ""),
    ] {
        let found = cure(attribute, part, constant);
        let same =
            if expected.starts_with("advice") { found.starts_with(expected) } else { found == expected };
        assert!(same, "{attribute} {part:?} {constant}: {found}");
    }
    assert!(KNOWN.is_sorted_by_key(|(name, _)| *name));
}

#[test]
fn a_method_in_lower_case_is_one_where_case_does_not_count() {
    assert_eq!(never("request.method", Part::Whole, "get", true), None);
    let never = never("request.method", Part::Whole, "get,put", true);
    assert_eq!(never.map(|never| never.cure), Some(Cure::AnyOf(vec!["get".to_owned(), "put".to_owned()])));
}

#[test]
fn header_names_are_tokens_in_lower_case() {
    for (key, code, expected) in [
        ("x-user", "", ""),
        ("x_user", "", ""),
        (":path", "", ""),
        ("", "", ""),
        ("X-User", "header-key-case", "x-user"),
        ("x-user:", "value-never", "x-user"),
        (" X-user", "value-never", "x-user"),
        (":path:", "value-never", ":path"),
        ("host", "value-never", "request.host"),
        ("Host", "value-never", "request.host"),
    ] {
        let (found, name) = no_header(key).map_or(("", String::new()), |problem| {
            let cure = match problem.cure {
                HeaderCure::Name(name) => name,
                HeaderCure::Attribute(name) => name.to_owned(),
            };
            (problem.code, cure)
        });
        assert_eq!((found, &*name), (code, expected), "{key}");
    }
}
