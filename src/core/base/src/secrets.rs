//! What is secret, and how it is masked: one definition for ControlZ, the decision log, recordings, explanations and dumps.
//!
//! | form | masked by |
//! | --- | --- |
//! | a value with the name of a secret, such as `authorization`, `apiKey` or `DB_PASSWORD` | [`mask_value`] |
//! | an attribute that the configuration declares to be secret | [`SecretNames`] |
//! | an environment variable with the name of a secret, or from which the configuration has a credential | [`mask_variable`] |
//! | an address with a password, or a query parameter with the name of a secret, anywhere in a text | [`mask_text`] |
//! | the credentials of `Bearer` and `Basic`, anywhere in a text | [`mask_text`] |
//! | an address that a setting has: its user, and all parameters that are not known to be harmless | [`mask_address`] |
//! | secrets of a configuration, anywhere in a text | [`mask_known`] |
//! | secrets of a request, anywhere in a text, also in part | [`KnownSecrets`] |
//! | the beginning of a text of any length that a caller sent | [`Window`] |
//! | both in a document | [`mask_document`] |
//! | both in the annotations of an object | [`mask_annotations`] |
//! | both in the text of a YAML or JSON file | [`mask_source`] line by line; `mask_secrets` of mixer-config by what it means |
//! | both on a command line | [`mask_arguments`] |

use std::borrow::Cow;

mod address;
mod beginning;
mod document;
mod known;
mod names;
mod parts;
mod source;
mod variables;

pub use address::{is_address, mask_address};
pub use beginning::{Beginning, Window};
pub use document::{has_masked, is_name_of_pair, is_value_of_pair, mask_annotations, mask_document};
use known::MIN_SECRET_LEN;
pub use known::mask_known;
pub use names::SecretNames;
pub use parts::KnownSecrets;
pub use source::mask_source;
pub use variables::{declare_variable, mask_variable};

/// Replaces a secret value.
pub const MASKED: &str = "***";

/// Parts of names of secrets. `…key` is one too; see [`is_secret`].
const SECRET: [&str; 9] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "authorization",
    "cookie",
    "raw_claims",
];

/// Names that end in `key` and are no secrets, without separators.
const OPEN_KEYS: [&str; 6] =
    ["generickey", "publickey", "descriptorkey", "headerkey", "websocketkey", "idempotencykey"];

/// Names of attributes that end in `key` and hold names alone: the keys of a descriptor.
const OPEN_ATTRIBUTES: [&str; 1] = ["ratelimit.key"];

/// Names with these ends tell where a secret is, not what it is.
const PLACES: [&str; 4] = ["file", "path", "dir", "url"];

/// An address whose path is a secret: that of a trap of Circonus.
const SECRET_ADDRESS: &str = "submissionurl";

/// Fewest bytes of the name of a secret: more than `key`.
const MIN_NAME: usize = 4;
/// Most bytes of a name that is looked at.
const MAX_NAME: usize = 4 << 10;

/// Whether a value with this name must be masked: the name of an attribute, header, field, environment variable or flag.
/// Letter case, separators and percent-encoding make no difference. `key` alone is no secret: entries of maps and descriptors have it.
/// A name of more than 4 KiB is taken for one without a look at it.
pub fn is_secret(name: &str) -> bool {
    if name.len() < MIN_NAME || name.len() > MAX_NAME {
        return name.len() > MAX_NAME;
    }
    let name = unescaped(name).to_ascii_lowercase();
    if name.replace(['_', '-'], "") == SECRET_ADDRESS {
        return true;
    }
    if PLACES.iter().any(|place| name.ends_with(place)) || OPEN_ATTRIBUTES.contains(&name.as_str()) {
        return false;
    }
    if SECRET.iter().any(|part| name.contains(part)) {
        return true;
    }
    let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let plain = plain.trim_end_matches('s');
    plain.len() > "key".len() && plain.ends_with("key") && !OPEN_KEYS.iter().any(|open| plain.ends_with(open))
}

/// A name without the percent-encoding of letters, digits and separators, which need none.
fn unescaped(name: &str) -> Cow<'_, str> {
    if !name.contains('%') {
        return Cow::Borrowed(name);
    }
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('%') {
        plain.push_str(before);
        let digits = after.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')) {
            Some(byte) => {
                plain.push(char::from(byte));
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                plain.push('%');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The value as it may be shown under its name.
pub fn mask_value<'v>(name: &str, value: &'v str) -> Cow<'v, str> {
    if !value.is_empty() && is_secret(name) { Cow::Borrowed(MASKED) } else { mask_text(value) }
}

