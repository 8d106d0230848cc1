//! What a route matches.

use super::pattern::BytePattern;
use super::reader::{Fields, Message, Value};

static MATCH: Message = Message {
    name: "RouteMatch",
    unsupported: &[
        "path_match_policy",
        "connect_matcher",
        "runtime_fraction",
        "query_parameters",
        "grpc",
        "tls_context",
        "dynamic_metadata",
        "filter_state",
        "cookies",
    ],
};
static REGEX: Message = Message { name: "RegexMatcher", unsupported: &[] };
static GOOGLE_RE2: Message = Message { name: "GoogleRE2", unsupported: &["max_program_size"] };
static HEADER: Message = Message { name: "HeaderMatcher", unsupported: &[] };
static STRING: Message = Message { name: "StringMatcher", unsupported: &["custom"] };
static RANGE: Message = Message { name: "Int64Range", unsupported: &[] };

/// Which requests a route takes.
#[derive(Debug, Clone)]
pub struct MatchConfig {
    /// The path.
    pub path: PathMatch,
    /// Whether letters of the path are of a case.
    pub case_sensitive: bool,
    /// Headers, all of which must match.
    pub headers: Vec<HeaderMatch>,
}

/// How the path is compared, without its query.
#[derive(Debug, Clone)]
pub enum PathMatch {
    /// Begins with this.
    Prefix(String),
    /// Is this.
    Path(String),
    /// Is this, or begins with this and a slash.
    SeparatedPrefix(String),
    /// Matches as a whole.
    Regex(BytePattern),
}

/// How a header is compared.
#[derive(Debug, Clone)]
pub struct HeaderMatch {
    /// In lower case.
    pub name: String,
    /// The test. One field of the name that passes is enough.
    pub test: HeaderTest,
    /// Whether the result is negated: no field passes. A missing header matches neither way.
    pub invert: bool,
    /// Whether a missing header is one that is empty.
    pub missing_is_empty: bool,
}

/// A test of a header.
#[derive(Debug, Clone)]
pub enum HeaderTest {
    /// It is there, or not.
    Present(bool),
    /// Text.
    Text(TextTest, bool),
    /// A number from the first up to the second.
    Range(i64, i64),
}

/// A test of a text.
#[derive(Debug, Clone)]
pub enum TextTest {
    /// Is this.
    Exact(String),
    /// Begins with this.
    Prefix(String),
    /// Ends with this.
    Suffix(String),
    /// Contains this.
    Contains(String),
    /// Matches as a whole.
    Regex(BytePattern),
}

pub(super) fn read(value: &Value<'_>) -> Option<MatchConfig> {
    let matching = value.message(&MATCH)?;
    let path = match matching.one_of(&["prefix", "path", "safe_regex", "path_separated_prefix"]) {
        Some(("prefix", text)) => text.text().map(|text| PathMatch::Prefix(text.to_owned())),
        Some(("path", text)) => text.text().map(|text| PathMatch::Path(text.to_owned())),
        Some(("safe_regex", regex)) => read_regex(&regex).map(PathMatch::Regex),
        Some((_, text)) => text.text().and_then(|prefix| {
            if prefix.contains(['?', '#']) || prefix.ends_with('/') || !prefix.starts_with('/') {
                text.invalid("RouteMatchValidationError.PathSeparatedPrefix: value does not match regex pattern \"^[^?#]+[^?#/]$\"");
                return None;
            }
            Some(PathMatch::SeparatedPrefix(prefix.to_owned()))
        }),
        None => {
            if !["path_match_policy", "connect_matcher"].iter().any(|name| matching.value.node.get(name).is_some()) {
                matching.required("RouteMatchValidationError: field: \"path_specifier\", reason: is required");
            }
            None
        }
    };
    let case_sensitive = matching.get("case_sensitive").is_none_or(|value| value.boolean() != Some(false));
    let headers = matching.items("headers").iter().filter_map(read_header).collect();
    matching.finish();
    Some(MatchConfig { path: path?, case_sensitive, headers })
}

fn read_regex(value: &Value<'_>) -> Option<BytePattern> {
    let matcher = value.message(&REGEX)?;
    if let Some(engine) = matcher.message("google_re2", &GOOGLE_RE2) {
        engine.finish();
    }
    let regex = match matcher.get("regex") {
        Some(pattern) => {
            pattern.nonempty("RegexMatcher", "Regex").and_then(|text| BytePattern::read(&pattern, text))
        }
        None => {
            matcher.required("RegexMatcherValidationError.Regex: value length must be at least 1 characters");
            None
        }
    };
    matcher.finish();
    regex
}

