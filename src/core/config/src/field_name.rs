//! Spellings of names: of fields in configuration, of Go types in Istio Mixer's error texts.

/// `snake_case` to `lowerCamelCase`; a name without underscores is unchanged.
pub fn lower_camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        if c == '_' {
            upper = true;
        } else if upper {
            out.extend(c.to_uppercase());
            upper = false;
        } else {
            out.push(c);
        }
    }
    out
}

/// `snake_case` to `CamelCase`, the Go name in Istio Mixer's error texts.
pub fn upper_camel(name: &str) -> String {
    let camel = lower_camel(name);
    let mut chars = camel.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

/// Whether `key` is the lowerCamelCase form of `snake`. Allocates nothing.
pub(crate) fn is_lower_camel_of(key: &str, snake: &str) -> bool {
    let mut key = key.bytes();
    let mut upper = false;
    for byte in snake.bytes() {
        if byte == b'_' {
            upper = true;
            continue;
        }
        let wanted = if upper { byte.to_ascii_uppercase() } else { byte };
        upper = false;
        if key.next() != Some(wanted) {
            return false;
        }
    }
    key.next().is_none()
}

/// Splits a full protobuf name into package and type names.
fn parts(full: &str) -> (&str, &str) {
    let mut at = 0;
    for segment in full.split('.') {
        if segment.starts_with(|c: char| c.is_ascii_uppercase()) {
            return (full.get(..at).unwrap_or("").trim_end_matches('.'), full.get(at..).unwrap_or(""));
        }
        at += segment.len() + 1;
    }
    full.rsplit_once('.').unwrap_or(("", full))
}

/// The Go type of a message or enum: `adapter.memquota.config.Params.Quota` is `config.Params_Quota`.
pub fn go_type(full: &str) -> String {
    let (package, types) = parts(full);
    let package = match package {
        // Packages whose Go name is not the last segment.
        "adapter.template.kubernetes" => "adapter_template_kubernetes",
        "google.rpc" => "google_rpc",
        "google.protobuf" => "types",
        package => package.rsplit('.').next().unwrap_or(""),
    };
    format!("{package}.{}", types.replace('.', "_"))
}

/// The name of an enum in error texts: nested types are joined with underscores.
pub(super) fn enum_name(full: &str) -> String {
    let (package, types) = parts(full);
    let types = types.replace('.', "_");
    if package.is_empty() { types } else { format!("{package}.{types}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_converted() {
        assert!(is_lower_camel_of("validUseCount", "valid_use_count"));
        assert!(!is_lower_camel_of("valid_use_count", "valid_use_count"));
        assert!(!is_lower_camel_of("validUse", "valid_use_count"));
        assert!(is_lower_camel_of("httpStatusCode", "httpStatusCode"));
        assert_eq!(go_type("adapter.memquota.config.Params.Quota"), "config.Params_Quota");
        assert_eq!(
            go_type("adapter.template.kubernetes.InstanceParam"),
            "adapter_template_kubernetes.InstanceParam"
        );
        assert_eq!(enum_name("adapter.stdio.config.Params.Level"), "adapter.stdio.config.Params_Level");
    }
}