/// Masks what is secret in any text: the user information of addresses (`scheme://user:password@host`), query parameters with the
/// names of secrets, and what follows `Bearer` and `Basic`. Allocates only if there is something to mask.
pub fn mask_text(text: &str) -> Cow<'_, str> {
    let spans = by_form(text, false);
    if spans.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(masked(text, spans, text.len()).0) }
}

/// What is secret by its form, in no order. Of a text that goes on, what its end cuts is secret if it may be.
fn by_form(text: &str, goes_on: bool) -> Vec<(usize, usize)> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let authorities = text.match_indices("://").map(|(at, found)| at + found.len());
    spans.extend(authorities.filter_map(|start| user_information(text, start, goes_on)));
    for scheme in ["bearer ", "basic "] {
        let found = starts_ignoring_case(text, scheme);
        spans.extend(found.filter_map(|at| credentials(text, at, at + scheme.len(), goes_on)));
    }
    parameters(text, &mut spans);
    spans
}

/// The first `most` bytes of a text with these parts masked, and where in the text they end: a masked part is not divided.
fn masked(text: &str, mut spans: Vec<(usize, usize)>, most: usize) -> (String, usize) {
    spans.sort_unstable();
    let mut masked = String::with_capacity(most);
    let mut shown = 0;
    for (start, end) in spans.into_iter().filter(|(start, _)| *start < most) {
        if start >= shown {
            masked.push_str(text.get(shown..start).unwrap_or_default());
            masked.push_str(MASKED);
        }
        shown = shown.max(end);
    }
    masked.push_str(text.get(shown..most).unwrap_or_default());
    (masked, shown.max(most))
}

/// The range from `start` to the next character that ends it, or to the end of the text.
fn until(text: &str, start: usize, ends: impl Fn(char) -> bool) -> (usize, usize) {
    let rest = text.get(start..).unwrap_or_default();
    (start, start + rest.find(ends).unwrap_or(rest.len()))
}

/// The user information of an authority that holds a password.
fn user_information(text: &str, start: usize, goes_on: bool) -> Option<(usize, usize)> {
    let (_, end) = until(text, start, |c| matches!(c, '/' | '?' | '#' | '"' | '\'') || c.is_whitespace());
    if goes_on && end == text.len() {
        return (start < end).then_some((start, end));
    }
    let user = text.get(start..end)?.rsplit_once('@')?.0;
    user.contains(':').then_some((start, start + user.len()))
}

/// What follows the name of an authentication scheme at `scheme`, if it is long enough for credentials: `basic auth` is none. The rest of a
/// literal that begins with the scheme is of any length, as in a condition of a rule.
fn credentials(text: &str, scheme: usize, start: usize, goes_on: bool) -> Option<(usize, usize)> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~' | '+' | '/' | '='));
    let (start, end) = until(text, start, ends);
    let is_literal = || {
        let quote = text.get(..scheme).and_then(|before| before.chars().next_back());
        let after = text.get(end..).unwrap_or_default().trim_start_matches('\\');
        quote.is_some_and(|quote| matches!(quote, '"' | '\'' | '`') && after.starts_with(quote))
    };
    let word = text.get(start..end).unwrap_or_default();
    let is_prose = || ["auth", "realm", "token"].iter().any(|known| word.eq_ignore_ascii_case(known));
    let is_cut = goes_on && end == text.len() && !word.is_empty();
    (is_cut || word.len() >= 8 || !word.is_empty() && is_literal() && !is_prose()).then_some((start, end))
}

/// The values of the query parameters with the names of secrets. A name starts after `?`, `&` or `;`, and `?` does not end it.
fn parameters(text: &str, spans: &mut Vec<(usize, usize)>) {
    let is_end = |c: char| matches!(c, '&' | '#' | '"' | '\'' | ';') || c.is_whitespace();
    let mut start = 0;
    let mut follows_separator = false;
    for part in text.split_inclusive(is_end) {
        let end = part.chars().next_back().filter(|last| is_end(*last));
        let part_end = start + part.len() - end.map_or(0, char::len_utf8);
        let named = text.get(start..part_end).unwrap_or_default();
        let named =
            if follows_separator { Some(named) } else { named.split_once('?').map(|(_, named)| named) };
        if let Some(value) = named.and_then(secret_value) {
            spans.push((part_end - value.len(), part_end));
        }
        start += part.len();
        follows_separator = matches!(end, Some('&' | ';'));
    }
}

