//! docs/attributes.md has a row for every attribute that Envoy's services set, with its type.

use std::collections::BTreeMap;

use regex::Regex;

use crate::read;

/// Pairs of two groups of an expression in a text.
fn pairs(expression: &str, text: &str) -> BTreeMap<String, String> {
    let expression = Regex::new(expression).expect("an expression");
    expression.captures_iter(text).map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
}

#[test]
fn every_attribute_of_envoy_is_described_with_its_type() {
    let types = [
        ("String", "STRING"),
        ("Int64", "INT64"),
        ("Bool", "BOOL"),
        ("IpAddress", "IP_ADDRESS"),
        ("StringMap", "STRING_MAP"),
        ("Timestamp", "TIMESTAMP"),
        ("Duration", "DURATION"),
    ];
    let source = read("src/core/envoy/src/known.rs");
    let built_in = pairs(r#"\("([\w.]+)", (\w+)\)"#, &read("src/core/envoy/src/config/manifest.rs"));
    let mut expected = pairs(r#"(?m)^ +\w+ "([\w.]+)" (\w+);$"#, &source);
    assert!(expected.len() > 80 && built_in.len() > 20, "{expected:?} {built_in:?}");
    for (name, found) in &mut expected {
        let named =
            types.iter().find(|(own, _)| *own == found.as_str()).unwrap_or_else(|| panic!("{name}: {found}"));
        // Those without a manifest.
        *found = format!("{}{}", named.1, if built_in.contains_key(name) { "*" } else { "" });
    }
    let rows = pairs(r"(?m)^\| `([\w.]+)` \| ([A-Z_0-9]+\*?) \|", &read("docs/attributes.md"));
    assert_eq!(rows, expected, "docs/attributes.md and known.rs differ");
}
