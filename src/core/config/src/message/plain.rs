//! Errors of the decoder in words of YAML instead of those of Go.

/// An error of the decoder, which has the text of Istio Mixer, as it is told to users.
///
/// ```
/// # use mixer_config::message::plain_words;
/// let text = "json: cannot unmarshal bool into Go value of type string";
/// assert_eq!(plain_words(text), "expected text, found a Boolean");
/// assert_eq!(plain_words("anything else"), "anything else");
/// ```
pub fn plain_words(text: &str) -> String {
    let unmarshal = "json: cannot unmarshal ";
    if let Some((_, rest)) = text.split_once(unmarshal)
        && let Some((kind, rest)) = rest.split_once(" into Go ")
        && let Some((_, go)) = rest.rsplit_once(" of type ")
    {
        return format!("expected {}, found {}", type_words(go), kind_words(kind));
    }
    if let Some((before, _)) = text.split_once(": strconv.") {
        return before.to_owned();
    }
    if let Some((_, rest)) = text.split_once("strconv.")
        && let Some((value, why)) = rest.split_once(": parsing ").and_then(|(_, rest)| rest.rsplit_once(": "))
    {
        let fault = if why == "value out of range" { "is out of range" } else { "is not a number" };
        return format!("{value} {fault}");
    }
    // The type is one of the source of Istio Mixer, or of a protocol; the position says where the field is.
    if let Some((before, go)) =
        text.split_once(" in ").filter(|(before, _)| is_quoted(before, "unknown field "))
        && is_type_name(go)
    {
        return before.to_owned();
    }
    if let Some((before, go)) =
        text.split_once(" for enum ").filter(|(before, _)| is_quoted(before, "unknown value "))
        && is_type_name(go)
    {
        return before.to_owned();
    }
    if text.starts_with("invalid character ") && text.ends_with(" looking for beginning of value") {
        return "expected a number, found text".to_owned();
    }
    text.to_owned()
}

/// Whether a text is `what` and something in quotes.
fn is_quoted(text: &str, what: &str) -> bool {
    text.strip_prefix(what).is_some_and(|name| name.len() > 1 && name.starts_with('"') && name.ends_with('"'))
}

/// Whether a text is the name of a type in a package.
fn is_type_name(text: &str) -> bool {
    text.contains('.') && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'))
}

fn type_words(go: &str) -> &'static str {
    match go.trim_start_matches('*') {
        "string" => "text",
        "bool" => "`true` or `false`",
        "int32" | "int64" | "int" => "a whole number",
        "uint32" | "uint64" | "uint" => "a whole number that is not negative",
        "float32" | "float64" => "a number",
        list if list.starts_with("[]") => "a list",
        message if message.starts_with("map[") || message.starts_with("store.") => "a mapping",
        // The type of an enum: messages are read as maps.
        _ => "a name",
    }
}

fn kind_words(kind: &str) -> String {
    match kind {
        "object" => "a mapping".to_owned(),
        "array" => "a list".to_owned(),
        "string" => "text".to_owned(),
        "bool" => "a Boolean".to_owned(),
        "number" => "a number".to_owned(),
        "null" => "nothing".to_owned(),
        other => match other.strip_prefix("number ") {
            Some(number) => format!("the number {number}"),
            None => other.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_speaks_of_go() {
        let of = |kind: &str, go: &str| {
            plain_words(&format!("json: cannot unmarshal {kind} into Go value of type {go}"))
        };
        assert_eq!(of("array", "map[string]json.RawMessage"), "expected a mapping, found a list");
        assert_eq!(of("string", "[]json.RawMessage"), "expected a list, found text");
        assert_eq!(of("number 3.5", "int32"), "expected a whole number, found the number 3.5");
        let field = "json: cannot unmarshal number into Go struct field BackEndResource.Metadata of type store.ResourceMeta";
        assert_eq!(plain_words(field), "expected a mapping, found a number");
        assert_eq!(of("bool", "v1.Check_Mode"), "expected a name, found a Boolean");
        assert_eq!(of("object", "bool"), "expected `true` or `false`, found a mapping");
        let number = "invalid character 's' looking for beginning of value";
        assert_eq!(plain_words(number), "expected a number, found text");
        assert_eq!(plain_words("strconv.Atoi: parsing \"b\": invalid syntax"), "\"b\" is not a number");
        assert_eq!(
            plain_words("strconv.Atoi: parsing \"99999999999999999999\": value out of range"),
            "\"99999999999999999999\" is out of range"
        );
        let port = "port (b) is not a number: strconv.Atoi: parsing \"b\": invalid syntax";
        assert_eq!(plain_words(port), "port (b) is not a number");
        assert_eq!(plain_words("unknown field \"x\" in pkg.Message"), "unknown field \"x\"");
        assert_eq!(plain_words("unknown value \"x\" for enum a.b.Check_DenyBody"), "unknown value \"x\"");
        for text in ["unknown field \"x\" in metadata", "unknown field \"x\" in the first of 2. in all"] {
            assert_eq!(plain_words(text), text);
        }
    }
}
