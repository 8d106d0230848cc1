//! What other languages have: the hints for their functions.

/// What to write instead of a condition on networks.
pub(crate) const NETWORKS: &str =
    "a condition has no networks: use a listchecker with entryType IP_ADDRESSES";

/// Whether a function is one of other languages that looks for a part of a text.
pub(crate) fn is_contains(name: &str) -> bool {
    matches!(name, "contains" | "indexOf" | "includes")
}

/// Whether a function is one of other languages that takes an entry out of a map.
pub(crate) fn is_lookup(name: &str) -> bool {
    matches!(name, "get" | "getOrDefault" | "lookup" | "at" | "value")
}

/// What to write instead of a function that other languages have.
pub(crate) fn other_function(name: &str) -> Option<&'static str> {
    Some(match name {
        name if is_lookup(name) => "an entry of a map is (map[\"key\"] | \"\")",
        "not" => "write (condition) == false",
        "has" | "isset" | "exists" | "defined" => "give a default instead: attribute | default",
        name if is_contains(name) => "write \"text\".matches(value)",
        "length" | "len" => "write size(value)",
        "duration" => "a text such as \"10s\" is a duration already",
        "substring" | "substr" | "slice" => {
            "there is no function for a part of a text: write value.startsWith(\"text\"), or \"^text\".matches(value)"
        }
        "reverse" => "there is no reversed text: write value.endsWith(\"text\")",
        "lower" | "tolower" | "lowercase" | "toLowerCase" | "lowerAscii" => "write toLower(value)",
        "upper" | "toUpper" | "uppercase" | "toUpperCase" | "upperAscii" => {
            "write toLower(value), and compare it with small letters"
        }
        "concat" | "join" => "write a + b",
        "replace" | "trim" | "split" => {
            "an expression cannot cut a text: write a pattern, \"^a.*b$\".matches(value)"
        }
        "equals" | "eq" => "write a == b",
        "isEmpty" | "empty" => "write (value | \"\") == \"\"",
        "regex" | "regexp" | "regexMatch" | "search" => "write \"pattern\".matches(value)",
        "glob" | "like" => "write match(value, \"prefix*\")",
        "now" => "an expression has no clock: write request.time",
        "getFullYear" | "getMonth" | "getDate" | "getDayOfMonth" | "getDayOfWeek" | "getDayOfYear"
        | "getHours" | "getMinutes" | "getSeconds" | "getMilliseconds" => {
            "the classic language has no parts of times: `policy.istio.io/lang: CEL` on the rule has request.time.getHours()"
        }
        "cidr" | "inCidr" | "ipInRange" | "inNetwork" => NETWORKS,
        _ => return None,
    })
}
