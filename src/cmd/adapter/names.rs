//! The names of adapters, templates and namespaces.

/// Most characters of a name in Kubernetes.
const MAX_NAME: usize = 63;

/// Words that no crate and no module can have as their name.
const KEYWORDS: [&str; 59] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "union",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "while",
];

/// Packages of the protos that every adapter has.
const PACKAGES: [&str; 3] = ["adapter", "google", "istio"];

/// Whether Rust or cargo gives this name a meaning.
pub(super) fn is_reserved(name: &str) -> bool {
    KEYWORDS.contains(&name) || name == "yield"
}

/// The name of an adapter, which is also that of its crate.
pub(super) fn adapter(name: &str) -> Result<String, String> {
    let name = label(name)?;
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        return Err("it must begin with a letter, as the name of a crate".to_owned());
    }
    if is_reserved(&name) {
        return Err("it is reserved in Rust and cannot be the name of a crate".to_owned());
    }
    Ok(name)
}

/// The name of a template of the adapter's own, which is also its package.
pub(super) fn template(name: &str) -> Result<String, String> {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Err(format!("`{name}` is no name of a template: it must have lower-case letters only"));
    }
    if name.len() > MAX_NAME {
        return Err(format!("`{name}` has more than {MAX_NAME} letters"));
    }
    if is_reserved(name) || PACKAGES.contains(&name) {
        return Err(format!("`{name}` is reserved and cannot be the name of a template"));
    }
    Ok(name.to_owned())
}

/// A namespace of Kubernetes.
pub(super) fn namespace(name: &str) -> Result<String, String> {
    label(name)
}

/// A label of RFC 1123, as Kubernetes wants it.
fn label(name: &str) -> Result<String, String> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_inner) {
        return Err(format!("it must have 1 to {MAX_NAME} lower-case letters, digits and hyphens"));
    }
    if name.starts_with('-') || name.ends_with('-') {
        return Err("it must not begin or end with a hyphen".to_owned());
    }
    Ok(name.to_owned())
}

/// A snake case name in camel case: `listentry` is left alone, `gate-keeper` becomes `GateKeeper`.
pub(super) fn camel(name: &str) -> String {
    let words = name.split(['-', '_']);
    words
        .map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
                .unwrap_or_default()
        })
        .collect()
}

/// A camel case name in snake case: `HandleApiKey` becomes `handle_api_key`.
pub(super) fn snake(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_adapters_are_names_of_crates_and_resources() {
        for good in ["gate", "gate-keeper", "a", "g8", &"a".repeat(63)] {
            assert_eq!(adapter(good).as_deref(), Ok(good));
        }
        for bad in
            ["", "Gate", "gate_keeper", "-a", "a-", "8g", "fn", "test", "yield", "a.b", "ä", &"a".repeat(64)]
        {
            assert!(adapter(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_templates_are_packages() {
        assert_eq!(template("team").as_deref(), Ok("team"));
        for bad in ["", "Team", "te-am", "t1", "istio", "google", "type", &"a".repeat(64)] {
            assert!(template(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cases_are_changed() {
        assert_eq!((camel("gate-keeper"), camel("team")), ("GateKeeper".to_owned(), "Team".to_owned()));
        assert_eq!(snake("HandleApiKey"), "handle_api_key");
    }
}