/// Reads a HeaderMatcher.
pub(super) fn read_header(value: &Value<'_>) -> Option<HeaderMatch> {
    let matcher = value.message(&HEADER)?;
    let name = matcher.get("name").and_then(|name| name.nonempty("HeaderMatcher", "Name"));
    let tests = [
        "string_match",
        "range_match",
        "present_match",
        "exact_match",
        "safe_regex_match",
        "prefix_match",
        "suffix_match",
        "contains_match",
    ];
    let text = |value: &Value<'_>, field: &str| value.nonempty("HeaderMatcher", field).map(str::to_owned);
    let plain = |test| HeaderTest::Text(test, false);
    let test = match matcher.one_of(&tests) {
        None => Some(HeaderTest::Present(true)),
        Some(("string_match", value)) => read_text(&value),
        Some(("range_match", value)) => value.message(&RANGE).and_then(read_range),
        Some(("present_match", value)) => value.boolean().map(HeaderTest::Present),
        // As Envoy: every text is taken for an empty one.
        Some(("exact_match", value)) => value.text().map(|text| {
            plain(match text {
                "" => TextTest::Prefix(String::new()),
                text => TextTest::Exact(text.to_owned()),
            })
        }),
        Some(("safe_regex_match", value)) => read_regex(&value).map(TextTest::Regex).map(plain),
        Some(("prefix_match", value)) => text(&value, "PrefixMatch").map(TextTest::Prefix).map(plain),
        Some(("suffix_match", value)) => text(&value, "SuffixMatch").map(TextTest::Suffix).map(plain),
        Some((_, value)) => text(&value, "ContainsMatch").map(TextTest::Contains).map(plain),
    };
    let invert = matcher.boolean("invert_match");
    let missing_is_empty = matcher.boolean("treat_missing_header_as_empty");
    if name.is_none() {
        matcher.required("HeaderMatcherValidationError.Name: value length must be at least 1 characters");
    }
    matcher.finish();
    Some(HeaderMatch { name: name?.to_ascii_lowercase(), test: test?, invert, missing_is_empty })
}

fn read_range(range: Fields<'_>) -> Option<HeaderTest> {
    let bound = |name: &str| match range.get(name) {
        None => Some(0),
        Some(value) => match &value.node.kind {
            mixer_config::NodeKind::Int(number) => Some(*number),
            mixer_config::NodeKind::String(text) if text.parse::<i64>().is_ok() => text.parse().ok(),
            _ => {
                value.invalid("expected a whole number");
                None
            }
        },
    };
    let (start, end) = (bound("start"), bound("end"));
    range.finish();
    Some(HeaderTest::Range(start?, end?))
}

/// Reads a StringMatcher.
pub(super) fn read_text(value: &Value<'_>) -> Option<HeaderTest> {
    let matcher = value.message(&STRING)?;
    let ignore_case = matcher.boolean("ignore_case");
    let test = match matcher.one_of(&["exact", "prefix", "suffix", "contains", "safe_regex"]) {
        Some(("safe_regex", regex)) => {
            if ignore_case {
                regex.invalid("ignore_case has no effect for safe_regex.");
            }
            read_regex(&regex).map(TextTest::Regex)
        }
        Some((name, value)) => {
            let (test, field): (fn(String) -> TextTest, _) = match name {
                "exact" => (TextTest::Exact, None),
                "prefix" => (TextTest::Prefix, Some("Prefix")),
                "suffix" => (TextTest::Suffix, Some("Suffix")),
                _ => (TextTest::Contains, Some("Contains")),
            };
            let text = match field {
                None => value.text(),
                Some(field) => value.nonempty("StringMatcher", field),
            };
            text.map(|text| test(if ignore_case { text.to_ascii_lowercase() } else { text.to_owned() }))
        }
        None => {
            if matcher.value.node.get("custom").is_none() {
                matcher
                    .required("StringMatcherValidationError: field: \"match_pattern\", reason: is required");
            }
            None
        }
    };
    matcher.finish();
    Some(HeaderTest::Text(test?, ignore_case))
}