/// The value after the first name of a secret, which starts at the start of the text or after a `?`. Every byte is looked at a constant
/// number of times: the names that end at the same `=` are judged together.
fn secret_value(mut text: &str) -> Option<&str> {
    loop {
        let (names, value) = text.split_once('=')?;
        if !value.is_empty() && has_secret(names) {
            return Some(value);
        }
        text = value.split_once('?')?.1;
    }
}

/// Whether the text, or what follows one of its `?`, is the name of a secret.
fn has_secret(names: &str) -> bool {
    if names.len() < MIN_NAME {
        return false;
    }
    // The longest name decides unless it is open and a shorter one, such as `rickey` in `gene?rickey`, has only a part of what makes it open.
    if is_secret(names) {
        return true;
    }
    let names = unescaped(names).to_ascii_lowercase();
    let plain_len = |name: &str| name.bytes().filter(u8::is_ascii_alphanumeric).count();
    let plain: String = names.chars().filter(char::is_ascii_alphanumeric).collect();
    let singular = plain.trim_end_matches('s');
    let Some(open) = OPEN_KEYS.iter().find(|open| singular.ends_with(**open)) else { return false };
    if PLACES.iter().any(|place| names.ends_with(place)) {
        return false;
    }
    let mut length = 0;
    for part in names.rsplit('?') {
        length += plain_len(part);
        let singular_len = length.saturating_sub(plain.len() - singular.len());
        if singular_len > "key".len() {
            return singular_len < open.len();
        }
    }
    false
}

/// Where `pattern`, which is ASCII in lower case, occurs at the start of a word.
fn starts_ignoring_case<'t>(text: &'t str, pattern: &'t str) -> impl Iterator<Item = usize> + 't {
    let bytes = text.as_bytes();
    let at_word = move |at: usize| at == 0 || bytes.get(at - 1).is_some_and(|b| !b.is_ascii_alphanumeric());
    let windows = bytes.windows(pattern.len()).enumerate();
    windows
        .filter(move |(at, w)| w.eq_ignore_ascii_case(pattern.as_bytes()) && at_word(*at))
        .map(|(at, _)| at)
}

/// A command line as it may be shown: values of flags with the names of secrets, and secrets in other arguments, are masked.
pub fn mask_arguments(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut hide_next = false;
    let mut is_named_address = false;
    let mask = |argument: String| {
        let is_flag = argument.starts_with('-');
        let follows_address = std::mem::replace(&mut is_named_address, false) && !is_flag;
        if std::mem::replace(&mut hide_next, false) && !is_flag {
            return MASKED.to_owned();
        }
        match argument.split_once('=') {
            Some((name, _)) if is_flag && is_secret(name) => format!("{name}={MASKED}"),
            None if is_flag && is_secret(&argument) => {
                hide_next = true;
                // A very long one counts as one of a secret, whatever it is.
                mask_text(&argument).into_owned()
            }
            Some((name, value)) if is_flag && (is_address(name) || value.contains("://")) => {
                format!("{name}={}", mask_address(value))
            }
            _ if follows_address || (!is_flag && argument.contains("://")) => {
                mask_address(&argument).into_owned()
            }
            _ => {
                is_named_address = is_flag && is_address(&argument);
                mask_text(&argument).into_owned()
            }
        }
    };
    arguments.into_iter().map(mask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_by_name() {
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "x-api-key",
            "Cookie",
            "set-cookie",
            "proxy-authorization",
            "apiKey",
            "request.api_key",
            "request.auth.raw_claims",
            "signingKeys",
            "--password",
            "dbCredentials",
            "submissionUrl",
            "submission_url",
            "x-ratelimit-key",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "PATH",
            "keyCount",
            "key",
            "generic_key",
            "sec-websocket-key",
            "monkeys.count",
            "--tls-key-file",
            "tokenUrl",
            "submissionUrlFile",
            "ratelimit.key",
            "",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn secrets_are_recognised_in_a_text() {
        for (text, shown) in [
            ("redis://ann:hunter2@db:6379/0", "redis://***@db:6379/0"),
            ("a b://c:d:e@f g://h@i", "a b://***@f g://h@i"),
            ("postgres://ann:pw@db/x", "postgres://***@db/x"),
            ("a=http://u:p@h b", "a=http://***@h b"),
            ("http://host/?q=1&token=abc&x=2#t", "http://host/?q=1&token=***&x=2#t"),
            ("/login?api_key=abc", "/login?api_key=***"),
            ("/x?a=1;token=abc;b=2", "/x?a=1;token=***;b=2"),
            ("/x?%74oken=abc&q=1", "/x?%74oken=***&q=1"),
            ("/x?a=1&api%5Fkey=abc", "/x?a=1&api%5Fkey=***"),
            ("/x?a=%zz&t%6Fken%=abc%", "/x?a=%zz&t%6Fken%=***"),
            ("it was bEarer abc.def-123, no", "it was bEarer ***, no"),
            ("Basic dXNlcjpwYXNz", "Basic ***"),
            (r#"a != "Bearer abc" && b"#, r#"a != "Bearer ***" && b"#),
            (r#"{"match": "a != \"basic x\""}"#, r#"{"match": "a != \"basic ***\""}"#),
            ("a == `Bearer x.y`", "a == `Bearer ***`"),
            ("?token=Bearer 12345678", "?token=*** ***"),
            ("\"https://a:b@c/d\"", "\"https://***@c/d\""),
        ] {
            assert_eq!(mask_text(text), shown);
        }
        for text in [
            "",
            "basic auth",
            "a \"basic auth\"",
            "\"bearer \"",
            "\"bearer abc of",
            "a://b@c",
            "http://host:80/a@b:c",
            "user@host",
            "https://ann@host/",
            "a:b@c",
            "://",
            "?token=",
            "forbearer 12345678",
            "x?y",
            "ä://ü?ö=&",
        ] {
            assert!(matches!(mask_text(text), Cow::Borrowed(_)), "{text}");
        }
    }

    /// [`parameters`] as it is defined: what follows each `?`, `&` and `;`, which looks at a text of `?` again and again.
    fn every_parameter(text: &str) -> Vec<(usize, usize)> {
        let is_end = |c: char| matches!(c, '&' | '#' | '"' | '\'' | ';') || c.is_whitespace();
        let parameter = |(at, _): (usize, &str)| {
            let (_, end) = until(text, at + 1, is_end);
            let (name, value) = text.get(at + 1..end)?.split_once('=')?;
            (!value.is_empty() && is_secret(name)).then_some((end - value.len(), end))
        };
        text.match_indices(['?', '&', ';']).filter_map(parameter).collect()
    }

    /// The bytes that the spans cover.
    fn covered(text: &str, spans: &[(usize, usize)]) -> Vec<bool> {
        (0..text.len()).map(|at| spans.iter().any(|(start, end)| (*start..*end).contains(&at))).collect()
    }

    #[test]
    fn parameters_are_found_in_one_pass_as_from_every_mark() {
        const PIECES: [&str; 44] = [
            "?",
            "?",
            "?",
            "&",
            "=",
            "=",
            "#",
            "\"",
            "'",
            ";",
            " ",
            "\u{2003}",
            "key",
            "k",
            "ey",
            "s",
            "S",
            "api",
            "token",
            "to",
            "ken",
            "path",
            "file",
            "generic",
            "gene",
            "ric",
            "public",
            "-",
            "_",
            "ö",
            "url",
            "a",
            "://",
            "@",
            "token=x",
            "?key=x",
            "?rickey=x",
            "?api_key=",
            "generic?key=x",
            "&gene?rickey=x",
            "%",
            "%74",
            "%6Bey=x",
            "%3f",
        ];
        let mut state = 1_u64;
        let mut next = |bound: usize| {
            // The constants of Knuth's MMIX.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % bound
        };
        let mut found = 0;
        for _ in 0..100_000 {
            let text: String = (0..1 + next(14)).map(|_| PIECES[next(PIECES.len())]).collect();
            let (mut spans, expected) = (Vec::new(), every_parameter(&text));
            parameters(&text, &mut spans);
            assert_eq!(covered(&text, &spans), covered(&text, &expected), "{text}");
            found += usize::from(!expected.is_empty());
        }
        assert!(found > 1000, "{found} texts with a secret");
    }

    #[test]
    fn long_texts_are_masked_in_linear_time() {
        // Each would take minutes if what follows a mark were looked at again from the next one.
        for piece in [
            "?",
            "&",
            "=",
            "?=",
            "&=",
            "?a=",
            "?token=",
            ";token=",
            "?%74",
            "%",
            "?key",
            "://",
            "@",
            ":",
            "://@",
            "://a:b@",
            "a://b:",
            "bearer ",
            "Basic ",
            "bearer bearer",
            "\"",
            "'",
            "?s",
            "?file=",
            "generic?key=",
            "{",
            "token: x, ",
            "{token: x, ",
            "\"token\": \"x\" ",
            "token: [",
            "token: ",
            "- ",
            " ",
            "\\",
            "\n",
        ] {
            let text = piece.repeat((256 << 10) / piece.len());
            let masked = mask_text(&text);
            assert!(masked.len() <= 4 * text.len(), "{piece}");
            drop(mask_source(&text));
        }
    }

    #[test]
    fn secrets_are_masked_at_any_depth() {
        let mut value = serde_json::json!({
            "apiKey": "x", "list": [{"authToken": "y", "name": "z"}], "keyCount": 3,
            "tokens": ["a", {"name": "b"}], "url": "redis://u:p@h", "password": "",
            "address": "u:PW@h:1", "providerUrls": ["http://h/?k=S"], "user": "a@b",
            "accessToken": {"v": "hunter2", "n": [{"w": "hunter3"}]}, "anchor": "hunter2", "other": "hunter20",
            "headers": [{"value": "v", "name": "Authorization"}, {"key": "team", "value": "w"}],
            "providerUrl": "https://TOKEN@h/p?sig=S&version=1",
        });
        mask_document(&mut value);
        let masked = serde_json::json!({
            "apiKey": "***", "list": [{"authToken": "***", "name": "z"}], "keyCount": 3,
            "tokens": ["***", {"name": "***"}], "url": "redis://***@h", "password": "",
            "address": "***@h:1", "providerUrls": ["http://h/?k=***"], "user": "a@b",
            "accessToken": {"v": "***", "n": [{"w": "***"}]}, "anchor": "***", "other": "hunter20",
            "headers": [{"value": "***", "name": "Authorization"}, {"key": "team", "value": "w"}],
            "providerUrl": "https://***@h/p?sig=***&version=1",
        });
        assert_eq!(value, masked);
    }

    #[test]
    fn an_object_in_an_annotation_is_masked() {
        let applied = r#"{"spec":{"params":{"accessToken":"hunter2","token":{"v":"hunter5"}},"url":"http://u:hunter3@h/"}}"#;
        let mut value = serde_json::json!({"applied": applied, "token": "hunter4", "team": "payments"});
        mask_annotations(&mut value);
        assert!(!value.to_string().contains("hunter") && value["team"] == "payments", "{value}");
        assert_eq!(value["token"], "***");
        let once = value.clone();
        mask_annotations(&mut value);
        assert_eq!(value, once, "what is masked stays as it is");
    }

    #[test]
    fn known_secrets_are_masked_anywhere() {
        let secrets = ["Bearer abc.def-123", "hunter2", "abc"].map(str::to_owned);
        for (text, shown) in [
            ("hunter2 is not whitelisted", "*** is not whitelisted"),
            ("\"abc\"", "***"),
            ("abc", "***"),
            ("abcd is no secret", "abcd is no secret"),
            ("got Bearer abc.def-123 from http://u:p@h", "got *** from http://***@h"),
            ("", ""),
        ] {
            assert_eq!(mask_known(text, &secrets), shown);
        }
    }

    #[test]
    fn arguments_are_masked() {
        let mask = |text: &str| mask_arguments(text.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(
            mask("mixer --password hunter2 --api-key=x --tls-key-file k --store http://u:p@h/ --token --v 1"),
            "mixer --password *** --api-key=*** --tls-key-file k --store http://***@h/ --token --v 1"
        );
        assert_eq!(
            mask(
                "--zookeeper-address u:PW@h:1 --eureka-address=TOKEN@h:1 --trace_zipkin_url=http://h/?k=S --x http://h/?k=S a@b"
            ),
            "--zookeeper-address ***@h:1 --eureka-address=***@h:1 --trace_zipkin_url=http://h/?k=*** --x http://h/?k=*** a@b"
        );
    }

    #[test]
    fn a_value_is_masked_by_its_name_or_its_form() {
        assert_eq!(mask_value("cookie", "a=b"), MASKED);
        assert_eq!(mask_value("cookie", ""), "");
        assert_eq!(mask_value("referer", "http://a:b@c"), "http://***@c");
    }
}
